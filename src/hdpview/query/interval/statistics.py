"""What a view answers in Python: tables of counts, single statistics, and comparisons, with their
intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hdpview.domain import Attribute, Datetime, calendar
from hdpview.errors import QueryError
from hdpview.query.bounds.noise import check_confidence, confidence_of_each
from hdpview.query.errors.closed import covariances
from hdpview.query.errors.ends import probability_above
from hdpview.query.estimate.estimates import estimates
from hdpview.query.interval.answers import Answer, CountKind, Interval, IntervalKind, answer
from hdpview.query.interval.groups import Groups, Histograms
from hdpview.query.interval.spans import Estimates, delta_estimates, group_estimates, smooth
from hdpview.query.question import aggregates, conditions
from hdpview.query.question.aggregates import Aggregate
from hdpview.query.question.axes import BinLabel, attribute_axis
from hdpview.query.question.batch import pack
from hdpview.query.question.boxes import Box, intersect
from hdpview.query.question.quantities import Part, Quantity, bin_values, count_of
from hdpview.query.question.where import Where, attribute_number, boxes_of
from hdpview.view.data import ViewData

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Statistic:
    """A mean, sum, quantile or other number with its interval. Of datetimes, all three are datetimes.

    None where there are no records.
    """

    estimate: float | datetime | None
    lower: float | datetime | None
    upper: float | datetime | None
    confidence: float

    @classmethod
    def of(
        cls, estimate: float, lower: float, upper: float, confidence: float, of_moments: bool = False
    ) -> Statistic:
        """From numbers; NaN where there are no records, and microseconds for datetimes."""
        if math.isnan(estimate):
            return cls(None, None, None, confidence)
        ends = (estimate, lower, upper)
        shown = [calendar.moment(round(end)) if of_moments else end for end in ends]
        return cls(shown[0], shown[1], shown[2], confidence)

    def __str__(self) -> str:
        ends = (self.estimate, self.lower, self.upper)
        shown = [f"{value:,.4g}" if isinstance(value, float) else str(value) for value in ends]
        return f"{shown[0]} ({self.confidence:.0%} between {shown[1]} and {shown[2]})"


@dataclass(frozen=True)
class Comparison:
    """Two counts and how they differ.

    difference, ratio: of the first to the second, with intervals of the kind that was asked for, typical by
        default; a ratio without bounds has infinite ends.
    guaranteed_difference: holds whatever the data.
    probability: how likely the first count is the larger one, from 0 to 1, by the typical errors.
    """

    first: Answer
    second: Answer
    confidence: float
    difference: float
    difference_interval: Interval
    guaranteed_difference: Interval
    ratio: float
    ratio_interval: Interval
    probability: float

    @property
    def is_real(self) -> bool:
        """Whether the interval of the difference leaves out 0."""
        return not self.difference_interval.lower <= 0 <= self.difference_interval.upper

    def __str__(self) -> str:
        low, high = self.difference_interval
        verdict = "a real difference" if self.is_real else "not distinguishable from no difference"
        return (
            f"{self.difference:+,.0f} ({self.confidence:.0%} {self.first.interval}: {low:+,.0f} to "
            f"{high:+,.0f}), {verdict}"
        )


class Histogram(NamedTuple):
    """Counts of the values of one attribute, in code order, with intervals; the last is of missing values, if
    any.

    keys: what each value is called in a result; `attribute.labels()` has texts for people.
    """

    attribute: Attribute
    keys: Sequence[Any]
    estimate: Floats
    lower: Floats
    upper: Floats


def histograms(
    view: ViewData,
    where: Where = None,
    names: Sequence[str] | None = None,
    confidence: float = 0.95,
    counts: CountKind = "consistent",
    interval: IntervalKind = "typical",
) -> list[Histogram]:
    """Histograms of the named attributes, or of all, of the records that satisfy a condition."""
    wanted = view.schema.names if names is None else names
    return histograms_in(view, boxes_of(where, view.schema), wanted, confidence, counts, interval)


def histograms_in(
    view: ViewData,
    boxes: Sequence[Box],
    names: Sequence[str],
    confidence: float = 0.95,
    counts: CountKind = "consistent",
    interval: IntervalKind = "typical",
) -> list[Histogram]:
    """Histograms of the named attributes, of the records in disjoint boxes."""
    check_confidence(confidence)
    numbers = [attribute_number(name, view.schema) for name in names]
    if not numbers:
        return []
    groups = Histograms(view, boxes, numbers)
    span = group_estimates(groups, aggregates.COUNT, confidence, counts, interval)
    every = np.zeros((3, *groups.shape))
    every[:, groups.cells] = span
    borders = np.cumsum([len(axis.keys) for axis in groups.axes])[:-1]
    return [
        Histogram(view.schema.attributes[a], axis.keys, *columns)
        for a, axis, columns in zip(numbers, groups.axes, np.split(every, borders, axis=1), strict=True)
    ]


def histogram(
    view: ViewData,
    name: str,
    where: Where = None,
    confidence: float = 0.95,
    counts: CountKind = "consistent",
    interval: IntervalKind = "typical",
) -> pa.Table:
    """A row per value of an attribute: the value or bin, its count, and the ends of its interval."""
    (only,) = histograms(view, where, [name], confidence, counts, interval)
    return _counted(
        [(only.attribute.name, list(only.keys))], Estimates(only.estimate, only.lower, only.upper)
    )


def marginal(
    view: ViewData,
    names: Sequence[str],
    where: Where = None,
    confidence: float = 0.95,
    counts: CountKind = "consistent",
    interval: IntervalKind = "typical",
) -> pa.Table:
    """A row per combination of values of several attributes that the condition leaves possible."""
    check_confidence(confidence)
    if isinstance(names, str) or not names:
        raise QueryError('marginal takes a list of attributes, such as ["age", "sex"].')
    numbers = [attribute_number(name, view.schema) for name in names]
    if len(set(numbers)) < len(numbers):
        raise QueryError("marginal takes each attribute once.")
    groups = Groups(view, boxes_of(where, view.schema), [attribute_axis(view.schema, a) for a in numbers])
    span = group_estimates(groups, aggregates.COUNT, confidence, counts, interval)
    return _counted([(view.schema.attributes[a].name, groups.keys(i)) for i, a in enumerate(numbers)], span)


def statistic(
    view: ViewData,
    aggregate: Aggregate,
    where: Where = None,
    confidence: float = 0.95,
    counts: CountKind = "consistent",
    interval: IntervalKind = "typical",
    of_moments: bool = False,
) -> Statistic:
    """An aggregate of the records that satisfy a condition.

    of_moments: whether its numbers are microseconds that stand for a datetime.
    """
    check_confidence(confidence)
    groups = Groups(view, boxes_of(where, view.schema))
    estimates = group_estimates(groups, aggregate, confidence, counts, interval)
    ends = float(estimates.estimate[0]), float(estimates.lower[0]), float(estimates.upper[0])
    return Statistic.of(*ends, confidence, of_moments)


def mean(view: ViewData, name: str, where: Where = None, **how: Any) -> Statistic:
    """The mean of an attribute."""
    attribute, part = _values(view, name)
    return statistic(view, aggregates.mean(part), where, **how, of_moments=isinstance(attribute, Datetime))


def total(view: ViewData, name: str, where: Where = None, **how: Any) -> Statistic:
    """The sum of an attribute."""
    attribute, part = _values(view, name)
    if isinstance(attribute, Datetime):
        raise QueryError(f"Moments cannot be added up. Ask for the mean or median of {name!r}.")
    return statistic(view, aggregates.total(part), where, **how)


def rate(view: ViewData, outcome: Where, where: Where = None, **how: Any) -> Statistic:
    """The share of records that satisfy a condition."""
    return statistic(view, aggregates.rate(boxes_of(outcome, view.schema)), where, **how)


def _values(view: ViewData, name: str) -> tuple[Attribute, Part]:
    a = attribute_number(name, view.schema)
    attribute = view.schema.attributes[a]
    return attribute, Part({a: conditions.everything(attribute)}, bin_values(attribute, a))


def compare(
    view: ViewData,
    first: Where,
    second: Where,
    confidence: float = 0.95,
    counts: CountKind = "consistent",
    interval: IntervalKind = "typical",
) -> Comparison:
    """Compare the counts of two conditions. Errors that both have in common cancel in typical intervals."""
    check_confidence(confidence)
    quantities = [count_of(boxes_of(where, view.schema)) for where in (first, second)]
    one, other = answer(view, quantities, confidence, counts, interval)
    groups, everything = Groups(view, [{}]), (-math.inf, math.inf)
    difference = smooth(groups, quantities, lambda s: s[0] - s[1], everything, confidence, counts)
    ratio = smooth(groups, quantities, aggregates.ratio, (0.0, math.inf), confidence, counts, (1,))
    half = float(difference.upper[0] - difference.estimate[0])
    both = answer(view, quantities, confidence_of_each(2, confidence), counts, interval)
    if interval == "typical":
        of_difference = Interval(float(difference.lower[0]), float(difference.upper[0]))
        of_ratio = _ratio_interval(ratio)
    else:
        of_difference, of_ratio = _difference_of(*both), _ratio_of(*both)
    return Comparison(
        first=one,
        second=other,
        confidence=confidence,
        difference=one.estimate - other.estimate,
        difference_interval=of_difference,
        guaranteed_difference=_difference_of(*(each.guaranteed for each in both)),
        ratio=float(ratio.estimate[0]),
        ratio_interval=of_ratio,
        probability=probability_above(float(difference.estimate[0]), half, confidence),
    )


def _difference_of(one: Answer | Interval, other: Answer | Interval) -> Interval:
    """The differences that are possible between two intervals."""
    return Interval(one.lower - other.upper, one.upper - other.lower)


def _ratio_of(one: Answer, other: Answer) -> Interval:
    """The ratios that are possible between two intervals; without an upper end where the second may be 0."""
    low, high = max(one.lower, 0.0), max(one.upper, 0.0)
    least = low / other.upper if other.upper > 0 else 0.0
    return Interval(least, high / other.lower if other.lower > 0 else math.inf)


class FilteredItselfError(QueryError):
    """Shares were asked for of an attribute that the conditions are about."""


class SharesCompared(NamedTuple):
    """How the records of two conditions share out over the values of an attribute, in code order.

    first, second: the shares; difference: of the first less the second. NaN where a condition has no records.
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
            f"One of the two conditions is about {attribute.name!r} itself, so its shares say nothing new. "
            "Choose another attribute."
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
        span(lambda s: aggregates.ratio(s[:2]), 0.0),
        span(lambda s: aggregates.ratio(s[2:]), 0.0),
        span(lambda s: aggregates.ratio(s[:2]) - aggregates.ratio(s[2:]), -1.0),
    )


