"""SQL: the columns of a CREATE TABLE, with what CHECK, ENUM and comments say of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import sqlglot
from sqlglot import exp

from hdpview.domain.drafting import Draft
from hdpview.domain.importing.columns import Facts, draft_of, one_of
from hdpview.errors import SchemaError

_DIALECTS = ("postgres", "mysql", "duckdb", "tsql", "oracle", "bigquery", "snowflake", "sqlite")
_FLIPPED: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE, exp.EQ: exp.EQ,
}  # fmt: skip


@dataclass(frozen=True)
class _Limits:
    """What CHECKs say of a column; bounds are included, and those that are not lie one step further in where
    numbers are whole.
    """

    low: Any = None
    high: Any = None
    low_open: bool = False
    high_open: bool = False
    values: tuple[Any, ...] = ()


def from_text(text: str, table: str | None) -> Draft:
    trees = _parsed(text)
    enums = {
        tree.this.name.lower(): [each.this for each in tree.expression.expressions]
        for tree in trees
        if isinstance(tree, exp.Create) and tree.kind == "TYPE" and isinstance(tree.expression, exp.DataType)
    }
    tables = {
        tree.this.this.name: tree.this
        for tree in trees
        if isinstance(tree, exp.Create) and tree.kind == "TABLE" and isinstance(tree.this, exp.Schema)
    }
    schema = one_of(tables, table, "table")
    limits: dict[str, _Limits] = {}
    for check in schema.find_all(exp.CheckColumnConstraint):
        _collect(check.this, limits)
    return draft_of(_facts(column, limits, enums) for column in schema.find_all(exp.ColumnDef))


def _parsed(text: str) -> list[exp.Expr]:
    """The statements, in the first dialect that reads them all and finds a table among them."""
    problem = "it has no CREATE TABLE with columns"
    for dialect in _DIALECTS:
        try:
            trees = [tree for tree in _quietly_parsed(text, dialect) if tree is not None]
        except sqlglot.errors.SqlglotError as refusal:
            problem = str(refusal).splitlines()[0]
            continue
        if any(isinstance(tree, exp.Create) and isinstance(tree.this, exp.Schema) for tree in trees):
            return trees
    raise SchemaError(f"The SQL cannot be read: {problem}. It has to be a CREATE TABLE statement.")


def _quietly_parsed(text: str, dialect: str) -> list[exp.Expr | None]:
    """The statements in one dialect, without remarks on what only another one has."""
    log = logging.getLogger("sqlglot")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        return sqlglot.parse(text, dialect=dialect)
    finally:
        log.setLevel(level)


def kind_of_type(text: str) -> str | None:
    """The type of attribute for a type of SQL, as it is written there."""
    for dialect in (None, *_DIALECTS):
        try:
            return _kind(exp.DataType.build(text, dialect=dialect))
        except sqlglot.errors.SqlglotError:
            continue
    return None


def _kind(dtype: exp.DataType) -> str | None:
    types = exp.DataType.Type
    if dtype.this in (types.BOOLEAN, types.BIT):
        return "boolean"
    if dtype.this in exp.DataType.INTEGER_TYPES:
        return "integer"
    if dtype.this in (types.DECIMAL, types.MONEY, types.SMALLMONEY, *exp.DataType.REAL_TYPES):
        parameters = [each.name for each in dtype.expressions]
        is_whole = dtype.this == types.DECIMAL and len(parameters) == 2 and parameters[1] == "0"
        return "integer" if is_whole else "real"
    if dtype.this in exp.DataType.TEXT_TYPES or dtype.this in (types.ENUM, types.USERDEFINED):
        return "category"
    if dtype.this in exp.DataType.TEMPORAL_TYPES:
        return None if dtype.this in (types.TIME, types.TIMETZ) else "datetime"
    return None


def _facts(column: exp.ColumnDef, limits: dict[str, _Limits], enums: dict[str, list[str]]) -> Facts:
    dtype = column.kind
    limit = limits.get(column.name.lower(), _Limits())
    values = list(limit.values)
    if isinstance(dtype, exp.DataType) and not values:
        if dtype.this == exp.DataType.Type.ENUM:
            values = [each.this for each in dtype.expressions]
        elif dtype.this == exp.DataType.Type.USERDEFINED:
            values = enums.get(str(dtype.args.get("kind")).strip('"').lower(), [])
    kind = _kind(dtype) if isinstance(dtype, exp.DataType) else None
    low, high = limit.low, limit.high
    if kind == "integer":
        low = low + 1 if limit.low_open and isinstance(low, int) else low
        high = high - 1 if limit.high_open and isinstance(high, int) else high
    comment = next((each.this.this for each in column.find_all(exp.CommentColumnConstraint)), None)
    written = dtype.sql() if dtype else "unknown"
    return Facts(column.name, kind, low, high, values, label=comment, dtype=written)


def _collect(node: exp.Expr, limits: dict[str, _Limits]) -> None:
    """Add what a condition says of columns that it has to hold for: parts joined by AND."""
    node = node.unnest()
    if isinstance(node, exp.And):
        for part in node.flatten():
            _collect(part, limits)
        return
    for name, stated in _stated(node):
        known = limits.get(name, _Limits())
        changed = {key: value for key, value in vars(stated).items() if value is not vars(_Limits())[key]}
        limits[name] = replace(known, **changed)


def _stated(node: exp.Expr) -> Iterator[tuple[str, _Limits]]:
    if isinstance(node, exp.Between) and (column := _column(node.this)):
        yield column, _Limits(_literal(node.args["low"]), _literal(node.args["high"]))
    elif isinstance(node, exp.In) and (column := _column(node.this)):
        values = tuple(_literal(each) for each in node.expressions)
        if values and None not in values:
            yield column, _Limits(values=values)
    elif type(node) is exp.EQ and isinstance(node.expression, exp.Any):
        # PostgreSQL writes IN out as = ANY (ARRAY[...])
        values = tuple(_literal(each) for array in node.find_all(exp.Array) for each in array.expressions)
        if (column := _column(node.this)) and values and None not in values:
            yield column, _Limits(values=values)
    elif type(node) in _FLIPPED:
        left, right, sign = node.this, node.expression, type(node)
        if _column(left) is None:
            left, right, sign = right, left, _FLIPPED[sign]
        column, value = _column(left), _literal(right)
        if column is not None and value is not None and sign is not exp.EQ:
            is_low = sign in (exp.GT, exp.GTE)
            is_open = sign in (exp.GT, exp.LT)
            yield (
                column,
                _Limits(low=value, low_open=is_open) if is_low else _Limits(high=value, high_open=is_open),
            )


def _column(node: exp.Expr) -> str | None:
    while isinstance(node, (exp.Paren, exp.Cast)):
        node = node.this
    return node.name.lower() if isinstance(node, exp.Column) else None


def _literal(node: exp.Expr) -> Any:
    while isinstance(node, (exp.Paren, exp.Cast)):
        node = node.this
    if isinstance(node, exp.Neg):
        value = _literal(node.this)
        return -value if isinstance(value, (int, float)) else None
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return node.this
    return int(node.this) if node.this.isdecimal() else float(node.this)
