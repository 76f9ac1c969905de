"""Statistics of Python: quantiles in closed form; deviations, correlations and associations by SQL."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Unpack

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from hdpview.domain import Boolean, Datetime, Ordered
from hdpview.errors import QueryError
from hdpview.query.errors.closed import covariances
from hdpview.query.errors.ends import typical_tail
from hdpview.query.estimate.estimates import grid_estimates
from hdpview.query.evaluate.database import points_of
from hdpview.query.evaluate.quantiles import quantiles
from hdpview.query.evaluate.run import run
from hdpview.query.interval.answers import QueryOptions
from hdpview.query.interval.statistics import Statistic, check_options
from hdpview.query.question.boxes import Box, intersect
from hdpview.query.question.conditions import EVERYTHING
from hdpview.query.question.quantities import Part, Values, count_of
from hdpview.query.question.where import Where, attribute_number, boxes_of, tree_of
from hdpview.view.data import ViewData

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_PLACES_AT_ONCE = 12  # a batch of codes costs little more than a single one


def total(view: ViewData, name: str, where: Where = None, **how: Unpack[QueryOptions]) -> Statistic:
    """The sum of an attribute; none if there are no records."""
    return _asked(view, "sum", exp.Sum(this=_number(view, name)), where, **how)


def stddev(view: ViewData, name: str, where: Where = None, **how: Unpack[QueryOptions]) -> Statistic:
    """The standard deviation of an attribute."""
    return _asked(view, "standard deviation", exp.Stddev(this=_number(view, name)), where, **how)


def correlation(
    view: ViewData, x: str, y: str, where: Where = None, **how: Unpack[QueryOptions]
) -> Statistic:
    """Pearson's correlation of two attributes."""
    pair = exp.Corr(this=_number(view, x), expression=_number(view, y))
    return _asked(view, "correlation", pair, where, **how)


def association(
    view: ViewData,
    kind: str,
    outcome: Where,
    exposure: Where,
    where: Where = None,
    **how: Unpack[QueryOptions],
) -> Statistic:
    """The association of an outcome with an exposure: `odds_ratio`, `risk_ratio` or `risk_difference`."""
    sides = [tree_of(side, view.schema) or exp.true() for side in (outcome, exposure)]
    return _asked(view, kind.replace("_", " "), exp.Anonymous(this=kind, expressions=sides), where, **how)


def _asked(
    view: ViewData, kind: str, value: exp.Expr, where: Where, **how: Unpack[QueryOptions]
) -> Statistic:
    check_options(kind, how)
    select = exp.select(exp.alias_(value, "value")).from_(exp.table_("view", quoted=True))
    boxes_of(where, view.schema)  # refuses anything that is not a condition
    condition = tree_of(where, view.schema)
    result = run(view, select if condition is None else select.where(condition, dialect="duckdb"), **how)
    estimate = result.table.column(0).to_pylist()[0]
    ends = math.nan if estimate is None else estimate, float(result.lower[0][0]), float(result.upper[0][0])
    return Statistic.of(ends, result.confidence)


def _number(view: ViewData, name: str) -> exp.Expr:
    attribute = view.schema.attributes[attribute_number(name, view.schema)]
    column = exp.column(attribute.name, quoted=True)
    if isinstance(attribute, Boolean):
        return exp.cast(column, "INT")
    if not isinstance(attribute, Ordered) or isinstance(attribute, Datetime):
        raise QueryError(f"This needs a numeric attribute; {name!r} is of type {attribute.kind}.")
    return column


# Quantiles: the codes at which the share of records may, and must, reach them.


def quantile(
    view: ViewData, name: str, q: float, where: Where = None, **how: Unpack[QueryOptions]
) -> Statistic:
    """A quantile of an attribute."""
    check_options("quantile", how)
    confidence = how.get("confidence", 0.95)
    if isinstance(q, bool) or not isinstance(q, Real) or not 0 <= q <= 1:
        raise QueryError("A quantile must be a number from 0 to 1, such as 0.5 for the median.")
    a = attribute_number(name, view.schema)
    attribute = view.schema.attributes[a]
    if not isinstance(attribute, Ordered):
        raise QueryError(
            f"Quantiles need a numeric or datetime attribute; {name!r} is of type {attribute.kind}."
        )
    boxes = intersect(boxes_of(where, view.schema), [{a: EVERYTHING}])
    estimate = np.nan
    if boxes:
        histogram = grid_estimates(view, count_of(boxes), [a])
        estimate = quantile_of(histogram[: attribute.n_values], attribute, float(q))
    if np.isnan(estimate):
        return Statistic(None, None, None, confidence)
    first, last = _codes_around(view, boxes, a, attribute, float(q), confidence)
    lower = min(float(attribute.edges[first]), estimate)
    upper = max(float(attribute.edges[last + 1] - attribute.whole), estimate)
    return Statistic.of((estimate, lower, upper), confidence, isinstance(attribute, Datetime))


def _codes_around(
    view: ViewData, boxes: Sequence[Box], a: int, attribute: Ordered, q: float, confidence: float
) -> tuple[int, int]:
    """First and last code that may hold the quantile: where the cumulative share of records may, and must,
    reach it.
    """
    records = count_of(boxes)

    def ends_of_shares(codes: Ints) -> tuple[Floats, Floats]:
        """Upper and lower ends of the records up to each code minus the quantile's share of all."""
        # 1 − q up to a code, −q after it, and 0 for missing values.
        steps = np.where(np.arange(attribute.size) <= codes[:, None], 1.0 - q, -q)
        steps[:, attribute.n_values :] = 0.0
        up_to = [[Part(box, (Values(a, own, own, own),)) for box in boxes] for own in steps]
        sums, products = covariances(view, [up_to, [records] * len(codes)])
        reach = typical_tail(confidence) * np.sqrt(np.maximum(products[0, 0], 0.0))
        return sums[0] + reach, sums[0] - reach

    nearby = []
    for side in (0, 1):
        low, high = 0, attribute.n_values - 1
        while low < high:
            codes = np.unique(np.linspace(low, high, _PLACES_AT_ONCE).astype(np.int64))[:-1]
            at = int(np.append(ends_of_shares(codes)[side] >= 0, True).argmax())
            low, high = (
                low if at == 0 else int(codes[at - 1]) + 1,
                high if at == len(codes) else int(codes[at]),
            )
        nearby.append(low)
    return nearby[0], nearby[1]


def quantile_of(counts: Floats, attribute: Ordered, q: float) -> float:
    """The quantile of a histogram as SQL computes it: records lie at the points of their bin. NaN without
    records.
    """
    points = points_of(attribute)
    known = (points.share > 0) & (points.code < attribute.n_values)
    values = points.value.filter(pa.array(known))
    numbers = values.cast(pa.int64()) if attribute.whole else values
    of_points = (counts[points.code[known]] * points.share[known])[None, None]
    return float(quantiles(of_points, numbers.to_numpy().astype(np.float64), q, discrete=False)[0, 0])
