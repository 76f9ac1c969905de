"""RIPOST (Laouir and Imine, ESORICS 2025, arXiv 2502.10207): separate full from empty space, then cut where
counts deviate.

Established from the paper's abstract, published reviews and a published audit of its authors' program:
- Blocks are bisected in two phases. In the first, a block is done if its noisy count is at most a threshold.
  It then enters the second phase, where it is a leaf if its noisy absolute deviation from the mean is at most
  a threshold.
- Cuts of both phases are drawn by the exponential mechanism on the absolute deviations of the two halves.
- Of the budget, 0.7 is for noise on leaves, 0.27 for the tests of both phases and 0.03 for cuts. A share of
  0.4 divides the budgets of tests and cuts between the phases.
- There is no maximum depth: the decision at level t = 1, 2, … of a path gets the share 4/((t + 3)(t + 4)) of
  its budget. These shares sum to 1.

Not established, so our choice:
- The thresholds. Here both are `threshold_in_scales` times 1/ε_counts, the noise scale of a leaf, and the
  factor is 1: the rule of HDPView, on which the authors' program is built. Tests have more noise than that,
  so an empty block is cut with probability close to 1/2, and empty space is cut finely. `bench accuracy`
  accepts other values as `ripost:threshold_in_scales=20`; the effect is small.
- Whether the second phase restarts the levels. Here it does: each phase has its own budget, and this leaves
  more for it.
- That 0.4 is the share of the first phase, for tests and for cuts.
- The program uses a sensitivity of 4(1 − 1/|B|) to draw cuts. A record lies in one half only, so 2(1 − 1/|B|)
  suffices and is used here.

Privacy: along one path, a test with noise of scale Δ/ε_t costs ε_t (Δ = 1 for a count, 2 for an absolute
deviation), a cut costs its share, and the shares sum to less than 1 at any depth; leaves are disjoint. The
whole series is charged.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hdpview.counts.sparse import SparseCounts
from hdpview.errors import MethodError
from hdpview.jit import numba as nb
from hdpview.methods.protocol import ViewRelease
from hdpview.partition.converge import laplace_cdf
from hdpview.partition.cut import cut_number
from hdpview.privacy.noise import laplace_scale
from hdpview.privacy.randomness import Randomness, draw, new_stream
from hdpview.view.blocks import Blocks
from hdpview_bench.rivals.budget import Budget, CellMethod, noisy_vector

# numbers of the phases
_FIRST = 0
_SECOND = 1


@dataclass(frozen=True)
class Ripost(CellMethod):
    """RIPOST. Shares are of the whole budget, of the partition's budget, and of the budget of tests or cuts,
    in this order.

    threshold_in_scales: thresholds of both phases, in units of the noise scale of a leaf.
    """

    name = "ripost"
    partition_share: float = 0.3
    converge_share: float = 0.9
    first_phase_share: float = 0.4
    threshold_in_scales: float = 1.0

    def __post_init__(self) -> None:
        for name in ("partition_share", "converge_share", "first_phase_share"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not 0 < value < 1:
                raise MethodError(f"{name} must lie between 0 and 1, not {value!r}.")
        if not isinstance(self.threshold_in_scales, (int, float)) or not 0 < self.threshold_in_scales <= 1e6:
            raise MethodError(
                f"threshold_in_scales must be greater than 0, not {self.threshold_in_scales!r}."
            )

    def release_cells(self, cells: SparseCounts, budget: Budget, randomness: Randomness) -> ViewRelease:
        epsilon_partition = Fraction(str(self.partition_share)) * budget.epsilon
        epsilon_tests = budget.charge(
            "decide when to stop", Fraction(str(self.converge_share)) * epsilon_partition
        )
        epsilon_cuts = budget.charge("choose cuts", epsilon_partition - epsilon_tests)
        epsilon_counts = budget.charge("noise on counts", budget.remaining)
        of_phase = np.array([self.first_phase_share, 1 - self.first_phase_share])
        lower, upper, depth, sums = _grow(
            cells.exact_codes,
            cells.exact_counts,
            np.array(cells.schema.sizes, dtype=np.int32),
            float(epsilon_tests) * of_phase,
            float(epsilon_cuts) * of_phase,
            self.threshold_in_scales / float(epsilon_counts),
            randomness.root_key("ripost"),
        )
        noisy = noisy_vector(sums, epsilon_counts, randomness, "leaves")
        return ViewRelease(
            components=Blocks(lower, upper, noisy, depth, laplace_scale(epsilon_counts)),
        )


@nb.njit(cache=True, nogil=True)
def level_share(level):  # type: ignore[no-untyped-def]
    """Share of a phase's budget for the decision at a level, from 1. The shares of all levels sum to 1."""
    return 4.0 / ((level + 3.0) * (level + 4.0))


@nb.njit(cache=True, nogil=True)
def chance_to_stop(value, scale, threshold):  # type: ignore[no-untyped-def]
    """P[value + Lap(scale) ≤ threshold]."""
    return laplace_cdf((threshold - value) / scale)


