"""The code that runs inside Spark tasks. It depends on rows and keys of blocks alone, so it may run twice.

Cells and rows are kept in chunks of bytes. Spark stores a chunk and hands it to Python unchanged, which takes
a fraction of the time that tables of Arrow batches take on their way through Java.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hdpview.counts.contributions import MOST_PER_ROW
from hdpview.counts.rows import Decoder, RowLayout, Rows
from hdpview.counts.sources import run_on_batches
from hdpview.counts.sparse import Codes, code_type
from hdpview.counts.tally import Tally, add_all
from hdpview.domain import Schema
from hdpview.partition.grow import ExactBlocks
from hdpview.partition.top import Route, add_above, add_statistics, slots_of

Batches = Iterator[pa.RecordBatch]
Integers = NDArray[np.int64]
Stored = Iterable[Any]  # rows of `CHUNK`
Numbers = Iterator[tuple[int, Integers]]  # the numbers of each slot
Task = Callable[[Stored], Numbers]
Finish = Callable[[Codes, Integers, ExactBlocks], ExactBlocks]

# Rows, or cells as rows that each stand for several records; and a pickled summary of them.
CHUNK = pa.schema([("rows", pa.binary()), ("summary", pa.binary())])
CELLS = pa.schema([("cell", pa.binary()), ("n", pa.int64())])
# Cells per chunk: about 1 MB of codes and counts with ten attributes.
_CELLS_PER_CHUNK = 65_536


def cells_of(batches: Batches, sql: str, schema: Schema) -> Batches:
    """In a task: the occupied cells of a partition, each as the bytes of its codes."""
    for batch in run_on_batches(sql, batches):
        codes = np.stack([batch[f"c_{i}"].to_numpy() for i in range(len(schema))], axis=1)
        width = codes.shape[1] * codes.itemsize
        cells = pa.Array.from_buffers(pa.binary(width), len(codes), [None, pa.py_buffer(codes.tobytes())])
        yield pa.record_batch([cells.cast(pa.binary()), batch["n"]], schema=CELLS)


def chunks_of_cells(batches: Batches, schema: Schema, layout: RowLayout) -> Batches:
    """In a task: gather cells of all partitions into chunks. Their summary: cells, records."""
    codes: list[Codes] = []
    counts: list[Integers] = []

    def gathered() -> pa.RecordBatch:
        rows = Rows(tuple(np.concatenate(codes).T), np.concatenate(counts))
        return _chunk(rows, layout, (len(rows), int(np.concatenate(counts).sum())))

    for batch in batches:
        cells = np.frombuffer(b"".join(batch["cell"].to_pylist()), code_type(schema))
        codes.append(cast("Codes", cells.reshape(len(batch), len(schema))))
        counts.append(np.minimum(batch["n"].to_numpy(), MOST_PER_ROW))
        if sum(map(len, counts)) >= _CELLS_PER_CHUNK:
            yield gathered()
            codes, counts = [], []
    if counts:
        yield gathered()


def chunks_of_rows(batches: Batches, sql: str, schema: Schema, layout: RowLayout) -> Batches:
    """In a task: encode the rows of a partition, in chunks of a few bytes per row. Their summary: states."""
    for batch in run_on_batches(sql, batches):
        decoder = Decoder(schema)
        for rows in decoder.rows_of(batch):
            yield _chunk(rows, layout, decoder.states)
            decoder = Decoder(schema)


def _chunk(rows: Rows, layout: RowLayout, summary: object) -> pa.RecordBatch:
    return pa.record_batch([[layout.to_bytes(rows)], [pickle.dumps(summary)]], schema=CHUNK)


def mapped(frame: Any, function: Callable[[Batches], Batches], schema: pa.Schema) -> Any:
    """Apply `function` to the batches of each partition, inside its task."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return frame.mapInArrow(function, from_arrow_schema(schema))


