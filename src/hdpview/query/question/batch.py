"""Batches: many quantities as arrays, to be evaluated together.

A quantity is a sum of terms. A term is a product of functions of the codes of a few attributes, one each.
Terms share most of their functions, so these are kept once, per attribute.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Attribute, Schema
from hdpview.domain.table_shapes import CodeBoxes
from hdpview.errors import QueryError
from hdpview.query.question.conditions import ANYTHING, shares_of
from hdpview.query.question.quantities import Function, Quantity

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
_NO_FUNCTION = -1  # a condition that all records satisfy
_MOST_FUNCTION_VALUES = 100_000_000  # maximum size of one batch: 800 MB


@dataclass(frozen=True, eq=False)
class Functions:
    """Functions of the codes of one attribute: the share of a code that satisfies a condition, times a value.

    share: shape (k, size). value: the weight of a record at each code, shape (k, size); None for 1.
    spread: half the standard deviation of that value inside each bin, were records spread evenly, (k, size);
        None for 0.
    condition: a number for each condition, shape (k,): functions with the same number select the same records
        of a bin. None if no bin is cut and no values differ inside bins.
    at_codes: whether function j at code c alone, and 0 elsewhere, is a function as well, with the number
        k + j · size + c. There, j = k is the constant 1.
    """

    share: Floats
    value: Floats | None = None
    spread: Floats | None = None
    condition: Ints | None = None
    at_codes: bool = False

    def __len__(self) -> int:
        k = len(self.share)
        return k + (k + 1) * int(self.share.shape[1]) * self.at_codes

    @cached_property
    def values(self) -> Floats:
        """Values of the functions that are not at one code alone, shape (k, size)."""
        return self.share if self.value is None else self.share * self.value

    @cached_property
    def values_at_codes(self) -> Floats:
        """Values of the functions at one code alone, at that code, shape ((k + 1) · size,)."""
        return np.append(self.values, np.ones(self.share.shape[1]))

    def means(self, margin: Floats) -> Floats:
        """Mean of every function if this share of the records is at each code, shape (n,)."""
        means: Floats = self.values @ margin
        if not self.at_codes:
            return means
        return np.concatenate([means, self.values_at_codes * np.tile(margin, len(means) + 1)])

    @cached_property
    def cuts(self) -> Flags:
        """Whether every function cuts through a bin, shape (n,)."""
        cut = (self.share > 0.0) & (self.share < 1.0)
        at_codes = [cut.reshape(-1), np.zeros(cut.shape[1], dtype=bool)] if self.at_codes else []
        return np.concatenate([cut.any(axis=1), *at_codes])

    @cached_property
    def largest(self) -> Floats:
        """The largest size of the values of every function, shape (n,)."""
        sizes = np.abs(self.values).max(axis=1)
        return np.append(sizes, np.abs(self.values_at_codes)) if self.at_codes else sizes

    @cached_property
    def is_share(self) -> Flags:
        """Whether the values of every function lie between 0 and 1, shape (n,)."""
        whole, at_codes = (abs(own - 0.5) <= 0.5 for own in (self.values, self.values_at_codes))
        return np.append(whole.all(axis=1), at_codes) if self.at_codes else np.asarray(whole.all(axis=1))

    def chosen(self, rows: NDArray[Any]) -> Functions:
        """Some of the functions that are not at one code alone."""
        columns = (self.share, self.value, self.spread, self.condition)
        return Functions(*(None if column is None else column[rows] for column in columns))  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Batch:
    """Many quantities as arrays.

    n: number of quantities. quantity: shape (n_terms,), rising: the quantity that a term belongs to.
    attribute: shape (n_terms, width): attributes that a term has functions of, −1 for none.
    row: shape (n_terms, width): the function's number among those of the attribute.
    functions: attribute → its functions.
    """

    n: int
    quantity: Ints
    attribute: Ints
    row: Ints
    functions: dict[int, Functions]

    def __len__(self) -> int:
        return self.n

    @property
    def n_terms(self) -> int:
        return len(self.quantity)

    @cached_property
    def n_attributes(self) -> Ints:
        """The most attributes that a non-zero term of each quantity restricts, shape (n,)."""
        n_attributes = np.zeros(self.n, np.int64)
        own = (self.attribute >= 0).sum(axis=1)
        np.maximum.at(n_attributes, self.quantity, np.where(self.largest_of_terms > 0.0, own, 0))
        return n_attributes

    @cached_property
    def offset(self) -> dict[int, int]:
        """The index of each attribute's first function in an array of all, after the constant 1."""
        starts = np.cumsum([1, *map(len, self.functions.values())]).tolist()
        return dict(zip(self.functions, starts, strict=False))

    @cached_property
    def place(self) -> Ints:
        """Each term's functions in an array of all, shape (n_terms, width); 0 for the constant 1."""
        start = np.zeros(max(self.functions, default=0) + 2, np.int64)
        for a, offset in self.offset.items():
            start[a] = offset
        return np.where(self.attribute >= 0, start[self.attribute] + self.row, 0)

    def of_functions(
        self, of_one: NDArray[Any], of: Callable[[int, Functions], NDArray[Any]]
    ) -> NDArray[Any]:
        """An array over all functions, as `place` numbers them.

        of_one: the entry of the constant 1. of: gives the entries of an attribute's functions.
        """
        values = np.empty((1 + sum(map(len, self.functions.values())), *of_one.shape), of_one.dtype)
        values[0] = of_one
        for a, start in self.offset.items():
            values[start : start + len(self.functions[a])] = of(a, self.functions[a])
        return values

    @cached_property
    def largest_of_terms(self) -> Floats:
        of_functions = self.of_functions(np.array(1.0), lambda _, own: own.largest)
        largest: Floats = of_functions[self.place].prod(axis=1)
        return largest

    def sums(self, of_terms: Floats) -> Floats:
        """Sums over the terms of each quantity: (n_terms,) → (n,)."""
        return np.bincount(self.quantity, of_terms, self.n).astype(np.float64)

    def split(self, most_terms: int) -> Iterator[tuple[slice, Batch]]:
        """Split the batch into pieces of whole quantities with about this many terms each. Yields each piece
        and its range of quantities.
        """
        start = 0
        ends = np.searchsorted(self.quantity, np.arange(self.n), side="right")
        while start < self.n:
            first = int(ends[start - 1]) if start else 0
            end = max(start + 1, int(np.searchsorted(ends, first + most_terms, side="right")))
            terms = slice(first, int(ends[end - 1]))
            own = self.attribute[terms], self.row[terms]
            yield slice(start, end), Batch(end - start, self.quantity[terms] - start, *own, self.functions)
            start = end

    @cached_property
    def squared(self) -> Batch:
        """The squares of the quantities, for terms that do not overlap: a code that is partly inside counts
        with its share, and the square of its value. The batch itself if squaring changes nothing.
        """
        functions = {
            a: own if own.value is None else Functions(own.share, own.value**2)
            for a, own in self.functions.items()
        }
        if all(own.value is None for own in functions.values()):
            return self
        return replace(self, functions=functions)

    @cached_property
    def counts_records(self) -> Flags:
        """Whether a record adds between 0 and 1 to each quantity, as to a count, shape (n,)."""
        of_functions = self.of_functions(np.array(True), lambda _, own: own.is_share)
        counts = np.ones(self.n, dtype=bool)
        np.logical_and.at(counts, self.quantity, of_functions[self.place].all(axis=1))
        return counts


