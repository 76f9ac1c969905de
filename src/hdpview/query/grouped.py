"""Counts of all groups at once: one cell per combination of codes of the grouping attributes.

Groups that a block covers get weights in one go: see `cover`. Groups of a filter that speaks of a grouping
    attribute too fall into
classes: codes that every box of the filter treats alike. Within a class weights are as they would be without
    that condition.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Schema
from hdpview.errors import QueryError
from hdpview.query import base_noise
from hdpview.query.boxes import Box
from hdpview.query.conditions import Condition, prefix_weights
from hdpview.query.cover import Column, Cover, covers
from hdpview.query.summary import FULL, Summary, spread_weights
from hdpview.view.base import Base
from hdpview.view.blocks import Blocks, Level
from hdpview.view.within import TOUCHED

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
MAX_GROUPS = 250_000
_MOST_REMEMBERED = 20_000_000  # shares, 160 MB
_MAX_CLASSES = 24  # combinations of classes; beyond, groups are asked one by one


def share(level: Level, a: int, prefix: Floats) -> Floats:
    """Weighted share of each block's codes of one attribute, shape (n_blocks,). `prefix`: running sums of
    weights over codes.
    """
    found: Floats = (prefix[level.upper[a]] - prefix[level.lower[a]]) * level.inverse_width[a]
    return found


def code_shares(schema: Schema, a: int, condition: Condition | None) -> Floats:
    """Share of each code that satisfies a condition, shape (size,)."""
    return (
        np.ones(schema.sizes[a])
        if condition is None
        else np.diff(prefix_weights(schema.attributes[a], condition))
    )


def running(weights: Floats) -> Floats:
    """Running sums of weights over codes, shape (size + 1,)."""
    return np.concatenate([[0.0], np.cumsum(weights)])


class Shares:
    """Shares of the blocks of one level, remembered by condition: groups of a statement have most of their
    conditions in common.
    """

    def __init__(self, level: Level, schema: Schema) -> None:
        self.level, self.schema = level, schema
        self._known: dict[tuple[int, Condition], Floats] = {}

    def of(self, a: int, condition: Condition) -> Floats:
        """Share of each block's codes of one attribute that satisfy a condition, shape (n_blocks,)."""
        key = (a, condition)
        if key not in self._known:
            if len(self._known) * len(self.level.counts) > _MOST_REMEMBERED:
                self._known.clear()
            self._known[key] = share(self.level, a, prefix_weights(self.schema.attributes[a], condition))
        return self._known[key]

    def of_box(self, box: Box, without: Sequence[int] = ()) -> Floats:
        """Share of each block that lies in a box, as far as attributes other than `without` tell, where
        records spread evenly.
        """
        weight = np.ones(len(self.level.counts))
        for a, condition in box.items():
            if a not in without:
                weight *= self.of(a, condition)
        return weight

    def prefixes(self, base: Base, box: Box, without: Sequence[int] = ()) -> dict[int, Floats]:
        """Attribute → running sums over its codes of what a box asks for, in shares of the base; attributes
        `without` left out.
        """
        return {
            a: base.prefix(a, code_shares(self.schema, a, condition))
            for a, condition in box.items()
            if a not in without
        }

    def in_blocks(self, box: Box) -> tuple[Floats, Flags]:
        """Share of each block that lies in a box, and whether the box covers it, shape (n_blocks,) each."""
        if self.level.within:
            found = [within.shares(self.prefixes(within.base, box)) for within in self.level.within]
            return np.concatenate([share for share, _ in found]), np.concatenate(
                [covered for _, covered in found]
            )
        of_box = self.of_box(box)
        return of_box, of_box > FULL

    def expected(self, box: Box, a: int, functions: Sequence[Floats], cover: Cover | None) -> list[Floats]:
        """Means over each block of functions of one attribute's codes, 0 for records outside the box as far
        as other attributes tell.

        functions: shape (size,) each. With a cover: of what lies in each of its rectangles, as densities.
        """
        without = (a, *([] if cover is None else cover.attributes))
        if not self.level.within:
            rest = self.of_box(box, without) * (1.0 if cover is None else cover.unit)
            return [rest * share(self.level, a, running(function)) for function in functions]
        found = []
        for function in functions:
            parts = []
            for within in self.level.within if cover is None else (cover.within,):
                assert within is not None
                prefixes = {
                    **self.prefixes(within.base, box, without),
                    a: running(function * within.base.shape[a]),
                }
                parts.append(
                    within.expected(prefixes) if cover is None else cover.expected(prefixes) * cover.unit
                )
            found.append(np.concatenate(parts))
        return found

    def in_cover(self, cover: Cover, box: Box) -> tuple[Floats, Flags]:
        """Density of a box in each rectangle, and whether it covers the block, as far as attributes other
        than the cover's tell.
        """
        if cover.within is None:
            of_box = self.of_box(box, without=cover.attributes)
            return of_box * cover.unit, of_box > FULL
        prefixes = self.prefixes(cover.within.base, box, cover.attributes)
        touched, covered = (flags[cover.block - cover.within.first] for flags in cover.within.flags(prefixes))
        return np.where(touched, np.maximum(cover.expected(prefixes) * cover.unit, TOUCHED), 0.0), covered


