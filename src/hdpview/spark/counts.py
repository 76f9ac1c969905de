"""Counts of a table on Spark: its occupied cells or its encoded rows, held on the workers of a cluster.

    table ─ encode, group in each task ─▶ cells ─ group ─▶ chunks of 65,536 cells ─▶ statistics, subtrees
    table ─ encode ──────────────────────▶ chunks of rows, a few bytes each ───────▶ tables, counts of boxes

Chunks stay on the workers. Spark moves a row of bytes far faster than a row per cell, and tasks read it as an
array without a copy. Each partition adds up its own tables; only those tables travel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hdpview.counts import check
from hdpview.counts.ingest import READ_ALL, ReadOptions, cells_sql, check_columns, rows_sql
from hdpview.counts.losses import SchemaWarning
from hdpview.counts.refusals import quoting_no_value
from hdpview.counts.rows import RowLayout, States
from hdpview.counts.sources import run_on_batches, types_of_arrow
from hdpview.counts.sparse import code_type
from hdpview.counts.tally import BoxTally, TableTally, Tally, counts_of_boxes
from hdpview.domain import Schema
from hdpview.domain.tables import CodeBoxes, TableShape
from hdpview.errors import DataError
from hdpview.privacy.exact import MOST_RECORDS, Exact
from hdpview.progress import Progress
from hdpview.spark import chunks as chunking
from hdpview.spark import tasks
from hdpview.spark.chunks import mapped
from hdpview.spark.jobs import run_job, sums_by_slot
from hdpview.spark.session import DataFrame, Session, spark_session

Ints = NDArray[np.int64]

CHANGED = "The table changed while it was being read. Build from a copy that does not change."


@dataclass(frozen=True, eq=False, repr=False)
class _OnWorkers:
    """Exact counts from chunks of rows or cells. chunks: how tasks read them."""

    schema: Schema
    session: Session
    chunks: Any
    exact_chunks: DataFrame

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
        if int(n_rows[0]) != self._exact_n():
            raise DataError(CHANGED)
        held: Ints = np.minimum(np.concatenate([np.empty(0, np.int64), *sums]), MOST_RECORDS)
        return held

    def _exact_n(self) -> int:
        """Number of rows or cells in all chunks."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}(exact)"  # sizes are exact values and must not be logged


@dataclass(frozen=True, eq=False, repr=False)
class DistributedCounts(_OnWorkers):
    """Occupied cells in chunks on the workers, each cell once; like `SparseCounts` on one machine.

    exact_chunks: a DataFrame with columns codes, counts (see `chunks.chunk_arrays`), n and total: cells and
        records of a chunk.
    exact_n_cells, exact_total: all cells and records.
    """

    exact_n_cells: int
    exact_total: int

    def _exact_n(self) -> int:
        return self.exact_n_cells


@dataclass(frozen=True, eq=False, repr=False)
class DistributedRows(_OnWorkers):
    """Encoded rows in chunks on the workers; like `StreamedCounts` on one machine.

    exact_chunks: a DataFrame with columns rows (see `RowLayout`) and states.
    exact_states: what became of the values of each column.
    """

    exact_states: States

    def _exact_n(self) -> int:
        return self.exact_states.exact_rows


@contextmanager
def distributed_counts(
    source: Any, schema: Schema, options: ReadOptions = READ_ALL, master: str | None = None
) -> Iterator[DistributedCounts]:
    """Count the occupied cells of a table on Spark and hold them on the workers until the block ends.

    source: see `sources.open_on_spark`. master: see `session.spark_session`.
    """

    def chunked(frame: DataFrame, types: dict[str, str]) -> DataFrame:
        task = partial(chunking.cells_of, sql=cells_sql(types, schema, options), schema=schema)
        cells = mapped(frame, task, chunking.CELLS).groupBy("cell").sum("n").withColumnRenamed("sum(n)", "n")
        return mapped(cells, partial(chunking.chunks_of_cells, schema=schema), chunking.CHUNK)

    step, reader = "Counting occupied cells", tasks.Chunks(len(schema), code_type(schema))
    with _held(source, schema, options, master, chunked, ["n", "total"], step) as (session, chunks, rows):
        n_cells, total = (sum(row[name] for row in rows) for name in ("n", "total"))
        yield DistributedCounts(schema, session, reader, chunks, n_cells, total)


