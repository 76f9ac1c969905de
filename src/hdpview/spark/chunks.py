"""Cells and rows in chunks of bytes, as Spark tasks read and write them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hdpview.counts.contributions import MOST_PER_ROW
from hdpview.counts.rows import Decoder, RowLayout
from hdpview.counts.sources import run_on_batches
from hdpview.counts.sparse import Codes, code_type
from hdpview.domain import Schema

Batches = Iterator[pa.RecordBatch]
CHUNK = pa.schema([("codes", pa.binary()), ("counts", pa.binary()), ("n", pa.int64()), ("total", pa.int64())])
CHUNK_OF_ROWS = pa.schema([("rows", pa.binary()), ("states", pa.binary())])
CELLS = pa.schema([("cell", pa.binary()), ("n", pa.int64())])
# Cells per chunk: about 1 MB of codes and counts with ten attributes.
_CELLS_PER_CHUNK = 65_536


def chunk_arrays(
    codes: pa.BinaryScalar, counts: pa.BinaryScalar, n_attributes: int, dtype: Any
) -> tuple[Codes, NDArray[np.int64]]:
    """Codes (n, n_attributes) and counts (n,) of a chunk: read-only views of its bytes."""
    own_counts = np.frombuffer(counts.as_buffer(), np.int64)
    own_codes = np.frombuffer(codes.as_buffer(), dtype).reshape(len(own_counts), n_attributes)
    return cast("Codes", own_codes), own_counts


def cells_of(batches: Batches, sql: str, schema: Schema) -> Batches:
    """In a task: the occupied cells of a partition, each as the bytes of its codes."""
    for batch in run_on_batches(sql, batches):
        codes = np.stack([batch[f"c_{i}"].to_numpy() for i in range(len(schema))], axis=1)
        width = codes.shape[1] * codes.itemsize
        cells = pa.Array.from_buffers(pa.binary(width), len(codes), [None, pa.py_buffer(codes.tobytes())])
        yield pa.record_batch([cells.cast(pa.binary()), batch["n"]], schema=CELLS)


def chunks_of_cells(batches: Batches, schema: Schema) -> Batches:
    """In a task: gather cells of all partitions into chunks."""
    codes: list[Codes] = []
    counts: list[NDArray[np.int64]] = []
    for batch in batches:
        cells = np.frombuffer(b"".join(batch["cell"].to_pylist()), code_type(schema))
        codes.append(cast("Codes", cells.reshape(len(batch), len(schema))))
        counts.append(np.minimum(batch["n"].to_numpy(), MOST_PER_ROW))
        if sum(map(len, counts)) >= _CELLS_PER_CHUNK:
            yield _chunk(codes, counts)
            codes, counts = [], []
    if counts:
        yield _chunk(codes, counts)


def chunks_of_rows(batches: Batches, sql: str, schema: Schema, layout: RowLayout) -> Batches:
    """In a task: encode the rows of a partition, in chunks of a few bytes per row."""
    for batch in run_on_batches(sql, batches):
        decoder = Decoder(schema)
        for rows in decoder.rows_of(batch):
            values = layout.to_bytes(rows), decoder.states.to_bytes()
            yield pa.record_batch([[value] for value in values], schema=CHUNK_OF_ROWS)
            decoder = Decoder(schema)


def _chunk(codes: list[Codes], counts: list[NDArray[np.int64]]) -> pa.RecordBatch:
    all_codes, all_counts = np.concatenate(codes), np.concatenate(counts)
    values = all_codes.tobytes(), all_counts.tobytes(), len(all_counts), int(all_counts.sum())
    return pa.record_batch([[value] for value in values], schema=CHUNK)


def mapped(frame: Any, function: Callable[[Batches], Batches], schema: pa.Schema) -> Any:
    """Apply `function` to the batches of each partition, inside its task."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return frame.mapInArrow(function, from_arrow_schema(schema))


def grouped(frame: Any, key: str, function: Callable[[pa.Table], pa.Table], schema: pa.Schema) -> Any:
    """Apply `function` to all rows that share a value of `key`, inside one task."""
    from pyspark.sql.pandas.types import from_arrow_schema

    # Spark inspects the signature, and miscounts the arguments of a callable object.
    return frame.groupBy(key).applyInArrow(lambda rows: function(rows), from_arrow_schema(schema))
