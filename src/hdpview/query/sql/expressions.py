"""Expressions of aggregates in all groups at once: their values, their limits, and their intervals.

The typical interval of an expression follows from the errors of all sums behind it together (the delta
method), so that a rate has one interval however it is written. Noise and guaranteed intervals are those that
the ends of its parts allow. What an expression is decides what it can be: a share lies between 0 and 1, and
100 times a share up to 100.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from hdpview.query.interval.noise import confidence_of_each
from hdpview.query.interval.spans import Measures, Span, delta_variance, estimates_alone
from hdpview.query.interval.tails import typical_tail
from hdpview.query.question.aggregates import Aggregate
from hdpview.query.question.boxes import Box
from hdpview.query.question.quantities import Quantity
from hdpview.query.sql.plan import AGGREGATE, TOTAL, Plan, slot_of
from hdpview.query.sql.scalar import constant
from hdpview.query.sql.windows import Window

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Limits = tuple[float, float]
Lookup = Callable[[str, int], Floats | None]
_ANYTHING: Limits = (-math.inf, math.inf)
_ESTIMATES = (AGGREGATE, TOTAL)


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
        self,
        plan: Plan,
        measures: Measures,
        plain: Lookup,
        totals: Callable[[int, float], Span | None],
    ) -> None:
        self.plan, self.measures, self.plain, self.totals = plan, measures, plain, totals
        self.n = len(measures.groups)

    def span(self, node: exp.Expr, confidence: float) -> Span | None:
        """An expression with its interval; None where it is not arithmetic of numbers."""
        slots = sorted({_Slot(*slot) for part in node.walk() if (slot := slot_of(part)) is not None})
        aggregates = [slot for slot in slots if slot.kind in _ESTIMATES]
        estimate = self.values(node, self._estimates(confidence))
        if estimate is None or self.measures.interval is None:
            return None if estimate is None else estimates_alone(estimate)
        if len(aggregates) == 1 and slot_of(node.unnest()) == aggregates[0]:
            return self._of_slot(aggregates[0], confidence)
        if self.measures.interval == "typical":
            return self._smooth(node, slots, confidence)
        level = confidence_of_each(len(aggregates), confidence)
        found = self._from_ends(node, level)
        return None if found is None else found.within(*self.limits(node))

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
        alone = [s for s in slots if s.kind == TOTAL or (s.kind == AGGREGATE and s not in linear)]
        quantities: list[Quantity] = []
        rows: dict[_Slot, list[int]] = {}
        for slot in linear:
            rows[slot] = [
                _place(quantities, quantity) for quantity in self.plan.aggregates[slot.number].quantities
            ]
        spans = [self._of_slot(slot, confidence) for slot in alone]
        extra = [np.full(self.n, np.nan) if span is None else span.estimate for span in spans]
        sums = np.concatenate([self.measures.sums(quantities), np.array(extra).reshape(len(alone), self.n)])
        m = len(quantities)
        covariances = np.zeros((len(sums), len(sums), self.n))
        if m:
            covariances[:m, :m] = self.measures.groups.covariances(quantities)
        for i, span in enumerate(spans):
            if span is not None:
                covariances[m + i, m + i] = (np.nan_to_num(span.upper - span.lower) / (2 * tail)) ** 2

        def value(at: Floats) -> Floats:
            def lookup(kind: str, number: int) -> Floats | None:
                slot = _Slot(kind, number)
                if slot in rows:
                    return self.plan.aggregates[number].value(at[rows[slot]])
                return at[m + alone.index(slot)] if slot in alone else fixed(kind, number)

            found = self.values(node, lookup, fixed)
            assert found is not None
            return found

        estimate = value(sums)
        half = tail * np.sqrt(delta_variance(value, sums, covariances))
        unsafe = self._divides_by_nothing(node, slots, rows, sums, covariances, tail)
        lower, upper = np.where(unsafe, -np.inf, estimate - half), np.where(unsafe, np.inf, estimate + half)
        lower, upper = (np.where(np.isnan(estimate), np.nan, end) for end in (lower, upper))
        return Span(estimate, lower, upper).within(*self.limits(node))

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

    # Values

    def values(self, node: exp.Expr, lookup: Lookup, fixed: Lookup | None = None) -> Floats | None:
        """An expression of numbers in every group; None where it is anything else.

        fixed: what conditions of CASE are decided by, where that is not `lookup`.
        """
        slot = slot_of(node)
        if slot is not None:
            return lookup(*slot)
        if isinstance(node, exp.Literal):
            return None if node.is_string else np.full(self.n, float(constant(node)))
        if isinstance(node, exp.Null):
            return np.full(self.n, np.nan)
        if isinstance(node, (exp.Case, exp.If)):
            return self._case(node, lookup, fixed or lookup)
        rule = _RULES.get(type(node))
        if rule is None or (isinstance(node, exp.Cast) and not node.to.is_type(*exp.DataType.NUMERIC_TYPES)):
            return None
        found = [self.values(part, lookup, fixed) for part in _arguments(node)]
        known = [values for values in found if values is not None]
        if len(known) < len(found) or not known:
            return None
        with np.errstate(all="ignore"):
            return rule(known)

    def _case(self, node: exp.Expr, lookup: Lookup, fixed: Lookup) -> Floats | None:
        """The first branch whose condition holds by the estimates."""
        if node.this is not None and isinstance(node, exp.Case):
            return None
        found, taken = np.full(self.n, np.nan), np.zeros(self.n, dtype=bool)
        branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
        for branch in branches:
            holds, result = (
                self._condition(branch.this, fixed),
                self.values(branch.args["true"], lookup, fixed),
            )
            if holds is None or result is None:
                return None
            found, taken = np.where(holds & ~taken, result, found), taken | holds
        default = node.args.get("default" if isinstance(node, exp.Case) else "false")
        rest = np.full(self.n, np.nan) if default is None else self.values(default, lookup, fixed)
        return None if rest is None else np.where(taken, found, rest)

    def _condition(self, node: exp.Expr, lookup: Lookup) -> Flags | None:
        node = node.unnest()
        if isinstance(node, (exp.And, exp.Or)):
            sides = [self._condition(side, lookup) for side in (node.this, node.expression)]
            if sides[0] is None or sides[1] is None:
                return None
            return sides[0] & sides[1] if isinstance(node, exp.And) else sides[0] | sides[1]
        compare = _COMPARISONS.get(type(node))
        if compare is None:
            return None
        left, right = (self.values(side, lookup) for side in (node.this, node.expression))
        if left is None or right is None:
            return None
        with np.errstate(invalid="ignore"):
            return np.asarray(compare(left, right))

    # Limits

    def limits(self, node: exp.Expr) -> Limits:
        """The least and the greatest that an expression can be, by what it is."""
        node = node.unnest()
        slot = slot_of(node)
        if slot is not None:
            return self._limits_of_slot(*slot)
        if isinstance(node, exp.Literal) and not node.is_string:
            return (float(constant(node)),) * 2
        if isinstance(node, exp.Div) and (share := self._limits_of_share(node)) is not None:
            return share
        if isinstance(node, (exp.Case, exp.If)):
            branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
            results = [branch.args["true"] for branch in branches]
            rest = node.args.get("default" if isinstance(node, exp.Case) else "false")
            return _hull(
                [self.limits(result) for result in [*results, *([rest] if rest is not None else [])]]
            )
        rule = _LIMITS.get(type(node))
        arguments = _arguments(node)
        return _ANYTHING if rule is None or not arguments else rule([self.limits(part) for part in arguments])

    def _limits_of_slot(self, kind: str, number: int) -> Limits:
        if kind == AGGREGATE:
            return self.plan.aggregates[number].limits
        if kind == TOTAL:
            return self._limits_of_window(self.plan.windows[number])
        return _ANYTHING

    def _limits_of_window(self, window: Window) -> Limits:
        low, high = _ANYTHING if window.of is None or window.default is not None else self.limits(window.of)
        return ((0.0, math.inf) if low >= 0 else _ANYTHING) if window.function is exp.Sum else (low, high)

    def _limits_of_share(self, node: exp.Div) -> Limits | None:
        """Limits of a division of a part of some records by all of them, both times any numbers: 100.0 * part
        / all.
        """
        (factor, part), (divisor, whole) = (_without_numbers(side) for side in (node.this, node.expression))
        if divisor == 0.0 or not self._is_share(part, whole):
            return None
        ends = [factor / divisor * value for value in (0.0, *self._means(part, whole))]
        return min(ends), max(ends)

    def _means(self, part_node: exp.Expr, whole_node: exp.Expr) -> Limits:
        """The least and the greatest mean of a sum over records: 1 for counts, and for parts of their own
        total.
        """
        top, bottom = slot_of(part_node), slot_of(whole_node)
        assert top is not None
        assert bottom is not None
        aggregate = self.plan.aggregates[top[1]]
        if aggregate.kind != "sum" or bottom[0] == TOTAL:
            return 1.0, 1.0
        values = [part.values for part in aggregate.quantities[0]]
        least, greatest = (
            min(each.least.min() for each in values),
            max(each.greatest.max() for each in values),
        )
        return float(least), float(greatest)

    def _is_share(self, part_node: exp.Expr, whole_node: exp.Expr) -> bool:
        """Whether one aggregate is of a part of the records that another is of."""
        top, bottom = slot_of(part_node), slot_of(whole_node)
        if top is None or bottom is None or top[0] != AGGREGATE:
            return False
        part = self.plan.aggregates[top[1]]
        if bottom[0] == TOTAL:
            total = self.plan.windows[bottom[1]]
            is_sum_of_all = total.function is exp.Sum and total.frame == (None, None, False)
            own = slot_of(total.of) if is_sum_of_all and total.of is not None else None
            return own == top and part.limits[0] >= 0
        whole = self.plan.aggregates[bottom[1]] if bottom[0] == AGGREGATE else None
        if whole is None or part.kind not in ("count", "sum") or whole.kind != "count":
            return False
        return bool(part.boxes) and _is_everything(whole, part)

    # Noise and guaranteed intervals

    def _from_ends(self, node: exp.Expr, level: float) -> Span | None:
        slot = slot_of(node)
        if slot is not None and slot[0] in _ESTIMATES:
            return self._of_slot(_Slot(*slot), level)
        estimate = self.values(node, self._estimates(level))
        if estimate is None:
            return None
        if slot is not None or isinstance(node, (exp.Literal, exp.Null)):
            return Span(estimate, estimate, estimate)
        if isinstance(node, (exp.Case, exp.If)):
            return Span(estimate, np.full(self.n, -np.inf), np.full(self.n, np.inf))
        spans = [self._from_ends(part, level) for part in _arguments(node)]
        if any(span is None for span in spans):
            return None
        return _carried(node, estimate, [span for span in spans if span is not None])


def _carried(node: exp.Expr, estimate: Floats, spans: Sequence[Span]) -> Span:
    """The range of an operation over the ends of its arguments: its extremes lie at the corners."""
    rule = _RULES[type(node)]
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


def _without_numbers(node: exp.Expr) -> tuple[float, exp.Expr]:
    """The number and the other side of `100.0 * x` and `x * 100.0`, and what a cast to a number casts."""
    node = node.unnest()
    if isinstance(node, exp.Cast):
        return _without_numbers(node.this)
    if isinstance(node, exp.Mul):
        for side, other in ((node.this, node.expression), (node.expression, node.this)):
            if isinstance(side.unnest(), exp.Literal) and not side.unnest().is_string:
                factor, rest = _without_numbers(other)
                return float(constant(side.unnest())) * factor, rest
    return 1.0, node


def _is_everything(whole: Aggregate, part: Aggregate) -> bool:
    """Whether one count is of all records, or of boxes among which all boxes of another are."""
    boxes = whole.boxes
    if any(not box for box in boxes):
        return True
    return all(any(_inside(box, other) for other in boxes) for box in part.boxes)


def _inside(box: Box, other: Box) -> bool:
    return all(a in box and (box[a] & condition) == box[a] for a, condition in other.items())


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    keys = ("this", "expression", "decimals")
    found = [part for key in keys if isinstance(part := node.args.get(key), exp.Expr)]
    return found + [part for part in node.expressions if isinstance(part, exp.Expr)]


def _rounded(values: Sequence[Floats]) -> Floats:
    scale = 10.0 ** (values[1] if len(values) > 1 else 0.0)
    rounded: Floats = np.copysign(np.floor(np.abs(values[0]) * scale + 0.5) / scale, values[0])
    return rounded


def _first_known(values: Sequence[Floats]) -> Floats:
    found = values[0]
    for other in values[1:]:
        found = np.where(np.isnan(found), other, found)
    return found


def _divided(values: Sequence[Floats]) -> Floats:
    return np.where(values[1] == 0, np.nan, values[0] / values[1])


def _logarithm(values: Sequence[Floats]) -> Floats:
    found: Floats = np.log(values[-1]) / (np.log(values[0]) if len(values) > 1 else math.log(10.0))
    return found


_RULES: dict[type[exp.Expr], Callable[[Sequence[Floats]], Floats]] = {
    exp.Paren: lambda v: v[0],
    exp.Neg: lambda v: -v[0],
    exp.Add: lambda v: v[0] + v[1],
    exp.Sub: lambda v: v[0] - v[1],
    exp.Mul: lambda v: v[0] * v[1],
    exp.Div: _divided,
    exp.Pow: lambda v: np.power(v[0], v[1]),
    exp.Ln: lambda v: np.log(v[0]),
    exp.Log: _logarithm,
    exp.Exp: lambda v: np.exp(v[0]),
    exp.Sqrt: lambda v: np.sqrt(v[0]),
    exp.Round: _rounded,
    exp.Floor: lambda v: np.floor(v[0]),
    exp.Ceil: lambda v: np.ceil(v[0]),
    exp.Abs: lambda v: np.abs(v[0]),
    exp.Greatest: lambda v: np.fmax.reduce(list(v)),
    exp.Least: lambda v: np.fmin.reduce(list(v)),
    exp.Coalesce: _first_known,
    exp.Nullif: lambda v: np.where(v[0] == v[1], np.nan, v[0]),
    exp.Cast: lambda v: v[0],
    exp.TryCast: lambda v: v[0],
}
_COMPARISONS: dict[type[exp.Expr], Callable[[Floats, Floats], Flags]] = {
    exp.EQ: np.equal,
    exp.NEQ: np.not_equal,
    exp.LT: np.less,
    exp.LTE: np.less_equal,
    exp.GT: np.greater,
    exp.GTE: np.greater_equal,
}


def _hull(limits: Sequence[Limits]) -> Limits:
    return min(low for low, _ in limits), max(high for _, high in limits)


def _corner_limits(compute: Callable[[float, float], float]) -> Callable[[Sequence[Limits]], Limits]:
    def rule(limits: Sequence[Limits]) -> Limits:
        corners = [compute(a, b) for a, b in itertools.product(*limits)]
        return _ANYTHING if any(math.isnan(corner) for corner in corners) else (min(corners), max(corners))

    return rule


def _times(a: float, b: float) -> float:
    return 0.0 if a == 0.0 or b == 0.0 else a * b


def _ratio(limits: Sequence[Limits]) -> Limits:
    return (0.0, math.inf) if limits[0][0] >= 0 and limits[1][0] >= 0 else _ANYTHING


_LIMITS: dict[type[exp.Expr], Callable[[Sequence[Limits]], Limits]] = {
    exp.Neg: lambda x: (-x[0][1], -x[0][0]),
    exp.Add: lambda x: (x[0][0] + x[1][0], x[0][1] + x[1][1]),
    exp.Sub: lambda x: (x[0][0] - x[1][1], x[0][1] - x[1][0]),
    exp.Mul: _corner_limits(_times),
    exp.Div: _ratio,
    exp.Exp: lambda _: (0.0, math.inf),
    exp.Sqrt: lambda _: (0.0, math.inf),
    exp.Abs: lambda _: (0.0, math.inf),
    exp.Round: lambda x: (
        math.floor(x[0][0]) if math.isfinite(x[0][0]) else x[0][0],
        x[0][1] if not math.isfinite(x[0][1]) else math.ceil(x[0][1]),
    ),
    exp.Coalesce: _hull,
    exp.Greatest: _hull,
    exp.Least: _hull,
    exp.Nullif: lambda x: x[0],
    exp.Cast: lambda x: x[0],
    exp.TryCast: lambda x: x[0],
}
