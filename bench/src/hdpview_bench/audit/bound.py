"""From the frequency of an event on two neighbouring tables to a lower bound on ε or ρ with stated
confidence.
"""

from __future__ import annotations

import math

from scipy import special

_ORDERS = tuple(1 + 10 ** (i / 10) for i in range(-30, 11))  # orders of Rényi divergences to try


def epsilon_lower_bound(
    hits: int, hits_on_neighbour: int, runs: int, confidence: float, delta: float = 0.0
) -> float:
    """With probability at least `confidence`, no ε below this one is consistent with how often an event
    occurred on two neighbouring tables. (ε, δ)-differential privacy means P ≤ e^ε·P′ + δ.
    """
    least, largest = _ends(hits, hits_on_neighbour, runs, confidence)
    return max(0.0, math.log((least - delta) / largest)) if least > delta else 0.0


def rho_lower_bound(hits: int, hits_on_neighbour: int, runs: int, confidence: float) -> float:
    """With probability at least `confidence`, no ρ below this one is consistent with how often an event
    occurred.

    ρ-zero-concentrated privacy bounds the Rényi divergence of order α between the outcomes on two tables by
    α·ρ, for all α > 1. An event is a function of the outcome, so its divergence is no larger.
    """
    least, largest = _ends(hits, hits_on_neighbour, runs, confidence)
    return divergence_per_order(least, largest) if least > largest else 0.0


def divergence_per_order(p: float, q: float) -> float:
    """The largest Rényi divergence over its order, between coins with probabilities p > q > 0 of heads."""
    return max(_divergence(p, q, order) / order for order in _ORDERS)


def _ends(hits: int, hits_on_neighbour: int, runs: int, confidence: float) -> tuple[float, float]:
    """The smallest P and the largest P′ that are consistent with the hits, each with half of the allowed
    error.

    Clopper–Pearson intervals, which are valid for every number of runs.
    """
    error = (1 - confidence) / 2
    return lower_end(hits, runs, error), upper_end(hits_on_neighbour, runs, error)


def _divergence(p: float, q: float, order: float) -> float:
    tails = 0.0 if p == 1 else math.exp(order * math.log1p(-p) + (1 - order) * math.log1p(-q))
    heads = math.exp(order * math.log(p) + (1 - order) * math.log(q))
    return math.log(heads + tails) / (order - 1)


def lower_end(hits: int, runs: int, error: float) -> float:
    """The probability below which `hits` or more in `runs` occur with a chance of less than `error`."""
    return float(special.betaincinv(hits, runs - hits + 1, error)) if hits else 0.0


def upper_end(hits: int, runs: int, error: float) -> float:
    """The probability above which `hits` or fewer in `runs` occur with a chance of less than `error`."""
    return float(special.betainccinv(hits + 1, runs - hits, error)) if hits < runs else 1.0
