"""Cells and rows in chunks of bytes, as Spark tasks read and write them. Workers load no database for it."""

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
# Cells per chunk: about 1 MB of codes and counts with ten attributes.
_CELLS_PER_CHUNK = 65_536


def chunk_arrays(
    codes: pa.BinaryScalar, counts: pa.BinaryScalar, n_attributes: int, dtype: Any
) -> tuple[Codes, NDArray[np.int64]]:
    """Codes (n, n_attributes) and counts (n,) of a chunk: read-only views of its bytes."""
    own_counts = np.frombuffer(counts.as_buffer(), np.int64)
    own_codes = np.frombuffer(codes.as_buffer(), dtype).reshape(len(own_counts), n_attributes)
    return cast("Codes", own_codes), own_counts


def chunks_of_cells(
    batches: Iterator[pa.RecordBatch], sizes: tuple[int, ...], dtype: Any
) -> Iterator[pa.RecordBatch]:
    """In a task: gather rows of one cell each into chunks."""
    codes: list[Codes] = []
    counts: list[NDArray[np.int64]] = []
    names = [f"word_{w}" for w in range(len(words_of(sizes)))]
    for batch in batches:
        codes.append(unpack([batch[name].to_numpy() for name in names], sizes, dtype))
        counts.append(batch["n"].to_numpy())
        if sum(map(len, counts)) >= _CELLS_PER_CHUNK:
            yield _chunk(codes, counts)
            codes, counts = [], []
    if counts:
        yield _chunk(codes, counts)


def chunks_of_rows(batches: Iterator[pa.RecordBatch], layout: RowLayout) -> Iterator[pa.RecordBatch]:
    """In a task: encode each batch of packed rows as one chunk of a few bytes per row."""
    for batch in batches:
        for rows in layout.rows_of(batch):
            yield pa.record_batch([[layout.to_bytes(rows)], [len(rows)]], schema=CHUNK_OF_ROWS)


def _chunk(codes: list[Codes], counts: list[NDArray[np.int64]]) -> pa.RecordBatch:
    all_codes, all_counts = np.concatenate(codes), np.concatenate(counts)
    values = all_codes.tobytes(), all_counts.tobytes(), len(all_counts), int(all_counts.sum())
    return pa.record_batch([[value] for value in values], schema=CHUNK)


def _ddl(schema: pa.Schema) -> str:
    """The columns in Spark's DDL."""
    types: dict[Any, str] = {pa.binary(): "BINARY", pa.int64(): "BIGINT", pa.int32(): "INT"}
    return ", ".join(f"{field.name} {types[field.type]}" for field in schema)


def mapped(
    frame: Any, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: pa.Schema
) -> Any:
    """Apply `function` to the batches of each partition, inside its task."""
    return frame.mapInArrow(function, _ddl(schema))


def grouped(frame: Any, key: str, function: Callable[[pa.Table], pa.Table], schema: pa.Schema) -> Any:
    """Apply `function` to all rows that share a value of `key`, inside one task."""

    # Spark inspects the signature, and miscounts the arguments of a callable object.
    def apply(rows: pa.Table) -> pa.Table:
        return function(rows)

    return frame.groupBy(key).applyInArrow(apply, _ddl(schema))
