"""Statements over statements: WITH and subqueries folded into one SELECT over the view."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from hdpview.domain import Schema
from hdpview.errors import QueryError, unknown_name
from hdpview.query.sql import windows
from hdpview.query.sql.aggregates import contains_aggregate, default_name, is_aggregate
from hdpview.query.sql.scalar import constant, shown

_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_MAX_NODES = 20_000
_MAX_DEPTH = 50
WHAT_WORKS = (
    "A view answers SELECT … FROM view [WHERE …] [GROUP BY …] [HAVING …] [ORDER BY …] [LIMIT …] with "
    "COUNT, SUM, AVG and quantiles."
)
_PARTS = {"expressions", "from_", "where", "group", "having", "qualify", "order", "limit", "offset"}
_PARTS |= {"distinct", "with_"}
_GROUPING_SETS = (exp.GroupingSets, exp.Rollup, exp.Cube)
_REASONS = {
    "joins": (
        "A view is one table, and holds no rows that a join could match. Build the view from the joined "
        "table, or filter with WHERE."
    ),
    "laterals": "A view is one table; it has no rows to unnest.",
    "windows": f"A window is written where it is used, not named in WINDOW. {windows.WHAT_WORKS}",
    "sample": (
        "The view's SQL has no rows to sample. Use view.sample(n) or `hdpview sample` for synthetic records."
    ),
    "into": "A view cannot be written to.",
    "locks": "A view cannot be locked.",
}


@dataclass(frozen=True)
class Relation:
    """A SELECT over the view itself. Expressions speak of the view's attributes and of aggregates of them.

    columns: name and expression of each output column. group: None where there is no grouping. qualify:
        conditions on windows. one_per: where not None, one row is kept of all with these values in common.
        limit: -1 for none.
    """

    columns: tuple[tuple[str, exp.Expr], ...]
    where: tuple[exp.Expr, ...] = ()
    group: tuple[exp.Expr, ...] | None = None
    having: tuple[exp.Expr, ...] = ()
    order: tuple[exp.Ordered, ...] = ()
    limit: int = -1
    offset: int = 0
    qualify: tuple[exp.Expr, ...] = ()
    one_per: tuple[exp.Expr, ...] | None = None
    is_base: bool = False

    @property
    def is_cut(self) -> bool:
        return self.limit >= 0 or self.offset > 0

    @property
    def has_windows(self) -> bool:
        return any(node.find(exp.Window) is not None for _, node in self.columns) or bool(self.qualify)


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
    if clause is None:  # one row of constants, such as values of subqueries
        return Relation((), group=())
    table = clause.this
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
        if self.source.group is not None:
            return self._over_groups()
        columns = tuple(self._columns())
        where, having, qualify = (self._conditions(key) for key in ("where", "having", "qualify"))
        order = tuple(self._order(columns))
        group = self._group(columns)
        if self.source.is_cut and group is not None:
            raise QueryError(f"LIMIT and OFFSET in a subquery work on groups, not on rows. {WHAT_WORKS}")
        order = order or (self.source.order if group is None else ())
        cut = self._cut_again(bool(where or order != self.source.order))
        return Relation(columns, (*self.source.where, *where), group, having, order, *cut, qualify)

    def _over_groups(self) -> Relation:
        """A SELECT over groups. Its WHERE is one more HAVING, or stands behind the windows of its source. Its
        aggregates are windows over the groups, of which one row is kept for each of its own groups.
        """
        source, one_per = self.source, self.source.one_per
        is_summary = bool(
            self.tree.args.get("group")
            or self.tree.args.get("distinct")
            or self.tree.args.get("having")
            or any(contains_aggregate(node) for node in self.tree.expressions)
        )
        has_own_windows = any(node.find(exp.Window) for node in self.tree.expressions)
        if (is_summary or has_own_windows) and (
            source.has_windows or source.is_cut or one_per is not None or (is_summary and has_own_windows)
        ):
            raise QueryError(
                "Windows and aggregates over the result of other windows, or of a LIMIT, cannot be answered. "
                "Ask for the inner statement, and summarise it in your own tool."
            )
        if is_summary:
            one_per = self._summarise()
        columns = tuple(self._columns())
        where, having, qualify = (self._conditions(key) for key in ("where", "having", "qualify"))
        if is_summary and self.tree.args.get("distinct"):
            one_per = tuple(node for _, node in columns)
        order = tuple(self._order(columns))
        cut = self._cut_again(bool(where or order))
        before, after = ((), where) if source.has_windows else (where, ())
        return Relation(
            columns,
            source.where,
            source.group,
            (*source.having, *before),
            order or (() if is_summary else source.order),
            *cut,
            (*source.qualify, *after, *having, *qualify),
            one_per,
        )

    def _summarise(self) -> tuple[exp.Expr, ...]:
        """Make windows of the aggregates of a SELECT over groups, and give what it groups by."""
        self.tree = self.tree.copy()
        outputs = [(item.alias_or_name, item.unalias()) for item in self.tree.expressions]
        clause = self.tree.args.get("group")
        named = {name.lower(): node for name, node in outputs if name}
        keys = []
        for node in clause.expressions if clause is not None else ():
            is_output = isinstance(node, exp.Column) and node.name.lower() not in self.inputs
            own = named.get(node.name.lower()) if is_output else None
            keys.append((self._by_position(node, tuple(outputs)) or own or node).copy())
        for part in [*self.tree.expressions, *(self.tree.args.get(key) for key in ("having", "order"))]:
            found = [] if part is None else [each for each in part.walk() if is_aggregate(each)]
            for each in found:
                each.replace(
                    exp.Window(this=each.copy(), partition_by=[key.copy() for key in keys], over="OVER")
                )
        return tuple(self._resolved(key) for key in keys)

    def _cut_again(self, is_changed: bool) -> tuple[int, int]:
        """The LIMIT and OFFSET that an inner and an outer one make together.

        is_changed: whether the outer statement filters or orders anew what the inner one cut.
        """
        limit, offset = (whole_number(self.tree, key) for key in ("limit", "offset"))
        inner, skipped = self.source.limit, max(offset, 0)
        if not self.source.is_cut:
            return limit, skipped
        if is_changed:
            raise QueryError(
                "A LIMIT inside a subquery can only stand at the end; move it to the outer statement."
            )
        left = limit if inner < 0 else max(inner - skipped, 0)
        return (left if limit < 0 else min(left, limit)), self.source.offset + skipped

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
                unique = unique_name(name, taken)
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
        nodes = [
            node for node in clause.expressions if not (isinstance(node, exp.Tuple) and not node.expressions)
        ]
        return tuple(self._by_position(node, columns) or self._resolved(node) for node in nodes)

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

    def _resolved(self, node: exp.Expr) -> exp.Expr:
        """The expression in terms of the view's attributes, which columns of the source stand for."""
        if node.find(exp.Select, exp.SetOperation):
            raise QueryError(
                f"{shown(node)} holds a subquery that cannot be answered here; ask it by itself. {WHAT_WORKS}"
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


def unique_name(name: str, taken: set[str]) -> str:
    """A name that no other output has, in small letters added to those that are taken."""
    unique, n = name, 2
    while unique.lower() in taken:
        unique, n = f"{name}_{n}", n + 1
    taken.add(unique.lower())
    return unique


def whole_number(tree: exp.Expr, key: str) -> int:
    """The number of LIMIT or OFFSET; −1 where there is none."""
    clause = tree.args.get(key)
    if clause is None:
        return -1
    value = constant(clause.expression)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise QueryError(f"{key.upper()} takes a whole number, not {shown(clause.expression)}.")
    return value


def reject_row_access(relation: Relation) -> None:
    """A statement that asks for rows is told how to ask for counts."""
    if relation.has_windows:
        raise QueryError(f"Windows over rows cannot be answered: a view holds none. {windows.WHAT_WORKS}")
    names = [name for name, _ in relation.columns][:3]
    raise QueryError(
        "A view holds counts, not rows. Count instead: "
        f"SELECT {', '.join(names)}, COUNT(*) AS n FROM view GROUP BY {', '.join(names)}; for "
        "synthetic rows use view.sample(n)."
    )
