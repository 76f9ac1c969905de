"""Statements over statements: WITH and subqueries that filter, rename and compute are folded into one SELECT
over the view.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from hdpview.domain import Schema
from hdpview.errors import QueryError, unknown_name
from hdpview.query.sql.aggregates import contains_aggregate, default_name
from hdpview.query.sql.scalar import constant, shown

_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_MAX_NODES = 20_000
_MAX_DEPTH = 50
WHAT_WORKS = (
    "A view answers SELECT … FROM view [WHERE …] [GROUP BY …] [HAVING …] [ORDER BY …] [LIMIT …] with "
    "COUNT, SUM, AVG and quantiles."
)
_PARTS = {"expressions", "from_", "where", "group", "having", "order", "limit", "offset", "distinct", "with_"}
_GROUPING_SETS = (exp.GroupingSets, exp.Rollup, exp.Cube)
_REASONS = {
    "joins": (
        "A view is one table, and holds no rows that a join could match. Build the view from the joined "
        "table, or filter with WHERE."
    ),
    "laterals": "A view is one table; it has no rows to unnest.",
    "qualify": "QUALIFY needs rows in an order, which a view does not hold. Use HAVING.",
    "windows": (
        "Windows need rows in an order, which a view does not hold. Shares of a total work: COUNT(*) / "
        "SUM(COUNT(*)) OVER ()."
    ),
    "sample": (
        "The view's SQL has no rows to sample. Use view.sample(n) or `hdpview sample` for synthetic records."
    ),
    "into": "A view cannot be written to.",
    "locks": "A view cannot be locked.",
}


@dataclass(frozen=True)
class Relation:
    """A SELECT over the view itself. Expressions speak of the view's attributes and of aggregates of them.

    columns: name and expression of each output column. group: None where there is no grouping. limit: -1 for
        none.
    """

    columns: tuple[tuple[str, exp.Expr], ...]
    where: tuple[exp.Expr, ...] = ()
    group: tuple[exp.Expr, ...] | None = None
    having: tuple[exp.Expr, ...] = ()
    order: tuple[exp.Ordered, ...] = ()
    limit: int = -1
    offset: int = 0
    is_base: bool = False

    @property
    def is_cut(self) -> bool:
        return self.limit >= 0 or self.offset > 0


def fold(tree: exp.Expr, schema: Schema) -> Relation:
    """One SELECT over the view that means the same as a statement."""
    base = Relation(
        tuple((name, exp.column(name, quoted=not _PLAIN_NAME.fullmatch(name))) for name in schema.names),
        is_base=True,
    )
    return _fold(tree, {"view": base}, 0)


def _fold(tree: exp.Expr, known: Mapping[str, Relation], depth: int) -> Relation:
    if isinstance(tree, exp.Subquery):
        tree = tree.unnest()
    if isinstance(tree, exp.SetOperation):
        raise QueryError(
            f"{tree.key.upper()} of statements cannot be answered as one; ask each by itself. {WHAT_WORKS}"
        )
    if not isinstance(tree, exp.Select):
        raise QueryError(f"Only SELECT statements can be answered. {WHAT_WORKS}")
    if depth > _MAX_DEPTH:
        raise QueryError("The statement is nested too deeply.")
    _check_parts(tree)
    known = {**known, **_common_tables(tree, known, depth)}
    return _Select(tree, _source(tree, known, depth)).relation()


def _check_parts(tree: exp.Select) -> None:
    for key, part in tree.args.items():
        if part and key not in _PARTS:
            raise QueryError(
                _REASONS.get(key)
                or f"{key.strip('_').upper()} is not something a view can answer. {WHAT_WORKS}"
            )


def _common_tables(tree: exp.Select, known: Mapping[str, Relation], depth: int) -> dict[str, Relation]:
    found: dict[str, Relation] = {}
    clause = tree.args.get("with_")
    if clause is None:
        return found
    if clause.args.get("recursive"):
        raise QueryError("WITH RECURSIVE needs rows; a view holds counts. Use plain WITH.")
    for table in clause.expressions:
        inner = _fold(table.this, {**known, **found}, depth + 1)
        names = [column.name for column in table.args["alias"].columns]
        found[table.alias.lower()] = _renamed(inner, names) if names else inner
    return found


def _renamed(inner: Relation, names: list[str]) -> Relation:
    if len(names) > len(inner.columns):
        raise QueryError(f"WITH names {len(names)} columns, but its SELECT has {len(inner.columns)}.")
    kept = [*names, *(name for name, _ in inner.columns[len(names) :])]
    return replace(
        inner, columns=tuple((name, node) for name, (_, node) in zip(kept, inner.columns, strict=True))
    )


def _source(tree: exp.Select, known: Mapping[str, Relation], depth: int) -> Relation:
    clause = tree.args.get("from_")
    table = clause.this if clause is not None else None
    if isinstance(table, exp.Subquery) and not table.args.get("joins"):
        return _fold(table.this, known, depth + 1)
    if not isinstance(table, exp.Table) or table.args.get("joins"):
        raise QueryError(
            _REASONS["joins"]
            if isinstance(table, exp.Table)
            else f"The one table here is called view. {WHAT_WORKS}"
        )
    if table.args.get("sample"):
        raise QueryError(_REASONS["sample"])
    if table.db or table.name.lower() not in known:
        raise QueryError(
            f"There is no table {table.name[:60]!r}: the one table here is called view. {WHAT_WORKS}"
        )
    return known[table.name.lower()]


class _Select:
    """One SELECT over a relation."""

    def __init__(self, tree: exp.Select, source: Relation) -> None:
        self.tree, self.source = tree, source
        self.inputs = {name.lower(): node for name, node in source.columns}
        self.outputs: dict[str, exp.Expr] = {}

    def relation(self) -> Relation:
        columns = tuple(self._columns())
        where = self._conditions("where")
        having = self._conditions("having")
        order = tuple(self._order(columns))
        limit, offset = (self._number(key) for key in ("limit", "offset"))
        if self.source.group is not None:
            return self._over_groups(columns, where, having, order, limit, offset)
        group = self._group(columns)
        if self.source.is_cut and group is not None:
            raise QueryError(f"LIMIT and OFFSET in a subquery work on groups, not on rows. {WHAT_WORKS}")
        order = order or (self.source.order if group is None else ())
        cut = self._cut_again(bool(where or order != self.source.order), limit, offset)
        return Relation(columns, (*self.source.where, *where), group, having, order, *cut)

    def _over_groups(
        self,
        columns: Any,
        where: tuple[exp.Expr, ...],
        having: tuple[exp.Expr, ...],
        order: tuple[exp.Ordered, ...],
        limit: int,
        offset: int,
    ) -> Relation:
        """A SELECT over groups: its WHERE is one more HAVING."""
        source = self.source
        if (
            self.tree.args.get("group")
            or self.tree.args.get("distinct")
            or having
            or any(contains_aggregate(n) for n in self._raw_columns())
        ):
            raise QueryError(
                "Aggregates of aggregates cannot be answered. Ask for the groups, and summarise them "
                "in your own tool."
            )
        cut = self._cut_again(bool(where or order), limit, offset)
        return Relation(
            columns, source.where, source.group, (*source.having, *where), order or source.order, *cut
        )

    def _cut_again(self, is_changed: bool, limit: int, offset: int) -> tuple[int, int]:
        """The LIMIT and OFFSET that an inner and an outer one make together.

        is_changed: whether the outer statement filters or orders anew what the inner one cut.
        """
        inner, skipped = self.source.limit, max(offset, 0)
        if not self.source.is_cut:
            return limit, skipped
        if is_changed:
            raise QueryError(
                "A LIMIT inside a subquery can only stand at the end; move it to the outer statement."
            )
        left = limit if inner < 0 else max(inner - skipped, 0)
        return (left if limit < 0 else min(left, limit)), self.source.offset + skipped

    def _raw_columns(self) -> list[exp.Expr]:
        return [item.unalias() for item in self.tree.expressions]

    def _columns(self) -> Iterator[tuple[str, exp.Expr]]:
        taken: set[str] = set()
        for item in self.tree.expressions:
            inner = item.unalias()
            if isinstance(inner, exp.Star) or (
                isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)
            ):
                if any(inner.args.get(key) for key in ("except_", "replace", "rename")):
                    raise QueryError("SELECT * takes no EXCEPT or REPLACE here; name the columns.")
                found = list(self.source.columns)
            else:
                found = [(item.alias or default_name(inner), self._resolved(inner))]
            for name, node in found:
                unique, n = name, 2
                while unique.lower() in taken:
                    unique, n = f"{name}_{n}", n + 1
                taken.add(unique.lower())
                self.outputs.setdefault(unique.lower(), node)
                yield unique, node

    def _conditions(self, key: str) -> tuple[exp.Expr, ...]:
        clause = self.tree.args.get(key)
        return () if clause is None else (self._resolved(clause.this),)

    def _group(self, columns: tuple[tuple[str, exp.Expr], ...]) -> tuple[exp.Expr, ...] | None:
        clause, distinct = self.tree.args.get("group"), self.tree.args.get("distinct")
        aggregated = any(contains_aggregate(node) for _, node in columns) or self.tree.args.get("having")
        if distinct is not None:
            if distinct.args.get("on") or aggregated or clause is not None:
                raise QueryError(
                    "DISTINCT works on plain columns: SELECT DISTINCT x FROM view. Groups are distinct "
                    "already."
                )
            return tuple(node for _, node in columns)
        if clause is None:
            return () if aggregated else None
        if any(clause.args.get(key) for key in ("grouping_sets", "rollup", "cube", "totals")) or clause.find(
            *_GROUPING_SETS
        ):
            raise QueryError(
                "GROUPING SETS, ROLLUP and CUBE are several questions; ask each GROUP BY by itself."
            )
        if clause.args.get("all"):
            return tuple(node for _, node in columns if not contains_aggregate(node))
        return tuple(self._by_position(node, columns) or self._resolved(node) for node in clause.expressions)

    def _order(self, columns: tuple[tuple[str, exp.Expr], ...]) -> Iterator[exp.Ordered]:
        clause = self.tree.args.get("order")
        for ordered in clause.expressions if clause is not None else ():
            inner = ordered.this.unnest()
            if (
                isinstance(inner, (exp.Var, exp.Column))
                and inner.name.lower() == "all"
                and "all" not in self.inputs
            ):
                yield from (
                    exp.Ordered(this=node, desc=ordered.args.get("desc"), nulls_first=False)
                    for _, node in columns
                )
                continue
            by_name = (
                self.outputs.get(inner.name.lower())
                if isinstance(inner, exp.Column) and not inner.table
                else None
            )
            node = self._by_position(inner, columns) or by_name or self._resolved(inner)
            yield exp.Ordered(
                this=node, desc=ordered.args.get("desc"), nulls_first=ordered.args.get("nulls_first")
            )

    def _by_position(self, node: exp.Expr, columns: tuple[tuple[str, exp.Expr], ...]) -> exp.Expr | None:
        if not (
            isinstance(node, exp.Literal)
            and not node.is_string
            and node.this.isdigit()
            and len(node.this) < 6
        ):
            return None
        if not 1 <= int(node.this) <= len(columns):
            raise QueryError(f"Position {node.this} is not one of the {len(columns)} selected columns.")
        return columns[int(node.this) - 1][1]

    def _number(self, key: str) -> int:
        clause = self.tree.args.get(key)
        if clause is None:
            return -1
        value = constant(clause.expression)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise QueryError(f"{key.upper()} takes a whole number, not {shown(clause.expression)}.")
        return value

    def _resolved(self, node: exp.Expr) -> exp.Expr:
        """The expression in terms of the view's attributes: columns of the source replaced by what they stand
        for.
        """
        if node.find(exp.Select, exp.SetOperation):
            raise QueryError(
                f"A subquery inside an expression cannot be answered; ask it by itself. {WHAT_WORKS}"
            )
        resolved = node.copy().transform(self._column, copy=False)
        if sum(1 for _ in resolved.walk()) > _MAX_NODES:
            raise QueryError("The statement is too large once its subqueries are put together.")
        return resolved

    def _column(self, node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return node
        name = node.name.lower()
        found = self.inputs.get(name) or self.outputs.get(name)
        if found is None:
            where = "This view has" if self.source.is_base else "The subquery has"
            raise QueryError(
                unknown_name("attribute", node.name[:100], [known for known, _ in self.source.columns], where)
            )
        return found.copy()


def reject_row_access(relation: Relation) -> None:
    """A statement that asks for rows is told how to ask for counts."""
    if any(node.find(exp.Window) for _, node in relation.columns):
        raise QueryError(_REASONS["windows"])
    names = [name for name, _ in relation.columns][:3]
    raise QueryError(
        "A view holds counts, not rows. Count instead: "
        f"SELECT {', '.join(names)}, COUNT(*) AS n FROM view GROUP BY {', '.join(names)}; for "
        "synthetic rows use view.sample(n)."
    )