def pack(quantities: Sequence[Quantity], schema: Schema) -> Batch:
    """Quantities as arrays. A function is stored once, and omitted if it is 1 everywhere."""
    numbers: dict[int, dict[Function, int]] = defaultdict(dict)  # attribute → its distinct functions
    quantity, n_own, attribute, row = [], [], [], []
    for q, parts in enumerate(quantities):
        for part in parts:
            own = part.functions()
            for a, function in own:
                known = numbers[a]
                attribute.append(a)
                row.append(known.setdefault(function, len(known)))
            quantity.append(q)
            n_own.append(len(own))
    if sum(len(known) * schema.sizes[a] for a, known in numbers.items()) > _MOST_FUNCTION_VALUES:
        raise QueryError(
            "Too many questions about attributes with many values at once; ask in smaller batches."
        )
    functions: dict[int, Functions] = {}
    attributes, rows = np.array(attribute, np.int64), np.array(row, np.int64)
    for a, known in numbers.items():
        tables, is_one = _tabulated(schema.attributes[a], list(known))
        if is_one.any():
            here = attributes == a
            rows[here] = np.where(is_one, _NO_FUNCTION, np.cumsum(~is_one) - 1)[rows[here]]
            tables = tables.chosen(~is_one)
        if len(tables):
            functions[a] = tables
    term, kept = np.repeat(np.arange(len(n_own)), n_own), rows != _NO_FUNCTION
    return Batch(
        n=len(quantities),
        quantity=np.array(quantity, np.int64),
        attribute=_padded(term[kept], attributes[kept], len(n_own), -1),
        row=_padded(term[kept], rows[kept], len(n_own), 0),
        functions=functions,
    )


