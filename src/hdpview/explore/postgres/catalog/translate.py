"""Translate PostgreSQL's SQL over the catalogue into DuckDB's.

sqlglot translates the grammar. The rest happens here: schemas become parts of names, reg… types become
numbers that are shown as names, and outputs get PostgreSQL's names. Functions are macros (macros.sql).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import ErrorLevel, exp
from sqlglot.optimizer.normalize_identifiers import normalize_identifiers

from hdpview.explore.postgres import types as t
from hdpview.explore.postgres.names import (
    alias_of,
    is_common_table,
    name_outputs,
    output_name,
    type_of_cast,
)
from hdpview.explore.postgres.sqlstates import PgError, SqlState
from hdpview.query.evaluate.dialects import to_duckdb
from hdpview.query.question.where import parse

_SESSION_USERS = ("user", "current_role", "session_user")
# xmin, the transaction that wrote a row, is a hidden column of every PostgreSQL table.
_FIRST_TRANSACTION = 1


class Translator:
    """Translates statements. table_key: returns a catalogue table's name in DuckDB; None for others."""

    def __init__(self, table_key: Callable[[exp.Table], str | None]) -> None:
        self._table_key = table_key

    def translate(self, tree: exp.Expr) -> str:
        """The statement for DuckDB. The tree is left as it is."""
        tree = normalize_identifiers(tree.copy(), dialect="postgres")
        if isinstance(tree, exp.Values):
            names = [
                exp.to_identifier(f"column{i}") for i, _ in enumerate(tree.expressions[0].expressions, 1)
            ]
            tree.set("alias", exp.TableAlias(this=exp.to_identifier("listed"), columns=names))
            tree = exp.Select(expressions=[exp.Star()], from_=exp.From(this=tree))
        name_outputs(tree)
        _show_names(tree)
        self._fill_system_columns(tree)
        root = tree
        for node in reversed(list(tree.walk(bfs=False))):  # inner nodes first
            rule = self._table if isinstance(node, exp.Table) else _RULES.get(type(node))
            fresh = node if rule is None else rule(node)
            if node is root:
                root = fresh
            elif fresh is not node:
                node.replace(fresh)
        return root.sql(dialect="duckdb", identify=True, comments=False, unsupported_level=ErrorLevel.IGNORE)

    def _table(self, node: exp.Expr) -> exp.Expr:
        assert isinstance(node, exp.Table)
        if not isinstance(node.this, exp.Identifier):
            return _rows_of_function(node)
        if is_common_table(node):
            return node
        key = self._table_key(node)
        if key is None:
            raise PgError(SqlState.UNDEFINED_TABLE, f'relation "{node.name[:60]}" does not exist')
        name = exp.to_identifier(key, quoted=True)
        return exp.Table(this=name, alias=alias_of(node), joins=node.args.get("joins"))

    def _fill_system_columns(self, tree: exp.Expr) -> None:
        """Replace c.tableoid by the number of the table that c stands for."""
        for column in list(tree.find_all(exp.Column)):
            select = column.parent_select
            if column.name == "xmin":
                column.replace(exp.Literal.number(_FIRST_TRANSACTION))
            if column.name != "tableoid" or select is None:
                continue
            sources = [select.args.get("from_"), *(select.args.get("joins") or ())]
            for source in (each.this for each in sources if each is not None):
                is_meant = source.alias_or_name == column.table or not column.table
                key = self._table_key(source) if isinstance(source, exp.Table) and is_meant else None
                if key is not None:
                    column.replace(_call("to_regclass", exp.Literal.string(key)))
                    break


def _show_names(tree: exp.Expr) -> None:
    """Show numbers of objects, such as 'adult'::regclass, by name in results and texts."""
    for select in _results_of(tree):
        for item in select.expressions:
            _show_name(item.unalias())
    for cast in list(tree.find_all(exp.Cast)):
        if type_of_cast(cast) in t.TEXTS:
            _show_name(cast.this)


def _show_name(node: exp.Expr) -> None:
    inner = node.unnest()
    if isinstance(inner, exp.Cast) and type_of_cast(inner) in t.REG_TYPES - {t.REGPROC}:
        kind = type_of_cast(inner).name
    elif isinstance(inner, exp.Anonymous) and inner.name.lower() in ("to_regclass", "to_regtype"):
        kind = inner.name.lower().removeprefix("to_")
    else:
        return
    inner.replace(_call(f"{kind}_name", inner.copy()))


def written_names(tree: exp.Expr) -> list[str]:
    """Names of the outputs as the statement writes them; empty if they come from SELECT *."""
    results = _results_of(normalize_identifiers(tree.copy(), dialect="postgres"))
    items = results[0].expressions if results else []
    return [] if any(item.is_star for item in items) else [output_name(item) for item in items]


