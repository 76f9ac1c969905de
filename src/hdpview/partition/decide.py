"""The decisions of `grow` for one block, from whole numbers that say all about its rows, when the rows are
elsewhere.

The same draws of the block's key meet the same numbers in the same functions, so the block is cut where
`grow` would have cut it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.sparse import Codes
from hdpview.partition import exact
from hdpview.partition.converge import converges
from hdpview.partition.cut import (
    accepts,
    by_inversion,
    cut_blindly,
    cut_number,
    error_of_deviation,
    propose,
    sampling,
)
from hdpview.partition.deviations import dense_deviations, new_work, sparse_deviations, thresholds
from hdpview.partition.grow import ExactBlocks, grow, offsets_of
from hdpview.partition.kernels import compiled, deviation_above, sparse_deviation, volume
from hdpview.partition.parameters import PartitionParameters
from hdpview.partition.top import add_above, add_statistics
from hdpview.privacy.randomness import Uniform, draw, new_stream

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class ExactStatistics:
    """What the rows of a block add up to. Values of all attributes stand in one array, attribute after
    attribute.

    exact_n_above, exact_sum_above: cells with a count above the block's mean, and the records in them.
    exact_sums, exact_occupied: records and occupied cells per value of each attribute, shape (n_values,).
    """

    exact_n_above: int
    exact_sum_above: int
    exact_sums: Integers
    exact_occupied: Integers

    @classmethod
    def of(cls, exact_row: Integers) -> ExactStatistics:
        """From what `top.add_statistics` added up for one block."""
        sums, occupied = exact_row[2:].reshape(2, -1)
        return cls(int(exact_row[0]), int(exact_row[1]), sums, occupied)


@dataclass(frozen=True, eq=False, repr=False)
class ExactAbove:
    """What lies above the mean of either side of each cut, shape (n_values,): cut v of attribute a at
    offsets[a] + lower[a] + v, where the first v + 1 values go left.

    exact_n_left, exact_n_right: cells of the side with a count above its mean. exact_sum: the records in
        those cells of both sides.
    """

    exact_n_left: Integers
    exact_n_right: Integers
    exact_sum: Integers


@dataclass(frozen=True)
class PaperDecisions:
    """Random converge and random cut, block by block, in a domain of these sizes."""

    parameters: PartitionParameters
    sizes: tuple[int, ...]

    @property
    def offsets(self) -> Integers:
        """Where each attribute's values begin in an array over the values of all."""
        return offsets_of(np.array(self.sizes, np.int32))

    def least_above(
        self, block: ExactBlocks, statistics: ExactStatistics
    ) -> tuple[Integers, Integers] | None:
        """The least counts above the mean of the left and of the right side of each cut, placed as in
        `ExactAbove`: what lies above them has to be known to choose a cut. None where it need not be, because
        every side is sparse or the cut is a blind one.
        """
        lower, upper, _, total, _ = _facts(block)
        n_cells = exact.n_cells_of(lower, upper)
        if (
            n_cells == 1
            or block.depth[0] > self.parameters.n_private_cut_levels
            or total * int((upper - lower).max()) < n_cells
        ):
            return None
        left, right = (np.zeros(len(statistics.exact_sums), np.int64) for _ in range(2))
        for at, width in self._runs(lower, upper):
            exact_left_sum = 0
            for v, records in enumerate(statistics.exact_sums[at : at + width - 1].tolist()):
                exact_left_sum += records
                left_cells = n_cells // width * (v + 1)
                left[at + v] = exact.least_above_mean(exact_left_sum, left_cells)
                right[at + v] = exact.least_above_mean(total - exact_left_sum, n_cells - left_cells)
        return left, right

    def cut(
        self, block: ExactBlocks, statistics: ExactStatistics, above: ExactAbove | None
    ) -> tuple[int, int] | None:
        """Attribute and cut point, or None for a leaf. `above` answers what `least_above` asked."""
        lower, upper, _, _, n_cells = _facts(block)
        if n_cells == 1.0:
            return None
        depth, key = int(block.depth[0]), block.keys[0]
        if self._converges(block, statistics):
            return None
        if depth > self.parameters.n_private_cut_levels:
            stream = new_stream()
            draw(key, 0, stream)
            chosen = cut_blindly(lower, upper, key, 1, stream)
        else:
            chosen = self._cut_privately(block, statistics, above)
        return int(chosen[0]), int(chosen[1])

    def _converges(self, block: ExactBlocks, statistics: ExactStatistics) -> bool:
        lower, upper, n_occupied, total, n_cells = _facts(block)
        numbers, depth, uniform = self.parameters, int(block.depth[0]), Uniform(block.keys[0], 0)
        n_above, sum_above = statistics.exact_n_above, statistics.exact_sum_above
        found = converges(
            _deviation(total, n_above, sum_above, n_cells),
            depth,
            numbers.converge_noise_scale,
            numbers.converge_bias_per_level,
            numbers.converge_threshold,
            numbers.converge_floor,
            uniform.first,
            error_of_deviation(total, n_occupied, len(lower)),
        )
        if found >= 0:
            return bool(found)
        deviation = exact.deviation(total, n_above, sum_above, exact.n_cells_of(lower, upper))
        return exact.converges(deviation, depth, numbers, uniform)

    def finish(self, exact_codes: Codes, exact_counts: Integers, block: ExactBlocks) -> ExactBlocks:
        """All leaves of a block whose rows are here: rows [exact_first, exact_last)."""
        return grow(exact_codes, exact_counts, block, self.parameters)[0]

    def _cut_privately(
        self, block: ExactBlocks, statistics: ExactStatistics, above: ExactAbove | None
    ) -> tuple[int, int]:
        """As `cut.cut_privately` does from rows. [P3]"""
        lower, upper, n_occupied, total, n_cells = _facts(block)
        rate, most_gain, is_flat = sampling(
            lower, upper, total, n_occupied, n_cells, float(self.parameters.epsilon_cut)
        )
        if is_flat:
            return self._by_rejection(block, statistics, rate, most_gain)
        sums, occupied = statistics.exact_sums, statistics.exact_occupied
        work, n_cuts = new_work(len(sums), 0), 0
        work.sums[:], work.occupied[:] = sums, occupied
        if above is not None:
            work.n_above_left[:], work.n_above_right[:], work.sum_above[:] = (
                above.exact_n_left,
                above.exact_n_right,
                above.exact_sum,
            )
        for at, width in self._runs(lower, upper):
            if above is not None and thresholds(at, width, total, n_cells, work) > 1:
                dense_deviations(at, width, total, n_cells, work, n_cuts)
            else:
                sparse_deviations(at, width, total, n_occupied, n_cells, work, n_cuts)
            n_cuts += width - 1
        uniform, error = Uniform(block.keys[0], 1), error_of_deviation(total, n_occupied, len(lower))
        chosen = by_inversion(work.deviations, n_cuts, rate, uniform.first, error)
        if chosen < 0:
            exact_rate = exact.rate_of_cuts(self.parameters, exact.n_cells_of(lower, upper))
            chosen = exact.cut_by_inversion(self._sides(block, statistics, above), exact_rate, uniform)
        return cut_number(lower, upper, chosen)  # type: ignore[no-any-return]

    def _by_rejection(
        self, block: ExactBlocks, statistics: ExactStatistics, rate: float, most_gain: float
    ) -> tuple[int, int]:
        """As `cut._by_rejection`, with a look at the histogram instead of the rows."""
        lower, upper = block.lower[0], block.upper[0]
        key, stream, n_drawn = block.keys[0], new_stream(), 1
        draw(key, 0, stream)
        while True:
            a, v, _, is_accepted = propose(lower, upper, rate, most_gain, key, n_drawn, stream)
            if a < 0:
                n_cuts = int((upper - lower - 1).sum())
                a, v = cut_number(lower, upper, exact.proposed(n_cuts, Uniform(key, n_drawn)))
            if is_accepted or self._accepts(
                block, statistics, a, v, rate, most_gain, Uniform(key, n_drawn + 1)
            ):
                return a, v
            n_drawn += 2

    def _accepts(
        self,
        block: ExactBlocks,
        statistics: ExactStatistics,
        a: int,
        v: int,
        rate: float,
        most_gain: float,
        uniform: Uniform,
    ) -> bool:
        lower, upper, n_occupied, total, n_cells = _facts(block)
        at = int(self.offsets[a] + lower[a])
        left = slice(at, at + int(v - lower[a]))
        n_left, left_sum = statistics.exact_occupied[left].sum(), statistics.exact_sums[left].sum()
        numbers = lower[a], upper[a], v, n_left, left_sum, n_occupied, total, n_cells, rate, most_gain
        found = accepts(uniform.first, *numbers)
        if found >= 0:
            return bool(found)
        cells = exact.n_cells_of(lower, upper)
        most = Fraction(2 * total * n_occupied * int((upper - lower).max()), cells)
        sides = self._sparse_sides(block, a, v, int(n_left), int(left_sum))
        return exact.accepts(sides, most, exact.rate_of_cuts(self.parameters, cells), uniform)

    def _sides(
        self, block: ExactBlocks, statistics: ExactStatistics, above: ExactAbove | None
    ) -> list[exact.ExactSides]:
        """Of every cut, by attribute and cut point."""
        lower, upper = block.lower[0], block.upper[0]
        found = []
        for a in range(len(lower)):
            at, width = int(self.offsets[a] + lower[a]), int(upper[a] - lower[a])
            exact_left_sum = exact_n_left = 0
            for v in range(width - 1):
                exact_left_sum += int(statistics.exact_sums[at + v])
                exact_n_left += int(statistics.exact_occupied[at + v])
                sides = self._sparse_sides(block, a, int(lower[a]) + v + 1, exact_n_left, exact_left_sum)
                if above is not None:
                    n_above = int(above.exact_n_left[at + v]), int(above.exact_n_right[at + v])
                    sides = replace(
                        sides, exact_n_above=n_above, exact_sum_above=int(above.exact_sum[at + v])
                    )
                found.append(sides)
        return found

    def _sparse_sides(
        self, block: ExactBlocks, a: int, v: int, exact_n_left: int, exact_left_sum: int
    ) -> exact.ExactSides:
        """Sides with means below 1, where every occupied cell is above the mean."""
        lower, upper, n_occupied, total, _ = _facts(block)
        left_cells = exact.n_cells_of(lower, upper) // int(upper[a] - lower[a]) * int(v - lower[a])
        return exact.ExactSides(
            n_cells=(left_cells, exact.n_cells_of(lower, upper) - left_cells),
            exact_sums=(exact_left_sum, total - exact_left_sum),
            exact_n_above=(exact_n_left, n_occupied - exact_n_left),
            exact_sum_above=total,
        )

    def _runs(self, lower: NDArray[np.int32], upper: NDArray[np.int32]) -> list[tuple[int, int]]:
        """Where the values of each attribute with a choice of cuts begin, and how many they are."""
        starts = self.offsets + lower
        return [(int(at), int(width)) for at, width in zip(starts, upper - lower, strict=True) if width > 1]


