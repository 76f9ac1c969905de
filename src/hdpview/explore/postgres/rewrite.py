"""A statement over a view, in PostgreSQL's words and with what tools add by themselves, as the view's own SQL
takes it: over one table called `view`, every output named.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from hdpview.errors import QueryError
from hdpview.explore.postgres import types as t
from hdpview.explore.postgres.columns import Describer
from hdpview.explore.postgres.names import alias_of, compared_array, output_name, type_of_cast
from hdpview.query.sql.constants import literal
from hdpview.query.sql.relations import unique_name

_AGGREGATES = (exp.AggFunc, exp.WithinGroup, exp.Window)


def for_view(tree: exp.Expr, describer: Describer, is_table: Callable[[exp.Table], bool]) -> exp.Expr:
    """The statement rewritten; the tree given is used up. is_table: whether a name stands for the view."""
    changes = [(node, _changed(node, describer, is_table)) for node in reversed(list(tree.walk(bfs=False)))]
    for node, change in changes:
        if change is None:
            continue
        fresh = change(node)
        if node is tree:
            tree = fresh
        elif fresh is not node:
            node.replace(fresh)
    for select in tree.find_all(exp.Select):
        _name_outputs(select)
    return tree


Change = Callable[[exp.Expr], exp.Expr]


def _changed(node: exp.Expr, describer: Describer, is_table: Callable[[exp.Table], bool]) -> Change | None:
    """What to make of a node. Types are looked up before anything is changed."""
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) and is_table(node):
        return _as_view
    if isinstance(node, exp.Div) and _is_whole(node, describer):
        return lambda node: exp.Trunc(
            this=exp.Paren(this=exp.Div(this=node.this, expression=node.expression))
        )
    if isinstance(node, exp.Literal) and node.is_string and isinstance(node.parent, _COMPARISONS):
        return _TYPED.get(describer.beside(node))
    if isinstance(node, exp.Cast):
        return _without_cast if _is_idle(node, describer) else None
    return _CHANGES.get(type(node))


def _as_view(node: exp.Expr) -> exp.Expr:
    assert isinstance(node, exp.Table)
    kept = {key: node.args.get(key) for key in ("joins", "sample")}
    return exp.Table(this=exp.to_identifier("view"), alias=alias_of(node), **kept)


def _as_number(node: exp.Expr) -> exp.Expr:
    """A text beside a number, as in age > '65', is a number where it can be one."""
    try:
        return literal(int(node.name) if node.name.isdecimal() else float(node.name))
    except ValueError:
        return node


def _as_truth(node: exp.Expr) -> exp.Expr:
    truths = {**dict.fromkeys(("t", "true"), True), **dict.fromkeys(("f", "false"), False)}
    return exp.Boolean(this=truths[node.name.lower()]) if node.name.lower() in truths else node


_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between)
_TYPED: dict[t.PgType, Change] = {t.BOOL: _as_truth, **dict.fromkeys(t.NUMBERS, _as_number)}


def _is_whole(node: exp.Expr, describer: Describer) -> bool:
    """Whether a division is one of whole numbers, which PostgreSQL rounds towards 0. Aggregates are estimates
    and divide as real numbers.
    """
    whole = all(describer.kind(side) in t.INTEGERS for side in (node.this, node.expression))
    return whole and not any(isinstance(part, _AGGREGATES) for part in node.walk())


def _is_idle(node: exp.Cast, describer: Describer) -> bool:
    """Whether a cast leaves values what they are: tools write many. Constants are looked at later."""
    if isinstance(node.this.unnest(), (exp.Literal, exp.Parameter, exp.Null, exp.Neg)):
        return False
    before, after = describer.kind(node.this), type_of_cast(node)
    return (
        before == after
        or (before in t.NUMBERS and after in t.NUMBERS - t.INTEGERS)
        or (before in t.TEXTS and after in t.TEXTS)
        or (before in (t.INT2, t.INT4) and after in (t.INT4, t.INT8))
        or (before is t.DATE and after in (t.TIMESTAMP, t.TIMESTAMPTZ))
        or (before is t.TIMESTAMP and after is t.TIMESTAMPTZ)
        or (after is t.DATE and isinstance(node.this.unnest(), exp.TimestampTrunc))
    )


def _without_cast(node: exp.Expr) -> exp.Expr:
    inner: exp.Expr = node.this
    return inner


def _any(node: exp.Expr) -> exp.Expr:
    """X = ANY(ARRAY[…]) is x IN (…), and x <> ALL(ARRAY[…]) is the contrary."""
    array = compared_array(node)
    array = array.this if isinstance(array, exp.Cast) else array
    if not isinstance(array, exp.Array):
        return node
    if not array.expressions:
        return exp.Boolean(this=isinstance(node, exp.NEQ))
    listed = exp.In(this=node.this, expressions=array.expressions)
    return listed if isinstance(node, exp.EQ) else exp.Not(this=listed)


def with_arrays(tree: exp.Expr) -> exp.Expr:
    """The same with arrays compared as lists, now that parameters have values."""
    for node in list(tree.find_all(exp.EQ, exp.NEQ)):
        fresh = _any(node)
        if fresh is not node:
            node.replace(fresh)
    return tree


def _limit(node: exp.Expr) -> exp.Expr:
    """FETCH FIRST 10 ROWS ONLY is LIMIT 10; LIMIT ALL is none."""
    return exp.Limit(expression=node.args.get("count") or exp.Literal.number(1))


def _order(node: exp.Expr) -> exp.Expr:
    """ORDER BY random() leaves the order to the view, whose records are drawn at random."""
    node.set("expressions", [term for term in node.expressions if not isinstance(term.this, exp.Rand)])
    return node


def _to_char(node: exp.Expr) -> exp.Expr:
    """to_char(d, 'Mon YYYY'): words of the format that the parser leaves alone."""
    pattern = node.args["format"].name.replace("Mon", "%b").replace("Dy", "%a")
    if re.search(r"[A-Za-z]", re.sub(r"%-?.", "", pattern)):
        raise QueryError("Dates are written with YYYY, MM, Mon, DD, Dy, HH24 and MI: to_char(d, 'YYYY-MM').")
    return exp.TimeToStr(this=node.this, format=exp.Literal.string(pattern))


_CHANGES: dict[type[exp.Expr], Change] = {
    exp.TimeToStr: _to_char,
    exp.EQ: _any,
    exp.NEQ: _any,
    exp.Fetch: _limit,
    exp.Order: _order,
    exp.Collate: _without_cast,
    exp.AtTimeZone: _without_cast,
}


def _name_outputs(select: exp.Select) -> None:
    """Every output under the name that PostgreSQL gives it, made unique."""
    taken = {item.alias_or_name.lower() for item in select.expressions}
    for item in list(select.expressions):
        if not isinstance(item, (exp.Alias, exp.Column, exp.Star)):
            name = unique_name(output_name(item).replace("?", ""), taken)
            item.replace(exp.alias_(item.copy(), name, quoted=True))