def _results_of(tree: exp.Expr) -> list[exp.Select]:
    if isinstance(tree, exp.SetOperation):
        return [*_results_of(tree.this), *_results_of(tree.expression)]
    inner = tree.unnest() if isinstance(tree, exp.Subquery) else tree
    return [inner] if isinstance(inner, exp.Select) else []


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _rows_of_function(node: exp.Table) -> exp.Expr:
    """Give the column of FROM generate_series(1, 3) AS i the name of the table."""
    alias = node.args.get("alias")
    name = node.alias or output_name(node.this)
    columns = list(alias.columns) if alias is not None else []
    if not columns and isinstance(node.this, (exp.ExplodingGenerateSeries, exp.Explode)):
        columns = [exp.to_identifier(name, quoted=True)]
    kept = {key: node.args.get(key) for key in ("joins", "ordinality")}
    alias = exp.TableAlias(this=exp.to_identifier(name, quoted=True), columns=columns)
    return exp.Table(this=node.this, alias=alias, **kept)


def _dot(node: exp.Expr) -> exp.Expr:
    """Rewrite pg_catalog.version() as version()."""
    return node.expression if isinstance(node.expression, exp.Func) else node


def _column(node: exp.Expr) -> exp.Expr:
    """Rewrite pg_catalog.pg_class.oid as pg_class.oid, and functions without brackets, such as user."""
    is_plain = not node.args.get("table") and not node.this.args.get("quoted")
    if is_plain and node.name.lower() in _SESSION_USERS:
        return exp.CurrentUser()
    return exp.Column(this=node.this, table=node.args.get("table")) if node.args.get("db") else node


def _operator(node: exp.Expr) -> exp.Expr:
    """Rewrite x OPERATOR(pg_catalog.~) y as x ~ y."""
    sign = str(node.args["operator"]).rpartition(".")[2]
    written = parse(f"(:x {sign} :y)", "postgres")
    return exp.replace_placeholders(written, x=node.this, y=node.expression)


def _concatenated(node: exp.Expr) -> exp.Expr:
    """Make array || NULL return the array, as in PostgreSQL; DuckDB returns NULL."""
    if isinstance(node.this, exp.Array) or isinstance(node.expression, exp.Array):
        return _call("list_concat", node.this, node.expression)
    return node


def _cast(node: exp.Expr) -> exp.Expr:
    assert isinstance(node, exp.Cast)
    kind = type_of_cast(node)
    if kind in t.REG_TYPES - {t.REGPROC}:
        return _call(f"to_{kind.name}", node.this)
    if kind == t.REGPROC and isinstance(node.this, exp.Literal):  # 'pg_catalog.array_in'::regproc
        return exp.Literal.string(node.this.name.rpartition(".")[2])
    return exp.Cast(this=node.this, to=exp.DataType.build(t.duckdb_type(kind), dialect="duckdb"))


def _function(node: exp.Expr) -> exp.Expr:
    """Rewrite json_build_object as json_object, and format('%I.b', a) as concat(quote_ident(a), '.b')."""
    if node.name.lower() == "json_build_object":
        return _call("json_object", *node.expressions)
    is_format = isinstance(node, exp.Format)
    arguments = [node.this, *node.expressions] if is_format else node.expressions
    if not (is_format or node.name.lower() == "format") or not isinstance(arguments[0], exp.Literal):
        return node
    pattern, *values = arguments
    quoted = {"%I": "quote_ident", "%L": "quote_nullable"}
    parts: list[exp.Expr] = []
    for piece in re.split(r"(%[sIL])", pattern.name):
        if not re.fullmatch(r"%[sIL]", piece):
            parts.append(exp.Literal.string(piece.replace("%%", "%")))
        elif values:
            value = values.pop(0)
            parts.append(_call(quoted[piece], value) if piece in quoted else value)
    return _call("concat", *parts)


_RULES: dict[type[exp.Expr], Callable[[exp.Expr], exp.Expr]] = {
    exp.Column: _column,
    exp.Dot: _dot,
    exp.Operator: _operator,
    exp.Collate: lambda node: node.this,
    exp.DPipe: _concatenated,
    exp.Cast: _cast,
    exp.Anonymous: _function,
    exp.SessionUser: lambda _: exp.CurrentUser(),
    exp.CurrentCatalog: lambda _: _call("current_database"),
    exp.Format: _function,
    exp.Initcap: lambda node: _call("initcap", node.this),
    exp.TimeToStr: lambda node: to_duckdb(node.copy(), "postgres", {}),
}
