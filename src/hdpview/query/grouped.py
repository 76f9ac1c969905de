"""Counts of all groups at once: one cell per combination of codes of the grouping attributes.

Inside a block a filter's share is spread evenly over the block's codes, so a block gives the same weight to each group it covers: a
rectangle of the grid of groups, painted in one go. Groups of a filter that speaks of a grouping attribute too fall into classes:
codes that every box of the filter treats alike. Within a class weights are even again.
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
from hdpview.query.boxes import Box
from hdpview.query.conditions import Condition, prefix_weights
from hdpview.query.paint import Rectangles
from hdpview.query.summary import FULL, Summary, spread_weights
from hdpview.view.blocks import Blocks, Level

Floats = NDArray[np.float64]
MAX_GROUPS = 250_000
_MOST_REMEMBERED = 20_000_000  # shares, 160 MB
_MAX_CLASSES = 24  # combinations of classes; beyond, groups are asked one by one


def share(level: Level, a: int, prefix: Floats) -> Floats:
    """Weighted share of each block's codes of one attribute, shape (n_blocks,). `prefix`: running sums of weights over codes."""
    found: Floats = (prefix[level.upper[a]] - prefix[level.lower[a]]) * level.inverse_width[a]
    return found


def code_shares(schema: Schema, a: int, condition: Condition | None) -> Floats:
    """Share of each code that satisfies a condition, shape (size,)."""
    return np.ones(schema.sizes[a]) if condition is None else np.diff(prefix_weights(schema.attributes[a], condition))


def running(weights: Floats) -> Floats:
    """Running sums of weights over codes, shape (size + 1,)."""
    return np.concatenate([[0.0], np.cumsum(weights)])


class Shares:
    """Shares of the blocks of one level, remembered by condition: groups of a statement have most of their conditions in common."""

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
        """Share of each block that lies in a box, as far as attributes other than `without` tell. Shape (n_blocks,)."""
        weight = np.ones(len(self.level.counts))
        for a, condition in box.items():
            if a not in without:
                weight *= self.of(a, condition)
        return weight


@dataclass(frozen=True, eq=False)
class CodeClass:
    """Groups that every box treats alike. cells: mask over the grid, None for all; coefficients: share per box, shape (n_boxes,)."""

    cells: NDArray[np.bool_] | None
    coefficients: Floats


def code_classes(schema: Schema, boxes: Sequence[Box], attributes: Sequence[int]) -> list[CodeClass] | None:
    """Classes of the grid of codes of `attributes`, those without weight left out; None where there are too many."""
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
    """Class of each code, shape (size,), and the share of a class's codes in each box, shape (n_classes, n_boxes)."""
    distinct: dict[Condition | None, int] = {}
    row_of_box = [distinct.setdefault(box.get(a), len(distinct)) for box in boxes]
    rows = [code_shares(schema, a, condition) for condition in distinct]
    shares, class_of_code = np.unique(np.round(np.array(rows), 12), axis=1, return_inverse=True)
    return class_of_code.reshape(-1).astype(np.int64), shares.T[:, row_of_box].astype(np.float64)


def group_shares(level: Level, attributes: Sequence[int]) -> Floats:
    """Share of a block in one combination of codes of these attributes, shape (n_blocks,)."""
    found: Floats = np.prod([level.inverse_width[a] for a in attributes], axis=0)
    return found


def rectangles(level: Level, schema: Schema, attributes: Sequence[int]) -> Rectangles:
    """The groups that each block covers."""
    chosen = list(attributes)
    return Rectangles(
        level.lower[chosen].astype(np.int64), level.upper[chosen].astype(np.int64), tuple(schema.sizes[a] for a in attributes)
    )


def check_number_of_groups(n: int) -> None:
    if n > MAX_GROUPS:
        raise QueryError(f"That makes {n:,} groups; the limit is {MAX_GROUPS:,}. Group by fewer attributes or by wider bins.")


