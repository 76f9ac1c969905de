"""Subqueries inside expressions, which give values to compare with: IN (SELECT …), age > (SELECT AVG(age) …),
and joins that only keep the values of a subquery.

They are asked first. Their values are estimates and are taken as they are: the intervals of the statement
around them say nothing of how sure they were.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

from sqlglot import exp

from hdpview.errors import QueryError
from hdpview.query.question.axes import BinLabel
from hdpview.query.sql.constants import literal
from hdpview.query.sql.execute import Result
from hdpview.query.sql.scalar import shown

Ask = Callable[[exp.Expr], Result]
_MOST_VALUES = 2_000
_IN_FROM = (exp.From, exp.Join, exp.SetOperation, exp.Subquery, exp.CTE, exp.Lateral)


def with_values(tree: exp.Expr, ask: Ask) -> exp.Expr:
    """The statement with each subquery inside an expression replaced by what it gives."""
    tree = tree.copy()
    for select in list(tree.find_all(exp.Select)):
        for join in select.args.get("joins") or ():
            _filter_instead_of(join, select)
    found = [
        node
        for node in tree.find_all(exp.Subquery)
        if isinstance(node.this, (exp.Select, exp.SetOperation))
        and node.parent is not None
        and not isinstance(node.parent, _IN_FROM)
    ]
    for node in found:
        if not any(other is not node and contains(other, node) for other in found):
            _replace(node, ask)
    return tree


def contains(outer: exp.Expr, inner: exp.Expr) -> bool:
    """Whether a node stands somewhere below another."""
    at: exp.Expr | None = inner.parent
    while at is not None and at is not outer:
        at = at.parent
    return at is outer


def _replace(node: exp.Subquery, ask: Ask) -> None:
    parent = node.parent
    assert parent is not None
    rows = _values(node, ask)
    if isinstance(parent, exp.In):
        parent.replace(_is_one_of(parent.this, rows))
    elif isinstance(parent, exp.Any) and isinstance(parent.parent, exp.EQ):
        parent.parent.replace(_is_one_of(parent.parent.this, rows))
    elif isinstance(parent, (exp.Any, exp.All, exp.Exists)):
        raise QueryError(
            f"{shown(parent)} cannot be answered. Compare with IN (SELECT …), or with one value."
        )
    elif len(rows) > 1 or (rows and len(rows[0]) != 1):
        raise QueryError(f"{shown(node)} gives more than one value. Compare with IN (SELECT …).")
    else:
        node.replace(rows[0][0] if rows else exp.null())


def _values(node: exp.Subquery, ask: Ask) -> list[list[exp.Expr]]:
    """The rows that a subquery gives, as SQL writes them."""
    inner = node.this.copy()
    _reject_outer_columns(node)
    tables = list(_common_tables(node))
    own = inner.args.get("with_")
    if tables or own is not None:
        inner.set("with_", exp.With(expressions=[*tables, *(own.expressions if own is not None else ())]))
    result = ask(inner)
    columns = [group[0] for group in result.outputs()]
    if any(isinstance(value, BinLabel) for column in columns for value in column.values):
        raise QueryError(f"{shown(node)} gives bins, which cannot be compared with values. Name a range.")
    rows = list(zip(*(column.plain() for column in columns), strict=True))
    if len(rows) > _MOST_VALUES:
        raise QueryError(f"{shown(node)} gives more than {_MOST_VALUES:,} values to compare with.")
    return [[literal(value) for value in row] for row in rows]


def _reject_outer_columns(node: exp.Subquery) -> None:
    sources = {each.alias_or_name.lower() for each in node.this.find_all(exp.Table, exp.Subquery)}
    for column in node.this.find_all(exp.Column):
        if column.table and column.table.lower() not in sources:
            raise QueryError(
                f"{shown(column)} inside a subquery belongs to the outer statement. "
                "That would be a question for each row; group by it instead."
            )


def _common_tables(node: exp.Expr) -> Iterator[exp.Expr]:
    """Common table expressions that a subquery can name: those of the statements around it."""
    clauses = []
    at = node.parent
    while at is not None:
        clause = at.args.get("with_")
        clauses += [clause] if clause is not None else []
        at = at.parent
    for clause in reversed(clauses):
        yield from (
            table.copy()
            for table in itertools.takewhile(lambda table: not contains(table, node), clause.expressions)
        )


def _is_one_of(subject: exp.Expr, rows: Sequence[Sequence[exp.Expr]]) -> exp.Expr:
    """Subject IN (rows); a subject of several columns is a tuple."""
    subjects = subject.unnest().expressions if isinstance(subject.unnest(), exp.Tuple) else [subject]
    if not rows:
        return exp.false()
    if any(len(row) != len(subjects) for row in rows):
        raise QueryError(f"{shown(subject)} is compared with {len(rows[0])} columns of a subquery.")
    if len(subjects) == 1:
        return exp.In(this=subject.copy(), expressions=[value.copy() for row in rows for value in row])
    cases = [
        exp.and_(*(exp.EQ(this=a.copy(), expression=b.copy()) for a, b in zip(subjects, row, strict=True)))
        for row in rows
    ]
    return exp.paren(exp.or_(*cases))


def _filter_instead_of(join: exp.Join, select: exp.Select) -> None:
    """`JOIN (SELECT b, COUNT(*) … LIMIT 5) t ON a = t.b` keeps the rows whose a is one of these: a filter.
    Tools write it for the largest few. A join that gives columns stays, and is refused later.
    """
    source, condition = join.this, join.args.get("on")
    is_inner = not join.side and join.kind in ("", "INNER")
    if not isinstance(source, exp.Subquery) or condition is None or not is_inner:
        return
    alias = source.alias.lower()
    outputs = {item.alias_or_name.lower(): item for item in source.this.expressions}

    def is_of_source(column: exp.Column) -> bool:
        return column.table.lower() == alias if column.table else column.name.lower() in outputs

    pairs = []
    for part in condition.flatten() if isinstance(condition, exp.And) else [condition]:
        sides = [part.this, part.expression] if isinstance(part.unnest(), exp.EQ) else []
        if len(sides) != 2 or not all(isinstance(side, exp.Column) for side in sides):
            return
        sides.sort(key=is_of_source)
        if is_of_source(sides[0]) or not is_of_source(sides[1]):
            return
        pairs.append((sides[0].copy(), sides[1].name.lower()))
    inside = set(map(id, join.walk()))
    used = any(id(each) not in inside and is_of_source(each) for each in select.find_all(exp.Column))
    if used or any(isinstance(item.unalias(), exp.Star) for item in select.expressions):
        return
    own = source.this.copy()
    names = [exp.column(name, quoted=True) for _, name in pairs]
    chosen = exp.Select(
        expressions=names, from_=exp.From(this=exp.Subquery(this=own, alias=source.args["alias"]))
    )
    subject = pairs[0][0] if len(pairs) == 1 else exp.Tuple(expressions=[column for column, _ in pairs])
    join.pop()
    select.where(exp.In(this=subject, query=exp.Subquery(this=chosen)), copy=False)
