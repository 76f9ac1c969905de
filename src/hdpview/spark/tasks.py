"""The code that runs inside Spark tasks. It depends on rows and keys of blocks alone, so it may run twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hdpview.counts.rows import RowLayout, Rows
from hdpview.counts.sparse import Codes
from hdpview.counts.tally import Tally, add_all
from hdpview.partition.grow import ExactBlocks
from hdpview.partition.top import Route, add_above, add_statistics, slots_of
from hdpview.privacy.randomness import KEY_WORDS
from hdpview.spark.chunks import chunk_arrays

Integers = NDArray[np.int64]
Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Finish = Callable[[Codes, Integers, ExactBlocks], ExactBlocks]

NUMBERS = pa.schema([("slot", pa.int32()), ("numbers", pa.binary())])
ROWS = pa.schema([("slot", pa.int32()), ("codes", pa.binary()), ("counts", pa.binary())])
LEAVES = pa.schema([("slot", pa.int32()), ("n", pa.int64()), ("total", pa.int64()), ("leaves", pa.binary())])


@dataclass(frozen=True)
class Chunks:
    """How to read chunks of cells."""

    n_attributes: int
    dtype: Any

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Codes, Integers]]:
        """Codes and counts of the rows of each chunk."""
        for batch in batches:
            for codes, counts in zip(batch["codes"], batch["counts"], strict=True):
                yield chunk_arrays(codes, counts, self.n_attributes, self.dtype)

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Rows]:
        """Cells as rows that each stand for several records."""
        for codes, counts in self.read(batches):
            yield Rows(tuple(codes.T), counts)


@dataclass(frozen=True)
class RowChunks:
    """How to read chunks of rows."""

    layout: RowLayout

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Rows]:
        """The rows of each chunk."""
        for batch in batches:
            for rows in batch["rows"]:
                yield self.layout.from_bytes(rows.as_buffer())


@dataclass(frozen=True)
class RoutedChunks:
    """How to read chunks of cells, and how cells find their blocks."""

    chunks: Chunks
    route: Route

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Codes, Integers, NDArray[np.int32]]]:
        """Codes, counts and slots of the rows of each chunk."""
        for codes, counts in self.chunks.read(batches):
            yield codes, counts, slots_of(codes, self.route)


@dataclass(frozen=True)
class Tallied:
    """Tallies of a partition: the number of rows, then each statistic in a slot of its own.

    Several tasks can thus share the work of adding up the slots.
    """

    chunks: Chunks | RowChunks
    tally: Tally

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        n_rows = np.zeros(1, np.int64)

        def counted() -> Iterator[Rows]:
            for rows in self.chunks.rows(batches):
                n_rows[0] += len(rows)
                yield rows

        exact_sums = add_all(self.tally, counted())
        yield _numbers([n_rows, *np.split(exact_sums, np.cumsum(self.tally.lengths)[:-1])])


@dataclass(frozen=True)
class Statistics:
    """`add_statistics` of a partition's cells, per slot."""

    chunks: RoutedChunks
    offsets: Integers
    n_values: int
    least_above: Integers

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        out = np.zeros((len(self.least_above), 2 + 2 * self.n_values), np.int64)
        for codes, counts, slots in self.chunks.read(batches):
            add_statistics(codes, counts, slots, self.offsets, self.least_above, out)
        yield _numbers(list(out))


@dataclass(frozen=True)
class AboveCuts:
    """`add_above` of a partition's cells, per slot. sides: lower, upper, least_left and least_right."""

    chunks: RoutedChunks
    offsets: Integers
    sides: tuple[NDArray[Any], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        n_slots, n_values = self.sides[-1].shape
        out = np.zeros((n_slots, 3 * n_values), np.int64)
        for codes, counts, slots in self.chunks.read(batches):
            add_above(codes, counts, slots, self.offsets, *self.sides, out)
        yield _numbers(list(out))


def _numbers(out: list[Integers]) -> pa.RecordBatch:
    """One row per slot that is not all zero."""
    slots = [slot for slot, numbers in enumerate(out) if numbers.any()]
    return pa.record_batch(
        [pa.array(slots, pa.int32()), pa.array([out[slot].tobytes() for slot in slots], pa.binary())],
        schema=NUMBERS,
    )


def summed(rows: pa.Table) -> pa.Table:
    """Sum the numbers of one slot over all partitions."""
    parts = [np.frombuffer(numbers.as_buffer(), np.int64) for numbers in rows["numbers"]]
    total = np.sum(parts, axis=0, dtype=np.int64)
    return pa.table([rows["slot"][:1], [total.tobytes()]], schema=NUMBERS)


@dataclass(frozen=True)
class RowsBySlot:
    """Split chunks by slot."""

    chunks: RoutedChunks

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for codes, counts, slots in self.chunks.read(batches):
            order = np.flatnonzero(slots >= 0)
            order = order[np.argsort(slots[order], kind="stable")]
            present, starts = np.unique(slots[order], return_index=True)
            parts = np.split(order, starts[1:]) if len(present) else []
            contents = ([array[part].tobytes() for part in parts] for array in (codes, counts))
            yield pa.record_batch([present, *contents], schema=ROWS)


@dataclass(frozen=True)
class Subtree:
    """Grow the block of one slot to its leaves in the task that holds all its rows."""

    n_attributes: int
    dtype: Any
    blocks: tuple[ExactBlocks, ...]
    finish: Finish

    def __call__(self, rows: pa.Table) -> pa.Table:
        parts = [
            chunk_arrays(*row, self.n_attributes, self.dtype)
            for row in zip(rows["codes"], rows["counts"], strict=True)
        ]
        codes, counts = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        slot = rows["slot"][0].as_py()
        leaves = finished(codes, counts, self.blocks[slot], self.finish)
        arrays = [array.reshape(len(leaves), -1).astype(np.int64) for array in leaves.as_tuple()]
        values = slot, len(counts), int(counts.sum()), np.concatenate(arrays, axis=1).tobytes()
        return pa.table([[value] for value in values], schema=LEAVES)


def finished(codes: Codes, counts: Integers, block: ExactBlocks, finish: Finish) -> ExactBlocks:
    """The leaves of a block from its own rows; `exact_first` and `exact_last` refer to the whole table."""
    first = block.exact_first[0]
    own = replace(block, exact_first=np.zeros(1, np.int64), exact_last=np.array([len(counts)], np.int64))
    leaves = finish(codes, counts, own)
    return replace(leaves, exact_first=leaves.exact_first + first, exact_last=leaves.exact_last + first)


def leaves_of(content: bytes, n_attributes: int) -> ExactBlocks:
    """The leaves that a task returned: one row of numbers per leaf."""
    widths = [n_attributes, n_attributes, 1, KEY_WORDS, 1, 1]
    numbers = np.frombuffer(content, np.int64).reshape(-1, sum(widths) + 1)
    lower, upper, depth, keys, *rows = np.split(numbers, np.cumsum(widths), axis=1)
    bounds = lower.astype(np.int32), upper.astype(np.int32), depth[:, 0].astype(np.int32)
    return ExactBlocks(*bounds, np.ascontiguousarray(keys, np.uint32), *(column[:, 0] for column in rows))
