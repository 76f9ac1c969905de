"""The least and the greatest that an expression of aggregates can be, by what it is: a share lies between 0
and 1, and 100 times a share up to 100.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from sqlglot import exp

from hdpview.query.question.aggregates import Aggregate
from hdpview.query.question.boxes import Box
from hdpview.query.sql.arithmetic import arguments, cases
from hdpview.query.sql.plan import AGGREGATE, TOTAL, Plan, slot_of
from hdpview.query.sql.scalar import constant
from hdpview.query.sql.windows import Window

Limits = tuple[float, float]
_ANYTHING: Limits = (-math.inf, math.inf)


def limits(node: exp.Expr, plan: Plan) -> Limits:
    """The least and the greatest that an expression can be, by what it is."""
    node = node.unnest()
    slot = slot_of(node)
    if slot is not None:
        return _limits_of_slot(plan, *slot)
    if isinstance(node, exp.Literal) and not node.is_string:
        return (float(constant(node)),) * 2
    if isinstance(node, exp.Div) and (share := _limits_of_share(node, plan)) is not None:
        return share
    if isinstance(node, (exp.Case, exp.If)):
        branches, default = cases(node)
        results = [branch.args["true"] for branch in branches] + ([] if default is None else [default])
        return _hull([limits(result, plan) for result in results])
    given = arguments(node)
    rule = _LIMITS.get(type(node))
    return _ANYTHING if rule is None or not given else rule([limits(part, plan) for part in given])


def _limits_of_slot(plan: Plan, kind: str, number: int) -> Limits:
    if kind == AGGREGATE:
        return plan.aggregates[number].limits
    if kind == TOTAL:
        return _limits_of_window(plan, plan.windows[number])
    return _ANYTHING


def _limits_of_window(plan: Plan, window: Window) -> Limits:
    low, high = _ANYTHING if window.of is None or window.default is not None else limits(window.of, plan)
    return ((0.0, math.inf) if low >= 0 else _ANYTHING) if window.function is exp.Sum else (low, high)


def _limits_of_share(node: exp.Div, plan: Plan) -> Limits | None:
    """Limits of a part of some records by all of them, both times any numbers: 100.0 * part / all."""
    (factor, part), (divisor, whole) = (_without_numbers(side) for side in (node.this, node.expression))
    if divisor == 0.0 or not _is_share(plan, part, whole):
        return None
    ends = [factor / divisor * value for value in (0.0, *_means(plan, part, whole))]
    return min(ends), max(ends)


def _means(plan: Plan, part_node: exp.Expr, whole_node: exp.Expr) -> Limits:
    """The least and greatest mean of a sum over records: 1 for counts, and for parts of their total."""
    top, bottom = slot_of(part_node), slot_of(whole_node)
    assert top is not None
    assert bottom is not None
    aggregate = plan.aggregates[top[1]]
    if aggregate.kind != "sum" or bottom[0] == TOTAL:
        return 1.0, 1.0
    values = [part.values for part in aggregate.quantities[0]]
    least, greatest = (
        min(each.least.min() for each in values),
        max(each.greatest.max() for each in values),
    )
    return float(least), float(greatest)


def _is_share(plan: Plan, part_node: exp.Expr, whole_node: exp.Expr) -> bool:
    """Whether one aggregate is of a part of the records that another is of."""
    top, bottom = slot_of(part_node), slot_of(whole_node)
    if top is None or bottom is None or top[0] != AGGREGATE:
        return False
    part = plan.aggregates[top[1]]
    if bottom[0] == TOTAL:
        total = plan.windows[bottom[1]]
        is_sum_of_all = total.function is exp.Sum and total.frame == (None, None, False)
        own = slot_of(total.of) if is_sum_of_all and total.of is not None else None
        return own == top and part.limits[0] >= 0
    whole = plan.aggregates[bottom[1]] if bottom[0] == AGGREGATE else None
    if whole is None or part.kind not in ("count", "sum") or whole.kind != "count":
        return False
    return bool(part.boxes) and _is_everything(whole, part)


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
    part, (low, high) = limits
    if (low > 0 or high < 0) and all(map(math.isfinite, (low, high))):
        corners = [end / divisor for end in part for divisor in (low, high)]
        return min(corners), max(corners)
    return (0.0, math.inf) if part[0] >= 0 and low >= 0 else _ANYTHING


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