def pack_boxes(boxes: CodeBoxes, sizes: Sequence[int]) -> Batch:
    """The same questions as a batch of counts."""
    n = len(boxes)
    functions: dict[int, Functions] = {}
    row = np.zeros(boxes.attribute.shape, np.int64)
    for a in np.unique(boxes.attribute).tolist():
        here, codes = boxes.attribute == a, np.arange(sizes[a])
        ends, row[here] = np.unique(
            np.stack([boxes.lower[here], boxes.upper[here]], axis=1), axis=0, return_inverse=True
        )
        functions[a] = Functions(((codes >= ends[:, :1]) & (codes < ends[:, 1:])).astype(np.float64))
    return Batch(n, np.arange(n), boxes.attribute, row, functions)


def _tabulated(attribute: Attribute, functions: Sequence[Function]) -> tuple[Functions, Flags]:
    """Functions of an attribute's codes, and whether each is 1 everywhere."""
    share = shares_of(attribute, [ANYTHING if condition is None else condition for condition, _ in functions])
    is_one = (share == 1.0).all(axis=1)
    value = spread = None
    if any(own for _, own in functions):
        value, least, greatest = np.ones((3, *share.shape))
        for row, (_, own) in enumerate(functions):
            for each in own:
                corners = [a * b for a in (least[row], greatest[row]) for b in (each.least, each.greatest)]
                value[row] *= each.mean
                least[row], greatest[row] = np.min(corners, axis=0), np.max(corners, axis=0)
        is_one &= [not own for _, own in functions]
        spread = (greatest - least) / math.sqrt(48.0) if (greatest > least).any() else None
    if spread is None and not ((share > 0.0) & (share < 1.0)).any():
        return Functions(share, value), is_one
    condition = np.array([hash(condition) for condition, _ in functions], np.int64)
    return Functions(share, value, spread, condition), is_one


def _padded(row: Ints, values: Ints, n_rows: int, padding: int) -> Ints:
    """Values of rows of different lengths, listed row by row, as one array, shape (n_rows, longest)."""
    length = np.bincount(row, minlength=n_rows)
    padded = np.full((n_rows, int(length.max(initial=0))), padding, np.int64)
    padded[row, np.arange(len(row)) - (np.cumsum(length) - length)[row]] = values
    return padded


@dataclass(frozen=True, eq=False)
class Grids:
    """One quantity in every cell of some grids of codes, one grid after another.

    whole: a batch of the quantity alone. attributes: of each grid; its cells are in code order, the last
        attribute running fastest. All grids have the same number of attributes. sizes: of all attributes.
    """

    whole: Batch
    attributes: Sequence[Sequence[int]]
    sizes: tuple[int, ...]

    def shape(self, attributes: Sequence[int]) -> tuple[int, ...]:
        """Number of cells along each attribute of a grid."""
        return tuple(self.sizes[a] for a in attributes)

    def __len__(self) -> int:
        return sum(math.prod(self.shape(own)) for own in self.attributes)

    @cached_property
    def cells(self) -> Batch:
        """A quantity per cell: the terms of the whole, at the cell's codes."""
        whole, shapes = self.whole, [self.shape(own) for own in self.attributes]
        axis = np.concatenate(
            [np.tile(own, (math.prod(n), 1)) for own, n in zip(self.attributes, shapes, strict=True)]
        )
        code = np.concatenate([np.indices(n).reshape(len(n), -1).T for n in shapes])
        functions, row = dict(whole.functions), np.zeros((whole.n_terms, len(self.sizes)), np.int64)
        for a in {a for own in self.attributes for a in own}:
            known, is_own = functions.get(a, Functions(np.zeros((0, self.sizes[a])))), whole.attribute == a
            functions[a] = replace(known, at_codes=True)
            # The number of each term's function, or that of all functions if it has none.
            number = np.where(is_own.any(axis=1), (is_own * whole.row).sum(axis=1), len(known))
            row[:, a] = len(known) + number * self.sizes[a]
        own_row = row[:, axis].transpose(1, 0, 2) + code[:, None]
        n, n_terms, width = len(axis), whole.n_terms, axis.shape[1] + whole.attribute.shape[1]
        on_axes = (whole.attribute[None, :, :, None] == axis[:, None, None, :]).any(axis=3)
        rest = np.where(on_axes, -1, whole.attribute)
        own = np.broadcast_to(axis[:, None], own_row.shape)
        rest_row = np.broadcast_to(whole.row, rest.shape)
        return Batch(
            n=n,
            quantity=np.repeat(np.arange(n), n_terms),
            attribute=np.concatenate([own, rest], axis=2).reshape(-1, width),
            row=np.concatenate([own_row, rest_row], axis=2).reshape(-1, width),
            functions=functions,
        )


def pack_grids(quantity: Quantity, attributes: Sequence[Sequence[int]], schema: Schema) -> Grids:
    """A quantity in every cell of some grids of codes, given by their attributes."""
    return Grids(pack([quantity], schema), attributes, schema.sizes)
