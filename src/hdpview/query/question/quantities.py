"""Quantities: what a count, a sum or a difference adds up over records, as sums of products of functions of codes.

A count is the sum of 1 over the records of some disjoint boxes; a sum adds the value that a code stands for. Both are

    Σ_t constant_t · Π_a function_ta(code_a)

summed over records, so one evaluation serves all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Attribute, Integer, Ordered, Schema
from hdpview.errors import QueryError
from hdpview.query.question import boxes
from hdpview.query.question.boxes import Box, intersect
from hdpview.query.question.conditions import Condition, code_shares

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_NO_FUNCTION = -1  # a condition that all records satisfy
_MOST_FUNCTION_VALUES = 100_000_000  # of one batch: 800 MB


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

    def minus(self, middle: float) -> Values:
        """The deviations from a number."""
        return Values(self.attribute, self.mean - middle, self.least - middle, self.greatest - middle)

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
        found = 1.0
        for values in (self.values, self.times):
            found *= float(values.mean[0]) if values.attribute is None else 1.0
        return found

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
    wider = boxes.reaching_bins([part.box for part in quantity], schema)
    if all(box == part.box for box, part in zip(wider, quantity, strict=True)):
        return None
    return [part.within(box) for box, part in zip(wider, quantity, strict=True)]


def product(left: Quantity, right: Quantity) -> list[Part]:
    """What a record adds to one quantity times what it adds to another.

    Products of values of three attributes or more cannot be written as a quantity; such parts are left out, as if
    what they add were unrelated.
    """
    found = []
    for one in left:
        for other in right:
            factors = [v for v in (one.values, one.times, other.values, other.times) if v is not ONE]
            values = _combined(factors)
            if len(values) <= 2:
                found += [Part(box, *values) for box in intersect([one.box], [other.box])]
    return found


def _combined(factors: Sequence[Values]) -> list[Values]:
    """The same product with one factor per attribute."""
    found: dict[int | None, Values] = {}
    for values in factors:
        known = found.get(values.attribute)
        found[values.attribute] = values if known is None else known.multiplied(values)
    constant = found.pop(None, None)
    rest = list(found.values())
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
    null = np.zeros(int(attribute.nullable))
    return Values(a, *(np.concatenate([values, null]) for values in (mean, least, greatest)))


class Points(NamedTuple):
    """Functions of an attribute's codes that are 0 but for one code each: the code and the value there, shape (n,)."""

    code: Ints
    value: Floats


@dataclass(frozen=True, eq=False)
class Batch:
    """Many quantities as arrays. Each is a sum of terms; each term is a product of functions of single attributes.

    quantity: shape (n_terms,), rising: which quantity a term belongs to. n: number of quantities.
    constant: shape (n_terms,): the factor of each term.
    attribute: shape (n_terms, width): attributes that a term has functions of, −1 beyond the last.
    row: shape (n_terms, width): which function, by its number among those of the attribute.
    functions: attribute → functions, shape (n_functions, size), or as points.
    squares: the same for the squares of the quantities: a code that is partly inside counts with its share, and the
        square of its value.
    """

    n: int
    quantity: Ints
    constant: Floats
    attribute: Ints
    row: Ints
    functions: dict[int, Floats | Points]
    squares: dict[int, Floats | Points]

    def __len__(self) -> int:
        return self.n

    @property
    def n_terms(self) -> int:
        return len(self.quantity)

    @cached_property
    def n_attributes(self) -> Ints:
        """How many attributes the terms of each quantity restrict at most, shape (n,)."""
        found = np.zeros(self.n, np.int64)
        np.maximum.at(found, self.quantity, (self.attribute >= 0).sum(axis=1))
        return found

    @cached_property
    def offset(self) -> dict[int, int]:
        """Where the functions of each attribute begin in an array of all, after one that is 1 everywhere."""
        starts = np.cumsum([1, *map(n_functions, self.functions.values())]).tolist()
        return dict(zip(self.functions, starts, strict=False))

    @cached_property
    def place(self) -> Ints:
        """Each term's functions in an array of all, shape (n_terms, width); 0 for the one that is 1 everywhere."""
        start = np.zeros(max(self.functions, default=0) + 2, np.int64)
        for a, offset in self.offset.items():
            start[a] = offset
        return np.where(self.attribute >= 0, start[self.attribute] + self.row, 0)

    def sums(self, of_terms: Floats) -> Floats:
        """Sums over the terms of each quantity: (n_terms,) → (n,)."""
        return np.bincount(self.quantity, of_terms, self.n).astype(np.float64)

    def split(self, most_terms: int) -> Iterator[tuple[slice, Batch]]:
        """The batch in pieces of whole quantities with about so many terms, and which quantities each has."""
        start = 0
        ends = np.searchsorted(self.quantity, np.arange(self.n), side="right")
        while start < self.n:
            first = int(ends[start - 1]) if start else 0
            end = max(start + 1, int(np.searchsorted(ends, first + most_terms, side="right")))
            last = int(ends[end - 1])
            yield slice(start, end), self._terms(slice(first, last), start, end - start)
            start = end

    def _terms(self, terms: slice, first: int, n: int) -> Batch:
        return replace(
            self,
            n=n,
            quantity=self.quantity[terms] - first,
            constant=self.constant[terms],
            attribute=self.attribute[terms],
            row=self.row[terms],
        )

    @property
    def squared(self) -> Batch:
        """The squares of the quantities, for terms that do not overlap."""
        return replace(self, constant=self.constant**2, functions=self.squares)


