"""What runs inside the tasks of Spark: arrays from bytes, a kernel over them, bytes again. No task draws
anything of its own.

A task that is run again, or twice at once, computes the same: its results depend on its rows and on the keys
    of blocks alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hdpview.counts.rows import RowLayout, Rows
from hdpview.counts.tally import Tally, add_all
from hdpview.counts.unpack import Codes
from hdpview.partition.grow import ExactBlocks
from hdpview.partition.top import Route, add_above, add_statistics, slots_of
from hdpview.spark.chunks import chunk_arrays

Integers = NDArray[np.int64]
Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Finish = Callable[[Codes, Integers, ExactBlocks], ExactBlocks]

NUMBERS = pa.schema([("slot", pa.int32()), ("numbers", pa.binary())])
ROWS = pa.schema([("slot", pa.int32()), ("codes", pa.binary()), ("counts", pa.binary())])
_ARRAYS = {
    "lower": np.int32,
    "upper": np.int32,
    "depth": np.int32,
    "keys": np.uint32,
    "first": np.int64,
    "last": np.int64,
    "sum": np.int64,
}
LEAVES = pa.schema(
    [
        ("slot", pa.int32()),
        ("n", pa.int64()),
        ("total", pa.int64()),
        *((name, pa.binary()) for name in _ARRAYS),
    ]
)


@dataclass(frozen=True)
class Chunks:
    """How to read chunks: common to all tasks."""

    n_attributes: int
    dtype: Any

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Codes, Integers]]:
        """Codes and counts of the rows of each chunk."""
        for batch in batches:
            for codes, counts in zip(batch["codes"], batch["counts"], strict=True):
                yield chunk_arrays(codes, counts, self.n_attributes, self.dtype)

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[Rows]:
        """Cells as rows that stand for several records."""
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
    """How to read chunks, and how rows find their blocks."""

    chunks: Chunks
    route: Route

    def read(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Codes, Integers, NDArray[np.int32]]]:
        """Codes, counts and slots of the rows of each chunk."""
        for codes, counts in self.chunks.read(batches):
            yield codes, counts, slots_of(codes, self.route)


@dataclass(frozen=True)
class Tallied:
    """What a tally finds in a partition: the number of rows, then each statistic, in slots of their own, so
    that no task has to add up all of them.
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
    """Per slot `add_statistics` of a partition's rows."""

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
    """Per slot `add_above` of a partition's rows."""

    chunks: RoutedChunks
    offsets: Integers
    lower: NDArray[np.int32]
    upper: NDArray[np.int32]
    least_left: Integers
    least_right: Integers

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        out = np.zeros((len(self.lower), 3 * self.least_left.shape[1]), np.int64)
        for codes, counts, slots in self.chunks.read(batches):
            bounds, least = (self.lower, self.upper), (self.least_left, self.least_right)
            add_above(codes, counts, slots, self.offsets, *bounds, *least, out)
        yield _numbers(list(out))


def _numbers(out: list[Integers]) -> pa.RecordBatch:
    """A row per slot that any row fell into."""
    slots = [slot for slot, numbers in enumerate(out) if numbers.any()]
    return pa.record_batch(
        [pa.array(slots, pa.int32()), pa.array([out[slot].tobytes() for slot in slots], pa.binary())],
        schema=NUMBERS,
    )


def summed(rows: pa.Table) -> pa.Table:
    """The sum of the numbers of one slot over all partitions."""
    total = np.sum(
        [np.frombuffer(numbers.as_buffer(), np.int64) for numbers in rows["numbers"]], axis=0, dtype=np.int64
    )
    return pa.table([rows["slot"][:1], [total.tobytes()]], schema=NUMBERS)


@dataclass(frozen=True)
class RowsBySlot:
    """Chunks taken apart: what of them lies in each slot."""

    chunks: RoutedChunks

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for codes, counts, slots in self.chunks.read(batches):
            order = np.argsort(slots, kind="stable")
            found, starts = np.unique(slots[order], return_index=True)
            parts = [
                order[a:b]
                for slot, a, b in zip(found, starts, [*starts[1:], len(order)], strict=True)
                if slot >= 0
            ]
            columns = [
                found[found >= 0],
                [codes[part].tobytes() for part in parts],
                [counts[part].tobytes() for part in parts],
            ]
            yield pa.record_batch(columns, schema=ROWS)


@dataclass(frozen=True)
class Subtree:
    """All leaves of the block of one slot, grown where its rows have come together."""

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
        found = [array.tobytes() for array in leaves.as_tuple()]
        return pa.table([[value] for value in (slot, len(counts), int(counts.sum()), *found)], schema=LEAVES)


def finished(codes: Codes, counts: Integers, block: ExactBlocks, finish: Finish) -> ExactBlocks:
    """The leaves of a block from its own rows alone, numbered as rows of the whole table."""
    first = block.exact_first[0]
    own = replace(block, exact_first=np.zeros(1, np.int64), exact_last=np.array([len(counts)], np.int64))
    leaves = finish(codes, counts, own)
    return replace(leaves, exact_first=leaves.exact_first + first, exact_last=leaves.exact_last + first)


def leaves_of(row: dict[str, Any], n_attributes: int) -> ExactBlocks:
    """Leaves as they came from a task."""
    arrays = {name: np.frombuffer(row[name], dtype) for name, dtype in _ARRAYS.items()}
    shapes = {"lower": (-1, n_attributes), "upper": (-1, n_attributes), "keys": (len(arrays["depth"]), -1)}
    return ExactBlocks(*(array.reshape(shapes.get(name, -1)) for name, array in arrays.items()))
