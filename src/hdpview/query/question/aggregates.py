"""Aggregates in closed form: counts, sums, means and rates, as quantities and a function of their sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpview.query.question.boxes import Box
from hdpview.query.question.quantities import Part, Quantity, count_of

Floats = NDArray[np.float64]
EMPTY_COUNT = 1e-9  # an estimated count below this is 0, but for rounding


@dataclass(frozen=True, eq=False)
class Aggregate:
    """A number that follows from sums over records.

    kind: what it is called. quantities: the sums it follows from. limits: the least and greatest it can be.
    value: the number from these sums, shape (m, n) → (n,); NaN where there is none.
    """

    kind: str
    quantities: tuple[Quantity, ...]
    value: Callable[[Floats], Floats]
    limits: tuple[float, float] = (-math.inf, math.inf)


COUNT = Aggregate("count", (count_of([{}]),), lambda sums: sums[0], (0.0, math.inf))


def total(part: Part) -> Aggregate:
    """The sum of values; NULL where there are no records."""
    least = float(part.values.least.min())
    limits = (0.0 if least >= 0 else -math.inf, math.inf)
    records = count_of([part.box])
    return Aggregate("sum", ([part], records), lambda s: np.where(s[1] > EMPTY_COUNT, s[0], np.nan), limits)


def mean(part: Part) -> Aggregate:
    """The mean of values."""
    limits = float(part.values.least.min()), float(part.values.greatest.max())
    return Aggregate("mean", ([part], count_of([part.box])), ratio, limits)


def rate(outcome: Sequence[Box]) -> Aggregate:
    """The share of records in disjoint boxes."""
    return Aggregate("rate", (count_of(outcome), count_of([{}])), ratio, (0.0, 1.0))


def ratio(sums: Floats) -> Floats:
    """The first sum by the second."""
    quotient: Floats = np.divide(
        sums[0], sums[1], out=np.full(sums.shape[1], np.nan), where=np.abs(sums[1]) > EMPTY_COUNT
    )
    return quotient
