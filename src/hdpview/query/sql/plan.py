"""The plan of a statement: which groups, which aggregates, and what is computed from them row by row.

In the expressions of a plan every group and aggregate is a numbered slot, so that each is computed once,
however often it is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlglot import exp

from hdpview.domain import Schema
from hdpview.errors import QueryError
from hdpview.query.question.aggregates import Aggregate
from hdpview.query.question.axes import Axis
from hdpview.query.question.boxes import Box, intersect
from hdpview.query.sql.aggregates import AggregateReader, contains_aggregate, is_aggregate
from hdpview.query.sql.axes import AxisReader
from hdpview.query.sql.relations import Relation, fold, reject_row_access
from hdpview.query.sql.scalar import shown

GROUP, AGGREGATE, TOTAL = "group", "aggregate", "total"
_NO_PLACE = "Write values into the statement; parameters such as ? or $1 have no values here."


class Total(NamedTuple):
    """SUM(expression) OVER (PARTITION BY groups)."""

    of: exp.Expr
    partition: tuple[int, ...]


class Order(NamedTuple):
    """One ORDER BY term."""

    by: exp.Expr
    descending: bool
    nulls_first: bool


@dataclass(frozen=True, eq=False)
class Plan:
    """What to compute. Expressions hold slots. grouped: whether there are groups; without them there is one
    row, always.
    """

    where: Sequence[Box]
    axes: Sequence[Axis]
    grouped: bool
    aggregates: Sequence[Aggregate]
    totals: Sequence[Total]
    columns: Sequence[tuple[str, exp.Expr]]
    having: Sequence[exp.Expr]
    order: Sequence[Order]
    limit: int
    offset: int


def slot_of(node: exp.Expr) -> tuple[str, int] | None:
    """Kind and number of a slot; None for any other node."""
    if not isinstance(node, exp.Placeholder):
        return None
    kind, number = node.this.split(" ")
    return kind, int(number)


def plan(tree: exp.Expr, schema: Schema) -> Plan:
    """Read a statement against a schema."""
    if tree.find(exp.Placeholder, exp.Parameter, exp.SessionParameter):
        raise QueryError(_NO_PLACE)
    relation = fold(tree, schema)
    if relation.group is None:
        reject_row_access(relation)
    return _Planner(schema, relation).plan()


class _Planner:
    def __init__(self, schema: Schema, relation: Relation) -> None:
        self.relation = relation
        self.axes = AxisReader(schema)
        self.reader = AggregateReader(self.axes)
        self.groups: dict[exp.Expr, int] = {}
        for node in relation.group or ():
            if contains_aggregate(node):
                raise QueryError(
                    f"{shown(node)}: GROUP BY takes attributes and expressions of them, not aggregates."
                )
            self.groups.setdefault(node, len(self.groups))
        self.group_types = {type(node) for node in self.groups}
        self.aggregates: dict[exp.Expr, int] = {}
        self.totals: dict[exp.Expr, int] = {}
        self.total_list: list[Total] = []

    def plan(self) -> Plan:
        relation = self.relation
        where: list[Box] = [{}]
        for condition in relation.where:
            if contains_aggregate(condition):
                raise QueryError(
                    "WHERE filters records, before they are counted; conditions on counts go into HAVING."
                )
            where = intersect(where, self.axes.boxes(condition))
        columns = [(name, self._with_slots(node)) for name, node in relation.columns]
        having = [self._with_slots(node) for node in relation.having]
        order = [
            Order(self._with_slots(o.this), bool(o.args.get("desc")), bool(o.args.get("nulls_first")))
            for o in relation.order
        ]
        axes = [self.axes.axis(node) for node in self.groups]
        aggregates = [self.reader.read(node) for node in self.aggregates]
        grouped = bool(self.groups)
        return Plan(
            where,
            axes,
            grouped,
            aggregates,
            self.total_list,
            columns,
            having,
            order,
            relation.limit,
            relation.offset,
        )

    def _with_slots(self, node: exp.Expr) -> exp.Expr:
        found = node.copy().transform(self._slot, copy=False)
        column = found.find(exp.Column)
        if column is not None:
            raise QueryError(
                f"{column.name!r} stands outside an aggregate; add it to GROUP BY, or put it into "
                "COUNT, SUM or AVG."
            )
        return found

    def _slot(self, node: exp.Expr) -> exp.Expr:
        if type(node) in self.group_types and node in self.groups:
            return _new_slot(GROUP, self.groups[node])
        if isinstance(node, exp.Window):
            return _new_slot(TOTAL, self._total(node))
        if is_aggregate(node):
            return _new_slot(AGGREGATE, self.aggregates.setdefault(node, len(self.aggregates)))
        return node

    def _total(self, window: exp.Window) -> int:
        if window in self.totals:
            return self.totals[window]
        inner = window.this
        others = [
            key for key, part in window.args.items() if part and key not in ("this", "over", "partition_by")
        ]
        if not isinstance(inner, exp.Sum) or not contains_aggregate(inner.this) or others:
            raise QueryError(
                f"{shown(window)}: windows need rows in an order, which a view does not hold. "
                "Totals over groups work: COUNT(*) * 1.0 / SUM(COUNT(*)) OVER ()."
            )
        partition = [slot_of(self._with_slots(node)) for node in window.args.get("partition_by") or ()]
        if any(slot is None or slot[0] != GROUP for slot in partition):
            raise QueryError(f"{shown(window)}: PARTITION BY takes expressions that are grouped by.")
        self.total_list.append(
            Total(self._with_slots(inner.this), tuple(slot[1] for slot in partition if slot is not None))
        )
        return self.totals.setdefault(window, len(self.total_list) - 1)


def _new_slot(kind: str, number: int) -> exp.Expr:
    return exp.Placeholder(this=f"{kind} {number}")