@dataclass(frozen=True, eq=False)
class CodeClass:
    """Groups that every box treats alike. cells: mask over the grid, None for all; coefficients: share per
    box, shape (n_boxes,).
    """

    cells: NDArray[np.bool_] | None
    coefficients: Floats


def code_classes(schema: Schema, boxes: Sequence[Box], attributes: Sequence[int]) -> list[CodeClass] | None:
    """Classes of the grid of codes of `attributes`, those without weight left out; None where there are too
    many.
    """
    if not boxes:
        return []
    per_axis = [_classes_of_axis(schema, boxes, a) for a in attributes]
    if math.prod(len(shares) for _, shares in per_axis) > _MAX_CLASSES:
        return None
    found = []
    for chosen in itertools.product(*(range(len(shares)) for _, shares in per_axis)):
        coefficients = np.ones(len(boxes))
        cells = np.ones(1, dtype=bool)
        for (class_of_code, shares), k in zip(per_axis, chosen, strict=True):
            coefficients = coefficients * shares[k]
            cells = np.logical_and.outer(cells, class_of_code == k).reshape(-1)
        if coefficients.any():
            found.append(CodeClass(None if cells.all() else cells, coefficients))
    return found


def _classes_of_axis(schema: Schema, boxes: Sequence[Box], a: int) -> tuple[NDArray[np.int64], Floats]:
    """Class of each code, shape (size,), and the share of a class's codes in each box, shape (n_classes,
    n_boxes).
    """
    distinct: dict[Condition | None, int] = {}
    row_of_box = [distinct.setdefault(box.get(a), len(distinct)) for box in boxes]
    rows = [code_shares(schema, a, condition) for condition in distinct]
    shares, class_of_code = np.unique(np.round(np.array(rows), 12), axis=1, return_inverse=True)
    return class_of_code.reshape(-1).astype(np.int64), shares.T[:, row_of_box].astype(np.float64)


def check_number_of_groups(n: int) -> None:
    if n > MAX_GROUPS:
        raise QueryError(
            f"That makes {n:,} groups; the limit is {MAX_GROUPS:,}. Group by fewer attributes or by wider bins."
        )


def shares_of_levels(blocks: Blocks, schema: Schema) -> list[Shares]:
    """Memories of shares, one per level: pass them on where many summaries have conditions in common."""
    return [Shares(level, schema) for level in blocks.levels]


def summarise_groups(
    blocks: Blocks,
    schema: Schema,
    boxes: Sequence[Box],
    attributes: Sequence[int],
    shares: Sequence[Shares] | None = None,
) -> Summary | None:
    """Summary of the count in every group, in code order, the last attribute running fastest; None where
    classes are too many.

    boxes: the filter, disjoint. attributes: distinct numbers of the grouping attributes.
    """
    check_number_of_groups(math.prod(schema.sizes[a] for a in attributes))
    classes = code_classes(schema, boxes, attributes)
    if classes is None:
        return None
    return _Painter(blocks, schema, boxes, attributes, classes).summary(
        shares or shares_of_levels(blocks, schema)
    )


