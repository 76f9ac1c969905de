"""Quantities: what a count, a sum or a difference adds up over records, as sums of products of functions of
codes.

A count is the sum of 1 over the records of some disjoint boxes; a sum adds the value that a code stands for.
Both are

    Σ_t constant_t · Π_a function_ta(code_a)

summed over records, so one evaluation serves all of them; see `batch` for how.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Attribute, Integer, Ordered, Schema
from hdpview.errors import QueryError
from hdpview.query.question import boxes
from hdpview.query.question.boxes import Box, intersect
from hdpview.query.question.conditions import Condition, is_beyond

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Values:
    """What each code of an attribute stands for, shape (size,): its mean value, and the bounds of its bin.

    attribute: its number; None for a constant, where the arrays have shape (1,).
    """

    attribute: int | None
    mean: Floats
    least: Floats
    greatest: Floats

    @classmethod
    def constant(cls, value: float) -> Values:
        number = np.array([float(value)])
        return cls(None, number, number, number)

    def times_constant(self, factor: float) -> Values:
        ends = (
            (self.least * factor, self.greatest * factor)
            if factor >= 0
            else (self.greatest * factor, self.least * factor)
        )
        return Values(self.attribute, self.mean * factor, *ends)

    def multiplied(self, other: Values) -> Values:
        """Products of two values of the same attribute."""
        corners = [a * b for a in (self.least, self.greatest) for b in (other.least, other.greatest)]
        return Values(
            self.attribute, self.mean * other.mean, np.minimum.reduce(corners), np.maximum.reduce(corners)
        )


ONE = Values.constant(1.0)


# What a part makes of an attribute's codes: whether they satisfy a condition, times values of theirs.
Function = tuple[Condition | None, tuple[Values, ...]]


class Part(NamedTuple):
    """Records in a box, each counted with its value, or with the product of values of two attributes."""

    box: Box
    values: Values = ONE
    times: Values = ONE

    @property
    def attributes(self) -> list[int]:
        """Attributes that what a record adds depends on, each once."""
        numbers = [*self.box, self.values.attribute, self.times.attribute]
        return [a for a in dict.fromkeys(numbers) if a is not None]

    @property
    def constant(self) -> float:
        """The product of the values that are constants."""
        product = 1.0
        if self.values is ONE and self.times is ONE:
            return product
        for values in (self.values, self.times):
            product *= float(values.mean[0]) if values.attribute is None else 1.0
        return product

    def functions(self) -> list[tuple[int, Function]]:
        """The functions of single attributes whose product a record adds."""
        if self.values.attribute is None and self.times.attribute is None:
            return [(a, (condition, ())) for a, condition in self.box.items()]
        return [(a, (self.box.get(a), tuple(self.values_of(a)))) for a in self.attributes]

    def values_of(self, a: int) -> list[Values]:
        """The values that are functions of an attribute."""
        return [values for values in (self.values, self.times) if values.attribute == a]

    def within(self, box: Box) -> Part:
        """The same of the records of another box."""
        return Part(box, self.values, self.times)


def cut(quantity: Quantity, boxes: Sequence[Box]) -> list[Part]:
    """The quantity over those records only that lie in disjoint boxes."""
    return [part.within(box) for part in quantity for box in intersect(boxes, [part.box])]


Quantity = Sequence[Part]


def count_of(boxes: Sequence[Box]) -> list[Part]:
    """The number of records in disjoint boxes."""
    return [Part(box) for box in boxes]


def reaching_bins(quantity: Quantity, schema: Schema) -> list[Part] | None:
    """The quantity over all records that may be asked for, where conditions lie beyond the schema's bounds.

    None where none does.
    """
    if not any(is_beyond(schema.attributes[a], own) for part in quantity for a, own in part.box.items()):
        return None
    wider = boxes.reaching_bins([part.box for part in quantity], schema)
    return [part.within(box) for box, part in zip(wider, quantity, strict=True)]


def product(left: Quantity, right: Quantity) -> list[Part]:
    """What a record adds to one quantity times what it adds to another.

    Products of values of three attributes or more cannot be written as a quantity; such parts are left out,
    as if what they add were unrelated.
    """
    terms = []
    for one in left:
        for other in right:
            factors = [v for v in (one.values, one.times, other.values, other.times) if v is not ONE]
            values = _combined(factors)
            if len(values) <= 2:
                terms += [Part(box, *values) for box in intersect([one.box], [other.box])]
    return terms


def _combined(factors: Sequence[Values]) -> list[Values]:
    """The same product with one factor per attribute."""
    by_attribute: dict[int | None, Values] = {}
    for values in factors:
        known = by_attribute.get(values.attribute)
        by_attribute[values.attribute] = values if known is None else known.multiplied(values)
    constant = by_attribute.pop(None, None)
    rest = list(by_attribute.values())
    if constant is None:
        return rest
    return [rest[0].times_constant(float(constant.mean[0])), *rest[1:]] if rest else [constant]


def bin_values(attribute: Attribute, a: int) -> Values:
    """Values of the codes of a number, a datetime (microseconds from 1970) or a truth value (0 and 1).

    A bin stands for its middle; a missing value for nothing.
    """
    if attribute.kind == "boolean":
        mean = least = greatest = np.array([0.0, 1.0])
    elif isinstance(attribute, Ordered):
        edges = attribute.edges.astype(np.float64)
        least, greatest = edges[:-1], edges[1:] - attribute.whole
        mean = least if isinstance(attribute, Integer) and attribute.every == 1 else (least + greatest) / 2
    else:
        raise QueryError(
            f"{attribute.name!r} has no numbers to add up. "
            f"Count its values: SELECT {attribute.name}, COUNT(*) … GROUP BY 1."
        )
    n_null = int(attribute.nullable)
    # A missing value adds nothing, and must not widen the bounds of the others.
    bound = np.full(n_null, least[0])
    columns = (mean, np.zeros(n_null)), (least, bound), (greatest, bound)
    return Values(a, *(np.concatenate(column) for column in columns))
