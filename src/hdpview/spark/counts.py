"""Counts of a table on Spark: its occupied cells or its encoded rows, held on the workers of a cluster.

    table ─ encode, group ─▶ one row per cell ─ pack ─▶ one chunk per 65,536 cells ─▶ statistics, subtrees
    table ─ encode ────────▶ packed rows ────── pack ─▶ one chunk per batch ────────▶ tables, counts of boxes

Chunks stay on the workers. Spark moves a row of bytes far faster than a row per cell, and tasks read it as an
array without a copy. Each partition adds up its own tables; only those tables travel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hdpview.counts.check import warnings_about
from hdpview.counts.ingest import READ_ALL, ReadOptions, check_columns, occupied_cells, packed_rows
from hdpview.counts.losses import SchemaWarning
from hdpview.counts.refusals import quoting_no_value
from hdpview.counts.rows import RowLayout
from hdpview.counts.sources import step_by_step
from hdpview.counts.sparse import code_type
from hdpview.counts.tally import BoxTally, TableTally, Tally, counts_of_boxes
from hdpview.domain import Schema
from hdpview.domain.tables import CodeBoxes, TableShape
from hdpview.errors import DataError
from hdpview.privacy.exact import MOST_RECORDS, Exact
from hdpview.progress import Progress
from hdpview.spark import tasks
from hdpview.spark.chunks import CHUNK, CHUNK_OF_ROWS, chunks_of_cells, chunks_of_rows, mapped
from hdpview.spark.jobs import run_job, sums_by_slot
from hdpview.spark.session import DataFrame, Session, spark_session

Ints = NDArray[np.int64]

CHANGED = "The table changed while it was being read. Build from a copy that does not change."


class _OnWorkers(ABC):
    """Exact counts from chunks of rows or cells."""

    schema: Schema
    session: Session
    exact_chunks: DataFrame

    @property
    @abstractmethod
    def chunks(self) -> tasks.Chunks | tasks.RowChunks:
        """How tasks read the chunks."""

    @property
    @abstractmethod
    def _exact_n(self) -> int:
        """Number of rows or cells in all chunks."""

    def exact_tables(self, shapes: Sequence[TableShape], progress: Progress | None = None) -> list[Exact]:
        """Records per cell of each table, in its shape."""
        tally = TableTally(tuple(shapes))
        return tally.tables(self._exact(tally, progress, "Adding up tables"))

    def exact_box_counts(self, boxes: CodeBoxes, progress: Progress | None = None) -> Exact:
        """Records in each box, shape (n,)."""
        return counts_of_boxes(self._exact(BoxTally(boxes), progress, "Counting records in boxes"))

    def _exact(self, tally: Tally, progress: Progress | None, text: str) -> Ints:
        task = tasks.Tallied(self.chunks, tally)
        lengths = [1, *tally.lengths]
        n_rows, *sums = sums_by_slot(self.session, self.exact_chunks, task, lengths, progress, text)
        if int(n_rows[0]) != self._exact_n:
            raise DataError(CHANGED)
        held: Ints = np.minimum(np.concatenate([np.empty(0, np.int64), *sums]), MOST_RECORDS)
        return held


@dataclass(frozen=True, eq=False, repr=False)
class DistributedCounts(_OnWorkers):
    """Occupied cells in chunks on the workers, each cell once; like `SparseCounts` on one machine.

    exact_chunks: a DataFrame with columns codes, counts (see `chunks.chunk_arrays`), n and total: cells and
        records of a chunk.
    exact_n_cells, exact_total: all cells and records.
    """

    schema: Schema
    session: Session
    exact_chunks: DataFrame
    exact_n_cells: int
    exact_total: int

    @property
    def chunks(self) -> tasks.Chunks:
        return tasks.Chunks(len(self.schema), code_type(self.schema))

    @property
    def _exact_n(self) -> int:
        return self.exact_n_cells

    def __repr__(self) -> str:
        return "DistributedCounts(exact)"  # sizes are exact values and must not be logged


@dataclass(frozen=True, eq=False, repr=False)
class DistributedRows(_OnWorkers):
    """Encoded rows in chunks on the workers; like `StreamedCounts` on one machine.

    exact_chunks: a DataFrame with columns rows (see `RowLayout`) and n, the number of rows of a chunk.
    exact_n_rows: all rows.
    """

    schema: Schema
    session: Session
    layout: RowLayout
    exact_chunks: DataFrame
    exact_n_rows: int

    @property
    def chunks(self) -> tasks.RowChunks:
        return tasks.RowChunks(self.layout)

    @property
    def _exact_n(self) -> int:
        return self.exact_n_rows

    def __repr__(self) -> str:
        return "DistributedRows(exact)"


@contextmanager
def distributed_counts(
    source: Any, schema: Schema, options: ReadOptions = READ_ALL, master: str | None = None
) -> Iterator[DistributedCounts]:
    """Count the occupied cells of a table on Spark and hold them on the workers until the block ends.

    source: see `sources.open_on_spark`. master: see `session.spark_session`.
    """
    task = partial(chunks_of_cells, sizes=schema.sizes, dtype=code_type(schema))
    chunking = _Chunking(occupied_cells, task, CHUNK, "Counting occupied cells")
    with _held(source, schema, options, master, chunking) as (session, chunks, sums):
        yield DistributedCounts(schema, session, chunks, sums["n"], sums["total"])


@contextmanager
def distributed_rows(
    source: Any, schema: Schema, options: ReadOptions = READ_ALL, master: str | None = None
) -> Iterator[DistributedRows]:
    """Encode the rows of a table on Spark and hold them on the workers. See `distributed_counts`."""
    layout = RowLayout(schema.sizes, has_counts=options.limits.count is not None)
    chunking = _Chunking(packed_rows, partial(chunks_of_rows, layout=layout), CHUNK_OF_ROWS, "Reading rows")
    with _held(source, schema, options, master, chunking) as (session, chunks, sums):
        yield DistributedRows(schema, session, layout, chunks, sums["n"])


@dataclass(frozen=True)
class _Chunking:
    """How a table becomes chunks: a query, and a task that packs its result."""

    query: Callable[..., Any]
    task: tasks.Task
    columns: pa.Schema
    text: str


@contextmanager
def _held(
    source: Any, schema: Schema, options: ReadOptions, master: str | None, chunking: _Chunking
) -> Iterator[tuple[Session, DataFrame, dict[str, int]]]:
    """The session, the chunks on its workers, and the sums of their integer columns."""
    with spark_session(source, master, options.threads, options.memory_limit) as session:
        from pyspark import StorageLevel

        rows = _queried(session, source, schema, options, chunking)
        chunks = mapped(rows, chunking.task, chunking.columns).persist(StorageLevel.MEMORY_AND_DISK)
        numbers = {field.name: "sum" for field in chunking.columns if field.type == pa.int64()}
        try:
            row = run_job(session, lambda: chunks.agg(numbers).collect()[0], options.progress, chunking.text)
            yield session, chunks, {name: int(row[f"sum({name})"] or 0) for name in numbers}
        finally:
            chunks.unpersist()


def _queried(
    session: Session, source: Any, schema: Schema, options: ReadOptions, chunking: _Chunking
) -> DataFrame:
    from hdpview.spark.sources import open_on_spark

    def query() -> DataFrame:
        wanted, persons = options.wanted(schema), options.limits.columns
        with (
            open_on_spark(session, source, wanted, schema.source, persons) as opened,
            step_by_step(),
        ):
            check_columns(opened.types, schema)
            options.limits.check(opened.types)
            return opened.backend.frame(chunking.query(opened.table, schema, options.limits, options.salt))

    return quoting_no_value(source, query)


def check_on_spark(
    source: Any, schema: Schema, options: ReadOptions = READ_ALL, master: str | None = None
) -> list[SchemaWarning]:
    """As `counts.check`, of a table on Spark: see `sources.open_on_spark` and `session.spark_session`."""
    with spark_session(source, master, options.threads, options.memory_limit) as session:
        from hdpview.spark.sources import open_on_spark

        def read() -> list[SchemaWarning]:
            with open_on_spark(session, source, None, schema.source) as opened, step_by_step():
                check_columns(opened.types, schema)
                frame = opened.backend.frame
                return warnings_about(
                    opened.table, opened.types, schema, lambda query: frame(query).toArrow(), options.limits
                )

        return quoting_no_value(source, read)
