"""Invented tables with extreme properties: what holds on them should hold on most tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts, code_type
from hdpview.domain import Category, Integer, Schema

N_ROWS = 30_000
_SIZES = (100, 60, 20, 12, 5, 2)
_CATEGORIES = (3, 4)  # the others are numbers
Rows = NDArray[np.int64]


def _one_cell(_: Generator) -> Rows:
    return np.tile(np.array(_SIZES) // 2, (N_ROWS, 1))


def _uniform(rng: Generator) -> Rows:
    return rng.integers(0, _SIZES, (N_ROWS, len(_SIZES)))


def _function(rng: Generator) -> Rows:
    """The second attribute is a function of the first, and the fourth of the third, neither monotone."""
    rows = _uniform(rng)
    for a, b in ((0, 1), (2, 3)):
        image = rng.integers(0, _SIZES[b], _SIZES[a])
        rows[:, b] = image[rows[:, a]]
    return rows


def _heavy_tails(rng: Generator) -> Rows:
    """A few values hold most records, and rarity is correlated across attributes."""
    common = rng.pareto(1.0, (N_ROWS, 1))
    rows = (common * rng.pareto(1.2, (N_ROWS, len(_SIZES)))).astype(np.int64)
    clipped: Rows = np.minimum(rows, np.array(_SIZES) - 1)
    return clipped


EXTREMES: dict[str, Callable[[Generator], Rows]] = {
    "one-cell": _one_cell,
    "uniform": _uniform,
    "function": _function,
    "heavy-tails": _heavy_tails,
}


def extreme_counts(name: str) -> SparseCounts:
    """Occupied cells of one of these tables; the same in every run."""
    schema = Schema(
        [
            Category(name=f"a{i}", values=tuple(f"v{code}" for code in range(size)))
            if i in _CATEGORIES
            else Integer(name=f"a{i}", min=0, max=size - 1)
            for i, size in enumerate(_SIZES)
        ]
    )
    rows = EXTREMES[name](np.random.default_rng(7)).astype(code_type(schema))
    cells, counts = np.unique(rows, axis=0, return_counts=True)
    return SparseCounts(schema, np.ascontiguousarray(cells), counts.astype(np.int64))
