"""Quantities: what a count, a sum or a difference adds up over records, as sums of products of functions of
codes.

A count is the sum of 1 over the records of some disjoint boxes; a sum adds the value that a code stands for.
Both are

    Σ_t constant_t · Π_a function_ta(code_a)

summed over records, so one evaluation serves all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Attribute, Integer, Ordered, Schema
from hdpview.errors import QueryError
from hdpview.query.question import boxes
from hdpview.query.question.boxes import Box, intersect
from hdpview.query.question.conditions import Condition, is_beyond, shares_of

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


# What a part makes of an attribute's codes: whether they satisfy a condition, times values of theirs.
_Function = tuple[Condition | None, tuple[Values, ...]]


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
        if self.values is ONE and self.times is ONE:
            return found
        for values in (self.values, self.times):
            found *= float(values.mean[0]) if values.attribute is None else 1.0
        return found

    def functions(self) -> list[tuple[int, _Function]]:
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
    if not _is_beyond(quantity, schema.attributes):
        return None
    wider = boxes.reaching_bins([part.box for part in quantity], schema)
    return [part.within(box) for box, part in zip(wider, quantity, strict=True)]


def _is_beyond(quantity: Quantity, attributes: Sequence[Attribute]) -> bool:
    for part in quantity:
        for a, condition in part.box.items():
            if is_beyond(attributes[a], condition):
                return True
    return False


def product(left: Quantity, right: Quantity) -> list[Part]:
    """What a record adds to one quantity times what it adds to another.

    Products of values of three attributes or more cannot be written as a quantity; such parts are left out,
    as if what they add were unrelated.
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
    n_null = int(attribute.nullable)
    # A missing value adds nothing, and must not widen the bounds of the others.
    bound = np.full(n_null, least[0])
    columns = (mean, np.zeros(n_null)), (least, bound), (greatest, bound)
    return Values(a, *(np.concatenate(column) for column in columns))


class Points(NamedTuple):
    """Functions of an attribute's codes that are 0 but for one code each: the code and the value there, shape
    (n,).
    """

    code: Ints
    value: Floats


class Mixed(NamedTuple):
    """Functions of an attribute's codes: some given by all values, shape (n, size), and after them some
    points.
    """

    dense: Floats
    points: Points


Functions = Floats | Points | Mixed


class Inside(NamedTuple):
    """What functions of an attribute leave open inside its bins.

    share: of each bin that satisfies the condition, shape (m, size). value: what a record there counts with.
        spread:
        the standard deviation of that value inside the bin, were records spread evenly. condition: as a
        number, (m,).
    origin, code: of each function of a batch, shape (n,): which of these m it is, and at which code alone; −1
        for all.
    """

    share: Floats
    value: Floats
    spread: Floats
    condition: Ints
    origin: Ints
    code: Ints

    def at_codes(self, keep_whole: bool) -> Inside:
        """The same for each code alone, and for the constant 1 after them; with `keep_whole`, after the whole
        ones.
        """
        m, size = self.share.shape
        share, value, spread = (
            np.concatenate([column, np.full((1, size), rest)])
            for column, rest in zip(self[:3], (1.0, 1.0, 0.0), strict=True)
        )
        origin, code = np.repeat(np.arange(m + 1), size), np.tile(np.arange(size), m + 1)
        if keep_whole:
            origin, code = np.concatenate([self.origin, origin]), np.concatenate([self.code, code])
        return Inside(share, value, spread, np.append(self.condition, 0), origin, code)


