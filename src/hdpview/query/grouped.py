"""Counts of all groups at once: one cell per combination of codes of the grouping attributes.

Inside a block a filter's share is spread over the block's codes evenly, or in proportion to a base measure. So a block has one weight
for all groups it covers, times the group's own share of the base: a rectangle of the grid of groups, painted in one go. Groups of a
filter that speaks of a grouping attribute too fall into classes: codes that every box of the filter treats alike.
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
from hdpview.view.base import Base
from hdpview.view.blocks import Blocks, Level

Floats = NDArray[np.float64]
MAX_GROUPS = 250_000
_MAX_CLASSES = 24  # combinations of classes; beyond, groups are asked one by one


def share(level: Level, a: int, prefix: Floats) -> Floats:
    """Weighted share of each block in one attribute, shape (n_blocks,). `prefix`: running sums over codes, of the base's weights."""
    found: Floats = (prefix[level.upper[a]] - prefix[level.lower[a]]) * level.inverse_share[a]
    return found


def code_shares(schema: Schema, a: int, condition: Condition | None) -> Floats:
    """Share of each code that satisfies a condition, shape (size,)."""
    return np.ones(schema.sizes[a]) if condition is None else np.diff(prefix_weights(schema.attributes[a], condition))


def running(shares: Floats, a: int, base: Base | None) -> Floats:
    """Running sums over codes of their shares, weighed by the base, shape (size + 1,)."""
    return np.concatenate([[0.0], np.cumsum(shares if base is None else shares * base.weights[a])])


def box_weight(level: Level, schema: Schema, base: Base | None, box: Box, without: Sequence[int] = ()) -> Floats:
    """Share of each block that lies in a box, as far as attributes other than `without` tell. Shape (n_blocks,)."""
    weight = np.ones(len(level.counts))
    for a, condition in box.items():
        if a not in without:
            prefix = prefix_weights(schema.attributes[a], condition)
            weight *= share(level, a, prefix if base is None else running(np.diff(prefix), a, base))
    return weight


@dataclass(frozen=True, eq=False)
class CodeClass:
    """Groups that every box treats alike. cells: mask over the grid, None for all; coefficients: share per box, shape (n_boxes,)."""

    cells: NDArray[np.bool_] | None
    coefficients: Floats


def code_classes(schema: Schema, boxes: Sequence[Box], attributes: Sequence[int]) -> list[CodeClass] | None:
    """Classes of the grid of codes of `attributes`, those without weight left out; None where there are too many."""
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
    """Weight of a block in one code of each of these attributes, per unit of the base. Shape (n_blocks,)."""
    found: Floats = np.prod([level.inverse_share[a] for a in attributes], axis=0)
    return found


def rectangles(level: Level, schema: Schema, attributes: Sequence[int]) -> Rectangles:
    """The groups that each block covers."""
    chosen = list(attributes)
    return Rectangles(
        level.lower[chosen].astype(np.int64), level.upper[chosen].astype(np.int64), tuple(schema.sizes[a] for a in attributes)
    )


def base_of_groups(base: Base | None, attributes: Sequence[int]) -> Floats | None:
    """The base's weight of every group, shape (n_groups,); None for an even base."""
    if base is None:
        return None
    found = np.ones(1)
    for a in attributes:
        found = np.multiply.outer(found, base.weights[a]).reshape(-1)
    return found


def check_number_of_groups(n: int) -> None:
    if n > MAX_GROUPS:
        raise QueryError(f"That makes {n:,} groups; the limit is {MAX_GROUPS:,}. Group by fewer attributes or by wider bins.")


def summarise_groups(blocks: Blocks, schema: Schema, boxes: Sequence[Box], attributes: Sequence[int]) -> Summary | None:
    """Summary of the count in every group, in code order, the last attribute running fastest; None where classes are too many.

    boxes: the filter, disjoint. attributes: distinct numbers of the grouping attributes.
    """
    check_number_of_groups(math.prod(schema.sizes[a] for a in attributes))
    classes = code_classes(schema, boxes, attributes)
    return None if classes is None else _Painter(blocks, schema, boxes, attributes, classes).summary()


