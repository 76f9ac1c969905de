"""Accounts with a little delta: how much zero-concentrated privacy, ρ, a budget (ε, δ) pays for, and what ρ
pays for in turn. [P14]

All results are fractions, rounded so that rounding can only add noise.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

_PRECISE = Context(prec=50)  # digits; logarithms of `decimal` are right to the last of them
_DIGITS = 15  # kept of a result: far from where errors of the precise arithmetic could be
_SEARCHED = (-40.0, 80.0)  # logarithms of α − 1


def rho_of(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest ρ found such that all that is ρ-zCDP is (ε, δ)-differentially private. [P14]

    Every α > 1 gives a ρ for which this holds, so it does not matter how well the search among them goes.
    """
    log_delta = math.log(delta.numerator) - math.log(delta.denominator)
    low, high = _SEARCHED
    for _ in range(200):
        third = (high - low) / 3
        if _rho_at(low + third, float(epsilon), log_delta) < _rho_at(high - third, float(epsilon), log_delta):
            low += third
        else:
            high -= third
    return _precise_rho(Decimal(1) + Decimal(math.exp((low + high) / 2)), epsilon, delta)


def _rho_at(log_excess: float, epsilon: float, log_delta: float) -> float:
    """The ρ of one α = 1 + exp(log_excess), in doubles: for the search alone."""
    excess = math.exp(log_excess)
    return (epsilon + (log_delta + math.log1p(excess)) / excess + math.log1p(1 / excess)) / (1 + excess)


def _precise_rho(alpha: Decimal, epsilon: Fraction, delta: Fraction) -> Fraction:
    """(ε + ln(δ·α)/(α − 1) − ln(1 − 1/α)) / α, rounded down."""
    in_ = _PRECISE
    excess = in_.subtract(alpha, Decimal(1))
    first = in_.divide(in_.ln(in_.multiply(_decimal(delta), alpha)), excess)
    second = in_.ln(in_.divide(alpha, excess))
    rho = in_.divide(in_.add(in_.add(_decimal(epsilon), first), second), alpha)
    return Fraction(Context(prec=_DIGITS, rounding=ROUND_FLOOR).plus(rho))


def delta_of_one_record(delta: Fraction, epsilon: Fraction, k: int) -> Fraction:
    """The δ of a build for one record, where whoever has k of them is protected with (ε, δ). [P14]"""
    if k == 1:
        return delta
    growth = Context(prec=_DIGITS, rounding=ROUND_CEILING).plus(_PRECISE.exp(_decimal(epsilon)))
    return delta / (k * Fraction(growth))


def _decimal(fraction: Fraction) -> Decimal:
    return _PRECISE.divide(Decimal(fraction.numerator), Decimal(fraction.denominator))
