"""Aggregates: what COUNT, SUM, AVG and the quantiles of a statement ask for, as boxes with values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sqlglot import exp

from hdpview.domain import Attribute, Datetime, Ordered
from hdpview.errors import QueryError
from hdpview.query.question import aggregates, conditions
from hdpview.query.question.aggregates import Aggregate
from hdpview.query.question.axes import any_of, code_conditions, code_keys, has_single_values
from hdpview.query.question.boxes import Box, intersect
from hdpview.query.question.conditions import Condition
from hdpview.query.question.quantities import Part, Values, bin_values
from hdpview.query.question.where import attribute_number
from hdpview.query.sql.axes import AxisReader, attributes_in
from hdpview.query.sql.scalar import UNKNOWN, constant, evaluate, shown
from hdpview.query.sql.windows import is_function_of_window

_MAX_PARTS = 2_000
_LARGEST_SUMMAND = 1e60  # fourth powers of values stay within doubles
QUANTILES = (exp.Median, exp.PercentileCont, exp.PercentileDisc, exp.Quantile, exp.ApproxQuantile)
_NAMED_QUANTILES = {"quantile_cont", "quantile_disc", "percentile_cont"}
ASSOCIATIONS = ("odds_ratio", "risk_ratio", "risk_difference")
NAMED_AGGREGATES = frozenset(
    {"mean", *_NAMED_QUANTILES, *ASSOCIATIONS}
)  # that the parser takes for any function
# Whether the variance is that of a sample, and whether its root is meant.
_SPREADS: dict[type[exp.Expr], tuple[bool, bool]] = {
    exp.Stddev: (True, True),
    exp.StddevSamp: (True, True),
    exp.StddevPop: (False, True),
    exp.Variance: (True, False),
    exp.VariancePop: (False, False),
}


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node takes many records and gives one value."""
    if isinstance(node, (exp.AggFunc, exp.Filter, exp.WithinGroup)):
        return not isinstance(node, exp.Filter) or is_aggregate(node.this)
    return isinstance(node, exp.Anonymous) and node.name.lower() in NAMED_AGGREGATES


def contains_aggregate(node: exp.Expr) -> bool:
    """Whether an expression has an aggregate of records in it, in a window or not."""
    return any(is_aggregate(part) and not is_function_of_window(part) for part in node.walk())


def default_name(node: exp.Expr) -> str:
    """What a column is called that was not given a name."""
    node = node.unnest()
    if isinstance(node, exp.Column):
        return node.name
    inner = node.this if isinstance(node, exp.Filter) else node
    if isinstance(inner, exp.Count) and isinstance(inner.this, (exp.Star, exp.Literal)):
        return "count"
    if isinstance(inner, (exp.Count, exp.Sum, exp.Avg, exp.Median)) and isinstance(inner.this, exp.Column):
        return f"{inner.key}_{inner.this.name}"
    return shown(node).replace('"', "").lower()


