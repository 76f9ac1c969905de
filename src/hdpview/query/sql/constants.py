"""Constants of statements: values as SQL writes them, and expressions that are values in disguise."""

from __future__ import annotations

import math
from datetime import date, datetime
from typing import Any

from sqlglot import exp

from hdpview.query.sql.scalar import constant


def literal(value: Any) -> exp.Expr:
    """A value as SQL writes it."""
    if value is None:
        return exp.null()
    if isinstance(value, bool):
        return exp.true() if value else exp.false()
    if isinstance(value, (int, float)):
        if isinstance(value, float) and not math.isfinite(value):
            return exp.Literal.string(str(value))
        number = exp.Literal.number(repr(abs(value)))
        return exp.Paren(this=exp.Neg(this=number)) if value < 0 else number
    if isinstance(value, datetime):
        return exp.cast(exp.Literal.string(value.isoformat(" ")), "timestamp")
    if isinstance(value, date):
        return exp.cast(exp.Literal.string(value.isoformat()), "date")
    if isinstance(value, list):
        return exp.Array(expressions=[literal(item) for item in value])
    return exp.Literal.string(str(value))


_CONSTANTS = (
    exp.Cast,
    exp.Interval,
    exp.TimestampTrunc,
    exp.DateTrunc,
    exp.CurrentDate,
    exp.CurrentTimestamp,
)
_CONSTANT_PARTS = (
    *(*_CONSTANTS, exp.Add, exp.Sub, exp.Neg, exp.Paren, exp.StrToTime, exp.Literal, exp.Null),
    *(exp.Boolean, exp.DataType, exp.Var, exp.DataTypeParam),
)


def with_constants(tree: exp.Expr) -> exp.Expr:
    """The statement with values that are written in a roundabout way, such as CAST(20 AS INT) or
    current_date - INTERVAL 30 DAY, written as such. The tree given is left as it is.
    """
    if tree.find(*_CONSTANTS, exp.StrToTime) is None:
        return tree
    return tree.transform(_as_literal)


def _as_literal(node: exp.Expr) -> exp.Expr:
    inner = node.unnest()
    if not isinstance(inner, (*_CONSTANTS, exp.StrToTime, exp.Add, exp.Sub)) or isinstance(
        inner, exp.Interval
    ):
        return node
    is_date = isinstance(inner, exp.Cast) and inner.to.is_type(*exp.DataType.TEMPORAL_TYPES)
    if is_date and isinstance(inner.this, exp.Literal):
        return node
    is_sum = isinstance(inner, (exp.Add, exp.Sub))
    if (is_sum and inner.find(exp.Interval) is None) or not all(
        isinstance(part, _CONSTANT_PARTS) for part in inner.walk()
    ):
        return node
    return literal(constant(inner))
