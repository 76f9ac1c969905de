"""Statistics of Python that go the way of SQL: spreads, correlations and associations."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from hdpview.domain import Boolean, Datetime, Ordered
from hdpview.errors import QueryError
from hdpview.query.evaluate.run import run
from hdpview.query.interval.statistics import Statistic
from hdpview.query.question.where import Where, attribute_number, boxes_of, tree_of
from hdpview.view.data import ViewData


def stddev(view: ViewData, name: str, where: Where = None, **how: Any) -> Statistic:
    """The standard deviation of an attribute."""
    return _asked(view, exp.Stddev(this=_number(view, name)), where, **how)


def correlation(view: ViewData, x: str, y: str, where: Where = None, **how: Any) -> Statistic:
    """Pearson's correlation of two attributes."""
    return _asked(view, exp.Corr(this=_number(view, x), expression=_number(view, y)), where, **how)


def association(
    view: ViewData, kind: str, outcome: Where, exposure: Where, where: Where = None, **how: Any
) -> Statistic:
    """How an outcome goes with an exposure: `odds_ratio`, `risk_ratio` or `risk_difference`."""
    sides = [tree_of(side, view.schema) or exp.true() for side in (outcome, exposure)]
    return _asked(view, exp.Anonymous(this=kind, expressions=sides), where, **how)


def _asked(view: ViewData, value: exp.Expr, where: Where, **how: Any) -> Statistic:
    if how.get("interval", "typical") != "typical":
        raise QueryError(f"A {how['interval']} interval is for counts; ask for the typical one.")
    select = exp.select(exp.alias_(value, "value")).from_(exp.table_("view", quoted=True))
    boxes_of(where, view.schema)  # refuses what is no condition, in its own words
    condition = tree_of(where, view.schema)
    result = run(view, select if condition is None else select.where(condition, dialect="duckdb"), **how)
    estimate = result.table.column(0).to_pylist()[0]
    if estimate is None:
        return Statistic(None, None, None, result.confidence)
    return Statistic(estimate, float(result.lower[0][0]), float(result.upper[0][0]), result.confidence)


def _column(view: ViewData, name: str) -> exp.Column:
    return exp.column(view.schema.attributes[attribute_number(name, view.schema)].name, quoted=True)


def _number(view: ViewData, name: str) -> exp.Expr:
    attribute = view.schema.attributes[attribute_number(name, view.schema)]
    if isinstance(attribute, Boolean):
        return exp.cast(_column(view, name), "INT")
    if not isinstance(attribute, Ordered) or isinstance(attribute, Datetime):
        raise QueryError(f"Ask for this of a number; {name!r} is of type {attribute.kind}.")
    return _column(view, name)
