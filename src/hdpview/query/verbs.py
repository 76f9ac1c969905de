"""What a view does when it is asked in Python: tables of counts, and single statistics with their
intervals.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from hdpview.domain import Attribute, calendar
from hdpview.errors import QueryError
from hdpview.query.answers import Where
from hdpview.query.histograms import histograms
from hdpview.query.intervals import Kind, Reading
from hdpview.query.noise_width import check_confidence
from hdpview.query.predicates import attribute_number, boxes_of
from hdpview.query.sql.aggregates import Aggregate, AggregateReader
from hdpview.query.sql.axes import AxisReader, code_keys
from hdpview.query.sql.execute import Column, arrow_column
from hdpview.query.sql.groups import EVERYTHING, Groups
from hdpview.query.sql.measures import Measures
from hdpview.view.data import ViewData

_TOTAL = "total"


@dataclass(frozen=True)
class Statistic:
    """A mean, sum or quantile with its interval. Of datetimes, all three are datetimes; None where there are
    no records.
    """

    estimate: float | datetime | None
    lower: float | datetime | None
    upper: float | datetime | None
    confidence: float

    def __str__(self) -> str:
        shown = [
            f"{value:,.4g}" if isinstance(value, float) else str(value)
            for value in (self.estimate, self.lower, self.upper)
        ]
        return f"{shown[0]} ({self.confidence:.0%} between {shown[1]} and {shown[2]})"


def histogram(
    view: ViewData, name: str, where: Where, confidence: float, counts: Reading, interval: Kind
) -> pa.Table:
    """A row per value of an attribute: the value or bin, its count, and the ends of its interval."""
    (found,) = histograms(view, where, [name], confidence, counts, interval)
    return _counted([(found.attribute.name, list(found.keys))], found.estimate, found.lower, found.upper)


def marginal(
    view: ViewData, names: Sequence[str], where: Where, confidence: float, counts: Reading, interval: Kind
) -> pa.Table:
    """A row per combination of values of several attributes that the condition leaves possible."""
    if isinstance(names, str) or not names:
        raise QueryError('marginal takes a list of attributes, such as ["age", "sex"].')
    reader = AxisReader(view.schema)
    numbers = [attribute_number(name, view.schema) for name in names]
    if len(set(numbers)) < len(numbers):
        raise QueryError("marginal takes each attribute once.")
    groups = Groups(
        view, boxes_of(where, view.schema), [reader.axis(_column(name)) for name in names], keep_empty=False
    )
    span = Measures(groups, [Aggregate("count", EVERYTHING)], counts, interval).span(0, _checked(confidence))
    return _counted([(view.schema.attributes[a].name, groups.keys(i)) for i, a in enumerate(numbers)], *span)


def crosstab(view: ViewData, row: str, column: str, where: Where, counts: Reading) -> pa.Table:
    """Estimates with the values of one attribute down and of another across, and their totals."""
    rows, columns = (view.schema.attributes[attribute_number(name, view.schema)] for name in (row, column))
    table = marginal(view, [row, column], where, 0.95, counts, "typical")
    places = [{key: i for i, key in enumerate(_texts(attribute))} for attribute in (rows, columns)]
    keys = [[_text(key) for key in table.column(i).to_pylist()] for i in range(2)]
    grid = np.zeros((rows.size, columns.size))
    at = [[places[i][key] for key in keys[i]] for i in range(2)]
    grid[at[0], at[1]] = table.column(2).to_numpy()
    used = [sorted(set(each)) for each in at]
    labels = [columns.labels()[i] for i in used[1]]
    data: dict[str, list[Any]] = {rows.name: [rows.labels()[i] for i in used[0]] + [_TOTAL]}
    for label, i in itertools.chain(zip(labels, used[1], strict=True), [(_TOTAL, -1)]):
        cells = grid[used[0], i] if i >= 0 else grid[used[0]].sum(axis=1)
        data[label if label not in data else f"{columns.name} {label}"] = [
            *cells.tolist(),
            float(cells.sum()),
        ]
    return pa.table(data)


def statistic(
    view: ViewData,
    kind: str,
    name: str,
    where: Where,
    confidence: float,
    counts: Reading,
    interval: Kind,
    quantile: float = 0.5,
) -> Statistic:
    """The sum, mean or quantile of an attribute over the records that satisfy a condition."""
    column = _column(name)
    node: exp.Expr
    if kind == "quantile":
        if isinstance(quantile, bool) or not isinstance(quantile, (int, float)):
            raise QueryError("A quantile is a number from 0 to 1, such as 0.5 for the median.")
        node = exp.Quantile(this=column, quantile=exp.Literal.number(float(quantile)))
    else:
        node = exp.Avg(this=column) if kind == "mean" else exp.Sum(this=column)
    aggregate = AggregateReader(AxisReader(view.schema)).read(node)
    groups = Groups(view, boxes_of(where, view.schema), (), keep_empty=True)
    span = Measures(groups, [aggregate], counts, interval).span(0, _checked(confidence))
    if np.isnan(span.estimate[0]):
        return Statistic(None, None, None, confidence)
    estimate, lower, upper = (
        calendar.moment(round(end[0])) if aggregate.of_moments else float(end[0]) for end in span
    )
    return Statistic(estimate, lower, upper, confidence)


def _column(name: str) -> exp.Expr:
    return exp.column(str(name), quoted=True)


def _checked(confidence: float) -> float:
    check_confidence(confidence)
    return confidence


def _counted(keys: Sequence[tuple[str, list[Any]]], estimate: Any, lower: Any, upper: Any) -> pa.Table:
    count = "count" if all(name.lower() != "count" for name, _ in keys) else "n"
    columns = [Column(name, values) for name, values in keys]
    columns += [
        Column(f"{count}{end}", values)
        for end, values in (("", estimate), ("_lower", lower), ("_upper", upper))
    ]
    return pa.table([arrow_column(column) for column in columns], names=[column.name for column in columns])


def _texts(attribute: Attribute) -> list[str]:
    return [_text(key) for key in code_keys(attribute)]


def _text(key: Any) -> str:
    return "\0missing" if key is None else str(key)