@dataclass(frozen=True, eq=False)
class _Painter:
    """Paints the counts of one filter."""

    blocks: Blocks
    schema: Schema
    boxes: Sequence[Box]
    attributes: Sequence[int]
    classes: Sequence[CodeClass]

    def summary(self, shares: Sequence[Shares]) -> Summary:
        finest, *coarser = shares
        of_coarser = np.array([self._coarser(level) for level in coarser]).reshape(len(coarser), 2, -1)
        coarse = {"coarser_estimates": of_coarser[:, 0], "coarser_spreads": of_coarser[:, 1]}
        return Summary(**self._finest(finest), **coarse, **self._of_base()._asdict())

    def _of_base(self) -> base_noise.OfBase:
        bases = base_noise.noisy_bases(self.blocks)
        functions = [
            {a: code_shares(self.schema, a, condition) for a, condition in box.items()}
            for box in self.boxes
            if bases
        ]
        return base_noise.of_groups(
            bases, functions, [None] * len(functions), self.attributes, self.schema.sizes
        )

    def _weighted(self, shares: Shares) -> Iterator[tuple[Cover, Flags | slice, Floats, Flags]]:
        """Rectangles, cells of each class, the density of each rectangle in those that it covers, and whether
        one box covers it there.
        """
        for cover in covers(shares.level, self.schema.sizes, self.attributes):
            shape = (len(self.classes), len(cover.block))
            densities, full = np.zeros(shape), np.zeros(shape, dtype=bool)
            for i, box in enumerate(self.boxes):
                of_box, covered = shares.in_cover(cover, box)
                for k, one in enumerate(self.classes):
                    if one.coefficients[i]:
                        densities[k] += one.coefficients[i] * of_box
                        full[k] |= covered & cover.single & (one.coefficients[i] == 1.0)
            for k, one in enumerate(self.classes):
                yield cover, slice(None) if one.cells is None else one.cells, densities[k], full[k]

    def _finest(self, shares: Shares) -> dict[str, Floats]:
        n_groups, all_noisy = (
            math.prod(self.schema.sizes[a] for a in self.attributes),
            self.blocks.noisy_counts.astype(np.float64),
        )
        names = (
            "raw",
            "consistent",
            "squares",
            "fourths",
            "full_sum",
            "n_full",
            "touched_sum",
            "n_touched",
            "spread",
        )
        sums, largest = np.zeros((len(names), n_groups)), np.zeros(n_groups)
        for cover, cells, density, full in self._weighted(shares):
            noisy, counts = all_noisy[cover.block], shares.level.counts[cover.block]
            squares, touched = density**2, density > 0
            columns = [(density * noisy, 1.0), (density * counts, 1.0), (squares, 2.0), (squares**2, 4.0)]
            columns += [
                (column.astype(np.float64), 0.0) for column in (noisy * full, full, noisy * touched, touched)
            ]
            sums[:, cells] += _with_spread(cover, density, counts, columns)[:, cells]
            largest[cells] = np.maximum(largest[cells], cover.maxima(density)[cells])
        return tidied({**dict(zip(names, sums, strict=True)), "largest": largest})

    def _coarser(self, shares: Shares) -> Floats:
        """Estimates and spreads of a coarser level, shape (2, n_groups)."""
        found = np.zeros((2, math.prod(self.schema.sizes[a] for a in self.attributes)))
        for cover, cells, density, _ in self._weighted(shares):
            counts = shares.level.counts[cover.block]
            found[:, cells] += _with_spread(cover, density, counts, [(density * counts, 1.0)])[:, cells]
        return np.maximum(found, 0.0)


def _with_spread(cover: Cover, density: Floats, counts: Floats, columns: list[Column]) -> Floats:
    """Sums of columns in each group, and the spread, shape (n_columns + 1, n_groups)."""
    if cover.within is None:
        return cover.sums([*columns, (spread_weights(density) * counts, 0.0)])
    return np.concatenate([cover.sums(columns), cover.spreads(density, density, counts)[None]])


def tidied(found: dict[str, Floats]) -> dict[str, Floats]:
    """Running sums leave rounding behind, where nothing is and in powers that are small beside their
    neighbours: taken away.
    """
    largest, n_touched = found["largest"], np.rint(found["n_touched"])
    for name in ("raw", "consistent", "spread"):
        found[name][n_touched == 0] = 0.0
    for name in ("consistent", "spread"):
        np.maximum(found[name], 0.0, out=found[name])
    found["n_touched"] = n_touched
    found["squares"] = np.clip(found["squares"], largest**2, n_touched * largest**2)
    found["fourths"] = np.clip(found["fourths"], largest**4, found["squares"] * largest**2)
    return found
