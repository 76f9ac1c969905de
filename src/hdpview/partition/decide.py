"""The decisions of `grow` for one block, from whole-number statistics instead of rows.

Used if the rows are on other machines, and where doubles cannot settle a decision. The arithmetic is
rational. `grow` decides in doubles only where these give the same result for the same draws of the block's
key, so the block is cut where `grow` would cut it. [P15]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.sparse import Codes
from hdpview.partition import rational
from hdpview.partition.cut import cut_blindly, cut_number, sampling
from hdpview.partition.grow import ExactBlocks, grow, offsets_of
from hdpview.partition.jitted import volume
from hdpview.partition.parameters import PartitionParameters
from hdpview.partition.top import add_above, add_statistics
from hdpview.privacy.randomness import Uniform, draw, new_stream

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class ExactStatistics:
    """Sums over the rows of a block. One array has the values of all attributes, attribute by attribute.

    exact_n_above, exact_sum_above: cells with a count above the block's mean, and the records in them.
    exact_sums, exact_occupied: records and occupied cells per value of each attribute, shape (n_values,).
    """

    exact_n_above: int
    exact_sum_above: int
    exact_sums: Integers
    exact_occupied: Integers

    @classmethod
    def of(cls, exact_row: Integers) -> ExactStatistics:
        """From the sums that `top.add_statistics` gives for one block."""
        sums, occupied = exact_row[2:].reshape(2, -1)
        return cls(int(exact_row[0]), int(exact_row[1]), sums, occupied)


@dataclass(frozen=True, eq=False, repr=False)
class ExactAbove:
    """Cells above the mean of either side of each cut, shape (n_values,).

    Cut v of attribute a is at offsets[a] + lower[a] + v; it sends the first v + 1 values to the left.
    exact_n_left, exact_n_right: cells of the side with a count above its mean.
    exact_sum: the records in those cells of both sides.
    """

    exact_n_left: Integers
    exact_n_right: Integers
    exact_sum: Integers


class _Block:
    """One block with its sizes."""

    def __init__(self, block: ExactBlocks) -> None:
        self.lower, self.upper, self.key = block.lower[0], block.upper[0], block.keys[0]
        self.depth = int(block.depth[0])
        self.exact_n_occupied = int(block.exact_last[0] - block.exact_first[0])
        self.exact_total = int(block.exact_sum[0])
        self.n_cells = rational.n_cells_of(self.lower, self.upper)
        self.widest = int((self.upper - self.lower).max())

    def sides(
        self, a: int, cut: int, exact_n_left: int, exact_left_sum: int, at: int, above: ExactAbove | None
    ) -> rational.ExactSides:
        """Both sides of a cut; without `above`, both have a mean below 1, so occupied cells are above it."""
        left_cells = self.n_cells // int(self.upper[a] - self.lower[a]) * (cut - int(self.lower[a]))
        sides = rational.ExactSides(
            n_cells=(left_cells, self.n_cells - left_cells),
            exact_sums=(exact_left_sum, self.exact_total - exact_left_sum),
            exact_n_above=(exact_n_left, self.exact_n_occupied - exact_n_left),
            exact_sum_above=self.exact_total,
        )
        if above is None:
            return sides
        n_above = int(above.exact_n_left[at]), int(above.exact_n_right[at])
        return replace(sides, exact_n_above=n_above, exact_sum_above=int(above.exact_sum[at]))


@dataclass(frozen=True)
class PaperDecisions:
    """Random converge and random cut, block by block, in a domain of these sizes."""

    parameters: PartitionParameters
    sizes: tuple[int, ...]

    @property
    def offsets(self) -> Integers:
        """Start of each attribute's values in an array over the values of all."""
        return offsets_of(np.array(self.sizes, np.int32))

    def least_above(
        self, blocks: ExactBlocks, statistics: ExactStatistics
    ) -> tuple[Integers, Integers] | None:
        """The least counts above the mean of the left and of the right side of each cut, as in `ExactAbove`.

        None if choosing a cut does not need them: every side is sparse, or the cut is blind.
        """
        block = _Block(blocks)
        is_sparse = block.exact_total * block.widest < block.n_cells
        if block.n_cells == 1 or block.depth > self.parameters.n_private_cut_levels or is_sparse:
            return None
        left, right = (np.zeros(len(statistics.exact_sums), np.int64) for _ in range(2))
        for at, width in self._runs(block):
            exact_left_sum = 0
            for v, records in enumerate(statistics.exact_sums[at : at + width - 1].tolist()):
                exact_left_sum += records
                left_cells = block.n_cells // width * (v + 1)
                right_sum, right_cells = block.exact_total - exact_left_sum, block.n_cells - left_cells
                left[at + v] = exact_left_sum // left_cells + 1
                right[at + v] = right_sum // right_cells + 1
        return left, right

    def cut(
        self, blocks: ExactBlocks, statistics: ExactStatistics, above: ExactAbove | None
    ) -> tuple[int, int] | None:
        """Attribute and cut point, or None for a leaf. `above`: the cells that `least_above` asks for."""
        block = _Block(blocks)
        if block.n_cells == 1 or self._converges(block, statistics):
            return None
        if block.depth <= self.parameters.n_private_cut_levels:
            a, v = self._cut_privately(block, statistics, above)
        else:
            stream = new_stream()
            draw(block.key, 0, stream)
            a, v = cut_blindly(block.lower, block.upper, block.key, 1, stream)
        return int(a), int(v)

    def finish(self, exact_codes: Codes, exact_counts: Integers, block: ExactBlocks) -> ExactBlocks:
        """All leaves of a block whose rows [exact_first, exact_last) are on this machine."""
        return grow(exact_codes, exact_counts, block, self.parameters)[0]

    def _converges(self, block: _Block, statistics: ExactStatistics) -> bool:
        """`converge.converges` with its noise. [P4]"""
        n_above, sum_above = statistics.exact_n_above, statistics.exact_sum_above
        deviation = rational.deviation(block.exact_total, n_above, sum_above, block.n_cells)
        return rational.converges(deviation, block.depth, self.parameters, Uniform(block.key, 0))

    def _cut_privately(
        self, block: _Block, statistics: ExactStatistics, above: ExactAbove | None
    ) -> tuple[int, int]:
        """`cut.cut_privately` from statistics. [P3]"""
        exact_rows = block.exact_total, block.exact_n_occupied, float(volume(block.lower, block.upper))
        *_, is_flat = sampling(block.lower, block.upper, *exact_rows, float(self.parameters.epsilon_cut))
        sides = self._all_sides(block, statistics, above)
        rate = rational.rate_of_cuts(self.parameters, block.n_cells)
        if is_flat:
            chosen = _by_rejection(block, sides, rate)
        else:
            chosen = rational.cut_by_inversion(sides, rate, Uniform(block.key, 1))
        return cut_number(block.lower, block.upper, chosen)  # type: ignore[no-any-return]

    def _all_sides(
        self, block: _Block, statistics: ExactStatistics, above: ExactAbove | None
    ) -> list[rational.ExactSides]:
        """Both sides of every cut, by attribute and cut point."""
        sides = []
        for a, (low, high) in enumerate(zip(block.lower.tolist(), block.upper.tolist(), strict=True)):
            exact_left_sum = exact_n_left = 0
            for v in range(low + 1, high):
                at = int(self.offsets[a]) + v - 1
                exact_left_sum += int(statistics.exact_sums[at])
                exact_n_left += int(statistics.exact_occupied[at])
                sides.append(block.sides(a, v, exact_n_left, exact_left_sum, at, above))
        return sides

    def _runs(self, block: _Block) -> list[tuple[int, int]]:
        """Start and number of the values of each attribute that can be cut."""
        runs = zip(self.offsets + block.lower, block.upper - block.lower, strict=True)
        return [(int(at), int(width)) for at, width in runs if width > 1]


