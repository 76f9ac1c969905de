"""Arithmetic on estimates with intervals: an expression of aggregates holds between the ends that its parts
allow.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from hdpview.query.sql.measures import Span
from hdpview.query.sql.plan import TOTAL, slot_of
from hdpview.query.sql.scalar import constant

Floats = NDArray[np.float64]
Slots = Callable[[str, int], Span | None]


def span_of(node: exp.Expr, slots: Slots, n: int) -> Span | None:
    """Estimate and interval of an expression in every group; None where it is not arithmetic of numbers."""
    slot = slot_of(node)
    if slot is not None:
        return slots(*slot)
    if isinstance(node, exp.Literal):
        return None if node.is_string else _fixed(float(constant(node)), n)
    rule = _RULES.get(type(node))
    if rule is None:
        return None
    arguments = [
        part for key in ("this", "expression", "decimals") if isinstance(part := node.args.get(key), exp.Expr)
    ]
    arguments += [part for part in node.expressions if isinstance(part, exp.Expr)]
    spans = [span_of(part, slots, n) for part in arguments]
    known = [span for span in spans if span is not None]
    if len(known) < len(spans) or not known:
        return None
    if isinstance(node, exp.Cast) and not node.to.is_type(*exp.DataType.NUMERIC_TYPES):
        return None
    with np.errstate(all="ignore"):
        found = rule(known)
    return _share(found) if _is_share_of_total(node) else found


def _fixed(value: float, n: int) -> Span:
    column = np.full(n, value)
    return Span(column, column, column)


def _is_share_of_total(node: exp.Expr) -> bool:
    """Whether a division is x / SUM(x) OVER (): its slots tell that the second is a total."""
    slot = (
        slot_of(node.expression.unnest())
        if isinstance(node, exp.Div) and isinstance(node.expression, exp.Expr)
        else None
    )
    return slot is not None and slot[0] == TOTAL


def _share(span: Span) -> Span:
    """A part of a total of counts is at most all of it, unless the numerator was scaled (100.0 * …)."""
    scale = 1.0 if np.nanmax(span.estimate, initial=0.0) <= 1.0 + 1e-9 else np.inf
    return Span(span.estimate, span.lower, np.minimum(span.upper, np.maximum(scale, span.estimate)))


def _hull(estimate: Floats, ends: Sequence[Floats]) -> Span:
    """The range of values at the ends, which holds the estimate."""
    every = np.stack([*ends, estimate])
    return Span(
        estimate,
        np.where(np.isnan(estimate), np.nan, np.fmin.reduce(every)),
        np.where(np.isnan(estimate), np.nan, np.fmax.reduce(every)),
    )


def _corners(compute: Callable[[Floats, Floats], Floats]) -> Callable[[Sequence[Span]], Span]:
    """A function of two numbers that is monotone in each: its extremes lie at the corners."""

    def rule(spans: Sequence[Span]) -> Span:
        left, right = spans
        ends = [compute(a, b) for a, b in itertools.product(left[1:], right[1:])]
        return _hull(compute(left.estimate, right.estimate), ends)

    return rule


def _divide(spans: Sequence[Span]) -> Span:
    left, right = spans
    ends = [a / b for a, b in itertools.product(left[1:], right[1:])]
    found = _hull(left.estimate / right.estimate, ends)
    through_zero = (right.lower <= 0) & (right.upper >= 0)
    low = np.where(
        through_zero & (left.lower < 0),
        -np.inf,
        np.where(through_zero & ~np.isnan(found.estimate), np.fmin(found.lower, 0), found.lower),
    )
    return Span(
        found.estimate,
        np.where(np.isnan(found.estimate), np.nan, low),
        np.where(through_zero & (left.upper > 0), np.inf, found.upper),
    )


def _each(compute: Callable[[Floats], Floats]) -> Callable[[Sequence[Span]], Span]:
    """A monotone function of one number."""
    return lambda spans: _hull(compute(spans[0].estimate), [compute(end) for end in spans[0][1:]])


def _round(spans: Sequence[Span]) -> Span:
    scale = 10.0 ** (spans[1].estimate if len(spans) > 1 else 0.0)
    return _each(lambda x: np.copysign(np.floor(np.abs(x) * scale + 0.5) / scale, x))(spans[:1])


def _absolute(spans: Sequence[Span]) -> Span:
    estimate, lower, upper = spans[0]
    least = np.where((lower <= 0) & (upper >= 0), 0.0, np.minimum(np.abs(lower), np.abs(upper)))
    return Span(np.abs(estimate), least, np.maximum(np.abs(lower), np.abs(upper)))


def _coalesce(spans: Sequence[Span]) -> Span:
    found = spans[0]
    for other in spans[1:]:
        found = Span(
            *(
                np.where(np.isnan(found.estimate), theirs, own)
                for own, theirs in zip(found, other, strict=True)
            )
        )
    return found


def _nullif(spans: Sequence[Span]) -> Span:
    equal = spans[0].estimate == spans[1].estimate
    return Span(*(np.where(equal, np.nan, column) for column in spans[0]))


def _cast(node_spans: Sequence[Span]) -> Span:
    return node_spans[0]


_RULES: dict[type[exp.Expr], Callable[[Sequence[Span]], Span]] = {
    exp.Paren: lambda spans: spans[0],
    exp.Neg: lambda spans: Span(-spans[0].estimate, -spans[0].upper, -spans[0].lower),
    exp.Add: _corners(np.add),
    exp.Sub: _corners(np.subtract),
    exp.Mul: _corners(np.multiply),
    exp.Div: _divide,
    exp.Round: _round,
    exp.Floor: _each(np.floor),
    exp.Ceil: _each(np.ceil),
    exp.Sqrt: _each(np.sqrt),
    exp.Abs: _absolute,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
    exp.Cast: _cast,
    exp.TryCast: _cast,
}