class AggregateReader:
    """Reads aggregates against a schema."""

    def __init__(self, axes: AxisReader) -> None:
        self.axes = axes
        self.schema = axes.schema

    def read(self, node: exp.Expr) -> Aggregate:
        """What an aggregate asks for, or why it cannot be told."""
        if isinstance(node, exp.Filter):
            return self.read(node.this).within(self.axes.boxes(node.expression.this))
        if isinstance(node, exp.Count):
            return aggregates.count(self._counted(node))
        if isinstance(node, exp.CountIf):
            return aggregates.count(self.axes.boxes(node.this))
        named = node.name.lower() if isinstance(node, exp.Anonymous) else ""
        if isinstance(node, (exp.Sum, exp.Avg)) or named == "mean":
            return self._sum(
                node,
                node.expressions[0] if named else node.this,
                "sum" if isinstance(node, exp.Sum) else "mean",
            )
        if isinstance(node, (*QUANTILES, exp.WithinGroup)) or named in _NAMED_QUANTILES:
            return self._quantile(node)
        if type(node) in _SPREADS:
            return self._spread(node)
        if isinstance(node, (exp.Corr, exp.CovarPop, exp.CovarSamp)):
            return self._of_two(node)
        if named in ASSOCIATIONS:
            return self._association(node, named)
        raise QueryError(_why_not(node))

    def _counted(self, node: exp.Count) -> Sequence[Box]:
        argument = node.this.unnest()
        if isinstance(argument, exp.Distinct) or node.expressions:
            raise QueryError(
                "COUNT(DISTINCT …) cannot be told from noisy counts: a value with few records looks "
                "like one with none. "
                "Count the records of each value: SELECT x, COUNT(*) FROM view GROUP BY x."
            )
        if isinstance(argument, exp.Star):
            return [{}]
        if isinstance(argument, exp.Column):
            a = attribute_number(argument.name, self.schema)
            return intersect([{a: conditions.everything(self.schema.attributes[a])}], [{}])
        return [box for key, box in self.axes.axis(argument).pairs() if key is not None]

    def _sum(self, node: exp.Expr, argument: exp.Expr, kind: str) -> Aggregate:
        argument = argument.unnest()
        if isinstance(argument, exp.Distinct):
            raise QueryError(
                f"{shown(node)}: values that differ cannot be told from noisy counts; leave out DISTINCT."
            )
        single = self._attribute(argument)
        if isinstance(single, Datetime) and kind == "sum":
            raise QueryError(
                f"{shown(node)}: moments cannot be added up. Ask for their mean, AVG({single.name}), "
                "or median."
            )
        parts = self._parts(argument)
        if len(parts) > _MAX_PARTS:
            raise QueryError(
                f"{shown(argument)} takes too many different values to add up; sum single attributes."
            )
        make = aggregates.total if kind == "sum" else aggregates.mean
        return make(parts, of_moments=isinstance(single, Datetime))

    def _attribute(self, node: exp.Expr) -> Attribute | None:
        return (
            self.schema.attributes[attribute_number(node.name, self.schema)]
            if isinstance(node, exp.Column)
            else None
        )

    def _parts(self, node: exp.Expr) -> list[Part]:
        """Disjoint boxes that hold all records for which an expression has a value, and these values."""
        node = node.unnest()
        cases = self.axes.cases(node)
        if cases is not None:
            parts = [(inside, part) for inside, result in cases for part in self._parts(result)]
            return [part.within(box) for inside, part in parts for box in intersect(inside, [part.box])]
        numbers = attributes_in(node, self.schema)
        if not numbers:
            value = constant(node)
            return [] if value is None else [Part({}, Values.constant(_number(value, node)))]
        attribute = self.schema.attributes[numbers[0]]
        if len(numbers) == 1 and (isinstance(node, exp.Column) or not isinstance(attribute, Datetime)):
            return self._vector(node, numbers[0], attribute)
        pairs = [(key, box) for key, box in self.axes.axis(node).pairs() if key is not None]
        return [Part(box, Values.constant(_number(key, node))) for key, box in pairs]

    def _vector(self, node: exp.Expr, a: int, attribute: Attribute) -> list[Part]:
        """Values per code of an expression of one attribute."""
        if isinstance(node, exp.Column):
            values = bin_values(attribute, a)
            if max(abs(float(values.least.min())), abs(float(values.greatest.max()))) > _LARGEST_SUMMAND:
                raise QueryError(
                    f"{attribute.name!r} goes beyond {_LARGEST_SUMMAND:g}; such numbers cannot be "
                    "added up. Ask for quantiles."
                )
            return [Part({a: conditions.everything(attribute)}, values)]

        def value_at(key: Any) -> Any:
            return evaluate(node, lambda part: key if isinstance(part, exp.Column) else UNKNOWN)

        keys = code_keys(attribute)
        if has_single_values(attribute):
            columns = [[value_at(key) for key in keys]] * 3
        else:
            base = bin_values(attribute, a)
            columns = [
                [value_at(None if key is None else x) for key, x in zip(keys, values.tolist(), strict=True)]
                for values in (base.mean, base.least, base.greatest)
            ]
        has_value = [all(column[code] is not None for column in columns) for code in range(attribute.size)]
        if not any(has_value):
            return []
        # Codes without a value add nothing, and must not widen the bounds of the others.
        known = has_value.index(True)
        mean, one_end, other_end = (
            np.array(
                [_number(column[code if has_value[code] else known], node) for code in range(len(column))]
            )
            for column in columns
        )
        values = Values(a, mean, np.minimum(one_end, other_end), np.maximum(one_end, other_end))
        holds = _condition_of_codes(attribute, has_value)
        return [Part({a: holds}, values)]

    def _spread(self, node: exp.Expr) -> Aggregate:
        """STDDEV, VARIANCE and their kin of one attribute."""
        values, boxes = self._numbers(node, node.this)
        of_sample, root = _SPREADS[type(node)]
        return aggregates.variance(values, boxes, of_sample, root)

    def _of_two(self, node: exp.Expr) -> Aggregate:
        """CORR and the covariances of two attributes."""
        (x, inside), (y, others) = (self._numbers(node, each) for each in (node.this, node.expression))
        boxes = intersect(inside, others)
        if isinstance(node, exp.Corr):
            return aggregates.correlation(x, y, boxes)
        return aggregates.covariance(x, y, boxes, of_sample=isinstance(node, exp.CovarSamp))

    def _numbers(self, node: exp.Expr, argument: Any) -> tuple[Values, Sequence[Box]]:
        """The values of a numeric attribute, and where it has one."""
        argument = argument.unnest() if isinstance(argument, exp.Expr) else argument
        attribute = self._attribute(argument)
        if attribute is None or isinstance(attribute, Datetime):
            raise QueryError(f"{shown(node)}: takes numeric attributes by themselves, such as STDDEV(age).")
        a = attribute_number(argument.name, self.schema)
        return bin_values(attribute, a), [{a: conditions.everything(attribute)}]

    def _association(self, node: exp.Expr, name: str) -> Aggregate:
        """ODDS_RATIO(outcome, exposure) and its kin; both are conditions."""
        if len(node.expressions) != 2:
            raise QueryError(f"{name.upper()} takes two conditions: {name}(outcome, exposure).")
        outcome, exposed = (self.axes.boxes(each) for each in node.expressions)
        return aggregates.association(name, outcome, exposed, self.schema)

    def _quantile(self, node: exp.Expr) -> Aggregate:
        argument, share = _quantile_arguments(node)
        if not isinstance(share, (int, float)) or isinstance(share, bool) or not 0 <= share <= 1:
            raise QueryError(
                f"{shown(node)}: the quantile is a number from 0 to 1, such as 0.5 for the median."
            )
        attribute = self._attribute(argument)
        if not isinstance(attribute, Ordered):
            raise QueryError(
                f"{shown(node)}: quantiles are taken of a numeric or datetime attribute by itself."
            )
        a = attribute_number(argument.name, self.schema)
        boxes = [{a: conditions.everything(attribute)}]
        return aggregates.quantile(a, boxes, float(share), of_moments=isinstance(attribute, Datetime))