@nb.njit(cache=True, nogil=True)
def _grow(codes, counts, sizes, epsilon_tests, epsilon_cuts, threshold, key):  # type: ignore[no-untyped-def]
    """Leaves in depth-first order, as draws are: bounds, depths (from 1), exact counts."""
    order, stream, n_drawn = np.arange(len(counts)), new_stream(), 0
    scores = np.empty(sizes.sum())
    waiting = [(np.zeros_like(sizes), sizes.copy(), 1, _FIRST, 1, 0, len(counts))]
    blocks = [(waiting[0][0], waiting[0][1], 1, np.int64(0)) for _ in range(0)]
    while len(waiting) > 0:
        lower, upper, depth, phase, level, first, last = waiting.pop()
        rows, n_cells, total = order[first:last], 1.0, np.int64(0)
        for a in range(len(lower)):
            n_cells *= upper[a] - lower[a]
        for row in rows:
            total += counts[row]
        stop = n_cells == 1.0
        if phase == _FIRST and not stop:
            chance = chance_to_stop(total, 1.0 / (epsilon_tests[_FIRST] * level_share(level)), threshold)
            if draw(key, n_drawn, stream) < chance:
                phase, level = _SECOND, 1
            n_drawn += 1
        if phase == _SECOND and not stop:
            deviation = _deviation(counts, rows, total, n_cells)
            chance = chance_to_stop(deviation, 2.0 / (epsilon_tests[_SECOND] * level_share(level)), threshold)
            stop = draw(key, n_drawn, stream) < chance
            n_drawn += 1
        if stop:
            blocks.append((lower, upper, depth, total))
            continue
        rate = epsilon_cuts[phase] * level_share(level) / (2.0 * 2.0 * (1.0 - 1.0 / n_cells))
        a, cut = choose_cut(
            codes, counts, rows, lower, upper, total, n_cells, rate, draw(key, n_drawn, stream), scores
        )
        n_drawn += 1
        middle = first + _part_rows(codes, rows, a, cut)
        left_upper, right_lower = upper.copy(), lower.copy()
        left_upper[a], right_lower[a] = cut, cut
        waiting.append((right_lower, upper, depth + 1, phase, level + 1, middle, last))
        waiting.append((lower, left_upper, depth + 1, phase, level + 1, first, middle))
    n = len(blocks)
    lowers, uppers = np.empty((n, len(sizes)), np.int32), np.empty((n, len(sizes)), np.int32)
    depths, sums = np.empty(n, np.int32), np.empty(n, np.int64)
    for i in range(n):
        lowers[i], uppers[i], depths[i], sums[i] = blocks[i]
    return lowers, uppers, depths, sums


@nb.njit(cache=True, nogil=True)
def _deviation(counts, rows, total, n_cells):  # type: ignore[no-untyped-def]
    """Σ |x − mean| over the cells of a block with these occupied cells: twice what lies above the mean."""
    mean, above = total / n_cells, 0.0
    for row in rows:
        above += max(0.0, counts[row] - mean)
    return 2.0 * above


@nb.njit(cache=True, nogil=True)
def choose_cut(codes, counts, rows, lower, upper, total, n_cells, rate, uniform, scores):  # type: ignore[no-untyped-def]
    """A cut drawn ∝ exp(−rate · deviations of its halves), by attribute, then by cut point."""
    n_cuts = 0
    for a in range(len(lower)):
        n_cuts += _half_deviations(
            codes, counts, rows, a, lower[a], upper[a], total, n_cells, scores[n_cuts:]
        )
    least, sum_of_weights = scores[:n_cuts].min(), 0.0
    for i in range(n_cuts):
        sum_of_weights += math.exp(rate * (least - scores[i]))
        scores[i] = sum_of_weights
    chosen = min(np.searchsorted(scores[:n_cuts], uniform * sum_of_weights, side="right"), n_cuts - 1)
    return cut_number(lower, upper, chosen)


@nb.njit(cache=True, nogil=True)
def _half_deviations(codes, counts, rows, a, low, high, total, n_cells, out):  # type: ignore[no-untyped-def]
    """Add the deviations of both halves of each cut of attribute `a` to `out`; return the number of cuts.

    If both halves have a mean below 1, every occupied cell lies above it, so sums and numbers of cells
    suffice.
    """
    width = high - low
    if width == 1:
        return 0
    sums, occupied = np.zeros(width, np.int64), np.zeros(width, np.int64)
    for row in rows:
        sums[codes[row, a] - low] += counts[row]
        occupied[codes[row, a] - low] += 1
    left_sum, left_occupied = np.int64(0), np.int64(0)
    for i in range(width - 1):
        left_sum += sums[i]
        left_occupied += occupied[i]
        left_cells = n_cells / width * (i + 1)
        right_cells = n_cells / width * (width - i - 1)
        right_sum = total - left_sum
        if left_sum < left_cells and right_sum < right_cells:
            sparse = left_sum * (1.0 - left_occupied / left_cells) + right_sum * (
                1.0 - (len(rows) - left_occupied) / right_cells
            )
            out[i] = 2.0 * sparse
        else:
            above = 0.0
            for row in rows:
                mean = left_sum / left_cells if codes[row, a] <= low + i else right_sum / right_cells
                above += max(0.0, counts[row] - mean)
            out[i] = 2.0 * above
    return width - 1


@nb.njit(cache=True, nogil=True)
def _part_rows(codes, rows, a, cut):  # type: ignore[no-untyped-def]
    """Reorder row numbers so that those with a code below the cut come first; return their number."""
    n_left = 0
    for i in range(len(rows)):
        if codes[rows[i], a] < cut:
            rows[i], rows[n_left] = rows[n_left], rows[i]
            n_left += 1
    return n_left
