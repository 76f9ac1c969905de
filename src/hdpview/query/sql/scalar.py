"""Values of SQL expressions, row by row: what stands around the aggregates, and what groups are named by.

A closed list of pure functions on numbers, texts, dates and truth values, as DuckDB defines them; nothing here can read a file,
loop, or grow a value beyond the size of the text that was written. NULL is None.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from datetime import date
from typing import Any

from sqlglot import exp

from hdpview.errors import QueryError, shortened
from hdpview.query.sql.dates import PART_NODES, PARTS, moment_of, truncate

Lookup = Callable[[exp.Expr], Any]  # the value of a node that is known already, or UNKNOWN
UNKNOWN = object()
_MOST_BITS = 512  # of a whole number on the way; larger ones go on as doubles


def shown(node: Any) -> str:
    """A piece of SQL as it is quoted in a message."""
    return shortened(node.sql(dialect="duckdb") if isinstance(node, exp.Expr) else str(node))


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
    except (TypeError, ValueError, OverflowError, AttributeError):
        raise QueryError(f"{shown(node)} has no value: the types do not fit.") from None


_WHAT_WORKS = "Use arithmetic, comparisons, CASE, COALESCE, ROUND, FLOOR, CEIL, ABS, CAST, UPPER, LOWER and parts of dates."


def constant(node: exp.Expr) -> Any:
    """The value of an expression without columns."""
    return evaluate(node, lambda _: UNKNOWN)


def literal_number(text: str) -> int | float:
    """A number as written; whole ones stay whole."""
    return int(text) if text.isdigit() and len(text) < 100 else float(text)


def _literal(node: exp.Expr, _: Lookup) -> Any:
    return node.this if node.is_string else literal_number(node.this)


def _strict(compute: Callable[..., Any], *keys: str) -> Callable[[exp.Expr, Lookup], Any]:
    """A function of the named arguments that is NULL where one of them is."""

    def rule(node: exp.Expr, lookup: Lookup) -> Any:
        values = [evaluate(node.args[key], lookup) for key in keys if node.args.get(key) is not None]
        return None if any(value is None for value in values) else compute(*values)

    return rule


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError
    return float(value) if isinstance(value, int) and value.bit_length() > _MOST_BITS else value


def _arithmetic(compute: Callable[[Any, Any], Any]) -> Callable[[exp.Expr, Lookup], Any]:
    return _strict(lambda a, b: compute(_number(a), _number(b)), "this", "expression")


def _divide(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a)


def _divide_whole(a: float, b: float) -> int | float | None:
    """Rounded towards 0, as databases do; of fractional numbers DuckDB divides plainly."""
    if not b:
        return None
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return a / b


def _remainder(a: float, b: float) -> float | None:
    if not b:
        return None
    return abs(a) % abs(b) * (-1 if a < 0 else 1) if isinstance(a, int) and isinstance(b, int) else math.fmod(a, b)


def _compare(sign: Callable[[Any, Any], bool]) -> Callable[[exp.Expr, Lookup], Any]:
    return _strict(lambda a, b: sign(*alike(a, b)), "this", "expression")


def alike(a: Any, b: Any) -> tuple[Any, Any]:
    """Two values as one type: a text beside a date is read as one, and a date beside a moment is its midnight."""
    if isinstance(a, date) or isinstance(b, date):
        return moment_of(a), moment_of(b)
    if isinstance(a, bool) != isinstance(b, bool) or isinstance(a, str) != isinstance(b, str):
        raise TypeError
    return a, b


def _and(node: exp.Expr, lookup: Lookup) -> bool | None:
    left, right = (_truth(evaluate(side, lookup)) for side in (node.this, node.expression))
    return False if left is False or right is False else None if left is None or right is None else True


def _or(node: exp.Expr, lookup: Lookup) -> bool | None:
    left, right = (_truth(evaluate(side, lookup)) for side in (node.this, node.expression))
    return True if left or right else None if left is None or right is None else False


def _truth(value: Any) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise TypeError
    return value


def _not(node: exp.Expr, lookup: Lookup) -> bool | None:
    value = _truth(evaluate(node.this, lookup))
    return None if value is None else not value


def _is(node: exp.Expr, lookup: Lookup) -> bool:
    value, wanted = evaluate(node.this, lookup), evaluate(node.expression, lookup)
    return value is wanted


def _in(node: exp.Expr, lookup: Lookup) -> bool | None:
    value = evaluate(node.this, lookup)
    if not node.expressions or node.args.get("query"):
        raise QueryError(f"{shown(node)}: IN takes a list of values.")
    others = [evaluate(other, lookup) for other in node.expressions]
    if value is None:
        return None
    found = any(other is not None and operator.eq(*alike(value, other)) for other in others)
    return True if found else None if None in others else False


def _between(node: exp.Expr, lookup: Lookup) -> bool | None:
    value, low, high = (evaluate(node.args[key], lookup) for key in ("this", "low", "high"))
    above = None if value is None or low is None else operator.ge(*alike(value, low))
    below = None if value is None or high is None else operator.le(*alike(value, high))
    return False if above is False or below is False else None if above is None or below is None else True


def branches(node: exp.Expr) -> Iterable[tuple[exp.Expr, exp.Expr]]:
    """Conditions and results of CASE, in order. `CASE x WHEN 1 …` compares x."""
    for branch in node.args["ifs"]:
        yield exp.EQ(this=node.this.copy(), expression=branch.this.copy()) if node.this is not None else branch.this, branch.args["true"]


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
    return None if value is not None and other is not None and operator.eq(*alike(value, other)) else value


def _extreme(choose: Callable[[list[Any]], Any]) -> Callable[[exp.Expr, Lookup], Any]:
    def rule(node: exp.Expr, lookup: Lookup) -> Any:
        values = [evaluate(each, lookup) for each in (node.this, *node.expressions)]
        known = [value for value in values if value is not None]
        return choose(known) if known else None

    return rule


def round_half_away(value: float, digits: int = 0) -> int | float:
    """To so many decimals; halves go away from 0."""
    value, scale = _number(value), 10.0 ** min(max(int(digits), -300), 300)
    if not math.isfinite(value):
        return value
    if isinstance(value, int) and digits >= 0:
        return value
    rounded = math.copysign(math.floor(abs(value) * scale + 0.5) / scale, value) if math.isfinite(value * scale) else value
    return int(rounded) if isinstance(value, int) else rounded


def _whole(function: Callable[[float], int]) -> Callable[[Any], float]:
    return lambda value: function(_number(value)) if math.isfinite(_number(value)) else value


def _cast(node: exp.Expr, lookup: Lookup) -> Any:
    value, kind = evaluate(node.this, lookup), node.args["to"]
    if value is None:
        return None
    if kind.is_type(*exp.DataType.INTEGER_TYPES):
        return int(round_half_away(float(value) if isinstance(value, str) else int(value) if isinstance(value, bool) else value))
    if kind.is_type(*exp.DataType.REAL_TYPES):
        return float(value)
    if kind.is_type(*exp.DataType.TEXT_TYPES):
        return str(value).lower() if isinstance(value, bool) else str(value)
    if kind.is_type(exp.DataType.Type.BOOLEAN):
        return {"true": True, "false": False}[value.lower()] if isinstance(value, str) else bool(value)
    if kind.is_type(exp.DataType.Type.DATE):
        return moment_of(value).date()
    if kind.is_type(*exp.DataType.TEMPORAL_TYPES):
        return moment_of(value)
    raise QueryError(f"{shown(node)}: cast to INTEGER, DOUBLE, VARCHAR, BOOLEAN, DATE or TIMESTAMP.")


def _part(node: exp.Expr, lookup: Lookup) -> int | None:
    name, of = (node.this.name.upper(), node.expression) if isinstance(node, exp.Extract) else (PART_NODES[type(node)], node.this)
    if name not in PARTS:
        raise QueryError(f"{shown(node)}: the parts of a date are {', '.join(part.lower() for part in PARTS)}.")
    value = evaluate(of, lookup)
    return None if value is None else PARTS[name](moment_of(value))


def _truncate(node: exp.Expr, lookup: Lookup) -> Any:
    value = evaluate(node.this, lookup)
    return None if value is None else truncate(value, node.args["unit"].name)


def width_bucket(value: float, low: float, high: float, n: int) -> int:
    """Which of n equal buckets between low and high a value falls into, from 1; 0 below and n + 1 from `high` on."""
    if not low < high or not 1 <= n <= 100_000:
        raise ValueError
    return 0 if value < low else n + 1 if value >= high else int((value - low) * n / (high - low)) + 1


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _substring(text: Any, start: int = 1, length: int | None = None) -> str:
    first = max(start, 1) - 1
    return _text(text)[first : None if length is None else max(start - 1 + length, first)]


def _concat(node: exp.Expr, lookup: Lookup) -> str:
    values = (evaluate(each, lookup) for each in node.expressions)
    return "".join(str(value) for value in values if value is not None)


def _power(a: float, b: float) -> float:
    return float(a) ** float(b) if a >= 0 or float(b).is_integer() else math.nan


_RULES: dict[type[exp.Expr], Callable[[exp.Expr, Lookup], Any]] = {
    exp.Literal: _literal,
    exp.Boolean: lambda node, _: bool(node.this),
    exp.Null: lambda *_: None,
    exp.Paren: lambda node, lookup: evaluate(node.this, lookup),
    exp.Neg: _strict(lambda a: -_number(a), "this"),
    exp.Add: _arithmetic(operator.add),
    exp.Sub: _arithmetic(operator.sub),
    exp.Mul: _arithmetic(operator.mul),
    exp.Div: _arithmetic(_divide),
    exp.IntDiv: _arithmetic(_divide_whole),
    exp.Mod: _arithmetic(_remainder),
    exp.Pow: _arithmetic(_power),
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
    exp.Floor: _strict(_whole(math.floor), "this"),
    exp.Ceil: _strict(_whole(math.ceil), "this"),
    exp.Trunc: _strict(_whole(math.trunc), "this"),
    exp.Round: _strict(round_half_away, "this", "decimals"),
    exp.Abs: _strict(lambda a: abs(_number(a)), "this"),
    exp.Sign: _strict(lambda a: (a > 0) - (a < 0), "this"),
    exp.Sqrt: _strict(lambda a: math.sqrt(_number(a)), "this"),
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Upper: _strict(lambda text: _text(text).upper(), "this"),
    exp.Lower: _strict(lambda text: _text(text).lower(), "this"),
    exp.Trim: _strict(lambda text: _text(text).strip(" "), "this"),
    exp.Length: _strict(lambda text: len(_text(text)), "this"),
    exp.Left: _strict(lambda text, n: _text(text)[:n], "this", "expression"),
    exp.Substring: _strict(_substring, "this", "start", "length"),
    exp.DPipe: _strict(lambda a, b: f"{a}{b}", "this", "expression"),
    exp.Concat: _concat,
    exp.Extract: _part,
    exp.TimestampTrunc: _truncate,
    exp.DateTrunc: _truncate,
    exp.WidthBucket: _strict(width_bucket, "this", "min_value", "max_value", "num_buckets"),
    **dict.fromkeys(PART_NODES, _part),
}