def tallied(stored: Stored, layout: RowLayout, tally: Tally) -> Numbers:
    """Number of rows of a partition, then a slot per statistic, so that tasks can share adding them up."""
    n_rows = np.zeros(1, np.int64)

    def counted() -> Iterator[Rows]:
        for rows, _ in stored:
            part = layout.from_bytes(rows)
            n_rows[0] += len(part)
            yield part

    exact_sums = add_all(tally, counted())
    return _nonzero([n_rows, *np.split(exact_sums, np.cumsum(tally.lengths)[:-1])])


def cells_in(stored: Stored, layout: RowLayout) -> Iterator[tuple[Codes, Integers]]:
    """Codes (n, n_attributes) and counts (n,) of the cells of each chunk."""
    for cells, _ in stored:
        rows = layout.from_bytes(cells)
        yield cast("Codes", np.stack(rows.exact_columns, axis=1)), cast("Integers", rows.exact_counts)


def routed(
    stored: Stored, layout: RowLayout, route: Route
) -> Iterator[tuple[Codes, Integers, NDArray[np.int32]]]:
    """Codes, counts and slots of the cells of each chunk."""
    for codes, counts in cells_in(stored, layout):
        yield codes, counts, slots_of(codes, route)


def statistics(
    stored: Stored, layout: RowLayout, route: Route, offsets: Integers, n_values: int, least_above: Integers
) -> Numbers:
    """`add_statistics` of a partition's cells, per slot."""
    out = np.zeros((len(least_above), 2 + 2 * n_values), np.int64)
    for codes, counts, slots in routed(stored, layout, route):
        add_statistics(codes, counts, slots, offsets, least_above, out)
    return _nonzero(out)


def above_cuts(
    stored: Stored, layout: RowLayout, route: Route, offsets: Integers, sides: tuple[NDArray[Any], ...]
) -> Numbers:
    """`add_above` of a partition's cells, per slot. sides: lower, upper, least_left and least_right."""
    n_slots, n_values = sides[-1].shape
    out = np.zeros((n_slots, 3 * n_values), np.int64)
    for codes, counts, slots in routed(stored, layout, route):
        add_above(codes, counts, slots, offsets, *sides, out)
    return _nonzero(out)


def _nonzero(numbers: Iterable[Integers]) -> Numbers:
    """The numbers of the slots that are not all zero."""
    return ((slot, own) for slot, own in enumerate(numbers) if own.any())


def cells_by_slot(
    stored: Stored, layout: RowLayout, route: Route
) -> Iterator[tuple[int, tuple[Codes, Integers]]]:
    """Split chunks by slot."""
    for codes, counts, slots in routed(stored, layout, route):
        order = np.flatnonzero(slots >= 0)
        order = order[np.argsort(slots[order], kind="stable")]
        present, starts = np.unique(slots[order], return_index=True)
        parts = np.split(order, starts[1:]) if len(present) else []
        for slot, part in zip(present.tolist(), parts, strict=True):
            yield slot, (codes[part], counts[part])


def subtree(
    slot_and_parts: tuple[int, Iterable[tuple[Codes, Integers]]],
    blocks: tuple[ExactBlocks, ...],
    finish: Finish,
) -> tuple[int, int, int, ExactBlocks]:
    """Grow the block of one slot to its leaves in the task that holds all its rows.

    Returns the slot, its cells, its records, and its leaves.
    """
    slot, parts = slot_and_parts
    codes, counts = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    leaves = finished(codes, counts, blocks[slot], finish)
    return slot, len(counts), int(counts.sum()), leaves


def finished(codes: Codes, counts: Integers, block: ExactBlocks, finish: Finish) -> ExactBlocks:
    """The leaves of a block from its own rows; `exact_first` and `exact_last` refer to the whole table."""
    first = block.exact_first[0]
    own = replace(block, exact_first=np.zeros(1, np.int64), exact_last=np.array([len(counts)], np.int64))
    leaves = finish(codes, counts, own)
    return replace(leaves, exact_first=leaves.exact_first + first, exact_last=leaves.exact_last + first)
