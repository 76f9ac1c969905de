"""Values of SQL expressions, row by row: what stands around the aggregates, and what groups are named by.

A closed list of pure functions on numbers, texts, dates and truth values, as DuckDB defines them; nothing
here can read a file, loop, or grow a value beyond the size of the text that was written. NULL is None.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from datetime import date
from typing import Any

from sqlglot import exp
from sqlglot.errors import SqlglotError

from hdpview.errors import QueryError, shortened
from hdpview.query.sql import patterns
from hdpview.query.sql.dates import (
    PART_NODES,
    PARTS,
    Duration,
    duration,
    moment_of,
    now,
    shifted,
    truncate,
    written,
)
from hdpview.query.sql.functions import (
    alike,
    as_number,
    as_text,
    divide,
    divide_whole,
    literal_number,
    power,
    remainder,
    round_half_away,
    substring,
    to_whole,
    width_bucket,
)

Lookup = Callable[[exp.Expr], Any]  # the value of a node that is known already, or UNKNOWN
UNKNOWN = object()


class MismatchError(Exception):
    """Values whose types do not fit what is to be done with them."""


def shown(node: Any) -> str:
    """A piece of SQL as it is quoted in a message."""
    try:
        return shortened(node.sql(dialect="duckdb") if isinstance(node, exp.Expr) else str(node))
    except SqlglotError:  # DuckDB has no such thing
        return shortened(node.sql(dialect="postgres"))


def evaluate(node: exp.Expr, lookup: Lookup) -> Any:
    """The value of an expression, where `lookup` knows the columns and aggregates in it."""
    known = lookup(node)
    if known is not UNKNOWN:
        return known
    rule = _RULES.get(type(node))
    if rule is None:
        raise QueryError(f"{shown(node)} cannot be computed here. {_WHAT_WORKS}")
    try:
        return rule(node, lookup)
    except (MismatchError, ValueError, ArithmeticError):
        raise QueryError(f"{shown(node)} has no value: the types do not fit.") from None


_WHAT_WORKS = (
    "Use arithmetic, comparisons, CASE, COALESCE, ROUND, FLOOR, CEIL, ABS, CAST, UPPER, LOWER and parts of "
    "dates."
)


def constant(node: exp.Expr) -> Any:
    """The value of an expression without columns."""
    return evaluate(node, lambda _: UNKNOWN)


def _literal(node: exp.Expr, _: Lookup) -> Any:
    return node.this if node.is_string else literal_number(node.this)


def _strict(compute: Callable[..., Any], *keys: str) -> Callable[[exp.Expr, Lookup], Any]:
    """A function of the named arguments that is NULL where one of them is."""

    def rule(node: exp.Expr, lookup: Lookup) -> Any:
        values = [evaluate(node.args[key], lookup) for key in keys if node.args.get(key) is not None]
        return None if any(value is None for value in values) else _fitting(compute, *values)

    return rule


def _fitting(compute: Callable[..., Any], *values: Any) -> Any:
    """The function of these values. Where Python finds that their types do not fit, neither do they in SQL;
    elsewhere a TypeError is a mistake of ours.
    """
    try:
        return compute(*values)
    except TypeError:
        raise MismatchError from None


def _sum_or_shift(sign: int) -> Callable[[exp.Expr, Lookup], Any]:
    """Addition and subtraction, of numbers and of an INTERVAL to a moment."""

    def compute(a: Any, b: Any) -> Any:
        if isinstance(a, Duration) and sign > 0:
            a, b = b, a
        return shifted(_dated(a), b, sign) if isinstance(b, Duration) else as_number(a) + sign * as_number(b)

    return _strict(compute, "this", "expression")


def _interval(node: exp.Expr, lookup: Lookup) -> Duration:
    unit = node.args.get("unit")
    return duration(str(evaluate(node.this, lookup)), "" if unit is None else unit.name)


def _text_pattern(compute: Callable[..., bool], *options: Any) -> Callable[[exp.Expr, Lookup], Any]:
    def rule(node: exp.Expr, lookup: Lookup) -> bool | None:
        values = [evaluate(node.args[key], lookup) for key in ("this", "expression")]
        if any(value is None for value in values):
            return None
        found: bool = _fitting(lambda: compute(*map(as_text, values), *options))
        return found != bool(node.args.get("negate"))

    return rule


def _logarithm(*values: float) -> float:
    return math.log10(values[0]) if len(values) == 1 else math.log(values[1], values[0])


def _arithmetic(compute: Callable[[Any, Any], Any]) -> Callable[[exp.Expr, Lookup], Any]:
    return _strict(lambda a, b: compute(as_number(a), as_number(b)), "this", "expression")


def _compare(sign: Callable[[Any, Any], bool]) -> Callable[[exp.Expr, Lookup], Any]:
    return _strict(lambda a, b: sign(*alike(a, b)), "this", "expression")


def _and(node: exp.Expr, lookup: Lookup) -> bool | None:
    left, right = (_truth(evaluate(side, lookup)) for side in (node.this, node.expression))
    return False if left is False or right is False else None if left is None or right is None else True


def _or(node: exp.Expr, lookup: Lookup) -> bool | None:
    left, right = (_truth(evaluate(side, lookup)) for side in (node.this, node.expression))
    return True if left or right else None if left is None or right is None else False


def _truth(value: Any) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise MismatchError
    return value


def _not(node: exp.Expr, lookup: Lookup) -> bool | None:
    value = _truth(evaluate(node.this, lookup))
    return None if value is None else not value


def _is(node: exp.Expr, lookup: Lookup) -> bool:
    value, wanted = evaluate(node.this, lookup), evaluate(node.expression, lookup)
    # In some dialects the parser reads IS NOT NULL as one node.
    return (value is wanted) != bool(node.args.get("negate"))


def _are_equal(a: Any, b: Any) -> bool:
    return bool(operator.eq(*alike(a, b)))


def _is_at_least(a: Any, b: Any) -> bool:
    return bool(operator.ge(*alike(a, b)))


def _in(node: exp.Expr, lookup: Lookup) -> bool | None:
    value = evaluate(node.this, lookup)
    if not node.expressions or node.args.get("query"):
        raise QueryError(f"{shown(node)}: IN takes a list of values.")
    others = [evaluate(other, lookup) for other in node.expressions]
    if value is None:
        return None
    found = any(other is not None and _fitting(_are_equal, value, other) for other in others)
    return True if found else None if None in others else False


def _between(node: exp.Expr, lookup: Lookup) -> bool | None:
    value, low, high = (evaluate(node.args[key], lookup) for key in ("this", "low", "high"))
    above = None if value is None or low is None else _fitting(_is_at_least, value, low)
    below = None if value is None or high is None else _fitting(_is_at_least, high, value)
    return False if above is False or below is False else None if above is None or below is None else True


def branches(node: exp.Expr) -> Iterable[tuple[exp.Expr, exp.Expr]]:
    """Conditions and results of CASE, in order. `CASE x WHEN 1 …` compares x."""
    for branch in node.args["ifs"]:
        yield (
            exp.EQ(this=node.this.copy(), expression=branch.this.copy())
            if node.this is not None
            else branch.this,
            branch.args["true"],
        )


def _case(node: exp.Expr, lookup: Lookup) -> Any:
    for condition, result in branches(node):
        if evaluate(condition, lookup) is True:
            return evaluate(result, lookup)
    default = node.args.get("default")
    return None if default is None else evaluate(default, lookup)


def _if(node: exp.Expr, lookup: Lookup) -> Any:
    chosen = node.args["true"] if evaluate(node.this, lookup) is True else node.args.get("false")
    return None if chosen is None else evaluate(chosen, lookup)


def _coalesce(node: exp.Expr, lookup: Lookup) -> Any:
    values = (evaluate(each, lookup) for each in (node.this, *node.expressions))
    return next((value for value in values if value is not None), None)


def _nullif(node: exp.Expr, lookup: Lookup) -> Any:
    value, other = evaluate(node.this, lookup), evaluate(node.expression, lookup)
    return None if value is not None and other is not None and _fitting(_are_equal, value, other) else value


def _extreme(choose: Callable[[list[Any]], Any]) -> Callable[[exp.Expr, Lookup], Any]:
    def rule(node: exp.Expr, lookup: Lookup) -> Any:
        values = [evaluate(each, lookup) for each in (node.this, *node.expressions)]
        known = [value for value in values if value is not None]
        return _fitting(choose, known) if known else None

    return rule


def _cast(node: exp.Expr, lookup: Lookup) -> Any:
    value, kind = evaluate(node.this, lookup), node.args["to"]
    return None if value is None else _fitting(lambda: _converted(value, kind, node))


def _converted(value: Any, kind: exp.DataType, node: exp.Expr) -> Any:
    if kind.is_type(*exp.DataType.INTEGER_TYPES):
        return int(
            round_half_away(
                float(value) if isinstance(value, str) else int(value) if isinstance(value, bool) else value
            )
        )
    if kind.is_type(*exp.DataType.REAL_TYPES):
        return float(value)
    if kind.is_type(*exp.DataType.TEXT_TYPES):
        return str(value).lower() if isinstance(value, bool) else str(value)
    if kind.is_type(exp.DataType.Type.BOOLEAN):
        if isinstance(value, str) and value.lower() not in ("true", "t", "false", "f"):
            raise MismatchError
        return value.lower() in ("true", "t") if isinstance(value, str) else bool(value)
    if kind.is_type(exp.DataType.Type.DATE):
        return moment_of(_dated(value)).date()
    if kind.is_type(*exp.DataType.TEMPORAL_TYPES):
        return moment_of(_dated(value))
    raise QueryError(f"{shown(node)}: cast to INTEGER, DOUBLE, VARCHAR, BOOLEAN, DATE or TIMESTAMP.")


def _dated(value: Any) -> Any:
    """A date, a moment, or a text that may be one."""
    if not isinstance(value, (str, date)):
        raise MismatchError
    return value


def _part(node: exp.Expr, lookup: Lookup) -> int | None:
    name, of = (
        (node.this.name.upper(), node.expression)
        if isinstance(node, exp.Extract)
        else (PART_NODES[type(node)], node.this)
    )
    if name not in PARTS:
        raise QueryError(
            f"{shown(node)}: the parts of a date are {', '.join(part.lower() for part in PARTS)}."
        )
    value = evaluate(of, lookup)
    return None if value is None else PARTS[name](moment_of(_dated(value)))


def _truncate(node: exp.Expr, lookup: Lookup) -> Any:
    value = evaluate(node.this, lookup)
    return None if value is None else truncate(_dated(value), node.args["unit"].name)


def _concat(node: exp.Expr, lookup: Lookup) -> str:
    values = (evaluate(each, lookup) for each in node.expressions)
    return "".join(str(value) for value in values if value is not None)


_RULES: dict[type[exp.Expr], Callable[[exp.Expr, Lookup], Any]] = {
    exp.Literal: _literal,
    exp.Boolean: lambda node, _: bool(node.this),
    exp.Null: lambda *_: None,
    exp.Paren: lambda node, lookup: evaluate(node.this, lookup),
    exp.Neg: _strict(lambda a: -as_number(a), "this"),
    exp.Add: _sum_or_shift(1),
    exp.Sub: _sum_or_shift(-1),
    exp.Mul: _arithmetic(operator.mul),
    exp.Div: _arithmetic(divide),
    exp.IntDiv: _arithmetic(divide_whole),
    exp.Mod: _arithmetic(remainder),
    exp.Pow: _arithmetic(power),
    exp.EQ: _compare(operator.eq),
    exp.NEQ: _compare(operator.ne),
    exp.LT: _compare(operator.lt),
    exp.LTE: _compare(operator.le),
    exp.GT: _compare(operator.gt),
    exp.GTE: _compare(operator.ge),
    exp.And: _and,
    exp.Or: _or,
    exp.Not: _not,
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
    exp.Greatest: _extreme(max),
    exp.Least: _extreme(min),
    exp.Floor: _strict(to_whole(math.floor), "this"),
    exp.Ceil: _strict(to_whole(math.ceil), "this"),
    exp.Trunc: _strict(to_whole(math.trunc), "this"),
    exp.Round: _strict(round_half_away, "this", "decimals"),
    exp.Abs: _strict(lambda a: abs(as_number(a)), "this"),
    exp.Sign: _strict(lambda a: (a > 0) - (a < 0), "this"),
    exp.Sqrt: _strict(lambda a: math.sqrt(as_number(a)), "this"),
    exp.Ln: _strict(lambda a: math.log(as_number(a)), "this"),
    exp.Log: _strict(_logarithm, "this", "expression"),
    exp.Exp: _strict(lambda a: math.exp(as_number(a)), "this"),
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Upper: _strict(lambda text: as_text(text).upper(), "this"),
    exp.Lower: _strict(lambda text: as_text(text).lower(), "this"),
    exp.Trim: _strict(lambda text: as_text(text).strip(" "), "this"),
    exp.Length: _strict(lambda text: len(as_text(text)), "this"),
    exp.Initcap: _strict(lambda text: as_text(text).title(), "this"),
    exp.Like: _text_pattern(patterns.is_like),
    exp.ILike: _text_pattern(patterns.is_like, True),
    exp.RegexpLike: _text_pattern(patterns.matches),
    exp.RegexpILike: _text_pattern(patterns.matches, True),
    exp.SimilarTo: _text_pattern(patterns.is_similar_to),
    exp.Left: _strict(lambda text, n: as_text(text)[:n], "this", "expression"),
    exp.Substring: _strict(substring, "this", "start", "length"),
    exp.DPipe: _strict(lambda a, b: f"{a}{b}", "this", "expression"),
    exp.Concat: _concat,
    exp.Extract: _part,
    exp.Interval: _interval,
    exp.TimeToStr: _strict(lambda at, pattern: written(_dated(at), pattern), "this", "format"),
    exp.StrToTime: _strict(moment_of, "this"),
    exp.CurrentDate: lambda *_: now().date(),
    exp.CurrentTimestamp: lambda *_: now(),
    exp.TimestampTrunc: _truncate,
    exp.DateTrunc: _truncate,
    exp.WidthBucket: _strict(width_bucket, "this", "min_value", "max_value", "num_buckets"),
    **dict.fromkeys(PART_NODES, _part),
}
