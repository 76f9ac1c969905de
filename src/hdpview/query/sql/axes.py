"""What groups are named by: an SQL expression as a list of its values, each with the boxes where it takes
that value.

A column of single values (whole numbers, categories, truth values) has a box per code, and any expression of
such columns is computed value by value. A column of bins is cut where the expression steps from one value to
the next: at the starts of months for date_trunc, at multiples of ten for floor(x / 10) * 10.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlglot import exp

from hdpview.domain import Datetime, Ordered, Schema
from hdpview.errors import QueryError
from hdpview.query.question import conditions
from hdpview.query.question.axes import (
    Axis,
    any_of,
    attribute_axis,
    code_conditions,
    code_keys,
    has_single_values,
)
from hdpview.query.question.boxes import Box, intersect, subtract
from hdpview.query.question.conditions import Condition
from hdpview.query.question.where import PATTERNS, attribute_number, boxes_of_tree
from hdpview.query.sql.dates import finest_unit, periods
from hdpview.query.sql.scalar import UNKNOWN, branches, constant, evaluate, shown

MAX_KEYS = 65_536
_MAX_CELLS = 20_000  # of an expression of several attributes
_MOST_STEPS, _MANY_STEPS = 10_000, 100  # of a step function: refused, and looked at more closely
# Expressions that are true, false or unknown.
TRUTHS = (
    exp.EQ,
    exp.NEQ,
    exp.LT,
    exp.LTE,
    exp.GT,
    exp.GTE,
    exp.And,
    exp.Or,
    exp.Not,
    exp.Is,
    exp.In,
    exp.Between,
    exp.Like,
    exp.ILike,
    *PATTERNS,
)
_STEPS = (exp.Floor, exp.Ceil, exp.Round, exp.Trunc, exp.IntDiv, exp.Cast, exp.WidthBucket)
_RISING = (
    *_STEPS,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.Neg,
    exp.Paren,
    exp.Literal,
    exp.Column,
    exp.Identifier,
    exp.DataType,
)


def attributes_in(node: exp.Expr, schema: Schema) -> list[int]:
    """Numbers of the attributes that an expression speaks of, each once."""
    return list(dict.fromkeys(attribute_number(column.name, schema) for column in node.find_all(exp.Column)))


class AxisReader:
    """Reads expressions against a schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def axis(self, node: exp.Expr) -> Axis:
        """The values of an expression."""
        node = node.unnest()
        if isinstance(node, exp.Column):
            return attribute_axis(self.schema, attribute_number(node.name, self.schema))
        cases = self.cases(node)
        if cases is not None:
            axes = [(inside, self.axis(result)) for inside, result in cases]
            return _merged(
                (key, intersect(inside, [box])) for inside, axis in axes for key, box in axis.pairs()
            )
        numbers = attributes_in(node, self.schema)
        if not numbers:
            return Axis((constant(node),), ([{}],))
        if isinstance(node, TRUTHS) and not self._is_computed(node):
            return self._truth(node)
        parts = [(a, self._values(node, a, alone=len(numbers) == 1)) for a in numbers]
        if math.prod(len(values) for _, values in parts) > (MAX_KEYS if len(parts) == 1 else _MAX_CELLS):
            raise QueryError(
                f"{shown(node)} takes too many different values. Group by single attributes, or by "
                "wider bins."
            )
        return self._computed(node, parts)

    def cases(self, node: exp.Expr) -> list[tuple[list[Box], exp.Expr]] | None:
        """Of a CASE or an IF: its results, each with where it holds, if anywhere. None of anything else."""
        if isinstance(node, exp.Case):
            found, default = list(branches(node)), node.args.get("default")
        elif isinstance(node, exp.If):
            found, default = [(node.this, node.args["true"])], node.args.get("false")
        else:
            return None
        remaining: list[Box] = [{}]
        cases = []
        for condition, result in [*found, (exp.true(), default or exp.null())]:
            holds = self.boxes(condition)
            cases.append((intersect(remaining, holds), result))
            remaining = subtract(remaining, holds, self.schema)
        return [(inside, result) for inside, result in cases if inside]

    def boxes(self, node: exp.Expr, negated: bool = False) -> list[Box]:
        """Where a condition holds, or where its negation does; conditions on computed values included."""
        return boxes_of_tree(node, self.schema, negated, self._computed_boxes)

    def _is_computed(self, node: exp.Expr) -> bool:
        """Whether a condition compares anything else than an attribute with values."""
        if isinstance(node, (exp.And, exp.Or, exp.Not)):
            return False
        return not any(
            isinstance(side.unnest(), exp.Column)
            for side in (node.this, node.args.get("expression"))
            if side is not None
        )

    def _computed_boxes(self, node: exp.Expr, negated: bool) -> list[Box]:
        """Boxes of a comparison of computed values, such as year(d) = 2024 or x % 2 = 0."""
        if not attributes_in(node, self.schema):
            return [{}] if constant(node) is (not negated) else []
        parts = [(a, self._values(node, a, alone=False)) for a in attributes_in(node, self.schema)]
        if math.prod(len(values) for _, values in parts) > _MAX_CELLS * (1 if len(parts) > 1 else 4):
            raise QueryError(
                f"{shown(node)} compares too many combinations of values; compare single attributes "
                "with values."
            )
        return [box for key, box in self._computed(node, parts).pairs() if key is (not negated)]

    def _truth(self, node: exp.Expr) -> Axis:
        true, false = self.boxes(node), self.boxes(node, negated=True)
        unknown = subtract(subtract([{}], true, self.schema), false, self.schema)
        kept = [(key, boxes) for key, boxes in ((False, false), (True, true), (None, unknown)) if boxes]
        return Axis(tuple(key for key, _ in kept), tuple(boxes for _, boxes in kept))

    def _values(self, node: exp.Expr, a: int, alone: bool) -> list[tuple[Any, Condition]]:
        """Values of attribute `a`, with conditions, so fine that the expression is constant on each."""
        attribute = self.schema.attributes[a]
        if has_single_values(attribute):
            return list(zip(code_keys(attribute), code_conditions(attribute), strict=True))
        missing = [(None, conditions.missing(attribute))] if attribute.nullable else []
        if isinstance(attribute, Datetime):
            return [*periods(attribute, finest_unit(node, attribute)), *missing]
        if (
            isinstance(attribute, Ordered)
            and alone
            and node.find(*_STEPS)
            and all(isinstance(part, _RISING) for part in node.walk())
        ):
            return [
                *_steps(
                    attribute,
                    lambda x: evaluate(node, lambda part: x if isinstance(part, exp.Column) else UNKNOWN),
                ),
                *missing,
            ]
        raise QueryError(
            f"{attribute.name!r} is counted in bins, so {shown(node)} is not known for single values. "
            f"Use {attribute.name} itself, or a step such as floor({attribute.name} / 10) * 10."
        )

    def _computed(self, node: exp.Expr, parts: Sequence[tuple[int, list[tuple[Any, Condition]]]]) -> Axis:
        numbers = [a for a, _ in parts]
        place = {a: i for i, a in enumerate(numbers)}
        found: list[tuple[Any, Sequence[Box]]] = []
        for combination in itertools.product(*(values for _, values in parts)):

            def lookup(part: exp.Expr, combination: tuple[tuple[Any, Condition], ...] = combination) -> Any:
                return (
                    combination[place[attribute_number(part.name, self.schema)]][0]
                    if isinstance(part, exp.Column)
                    else UNKNOWN
                )

            box = {a: condition for a, (_, condition) in zip(numbers, combination, strict=True)}
            found.append((evaluate(node, lookup), [box]))
        return _merged(found)