def shares_of_levels(blocks: Blocks, schema: Schema) -> list[Shares]:
    """Memories of shares, one per level: pass them on where many summaries have conditions in common."""
    return [Shares(level, schema) for level in blocks.levels]


def summarise_groups(
    blocks: Blocks, schema: Schema, boxes: Sequence[Box], attributes: Sequence[int], shares: Sequence[Shares] | None = None
) -> Summary | None:
    """Summary of the count in every group, in code order, the last attribute running fastest; None where classes are too many.

    boxes: the filter, disjoint. attributes: distinct numbers of the grouping attributes.
    """
    check_number_of_groups(math.prod(schema.sizes[a] for a in attributes))
    classes = code_classes(schema, boxes, attributes)
    if classes is None:
        return None
    return _Painter(blocks, schema, boxes, attributes, classes).summary(shares or shares_of_levels(blocks, schema))


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
        return Summary(**self._finest(finest), coarser_estimates=of_coarser[:, 0], coarser_spreads=of_coarser[:, 1])

    def _weighted(self, shares: Shares) -> Iterator[tuple[NDArray[np.bool_] | slice, Floats, NDArray[np.bool_]]]:
        """Cells of each class, the weight of each block in those of them that it covers, and whether one box covers it there."""
        shape, of_group = (len(self.classes), len(shares.level.counts)), group_shares(shares.level, self.attributes)
        weights, full = np.zeros(shape), np.zeros(shape, dtype=bool)
        for i, box in enumerate(self.boxes):
            of_box = shares.of_box(box, without=self.attributes) * of_group
            for k, one in enumerate(self.classes):
                if one.coefficients[i]:
                    weight = one.coefficients[i] * of_box
                    weights[k] += weight
                    full[k] |= weight > FULL
        for k, one in enumerate(self.classes):
            yield slice(None) if one.cells is None else one.cells, weights[k], full[k]

    def _finest(self, shares: Shares) -> dict[str, Floats]:
        level = shares.level
        grid, noisy = rectangles(level, self.schema, self.attributes), self.blocks.noisy_counts.astype(np.float64)
        names = ("raw", "consistent", "squares", "fourths", "full_sum", "n_full", "touched_sum", "n_touched", "spread")
        sums, largest = np.zeros((len(names), math.prod(grid.shape))), np.zeros(math.prod(grid.shape))
        for cells, weight, full in self._weighted(shares):
            squares, touched = weight**2, weight > 0
            columns = [weight * noisy, weight * level.counts, squares, squares**2, noisy * full, full, noisy * touched, touched]
            columns.append(spread_weights(weight) * level.counts)
            sums[:, cells] = grid.sums(np.stack(columns).astype(np.float64))[:, cells]
            largest[cells] = grid.maxima(weight)[cells]
        return tidied({**dict(zip(names, sums, strict=True)), "largest": largest})

    def _coarser(self, shares: Shares) -> Floats:
        """Estimates and spreads of a coarser level, shape (2, n_groups)."""
        level = shares.level
        grid = rectangles(level, self.schema, self.attributes)
        found = np.zeros((2, math.prod(grid.shape)))
        for cells, weight, _ in self._weighted(shares):
            found[:, cells] = grid.sums(np.stack([weight * level.counts, spread_weights(weight) * level.counts]))[:, cells]
        return np.maximum(found, 0.0)


def tidied(found: dict[str, Floats]) -> dict[str, Floats]:
    """Running sums leave rounding behind, where nothing is and in powers that are small beside their neighbours: taken away."""
    largest, n_touched = found["largest"], np.rint(found["n_touched"])
    for name in ("raw", "consistent", "spread"):
        found[name][n_touched == 0] = 0.0
    for name in ("consistent", "spread"):
        np.maximum(found[name], 0.0, out=found[name])
    found["n_touched"] = n_touched
    found["squares"] = np.clip(found["squares"], largest**2, n_touched * largest**2)
    found["fourths"] = np.clip(found["fourths"], largest**4, found["squares"] * largest**2)
    return found
