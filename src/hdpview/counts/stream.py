"""Counts of a table of any size: rows are read and encoded once, stored in a few bytes each, and scanned for
each request of a method. Exact: private side.

    source ─ encode ─▶ batches of outcomes ─▶ a byte or two per code ─▶ tables and boxes, a pass per question

Codes are stored in memory or, beyond 256 MB, in an unnamed file.

Rows are never grouped or sorted, so memory depends neither on their number nor on how many are distinct.
They are read only once, because a table in a database may change between passes, a stream of batches can be
read only once, and choosing each person's rows is the most expensive part of reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from tempfile import SpooledTemporaryFile
from typing import Any

import pyarrow as pa

from hdpview.counts.exact_statistics import LocalCounts
from hdpview.counts.ingest import READ_ALL, ReadOptions, read_with, rows_sql
from hdpview.counts.rows import Decoder, RowLayout, Rows, States
from hdpview.counts.sources import OpenSource
from hdpview.domain import Schema

_BYTES_IN_MEMORY = 256 << 20


class StoredRows:
    """Encoded rows, part by part: in memory while they are few, otherwise in an unnamed file that disappears
    with the process, even if it is killed.
    """

    def __init__(self, layout: RowLayout) -> None:
        self._layout = layout
        # no other process can open it
        self._file = SpooledTemporaryFile(_BYTES_IN_MEMORY, prefix="hdpview-")  # noqa: SIM115 closed below
        self._ends = [0]

    def clear(self) -> None:
        """Forget all parts."""
        self._file.seek(0)
        self._ends = [0]

    def append(self, rows: Rows) -> None:
        """Add a part."""
        self._file.write(self._layout.to_bytes(rows))
        self._ends.append(self._file.tell())

    def extend(self, batches: Iterator[pa.RecordBatch], decoder: Decoder) -> None:
        """Add the rows of all batches. Each batch is released before the next is requested."""
        for batch in batches:
            for rows in decoder.rows_of(batch):
                self.append(rows)

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __iter__(self) -> Iterator[Rows]:
        for start, end in zip(self._ends, self._ends[1:], strict=False):
            self._file.seek(start)
            yield self._layout.from_bytes(self._file.read(end - start))

    def close(self) -> None:
        """Release memory and disk."""
        self._file.close()


@dataclass(frozen=True, eq=False, repr=False)
class StreamedCounts(LocalCounts):
    """Exact counts from rows that are scanned for each question.

    exact_states: outcomes of the values of each column.
    """

    schema: Schema
    exact_rows: StoredRows
    exact_states: States
    threads: int | None = None


@contextmanager
def streamed_counts(source: Any, schema: Schema, options: ReadOptions = READ_ALL) -> Iterator[StreamedCounts]:
    """Read and encode a table once; keep its rows while the block lasts. See `ingest.read_counts`."""
    with closing(StoredRows(RowLayout(schema.sizes, has_counts=options.limits.count is not None))) as stored:

        def store(opened: OpenSource) -> States:
            stored.clear()
            decoder = Decoder(schema)
            stored.extend(opened.batches(rows_sql(opened.types, schema, options)), decoder)
            return decoder.states

        states = read_with(store, source, schema, options, "Reading rows")
        yield StreamedCounts(schema, stored, states, options.threads)