def least_above_mean(block: ExactBlocks) -> int:
    """The least whole count above the mean of a block."""
    lower, upper, _, total, _ = _facts(block)
    return exact.least_above_mean(total, exact.n_cells_of(lower, upper))


def decide_from_rows(
    exact_codes: Codes,
    exact_counts: Integers,
    block: ExactBlocks,
    parameters: PartitionParameters,
    sizes: tuple[int, ...],
) -> tuple[int, int] | None:
    """What becomes of a block whose rows are here, with what doubles cannot tell decided without them."""
    decisions, n_values = PaperDecisions(parameters, sizes), sum(sizes)
    rows = slice(int(block.exact_first[0]), int(block.exact_last[0]))
    slots = np.zeros(rows.stop - rows.start, np.int32)
    table = exact_codes[rows], exact_counts[rows], slots, decisions.offsets
    found = np.zeros((1, 2 + 2 * n_values), np.int64)
    add_statistics(*table, np.array([least_above_mean(block)], np.int64), found)
    statistics = ExactStatistics.of(found[0])
    least, above = decisions.least_above(block, statistics), None
    if least is not None:
        sides = np.zeros((1, 3 * n_values), np.int64)
        add_above(*table, block.lower, block.upper, least[0][None], least[1][None], sides)
        above = ExactAbove(*sides.reshape(3, -1))
    return decisions.cut(block, statistics, above)


def _facts(block: ExactBlocks) -> tuple[NDArray[np.int32], NDArray[np.int32], int, int, float]:
    """Bounds, occupied cells, records and volume of one block."""
    lower, upper = block.lower[0], block.upper[0]
    return (
        lower,
        upper,
        int(block.exact_last[0] - block.exact_first[0]),
        int(block.exact_sum[0]),
        float(volume(lower, upper)),
    )


@compiled
def _deviation(total, n_above, sum_above, n_cells):  # type: ignore[no-untyped-def]
    """As `kernels.absolute_deviation`, with the cells above the mean counted already: all occupied ones where
    the mean is below 1.
    """
    mean = total / n_cells
    return (
        sparse_deviation(total, n_above, n_cells)
        if mean < 1.0
        else deviation_above(n_above, sum_above, total, n_cells)
    )
