"""Answers in Python: tables of counts, single statistics and comparisons, with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hdpview.domain import Attribute, Datetime, calendar
from hdpview.errors import QueryError
from hdpview.query.bounds.noise import check_confidence
from hdpview.query.errors.closed import covariances, evaluate
from hdpview.query.errors.ends import (
    Estimates,
    delta_estimates,
    probability_above,
    ratio,
    typical_tail,
    usefulness,
)
from hdpview.query.interval.answers import (
    Answer,
    CountKind,
    Interval,
    QueryOptions,
    answer,
    check_kinds,
)
from hdpview.query.interval.groups import Groups
from hdpview.query.question.axes import BinLabel, attribute_axis
from hdpview.query.question.batch import pack
from hdpview.query.question.boxes import intersect
from hdpview.query.question.conditions import EVERYTHING
from hdpview.query.question.quantities import Part, Quantity, bin_values, count_of, cut
from hdpview.query.question.where import Where, attribute_number, boxes_of
from hdpview.view.data import ViewData

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Statistic:
    """A mean, sum, quantile or other number with its interval. For datetimes, all three are datetimes.

    None if there are no records. usefulness: as in `Answer`; None for datetimes.
    """

    estimate: float | datetime | None
    lower: float | datetime | None
    upper: float | datetime | None
    confidence: float
    usefulness: str | None = None

    @classmethod
    def of(
        cls, ends: tuple[float, float, float], confidence: float, is_datetime: bool = False, unit: float = 0.0
    ) -> Statistic:
        """From estimate, lower and upper end; NaN where there are no records, microseconds for datetimes.

        unit: one hundred points; 1 for shares.
        """
        if math.isnan(ends[0]):
            return cls(None, None, None, confidence)
        if is_datetime:
            moments = [calendar.moment(round(end)) for end in ends]
            return cls(moments[0], moments[1], moments[2], confidence)
        columns = np.array(ends)[:, None]
        return cls(*ends, confidence, str(usefulness(columns[0], columns[1], columns[2], unit)[0]))

    def __str__(self) -> str:
        if self.estimate is None:
            return "no records"
        ends = (self.estimate, self.lower, self.upper)
        shown = [f"{value:,.4g}" if isinstance(value, float) else str(value) for value in ends]
        word = f", {self.usefulness}" if self.usefulness else ""
        return f"{shown[0]} ({self.confidence:.0%} typical: {shown[1]} to {shown[2]}{word})"


@dataclass(frozen=True)
class Comparison:
    """Two counts and their difference.

    difference, ratio: of the first to the second, with typical intervals; a ratio without bounds has infinite
        ends.
    probability: the probability that the first count is larger, by the typical errors.
    """

    first: Answer
    second: Answer
    confidence: float
    difference: float
    difference_interval: Interval
    ratio: float
    ratio_interval: Interval
    probability: float

    @property
    def is_real(self) -> bool:
        """Whether the interval of the difference excludes 0, so that the comparison is decided."""
        return not self.difference_interval.lower <= 0 <= self.difference_interval.upper

    def __str__(self) -> str:
        low, high = self.difference_interval
        verdict = "a real difference" if self.is_real else "not distinguishable from no difference"
        return (
            f"{self.difference:+,.0f} ({self.confidence:.0%} typical: {low:+,.0f} to "
            f"{high:+,.0f}), {verdict}; the first is larger with probability {self.probability:.0%}"
        )


class Histogram(NamedTuple):
    """Counts of the values of one attribute, in code order, with intervals; the last is of missing values, if
    any.

    keys: the name of each value in a result; `attribute.labels()` has texts for people.
    """

    attribute: Attribute
    keys: Sequence[Any]
    estimate: Floats
    lower: Floats
    upper: Floats


def histograms(
    view: ViewData, where: Where = None, names: Sequence[str] | None = None, **how: Unpack[QueryOptions]
) -> list[Histogram]:
    """Histograms of the named attributes, or of all, of the records that satisfy a condition."""
    wanted = view.schema.names if names is None else names
    numbers = [attribute_number(name, view.schema) for name in wanted]
    if not numbers:
        return []
    groups = Groups(view, boxes_of(where, view.schema), numbers, apart=True)
    every = np.zeros((3, *groups.shape))
    every[:, groups.cells] = groups.counts(**how)
    borders = np.cumsum([len(axis.keys) for axis in groups.axes])[:-1]
    return [
        Histogram(view.schema.attributes[a], axis.keys, *columns)
        for a, axis, columns in zip(numbers, groups.axes, np.split(every, borders, axis=1), strict=True)
    ]


def histogram(view: ViewData, name: str, where: Where = None, **how: Unpack[QueryOptions]) -> pa.Table:
    """Counts of the values or bins of an attribute, one row each."""
    (only,) = histograms(view, where, [name], **how)
    counts = Estimates(only.estimate, only.lower, only.upper)
    return _counted([(only.attribute.name, list(only.keys))], counts)


def marginal(
    view: ViewData, names: Sequence[str], where: Where = None, **how: Unpack[QueryOptions]
) -> pa.Table:
    """Counts of all combinations of values of several attributes that a condition leaves possible."""
    if isinstance(names, str) or not isinstance(names, Collection) or not names:
        raise QueryError('marginal takes a list of attributes, such as ["age", "sex"].')
    numbers = [attribute_number(name, view.schema) for name in names]
    if len(set(numbers)) < len(numbers):
        raise QueryError("marginal takes each attribute once.")
    groups = Groups(view, boxes_of(where, view.schema), numbers)
    span = groups.counts(**how)
    return _counted([(view.schema.attributes[a].name, groups.keys(i)) for i, a in enumerate(numbers)], span)


def mean(view: ViewData, name: str, where: Where = None, **how: Unpack[QueryOptions]) -> Statistic:
    """The mean of an attribute."""
    a = attribute_number(name, view.schema)
    attribute = view.schema.attributes[a]
    values = bin_values(attribute, a)
    known = intersect(boxes_of(where, view.schema), [{a: EVERYTHING}])
    sums = [Part(box, (values,)) for box in known]
    limits = float(values.least.min()), float(values.greatest.max())
    return _ratio(view, "mean", (sums, count_of(known)), limits, how, isinstance(attribute, Datetime))


def rate(view: ViewData, outcome: Where, where: Where = None, **how: Unpack[QueryOptions]) -> Statistic:
    """The share of records that satisfy a condition."""
    records = count_of(boxes_of(where, view.schema))
    positive = cut(records, boxes_of(outcome, view.schema))
    return _ratio(view, "rate", (positive, records), (0.0, 1.0), how, unit=1.0)


def _ratio(
    view: ViewData,
    kind: str,
    quantities: tuple[Quantity, Quantity],
    limits: tuple[float, float],
    how: QueryOptions,
    is_datetime: bool = False,
    unit: float = 0.0,
) -> Statistic:
    """One quantity divided by another."""
    confidence, counts = how.get("confidence", 0.95), how.get("counts", "consistent")
    check_options(kind, how)
    sums, products = _sums(view, [[own] for own in quantities], counts)
    span = delta_estimates(ratio, sums, products, confidence).within(*limits)
    estimate, lower, upper = (float(column[0]) for column in span)
    return Statistic.of((estimate, lower, upper), confidence, is_datetime, unit)


def check_options(kind: str, how: QueryOptions) -> None:
    """Refuse all intervals but the typical one, which are for counts alone."""
    interval = how.get("interval", "typical")
    check_confidence(how.get("confidence", 0.95))
    check_kinds(how.get("counts", "consistent"), interval)
    if interval != "typical":
        raise QueryError(f"Only counts have {interval} intervals; a {kind} has typical ones.")


def _sums(
    view: ViewData, quantities: Sequence[Sequence[Quantity]], counts: CountKind = "consistent"
) -> tuple[Floats, Floats]:
    """Quantities of groups, quantities[i][g], and expected products of their errors; see `covariances`."""
    sums, products = covariances(view, quantities)
    if counts == "raw":
        sums = np.stack([evaluate(view, pack(own, view.schema)).raw for own in quantities])
    return sums, products


def compare(view: ViewData, first: Where, second: Where, **how: Unpack[QueryOptions]) -> Comparison:
    """Compare the counts of two conditions. Errors that both have in common cancel."""
    boxes = [boxes_of(where, view.schema) for where in (first, second)]
    counted = answer(view, boxes, **how)
    confidence = counted.confidence
    sums, products = _sums(view, [[count_of(own)] for own in boxes], counted.counts)
    difference = delta_estimates(lambda s: s[0] - s[1], sums, products, confidence)
    of_ratio = delta_estimates(ratio, sums, products, confidence).within(0.0, math.inf)
    # If the second count may be 0, any ratio is possible.
    is_bounded = sums[1, 0] > typical_tail(confidence) * math.sqrt(max(products[1, 1, 0], 0.0))
    estimate, lower, upper = (float(column[0]) for column in difference)
    quotient, least, most = (float(column[0]) for column in of_ratio)
    return Comparison(
        counted[0],
        counted[1],
        confidence=confidence,
        difference=estimate,
        difference_interval=Interval(lower, upper),
        ratio=quotient,
        ratio_interval=Interval(least, most) if is_bounded else Interval(0.0, math.inf),
        probability=probability_above(estimate, upper - estimate, confidence),
    )


class FilteredItselfError(QueryError):
    """The conditions restrict the attribute whose shares were requested."""


class SharesCompared(NamedTuple):
    """Distributions of an attribute among the records of two conditions, in code order.

    first, second: the shares. difference: first minus second. NaN where a condition has no records.
    """

    attribute: Attribute
    first: Estimates
    second: Estimates
    difference: Estimates


def compare_shares(
    view: ViewData, name: str, first: Where, second: Where, confidence: float = 0.95
) -> SharesCompared:
    """Compare two distributions of an attribute, value by value. Errors in common cancel."""
    check_confidence(confidence)
    a = attribute_number(name, view.schema)
    attribute, sides = view.schema.attributes[a], [boxes_of(where, view.schema) for where in (first, second)]
    if any(a in box for boxes in sides for box in boxes):
        raise FilteredItselfError(
            f"One of the two conditions already restricts {attribute.name!r}, so its shares are not "
            "compared. Choose another attribute."
        )
    values = attribute_axis(view.schema, a).boxes
    listed = [
        group
        for boxes in sides
        for group in ([count_of(intersect(boxes, own)) for own in values], [count_of(boxes)] * len(values))
    ]
    sums, products = _sums(view, listed)

    def span(value: Callable[[Floats], Floats], least: float) -> Estimates:
        return delta_estimates(value, sums, products, confidence).within(least, 1.0)

    return SharesCompared(
        attribute,
        span(lambda s: ratio(s[:2]), 0.0),
        span(lambda s: ratio(s[2:]), 0.0),
        span(lambda s: ratio(s[:2]) - ratio(s[2:]), -1.0),
    )


def value_shares(view: ViewData, name: str, where: Where = None, confidence: float = 0.95) -> Estimates:
    """The distribution of an attribute among the records that satisfy a condition, in code order.

    Errors that a count and the total have in common cancel.
    """
    check_confidence(confidence)
    a, boxes = attribute_number(name, view.schema), boxes_of(where, view.schema)
    groups = Groups(view, boxes, [a])
    listed = [[count_of(own) for own in groups.boxes], [count_of(boxes)] * len(groups)]
    shares = delta_estimates(ratio, *_sums(view, listed), confidence)
    if len(groups) == 1:  # the condition leaves one value, so all records have it
        shares = Estimates(*[shares.estimate] * 3)
    every = np.zeros((3, groups.shape[0]))
    every[:, groups.cells] = shares.within(0.0, 1.0)
    return Estimates(*every)


def _counted(keys: Sequence[tuple[str, list[Any]]], counts: Estimates) -> pa.Table:
    name = "count" if all(key.lower() != "count" for key, _ in keys) else "n"
    columns = {key: pa.array([str(v) if isinstance(v, BinLabel) else v for v in own]) for key, own in keys}
    columns |= {
        f"{name}{end}": pa.array(own) for end, own in zip(("", "_lower", "_upper"), counts, strict=True)
    }
    return pa.table(columns)