@dataclass(frozen=True, eq=False)
class _Painter:
    """Paints the counts of one filter."""

    blocks: Blocks
    schema: Schema
    boxes: Sequence[Box]
    attributes: Sequence[int]
    classes: Sequence[CodeClass]

    def summary(self) -> Summary:
        finest, *coarser = self.blocks.levels
        of_coarser = np.array([self._coarser(level) for level in coarser]).reshape(len(coarser), 2, -1)
        return Summary(**self._finest(finest), coarser_estimates=of_coarser[:, 0], coarser_spreads=of_coarser[:, 1])

    def _weighted(self, level: Level) -> Iterator[tuple[NDArray[np.bool_] | slice, Floats]]:
        """Cells of each class, and the weight that each block has in those of them that it covers, per unit of the base."""
        weights = np.zeros((len(self.classes), len(level.counts)))
        for i, box in enumerate(self.boxes):
            of_box = box_weight(level, self.schema, self.blocks.base, box, without=self.attributes)
            for weight, one in zip(weights, self.classes, strict=True):
                if one.coefficients[i]:
                    weight += one.coefficients[i] * of_box
        weights *= group_shares(level, self.attributes)
        for one, weight in zip(self.classes, weights, strict=True):
            yield slice(None) if one.cells is None else one.cells, weight

    def _finest(self, level: Level) -> dict[str, Floats]:
        grid, base = rectangles(level, self.schema, self.attributes), base_of_groups(self.blocks.base, self.attributes)
        n_cells, noisy = math.prod(grid.shape), self.blocks.noisy_counts
        names = ("raw", "consistent", "squares", "fourths", "touched_sum", "n_touched", "full_sum", "n_full")
        sums, largest, spread = np.zeros((len(names), n_cells)), np.zeros(n_cells), np.zeros(n_cells)
        single = ((grid.upper - grid.lower) == 1).all(axis=0)
        place = np.ravel_multi_index(tuple(grid.lower), grid.shape)
        for cells, weight in self._weighted(level):
            touched, squares = weight > 0, weight**2
            full = single & (weight * (1.0 if base is None else base[place]) > FULL)  # else others of its codes lie outside the group
            columns = [weight * noisy, weight * level.counts, squares, squares**2, noisy * touched, touched, noisy * full, full]
            sums[:, cells] = grid.sums(np.stack(columns).astype(np.float64))[:, cells]
            largest[cells] = grid.maxima(weight)[cells]
            spread[cells] = _spread(grid, weight, level.counts, base)[cells]
        found = dict(zip(names, sums, strict=True))
        if base is not None:
            for name, power in (("raw", 1), ("consistent", 1), ("squares", 2), ("fourths", 4)):
                found[name] *= base**power
            largest *= base
        return _tidied({**found, "largest": largest, "spread": spread})

    def _coarser(self, level: Level) -> Floats:
        """Estimates and spreads of a coarser level, shape (2, n_groups)."""
        grid, base = rectangles(level, self.schema, self.attributes), base_of_groups(self.blocks.base, self.attributes)
        found = np.zeros((2, math.prod(grid.shape)))
        for cells, weight in self._weighted(level):
            estimate = grid.sums((weight * level.counts)[None])[0] * (1.0 if base is None else base)
            found[:, cells] = np.stack([estimate, _spread(grid, weight, level.counts, base)])[:, cells]
        return np.maximum(found, 0.0)


_SERIES = (1.0, -0.75, -0.09375, -0.0390625, -0.02197265625, -0.0142822265625)  # of (1 − w)^¾ in powers of w


def _spread(grid: Rectangles, weight: Floats, counts: Floats, base: Floats | None) -> Floats:
    """`Summary.spread` of every group. With a base, weights differ within a rectangle, and a series takes the place of (1 − w)^¾."""
    if base is None:
        even: Floats = grid.sums((spread_weights(weight) * counts)[None])[0]
        return even
    columns = grid.sums(np.stack([coefficient * weight ** (0.75 + k) * counts for k, coefficient in enumerate(_SERIES)]))
    found: Floats = sum((column * base ** (0.75 + k) for k, column in enumerate(columns)), np.zeros(len(base)))
    return found


def _tidied(found: dict[str, Floats]) -> dict[str, Floats]:
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
