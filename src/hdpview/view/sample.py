"""Synthetic records: drawn from a view's consistent counts. Post-processing, so they cost no budget and a
seed harms nothing.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hdpview.domain import Attribute, Datetime, Ordered
from hdpview.errors import QueryError
from hdpview.view.data import ViewData
from hdpview.view.within import Within

MAX_ROWS = 1_000_000_000
_AT_ONCE = 100_000  # records


def draw(view: ViewData, n: int, seed: int | None = None) -> pa.Table:
    """`n` records in random order, with the schema's columns.

    A block is drawn in proportion to its count, none of which is negative, then a cell of it, evenly or as
    the base says, then a value of each bin, evenly. Whole numbers come as int64, reals as double, datetimes
    as timestamps, categories as text, missing values as null.
    """
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or not 0 <= n <= MAX_ROWS:
        raise QueryError(f"The number of records is a whole number from 0 to {MAX_ROWS:,}, not {n!r}.")
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0):
        raise QueryError(f"A seed is a whole number from 0, not {seed!r}.")
    rng = np.random.default_rng(seed)
    blocks = _draw_blocks(view, int(n), rng)
    drawn = _draw_codes_by_base(view, blocks, rng) if view.blocks.bases else None
    columns = []
    for a, attribute in enumerate(view.schema):
        columns.append(
            _values(
                attribute,
                _draw_codes(view, a, blocks, rng) if drawn is None else drawn[a].astype(np.int64),
                rng,
            )
        )
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


def _draw_codes(
    view: ViewData, a: int, blocks: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    lower, upper = view.blocks.lower[blocks, a].astype(np.int64), view.blocks.upper[blocks, a]
    codes: NDArray[np.int64] = lower + (rng.random(len(blocks)) * (upper - lower)).astype(np.int64)
    return codes


def _draw_codes_by_base(
    view: ViewData, blocks: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int32]:
    """Codes of every attribute, shape (n_attributes, n): some records at a time, each part by its own
    base.
    """
    codes = np.empty((len(view.schema), len(blocks)), np.int32)
    for start in range(0, len(blocks), _AT_ONCE):
        some = blocks[start : start + _AT_ONCE]
        for within in view.blocks.levels[0].within:
            mine = np.flatnonzero((within.first <= some) & (some < within.last))
            codes[:, start + mine] = _draw_within(within, some[mine] - within.first, rng)
    return codes


def _draw_within(within: Within, blocks: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int32]:
    """Codes, shape (n_attributes, n): bins down the forest, each given its parent's and the block, then codes
    by their shape.
    """
    base, codes = within.base, np.empty((len(within.nodes), len(blocks)), np.int32)
    bins: dict[int, NDArray[np.int64]] = {}
    for a in reversed(base.upward):
        node, classes = within.nodes[a], within.nodes[a].class_of_block[blocks]
        bin_ = np.zeros(len(blocks), np.int64)
        if base.n_bins[a] > 1:
            row = bins[base.parent[a]] if base.parent[a] >= 0 else 0
            reach = np.cumsum(base.table[a][row] * node.inside[classes], axis=1)
            # A bin without any chance is never the first to reach beyond a number below the whole.
            bin_ = (reach <= rng.random(len(blocks))[:, None] * reach[:, -1:]).sum(axis=1)
            first, last = (
                base.bin_of_code[a][ends][classes].astype(np.int64) for ends in (node.lower, node.upper - 1)
            )
            bin_ = np.clip(bin_, first, last)
        bins[a] = bin_
        low, high = (
            np.maximum(node.lower[classes], base.bin_starts[a][bin_]),
            np.minimum(node.upper[classes], base.bin_starts[a][bin_ + 1]),
        )
        below, up_to = base.running[a][low], base.running[a][high]
        found = (
            np.searchsorted(base.running[a], below + rng.random(len(blocks)) * (up_to - below), side="right")
            - 1
        )
        codes[a] = np.clip(found, low, high - 1)
    return codes


def _values(attribute: Attribute, codes: NDArray[np.int64], rng: np.random.Generator) -> pa.Array:
    if not isinstance(attribute, Ordered):
        names: list[object] = [False, True] if attribute.kind == "boolean" else list(attribute.value_labels())
        return pa.array(names + [None] * attribute.nullable).take(pa.array(codes))
    missing = codes == attribute.null_code if attribute.nullable else np.zeros(len(codes), dtype=bool)
    bins = np.where(missing, 0, codes)
    start, width = attribute.edges[bins], np.diff(attribute.edges)[bins]
    inside = rng.random(len(codes)) * width
    if not attribute.whole:  # rounding may not lift a value into the next bin
        return pa.array(
            np.minimum(start + inside, np.nextafter(attribute.edges[bins + 1], -np.inf)), mask=missing
        )
    whole = start + np.minimum(inside.astype(np.int64), width - 1)
    return pa.array(
        whole, pa.timestamp("us") if isinstance(attribute, Datetime) else pa.int64(), mask=missing
    )
