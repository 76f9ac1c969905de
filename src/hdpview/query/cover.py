"""The groups that blocks cover, as rectangles on the grid of groups, and sums over all that cover a group.

Where records spread evenly, a block gives the same weight to each group it covers: one rectangle. Where a
    base says how they spread,
the weights in a block and one combination of bins of the grouping attributes are proportional to the shape of
    their codes: a rectangle
for each such combination, in which every weight is a number, the *density*, times the shape of the group.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from hdpview.query.paint import Rectangles
from hdpview.query.summary import FULL
from hdpview.view.blocks import Blocks, Level
from hdpview.view.within import Within

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Column = tuple[Floats, float]  # a value per rectangle, and the power of the shape that it is multiplied by

_MOST_RECTANGLES = 1_000_000  # painted at once
_MOST_APART = 20_000_000  # values of blocks × combinations of bins at once, 160 MB
# units in one painting differ by 2^8 at most, so that rounding where the shape is small does not drown what
# is large
_TIER_BITS = 8
HEAVY, _MOST_CELLS = (
    0.05,
    4_000_000,
)  # weights from which spreads are computed cell by cell, and how many cells at most


@dataclass(frozen=True, eq=False)
class Tier:
    """Rectangles that are painted together: their numbers, the different ones among them, and which of these
    each one is.
    """

    rows: Ints
    different: Rectangles
    which: Ints

    @cached_property
    def covered(self) -> NDArray[np.bool_]:
        """Groups that any of them covers, shape (n_groups,)."""
        found: NDArray[np.bool_] = (
            np.rint(self.different.sums(np.ones((1, self.different.lower.shape[1])))[0]) > 0
        )
        return found


@dataclass(frozen=True, eq=False)
class Cover:
    """Rectangles of groups.

    attributes: numbers of the grouping attributes. within: the base inside the blocks; None where it is even.
    block: which block of the level each rectangle lies in, shape (n,), rising; bins: the combination of bins,
        flat, shape (n,).
    single: whether the block has only one group, shape (n,).
    grid: the rectangles. unit: 1 / what a rectangle holds of the shape: density per weight, shape (n,).
    shape: of each group, shape (n_groups,); None where all are 1.
    """

    attributes: list[int]
    within: Within | None
    block: Ints
    bins: Ints
    single: NDArray[np.bool_]
    grid: Rectangles
    unit: Floats
    shape: Floats | None

    @property
    def n_groups(self) -> int:
        return math.prod(self.grid.shape)

    def expected(self, prefixes: Mapping[int, Floats]) -> Floats:
        """Mean of a product of functions of other attributes, as `Within.expected` has it, of what lies in
        each rectangle, shape (n,).
        """
        assert self.within is not None
        base, first = self.within.base, self.attributes[0]
        n_bins = [base.n_bins[a] for a in self.attributes]
        block = self.block - self.within.first
        if math.prod(n_bins) * (self.within.last - self.within.first) <= _MOST_APART or len(n_bins) == 1:
            apart = self.within.expected(prefixes, self.attributes)
            return np.asarray(apart.reshape(len(apart), -1)[block, self.bins])
        found, per_bin = np.empty(len(block)), math.prod(n_bins[1:])
        for c in range(n_bins[0]):
            in_bin = np.concatenate([[0.0], np.cumsum(base.shape[first] * (base.bin_of_code[first] == c))])
            apart = self.within.expected({**prefixes, first: in_bin}, self.attributes[1:])
            mine = np.flatnonzero(self.bins // per_bin == c)
            found[mine] = apart.reshape(len(apart), -1)[block[mine], self.bins[mine] % per_bin]
        return found

    @cached_property
    def _tiers(self) -> list[Tier]:
        tier = np.floor(np.log2(self.unit) / _TIER_BITS)
        found = []
        for each in np.unique(tier):
            rows = np.flatnonzero(tier == each)
            lower, upper = self.grid.lower[:, rows], self.grid.upper[:, rows]
            key = np.zeros(len(rows), np.int64)
            for low, high, size in zip(lower, upper, self.grid.shape, strict=True):
                key = np.unique((key * (size + 1) + low) * (size + 1) + high, return_inverse=True)[1]
            example, which = np.unique(key, return_index=True, return_inverse=True)[1:]
            found.append(Tier(rows, self.grid.only(rows[example]), which.reshape(-1)))
        return found

    def sums(self, columns: Sequence[Column]) -> Floats:
        """In each group, the sum of column · shape^power over the rectangles that cover it, shape (n_columns,
        n_groups).
        """
        if self.shape is None:
            return self.grid.sums(np.stack([values for values, _ in columns]))
        found = np.zeros((len(columns), self.n_groups))
        for tier in self._tiers:
            of_different = [
                np.bincount(tier.which, values[tier.rows], tier.different.lower.shape[1])
                for values, _ in columns
            ]
            sums = tier.different.sums(np.stack(of_different))
            for out, values in zip(found, sums, strict=True):
                out[tier.covered] += values[tier.covered]
        for out, (_, power) in zip(found, columns, strict=True):
            if power:
                out *= self.shape**power
        return found

    def maxima(self, values: Floats, power: float = 1.0) -> Floats:
        """In each group, the largest value · shape^power of the rectangles that cover it, shape (n_groups,).
        values: ≥ 0; power: 0 or 1.
        """
        if self.shape is None:
            return self.grid.maxima(values)
        found = np.zeros(self.n_groups)
        for tier in self._tiers:
            largest = np.zeros(tier.different.lower.shape[1])
            np.maximum.at(largest, tier.which, values[tier.rows])
            np.maximum(found, tier.different.maxima(largest), out=found)
        return found * self.shape if power else found

    def spreads(self, squares: Floats, ratios: Floats, counts: Floats) -> Floats:
        """In each group, Σ count · variance^¾ over the rectangles that cover it, shape (n_groups,), where a
        base says how records spread.

        The variance of what a record of a block adds to a group of shape s is squares·s·(1 − ratios·s), shape
        (n,) each; for counts, both are the density. Where weights are small, (1 − x)^¾ is taken as 1 − ¾x −
        (3/32)x²; heavy rectangles are computed cell by cell.
        """
        heavy = self._few_cells(
            np.flatnonzero((ratios * self._most_shape > HEAVY) & (counts > 0) & (squares > 0))
        )
        light = counts * squares**0.75
        light[heavy] = 0.0
        columns = [(light, 0.75), (-0.75 * light * ratios, 1.75), (-0.09375 * light * ratios**2, 2.75)]
        painted: Floats = np.maximum(self.sums(columns).sum(axis=0), 0.0)
        return painted + self._cell_by_cell(heavy, squares, ratios, counts)

    @cached_property
    def _most_shape(self) -> Floats:
        """The largest shape of a group in each rectangle, shape (n,)."""
        assert self.within is not None
        found = np.ones(len(self.block))
        for axis, a in enumerate(self.attributes):
            ends = np.stack([self.grid.lower[axis], self.grid.upper[axis]], axis=1).reshape(-1)
            found *= np.maximum.reduceat(np.append(self.within.base.shape[a], 0.0), ends)[::2]
        return found

    @cached_property
    def _areas(self) -> Ints:
        areas: Ints = (self.grid.upper - self.grid.lower).prod(axis=0)
        return areas

    def _few_cells(self, rows: Ints) -> Ints:
        """As many of these rectangles, smallest first, as have few cells together."""
        smallest_first = rows[np.argsort(self._areas[rows], kind="stable")]
        return smallest_first[np.cumsum(self._areas[smallest_first]) <= _MOST_CELLS]

    def _cell_by_cell(self, rows: Ints, squares: Floats, ratios: Floats, counts: Floats) -> Floats:
        assert self.shape is not None
        areas = self._areas[rows]
        rectangle = np.repeat(rows, areas)
        place, cell = (
            np.arange(len(rectangle)) - np.repeat(np.cumsum(areas) - areas, areas),
            np.zeros(len(rectangle), np.int64),
        )
        for axis in reversed(range(len(self.grid.shape))):
            low, width = (
                self.grid.lower[axis][rectangle],
                (self.grid.upper[axis] - self.grid.lower[axis])[rectangle],
            )
            cell += (low + place % width) * math.prod(self.grid.shape[axis + 1 :])
            place //= width
        shape = self.shape[cell]
        left = 1.0 - ratios[rectangle] * shape
        variance = np.where(left > 1.0 - FULL, squares[rectangle] * shape * left, 0.0)
        return np.bincount(cell, counts[rectangle] * variance**0.75, self.n_groups).astype(np.float64)


def covers(level: Level, sizes: Sequence[int], attributes: Sequence[int]) -> Iterator[Cover]:
    """The groups of codes of these attributes that blocks cover. Where there are bases: part by part, and not
    too many blocks at once.
    """
    chosen, shape = list(attributes), tuple(int(sizes[a]) for a in attributes)
    lower, upper = level.lower[chosen].astype(np.int64), level.upper[chosen].astype(np.int64)
    if not level.within:
        block = np.arange(len(level.counts))
        unit: Floats = np.prod([level.inverse_width[a] for a in chosen], axis=0)
        yield Cover(
            chosen,
            None,
            block,
            np.zeros_like(block),
            _single(lower, upper),
            Rectangles(lower, upper, shape),
            unit,
            None,
        )
    for within in level.within:
        bins_of, here = [within.base.bin_of_code[a] for a in chosen], slice(within.first, within.last)
        first = np.stack([bins[low] for bins, low in zip(bins_of, lower[:, here], strict=True)]).astype(
            np.int64
        )
        n_bins = (
            np.stack([bins[high - 1] for bins, high in zip(bins_of, upper[:, here], strict=True)]) - first + 1
        )
        borders = np.flatnonzero(np.diff(np.cumsum(n_bins.prod(axis=0)) // _MOST_RECTANGLES)) + 1
        for i, j in itertools.pairwise([0, *borders.tolist(), within.last - within.first]):
            at = slice(within.first + i, within.first + j)
            some = (
                within
                if not len(borders)
                else Within.of(within.base, level.lower.T[at], level.upper.T[at], at.start, at.stop)
            )
            yield _cover(some, chosen, lower[:, at], upper[:, at], first[:, i:j], n_bins[:, i:j], shape)


def group_estimates(
    blocks: Blocks, sizes: Sequence[int], attributes: Sequence[int], counts: Floats
) -> Floats:
    """Records per combination of codes of these attributes, shape (size of each). counts: of the blocks,
    shape (n_blocks,).
    """
    found = np.zeros(math.prod(sizes[a] for a in attributes))
    for cover in covers(blocks.levels[0], sizes, attributes):
        density = cover.unit if cover.within is None else cover.expected({}) * cover.unit
        found += cover.sums([(density * counts[cover.block], 1.0)])[0]
    return found.reshape([sizes[a] for a in attributes])


def _single(lower: Ints, upper: Ints) -> NDArray[np.bool_]:
    return np.asarray((upper - lower == 1).all(axis=0))


def _cover(
    within: Within,
    attributes: list[int],
    lower: Ints,
    upper: Ints,
    first: Ints,
    numbers: Ints,
    shape: tuple[int, ...],
) -> Cover:
    """lower, upper: of the blocks; first, numbers: the first of their bins, and how many. Shape
    (n_attributes, n_blocks) each.
    """
    base, per_block = within.base, numbers.prod(axis=0)
    block = np.repeat(np.arange(lower.shape[1]), per_block)
    place = np.arange(len(block)) - np.repeat(
        np.cumsum(per_block) - per_block, per_block
    )  # among the block's own combinations
    ends, bins, unit = [], np.zeros(len(block), np.int64), np.ones(len(block))
    steps = (
        numbers[::-1].cumprod(axis=0)[::-1] // numbers
    )  # how many combinations of the later attributes there are
    for i, a in enumerate(attributes):
        bin_ = first[i][block] + place // steps[i][block] % numbers[i][block]
        low, high = (
            np.maximum(lower[i][block], base.bin_starts[a][bin_]),
            np.minimum(upper[i][block], base.bin_starts[a][bin_ + 1]),
        )
        ends.append((low, high))
        bins = bins * base.n_bins[a] + bin_
        unit = unit / (base.running[a][high] - base.running[a][low])
    lows, highs = (np.stack(side) for side in zip(*ends, strict=True))
    of_groups = reduce(np.multiply.outer, [base.shape[a] for a in attributes]).reshape(-1)
    single = _single(lower, upper)[block]
    return Cover(
        attributes,
        within,
        block + within.first,
        bins,
        single,
        Rectangles(lows, highs, shape),
        unit,
        of_groups,
    )
