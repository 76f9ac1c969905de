"""Identity: noise on every cell of the domain. The simplest release, and the baseline for methods that use
structure.

Each cell gets discrete Laplace noise of scale 1/ε: one record is in one cell, so the whole tensor costs ε
once. A question on m cells adds m independent noises, so its error is known exactly without data.
`expected_rmse` computes it without a release, even for domains whose tensor does not fit in memory. The
release itself is the dense tensor, for domains of up to 2·10⁷ cells.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Schema
from hdpview.privacy.budget import exact_epsilon
from hdpview.privacy.noise import laplace_variance
from hdpview.privacy.randomness import Randomness
from hdpview_bench.rivals.budget import Budget, CellMethod, exact_tensor, noisy_vector
from hdpview_bench.rivals.releases import DenseRelease
from hdpview_bench.workloads import kind_for

MOST_CELLS = 2 * 10**7


@dataclass(frozen=True)
class Identity(CellMethod):
    """Noise on every cell. It has no settings."""

    name = "identity"

    def why_infeasible(self, schema: Schema, epsilon: float) -> str | None:
        if schema.n_cells <= MOST_CELLS:
            return None
        return (
            f"Identity holds a number for every cell: {schema.n_cells:.3g} here, and {MOST_CELLS:.0e} at "
            "most. Its expected error is known without a release; or use the method hdpview."
        )

    def release_cells(self, cells: SparseCounts, budget: Budget, randomness: Randomness) -> DenseRelease:
        epsilon = budget.charge("noise on cells", budget.epsilon)
        exact = exact_tensor(cells)
        return DenseRelease(noisy_vector(exact, epsilon, randomness, "cells"), exact.size)

    def expected_rmse(self, workload: str, schema: Schema, epsilon: float) -> float:
        """Root of: variance of one cell's noise × cells of a question, averaged over the workload."""
        variance = laplace_variance(exact_epsilon(epsilon))
        return math.sqrt(variance * schema.n_cells * mean_share_of_cells(workload, schema.sizes))


def mean_share_of_cells(workload: str, sizes: Sequence[int]) -> float:
    """The share of all cells that a question covers, on average over a workload as `workloads.py`
    defines it.

    A question's share is the product of the shares of its ranges; over all sets of k attributes, sums of such
    products are elementary symmetric polynomials.
    """
    kind, k = kind_for(workload, sizes)
    if kind == "range":
        # Uniform over all ranges of all attributes; a range of n codes has (n + 2)/3 of them on average.
        n_ranges = np.array([n * (n + 1) / 2 for n in sizes])
        return float(np.average([(n + 2) / (3 * n) for n in sizes], weights=n_ranges))
    if kind == "random":  # all sets alike; both ends uniform, both inside
        return _symmetric([((n * n - 1) / (3 * n) + 1) / n for n in sizes], k) / math.comb(len(sizes), k)
    # Σ over codes of the share
    of_each = [1.0] * len(sizes) if kind == "marginal" else [(n + 1) / 2 for n in sizes]
    return _symmetric(of_each, k) / _symmetric([float(n) for n in sizes], k)


def _symmetric(values: Sequence[float], k: int) -> float:
    """Σ over all sets of k values of their product."""
    sums = [1.0] + [0.0] * k
    for value in values:
        for i in range(k, 0, -1):
            sums[i] += value * sums[i - 1]
    return sums[k]