@contextmanager
def distributed_rows(
    source: Any, schema: Schema, options: ReadOptions = READ_ALL, master: str | None = None
) -> Iterator[DistributedRows]:
    """Encode the rows of a table on Spark and hold them on the workers. See `distributed_counts`."""
    layout = RowLayout(schema.sizes, has_counts=options.limits.count is not None)

    def chunked(frame: DataFrame, types: dict[str, str]) -> DataFrame:
        sql = rows_sql(types, schema, options)
        task = partial(chunking.chunks_of_rows, sql=sql, schema=schema, layout=layout)
        return mapped(frame, task, chunking.CHUNK_OF_ROWS)

    step = "Reading rows"
    with _held(source, schema, options, master, chunked, ["states"], step) as (session, chunks, rows):
        parts = [States.from_bytes(bytes(row["states"]), len(schema)) for row in rows]
        states = sum(parts, start=States.nothing(len(schema)))
        yield DistributedRows(schema, session, tasks.RowChunks(layout), chunks, states)


@contextmanager
def _held(
    source: Any,
    schema: Schema,
    options: ReadOptions,
    master: str | None,
    chunked: Callable[[DataFrame, dict[str, str]], DataFrame],
    summaries: list[str],
    text: str,
) -> Iterator[tuple[Session, DataFrame, list[Any]]]:
    """The session, the chunks on its workers, and columns that summarize each chunk."""
    with spark_session(source, master, options.threads, options.memory_limit) as session:
        from pyspark import StorageLevel
        from pyspark.sql import functions

        with _opened(session, source, schema, options) as (frame, types):
            if (unit := options.limits.unit) is not None:
                # All rows of a person in one partition; 0.0 and -0.0 are one person. [P11]
                person = _column(unit)
                key = person + functions.lit(0.0) if types[unit] in ("float", "double") else person
                frame = frame.where(person.isNotNull()).repartition(key)
            chunks = chunked(frame, types).persist(StorageLevel.MEMORY_AND_DISK)
        try:
            yield session, chunks, run_job(session, chunks.select(*summaries).collect, options.progress, text)
        finally:
            chunks.unpersist()


@contextmanager
def _opened(
    session: Session, source: Any, schema: Schema, options: ReadOptions
) -> Iterator[tuple[DataFrame, dict[str, str]]]:
    """The columns that are asked for, and DuckDB's types."""
    from hdpview.spark.sources import open_on_spark

    limits = options.limits
    with ExitStack() as stack:

        def opened() -> tuple[DataFrame, dict[str, str]]:
            frame = stack.enter_context(
                open_on_spark(session, source, options.wanted(schema), schema.source, limits.columns)
            )
            types = types_of_arrow(frame.limit(0).toArrow().schema)
            check_columns(types, schema)
            limits.check(types)
            return frame.select(*map(_column, options.wanted(schema))), types

        yield quoting_no_value(source, opened)


def _column(name: str) -> Any:
    from pyspark.sql import functions

    return functions.col(f"`{name.replace('`', '``')}`")


def check_on_spark(
    source: Any,
    schema: Schema,
    options: ReadOptions = READ_ALL,
    master: str | None = None,
    states: States | None = None,
) -> list[SchemaWarning]:
    """As `counts.check`, of a table on Spark: see `sources.open_on_spark` and `session.spark_session`."""
    if states is None:
        with distributed_rows(source, schema, options, master) as rows:
            states = rows.exact_states
    with spark_session(source, master, options.threads, options.memory_limit) as session:
        from pyspark.sql import functions

        with _opened(session, source, schema, options) as (frame, types):
            limits = options.limits

            def rows_of(wanted: DataFrame) -> list[Any]:
                return run_job(session, wanted.collect, options.progress, check.CHECKING)

            def queried(query: str, columns: pa.Schema) -> DataFrame:
                return mapped(frame, partial(run_on_batches, query), columns)

            facts: dict[str, int] = {}
            if sums := check.facts_sql(types, schema, limits):
                listed = ", ".join(f"CAST({sql} AS BIGINT) AS {name}" for name, sql in sums.items())
                columns = pa.schema([(name, pa.int64()) for name in sums])
                for row in rows_of(queried(f"SELECT {listed} FROM source", columns)):
                    facts |= {name: facts.get(name, 0) + row[name] for name in sums}
            if numbers := check.distinct_columns(schema, limits):
                count = functions.approx_count_distinct
                counted = frame.agg(*(count(_column(name)).alias(key) for key, name in numbers.items()))
                facts |= rows_of(counted)[0].asDict()

            def sample(position: int) -> list[str]:
                unread = queried(check.sample_sql(types, schema, position), pa.schema([("raw", pa.string())]))
                return [row["raw"] for row in rows_of(unread.limit(check.SAMPLE_TEXTS))]

            return check.warnings_about(schema, types, states, facts, sample, limits)
