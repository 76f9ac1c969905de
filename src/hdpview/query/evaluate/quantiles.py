"""Quantiles and modes of groups, from a scan with the argument as one more key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hdpview.errors import QueryError
from hdpview.query.evaluate.aggregates import EMPTY
from hdpview.query.evaluate.expressions import key_name
from hdpview.query.evaluate.heaps import Heaps
from hdpview.query.evaluate.scan import OrderedColumn, Scan

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# Maximum size of an array of draws × groups × values: 400 MB.
MAX_NUMBERS = 50_000_000
# Records; ranks that differ by less are equal.
_SLACK = 1e-7


def ordered_values(
    scan: Scan, ordered: OrderedColumn, counts: Floats, cursor: Any, heaps: Heaps | None
) -> pa.Array:
    """The column of a quantile or mode, one draw after another. counts: shape (n_draws + 1, n_cells)."""
    keys = ordered.scan.key_table()
    group = _groups(scan, keys)
    is_known = group >= 0  # values beyond the bounds may form a group here that the scan lacks
    keys, counts, group = keys.filter(pa.array(is_known)), counts[:, is_known], group[is_known]
    n_draws, n_groups = len(counts), scan.n_groups
    if ordered.argument is not None:
        drawn = _of_bins(scan, ordered, keys, counts, group, cursor, heaps)
        return pa.array(drawn.reshape(-1), from_pandas=True)
    argument = keys.column(key_name(len(scan.keys)))
    distinct = argument.combine_chunks().dictionary_encode()
    values, which = distinct.dictionary, distinct.indices.to_numpy(zero_copy_only=False)
    n_values = len(values)
    if not n_values:
        return pa.nulls(n_draws * n_groups, argument.type if ordered.kind == "mode" else pa.float64())
    _check_size(n_draws * n_groups * n_values)
    histogram = np.zeros((n_draws, n_groups, n_values))
    if ordered.kind == "mode":
        histogram[:, group, which] = counts
        best, most = histogram.argmax(axis=2).reshape(-1), histogram.max(axis=2).reshape(-1)
        return values.take(pa.array(best, mask=most <= EMPTY))
    numbers = np.array(values.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    order = np.argsort(numbers)
    place = np.argsort(order)
    histogram[:, group, place[which]] = counts
    return pa.array(
        quantiles(histogram, numbers[order], ordered.q, ordered.discrete).reshape(-1), from_pandas=True
    )


def _check_size(n: int) -> None:
    if n > MAX_NUMBERS:
        raise QueryError("Quantiles of so many groups take too long. Use fewer groups, or narrow with WHERE.")


def _of_bins(
    scan: Scan,
    ordered: OrderedColumn,
    keys: pa.Table,
    counts: Floats,
    group: Ints,
    cursor: Any,
    heaps: Heaps | None,
) -> Floats:
    """Quantiles from counts of bins: records lie at the points of their bin."""
    inner = ordered.scan
    a, values = ordered.values_of_points(cursor)
    points, attribute = inner.points(a), inner.database.schema.attributes[a]
    n_draws, n_groups, size = len(counts), scan.n_groups, attribute.size
    labels = keys.column(key_name(len(scan.keys))).to_pylist()
    code_of = {label: code for code, label in enumerate(inner.database.bin_labels(a))}
    code = np.array([code_of[label] for label in labels], dtype=np.int64)
    shown = np.flatnonzero(~np.isnan(values))
    order = shown[np.argsort(values[shown], kind="stable")]
    if len(order):
        ordered.range = float(values[order[0]]), float(values[order[-1]])
    _check_size(n_draws * n_groups * len(order))
    of_codes = np.zeros((n_draws, n_groups, size))
    of_codes[:, group, code] = counts
    share = np.broadcast_to(points.share[order], (n_draws, len(order)))
    if heaps is not None and inner.database.is_binned(a, a in inner.fine):
        share = np.concatenate([share[:1], heaps.point_shares(a, points, size)[:, order]])
    histogram = of_codes[:, :, points.code[order]] * share[:, None, :]
    return quantiles(histogram, values[order], ordered.q, ordered.discrete)


def quantiles(histogram: Floats, values: Floats, q: float, discrete: bool) -> Floats:
    """Quantiles as DuckDB computes them, shape (n_draws, n_groups). values: rising."""
    running = np.maximum.accumulate(np.cumsum(histogram, axis=2), axis=2)
    total = running[..., -1]
    if discrete:
        rank = np.maximum(np.ceil(total * q - _SLACK) - 1, 0)
        value: Floats = _at(running, total, rank, values)
    else:
        rank = np.maximum(q * (total - 1), 0)
        below = _at(running, total, np.floor(rank + _SLACK), values)
        above = _at(running, total, np.ceil(rank - _SLACK), values)
        value = below + (above - below) * np.clip(rank - np.floor(rank + _SLACK), 0, 1)
    return np.where(total > EMPTY, value, np.nan)


def _at(running: Floats, total: Floats, rank: Floats, values: Floats) -> Floats:
    """The value of the record with this rank."""
    reached = np.minimum(rank, total - 1e-6)
    place = (running <= reached[..., None] + _SLACK).sum(axis=2)
    value: Floats = values[np.minimum(place, len(values) - 1)]
    return value


def _groups(scan: Scan, keys: pa.Table) -> NDArray[np.int64]:
    """The group of each cell of the scan with one more key."""
    names = [key_name(i) for i in range(len(scan.keys))]
    if not names:
        return np.zeros(len(keys), np.int64)
    own = scan.key_table()
    lists: list[list[Any]] = [own.column(name).to_pylist() for name in names]
    place = {row: g for g, row in enumerate(zip(*lists, strict=True))}
    lists = [keys.column(name).to_pylist() for name in names]
    return np.array([place.get(row, -1) for row in zip(*lists, strict=True)], dtype=np.int64)
