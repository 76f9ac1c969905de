"""How a budget is shared among tables: plans in ε, or, where a little δ is spent, in ρ of zero-concentrated
privacy.

In ε noise grows with the number of tables that a record is in, in ρ with the root of that number. Nothing
is charged here: a `Mechanism` does that when it draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.noise import Law, Noise
from hdpview.privacy.zcdp import rho_of

# Shares are rounded to multiples of one part of so many, so that fractions in manifests stay short.
_PARTS = 10**9


@dataclass(frozen=True)
class Accounting:
    """What there is to spend on one record: total is of ε under the Laplace law, of ρ under the Gaussian
    one.
    """

    law: Law
    total: Fraction

    @classmethod
    def of(cls, mechanism: Mechanism) -> Accounting:
        return cls(mechanism.law, mechanism.total)

    def noise(self, amount: Fraction) -> Noise:
        """What an amount buys."""
        return Noise(self.law, amount)

    def shared(self, amount: Fraction, n_cells: Sequence[int]) -> list[Fraction]:
        """An amount shared among tables such that the sum of the variances of all their cells is least.

        The variance of a cell is ∝ 1/ε² or 1/ρ, so the share of a table is ∝ cells^(1/3) or cells^(1/2).
        """
        power = 1 / 3 if self.law == "laplace" else 1 / 2
        return split(amount, [n**power for n in n_cells])


def split(amount: Fraction, weights: Sequence[float]) -> list[Fraction]:
    """An amount in parts nearly ∝ weights that add up to it exactly; every part is positive."""
    total = sum(weights)
    whole = [max(1, round(_PARTS * weight / total)) for weight in weights]
    return [amount * part / sum(whole) for part in whole]


def delta_helps(epsilon: Fraction, delta: Fraction, n_tables: int) -> bool:
    """Whether so many tables have less noise with the δ than without: with few they have more."""
    rho = rho_of(epsilon, delta)
    return Noise("gaussian", rho / n_tables).variance < Noise("laplace", epsilon / n_tables).variance
