"""Accounting with a δ: the ρ of zero-concentrated privacy for a budget (ε, δ), and its inverse. [P14]

All results are fractions, rounded so that rounding can only add noise.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

import numpy as np

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
