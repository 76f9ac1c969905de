"""From a plan to rows: groups, aggregates, what is computed from them, HAVING, ORDER BY, LIMIT."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from hdpview.errors import QueryError
from hdpview.query.bounds.noise import check_confidence
from hdpview.query.interval.answers import Kind, Reading, notes_on
from hdpview.query.interval.columns import Column, arrow_table, as_objects
from hdpview.query.interval.groups import Groups
from hdpview.query.interval.spans import Measures, Span
from hdpview.query.quality import inferred_note
from hdpview.query.sql.expressions import Expressions
from hdpview.query.sql.functions import OrderTerm, places_in_order
from hdpview.query.sql.plan import AGGREGATE, GROUP, RANK, TOTAL, Plan, slot_of
from hdpview.query.sql.scalar import UNKNOWN, Lookup, evaluate, shown
from hdpview.query.sql.windows import Order, Rows, Window
from hdpview.view.data import ViewData

_ENDS = {"dp_interval_low": 1, "dp_interval_high": 2}


@dataclass(frozen=True, eq=False)
class Result:
    """Rows of an answer, column by column. Each aggregate `n` is followed by `n_lower` and `n_upper`.

    counts: the aggregates that are numbers of records.
    notes: sentences on what the statement meets in the schema.
    inferred: a sentence on relations that the statement shows and that were not measured.
    """

    columns: Sequence[Column]
    confidence: float
    aggregates: tuple[str, ...]
    notes: tuple[str, ...] = ()
    inferred: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def outputs(self) -> list[list[Column]]:
        """The columns of each output: its values, and where it is an aggregate those of both ends."""
        found, i = [], 0
        while i < len(self.columns):
            width = 3 if self.columns[i].name in self.aggregates else 1
            found.append(list(self.columns[i : i + width]))
            i += width
        return found

    def taken(self, order: NDArray[np.int64]) -> Result:
        """Some of the rows, in this order."""
        return replace(self, columns=[column.taken(order) for column in self.columns])

    def to_arrow(self) -> pa.Table:
        """The result as an Arrow table."""
        return arrow_table(list(self.columns))

    def to_rows(self) -> list[dict[str, Any]]:
        """The result as plain Python values; None for NULL."""
        lists = [column.plain() for column in self.columns]
        return [dict(zip(self.names, row, strict=True)) for row in zip(*lists, strict=True)]


def execute(plan: Plan, view: ViewData, confidence: float, counts: Reading, interval: Kind | None) -> Result:
    """Compute what a plan says. interval: None for estimates alone; the ends are NULL then."""
    check_confidence(confidence)
    return _Execution(plan, view, confidence, counts, interval).result()


class _Execution:
    def __init__(
        self, plan: Plan, view: ViewData, confidence: float, counts: Reading, interval: Kind | None
    ) -> None:
        self.plan, self.view = plan, view
        self.confidence, self.counts, self.interval = confidence, counts, interval
        self.overall = Measures(Groups(view, plan.where), counts, interval)
        self._take(Groups(view, plan.where, plan.axes, keep_empty=not plan.grouped))

    def _take(self, groups: Groups) -> None:
        self.groups, self.n = groups, len(groups)
        self.measures = Measures(groups, self.counts, self.interval)
        self.expressions = Expressions(self.plan, self.measures, self._numbers, self._total)
        self._rows_of_windows: dict[int, Rows] = {}

    def result(self) -> Result:
        for condition in self.plan.having:  # before all else: windows are over what it leaves
            kept = self._holds(condition)
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
        return Result(
            [column.taken(order) for column in columns],
            self.confidence,
            tuple(aggregates),
            self._notes(),
            self._inferred(),
            tuple(name for name, node in self.plan.columns if self._is_count(node)),
        )

    def _is_count(self, node: exp.Expr) -> bool:
        slot = slot_of(node.unnest())
        return slot is not None and slot[0] == AGGREGATE and self.plan.aggregates[slot[1]].kind == "count"

    def _holds(self, condition: exp.Expr) -> NDArray[np.bool_]:
        return np.array([self._truth(value, condition) for value in self._rows(condition)], dtype=bool)

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
        span = self.expressions.span(node, self.confidence)
        if span is None:
            return [Column(name, self._rows(node))], False
        ends = [_free_name(f"{name}{suffix}", names) for suffix in ("_lower", "_upper")]
        return [Column(n, values, moments) for n, values in zip([name, *ends], span, strict=True)], True

    def _notes(self) -> tuple[str, ...]:
        boxes = [*self.plan.where, *(box for aggregate in self.plan.aggregates for box in aggregate.boxes)]
        return notes_on(boxes, self.view)

    def _inferred(self) -> tuple[str, ...]:
        """Marks groups whose relation to one another, to the filter or to what is averaged is inferred."""
        if not self.plan.axes:
            return ()
        boxes = [*self.plan.where, *(box for axis in self.plan.axes for key in axis.boxes for box in key)]
        attributes = {a for box in boxes for a in box}
        for aggregate in self.plan.aggregates:
            attributes |= {
                a for quantity in aggregate.quantities for part in quantity for a in part.attributes
            }
            attributes |= {aggregate.attribute} - {-1}
        note = inferred_note(self.view, attributes)
        return () if note is None else (note,)

    def _numbers(self, kind: str, number: int) -> NDArray[np.float64] | None:
        """A key or a rank of every group, where it is a number; NaN for NULL."""
        values = self.groups.keys(number) if kind == GROUP else self._rank(number)
        if not all(
            value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
            for value in values
        ):
            return None
        return np.array([math.nan if value is None else float(value) for value in values])

    def _rows_of(self, i: int) -> tuple[Window, Rows]:
        """A window, and the groups as it divides and orders them."""
        window = self.plan.windows[i]
        if i not in self._rows_of_windows:
            partition = [self._rows(node) for node in window.partition]
            self._rows_of_windows[i] = Rows(self.n, partition, self._terms(window.order))
        return window, self._rows_of_windows[i]

    def _total(self, i: int, confidence: float) -> Span | None:
        """A window over estimates of the groups that HAVING left."""
        window, rows = self._rows_of(i)
        assert window.of is not None
        slot = slot_of(window.of)
        aggregate = self.plan.aggregates[slot[1]] if slot is not None and slot[0] == AGGREGATE else None
        of_all = not window.partition and window.frame.stop is None and window.function is exp.Sum
        if (
            aggregate is not None
            and aggregate.kind in ("count", "sum")
            and of_all
            and window.frame.start is None
            and not self.plan.having
        ):
            whole = self.overall.span(aggregate, confidence)
            return Span(*(np.repeat(column, self.n) for column in whole))
        parts = self.expressions.span(window.of, confidence)
        if parts is None:
            return None
        if not window.is_taken:
            return Span(*(rows.summaries(window, column) for column in parts))
        at = rows.sources(window)
        if window.default is not None and not isinstance(window.default, (int, float)):
            raise QueryError(
                f"LAG and LEAD of numbers give a number where there is no row, not {window.default}."
            )
        missing = math.nan if window.default is None else float(window.default)
        return Span(*(np.append(column, missing)[at] for column in parts))

    def _rank(self, i: int) -> list[Any]:
        """A window that is no estimate: a rank, a number of groups, or a key of another group."""
        window, rows = self._rows_of(i)
        values = None if window.of is None else self._rows(window.of)
        if window.is_taken:
            assert values is not None
            return [values[at] if at >= 0 else window.default for at in rows.sources(window).tolist()]
        if window.function in (exp.Sum, exp.Avg, exp.Min, exp.Max):
            assert window.of is not None
            span = self.expressions.span(window.of, self.confidence)
            if span is None:
                raise QueryError(f"{window.function.key.upper()} over a window takes numbers.")
            return as_objects(rows.summaries(window, span.estimate), False)
        return rows.ranks(window, values)

    def _rows(self, node: exp.Expr) -> list[Any]:
        """An expression row by row, from estimates; DP_INTERVAL_LOW and _HIGH give ends of intervals."""
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
        if slot is not None and slot[0] in (GROUP, RANK):
            return self.groups.keys(slot[1]) if slot[0] == GROUP else self._rank(slot[1])
        if slot is not None:
            span = self.expressions.span(part, self.confidence)
            moments = slot[0] == AGGREGATE and self.plan.aggregates[slot[1]].of_moments
            return None if span is None else as_objects(span.estimate, moments)
        if len(part.expressions) != 1:
            raise QueryError(
                f"{part.name.upper()} takes one aggregate, such as {part.name.upper()}(COUNT(*))."
            )
        span = self.expressions.span(part.expressions[0], self.confidence)
        if span is None:
            raise QueryError(f"{part.name.upper()} takes an aggregate or arithmetic of aggregates.")
        return as_objects(span[end or 0], _only(part.expressions[0], self.plan.aggregates))

    def _order(self) -> NDArray[np.int64]:
        """Numbers of the groups that are shown, in their order."""
        order = np.arange(self.n)
        if self.plan.order:
            order = np.array(places_in_order(self.n, self._terms(self.plan.order)), dtype=np.int64)
        if self.plan.one_per is not None:
            order = order[np.isin(order, Rows(self.n, [*map(self._rows, self.plan.one_per)], ()).firsts())]
        for condition in self.plan.qualify:
            order = order[self._holds(condition)[order]]
        end = self.n if self.plan.limit < 0 else self.plan.offset + self.plan.limit
        return order[self.plan.offset : end]

    def _terms(self, order: Sequence[Order]) -> list[OrderTerm]:
        return [OrderTerm(self._sort_values(term.by), term.descending, term.nulls_first) for term in order]

    def _sort_values(self, node: exp.Expr) -> list[Any]:
        slot = slot_of(node)
        if slot is not None and slot[0] == GROUP:
            return self.groups.keys(slot[1])
        span = self.expressions.span(node, self.confidence)
        return self._rows(node) if span is None else as_objects(span.estimate, False)


def is_end_of_interval(node: exp.Expr) -> bool:
    """Whether an expression is DP_INTERVAL_LOW(…) or DP_INTERVAL_HIGH(…)."""
    return _end_of(node) is not None


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
