"""Evaluate quantities over components: all estimates of a view are computed here.

The mean of a term over a component is the product of its functions' means there, so a quantity is a weighted
sum of products. Grids of groups are the same with some attributes kept apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpview.errors import QueryError
from hdpview.query.question.batch import Batch, Functions, Grids, pack_grids
from hdpview.query.question.quantities import Quantity
from hdpview.view.data import Components, ViewData, ViewPart

Floats = NDArray[np.float64]
MAX_GROUPS = 250_000
_MAX_ARRAY_SIZE = 4_000_000  # maximum size of an array of terms × components
_IN_CACHE = 40_000  # few enough to stay in the processor's cache


def estimates(view: ViewData, asked: Batch | Grids) -> Floats:
    """The consistent estimate of each quantity, shape (n,)."""
    sums: Floats = np.sum([part_estimates(part, asked) for part in view.parts], axis=0)
    return sums


def part_estimates(part: ViewPart, asked: Batch | Grids) -> Floats:
    """The consistent estimate of each quantity from one part of a view, shape (n,)."""
    if isinstance(asked, Grids):
        return _estimates_of_grids(part.components, asked)
    return sums_over_components(part.components, asked, part.components.weight)


def sums_over_components(components: Components, batch: Batch, weight: Floats) -> Floats:
    """Each quantity, summed over components with these weights, shape (n,)."""
    sums = np.zeros(len(batch))
    for quantities, piece, means in term_means(components, batch):
        sums[quantities] = piece.sums(means @ weight)
    return sums


def term_means(components: Components, batch: Batch) -> Iterator[tuple[slice, Batch, Floats]]:
    """In pieces: quantities, their batch, and each term's mean per component, (n_terms, n_components)."""
    n_functions = sum(map(len, batch.functions.values()))
    means_of_all = (
        function_means(components, batch) if n_functions * len(components) <= 2 * _MAX_ARRAY_SIZE else None
    )
    at_once = min(max(_IN_CACHE // len(components), 64), max(1, _MAX_ARRAY_SIZE // len(components)))
    for quantities, piece in batch.split(at_once):
        used = piece if means_of_all is not None else _used(piece)
        factors = function_means(components, used) if means_of_all is None else means_of_all
        means = factors[used.place[:, 0]] if used.place.shape[1] else np.ones((used.n_terms, len(components)))
        for position in range(1, used.place.shape[1]):
            means *= factors[used.place[:, position]]
        yield quantities, piece, means


def _used(batch: Batch) -> Batch:
    """The batch with only those functions that its terms use."""
    functions: dict[int, Functions] = {}
    row = batch.row.copy()
    for a, own in batch.functions.items():
        here = batch.attribute == a
        used, row[here] = np.unique(batch.row[here], return_inverse=True)
        if len(used):
            functions[a] = own.chosen(used)
    return Batch(batch.n, batch.quantity, batch.attribute, row, functions)


def function_means(components: Components, batch: Batch) -> Floats:
    """Mean of all functions in all components, as `Batch.place` numbers them, (n_functions, n_components)."""
    means: Floats = batch.of_functions(
        np.ones(len(components)), lambda a, functions: components.factors(a, functions.values)
    )
    return means


def grid_estimates(view: ViewData, quantity: Quantity, attributes: Sequence[int]) -> Floats:
    """The consistent estimate of a quantity in every combination of codes, one axis per attribute."""
    grid = pack_grids(quantity, [attributes], view.schema)
    check_number_of_groups(len(grid))
    return estimates(view, grid).reshape(grid.shape(attributes))


def _estimates_of_grids(components: Components, asked: Grids) -> Floats:
    flat = [np.zeros(0)]
    factors = function_means(components, asked.whole)
    everywhere = components.weight * factors[asked.whole.place].prod(axis=1).sum(axis=0)
    for attributes in asked.attributes:
        if asked.whole.functions.keys().isdisjoint(attributes):
            flat.append(components.grid(attributes, everywhere).reshape(-1))
            continue
        cells = np.zeros(asked.shape(attributes))
        for on_axes, mean in grid_terms(asked.whole, factors, attributes, cells.shape):
            grid = components.grid(attributes, components.weight * mean)
            cells += grid if on_axes is None else grid * on_axes
        flat.append(cells.reshape(-1))
    return np.concatenate(flat)


def grid_terms(
    batch: Batch, factors: Floats, attributes: Sequence[int], shape: tuple[int, ...]
) -> Iterator[tuple[Floats | None, Floats]]:
    """A quantity over a grid as a sum of products: a factor per cell, and the mean of the rest in each
    component.

    batch: of the quantity alone. factors: `function_means` of it. shape: of the grid. Yields (factor, shape
    of the grid, or None for 1; mean, shape (n_components,)). Terms that have the same functions of the grid's
    attributes are put together.
    """
    together: dict[tuple[int, ...], Any] = {}
    for own, rows, places in zip(batch.attribute.tolist(), batch.row.tolist(), batch.place, strict=True):
        row_of = dict(zip(own, rows, strict=True))
        rest = [place for a, place in zip(own, places, strict=True) if a not in attributes]
        key = tuple(row_of.get(a, -1) for a in attributes)
        together[key] = together.get(key, 0.0) + factors[rest].prod(axis=0)
    for key, mean in together.items():
        if all(row < 0 for row in key):
            yield None, mean
            continue
        on_axes = [
            batch.functions[a].values[row] if row >= 0 else np.ones(size)
            for a, row, size in zip(attributes, key, shape, strict=True)
        ]
        yield reduce(np.multiply.outer, on_axes), mean


def check_number_of_groups(n: int) -> None:
    if n > MAX_GROUPS:
        raise QueryError(
            f"That makes {n:,} groups; the limit is {MAX_GROUPS:,}. Group by fewer attributes or by "
            "wider bins."
        )
