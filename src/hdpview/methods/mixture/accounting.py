"""How the method pays for its steps: in ε, or, where a little δ is spent, in ρ of zero-concentrated privacy.

Every step is charged before it is taken. In ε noise grows with the number of tables that a record is in, in ρ
with the root of that number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hdpview.privacy.budget import Budget
from hdpview.privacy.noise import (
    gaussian_scale,
    gaussian_vector,
    laplace_scale,
    laplace_variance,
    noisy_vector,
)
from hdpview.privacy.randomness import Randomness
from hdpview.privacy.zcdp import epsilon_of_choices, rho_of

Integers = NDArray[np.int64]
WITH_DELTA = "histograms, choices and tables, with delta"
# Shares are rounded to multiples of this, so that fractions in the ledger stay short.
_PARTS = 10**9
# Noise of less than a thousandth of a record is none; the bound keeps precisions finite where ε is huge.
_LEAST_VARIANCE = 1e-6


@dataclass(frozen=True)
class TableNoise:
    """Noise on one table, of which a record is in one cell. amount: ε for Laplace, ρ for Gaussian noise."""

    law: Literal["laplace", "gaussian"]
    amount: Fraction

    @property
    def scale(self) -> float:
        return laplace_scale(self.amount) if self.law == "laplace" else gaussian_scale(self.amount)

    @property
    def variance(self) -> float:
        exact = laplace_variance(self.amount) if self.law == "laplace" else gaussian_scale(self.amount) ** 2
        return max(exact, _LEAST_VARIANCE)

    def on(self, exact_table: Integers, randomness: Randomness, purpose: str) -> Integers:
        """The table with noise on every count. [P8]"""
        add = noisy_vector if self.law == "laplace" else gaussian_vector
        return add(exact_table, self.amount, randomness, purpose)


class Accounting:
    """Pays for one build. Amounts are of ε, or of ρ where the budget has a δ."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.law: Literal["laplace", "gaussian"] = "gaussian" if budget.delta else "laplace"
        # What steps are charged to: the budget itself, or the same privacy in ρ.
        self._steps = Budget(rho_of(budget.epsilon, budget.delta)) if budget.delta else budget

    @property
    def total(self) -> Fraction:
        """All there is to spend."""
        return self._steps.epsilon

    def charge_delta(self) -> None:
        """With a δ, charge ε and δ as a whole before the first step; steps then share the ρ that they buy."""
        if self._budget.delta:
            self._budget.charge(WITH_DELTA, self._budget.epsilon, delta=self._budget.delta)  # [P14]

    def spend(self, purpose: str, amount: Fraction, times: int = 1) -> Fraction:
        """Charge `times · amount`, before anything is drawn, and return the amount of one."""
        return self._steps.charge(purpose, amount, times=times)

    def close(self) -> None:
        """Nothing may be left over."""
        if self._steps is not self._budget:
            self._steps.close()

    def noise(self, amount: Fraction) -> TableNoise:
        """What an amount buys."""
        return TableNoise(self.law, amount)

    def epsilon_of_choices(self, amount: Fraction, times: int) -> Fraction:
        """ε of each of `times` choices by the exponential mechanism that cost `amount` together."""
        return amount / times if self.law == "laplace" else epsilon_of_choices(amount, times)

    def shared(self, amount: Fraction, n_cells: Sequence[int]) -> list[Fraction]:
        """An amount shared among tables such that the sum of the variances of all their cells is least.

        The variance of a cell is ∝ 1/ε² or 1/ρ, so the share of a table is ∝ cells^(1/3) or cells^(1/2).
        """
        power = 1 / 3 if self.law == "laplace" else 1 / 2
        return split(amount, [n**power for n in n_cells])

    def n_tables(self, noisy_total: float) -> int:
        """The n with n² = records · ε; with a δ, of the ε that gives n tables the same noise, 2·√(n·ρ)."""
        if self.law == "laplace":
            return int(math.sqrt(max(0.0, noisy_total) * float(self.total)))
        return int((2 * max(0.0, noisy_total) * math.sqrt(float(self.total))) ** (2 / 3))


def split(amount: Fraction, weights: Sequence[float]) -> list[Fraction]:
    """An amount in parts nearly ∝ weights that add up to it exactly; every part is positive."""
    total = sum(weights)
    whole = [max(1, round(_PARTS * weight / total)) for weight in weights]
    return [amount * part / sum(whole) for part in whole]


def delta_helps(epsilon: Fraction, delta: Fraction, n_tables: int) -> bool:
    """Whether so many tables have less noise with the δ than without: with few they have more."""
    rho = rho_of(epsilon, delta)
    return (
        TableNoise("gaussian", rho / n_tables).variance < TableNoise("laplace", epsilon / n_tables).variance
    )
