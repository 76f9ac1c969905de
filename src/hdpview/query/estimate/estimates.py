"""Quantities evaluated over components: the one place where a view is asked anything.

The mean of a term over a component is the product of its functions' means there, so a quantity is a weighted
sum of products. Grids of groups are the same with some attributes kept apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Schema
from hdpview.errors import QueryError
from hdpview.query.question.conditions import code_shares
from hdpview.query.question.quantities import Batch, Functions, Part, Quantity
from hdpview.view.components import Components
from hdpview.view.data import ViewData, ViewPart

Floats = NDArray[np.float64]
MAX_GROUPS = 250_000
_AT_ONCE = 4_000_000  # numbers of an array of terms × components
_IN_CACHE = 40_000  # numbers that stay near the processor


def estimates(view: ViewData, batch: Batch) -> Floats:
    """The consistent estimate of each quantity, shape (n,)."""
    found: Floats = np.sum([part_estimates(part, batch) for part in view.parts], axis=0)
    return found


def part_estimates(part: ViewPart, batch: Batch) -> Floats:
    """The consistent estimate of each quantity from one part of a view, shape (n,)."""
    found = np.zeros(len(batch))
    at_once = max(_IN_CACHE, min(_AT_ONCE, 64 * len(part.components)))
    for quantities, piece, means in term_means(part.components, batch, at_once):
        found[quantities] = piece.sums(means @ part.components.weight)
    return found


def term_means(
    components: Components, batch: Batch, at_once: int = _AT_ONCE
) -> Iterator[tuple[slice, Batch, Floats]]:
    """In pieces: which quantities, their batch, and the mean of each term in each component, (n_terms,
    n_components).

    at_once: numbers of an array of terms × components.
    """
    functions = (
        _factors(components, batch) if _total_functions(batch) * len(components) <= 2 * _AT_ONCE else None
    )
    for quantities, piece in batch.split(max(1, at_once // len(components))):
        factors = _factors(components, _used(piece)) if functions is None else functions
        places = _used(piece).place if functions is None else piece.place
        first = factors[places[:, 0]] if places.shape[1] else np.ones((len(places), len(components)))
        means = first * piece.constant[:, None]
        for position in range(1, places.shape[1]):
            means *= factors[places[:, position]]
        yield quantities, piece, means


def _total_functions(batch: Batch) -> int:
    return sum(map(len, batch.functions.values()))


def _used(batch: Batch) -> Batch:
    """The batch with only those functions that its terms use."""
    functions: dict[int, Functions] = {}
    row = batch.row.copy()
    for a, own in batch.functions.items():
        assert isinstance(own, np.ndarray)
        here = batch.attribute == a
        used, row[here] = np.unique(batch.row[here], return_inverse=True)
        if len(used):
            functions[a] = own[used]
    return Batch(batch.n, batch.quantity, batch.constant, batch.attribute, row, functions, functions)


def _factors(components: Components, batch: Batch) -> Floats:
    """Means of all functions in all components, as `Batch.place` numbers them."""
    rows = [np.ones((1, len(components)))]
    for a, functions in batch.functions.items():
        assert isinstance(functions, np.ndarray)
        rows.append(components.factors(a, functions))
    return np.concatenate(rows)


def grid_estimates(view: ViewData, quantity: Quantity, attributes: Sequence[int]) -> Floats:
    """The consistent estimate of a quantity in every combination of codes, one axis per attribute."""
    schema = view.schema
    check_number_of_groups(int(np.prod([schema.sizes[a] for a in attributes], dtype=np.float64)))
    found = np.zeros([schema.sizes[a] for a in attributes])
    for part in view.parts:
        for on_axes, mean in grid_terms(part.components, quantity, attributes, schema):
            grid = part.components.grid(attributes, part.components.weight * mean)
            found += grid if on_axes is None else grid * on_axes
    return found


def histogram_estimates(
    components: Components, quantity: Quantity, attributes: Sequence[int], schema: Schema
) -> Floats:
    """The consistent estimate of a quantity at every code of every attribute, one attribute after another,
    flat.
    """
    found = {a: np.zeros(schema.sizes[a]) for a in attributes}
    for part in quantity:
        functions = {a: _function(schema, part, a) for a in part.attributes}
        means = {a: components.factors(a, function[None])[0] for a, function in functions.items()}
        for a in attributes:
            others = (mean for b, mean in means.items() if b != a)
            own = components.grid([a], reduce(np.multiply, others, components.weight * part.constant))
            found[a] += own * functions[a] if a in functions else own
    return np.concatenate([np.zeros(0), *found.values()])


def grid_terms(
    components: Components, quantity: Quantity, attributes: Sequence[int], schema: Schema
) -> Iterator[tuple[Floats | None, Floats]]:
    """A quantity over a grid as a sum of products: a factor per cell, and the mean of the rest in each
    component.

    Yields (factor, shape of the grid, or None for 1; mean, shape (n_components,)). Parts of the quantity that
    treat the grid's attributes alike are put together.
    """
    together: dict[tuple[object, ...], tuple[list[Floats] | None, Floats]] = {}
    for part in quantity:
        mean = np.full(len(components), part.constant)
        for a in part.attributes:
            if a not in attributes:
                mean = mean * components.factors(a, _function(schema, part, a)[None])[0]
        on_grid = [a for a in attributes if a in part.attributes]
        key = tuple((a, part.box.get(a), *map(id, part.values_of(a))) for a in on_grid)
        if key in together:
            together[key] = together[key][0], together[key][1] + mean
        else:
            together[key] = [_function(schema, part, a) for a in attributes] if on_grid else None, mean
    for factors, mean in together.values():
        yield None if factors is None else reduce(np.multiply.outer, factors), mean


def _function(schema: Schema, part: Part, a: int) -> Floats:
    """What a part makes of each code of an attribute, shape (size,)."""
    condition = part.box.get(a)
    found = np.ones(schema.sizes[a]) if condition is None else code_shares(schema.attributes[a], condition)
    for values in part.values_of(a):
        found = found * values.mean
    return found


def check_number_of_groups(n: int) -> None:
    if n > MAX_GROUPS:
        raise QueryError(
            f"That makes {n:,} groups; the limit is {MAX_GROUPS:,}. Group by fewer attributes or by "
            "wider bins."
        )
