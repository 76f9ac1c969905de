"""The groups that blocks cover, as rectangles on the grid of groups, and sums over all that cover a group.

Where records spread evenly, a block gives the same weight to each group it covers: one rectangle. Where a base says how they spread,
the weights in a block and one combination of bins of the grouping attributes are proportional to the shape of their codes: a rectangle
for each such combination, in which every weight is a number, the *density*, times the shape of the group.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from hdpview.query.paint import Rectangles
from hdpview.view.blocks import Blocks, Level
from hdpview.view.within import Within

Floats = NDArray[np.float64]
_TIER = 2.0**8  # densities in one painting differ by no more, so that rounding of large ones does not drown small ones


@dataclass(frozen=True, eq=False)
class Cover:
    """Rectangles of groups.

    attributes: numbers of the grouping attributes. within: the base inside the blocks; None where it is even.
    block: which block of the level each rectangle lies in, shape (n,), rising; bins: the combination of bins, flat, shape (n,).
    grid: the rectangles. unit: 1 / what a rectangle holds of the shape: density per weight, shape (n,).
    shape: of each group, shape (n_groups,); None where all are 1.
    """

    attributes: list[int]
    within: Within | None
    block: NDArray[np.int64]
    bins: NDArray[np.int64]
    grid: Rectangles
    unit: Floats
    shape: Floats | None

    @property
    def n_groups(self) -> int:
        return math.prod(self.grid.shape)

    def expected(self, prefixes: Mapping[int, Floats]) -> Floats:
        """Mean of a product of functions of single attributes, as `Within.expected` has it, of what lies in each rectangle, shape (n,)."""
        assert self.within is not None
        apart = self.within.expected(prefixes, self.attributes)
        found: Floats = apart.reshape(len(apart), -1)[self.block - self.within.first, self.bins]
        return found

    def sums(self, densities: Floats, columns: Sequence[tuple[Floats, float]]) -> Floats:
        """In each group, sums of column · shape^power over the rectangles that cover it, shape (n_columns, n_groups).

        densities: shape (n,), not negative; rectangles of density 0 are left out. columns: values, shape (n,), with the power to take.
        """
        if self.shape is None:
            return self.grid.sums(np.stack([values for values, _ in columns]))
        found = np.zeros((len(columns), self.n_groups))
        powers = [np.ones(1) if power == 0 else self.shape**power for _, power in columns]
        for rows in _tiers(densities):
            grid = self.grid.only(rows)
            covered = np.rint(grid.sums(np.ones((1, len(rows))))[0]) > 0
            sums = grid.sums(np.stack([values[rows] for values, _ in columns]))
            for out, values, power in zip(found, sums, powers, strict=True):
                out += np.where(covered, values, 0.0) * power
        return found

    def maxima(self, densities: Floats) -> Floats:
        """The largest weight in each group, shape (n_groups,)."""
        found = self.grid.maxima(densities)
        return found if self.shape is None else found * self.shape


def covers(level: Level, sizes: Sequence[int], attributes: Sequence[int]) -> list[Cover]:
    """The groups of codes of these attributes that blocks cover: part by part where there are bases."""
    chosen, shape = list(attributes), tuple(int(sizes[a]) for a in attributes)
    lower, upper = level.lower[chosen].astype(np.int64), level.upper[chosen].astype(np.int64)
    if not level.within:
        block = np.arange(len(level.counts))
        unit: Floats = level.inverse_width[chosen].prod(axis=0)
        return [Cover(chosen, None, block, np.zeros_like(block), Rectangles(lower, upper, shape), unit, None)]
    return [
        _cover(within, chosen, lower[:, within.first : within.last], upper[:, within.first : within.last], shape) for within in level.within
    ]


def group_estimates(blocks: Blocks, sizes: Sequence[int], attributes: Sequence[int], counts: Floats) -> Floats:
    """Records per combination of codes of these attributes, shape (size of each). counts: of the blocks, shape (n_blocks,)."""
    found = np.zeros(math.prod(sizes[a] for a in attributes))
    for cover in covers(blocks.levels[0], sizes, attributes):
        density = cover.unit if cover.within is None else cover.expected({}) * cover.unit
        found += cover.sums(density, [(density * counts[cover.block], 1.0)])[0]
    return found.reshape([sizes[a] for a in attributes])


def _cover(within: Within, attributes: list[int], lower: NDArray[np.int64], upper: NDArray[np.int64], shape: tuple[int, ...]) -> Cover:
    """lower, upper: of the part's blocks, shape (n_attributes, n_blocks)."""
    base = within.base
    first = np.stack([base.bin_of_code[a][lower[i]] for i, a in enumerate(attributes)])
    last = np.stack([base.bin_of_code[a][upper[i] - 1] for i, a in enumerate(attributes)])
    numbers = (last - first + 1).astype(np.int64)
    per_block = numbers.prod(axis=0)
    block = np.repeat(np.arange(lower.shape[1]), per_block)
    place = np.arange(len(block)) - np.repeat(np.cumsum(per_block) - per_block, per_block)  # in the block's own combinations
    ends, bins, unit = [], np.zeros(len(block), np.int64), np.ones(len(block))
    steps = numbers[::-1].cumprod(axis=0)[::-1] // numbers  # how many combinations of the later attributes there are
    for i, a in enumerate(attributes):
        bin_ = first[i][block] + place // steps[i][block] % numbers[i][block]
        low, high = np.maximum(lower[i][block], base.bin_starts[a][bin_]), np.minimum(upper[i][block], base.bin_starts[a][bin_ + 1])
        ends.append((low, high))
        bins = bins * base.n_bins[a] + bin_
        unit = unit / (base.running[a][high] - base.running[a][low])
    lows, highs = (np.stack(side) for side in zip(*ends, strict=True))
    of_groups = reduce(np.multiply.outer, [base.shape[a] for a in attributes]).reshape(-1)
    return Cover(attributes, within, block + within.first, bins, Rectangles(lows, highs, shape), unit, of_groups)


def _tiers(densities: Floats) -> Iterator[NDArray[np.int64]]:
    """Rectangles by the size of their densities, those without any left out."""
    useful = np.flatnonzero(densities > 0)
    if len(useful):
        tier = np.floor(np.log2(densities[useful]) / math.log2(_TIER))
        for each in np.unique(tier):
            yield useful[tier == each]