def _merged(found: Iterable[tuple[Any, Sequence[Box]]]) -> Axis:
    """Equal keys as one, in as few boxes as is easy."""
    by_key: dict[tuple[bool, Any], list[Box]] = {}
    for key, boxes in found:
        if boxes:
            by_key.setdefault((isinstance(key, bool), key), []).extend(boxes)
    return Axis(tuple(key for _, key in by_key), tuple(map(_joined, by_key.values())))


def _joined(boxes: list[Box]) -> list[Box]:
    """The same set in fewer boxes: those that differ in one attribute alone become one, for each attribute in
    turn.

    Cells of x + y < 60 become a box per x with a range of y, and equal ranges of y one box with several x.
    """
    names = {frozenset(box) for box in boxes}
    if len(boxes) == 1 or len(names) != 1:
        return boxes
    for a in sorted(names.pop(), key=lambda a: -len({box[a] for box in boxes})):
        alike: dict[tuple[tuple[int, Condition], ...], list[Condition]] = {}
        for box in boxes:
            others = tuple(
                (b, condition) for b, condition in sorted(box.items(), key=lambda item: item[0]) if b != a
            )
            alike.setdefault(others, []).append(box[a])
        boxes = [{**dict(others), a: any_of(conditions)} for others, conditions in alike.items()]
    return boxes


def _steps(attribute: Ordered, function: Callable[[float], Any]) -> list[tuple[Any, Condition]]:
    """Where a monotone step function of a binned attribute takes each of its values: borders by halving."""
    first, end = attribute.edges[0].item(), attribute.edges[-1].item()
    found: list[tuple[Any, Condition]] = []
    start = first
    while start < end:
        value = function(start)
        border = _border(function, value, start, end, attribute.whole)
        found.append((start, Condition(ranges=((start, border),))))
        start = border
        if len(found) > _MOST_STEPS or (
            len(found) == _MANY_STEPS and _too_many_values(function, first, end, attribute.whole)
        ):
            raise QueryError(
                f"That cuts {attribute.name!r} into more than {_MOST_STEPS:,} steps; use wider ones."
            )
    return found


def _too_many_values(function: Callable[[float], Any], first: float, end: float, whole: bool) -> bool:
    """Whether a function takes more values than steps are allowed, by a look at places spread evenly."""
    places = (first + (end - first) * i / (2 * _MOST_STEPS) for i in range(2 * _MOST_STEPS))
    return len({function(place // 1 if whole else place) for place in places}) > _MOST_STEPS


def _border(function: Callable[[float], Any], value: Any, start: float, end: float, whole: bool) -> float:
    """The first place after `start` where the function leaves `value`, or `end`."""
    last = end - 1 if whole else math.nextafter(end, -math.inf)
    if function(last) == value:
        return end
    low, high = start, last  # the function has left `value` at `high`
    while (high - low > 1) if whole else (math.nextafter(low, math.inf) < high):
        middle = (low + high) // 2 if whole else (low + high) / 2
        low, high = (middle, high) if function(middle) == value else (low, middle)
    neat = float(f"{high:.12g}")
    return high if whole or abs(neat - high) > 1e-12 * abs(high) else neat
