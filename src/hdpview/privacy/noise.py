"""Noise distributions: the scale for an amount of budget, and the amount ρ for a budget with a δ. Public
formulas; nothing is drawn here.

Noise is discrete Laplace, P(z) ∝ exp(−|z|·ε), or, if a δ is spent, discrete Gaussian, P(z) ∝ exp(−z²/2σ²).
Both are whole numbers, so no low bits of a fraction reveal the noise. With a δ, amounts are ρ of
zero-concentrated privacy, as fractions, rounded so that rounding can only add noise. [P14]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Literal

import numpy as np

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


_PRECISE = Context(prec=50)  # digits; `decimal` computes logarithms correctly to the last one
_DIGITS = 15  # digits kept of a result, far above the errors of the precise arithmetic
# Values of α − 1 to try: neighbours differ by 0.1%, which costs less than a millionth of ρ.
_EXCESSES = np.exp(np.arange(-40.0, 80.0, 0.001))


def rho_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """A large ρ such that every ρ-zCDP mechanism is (ε, δ)-differentially private. [P14]

    Every α > 1 gives such a ρ, so an imperfect search only costs accuracy.
    """
    log_delta = math.log(delta.numerator) - math.log(delta.denominator)
    x = _EXCESSES
    rho = (float(epsilon) + (log_delta + np.log1p(x)) / x + np.log1p(1 / x)) / (1 + x)
    return _precise_rho(1 + Decimal(float(x[np.argmax(rho)])), epsilon, delta)


def _precise_rho(alpha: Decimal, epsilon: Fraction, delta: Fraction) -> Fraction:
    """(ε + ln(δ·α)/(α − 1) − ln(1 − 1/α)) / α, rounded down."""
    in_ = _PRECISE
    excess = in_.subtract(alpha, Decimal(1))
    first = in_.divide(in_.ln(in_.multiply(_decimal(delta), alpha)), excess)
    second = in_.ln(in_.divide(alpha, excess))
    rho = in_.divide(in_.add(in_.add(_decimal(epsilon), first), second), alpha)
    return Fraction(Context(prec=_DIGITS, rounding=ROUND_FLOOR).plus(rho))


def delta_of_one_record(delta: Fraction, epsilon: Fraction, k: int) -> Fraction:
    """The δ for one record of a build that protects persons with k records with (ε, δ). [P14]"""
    if k == 1:
        return delta
    growth = Context(prec=_DIGITS, rounding=ROUND_CEILING).plus(_PRECISE.exp(_decimal(epsilon)))
    return delta / (k * Fraction(growth))


def _decimal(fraction: Fraction) -> Decimal:
    return _PRECISE.divide(Decimal(fraction.numerator), Decimal(fraction.denominator))
