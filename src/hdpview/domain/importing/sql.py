"""SQL: the columns of a CREATE TABLE, with facts from CHECK, ENUM and comments."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from hdpview.domain.drafting import Draft, DraftColumn
from hdpview.domain.importing.columns import column_of, one_of
from hdpview.errors import SchemaError

_DIALECTS = ("postgres", "mysql", "duckdb", "tsql", "oracle", "bigquery", "snowflake", "sqlite")
_COMPARISONS = (exp.GT, exp.GTE, exp.LT, exp.LTE)
Limits = dict[str, Any]  # of a column, by the parameters of `column_of`


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
    limits: dict[str, Limits] = {}
    for check in schema.find_all(exp.CheckColumnConstraint):
        for name, stated in _limits_of(check.this):
            limits.setdefault(name, {}).update(stated)
    columns = schema.find_all(exp.ColumnDef)
    return Draft(tuple(_column(column, limits.get(column.name.lower(), {}), enums) for column in columns))


def _parsed(text: str) -> list[exp.Expr]:
    """The statements, in the first dialect that parses them all and finds a table."""
    problem = "it has no CREATE TABLE with columns"
    for dialect in _DIALECTS:
        log = logging.getLogger("sqlglot")
        level = log.level
        log.setLevel(logging.ERROR)  # no warnings about the syntax of other dialects
        try:
            trees = [tree for tree in sqlglot.parse(text, dialect=dialect) if tree is not None]
        except sqlglot.errors.SqlglotError as refusal:
            problem = str(refusal).splitlines()[0]
            continue
        finally:
            log.setLevel(level)
        if any(isinstance(tree, exp.Create) and isinstance(tree.this, exp.Schema) for tree in trees):
            return trees
    raise SchemaError(f"The SQL cannot be read: {problem}. It must be a CREATE TABLE statement.")


def kind_of_type(text: str) -> str | None:
    """The type of attribute for an SQL type."""
    for dialect in (None, *_DIALECTS):
        with suppress(sqlglot.errors.SqlglotError):
            return _kind(exp.DataType.build(text, dialect=dialect))
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
    if dtype.this in (*exp.DataType.TEXT_TYPES, types.ENUM, types.USERDEFINED):
        return "category"
    is_moment = dtype.this in exp.DataType.TEMPORAL_TYPES and dtype.this not in (types.TIME, types.TIMETZ)
    return "datetime" if is_moment else None


def _column(column: exp.ColumnDef, limits: Limits, enums: dict[str, list[str]]) -> DraftColumn:
    dtype = column.kind
    kind = _kind(dtype) if isinstance(dtype, exp.DataType) else None
    values = []
    if isinstance(dtype, exp.DataType) and dtype.this == exp.DataType.Type.ENUM:
        values = [each.this for each in dtype.expressions]
    elif isinstance(dtype, exp.DataType) and dtype.this == exp.DataType.Type.USERDEFINED:
        values = enums.get(str(dtype.args.get("kind")).strip('"').lower(), [])
    comment = next((each.this.this for each in column.find_all(exp.CommentColumnConstraint)), None)
    facts = {"values": values, "label": comment, "dtype": dtype.sql() if dtype else "unknown", **limits}
    return column_of(column.name, kind, **facts)


def _limits_of(condition: exp.Expr) -> Iterator[tuple[str, Limits]]:
    """Columns and their limits that a condition states. Open bounds of whole numbers move inwards by 1."""
    condition = condition.copy()
    for cast in list(condition.find_all(exp.Cast)):
        cast.replace(cast.this)
    # Simplified, a bound stands to the right of its column, and BETWEEN and NOT are comparisons.
    plain = simplify(condition)
    for part in plain.flatten() if isinstance(plain, exp.And) else [plain]:
        if not isinstance(part.this, exp.Column):
            continue
        name, array = part.this.name.lower(), part.find(exp.Array)
        if isinstance(part, exp.In) or (type(part) is exp.EQ and array):
            # PostgreSQL writes IN out as = ANY (ARRAY[...])
            values = [_literal(each) for each in (array or part).expressions]
            if values and None not in values:
                yield name, {"values": values}
        elif isinstance(part, _COMPARISONS) and (bound := _literal(part.expression)) is not None:
            if isinstance(bound, int):
                bound += {exp.GT: 1, exp.LT: -1}.get(type(part), 0)
            yield name, {"low" if isinstance(part, (exp.GT, exp.GTE)) else "high": bound}


def _literal(node: exp.Expr) -> Any:
    """A text or number as Python has it; None for any other expression."""
    return node.to_py() if node.is_string or node.is_number else None