def _by_rejection(block: _Block, sides: Sequence[rational.ExactSides], rate: Fraction) -> int:
    """`cut._by_rejection`: the number of the cut."""
    most_gain = Fraction(2 * block.exact_total * block.exact_n_occupied * block.widest, block.n_cells)
    n_drawn = 1
    while True:
        number = rational.proposed(len(sides), Uniform(block.key, n_drawn))
        if rational.accepts(sides[number], most_gain, rate, Uniform(block.key, n_drawn + 1)):
            return number
        n_drawn += 2


def least_above_mean(block: ExactBlocks) -> int:
    """The least whole count above the mean of a block."""
    return int(block.exact_sum[0]) // rational.n_cells_of(block.lower[0], block.upper[0]) + 1


def decide_from_rows(
    exact_codes: Codes,
    exact_counts: Integers,
    block: ExactBlocks,
    parameters: PartitionParameters,
    sizes: tuple[int, ...],
) -> tuple[int, int] | None:
    """Attribute and cut point, or None for a leaf, for a block whose rows are on this machine."""
    decisions, n_values = PaperDecisions(parameters, sizes), sum(sizes)
    rows = slice(int(block.exact_first[0]), int(block.exact_last[0]))
    slots = np.zeros(rows.stop - rows.start, np.int32)
    table = exact_codes[rows], exact_counts[rows], slots, decisions.offsets
    sums = np.zeros((1, 2 + 2 * n_values), np.int64)
    add_statistics(*table, np.array([least_above_mean(block)], np.int64), sums)
    statistics = ExactStatistics.of(sums[0])
    least, above = decisions.least_above(block, statistics), None
    if least is not None:
        sides = np.zeros((1, 3 * n_values), np.int64)
        add_above(*table, block.lower, block.upper, least[0][None], least[1][None], sides)
        above = ExactAbove(*sides.reshape(3, -1))
    return decisions.cut(block, statistics, above)
