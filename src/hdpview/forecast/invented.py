"""Invented tables, from evenly spread records to records concentrated on a few values."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts, code_type
from hdpview.domain import Schema

# Share of records on each attribute's most frequent value, one per invented table; and, for one more table,
# the share of records on the most frequent values of all attributes at once.
HEAPED = (0.0, 0.3, 0.6, 0.9)
_HEAPED_TOGETHER = 0.95
_N_CLASSES = 6


def invented_tables(schema: Schema, n_at_once: int, n_rows: int, rng: Generator) -> list[SparseCounts]:
    """One table per degree of concentration, with all attributes or `n_at_once` random ones."""
    tables = []
    for heaped, together in [*((heaped, 0.0) for heaped in HEAPED), (0.0, _HEAPED_TOGETHER)]:
        part = schema
        if n_at_once < len(schema):
            chosen = sorted(rng.permutation(len(schema))[:n_at_once])
            part = Schema([schema.attributes[i] for i in chosen])
        tables.append(_invented_counts(part, n_rows, heaped, together, rng))
    return tables


def _invented_counts(
    schema: Schema, n_rows: int, heaped: float, together: float, rng: Generator
) -> SparseCounts:
    """Occupied cells of an invented table: a few classes of records, each with its own location and width on
    half of the attributes.

    A share `together` of the records lies on the peaks of its class in all attributes at once, and a share
    `heaped` on the peak of each attribute separately.
    """
    classes = rng.choice(_N_CLASSES, n_rows, p=rng.dirichlet(np.full(_N_CLASSES, 2.0)))
    on_top = rng.random(n_rows) < together
    columns = []
    for size in schema.sizes:
        shared = _invented_distribution(size, heaped, rng)
        column = np.empty(n_rows, np.int64)
        for k in range(_N_CLASSES):
            inside = classes == k
            chance = _invented_distribution(size, heaped, rng) if rng.random() < 0.5 else shared
            drawn = rng.choice(size, int(inside.sum()), p=chance)
            column[inside] = np.where(on_top[inside], chance.argmax(), drawn)
        columns.append(column)
    cells, counts = np.unique(np.stack(columns, axis=1).astype(code_type(schema)), axis=0, return_counts=True)
    return SparseCounts(schema, np.ascontiguousarray(cells), counts.astype(np.int64))


def _invented_distribution(size: int, heaped: float, rng: Generator) -> NDArray[np.float64]:
    """A peak that falls off to both sides, with a given share of all records at its top."""
    place = (np.arange(size) + 0.5) / size
    top, width = rng.beta(1, 2), rng.uniform(0.05, 0.4)
    shape = np.exp(-np.abs(place - top) / width)
    chance = (1 - heaped) * shape / shape.sum()
    chance[int(top * size)] += heaped
    normalised: NDArray[np.float64] = chance / chance.sum()
    return normalised
