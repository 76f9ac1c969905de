"""Noise distributions: the scale for an amount of budget. Public formulas; nothing is drawn here.

Noise is discrete Laplace, P(z) ∝ exp(−|z|·ε), or, if a δ is spent, discrete Gaussian, P(z) ∝ exp(−z²/2σ²).
Both are whole numbers, so no low bits of a fraction reveal the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Law = Literal["laplace", "gaussian"]
# Records². Smaller variances are rounded up to it, which keeps precisions finite if ε is huge.
_LEAST_VARIANCE = 1e-6


@dataclass(frozen=True)
class Noise:
    """Noise on counts, of which one record changes one. amount: ε for Laplace, ρ for Gaussian noise."""

    law: Law
    amount: Fraction

    @property
    def scale(self) -> float:
        return laplace_scale(self.amount) if self.law == "laplace" else gaussian_scale(self.amount)

    @property
    def variance(self) -> float:
        exact = laplace_variance(self.amount) if self.law == "laplace" else gaussian_scale(self.amount) ** 2
        return max(exact, _LEAST_VARIANCE)


def laplace_scale(epsilon: Fraction) -> float:
    """The smallest double that is at least 1/ε: rounding may only add noise."""
    scale = float(1 / epsilon)
    return scale if Fraction(scale) * epsilon >= 1 else math.nextafter(scale, math.inf)


def laplace_variance(epsilon: Fraction) -> float:
    """Variance of discrete Laplace noise with P(z) ∝ exp(−|z|·ε)."""
    q = math.exp(-float(epsilon))  # vanishes for large ε, where sinh(ε/2) would be too large for a double
    return 2 * q / math.expm1(-float(epsilon)) ** 2


def gaussian_scale(rho: Fraction) -> float:
    """The smallest double σ that is at least √(1/2ρ): rounding may only add noise."""
    scale = math.sqrt(1 / (2 * rho))
    while 2 * rho * Fraction(scale) ** 2 < 1:
        scale = math.nextafter(scale, math.inf)
    return scale
