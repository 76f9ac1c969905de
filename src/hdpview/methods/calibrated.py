"""The calibrated view: blocks over a released base measure, cut where the data departs from it.

The paper's blocks take records to lie evenly inside; most of its error is one-dimensional skew that this ignores. Here a part of the budget buys every
attribute's histogram first. Their product is the base: it tells how counts spread inside blocks, blocks are cut where the data disagrees with it, and in the
end the counts of all blocks are fitted to their own noisy counts and to the histograms together.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Schema
from hdpview.errors import MethodError
from hdpview.methods.base import BlockRelease, Engine, Progress
from hdpview.partition.parameters import PartitionParameters
from hdpview.privacy.ledger import Ledger
from hdpview.privacy.noise import laplace_scale, laplace_variance, noisy_counts, noisy_vector
from hdpview.privacy.randomness import Randomness
from hdpview.view.base import Base
from hdpview.view.blocks import Blocks
from hdpview.view.fit import denoised, fitted_counts

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Calibrated:
    """Shares of the budget, the greatest depth, and the count below which a block is not worth cutting, in noise scales."""

    base_share: float = 0.4
    cut_share: float = 0.35
    converge_share: float = 0.1
    n_levels: int = 14
    threshold: float = 0.0

    def __post_init__(self) -> None:
        shares = (self.base_share, self.cut_share, self.converge_share)
        if not all(isinstance(share, (int, float)) and 0 < share < 1 for share in shares) or sum(shares) >= 1:
            raise MethodError(f"base_share, cut_share and converge_share must be positive and leave some of 1 for the counts; got {shares}.")
        if isinstance(self.n_levels, bool) or not isinstance(self.n_levels, int) or not 1 <= self.n_levels <= 40:
            raise MethodError(f"n_levels must be a whole number from 1 to 40, not {self.n_levels!r}.")

    @property
    def name(self) -> str:
        return "calibrated"

    def settings(self) -> Mapping[str, float]:
        return dataclasses.asdict(self)

    def why_infeasible(self, schema: Schema, epsilon: float) -> str | None:  # noqa: ARG002
        """The argument for stopping by counts needs noise of scale 2 or more. [P9]"""
        if 3 / (epsilon * self.converge_share) >= 2:
            return None
        return f"epsilon {epsilon:g} is too large for the calibrated method; use at most {1.5 / self.converge_share:g}."

    def release(
        self, counts: SparseCounts, ledger: Ledger, randomness: Randomness, engine: Engine, progress: Progress | None = None
    ) -> BlockRelease:
        sizes, share = counts.schema.sizes, {name: Fraction(str(getattr(self, f"{name}_share"))) for name in ("base", "cut", "converge")}
        epsilon_histogram = ledger.charge("histograms of attributes", share["base"] * ledger.epsilon / len(sizes), times=len(sizes))  # [P10]
        epsilon_cut = ledger.charge("choose cuts", share["cut"] * ledger.epsilon / self.n_levels, times=self.n_levels)  # [P8]
        epsilon_converge = ledger.charge("decide when to stop", share["converge"] * ledger.epsilon)  # [P9]
        epsilon_counts = ledger.charge("noise on counts", ledger.remaining)  # [P6]
        histograms = _noisy_histograms(counts, epsilon_histogram, randomness)
        base = _base(histograms, laplace_variance(epsilon_histogram))
        parameters = PartitionParameters.by_counts(
            epsilon_cut, epsilon_converge, epsilon_counts, self.n_levels, self.threshold / float(epsilon_counts)
        )
        leaves = engine.grow(counts, parameters, randomness.root_key("partition"), progress, base.running)
        noisy = noisy_counts(leaves.exact_sum, epsilon_counts, randomness, leaves.keys)
        fitted = fitted_counts(
            leaves.lower, leaves.upper, noisy.astype(np.float64), laplace_variance(epsilon_counts), base, histograms, laplace_variance(epsilon_histogram)
        )
        return BlockRelease(
            blocks=Blocks(leaves.lower, leaves.upper, noisy, leaves.depth, fitted, base),
            noise_scale=laplace_scale(epsilon_counts),
            parameters={
                "epsilon_counts": float(epsilon_counts),
                "epsilon_histogram": float(epsilon_histogram),
                "epsilon_cut": float(epsilon_cut),
                "n_private_cut_levels": self.n_levels,
            },
        )


def _noisy_histograms(counts: SparseCounts, epsilon: Fraction, randomness: Randomness) -> list[Floats]:
    """Counts per code of each attribute, with noise. A record is in one bin of each: every histogram costs ε once. [P10]"""
    exact_histograms = [np.bincount(counts.exact_codes[:, a], counts.exact_counts, size).astype(np.int64) for a, size in enumerate(counts.schema.sizes)]
    noisy = noisy_vector(np.concatenate(exact_histograms), epsilon, randomness, "histograms").astype(np.float64)
    return np.split(noisy, np.cumsum(counts.schema.sizes)[:-1])


def _base(histograms: list[Floats], variance: float) -> Base:
    """The product of the denoised histograms, which share one total: the mean of their own."""
    total = max(1.0, math.fsum(histogram.sum() for histogram in histograms) / len(histograms))
    return Base(tuple(denoised(histogram, variance, total) for histogram in histograms))