def _sums(view: ViewData, quantities: Sequence[Sequence[Quantity]]) -> tuple[Floats, Floats]:
    """Estimates of quantities[i][g] of groups g, (m, n), and expected products of their errors, (m, m, n)."""
    asked = [pack(own, view.schema) for own in quantities]
    return np.stack([estimates(view, own) for own in asked]), covariances(view, asked, quantities)


def value_shares(view: ViewData, name: str, where: Where = None, confidence: float = 0.95) -> Estimates:
    """Of the records that satisfy a condition, the share with each value of an attribute, in code order.

    Errors that a count and the total have in common cancel.
    """
    check_confidence(confidence)
    a, boxes = attribute_number(name, view.schema), boxes_of(where, view.schema)
    groups = Groups(view, boxes, [attribute_axis(view.schema, a)])
    listed = [[count_of(own) for own in groups.boxes], [count_of(boxes)] * len(groups)]
    found = delta_estimates(aggregates.ratio, *_sums(view, listed), confidence)
    if len(groups) == 1:  # the condition leaves one value, so all records have it
        found = Estimates(*[found.estimate] * 3)
    every = np.zeros((3, groups.shape[0]))
    every[:, groups.cells] = found.within(0.0, 1.0).null_where(np.isnan(found.estimate))
    return Estimates(*every)


def _ratio_interval(ratio: Estimates) -> Interval:
    """Any ratio is possible where the second count is 0."""
    known = not math.isnan(float(ratio.estimate[0]))
    return Interval(float(ratio.lower[0]), float(ratio.upper[0])) if known else Interval(0.0, math.inf)


def _counted(keys: Sequence[tuple[str, list[Any]]], counts: Estimates) -> pa.Table:
    name = "count" if all(key.lower() != "count" for key, _ in keys) else "n"
    columns = {key: pa.array([str(v) if isinstance(v, BinLabel) else v for v in own]) for key, own in keys}
    columns |= {
        f"{name}{end}": pa.array(own) for end, own in zip(("", "_lower", "_upper"), counts, strict=True)
    }
    return pa.table(columns)
