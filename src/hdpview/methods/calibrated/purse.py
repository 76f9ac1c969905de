"""How the calibrated method pays for its steps: purely by epsilon, or with a little delta. The steps
themselves are the same.

Each step is charged before it is taken. With a delta, everything but the noise on counts of blocks is paid
for together, in zero-concentrated differential privacy, under which noise grows with the root of the number
of attributes instead of the number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hdpview.methods.calibrated.plan import LEAST_RECORDS_PER_NOISE, SHARES, Plan
from hdpview.privacy.budget import Budget
from hdpview.privacy.noise import gaussian_scale, gaussian_vector, laplace_variance, noisy_vector
from hdpview.privacy.randomness import Randomness
from hdpview.privacy.zcdp import epsilon_of_choices, rho_of

Integers = NDArray[np.int64]
WITH_DELTA = "histograms, pairs and cuts, with delta"


class TableNoise(Protocol):
    """Noise on the counts of one table, of which a record is in one cell."""

    @property
    def variance(self) -> float: ...

    def on(self, exact: Integers, randomness: Randomness, purpose: str) -> Integers:
        """The table with noise on every count."""
        ...


@dataclass(frozen=True)
class LaplaceNoise:
    """Discrete Laplace noise that costs `epsilon`."""

    epsilon: Fraction

    @property
    def variance(self) -> float:
        return laplace_variance(self.epsilon)

    def on(self, exact: Integers, randomness: Randomness, purpose: str) -> Integers:
        return noisy_vector(exact, self.epsilon, randomness, purpose)


@dataclass(frozen=True)
class GaussianNoise:
    """Discrete Gaussian noise that costs `rho`."""

    rho: Fraction

    @property
    def variance(self) -> float:
        return gaussian_scale(self.rho) ** 2

    def on(self, exact: Integers, randomness: Randomness, purpose: str) -> Integers:
        return gaussian_vector(exact, self.rho, randomness, purpose)


@dataclass(frozen=True)
class BlockBudget:
    """For cutting blocks and counting them: ε of each of `n_levels` cuts on a path, and of the counts."""

    epsilon_cut: Fraction
    n_levels: int
    epsilon_counts: Fraction


class Purse(Protocol):
    """Pays for the steps of one build."""

    def histograms(self) -> TableNoise:
        """For one histogram per attribute: the noise on each."""
        ...

    def takes_pairs(self, noisy_total: float) -> bool:
        """Whether there are records enough for tables of pairs to stand out from their noise."""
        ...

    def pairs(self) -> tuple[Fraction, TableNoise]:
        """For all pairs of the tree: ε of the choice of each, and the noise on its table."""
        ...

    def blocks(self, noisy_total: float, with_pairs: bool) -> BlockBudget:
        """For the blocks."""
        ...

    def parameters(self, with_pairs: bool) -> Mapping[str, float]:
        """The public facts about histograms and pairs."""
        ...


@dataclass(frozen=True)
class PurePurse:
    """Every step by its own ε."""

    plan: Plan
    budget: Budget

    def histograms(self) -> TableNoise:
        return LaplaceNoise(
            self.budget.charge(
                "histograms of attributes", self.plan.epsilon_histogram, times=self.plan.n_attributes
            )  # [P8]
        )

    def takes_pairs(self, noisy_total: float) -> bool:
        return self.plan.takes_pairs(noisy_total)

    def pairs(self) -> tuple[Fraction, TableNoise]:
        plan = self.plan
        choice = self.budget.charge(
            "choose pairs of attributes", plan.epsilon_choice, times=plan.n_pairs
        )  # [P10]
        return choice, LaplaceNoise(
            self.budget.charge("tables of pairs", plan.epsilon_pair, times=plan.n_pairs)
        )  # [P8]

    def blocks(self, noisy_total: float, with_pairs: bool) -> BlockBudget:
        epsilon_counts = self.plan.epsilon_counts(with_pairs)
        n_levels = self.plan.n_cut_levels(noisy_total, epsilon_counts)
        epsilon_cut = self.budget.charge(
            "choose cuts", self.plan.epsilon_cut(n_levels), times=n_levels
        )  # [P9]
        self.budget.charge("noise on counts", epsilon_counts)  # [P6]
        return BlockBudget(epsilon_cut, n_levels, epsilon_counts)

    def parameters(self, with_pairs: bool) -> Mapping[str, float]:
        return {
            "epsilon_histogram": float(self.plan.epsilon_histogram),
            "epsilon_pair": float(self.plan.epsilon_pair) if with_pairs else 0.0,
        }


@dataclass(frozen=True)
class DeltaPurse:
    """Histograms, pairs and cuts by (ε', δ) together, and counts by what is left of ε."""

    plan: Plan
    budget: Budget

    @property
    def _epsilon_counts(self) -> Fraction:
        return self.plan.epsilon_counts(with_pairs=True)

    @property
    def rho(self) -> Fraction:
        """For all but the counts. [P14]"""
        return rho_of(self.plan.epsilon - self._epsilon_counts, self.budget.delta)

    def _part(self, *shares: str) -> Fraction:
        """Of ρ, in the relation that the shares of ε have without a delta."""
        of = {name: self.plan.share(name) for name in SHARES}
        return self.rho * sum((of[name] for name in shares), Fraction(0)) / sum(of.values())

    @property
    def _rho_histogram(self) -> Fraction:
        return self._part("histogram_share") / self.plan.n_attributes

    @property
    def _rho_pair(self) -> Fraction:
        return self._part("pair_share") / self.plan.n_pairs

    def _rho_cuts(self, with_pairs: bool) -> Fraction:
        """What pairs would have cost is for cuts where none are taken."""
        return (
            self._part("cut_share") if with_pairs else self._part("choice_share", "pair_share", "cut_share")
        )

    @property
    def helps(self) -> bool:
        """Whether histograms have less noise than by their share of ε alone: with few attributes they have
        more.
        """
        return (
            GaussianNoise(self._rho_histogram).variance < LaplaceNoise(self.plan.epsilon_histogram).variance
        )

    def histograms(self) -> TableNoise:
        self.budget.charge(
            WITH_DELTA, self.plan.epsilon - self._epsilon_counts, delta=self.budget.delta
        )  # [P14]
        return GaussianNoise(self._rho_histogram)

    def takes_pairs(self, noisy_total: float) -> bool:
        return (
            self.plan.n_pairs > 0
            and noisy_total / math.sqrt(GaussianNoise(self._rho_pair).variance) >= LEAST_RECORDS_PER_NOISE
        )

    def pairs(self) -> tuple[Fraction, TableNoise]:
        return epsilon_of_choices(self._part("choice_share"), self.plan.n_pairs), GaussianNoise(
            self._rho_pair
        )  # [P14]

    def blocks(self, noisy_total: float, with_pairs: bool) -> BlockBudget:
        epsilon_counts = self.budget.charge("noise on counts", self._epsilon_counts)  # [P6]
        n_levels = self.plan.n_cut_levels(noisy_total, epsilon_counts)
        return BlockBudget(
            epsilon_of_choices(self._rho_cuts(with_pairs), n_levels), n_levels, epsilon_counts
        )  # [P14]

    def parameters(self, with_pairs: bool) -> Mapping[str, float]:
        return {
            "rho": float(self.rho),
            "rho_histograms": float(self._part("histogram_share")),
            "rho_choices": float(self._part("choice_share")) if with_pairs else 0.0,
            "rho_pairs": float(self._part("pair_share")) if with_pairs else 0.0,
            "rho_cuts": float(self._rho_cuts(with_pairs)),
        }
