"""Quantiles and modes of groups, from a scan with the argument as one more key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hdpview.query.evaluate.aggregates import EMPTY
from hdpview.query.evaluate.scan import OrderedColumn, Scan, key_name

Floats = NDArray[np.float64]
# Numbers of an array of draws × groups × values: 400 MB.
MAX_NUMBERS = 50_000_000
# A share of a record: ranks that differ by less are the same.
_SLACK = 1e-7


def ordered_values(scan: Scan, ordered: OrderedColumn, counts: Floats) -> pa.Array:
    """The column of a quantile or mode, draws after one another. counts: shape (n_draws + 1, n_cells)."""
    from hdpview.errors import QueryError

    inner = ordered.scan
    keys = inner.key_table()
    argument = keys.column(key_name(len(scan.keys)))
    distinct = argument.combine_chunks().dictionary_encode()
    values, which = distinct.dictionary, distinct.indices.to_numpy(zero_copy_only=False)
    group = _groups(scan, keys)
    n_draws, n_groups, n_values = len(counts), scan.n_groups, len(values)
    if n_draws * n_groups * max(n_values, 1) > MAX_NUMBERS:
        raise QueryError("Quantiles of so many groups take too long. Group by less, or narrow with WHERE.")
    histogram = np.zeros((n_draws, n_groups, max(n_values, 1)))
    if ordered.kind == "mode":
        if not n_values:
            return pa.nulls(n_draws * n_groups, argument.type)
        histogram[:, group, which] = counts
        best = histogram.argmax(axis=2).reshape(-1)
        none = histogram.max(axis=2).reshape(-1) <= EMPTY
        return values.take(pa.array(best, mask=none))
    numbers = np.array(values.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    order = np.argsort(numbers)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    if not n_values:
        return pa.nulls(n_draws * n_groups, pa.float64())
    np.add.at(histogram, (slice(None), group, place[which]), counts)
    found = quantiles(histogram, numbers[order], ordered.q, ordered.discrete)
    return pa.array(found.reshape(-1), from_pandas=True)


def quantiles(histogram: Floats, values: Floats, q: float, discrete: bool) -> Floats:
    """Quantiles as DuckDB computes them, shape (n_draws, n_groups). values: rising."""
    running = np.maximum.accumulate(np.cumsum(histogram, axis=2), axis=2)
    total = running[..., -1]
    if discrete:
        rank = np.maximum(np.ceil(total * q - _SLACK) - 1, 0)
        found: Floats = _at(running, total, rank, values)
    else:
        rank = np.maximum(q * (total - 1), 0)
        below = _at(running, total, np.floor(rank + _SLACK), values)
        above = _at(running, total, np.ceil(rank - _SLACK), values)
        found = below + (above - below) * np.clip(rank - np.floor(rank + _SLACK), 0, 1)
    return np.where(total > EMPTY, found, np.nan)


def _at(running: Floats, total: Floats, rank: Floats, values: Floats) -> Floats:
    """The value of the record with this rank."""
    reached = np.minimum(rank, total - 1e-6)
    place = (running <= reached[..., None] + _SLACK).sum(axis=2)
    found: Floats = values[np.minimum(place, len(values) - 1)]
    return found


def _groups(scan: Scan, keys: pa.Table) -> NDArray[np.int64]:
    """The group of each cell of the scan with one more key."""
    names = [key_name(i) for i in range(len(scan.keys))]
    if not names:
        return np.zeros(len(keys), np.int64)
    own = scan.key_table()
    lists: list[list[Any]] = [own.column(name).to_pylist() for name in names]
    place = {row: g for g, row in enumerate(zip(*lists, strict=True))}
    lists = [keys.column(name).to_pylist() for name in names]
    return np.array([place[row] for row in zip(*lists, strict=True)], dtype=np.int64)