@dataclass(frozen=True, eq=False)
class Batch:
    """Many quantities as arrays. Each is a sum of terms; each term is a product of functions of single
    attributes.

    quantity: shape (n_terms,), rising: which quantity a term belongs to. n: number of quantities.
    constant: shape (n_terms,): the factor of each term.
    attribute: shape (n_terms, width): attributes that a term has functions of, −1 beyond the last.
    row: shape (n_terms, width): which function, by its number among those of the attribute.
    functions: attribute → functions, shape (n_functions, size), or as points, or both.
    squares: the same for the squares of the quantities: a code that is partly inside counts with its share,
        and the square of its value.
    inside: attribute → what its functions leave open inside bins; attributes are left out where that is
        nothing.
    """

    n: int
    quantity: Ints
    constant: Floats
    attribute: Ints
    row: Ints
    functions: dict[int, Functions]
    squares: dict[int, Functions]
    inside: dict[int, Inside] = field(default_factory=dict)

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
        """Each term's functions in an array of all, shape (n_terms, width); 0 for the one that is 1
        everywhere.
        """
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
    """Quantities as arrays. A function that occurs again is stored once; one that is 1 everywhere is left
    out.
    """
    numbers: dict[int, dict[_Function, int]] = {}  # attribute → its functions, numbered as they come
    quantity, constant, n_own, attribute, row = [], [], [], [], []
    for q, parts in enumerate(quantities):
        for part in parts:
            own = part.functions()
            for a, function in own:
                known = numbers.setdefault(a, {})
                attribute.append(a)
                row.append(known.setdefault(function, len(known)))
            quantity.append(q)
            constant.append(part.constant)
            n_own.append(len(own))
    if sum(len(known) * schema.sizes[a] for a, known in numbers.items()) > _MOST_FUNCTION_VALUES:
        raise QueryError(
            "Too many questions about attributes with many values at once; ask in smaller batches."
        )
    functions: dict[int, Functions] = {}
    squares: dict[int, Functions] = {}
    inside: dict[int, Inside] = {}
    attributes, rows = np.array(attribute, np.int64), np.array(row, np.int64)
    for a, known in numbers.items():
        values, squared, is_one = _tabulated(schema.attributes[a], list(known))
        if is_one.any():
            renumbered = np.where(is_one, _NO_FUNCTION, np.cumsum(~is_one) - 1)
            here = attributes == a
            rows[here] = renumbered[rows[here]]
        if not is_one.any():
            functions[a], squares[a] = values, squared
        elif not is_one.all():
            functions[a], squares[a] = values[~is_one], squared[~is_one]
        kept_functions = [function for function, left_out in zip(known, is_one, strict=True) if not left_out]
        opened = _inside(schema.attributes[a], kept_functions, values[~is_one])
        if opened is not None:
            inside[a] = opened
    has_values = any(
        part.values is not ONE or part.times is not ONE for parts in quantities for part in parts
    )
    term, kept = np.repeat(np.arange(len(n_own)), n_own), rows != _NO_FUNCTION
    return Batch(
        n=len(quantities),
        quantity=np.array(quantity, np.int64),
        constant=np.array(constant, np.float64),
        attribute=_padded(term[kept], attributes[kept], len(n_own), -1),
        row=_padded(term[kept], rows[kept], len(n_own), 0),
        functions=functions,
        squares=squares if has_values else functions,
        inside=inside,
    )


def _inside(attribute: Attribute, functions: Sequence[_Function], values: Floats) -> Inside | None:
    """What functions leave open inside bins; None where no bin is cut through and no values differ inside
    one.

    values: of the functions, shape (n, size).
    """
    if not isinstance(attribute, Ordered):
        return None
    if not any(own for _, own in functions) and not ((values > 0.0) & (values < 1.0)).any():
        return None
    share = shares_of(attribute, [condition or _anything(attribute) for condition, _ in functions])
    products = [_product(own) for _, own in functions]
    value, least, greatest = (
        np.stack([np.broadcast_to(column, (attribute.size,)) for column in columns])
        for columns in zip(*((each.mean, each.least, each.greatest) for each in products), strict=True)
    )
    spread = (greatest - least) / math.sqrt(12.0)
    if not spread.any() and not ((share > 0.0) & (share < 1.0)).any():
        return None
    n = len(functions)
    condition = np.array([hash(condition) for condition, _ in functions], np.int64)
    return Inside(share, value, spread, condition, np.arange(n), np.full(n, -1))


def _product(values: Sequence[Values]) -> Values:
    found = values[0] if values else ONE
    for other in values[1:]:
        found = found.multiplied(other)
    return found


def _anything(attribute: Attribute) -> Condition:
    """The condition that all records satisfy."""
    return Condition(((-math.inf, math.inf),), frozenset(range(attribute.n_values)), attribute.nullable)


def _padded(row: Ints, values: Ints, n_rows: int, padding: int) -> Ints:
    """Values of rows of different lengths, listed row by row, as one array, shape (n_rows, longest)."""
    length = np.bincount(row, minlength=n_rows)
    found = np.full((n_rows, int(length.max(initial=0))), padding, np.int64)
    found[row, np.arange(len(row)) - (np.cumsum(length) - length)[row]] = values
    return found


