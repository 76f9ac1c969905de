"""Quantities: counts, sums and differences over records, as sums of products of functions of codes.

A count is the sum of 1 over the records of some disjoint boxes; a sum adds the value that a code stands for.
Both are

    Σ_t Π_a function_ta(code_a)

summed over records, so one evaluation serves all of them; see `batch` for how.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Attribute, Integer, Ordered
from hdpview.errors import QueryError
from hdpview.query.question.boxes import Box, intersect
from hdpview.query.question.conditions import Condition

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Values:
    """Per code of an attribute, shape (size,): its mean value, and the bounds of its bin."""

    attribute: int
    mean: Floats
    least: Floats
    greatest: Floats


# A function of an attribute's codes: whether they satisfy a condition, times their values.
Function = tuple[Condition | None, tuple[Values, ...]]


class Part(NamedTuple):
    """Records in a box, each weighted by the product of these values, or by 1 if there are none."""

    box: Box
    values: tuple[Values, ...] = ()

    def functions(self) -> list[tuple[int, Function]]:
        """The functions of single attributes whose product is a record's contribution."""
        if not self.values:
            return [(a, (condition, ())) for a, condition in self.box.items()]
        attributes = dict.fromkeys([*self.box, *(values.attribute for values in self.values)])
        of_attribute = {a: tuple(own for own in self.values if own.attribute == a) for a in attributes}
        return [(a, (self.box.get(a), own)) for a, own in of_attribute.items()]


Quantity = Sequence[Part]


def cut(quantity: Quantity, boxes: Sequence[Box]) -> list[Part]:
    """The quantity over those records only that lie in disjoint boxes."""
    return [Part(box, part.values) for part in quantity for box in intersect(boxes, [part.box])]


def count_of(boxes: Sequence[Box]) -> list[Part]:
    """The number of records in disjoint boxes."""
    return [Part(box) for box in boxes]


def product(left: Quantity, right: Quantity) -> list[Part]:
    """The product of a record's contributions to two quantities."""
    return [
        Part(box, (*one.values, *other.values))
        for one in left
        for other in right
        for box in intersect([one.box], [other.box])
    ]


def bin_values(attribute: Attribute, a: int) -> Values:
    """Values of the codes of a number, a datetime (microseconds from 1970) or a truth value (0 and 1).

    A bin counts as its middle; a missing value does not count.
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
