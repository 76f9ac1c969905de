"""A statement over a view, in PostgreSQL's words and with what tools add by themselves, as the view's own SQL
takes it: over one table called `view`, every output named.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from sqlglot import exp

from hdpview.explore.postgres import types as t
from hdpview.explore.postgres.columns import Describer
from hdpview.explore.postgres.names import compared_array, output_name, type_of_cast
from hdpview.query.sql.scalar import constant

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
    return with_constants(tree)


Change = Callable[[exp.Expr], exp.Expr]


def _changed(node: exp.Expr, describer: Describer, is_table: Callable[[exp.Table], bool]) -> Change | None:
    """What to make of a node. Types are looked up before anything is changed."""
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) and is_table(node):
        return _as_view
    if isinstance(node, exp.Div) and _is_whole(node, describer):
        return lambda node: exp.Trunc(
            this=exp.Paren(this=exp.Div(this=node.this, expression=node.expression))
        )
    if isinstance(node, exp.Cast):
        return _without_cast if _is_idle(node, describer) else None
    return _CHANGES.get(type(node))


def _as_view(node: exp.Expr) -> exp.Expr:
    alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name, quoted=True))
    return exp.Table(this=exp.to_identifier("view"), alias=alias, joins=node.args.get("joins"))


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


def with_constants(tree: exp.Expr) -> exp.Expr:
    """The same with what is a constant, now that parameters have values, written as one."""
    for node in reversed(list(tree.find_all(exp.EQ, exp.NEQ, exp.Cast, exp.TimestampTrunc))):
        fresh = _constant(node) if not isinstance(node, (exp.EQ, exp.NEQ)) else _any(node)
        if fresh is not node:
            node.replace(fresh)
    return tree


def _constant(node: exp.Expr) -> exp.Expr:
    """CAST(20 AS INT) is 20, CAST('x' AS TEXT) is 'x', date_trunc('month', DATE '2024-01-31') is a date."""
    if isinstance(node, exp.TimestampTrunc):
        if node.find(exp.Column) is not None:
            return node
        return exp.cast(exp.Literal.string(constant(node).isoformat()), "timestamp")
    assert isinstance(node, exp.Cast)
    inner, kind = node.this.unnest(), type_of_cast(node)
    literal = inner.this if isinstance(inner, exp.Neg) else inner
    if isinstance(inner, exp.Null):
        return inner
    if not isinstance(literal, exp.Literal) or kind in t.MOMENTS:
        return node
    if kind in t.TEXTS and literal.is_string:
        return literal
    if kind is t.BOOL and literal.is_string and literal.this.lower() in ("t", "true", "f", "false"):
        return exp.Boolean(this=literal.this.lower() in ("t", "true"))
    try:
        number = float(literal.this) * (-1 if inner is not literal else 1)
    except ValueError:
        return node
    if kind in t.INTEGERS and number == round(number):
        return _signed(str(abs(round(number))), number < 0)
    return _signed(literal.this.lstrip("-"), number < 0) if kind in t.FLOATS or kind is t.NUMERIC else node


def _signed(digits: str, negative: bool) -> exp.Expr:
    number = exp.Literal.number(digits)
    return exp.Paren(this=exp.Neg(this=number)) if negative else number


def _limit(node: exp.Expr) -> exp.Expr:
    """FETCH FIRST 10 ROWS ONLY is LIMIT 10; LIMIT ALL is none."""
    return exp.Limit(expression=node.args.get("count") or exp.Literal.number(1))


def _to_timestamp(node: exp.Expr) -> exp.Expr:
    """to_timestamp('2024-01-31 00:00:00.000000', 'YYYY-MM-DD …'): tools write moments this way."""
    inner = node.this.unnest()
    return exp.cast(inner, "timestamp") if isinstance(inner, exp.Literal) and inner.is_string else node


def _now(_: exp.Expr) -> exp.Expr:
    return exp.cast(exp.Literal.string(datetime.now(UTC).replace(tzinfo=None).isoformat(" ")), "timestamp")


def _today(_: exp.Expr) -> exp.Expr:
    return exp.cast(exp.Literal.string(datetime.now(UTC).date().isoformat()), "date")


def _shifted(node: exp.Expr) -> exp.Expr:
    """A fixed moment plus or minus a fixed time is a fixed moment."""
    moment, span = node.this.unnest(), node.expression.unnest()
    if isinstance(moment, exp.Interval):
        moment, span = span, moment
    if not (isinstance(moment, exp.Cast) and isinstance(span, exp.Interval)):
        return node
    days = {
        "MICROSECOND": 1e-6 / 86_400,
        "SECOND": 1 / 86_400,
        "MINUTE": 1 / 1440,
        "HOUR": 1 / 24,
        "DAY": 1,
        "WEEK": 7,
    }
    days |= {"MONTH": 30.4375, "YEAR": 365.25}
    unit = (span.args.get("unit") or exp.Var(this="SECOND")).name.upper().rstrip("S")
    try:
        length = timedelta(days=float(span.this.name) * days[unit])
        at = datetime.fromisoformat(moment.this.name)
        shifted = at - length if isinstance(node, exp.Sub) else at + length
    except (KeyError, ValueError, OverflowError, AttributeError):
        return node
    return exp.cast(exp.Literal.string(shifted.isoformat(" ")), "timestamp")


_CHANGES: dict[type[exp.Expr], Change] = {
    exp.EQ: _any,
    exp.NEQ: _any,
    exp.Fetch: _limit,
    exp.StrToTime: _to_timestamp,
    exp.CurrentTimestamp: _now,
    exp.CurrentDate: _today,
    exp.Add: _shifted,
    exp.Sub: _shifted,
    exp.Collate: _without_cast,
    exp.AtTimeZone: _without_cast,
}


def _name_outputs(select: exp.Select) -> None:
    """Every output under the name that PostgreSQL gives it, made unique."""
    taken = {item.alias_or_name.lower() for item in select.expressions}
    fresh = []
    for item in select.expressions:
        if isinstance(item, (exp.Alias, exp.Column, exp.Star)) or isinstance(item.unalias(), exp.Star):
            fresh.append(item)
            continue
        base = output_name(item).replace("?", "")
        name, n = base, 2
        while name.lower() in taken:
            name, n = f"{base}_{n}", n + 1
        taken.add(name.lower())
        fresh.append(exp.alias_(item, name, quoted=True))
    select.set("expressions", fresh)
