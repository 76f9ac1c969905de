"""DAWA's partition (Li, Hay, Miklau, Wang: PVLDB 7(5), 2014), without its second stage, which needs a
workload.

The cells of the domain form a row. Every interval whose length is a power of two has a price: the deviation
of its counts from their mean, plus 1/ε₂, the error of one noisy count. Noise is added to the prices, and the
cheapest tiling of the row is found. The records of each of its buckets are counted with noise and spread
evenly, as real numbers.

Why the partition costs ε₁ although each price has its own noise: one more record changes the price of an
interval of length l by at most Δ_l = 2(1 − 1/l), and lies in exactly one bucket of any tiling. Let b be the
bucket of the chosen tiling that contains it, and Δ the largest Δ_l. If the noise of b is lower by Δ_b + Δ and
all other noise is unchanged, the other table makes the same choice: tilings with b keep their order; those
without become cheaper by at most Δ, and b by at least Δ. So only one draw pays, and noise of scale (Δ_b +
Δ)/ε₁ suffices.

The authors' code draws half of that noise, none for single cells, and raises noisy deviations below 0 to 0.
Then a lucky bucket cannot become cheaper, and the argument fails: on a row of eight empty cells, one record
raises the odds that its cell becomes its own bucket about 30-fold, where e^ε₁ = 2.7 is promised. Raised
prices give far fewer and larger buckets, which is why figures made with that code differ from these.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Schema
from hdpview.errors import MethodError
from hdpview.jit import numba as nb
from hdpview.privacy.randomness import Randomness, draw, new_stream
from hdpview_bench.rivals.budget import Budget, CellMethod, exact_tensor, noisy_vector
from hdpview_bench.rivals.releases import DenseRelease

MOST_CELLS = 2**24

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Dawa(CellMethod):
    """The partition of DAWA on the flattened domain. partition_share: share of the budget; the paper's is
    1/4.
    """

    name = "dawa"
    partition_share: float = 0.25

    def __post_init__(self) -> None:
        if not isinstance(self.partition_share, (int, float)) or not 0 < self.partition_share < 1:
            raise MethodError(f"partition_share must lie between 0 and 1, not {self.partition_share!r}.")

    def why_infeasible(self, schema: Schema, epsilon: float) -> str | None:
        """It keeps every cell of the domain in memory."""
        if schema.n_cells <= MOST_CELLS:
            return None
        return (
            f"DAWA lays out all {schema.n_cells:.2g} cells of the domain; its limit is {MOST_CELLS:,}. Use "
            "hdpview, or fewer attributes."
        )

    def release_cells(self, cells: SparseCounts, budget: Budget, randomness: Randomness) -> DenseRelease:
        reason = self.why_infeasible(cells.schema, float(budget.epsilon))
        if reason is not None:
            raise MethodError(reason)
        share = Fraction(str(self.partition_share))
        epsilon_partition = budget.charge("choose buckets", share * budget.epsilon)
        epsilon_counts = budget.charge("noise on buckets", budget.remaining)
        exact_row = exact_tensor(cells).reshape(-1)
        starts = least_cost_partition(
            exact_row,
            float(1 / epsilon_counts),
            float(1 / epsilon_partition),
            randomness.root_key("dawa prices"),
        )
        noisy = noisy_vector(np.add.reduceat(exact_row, starts), epsilon_counts, randomness, "dawa buckets")
        lengths = np.diff(starts, append=len(exact_row))
        return DenseRelease(np.repeat(noisy / lengths, lengths).reshape(cells.schema.sizes), len(starts))


def least_cost_partition(
    exact_row: Ints, bucket_price: float, noise_scale: float, key: NDArray[np.uint32]
) -> Ints:
    """First cells of the buckets of the cheapest tiling by intervals with lengths of powers of two, shape
    (n_buckets,), rising.

    Args:
        exact_row: counts, shape (n_cells,), not negative.
        bucket_price: what a bucket costs besides its deviation.
        noise_scale: of the Laplace noise on a price, per unit of sensitivity; 0 for none.
        key: where the noise comes from, shape (8,).
    """
    values, rank = np.unique(exact_row, return_inverse=True)
    lengths = _last_bucket_lengths(
        exact_row, rank.astype(np.int32), values.astype(np.float64), bucket_price, noise_scale, key
    )
    starts, end = [], len(exact_row)
    while end > 0:
        end -= 1 << int(lengths[end])
        starts.append(end)
    return np.array(starts[::-1], dtype=np.int64)


@nb.njit(cache=True, nogil=True)
def _last_bucket_lengths(row, rank, values, bucket_price, noise_scale, key):  # type: ignore[no-untyped-def]
    """For each prefix of the row, log₂ of the length of the last bucket of its cheapest tiling, shape (n +
    1,).

    One window per length slides along. Counts are whole numbers, so in a window with mean below 1 exactly the
    occupied cells lie above the mean, and two running sums give the deviation; otherwise a Fenwick tree over
    the distinct counts of the window does.
    """
    n, n_levels = len(row), 1
    while (1 << n_levels) <= n:
        n_levels += 1
    least, length = np.empty(n + 1), np.zeros(n + 1, np.uint8)
    sums, occupied = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    trees = np.zeros((n_levels, len(values) + 1, 2))
    largest_change = _price_sensitivity(n_levels - 1)
    stream, n_drawn = new_stream(), 0
    least[0] = 0.0
    for end in range(1, n + 1):
        sums[end] = sums[end - 1] + row[end - 1]
        occupied[end] = occupied[end - 1] + (row[end - 1] > 0)
        best, best_level = np.inf, 0
        for level in range(n_levels):
            start = end - (1 << level)
            if row[end - 1] > 0:
                _count_value(trees[level], rank[end - 1], 1.0, values[rank[end - 1]])
            if start > 0 and row[start - 1] > 0:
                _count_value(trees[level], rank[start - 1], -1.0, -values[rank[start - 1]])
            if start < 0:
                continue
            total, n_occupied = sums[end] - sums[start], occupied[end] - occupied[start]
            mean = total / (1 << level)
            if mean >= 1.0:
                n_below, sum_below = _up_to(trees[level], np.searchsorted(values, mean, side="right"))
                deviation = 2.0 * ((total - sum_below) - (n_occupied - n_below) * mean)
            else:
                deviation = 2.0 * (total - n_occupied * mean)
            cost = least[start] + deviation + bucket_price
            if noise_scale > 0.0:
                scale = noise_scale * (_price_sensitivity(level) + largest_change)
                cost += scale * _laplace(draw(key, n_drawn, stream))
                n_drawn += 1
            if cost < best:
                best, best_level = cost, level
        least[end], length[end] = best, best_level
    return length


@nb.njit(cache=True, nogil=True)
def _price_sensitivity(level):  # type: ignore[no-untyped-def]
    """The maximum change of Σ|x − mean| over an interval of length 2^level by one record."""
    return 2.0 * (1.0 - 1.0 / (1 << level))


@nb.njit(cache=True, nogil=True)
def _laplace(uniform):  # type: ignore[no-untyped-def]
    """A Laplace variable of scale 1 from one uniform number: sign from the first bit, size from the rest."""
    if uniform < 0.5:
        return math.log1p(-2.0 * uniform)
    return -math.log1p(-(2.0 * uniform - 1.0))


@nb.njit(cache=True, nogil=True)
def _count_value(tree, rank, times, amount):  # type: ignore[no-untyped-def]
    """Enter a count of this rank into a Fenwick tree (n_values + 1, 2) of numbers and sums."""
    at = rank + 1
    while at < len(tree):
        tree[at, 0] += times
        tree[at, 1] += amount
        at += at & -at


@nb.njit(cache=True, nogil=True)
def _up_to(tree, n_ranks):  # type: ignore[no-untyped-def]
    """Number and sum of the entered counts of the first `n_ranks` ranks."""
    number, total, at = 0.0, 0.0, n_ranks
    while at > 0:
        number += tree[at, 0]
        total += tree[at, 1]
        at -= at & -at
    return number, total
