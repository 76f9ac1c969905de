"""Names in statements: of outputs, of the types in casts, of parameters and of tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, build_scope

from hdpview.errors import QueryError
from hdpview.explore.postgres import types as t
from hdpview.explore.postgres.types import PgType
from hdpview.explore.postgres.values import array_items

# PostgreSQL's names of unnamed expressions that are not named after their function.
_NAMES = """
    timestamptrunc=date_trunc datetrunc=date_trunc currentversion=version groupconcat=string_agg case=case
    if=case ceil=ceil exists=exists strposition=strpos arrayagg=array_agg countif=count_if array=array
    currenttimestamp=now dpipe=?column? substring=substring explode=unnest timetostr=to_char
    explodinggenerateseries=generate_series regexplike=?column? regexpilike=?column?
"""
_CALLED = {key: name for key, _, name in (pair.partition("=") for pair in _NAMES.split())}


def output_name(node: exp.Expr) -> str:
    """PostgreSQL's name of an output column."""
    if isinstance(node, (exp.Alias, exp.Column, exp.Identifier)):
        return node.alias_or_name
    inner = node.unnest()
    if isinstance(inner, exp.Subquery):
        inner = inner.this
    if isinstance(inner, exp.Select) and inner.expressions:
        return output_name(inner.expressions[0])
    if isinstance(inner, (exp.Column, exp.Dot)):
        return output_name(inner.expression) if isinstance(inner, exp.Dot) else inner.name
    if isinstance(inner, exp.Cast):
        below = inner.this.unnest()
        while isinstance(below, exp.Cast):
            below = below.this.unnest()
        name = output_name(below)
        return name if name != "?column?" else type_of_cast(inner).name
    if isinstance(inner, (exp.Filter, exp.Window, exp.WithinGroup, exp.Bracket)):
        return output_name(inner.this)
    if isinstance(inner, exp.Case) and isinstance(inner.args.get("default"), exp.Expr):
        default = inner.args["default"].unnest()
        is_named = default.find(exp.Column, exp.Func) is not None and not isinstance(default, exp.Binary)
        return output_name(default) if is_named else "case"
    if inner.key in _CALLED:
        return _CALLED[inner.key]
    if isinstance(inner, exp.Anonymous):
        return str(inner.name).lower()
    if isinstance(inner, exp.Func) and not isinstance(inner, (exp.Connector, exp.Predicate)):
        return inner.sql_name().lower()
    return "?column?"


def quote_ident(name: str) -> str:
    """A name in SQL: in double quotes unless it is a plain lower-case word."""
    return name if re.fullmatch(r"[a-z_][a-z0-9_$]*", name) else '"' + name.replace('"', '""') + '"'


def type_of_cast(node: exp.Cast) -> PgType:
    """The type that a CAST names."""
    return t.named(node.to.sql(dialect="postgres"))


def spell_out_arrays(tree: exp.Expr) -> None:
    """Write '{a,b}'::text[] as ARRAY['a', 'b']::text[]."""
    for cast in tree.find_all(exp.Cast):
        if isinstance(cast.this, exp.Literal) and type_of_cast(cast) in t.ELEMENT_OF:
            cast.set("this", exp.convert(array_items(cast.name)))


def parameter_number(node: exp.Expr) -> int:
    """The number of the parameter that a node stands for, from 1."""
    text = node.this.name if isinstance(node.this, exp.Expr) else str(node.this)
    if not text.isdecimal() or not 1 <= int(text) <= 65_535:
        raise QueryError(f"${text[:20]} is not a parameter. Write $1, $2, ….")
    return int(text)


def is_common_table(table: exp.Table) -> bool:
    """True if a name stands for a common table expression, its own recursion included."""
    at: exp.Expr | None = None if table.db else table.parent
    while at is not None:
        clause = at.args.get("with_")
        if clause and table.name.lower() in (each.alias.lower() for each in clause.expressions):
            return True
        at = at.parent
    return False


def alias_of(table: exp.Table) -> exp.Expr:
    """The alias of a table; its own name if it has none."""
    return table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name, quoted=True))


def name_outputs(tree: exp.Expr) -> None:
    """Give every output of every SELECT the name that PostgreSQL gives it."""
    for select in tree.find_all(exp.Select):
        for item in list(select.expressions):
            if not isinstance(item, (exp.Alias, exp.Column, exp.Star)) and item.args.get("alias") is None:
                item.replace(exp.alias_(item.copy(), output_name(item), quoted=True))


def parameter_types(tree: exp.Expr, columns: Mapping[str, PgType]) -> tuple[PgType, ...]:
    """Types of the parameters $1, $2, …, inferred from their context. columns: types by name."""

    def beside(node: exp.Expr) -> PgType:
        assert node.parent is not None
        for other in node.parent.iter_expressions():
            inner = other.unnest()
            if isinstance(inner, exp.Column) and inner.name.lower() in columns:
                return columns[inner.name.lower()]
            if isinstance(inner, exp.Cast):
                return type_of_cast(inner)
        return t.TEXT

    def kind_of(node: exp.Expr) -> PgType:
        while isinstance(node.parent, (exp.Paren, exp.Neg, exp.Tuple)):
            node = node.parent
        parent = node.parent
        if isinstance(parent, exp.Cast):
            return type_of_cast(parent)
        if isinstance(parent, (exp.Limit, exp.Offset, exp.Fetch)):
            return t.INT8
        is_all = isinstance(parent, exp.Anonymous) and parent.name.upper() == "ALL"
        if parent is not None and (isinstance(parent, (exp.Any, exp.All)) or is_all):
            return t.array_of(beside(parent))
        if isinstance(parent, (exp.Binary, exp.In, exp.Between, exp.Coalesce, exp.Nullif)):
            return beside(node)
        return t.TEXT

    kinds: dict[int, PgType] = {}
    for node in tree.find_all(exp.Parameter):
        number = parameter_number(node)
        if kinds.get(number, t.TEXT) == t.TEXT:
            kinds[number] = kind_of(node)
    announced = (kinds.get(number, t.TEXT) for number in range(1, max(kinds, default=0) + 1))
    return tuple(t.FLOAT8 if kind == t.NUMERIC else kind for kind in announced)


def shown_attributes(tree: exp.Expr, attributes: Sequence[str]) -> list[str | None]:
    """Per output, the attribute whose plain values it shows, in lower case; None for others.

    attributes: of the table `view`.
    """
    columns: dict[str, object] = {"view": {name.lower(): "UNKNOWN" for name in attributes}}
    try:
        query = qualify(
            tree.copy(), schema=columns, dialect="duckdb", validate_qualify_columns=False
        ).unnest()
    except SqlglotError:
        return []

    def origin(item: exp.Expr, scope: Scope) -> str | None:
        while scope.set_operation_scopes:
            scope = scope.set_operation_scopes[0]
        column = item.unalias().unnest()
        source = scope.sources.get(column.table) if isinstance(column, exp.Column) else None
        if not isinstance(source, Scope):
            return None if source is None else column.name
        inner = [each for each in _outputs(source.expression) if each.alias_or_name == column.name]
        return origin(inner[0], source) if inner else None

    outermost = build_scope(query.unnest())
    return [origin(item, outermost) for item in _outputs(query.unnest())] if outermost is not None else []


def _outputs(query: exp.Expr) -> list[exp.Expr]:
    return query.selects if isinstance(query, exp.Query) else []
