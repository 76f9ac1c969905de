"""Synthetic records: drawn from a view's consistent counts. Post-processing, so they cost no budget and a seed harms nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hdpview.domain import Attribute, Datetime, Ordered
from hdpview.errors import QueryError
from hdpview.view.data import ViewData

MAX_ROWS = 1_000_000_000


def draw(view: ViewData, n: int, seed: int | None = None) -> pa.Table:
    """`n` records in random order, with the schema's columns.

    A block is drawn in proportion to its count, none of which is negative, then a cell of it, then a value of each bin, evenly.
    Whole numbers come as int64, reals as double, datetimes as timestamps, categories as text, missing values as null.
    """
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or not 0 <= n <= MAX_ROWS:
        raise QueryError(f"The number of records is a whole number from 0 to {MAX_ROWS:,}, not {n!r}.")
    rng = np.random.default_rng(seed)
    blocks = _draw_blocks(view, int(n), rng)
    columns = [_values(attribute, _draw_codes(view, a, blocks, rng), rng) for a, attribute in enumerate(view.schema)]
    return pa.table(columns, names=list(view.schema.names))


def _draw_blocks(view: ViewData, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A block per record, independently: together they are multinomial, and already in random order."""
    reach = np.cumsum(view.blocks.consistent_counts)
    if n and reach[-1] <= 0:
        raise QueryError("The view's counts add up to nothing, so there is nothing to draw records from.")
    found = np.searchsorted(reach, rng.random(n) * reach[-1], side="right").astype(np.int64)
    last = int(np.flatnonzero(view.blocks.consistent_counts)[-1]) if n else 0
    blocks: NDArray[np.int64] = np.minimum(found, last)
    return blocks


def _draw_codes(view: ViewData, a: int, blocks: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    lower, upper = view.blocks.lower[blocks, a].astype(np.int64), view.blocks.upper[blocks, a]
    codes: NDArray[np.int64] = lower + (rng.random(len(blocks)) * (upper - lower)).astype(np.int64)
    return codes


def _values(attribute: Attribute, codes: NDArray[np.int64], rng: np.random.Generator) -> pa.Array:
    if not isinstance(attribute, Ordered):
        names: list[object] = [False, True] if attribute.kind == "boolean" else list(attribute.value_labels())
        return pa.array(names + [None] * attribute.nullable).take(pa.array(codes))
    missing = codes == attribute.null_code if attribute.nullable else np.zeros(len(codes), dtype=bool)
    bins = np.where(missing, 0, codes)
    start, width = attribute.edges[bins], np.diff(attribute.edges)[bins]
    inside = rng.random(len(codes)) * width
    if not attribute.whole:
        return pa.array(start + inside, mask=missing)
    whole = start + np.minimum(inside.astype(np.int64), width - 1)
    return pa.array(whole, pa.timestamp("us") if isinstance(attribute, Datetime) else pa.int64(), mask=missing)