def _quantile_arguments(node: exp.Expr) -> tuple[exp.Expr, Any]:
    if isinstance(node, exp.WithinGroup):
        ordered = node.expression.expressions[0]
        if type(node.this) in _REASONS:
            raise QueryError(_why_not(node.this, ordered.this))
        if isinstance(node.this.this, exp.Array):
            raise QueryError(f"{shown(node)}: ask for one quantile at a time, each with its own name.")
        share = constant(node.this.this)
        return ordered.this.unnest(), 1 - share if ordered.args.get("desc") and isinstance(
            share, (int, float)
        ) else share
    if isinstance(node, exp.Median):
        return node.this.unnest(), 0.5
    if isinstance(node, exp.Anonymous):
        if len(node.expressions) != 2:
            raise QueryError(f"{shown(node)}: write quantile_cont(attribute, 0.5).")
        return node.expressions[0].unnest(), constant(node.expressions[1])
    share = node.args.get("quantile") or node.args.get("expression")
    if share is None:
        raise QueryError(f"{shown(node)}: write quantile_cont(attribute, 0.5).")
    return node.this.unnest(), constant(share)


def _condition_of_codes(attribute: Attribute, chosen: Sequence[bool]) -> Condition:
    return any_of(
        [condition for condition, keep in zip(code_conditions(attribute), chosen, strict=True) if keep]
    )


def _number(value: Any, node: exp.Expr) -> float:
    if not isinstance(value, (bool, int, float)) or abs(float(value)) > _LARGEST_SUMMAND:
        raise QueryError(f"{shown(node)} is not a number that can be added up.")
    return float(value)


_NO_ROWS = "A view holds no rows to list. Count them: SELECT {0}, COUNT(*) FROM view GROUP BY {0}."
_REASONS: dict[type[exp.Expr], str] = {
    exp.Min: "The least value is of a single record, which noise hides. Ask quantile_cont({0}, 0.01).",
    exp.Max: "The greatest value is of a single record, which noise hides. Ask quantile_cont({0}, 0.99).",
    exp.ArrayAgg: _NO_ROWS,
    exp.GroupConcat: _NO_ROWS,
    exp.JSONArrayAgg: _NO_ROWS,
    exp.Mode: "Ask SELECT {0}, COUNT(*) AS n FROM view GROUP BY {0} ORDER BY n DESC LIMIT 1.",
    exp.RegrSlope: "Ask COVAR_POP({0}, {1}) / VAR_POP({1}).",
    exp.LogicalOr: "Ask COUNT(*) FILTER (WHERE {0}).",
    exp.LogicalAnd: "Ask COUNT(*) FILTER (WHERE NOT {0}).",
}


def _why_not(node: exp.Expr, argument: exp.Expr | None = None) -> str:
    reason = _REASONS.get(type(node))
    if reason is None:
        return (
            f"{shown(node)} cannot be answered from counts. What can: COUNT, SUM, AVG, MEDIAN and "
            "quantile_cont, with FILTER (WHERE …)."
        )
    first = argument or node.this
    while isinstance(first, (exp.Distinct, exp.Order, exp.Cast)):
        first = first.expressions[0] if isinstance(first, exp.Distinct) else first.this
    return (
        f"{shown(node)} cannot be answered. {reason.format(shown(first), shown(node.args.get('expression')))}"
    )
