"""The plan of a statement: which groups, which aggregates, and what is computed from them row by row.

In the expressions of a plan every group and aggregate is a numbered slot, so that each is computed once,
however often it is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from hdpview.domain import Schema
from hdpview.errors import QueryError
from hdpview.query.question.aggregates import Aggregate
from hdpview.query.question.axes import Axis
from hdpview.query.question.boxes import Box, intersect
from hdpview.query.sql import windows
from hdpview.query.sql.aggregates import AggregateReader, contains_aggregate, is_aggregate
from hdpview.query.sql.axes import AxisReader
from hdpview.query.sql.relations import Relation, fold, reject_row_access
from hdpview.query.sql.scalar import shown
from hdpview.query.sql.windows import Order, Window

# Kinds of slots: a key, an aggregate, a window over estimates, and a window that is none (a rank, a key).
GROUP, AGGREGATE, TOTAL, RANK = "group", "aggregate", "total", "rank"
_NO_PLACE = "Write values into the statement; parameters such as ? or $1 have no values here."


@dataclass(frozen=True, eq=False)
class Plan:
    """What to compute. Expressions hold slots. grouped: whether there are groups; without them there is one
    row, always. having, qualify: conditions before windows are computed, and after. one_per: where not None,
    one row is kept of all that have these values in common.
    """

    where: Sequence[Box]
    axes: Sequence[Axis]
    grouped: bool
    aggregates: Sequence[Aggregate]
    windows: Sequence[Window]
    columns: Sequence[tuple[str, exp.Expr]]
    having: Sequence[exp.Expr]
    qualify: Sequence[exp.Expr]
    one_per: Sequence[exp.Expr] | None
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
        self.windows: dict[exp.Expr, int] = {}
        self.window_list: list[Window] = []

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
        having, qualify = (
            [self._with_slots(node) for node in nodes] for nodes in (relation.having, relation.qualify)
        )
        one_per = None if relation.one_per is None else [self._with_slots(node) for node in relation.one_per]
        order = [Order.read(node, self._with_slots) for node in relation.order]
        return Plan(
            where=where,
            axes=[self.axes.axis(node) for node in self.groups],
            grouped=bool(self.groups),
            aggregates=[self.reader.read(node) for node in self.aggregates],
            windows=self.window_list,
            columns=columns,
            having=having,
            qualify=qualify,
            one_per=one_per,
            order=order,
            limit=relation.limit,
            offset=relation.offset,
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
            return self._window(node)
        if is_aggregate(node):
            return _new_slot(AGGREGATE, self.aggregates.setdefault(node, len(self.aggregates)))
        return node

    def _window(self, node: exp.Window) -> exp.Expr:
        if node not in self.windows:
            self.window_list.append(windows.read(node, self._with_slots))
            self.windows[node] = len(self.window_list) - 1
        of_estimates = contains_aggregate(node.this) and not windows.is_rank(node)
        return _new_slot(TOTAL if of_estimates else RANK, self.windows[node])


def _new_slot(kind: str, number: int) -> exp.Expr:
    return exp.Placeholder(this=f"{kind} {number}")
