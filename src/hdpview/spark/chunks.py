"""Cells in chunks, as tasks of Spark read and write them. Workers load this and no database."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hdpview.counts.rows import RowLayout
from hdpview.counts.unpack import Codes, unpack, words_of

CHUNK = pa.schema([("codes", pa.binary()), ("counts", pa.binary()), ("n", pa.int64()), ("total", pa.int64())])
CHUNK_OF_ROWS = pa.schema([("rows", pa.binary()), ("n", pa.int64())])
_CELLS_PER_CHUNK = 65_536


def chunk_arrays(
    codes: pa.BinaryScalar, counts: pa.BinaryScalar, n_attributes: int, dtype: Any
) -> tuple[Codes, NDArray[np.int64]]:
    """Codes (n, n_attributes) and counts (n,) of a chunk: read-only views of its bytes."""
    own_counts = np.frombuffer(counts.as_buffer(), np.int64)
    return cast(
        "Codes", np.frombuffer(codes.as_buffer(), dtype).reshape(len(own_counts), n_attributes)
    ), own_counts


def chunks_of_cells(
    batches: Iterator[pa.RecordBatch], sizes: tuple[int, ...], dtype: Any
) -> Iterator[pa.RecordBatch]:
    """In a task: rows of one cell each become rows of many."""
    codes: list[Codes] = []
    counts: list[NDArray[np.int64]] = []
    for batch in batches:
        codes.append(
            unpack([batch[f"word_{w}"].to_numpy() for w in range(len(words_of(sizes)))], sizes, dtype)
        )
        counts.append(batch["n"].to_numpy())
        if sum(map(len, counts)) >= _CELLS_PER_CHUNK:
            yield _chunk(codes, counts)
            codes, counts = [], []
    if counts:
        yield _chunk(codes, counts)


def chunks_of_rows(batches: Iterator[pa.RecordBatch], layout: RowLayout) -> Iterator[pa.RecordBatch]:
    """In a task: packed rows become a few bytes each, those of a batch together."""
    for batch in batches:
        for rows in layout.rows_of(batch):
            yield pa.record_batch([[layout.to_bytes(rows)], [len(rows)]], schema=CHUNK_OF_ROWS)


def _chunk(codes: list[Codes], counts: list[NDArray[np.int64]]) -> pa.RecordBatch:
    all_counts = np.concatenate(counts)
    row = [
        [np.concatenate(codes).tobytes()],
        [all_counts.tobytes()],
        [len(all_counts)],
        [int(all_counts.sum())],
    ]
    return pa.record_batch(row, schema=CHUNK)


def _ddl(schema: pa.Schema) -> str:
    """The columns as Spark writes them."""
    words: dict[Any, str] = {pa.binary(): "BINARY", pa.int64(): "BIGINT", pa.int32(): "INT"}
    return ", ".join(f"{field.name} {words[field.type]}" for field in schema)


def mapped(
    frame: Any, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: pa.Schema
) -> Any:
    """`function` over the batches of each partition, inside its task."""
    return frame.mapInArrow(function, _ddl(schema))


def grouped(frame: Any, key: str, function: Callable[[pa.Table], pa.Table], schema: pa.Schema) -> Any:
    """`function` over all rows that share a value of `key`, inside one task."""

    # Spark counts the arguments of what it is given, and miscounts those of an object
    def apply(rows: pa.Table) -> pa.Table:
        return function(rows)

    return frame.groupBy(key).applyInArrow(apply, _ddl(schema))
