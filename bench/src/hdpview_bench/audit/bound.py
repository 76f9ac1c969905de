"""From hits of an event on two neighbouring tables to a lower bound on ε, or ρ, at a stated confidence."""

from __future__ import annotations

import math
from collections.abc import Callable

_STEPS = 60  # halvings of an interval: to the last bit of a double
_TINY = 1e-300
_ORDERS = tuple(1 + 10 ** (i / 10) for i in range(-30, 11))  # of Rényi divergences that are tried


def epsilon_lower_bound(
    hits: int, hits_on_neighbour: int, runs: int, confidence: float, delta: float = 0.0
) -> float:
    """With probability `confidence` at least, no ε below this one fits an event that came up so often on two
    neighbouring tables.

    (ε, δ)-differential privacy says P ≤ e^ε·P′ + δ.
    """
    least, largest = _ends(hits, hits_on_neighbour, runs, confidence)
    return max(0.0, math.log((least - delta) / largest)) if least > delta else 0.0


def rho_lower_bound(hits: int, hits_on_neighbour: int, runs: int, confidence: float) -> float:
    """With probability `confidence` at least, no ρ below this one fits, where ρ-zero-concentrated privacy is
    promised.

    It says that the Rényi divergence of order α between the outcomes on two tables is at most α·ρ, for all α
    > 1. Whether an event happened is a function of the outcome, so its divergence is no larger.
    """
    least, largest = _ends(hits, hits_on_neighbour, runs, confidence)
    return divergence_per_order(least, largest) if least > largest else 0.0


def divergence_per_order(p: float, q: float) -> float:
    """The largest Rényi divergence, by its order, of coins that fall heads with probability p > q > 0."""
    return max(_divergence(p, q, order) / order for order in _ORDERS)


def _ends(hits: int, hits_on_neighbour: int, runs: int, confidence: float) -> tuple[float, float]:
    """The least P and the largest P′ that the hits allow (Clopper and Pearson's intervals, which hold for
    every number of runs), each with half of the allowed error.
    """
    error = (1 - confidence) / 2
    return lower_end(hits, runs, error), upper_end(hits_on_neighbour, runs, error)


def _divergence(p: float, q: float, order: float) -> float:
    tails = 0.0 if p == 1 else math.exp(order * math.log1p(-p) + (1 - order) * math.log1p(-q))
    heads = math.exp(order * math.log(p) + (1 - order) * math.log(q))
    return math.log(heads + tails) / (order - 1)


def lower_end(hits: int, runs: int, error: float) -> float:
    """The probability below which `hits` or more in `runs` have a chance of less than `error`."""
    return 0.0 if hits == 0 else _solve(lambda p: at_least(hits, runs, p), error)


def upper_end(hits: int, runs: int, error: float) -> float:
    """The probability above which `hits` or fewer in `runs` have a chance of less than `error`."""
    return 1.0 if hits == runs else _solve(lambda p: at_least(hits + 1, runs, p), 1 - error)


def _solve(rising: Callable[[float], float], target: float) -> float:
    """Where a rising function of a probability reaches `target`."""
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < target else (low, middle)
    return (low + high) / 2


def at_least(hits: int, runs: int, chance: float) -> float:
    """P[X ≥ hits] for X binomial: the incomplete beta function I_chance(hits, runs − hits + 1)."""
    if hits <= 0 or chance >= 1:
        return 1.0
    if chance <= 0 or hits > runs:
        return 0.0
    a, b = float(hits), float(runs - hits + 1)
    if chance > (a + 1) / (a + b + 2):  # the fraction converges fast on one side of the mean only
        return 1.0 - _beta_tail(b, a, 1 - chance)
    return _beta_tail(a, b, chance)


def _beta_tail(a: float, b: float, x: float) -> float:
    log_factor = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_factor) / a / _continued_fraction(a, b, x)


def _continued_fraction(a: float, b: float, x: float) -> float:
    """1 + d1/(1 + d2/(1 + …)) by the recurrence of Lentz, until a factor is 1."""
    value, c, d = 1.0, 1.0, 0.0
    for i in range(1, 100_000):
        m = i // 2
        if i % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / (_away_from_zero(1 + term * d))
        c = _away_from_zero(1 + term / c)
        value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