def pack(quantities: Sequence[Quantity], schema: Schema) -> Batch:
    """Quantities as arrays. A function that occurs again is stored once; one that is 1 everywhere is left out."""
    rows: dict[int, dict[tuple[Condition | None, tuple[int, ...]], int]] = {}
    vectors: dict[int, list[tuple[Floats, Floats]]] = {}
    quantity, constant, attribute, row, n_values = [], [], [], [], 0
    for q, parts in enumerate(quantities):
        for part in parts:
            own_attributes, own_rows = [], []
            for a in part.attributes:
                own_values = part.values_of(a)
                key = (part.box.get(a), tuple(map(id, own_values)))
                known = rows.setdefault(a, {})
                if key not in known:
                    vector = _function(schema.attributes[a], part.box.get(a), own_values)
                    if not own_values and (vector[0] == 1.0).all():
                        known[key] = _NO_FUNCTION
                        continue
                    known[key] = len(vectors.setdefault(a, []))
                    vectors[a].append(vector)
                    n_values += len(vector[0])
                    if n_values > _MOST_FUNCTION_VALUES:
                        raise QueryError(
                            "Too many questions about attributes with many values at once; ask in smaller batches."
                        )
                if known[key] != _NO_FUNCTION:
                    own_attributes.append(a)
                    own_rows.append(known[key])
            quantity.append(q)
            constant.append(part.constant)
            attribute.append(own_attributes)
            row.append(own_rows)
    functions: dict[int, Floats | Points] = {
        a: np.stack([function for function, _ in found]) for a, found in vectors.items()
    }
    has_values = any(
        part.values is not ONE or part.times is not ONE for parts in quantities for part in parts
    )
    return Batch(
        n=len(quantities),
        quantity=np.array(quantity, np.int64),
        constant=np.array(constant, np.float64),
        attribute=_padded(attribute, -1),
        row=_padded(row, 0),
        functions=functions,
        squares={a: np.stack([square for _, square in found]) for a, found in vectors.items()}
        if has_values
        else functions,
    )


def _padded(rows: Sequence[Sequence[int]], padding: int) -> Ints:
    """Rows of different lengths as one array, shape (n_rows, longest)."""
    width = max(map(len, rows), default=0)
    found = np.full((len(rows), width), padding, np.int64)
    for row, values in zip(found, rows, strict=True):
        row[: len(values)] = values
    return found


def _function(
    attribute: Attribute, condition: Condition | None, values: Sequence[Values]
) -> tuple[Floats, Floats]:
    """A function of an attribute's codes, and its square."""
    function = square = np.ones(attribute.size) if condition is None else code_shares(attribute, condition)
    for each in values:
        function, square = function * each.mean, square * each.mean**2
    return function, square


def n_functions(functions: Floats | Points) -> int:
    return len(functions.code) if isinstance(functions, Points) else len(functions)


def pack_grid(quantity: Quantity, attributes: Sequence[int], schema: Schema) -> Batch:
    """The quantity in every cell of a grid of codes, in code order, the last attribute running fastest."""
    whole = pack([quantity], schema)
    sizes = [schema.sizes[a] for a in attributes]
    cells = np.indices(sizes).reshape(len(sizes), -1)
    n_cells, functions = cells.shape[1], dict(whole.functions)
    # A grouped attribute has a point per code for each function that the quantity has of it, and for the constant 1.
    for a, size in zip(attributes, sizes, strict=True):
        own = whole.functions.get(a, np.ones((0, size)))
        assert not isinstance(own, Points)
        values = np.concatenate([own, np.ones((1, size))])
        functions[a] = Points(np.tile(np.arange(size), len(values)), values.reshape(-1))
    attribute, row = [], []
    for own_attribute, own_row in zip(whole.attribute.tolist(), whole.row.tolist(), strict=True):
        row_of = {a: r for a, r in zip(own_attribute, own_row, strict=True) if a >= 0}
        rest = [a for a in row_of if a not in attributes]
        on_axes = [
            cells[axis] + size * row_of.get(a, n_functions(whole.functions.get(a, np.ones((0, size)))))
            for axis, (a, size) in enumerate(zip(attributes, sizes, strict=True))
        ]
        padding = len(own_attribute) + len(sizes) - len(attributes) - len(rest)
        attribute.append([*attributes, *rest, *[-1] * padding])
        row.append(
            [*on_axes, *(np.full(n_cells, row_of[a]) for a in rest), *[np.zeros(n_cells, np.int64)] * padding]
        )
    n_terms, width = whole.n_terms, whole.attribute.shape[1] + len(sizes)
    return Batch(
        n=n_cells,
        quantity=np.repeat(np.arange(n_cells), n_terms),
        constant=np.tile(whole.constant, n_cells),
        attribute=np.tile(np.array(attribute, np.int64).reshape(n_terms, width), (n_cells, 1)),
        row=np.array(row, np.int64).reshape(n_terms, width, n_cells).transpose(2, 0, 1).reshape(-1, width),
        functions=functions,
        squares=functions,
    )
