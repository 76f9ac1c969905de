"""Divide a budget among tables, in ε or, with a δ, in ρ of zero-concentrated privacy.

The scale of the noise grows with the number of tables in ε, and with its square root in ρ. This module only
plans; a `Mechanism` charges the budget when it draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.noise import Law, Noise
from hdpview.privacy.zcdp import rho_of

# Shares are rounded to multiples of 1 over this number, which keeps fractions in manifests short.
_PARTS = 10**9


@dataclass(frozen=True)
class Accounting:
    """The budget for one record: `total` is in ε for Laplace noise, in ρ for Gaussian noise."""

    law: Law
    total: Fraction

    @classmethod
    def of(cls, mechanism: Mechanism) -> Accounting:
        return cls(mechanism.law, mechanism.total)

    def noise(self, amount: Fraction) -> Noise:
        """The noise that an amount buys."""
        return Noise(self.law, amount)

    def shared(self, amount: Fraction, n_cells: Sequence[int]) -> list[Fraction]:
        """An amount shared among tables so that the variances of all cells have the smallest sum.

        The variance of a cell is ∝ 1/ε² or 1/ρ, so the share of a table is ∝ cells^(1/3) or cells^(1/2).
        """
        power = 1 / 3 if self.law == "laplace" else 1 / 2
        return split(amount, [n**power for n in n_cells])


def split(amount: Fraction, weights: Sequence[float]) -> list[Fraction]:
    """Split an amount into positive parts nearly ∝ weights; they add up to it exactly."""
    total = sum(weights)
    whole = [max(1, round(_PARTS * weight / total)) for weight in weights]
    return [amount * part / sum(whole) for part in whole]


def delta_helps(epsilon: Fraction, delta: Fraction, n_tables: int) -> bool:
    """Whether the δ reduces the noise of this many tables; with few tables it adds noise."""
    rho = rho_of(epsilon, delta)
    return Noise("gaussian", rho / n_tables).variance < Noise("laplace", epsilon / n_tables).variance
