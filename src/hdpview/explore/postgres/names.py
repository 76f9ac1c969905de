"""Names in statements: of outputs, of the types in casts, of parameters and of tables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from hdpview.errors import QueryError
from hdpview.explore.postgres import types as t
from hdpview.explore.postgres.types import PgType

# PostgreSQL's names of unnamed expressions, unless it is the name of the function.
_NAMES = """
    timestamptrunc=date_trunc datetrunc=date_trunc currentversion=version groupconcat=string_agg case=case
    if=case ceil=ceil exists=exists strposition=strpos arrayagg=array_agg countif=count_if array=array
    currenttimestamp=now dpipe=?column? substring=substring explode=unnest timetostr=to_char
    explodinggenerateseries=generate_series regexplike=?column? regexpilike=?column?
"""
_CALLED = {key: name for key, _, name in (pair.partition("=") for pair in _NAMES.split())}


def output_name(node: exp.Expr) -> str:
    """What PostgreSQL calls an output column."""
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
    """A name as SQL writes it: in double quotes unless it is a plain lower-case word."""
    return name if re.fullmatch(r"[a-z_][a-z0-9_$]*", name) else '"' + name.replace('"', '""') + '"'


def type_of_cast(node: exp.Cast) -> PgType:
    """The type that a CAST names."""
    return t.named(node.to.sql(dialect="postgres").removeprefix("pg_catalog.").strip('"')) or t.TEXT


def compared_array(node: exp.Expr) -> exp.Expr | None:
    """The array of x = ANY(array) and of x <> ALL(array); None of any other comparison."""
    other = node.expression
    is_all = isinstance(other, exp.All) or (isinstance(other, exp.Anonymous) and other.name.upper() == "ALL")
    if not (isinstance(other, exp.Any) if isinstance(node, exp.EQ) else isinstance(node, exp.NEQ) and is_all):
        return None
    inner: exp.Expr = (other.this if isinstance(other.this, exp.Expr) else other.expressions[0]).unnest()
    return inner


def list_compared_arrays(tree: exp.Expr) -> exp.Expr:
    """The statement with x IN (…) for x = ANY(ARRAY[…]), and NOT IN for x <> ALL(ARRAY[…])."""
    for node in list(tree.find_all(exp.EQ, exp.NEQ)):
        array = compared_array(node)
        if isinstance(array, exp.Array):
            listed: exp.Expr = exp.In(this=node.this, expressions=array.expressions)
            if not array.expressions:
                listed = exp.false()
            node.replace(listed if isinstance(node, exp.EQ) else exp.Not(this=exp.Paren(this=listed)))
    return tree


def parameter_number(node: exp.Expr) -> int:
    """Which parameter a node stands for, from 1."""
    text = node.this.name if isinstance(node.this, exp.Expr) else str(node.this)
    if not text.isdecimal() or not 1 <= int(text) <= 65_535:
        raise QueryError(f"${text[:20]} is not a parameter. Write $1, $2, ….")
    return int(text)


def _definitions(table: exp.Table) -> Iterator[exp.Expr]:
    """Common table expressions of this name around a table, the nearest first."""
    at: exp.Expr | None = None if table.db else table.parent
    while at is not None:
        clause = at.args.get("with_")
        for common in clause.expressions if clause is not None else ():
            if common.alias.lower() == table.name.lower():
                yield common
        at = at.parent


def is_common_table(table: exp.Table) -> bool:
    """Whether a name stands for a common table expression, its own recursion included."""
    return next(_definitions(table), None) is not None


def alias_of(table: exp.Table) -> exp.Expr:
    """The alias of a table; its own name where it has none."""
    return table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name, quoted=True))


def name_outputs(tree: exp.Expr) -> None:
    """Give every output of every SELECT the name that PostgreSQL gives it."""
    for select in tree.find_all(exp.Select):
        for item in list(select.expressions):
            if not isinstance(item, (exp.Alias, exp.Column, exp.Star)) and item.args.get("alias") is None:
                item.replace(exp.alias_(item.copy(), output_name(item), quoted=True))


def parameter_types(tree: exp.Expr, columns: Mapping[str, PgType]) -> tuple[PgType, ...]:
    """Types of the parameters $1, $2, … by what they stand beside. columns: types by name."""

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
        if kinds.get(number, t.TEXT) is t.TEXT:
            kinds[number] = kind_of(node)
    return tuple(kinds.get(number, t.TEXT) for number in range(1, max(kinds, default=0) + 1))


def with_null_parameters(tree: exp.Expr, kinds: Sequence[PgType]) -> exp.Expr:
    """The statement with NULLs of their types in place of parameters, to be described."""
    filled = tree.copy()
    for node in list(filled.find_all(exp.Parameter)):
        kind = exp.DataType.build(t.duckdb_type(kinds[parameter_number(node) - 1]), dialect="duckdb")
        node.replace(exp.cast(exp.null(), kind))
    return filled


def shown_attributes(tree: exp.Expr, attributes: Sequence[str]) -> list[str | None]:
    """For each output the attribute whose values it shows as they are, in small letters; None for others.

    attributes: of the table `view`.
    """
    commons: dict[str, dict[str, str | None]] = {"view": {name.lower(): name.lower() for name in attributes}}

    def renamed(shown: dict[str, str | None], alias: exp.Expr | None) -> dict[str, str | None]:
        names = [column.name.lower() for column in alias.columns] if isinstance(alias, exp.TableAlias) else []
        return dict(zip(names, shown.values(), strict=False)) if names else dict(shown)

    def of_source(source: exp.Expr) -> dict[str, str | None]:
        known = commons.get(source.name.lower(), {})
        shown = of_query(source.this) if isinstance(source, exp.Subquery) else known
        return renamed(shown, source.args.get("alias"))

    def of_query(query: exp.Expr) -> dict[str, str | None]:
        for cte in query.args["with_"].expressions if query.args.get("with_") else ():
            commons[cte.alias.lower()] = renamed(of_query(cte.this), cte.args.get("alias"))
        if isinstance(query, (exp.SetOperation, exp.Subquery)):
            return of_query(query.this)
        clauses = [query.args.get("from_"), *(query.args.get("joins") or ())]
        sources = {
            each.this.alias_or_name.lower(): of_source(each.this) for each in clauses if each is not None
        }
        shown: dict[str, str | None] = {}
        for i, item in enumerate(query.args.get("expressions") or ()):
            inner = item.unalias().unnest()
            table = inner.args["table"].name.lower() if inner.args.get("table") else ""
            meant = [columns for name, columns in sources.items() if table in ("", name)]
            if item.is_star:
                shown.update({name: each for columns in meant for name, each in columns.items()})
            else:
                name = inner.name.lower() if isinstance(inner, exp.Column) else ""
                title = item.alias_or_name.lower()
                title = f"{title} {i}" if title in shown else title
                shown[title] = next((columns[name] for columns in meant if name in columns), None)
        return shown

    return list(of_query(tree).values())
