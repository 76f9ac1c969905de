"""From a plan to rows: groups, aggregates, what is computed from them, HAVING, ORDER BY, LIMIT."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from hdpview.domain import calendar
from hdpview.errors import QueryError
from hdpview.query.intervals import Kind, Reading
from hdpview.query.noise_width import check_confidence, confidence_of_each
from hdpview.query.sql.axes import BinLabel
from hdpview.query.sql.functions import alike
from hdpview.query.sql.groups import Groups, same_key_totals
from hdpview.query.sql.measures import Measures, Span
from hdpview.query.sql.plan import AGGREGATE, GROUP, TOTAL, Plan, slot_of
from hdpview.query.sql.scalar import UNKNOWN, Lookup, evaluate, shown
from hdpview.query.sql.spans import span_of
from hdpview.view.data import ViewData

_ENDS = {"dp_interval_low": 1, "dp_interval_high": 2}


class Column(NamedTuple):
    """An output column; `values` per row: numbers with NaN for NULL, or any objects with None."""

    name: str
    values: NDArray[np.float64] | list[Any]
    of_moments: bool = False


@dataclass(frozen=True, eq=False)
class Result:
    """Rows of an answer, column by column. Each aggregate `n` is followed by `n_lower` and `n_upper`."""

    columns: Sequence[Column]
    confidence: float
    aggregates: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def to_arrow(self) -> pa.Table:
        """The result as an Arrow table."""
        return pa.table([arrow_column(column) for column in self.columns], names=self.names)

    def to_rows(self) -> list[dict[str, Any]]:
        """The result as plain Python values; None for NULL."""
        lists = [_plain(column) for column in self.columns]
        return [dict(zip(self.names, row, strict=True)) for row in zip(*lists, strict=True)]


def execute(plan: Plan, view: ViewData, confidence: float, counts: Reading, interval: Kind) -> Result:
    """Compute what a plan says."""
    check_confidence(confidence)
    return _Execution(plan, view, confidence, counts, interval).result()


class _Execution:
    def __init__(
        self, plan: Plan, view: ViewData, confidence: float, counts: Reading, interval: Kind
    ) -> None:
        self.plan, self.confidence, self.counts, self.interval = plan, confidence, counts, interval
        self.overall = Measures(
            Groups(view, plan.where, (), keep_empty=True), plan.aggregates, counts, interval
        )
        self._take(Groups(view, plan.where, plan.axes, keep_empty=not plan.grouped))

    def _take(self, groups: Groups) -> None:
        self.groups, self.n = groups, len(groups)
        self.measures = Measures(groups, self.plan.aggregates, self.counts, self.interval)

    def result(self) -> Result:
        for condition in self.plan.having:  # before all else: windows are over what it leaves
            kept = np.array([self._truth(value, condition) for value in self._rows(condition)], dtype=bool)
            if not kept.all():
                self._take(self.groups.only(np.flatnonzero(kept)))
        columns: list[Column] = []
        aggregates: list[str] = []
        names = {name for name, _ in self.plan.columns}
        for name, node in self.plan.columns:
            own, is_aggregate = self._column(name, node, names)
            columns += own
            aggregates += [name] * is_aggregate
        order = self._order()
        return Result([_taken(column, order) for column in columns], self.confidence, tuple(aggregates))

    def _truth(self, value: Any, condition: exp.Expr) -> bool:
        if value is not None and not isinstance(value, bool):
            raise QueryError(
                f"HAVING takes a condition, such as COUNT(*) > 100, not {shown(_readable(condition))}."
            )
        return value is True

    def _column(self, name: str, node: exp.Expr, names: set[str]) -> tuple[list[Column], bool]:
        slots = {slot for part in node.walk() if (slot := slot_of(part)) is not None}
        if not any(kind in (AGGREGATE, TOTAL) for kind, _ in slots):
            return [Column(name, self._rows(node))], False
        moments = _only(node, self.plan.aggregates)
        span = self._span(node)
        if span is None:
            return [Column(name, self._rows(node))], False
        ends = [_free_name(f"{name}{suffix}", names) for suffix in ("_lower", "_upper")]
        return [Column(n, values, moments) for n, values in zip([name, *ends], span, strict=True)], True

    def _span(self, node: exp.Expr) -> Span | None:
        """An expression of aggregates with its interval, each part asked with so much more confidence that
        all hold together.
        """
        slots = {slot for part in node.walk() if (slot := slot_of(part)) is not None and slot[0] != GROUP}
        confidence = confidence_of_each(max(len(slots), 1), self.confidence)
        return span_of(node, lambda kind, i: self._slot_span(kind, i, confidence), self.n)

    def _slot_span(self, kind: str, i: int, confidence: float) -> Span | None:
        if kind == AGGREGATE:
            return self.measures.span(i, confidence)
        if kind == TOTAL:
            return self._total(i, confidence)
        keys = self.groups.keys(i)
        if not all(
            key is None or (isinstance(key, (int, float)) and not isinstance(key, bool)) for key in keys
        ):
            return None
        column = np.array([math.nan if key is None else float(key) for key in keys])
        return Span(column, column, column)

    def _total(self, i: int, confidence: float) -> Span | None:
        """A total over the groups that HAVING left, or over those with equal keys."""
        total = self.plan.totals[i]
        slot = slot_of(total.of)
        of_all = (
            slot is not None
            and slot[0] == AGGREGATE
            and self.plan.aggregates[slot[1]].kind in ("count", "sum")
        )
        if of_all and slot is not None and not total.partition and not self.plan.having:
            whole = self.overall.span(slot[1], confidence)
            return Span(*(np.repeat(column, self.n) for column in whole))
        parts = span_of(total.of, lambda kind, j: self._slot_span(kind, j, confidence), self.n)
        if parts is None:
            return None
        own_set = same_key_totals(self.groups.rows[list(total.partition)])
        return Span(
            *(np.bincount(own_set, np.nan_to_num(column)).astype(np.float64)[own_set] for column in parts)
        )

    def _rows(self, node: exp.Expr) -> list[Any]:
        """An expression row by row, from estimates alone; DP_INTERVAL_LOW and _HIGH give the ends of their
        arguments.
        """
        slot = slot_of(node)
        if slot is not None and slot[0] == GROUP:
            return self.groups.keys(slot[1])
        known: dict[int, list[Any]] = {}
        for part in node.walk(prune=lambda part: _end_of(part) is not None):
            values = self._known(part)
            if values is not None:
                known[id(part)] = values

        def lookup_in(row: int) -> Lookup:
            return lambda part: known[id(part)][row] if id(part) in known else UNKNOWN

        return [evaluate(node, lookup_in(row)) for row in range(self.n)]

    def _known(self, part: exp.Expr) -> list[Any] | None:
        slot, end = slot_of(part), _end_of(part)
        if slot is None and end is None:
            return None
        if slot is not None and slot[0] == GROUP:
            return self.groups.keys(slot[1])
        if slot is not None:
            span = self._slot_span(*slot, self.confidence)
            moments = slot[0] == AGGREGATE and self.plan.aggregates[slot[1]].of_moments
            return None if span is None else _objects(span.estimate, moments)
        if len(part.expressions) != 1:
            raise QueryError(
                f"{part.name.upper()} takes one aggregate, such as {part.name.upper()}(COUNT(*))."
            )
        span = self._span(part.expressions[0])
        if span is None:
            raise QueryError(f"{part.name.upper()} takes an aggregate or arithmetic of aggregates.")
        return _objects(span[end or 0], _only(part.expressions[0], self.plan.aggregates))

    def _order(self) -> NDArray[np.int64]:
        order = np.arange(self.n)
        if self.plan.order:
            terms = [
                (self._sort_values(term.by), term.descending, term.nulls_first) for term in self.plan.order
            ]

            def compared(a: int, b: int) -> int:
                return _compared(a, b, terms)

            order = np.array(sorted(order.tolist(), key=cmp_to_key(compared)), dtype=np.int64)
        end = self.n if self.plan.limit < 0 else self.plan.offset + self.plan.limit
        return order[self.plan.offset : end]

    def _sort_values(self, node: exp.Expr) -> list[Any]:
        slot = slot_of(node)
        if slot is not None and slot[0] == GROUP:
            return self.groups.keys(slot[1])
        span = self._span(node)
        return self._rows(node) if span is None else _objects(span.estimate, False)


def _compared(a: int, b: int, terms: Sequence[tuple[list[Any], bool, bool]]) -> int:
    for values, descending, nulls_first in terms:
        x, y = values[a], values[b]
        if x is None or y is None:
            if x is not y:
                return -1 if (x is None) == nulls_first else 1
            continue
        if not isinstance(x, BinLabel):
            x, y = alike(x, y)
        if x != y:
            return -1 if (x < y) != descending else 1
    return 0


def _end_of(node: exp.Expr) -> int | None:
    return _ENDS.get(node.name.lower()) if isinstance(node, exp.Anonymous) else None


def _only(node: exp.Expr, aggregates: Sequence[Any]) -> bool:
    """Whether an expression is one aggregate whose values are moments."""
    slot = slot_of(node.unnest())
    return slot is not None and slot[0] == AGGREGATE and bool(aggregates[slot[1]].of_moments)


def _free_name(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _readable(node: exp.Expr) -> exp.Expr:
    return node.copy().transform(lambda part: exp.column("…") if slot_of(part) else part)


def _objects(column: NDArray[np.float64], of_moments: bool) -> list[Any]:
    show: Callable[[float], Any] = _moment if of_moments else lambda x: x
    return [None if math.isnan(x) else show(x) for x in column.tolist()]


def _moment(microseconds: float) -> Any:
    return calendar.moment(round(microseconds))


def _taken(column: Column, order: NDArray[np.int64]) -> Column:
    if isinstance(column.values, np.ndarray):
        return column._replace(values=column.values[order])
    return column._replace(values=[column.values[i] for i in order.tolist()])


def _plain(column: Column) -> list[Any]:
    if isinstance(column.values, np.ndarray):
        return _objects(column.values, column.of_moments)
    return [str(value) if isinstance(value, BinLabel) else value for value in column.values]


def arrow_column(column: Column) -> pa.Array:
    """A column as Arrow: NaN is null, bins are texts."""
    if isinstance(column.values, np.ndarray) and not column.of_moments:
        return pa.array(column.values, mask=np.isnan(column.values))
    values = _plain(column)
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):  # a column of several types
        return pa.array([None if value is None else str(value) for value in values])
