"""Expressions of aggregates in all groups at once, with their intervals.

The typical interval of an expression follows from the errors of all sums behind it together (the delta
method), so that a rate has one interval however it is written. Quantiles and totals of windows have intervals
that may reach further to one side: what the expression is over them is added, side by side. Noise and
guaranteed intervals are those that the ends of its parts allow. No interval goes beyond what an expression
can be.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from sqlglot import exp

from hdpview.query.bounds.noise import confidence_of_each
from hdpview.query.errors.ends import typical_tail
from hdpview.query.interval.spans import Measures, Span, delta_variance, estimates_alone
from hdpview.query.question.quantities import Quantity
from hdpview.query.sql.arithmetic import RULES, Flags, Floats, Lookup, arguments, values
from hdpview.query.sql.limits import limits
from hdpview.query.sql.plan import AGGREGATE, TOTAL, Plan, slot_of

_ESTIMATES = (AGGREGATE, TOTAL)
_N_PLACES = 9  # inside an interval, at which an expression is computed: ABS may be least between the ends


class _Slot(NamedTuple):
    """A slot of an expression: kind and number."""

    kind: str
    number: int


class Expressions:
    """Expressions over the groups of one statement.

    plain: a slot that is no estimate (a key, a rank) in every group, or None where it is not a number.
    totals: spans of windows over groups.
    """

    def __init__(
        self, plan: Plan, measures: Measures, plain: Lookup, totals: Callable[[int, float], Span | None]
    ) -> None:
        self.plan, self.measures, self.plain, self.totals = plan, measures, plain, totals
        self.n = len(measures.groups)

    def span(self, node: exp.Expr, confidence: float) -> Span | None:
        """An expression with its interval; None where it is not arithmetic of numbers."""
        slots = sorted({_Slot(*slot) for part in node.walk() if (slot := slot_of(part)) is not None})
        aggregates = [slot for slot in slots if slot.kind in _ESTIMATES]
        estimate = values(node, self.n, self._estimates(confidence))
        if estimate is None or self.measures.interval is None:
            return None if estimate is None else estimates_alone(estimate)
        if len(aggregates) == 1 and slot_of(node.unnest()) == aggregates[0]:
            return self._of_slot(aggregates[0], confidence)
        if self.measures.interval == "typical":
            return self._smooth(node, slots, confidence)
        level = confidence_of_each(len(aggregates), confidence)
        found = self._from_ends(node, level)
        return None if found is None else found.within(*limits(node, self.plan))

    def _of_slot(self, slot: _Slot, confidence: float) -> Span | None:
        if slot.kind == AGGREGATE:
            return self.measures.span(self.plan.aggregates[slot.number], confidence)
        return self.totals(slot.number, confidence)

    def _estimates(self, confidence: float) -> Lookup:
        """Estimates of all slots."""

        def lookup(kind: str, number: int) -> Floats | None:
            if kind not in _ESTIMATES:
                return self.plain(kind, number)
            if kind == TOTAL:
                total = self.totals(number, confidence)
                return None if total is None else total.estimate
            aggregate = self.plan.aggregates[number]
            if aggregate.kind == "quantile":
                return self.measures.span(aggregate, confidence).estimate
            return aggregate.value(self.measures.sums(aggregate.quantities))

        return lookup

    def _smooth(self, node: exp.Expr, slots: Sequence[_Slot], confidence: float) -> Span:
        """The delta method over all sums behind an expression; quantiles and totals err by themselves."""
        tail, fixed = typical_tail(confidence), self._estimates(confidence)
        linear = [
            s for s in slots if s.kind == AGGREGATE and self.plan.aggregates[s.number].kind != "quantile"
        ]
        quantities: list[Quantity] = []
        rows: dict[_Slot, list[int]] = {}
        for slot in linear:
            rows[slot] = [
                _place(quantities, quantity) for quantity in self.plan.aggregates[slot.number].quantities
            ]
        others = ((s, self._of_slot(s, confidence)) for s in slots if s.kind in _ESTIMATES and s not in rows)
        alone = {slot: span for slot, span in others if span is not None}

        def value(at: Floats, instead: Mapping[_Slot, Floats] = MappingProxyType({})) -> Floats:
            """The expression where sums and, if given, slots that err by themselves have these values."""

            def lookup(kind: str, number: int) -> Floats | None:
                slot = _Slot(kind, number)
                if slot in rows:
                    return self.plan.aggregates[number].value(at[rows[slot]])
                return instead[slot] if slot in instead else fixed(kind, number)

            found = values(node, self.n, lookup, fixed)
            assert found is not None
            return found

        sums, squared, unsafe = (
            self.measures.sums(quantities),
            np.zeros(self.n),
            self._through_zero(node, alone, confidence),
        )
        if quantities:
            covariances = self.measures.groups.covariances(quantities)
            squared = tail**2 * delta_variance(value, sums, covariances)
            unsafe |= self._divides_by_nothing(node, slots, rows, sums, covariances, tail)
        estimate, below, above = value(sums), squared, squared
        for slot, span in alone.items():
            reached = np.stack([value(sums, {slot: place}) for place in _places(span)])
            below = below + np.fmax(estimate - np.fmin.reduce(reached), 0.0) ** 2
            above = above + np.fmax(np.fmax.reduce(reached) - estimate, 0.0) ** 2
        unsafe &= np.isinf(limits(node, self.plan)).any()
        lower = np.where(unsafe, -np.inf, estimate - np.sqrt(below))
        upper = np.where(unsafe, np.inf, estimate + np.sqrt(above))
        lower, upper = (np.where(np.isnan(estimate), np.nan, end) for end in (lower, upper))
        return Span(estimate, lower, upper).within(*limits(node, self.plan))

    def _through_zero(self, node: exp.Expr, alone: Mapping[_Slot, Span], confidence: float) -> Flags:
        """Where what the expression divides by may be 0, if it is made of quantiles or totals."""
        found = np.zeros(self.n, dtype=bool)
        for division in node.find_all(exp.Div):
            slots = (slot_of(part) for part in division.expression.walk())
            if any(slot is not None and _Slot(*slot) in alone for slot in slots):
                span = self._from_ends(division.expression, confidence)
                found |= True if span is None else (span.lower <= 0) & (span.upper >= 0)
        return found

    def _divides_by_nothing(
        self,
        node: exp.Expr,
        slots: Sequence[_Slot],
        rows: dict[_Slot, list[int]],
        sums: Floats,
        covariances: Floats,
        tail: float,
    ) -> Flags:
        """Where a sum that the expression divides by cannot be told from 0."""
        divisors: list[int] = []
        for slot in slots:
            if slot in rows:
                divisors += [rows[slot][i] for i in self.plan.aggregates[slot.number].denominators]
        for division in node.find_all(exp.Div):
            for part in division.expression.walk():
                inner = slot_of(part)
                if inner is not None and _Slot(*inner) in rows:
                    divisors += rows[_Slot(*inner)][:1]
        found = np.zeros(self.n, dtype=bool)
        for i in divisors:
            found |= np.abs(sums[i]) <= tail * np.sqrt(np.maximum(covariances[i, i], 0.0))
        return found

    def _from_ends(self, node: exp.Expr, level: float) -> Span | None:
        slot = slot_of(node)
        if slot is not None and slot[0] in _ESTIMATES:
            return self._of_slot(_Slot(*slot), level)
        estimate = values(node, self.n, self._estimates(level))
        if estimate is None:
            return None
        if slot is not None or isinstance(node, (exp.Literal, exp.Null)):
            return Span(estimate, estimate, estimate)
        if isinstance(node, (exp.Case, exp.If)):
            return Span(estimate, np.full(self.n, -np.inf), np.full(self.n, np.inf))
        spans = [self._from_ends(part, level) for part in arguments(node)]
        if any(span is None for span in spans):
            return None
        return _carried(node, estimate, [span for span in spans if span is not None])


def _places(span: Span) -> list[Floats]:
    """Numbers from the lower to the upper ends of intervals."""
    inside = np.arange(1, _N_PLACES + 1) / (_N_PLACES + 1)
    with np.errstate(invalid="ignore"):
        between = [span.lower + share * (span.upper - span.lower) for share in inside.tolist()]
    return [span.lower, *between, span.upper]


def _carried(node: exp.Expr, estimate: Floats, spans: Sequence[Span]) -> Span:
    """The range of an operation over the ends of its arguments: its extremes lie at the corners."""
    rule = RULES[type(node)]
    with np.errstate(all="ignore"):
        corners = [rule(list(ends)) for ends in itertools.product(*(span[1:] for span in spans))]
        every = np.stack([*corners, estimate])
        lower, upper = np.fmin.reduce(every), np.fmax.reduce(every)
    through_zero = np.zeros(len(estimate), dtype=bool)
    if isinstance(node, exp.Div):
        through_zero = (spans[1].lower <= 0) & (spans[1].upper >= 0)
    if isinstance(node, exp.Abs):
        lower = np.where((spans[0].lower <= 0) & (spans[0].upper >= 0), 0.0, lower)
    lower, upper = np.where(through_zero, -np.inf, lower), np.where(through_zero, np.inf, upper)
    missing = np.isnan(estimate)
    return Span(estimate, np.where(missing, np.nan, lower), np.where(missing, np.nan, upper))


def _place(quantities: list[Quantity], quantity: Quantity) -> int:
    """The number of a quantity in a list, to which it is added where it is new."""
    for i, known in enumerate(quantities):
        if known is quantity:
            return i
    quantities.append(quantity)
    return len(quantities) - 1
