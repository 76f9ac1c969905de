"""Making the most of what was measured: denoised distributions, and counts fitted to everything at once.

Only released numbers come in, so nothing here costs budget.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hdpview.view.base import Base
from hdpview.view.blocks import project_to_simplex

Floats = NDArray[np.float64]

_SIGNIFICANT = 2.0  # standard deviations from which a difference is taken at (nearly) full size
_KEPT_IF_SIGNIFICANT, _KEPT_OTHERWISE = 0.8, 0.5
_SMALLEST_SHARE = 1e-6  # of the total, for every code: a base is positive everywhere
_ITERATIONS = 300


def denoised(noisy: Floats, variance: float, total: float) -> Floats:
    """A distribution, shape (size,), positive and summing to 1, from a noisy histogram with this variance on every count.

    Differences between neighbouring halves, quarters, … are shrunk towards none: at each scale by as much as noise explains of them, and less where a
    single difference stands out.
    """
    size = len(noisy)
    even = np.full(size, total / size)
    smooth = even + _shrunk(noisy - even, variance)
    counts = project_to_simplex(smooth, max(total, 1.0)) + _SMALLEST_SHARE * max(total, 1.0)
    share: Floats = counts / counts.sum()
    return share


def _shrunk(deviation: Floats, variance: float) -> Floats:
    size = len(deviation)
    length = 1 << max(0, size - 1).bit_length()
    sums, variances = np.zeros(length), np.zeros(length)
    sums[:size], variances[:size] = deviation, variance
    scales = []
    while len(sums) > 1:
        left, right = sums[0::2], sums[1::2]
        scales.append(((left - right) / 2, (variances[0::2] + variances[1::2]) / 4))
        sums, variances = left + right, variances[0::2] + variances[1::2]
    shrunk = sums * _explained(sums, variances)
    for difference, noise in reversed(scales):
        kept = _explained(difference, noise)
        stands_out = np.abs(difference) > _SIGNIFICANT * np.sqrt(np.maximum(noise, 1e-12))
        difference = difference * np.where(stands_out, max(kept, _KEPT_IF_SIGNIFICANT), kept * _KEPT_OTHERWISE)
        shrunk = np.stack([shrunk / 2 + difference, shrunk / 2 - difference], axis=1).reshape(-1)
    return shrunk[:size]


def _explained(values: Floats, variances: Floats) -> float:
    """The share of the values' energy that noise does not explain (James and Stein)."""
    energy = float((values**2).sum())
    return max(0.0, 1.0 - float(variances.sum()) / energy) if energy > 0 else 0.0


def fitted_counts(
    lower: NDArray[np.int32], upper: NDArray[np.int32], noisy: Floats, noisy_variance: float, base: Base, histograms: list[Floats], variance: float
) -> Floats:
    """Non-negative counts of blocks, shape (n_blocks,), nearest to their noisy counts and to all one-way histograms, each weighed by its variance.

    Accelerated projected gradient; both directions of the model cost blocks × attributes + codes.
    """
    model = _Model(lower, upper, base)
    of_counts, of_histograms = 1.0 / noisy_variance, 1.0 / variance
    step = 1.0 / (of_counts + of_histograms * model.largest_singular_value() ** 2)
    counts = np.maximum(noisy, 0.0)
    ahead, momentum = counts, 1.0
    for _ in range(_ITERATIONS):
        residuals = [found - wanted for found, wanted in zip(model.histograms(ahead), histograms, strict=True)]
        gradient = of_counts * (ahead - noisy) + of_histograms * model.adjoint(residuals)
        following = np.maximum(ahead - step * gradient, 0.0)
        next_momentum = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = following + (momentum - 1) / next_momentum * (following - counts)
        counts, momentum = following, next_momentum
    return counts


class _Model:
    """One-way histograms as a linear function of block counts, by the base, without a matrix."""

    def __init__(self, lower: NDArray[np.int32], upper: NDArray[np.int32], base: Base) -> None:
        self.lower, self.upper, self.base = lower, upper, base
        self.shares = base.shares(lower, upper)

    def histograms(self, counts: Floats) -> list[Floats]:
        found = []
        for a, weight in enumerate(self.base.weights):
            density = counts / self.shares[a]
            change = np.bincount(self.lower[:, a], density, len(weight) + 1) - np.bincount(self.upper[:, a], density, len(weight) + 1)
            found.append(np.cumsum(change)[:-1] * weight)
        return found

    def adjoint(self, residuals: list[Floats]) -> Floats:
        total = np.zeros(len(self.lower))
        for a, residual in enumerate(residuals):
            running = np.concatenate([[0.0], np.cumsum(residual * self.base.weights[a])])
            total += (running[self.upper[:, a]] - running[self.lower[:, a]]) / self.shares[a]
        return total

    def largest_singular_value(self) -> float:
        """By power iteration, with a margin."""
        vector = np.ones(len(self.lower))
        size = 1.0
        for _ in range(20):
            vector = self.adjoint(self.histograms(vector))
            size = float(np.linalg.norm(vector))
            vector /= max(size, 1e-300)
        return 1.05 * float(np.sqrt(size))
