"""Aggregates: counts, sums, means, quantiles and others, as quantities and a function of their sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Schema
from hdpview.query.question.boxes import Box, intersect, joined, subtract
from hdpview.query.question.quantities import Part, Quantity, Values, count_of, cut

Floats = NDArray[np.float64]
_NOTHING = 1e-9  # an estimated count below this is 0, but for rounding


@dataclass(frozen=True, eq=False)
class Aggregate:
    """A number that follows from sums over records.

    kind: what it is called. quantities: the sums it follows from.
    value: the number from these sums, shape (m, n) → (n,); NaN where there is none.
    limits: the least and the greatest it can be.
    denominators: which of the sums it divides by; where they cannot be told from 0, anything within limits is
        possible.
    attribute, quantile: for quantiles, which are found in the attribute's histogram instead.
    of_moments: whether the number is in microseconds that stand for a datetime.
    """

    kind: str
    quantities: tuple[Quantity, ...]
    value: Callable[[Floats], Floats]
    limits: tuple[float, float] = (-math.inf, math.inf)
    denominators: tuple[int, ...] = ()
    attribute: int = -1
    quantile: float = 0.5
    of_moments: bool = False

    def within(self, boxes: Sequence[Box]) -> Aggregate:
        """The same of those records only that lie in disjoint boxes."""
        quantities = tuple(cut(quantity, boxes) for quantity in self.quantities)
        return Aggregate(
            self.kind,
            quantities,
            self.value,
            self.limits,
            self.denominators,
            self.attribute,
            self.quantile,
            self.of_moments,
        )

    @property
    def boxes(self) -> list[Box]:
        """The boxes of the records it is about."""
        return [part.box for part in self.quantities[-1]]


def count(boxes: Sequence[Box]) -> Aggregate:
    """The number of records in disjoint boxes."""
    return Aggregate("count", (count_of(boxes),), lambda sums: sums[0], (0.0, math.inf))


def total(parts: Quantity, of_moments: bool = False) -> Aggregate:
    """The sum of values; NULL where there are no records."""
    least = min((float(part.values.least.min()) for part in parts), default=0.0)
    limits = (0.0 if least >= 0 else -math.inf, math.inf)
    records = count_of(joined([], [part.box for part in parts]))
    return Aggregate(
        "sum", (parts, records), lambda s: _unless_empty(s[1], s[0]), limits, of_moments=of_moments
    )


def mean(parts: Quantity, of_moments: bool = False) -> Aggregate:
    """The mean of values."""
    least = min((float(part.values.least.min()) for part in parts), default=math.nan)
    greatest = max((float(part.values.greatest.max()) for part in parts), default=math.nan)
    records = count_of(joined([], [part.box for part in parts]))
    return Aggregate("mean", (parts, records), _mean, (least, greatest), (1,), of_moments=of_moments)


def _mean(sums: Floats) -> Floats:
    return _divided(sums[0], sums[1])


def quantile(a: int, boxes: Sequence[Box], q: float, of_moments: bool = False) -> Aggregate:
    """A quantile of an attribute."""
    return Aggregate(
        "quantile", (count_of(boxes),), lambda s: s[0], attribute=a, quantile=q, of_moments=of_moments
    )


def variance(values: Values, boxes: Sequence[Box], of_sample: bool, root: bool) -> Aggregate:
    """The variance of an attribute, or its root; of a sample it is divided by n − 1."""
    squares = [Part(box, values, values) for box in boxes]
    sums = squares, [Part(box, values) for box in boxes], count_of(boxes)

    def value(s: Floats) -> Floats:
        n = s[2]
        around = _divided(s[0], n) - _divided(s[1], n) ** 2
        if of_sample:
            around = around * _divided(n, np.maximum(n - 1.0, 0.0))
        around = np.maximum(around, 0.0)
        return np.sqrt(around) if root else around

    width = float(values.greatest.max() - values.least.min())
    most = width / 2 if root else width**2 / 4
    return Aggregate(
        "stddev" if root else "variance", sums, value, (0.0, most * (2.0 if of_sample else 1.0)), (2,)
    )


def correlation(x: Values, y: Values, boxes: Sequence[Box]) -> Aggregate:
    """Pearson's correlation of two attributes."""
    sums = _moments_of_two(x, y, boxes)

    def value(s: Floats) -> Floats:
        xy, xx, yy, mx, my = (_divided(each, s[5]) for each in s[:5])
        spread = np.sqrt(np.maximum(xx - mx**2, 0.0) * np.maximum(yy - my**2, 0.0))
        return np.clip(_divided(xy - mx * my, spread), -1.0, 1.0)

    return Aggregate("correlation", sums, value, (-1.0, 1.0), (5,))


def covariance(x: Values, y: Values, boxes: Sequence[Box], of_sample: bool) -> Aggregate:
    """The covariance of two attributes; of a sample it is divided by n − 1."""
    sums = _moments_of_two(x, y, boxes)

    def value(s: Floats) -> Floats:
        found = _divided(s[0], s[5]) - _divided(s[3], s[5]) * _divided(s[4], s[5])
        return found * _divided(s[5], np.maximum(s[5] - 1.0, 0.0)) if of_sample else found

    return Aggregate("covariance", sums, value, denominators=(5,))


def _moments_of_two(x: Values, y: Values, boxes: Sequence[Box]) -> tuple[Quantity, ...]:
    pairs = ((x, y), (x, x), (y, y), (x,), (y,), ())
    return tuple([Part(box, *values) for box in boxes] for values in pairs)


def association(kind: str, outcome: Sequence[Box], exposed: Sequence[Box], schema: Schema) -> Aggregate:
    """How an outcome goes with an exposure: `odds_ratio`, `risk_ratio` or `risk_difference`.

    Records for which either cannot be told, because a value is missing, are counted as without it.
    """
    without: list[Box] = subtract([{}], exposed, schema)
    healthy: list[Box] = subtract([{}], outcome, schema)
    cells = [(outcome, exposed), (healthy, exposed), (outcome, without), (healthy, without)]
    sums = tuple(count_of(intersect(one, other)) for one, other in cells)

    def value(s: Floats) -> Floats:
        a, b, c, d = s
        if kind == "odds_ratio":
            return _divided(a * d, b * c)
        risk, baseline = _divided(a, a + b), _divided(c, c + d)
        return _divided(risk, baseline) if kind == "risk_ratio" else risk - baseline

    limits = (-1.0, 1.0) if kind == "risk_difference" else (0.0, math.inf)
    return Aggregate(kind, sums, value, limits, {"odds_ratio": (1, 2), "risk_ratio": (0, 2)}.get(kind, ()))


def _divided(numerator: Floats, denominator: Floats) -> Floats:
    found: Floats = np.divide(
        numerator, denominator, out=np.full(np.shape(numerator), np.nan), where=np.abs(denominator) > _NOTHING
    )
    return found


def _unless_empty(records: Floats, value: Floats) -> Floats:
    return np.where(records > _NOTHING, value, np.nan)