def _tabulated(
    attribute: Attribute, functions: Sequence[_Function]
) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Functions of an attribute's codes, their squares, shape (n, size) each, and whether each is 1
    everywhere.
    """
    anything = _anything(attribute)
    conditions = [anything if condition is None else condition for condition, _ in functions]
    different, which = conditions, list(range(len(functions)))
    if any(values for _, values in functions):
        numbers: dict[Condition, int] = {}
        which = [numbers.setdefault(condition, len(numbers)) for condition in conditions]
        different = list(numbers)
    shares = shares_of(attribute, different)
    found = squares = shares if different is conditions else shares[which]
    is_one = (shares == 1.0).all(axis=1)[which]
    for position in range(2):
        rows = [i for i, (_, values) in enumerate(functions) if len(values) > position]
        if rows:
            mean = np.stack([functions[i][1][position].mean for i in rows])
            squares = found.copy() if squares is found else squares
            found[rows] *= mean
            squares[rows] *= mean**2
            is_one[rows] = False
    return found, squares, is_one


def times_functions(batch: Batch, a: int, functions: Floats) -> Batch:
    """Every quantity of a batch with each of several functions of an attribute as a further factor.

    functions: shape (k, size). Quantity q with function j becomes quantity q · k + j.
    """
    k, is_own = len(functions), batch.attribute == a
    n_own = n_functions(batch.functions.get(a, functions[:0]))
    row = np.where(is_own.any(axis=1), np.where(is_own, batch.row, 0).sum(axis=1), n_own)
    used, row = np.unique(row, return_inverse=True)

    def products(known: dict[int, Functions], factors: Floats) -> dict[int, Functions]:
        own = known.get(a, functions[:0])
        assert isinstance(own, np.ndarray)
        chosen = np.concatenate([own, np.ones((1, own.shape[1]))])[used]
        return {**known, a: (chosen[:, None] * factors[None]).reshape(-1, own.shape[1])}

    # Terms in the order of the new quantities: each with every function, and then sorted by quantity.
    term, function = np.repeat(np.arange(batch.n_terms), k), np.tile(np.arange(k), batch.n_terms)
    quantity = batch.quantity[term] * k + function
    order = np.argsort(quantity, kind="stable")
    term, function = term[order], function[order]
    attribute = np.concatenate(
        [np.full((batch.n_terms, 1), a), np.where(is_own, -1, batch.attribute)], axis=1
    )
    rows = np.concatenate([row[term][:, None] * k + function[:, None], batch.row[term]], axis=1)
    return Batch(
        n=batch.n * k,
        quantity=quantity[order],
        constant=batch.constant[term],
        attribute=attribute[term],
        row=rows,
        functions=products(batch.functions, functions),
        squares=products(batch.squares, functions**2),
        inside={b: own for b, own in batch.inside.items() if b != a},
    )


def n_functions(functions: Functions) -> int:
    if isinstance(functions, Mixed):
        return len(functions.dense) + len(functions.points.code)
    return len(functions.code) if isinstance(functions, Points) else len(functions)


def pack_grid(quantity: Quantity, attributes: Sequence[int], schema: Schema) -> Batch:
    """The quantity in every cell of a grid of codes, in code order, the last attribute running fastest."""
    whole = pack([quantity], schema)
    sizes = [schema.sizes[a] for a in attributes]
    cells = np.indices(sizes).reshape(len(sizes), -1)
    n_cells, functions, inside = cells.shape[1], dict(whole.functions), dict(whole.inside)
    for a, size in zip(attributes, sizes, strict=True):
        functions[a] = _points_of_codes(whole, a, size)
        if a in inside:
            inside[a] = inside[a].at_codes(keep_whole=False)
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
        inside=inside,
    )


def pack_histograms(quantity: Quantity, attributes: Sequence[int], schema: Schema) -> Batch:
    """The quantity at every code of every attribute, one attribute after another."""
    whole = pack([quantity], schema)
    functions, inside, n_terms = dict(whole.functions), dict(whole.inside), whole.n_terms
    attribute, row = [], []
    for a in attributes:
        size = schema.sizes[a]
        dense = whole.functions.get(a, np.ones((0, size)))
        assert isinstance(dense, np.ndarray)
        functions[a] = Mixed(dense, _points_of_codes(whole, a, size))
        if a in inside:
            inside[a] = inside[a].at_codes(keep_whole=True)
        # Points of the function that a term has of the attribute, or else of the constant 1.
        is_own = whole.attribute == a
        own = np.where(is_own.any(axis=1), np.where(is_own, whole.row, 0).sum(axis=1), len(dense))
        points = len(dense) + own * size + np.arange(size)[:, None]
        rest = np.where(is_own, -1, whole.attribute)
        shape = (size, n_terms, 1 + rest.shape[1])
        first = np.full((n_terms, 1), a)
        attribute.append(np.broadcast_to(np.concatenate([first, rest], axis=1), shape))
        others = np.broadcast_to(whole.row, (size, *whole.row.shape))
        row.append(np.concatenate([points[..., None], others], axis=2))
    n = sum(schema.sizes[a] for a in attributes)
    width = 1 + whole.attribute.shape[1]
    return Batch(
        n=n,
        quantity=np.repeat(np.arange(n), n_terms),
        constant=np.tile(whole.constant, n),
        attribute=np.concatenate(attribute).reshape(-1, width)
        if attribute
        else np.zeros((0, width), np.int64),
        row=np.concatenate(row).reshape(-1, width) if row else np.zeros((0, width), np.int64),
        functions=functions,
        squares=functions,
        inside=inside,
    )


def _points_of_codes(batch: Batch, a: int, size: int) -> Points:
    """A point per code for each function that a batch has of an attribute, and then for the constant 1."""
    own = batch.functions.get(a, np.ones((0, size)))
    assert isinstance(own, np.ndarray)
    values = np.concatenate([own, np.ones((1, size))])
    return Points(np.tile(np.arange(size), len(values)), values.reshape(-1))
