"""The decisions of `grow` for one block, from whole numbers that say all about its rows, when the rows are
elsewhere.

The same draws of the block's key meet the same numbers in the same functions, so the block is cut where
`grow` would have cut it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.sparse import Codes
from hdpview.partition.converge import converges
from hdpview.partition.cut import accepts, by_inversion, cut_blindly, cut_number, propose, sampling
from hdpview.partition.deviations import dense_deviations, new_work, sparse_deviations, thresholds
from hdpview.partition.grow import ExactBlocks, grow, offsets_of
from hdpview.partition.kernels import compiled, deviation_above, mean_in_parts, sparse_deviation, volume
from hdpview.partition.parameters import PartitionParameters
from hdpview.privacy.randomness import draw, new_stream

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
        lower, upper, _, total, n_cells = _facts(block)
        if (
            n_cells == 1.0
            or block.depth[0] > self.parameters.n_private_cut_levels
            or 1.0 * total * int((upper - lower).max()) < n_cells
        ):
            return None
        work = new_work(len(statistics.exact_sums), 0)
        work.sums[:] = statistics.exact_sums
        for at, width in self._runs(lower, upper):
            thresholds(at, width, total, n_cells, work)
        return work.at_least_left, work.at_least_right

    def cut(
        self, block: ExactBlocks, statistics: ExactStatistics, above: ExactAbove | None
    ) -> tuple[int, int] | None:
        """Attribute and cut point, or None where the block stays whole. `above` answers what `least_above`
        asked.
        """
        lower, upper, _, total, n_cells = _facts(block)
        if n_cells == 1.0:
            return None
        stream, key, depth, numbers = new_stream(), block.keys[0], int(block.depth[0]), self.parameters
        deviation = _deviation(total, statistics.exact_n_above, statistics.exact_sum_above, n_cells)
        levels = (
            numbers.converge_noise_scale,
            numbers.converge_bias_per_level,
            numbers.converge_threshold,
            numbers.converge_floor,
        )
        if converges(deviation, depth, *levels, draw(key, 0, stream)):
            return None
        if depth > numbers.n_private_cut_levels:
            chosen = cut_blindly(lower, upper, key, 1, stream)
        else:
            chosen = self._cut_privately(block, statistics, above, stream)
        return int(chosen[0]), int(chosen[1])

    def finish(self, exact_codes: Codes, exact_counts: Integers, block: ExactBlocks) -> ExactBlocks:
        """All leaves of a block whose rows are here: rows [exact_first, exact_last)."""
        return grow(exact_codes, exact_counts, block, self.parameters)[0]

    def _cut_privately(
        self, block: ExactBlocks, statistics: ExactStatistics, above: ExactAbove | None, stream: Any
    ) -> Any:
        """As `cut.cut_privately` does from rows. [P3]"""
        lower, upper, n_occupied, total, n_cells = _facts(block)
        key, sums, occupied = block.keys[0], statistics.exact_sums, statistics.exact_occupied
        rate, most_gain, is_flat = sampling(
            lower, upper, total, n_occupied, n_cells, float(self.parameters.epsilon_cut)
        )
        if is_flat:
            return self._by_rejection(block, statistics, rate, most_gain, stream)
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
        return cut_number(lower, upper, by_inversion(work.deviations, n_cuts, rate, draw(key, 1, stream)))

    def _by_rejection(
        self, block: ExactBlocks, statistics: ExactStatistics, rate: float, most_gain: float, stream: Any
    ) -> Any:
        """As `cut._by_rejection`, with a look at the histogram instead of the rows."""
        lower, upper, n_occupied, total, n_cells = _facts(block)
        n_drawn = 1
        while True:
            a, v, uniform, is_accepted = propose(
                lower, upper, rate, most_gain, block.keys[0], n_drawn, stream
            )
            left = slice(self.offsets[a] + lower[a], self.offsets[a] + v)
            n_left, left_sum = statistics.exact_occupied[left].sum(), statistics.exact_sums[left].sum()
            if is_accepted or accepts(
                uniform, lower[a], upper[a], v, n_left, left_sum, n_occupied, total, n_cells, rate, most_gain
            ):
                return a, v
            n_drawn += 2

    def _runs(self, lower: NDArray[np.int32], upper: NDArray[np.int32]) -> list[tuple[int, int]]:
        """Where the values of each attribute with a choice of cuts begin, and how many they are."""
        starts = self.offsets + lower
        return [(int(at), int(width)) for at, width in zip(starts, upper - lower, strict=True) if width > 1]


def least_above_mean(block: ExactBlocks) -> int:
    """The least whole count above the mean of a block."""
    _, _, _, total, n_cells = _facts(block)
    return int(mean_in_parts(total, n_cells)[0]) + 1


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
