"""Pairs of neighbouring tables that a leak would show on: small domains, known to the last record, one person
more in one of them.

The auditor is the strongest adversary there is: they know both tables and every setting, and must tell which
    one a view came from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts, code_type
from hdpview.domain import Integer, Schema

# Two attributes, found by search: of all small tables looked at, one where the first two cuts together tell
# most.
CONTRAST = [[0, 0, 2, 2, 4, 1], [0, 0, 2, 2, 2, 2], [0, 0, 2, 2, 2, 5]]


@dataclass(frozen=True)
class Neighbours:
    """Two tables that differ by the records of one person, all of them in the canary's cell."""

    name: str
    without: SparseCounts
    with_canary: SparseCounts
    canary: tuple[int, ...]


def neighbours(epsilon: float, max_rows: int = 1) -> Iterator[Neighbours]:
    """The pairs to try, for a budget: how many records are on the verge of being noticed depends on it.

    max_rows: records of the person that only one of the tables has.
    """
    verge = max(1, round(5 / epsilon)) * max_rows
    yield pair("nobody or one person", np.zeros(4, np.int64), (1,), max_rows)
    yield pair("nobody or one person in a large domain", np.zeros((2,) * 8, np.int64), (0,) * 8, max_rows)
    yield pair("a path to one crowded cell", _single((2,) * 7, (1,) * 7, verge), (1,) * 7, max_rows)
    yield pair("a hole in a dense block", _holed((4, 4), (1, 1), max_rows), (1, 1), max_rows)
    yield pair("a corner between full and empty", np.array(CONTRAST, np.int64) * max_rows, (1, 1), max_rows)


def pair(name: str, exact_cells: NDArray[np.int64], canary: tuple[int, ...], rows: int = 1) -> Neighbours:
    """The table with these counts in its cells, and the one with `rows` more in the canary's cell."""
    more = exact_cells.copy()
    more[canary] += rows
    return Neighbours(name, sparse(exact_cells), sparse(more), canary)


def sparse(exact_cells: NDArray[np.int64]) -> SparseCounts:
    """Counts in all cells of a small domain as occupied cells."""
    schema = Schema(
        [Integer(name=f"attribute {a}", min=0, max=size - 1) for a, size in enumerate(exact_cells.shape)]
    )
    occupied = np.argwhere(exact_cells > 0)
    codes = np.ascontiguousarray(occupied.astype(code_type(schema)))
    return SparseCounts(schema, codes, exact_cells[tuple(occupied.T)].astype(np.int64))


def _single(sizes: tuple[int, ...], cell: tuple[int, ...], records: int) -> NDArray[np.int64]:
    cells = np.zeros(sizes, np.int64)
    cells[cell] = records
    return cells


def _holed(sizes: tuple[int, ...], hole: tuple[int, ...], records: int) -> NDArray[np.int64]:
    cells = np.full(sizes, records, np.int64)
    cells[hole] = 0
    return cells
