"""Arithmetic over groups: the value of an expression of aggregates in all groups at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from hdpview.query.sql.plan import slot_of
from hdpview.query.sql.scalar import constant

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Lookup = Callable[[str, int], Floats | None]


def values(node: exp.Expr, n: int, lookup: Lookup, fixed: Lookup | None = None) -> Floats | None:
    """An expression of numbers in all n groups; None where it is anything else.

    lookup: the value of a slot. fixed: what conditions of CASE are decided by, where that is not `lookup`.
    """
    slot = slot_of(node)
    if slot is not None:
        return lookup(*slot)
    if isinstance(node, exp.Literal):
        return None if node.is_string else np.full(n, float(constant(node)))
    if isinstance(node, exp.Null):
        return np.full(n, np.nan)
    if isinstance(node, (exp.Case, exp.If)):
        return _case(node, n, lookup, fixed or lookup)
    rule = RULES.get(type(node))
    if rule is None or (isinstance(node, exp.Cast) and not node.to.is_type(*exp.DataType.NUMERIC_TYPES)):
        return None
    found = [values(part, n, lookup, fixed) for part in arguments(node)]
    known = [values for values in found if values is not None]
    if len(known) < len(found) or not known:
        return None
    with np.errstate(all="ignore"):
        return rule(known)


def _case(node: exp.Expr, n: int, lookup: Lookup, fixed: Lookup) -> Floats | None:
    """The first branch whose condition holds by the estimates."""
    if node.this is not None and isinstance(node, exp.Case):
        return None
    found, taken = np.full(n, np.nan), np.zeros(n, dtype=bool)
    branches, default = cases(node)
    for branch in branches:
        holds, result = (
            _condition(branch.this, n, fixed),
            values(branch.args["true"], n, lookup, fixed),
        )
        if holds is None or result is None:
            return None
        found, taken = np.where(holds & ~taken, result, found), taken | holds
    rest = np.full(n, np.nan) if default is None else values(default, n, lookup, fixed)
    return None if rest is None else np.where(taken, found, rest)


def _condition(node: exp.Expr, n: int, lookup: Lookup) -> Flags | None:
    node = node.unnest()
    if isinstance(node, (exp.And, exp.Or)):
        sides = [_condition(side, n, lookup) for side in (node.this, node.expression)]
        if sides[0] is None or sides[1] is None:
            return None
        return sides[0] & sides[1] if isinstance(node, exp.And) else sides[0] | sides[1]
    compare = _COMPARISONS.get(type(node))
    if compare is None:
        return None
    left, right = (values(side, n, lookup) for side in (node.this, node.expression))
    if left is None or right is None:
        return None
    with np.errstate(invalid="ignore"):
        return np.asarray(compare(left, right))


def cases(node: exp.Expr) -> tuple[list[exp.Expr], exp.Expr | None]:
    """The branches of a CASE or an IF, each with its condition and its result, and what holds otherwise."""
    if isinstance(node, exp.Case):
        return node.args["ifs"], node.args.get("default")
    return [node], node.args.get("false")


def arguments(node: exp.Expr) -> list[exp.Expr]:
    """What an operation or a function is of, in order."""
    keys = ("this", "expression", "decimals")
    found = [part for key in keys if isinstance(part := node.args.get(key), exp.Expr)]
    return found + [part for part in node.expressions if isinstance(part, exp.Expr)]


def _rounded(values: Sequence[Floats]) -> Floats:
    scale = 10.0 ** (values[1] if len(values) > 1 else 0.0)
    rounded: Floats = np.copysign(np.floor(np.abs(values[0]) * scale + 0.5) / scale, values[0])
    return rounded


def _first_known(values: Sequence[Floats]) -> Floats:
    found = values[0]
    for other in values[1:]:
        found = np.where(np.isnan(found), other, found)
    return found


def _divided(values: Sequence[Floats]) -> Floats:
    return np.where(values[1] == 0, np.nan, values[0] / values[1])


def _logarithm(values: Sequence[Floats]) -> Floats:
    found: Floats = np.log(values[-1]) / (np.log(values[0]) if len(values) > 1 else math.log(10.0))
    return found


RULES: dict[type[exp.Expr], Callable[[Sequence[Floats]], Floats]] = {
    exp.Paren: lambda v: v[0],
    exp.Neg: lambda v: -v[0],
    exp.Add: lambda v: v[0] + v[1],
    exp.Sub: lambda v: v[0] - v[1],
    exp.Mul: lambda v: v[0] * v[1],
    exp.Div: _divided,
    exp.Pow: lambda v: np.power(v[0], v[1]),
    exp.Ln: lambda v: np.log(v[0]),
    exp.Log: _logarithm,
    exp.Exp: lambda v: np.exp(v[0]),
    exp.Sqrt: lambda v: np.sqrt(v[0]),
    exp.Round: _rounded,
    exp.Floor: lambda v: np.floor(v[0]),
    exp.Ceil: lambda v: np.ceil(v[0]),
    exp.Abs: lambda v: np.abs(v[0]),
    exp.Greatest: lambda v: np.fmax.reduce(list(v)),
    exp.Least: lambda v: np.fmin.reduce(list(v)),
    exp.Coalesce: _first_known,
    exp.Nullif: lambda v: np.where(v[0] == v[1], np.nan, v[0]),
    exp.Cast: lambda v: v[0],
    exp.TryCast: lambda v: v[0],
}
_COMPARISONS: dict[type[exp.Expr], Callable[[Floats, Floats], Flags]] = {
    exp.EQ: np.equal,
    exp.NEQ: np.not_equal,
    exp.LT: np.less,
    exp.LTE: np.less_equal,
    exp.GT: np.greater,
    exp.GTE: np.greater_equal,
}
