"""Counts of a table on Spark: its occupied cells or its encoded rows, held on the workers of a cluster.

    table ─ encode, group in each task ─▶ cells ─ group ─▶ chunks of 65,536 cells ─▶ statistics, subtrees
    table ─ encode ──────────────────────▶ chunks of rows, a few bytes each ───────▶ tables, counts of boxes

Chunks stay on the workers. Spark moves a row of bytes far faster than a row per cell, and tasks read it as
arrays. Each partition adds up its own tables; only those tables travel.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from hdpview.counts import check
from hdpview.counts.exact_statistics import CellCounts, Counts
from hdpview.counts.ingest import (
    CHECKING,
    READ_ALL,
    ReadOptions,
    all_rows_sql,
    cells_sql,
    check_columns,
    limited_sql,
    rows_sql,
)
from hdpview.counts.losses import SchemaWarning
from hdpview.counts.refusals import quoting_no_value
from hdpview.counts.rows import RowLayout, States
from hdpview.counts.sources import run_on_batches
from hdpview.counts.tally import Ints, Tally
from hdpview.domain import Schema
from hdpview.errors import DataError
from hdpview.privacy.exact import MOST_RECORDS
from hdpview.progress import Progress
from hdpview.spark import tasks
from hdpview.spark.open_table import SparkTable, open_on_spark
from hdpview.spark.session import RDD, DataFrame, Session, run_job, spark_session, sums_by_slot

CHANGED = "The table changed while it was being read. Build from a copy that does not change."


@dataclass(frozen=True, eq=False, repr=False)
class _OnWorkers(Counts):
    """Exact counts from chunks on the workers. layout: of their rows or cells; exact_n: their number."""

    schema: Schema
    session: Session
    layout: RowLayout
    exact_chunks: RDD
    exact_n: int

    def exact_sums(self, tally: Tally, progress: Progress | None, text: str) -> Ints:
        task = partial(tasks.tallied, layout=self.layout, tally=tally)
        lengths = [1, *tally.lengths]
        n_rows, *sums = sums_by_slot(self.session, self.exact_chunks, task, lengths, progress, text)
        if int(n_rows[0]) != self.exact_n:
            raise DataError(CHANGED)
        held: Ints = np.minimum(np.concatenate([np.empty(0, np.int64), *sums]), MOST_RECORDS)
        return held


@dataclass(frozen=True, eq=False, repr=False)
class DistributedCounts(_OnWorkers, CellCounts):
    """Occupied cells, each once; like `SparseCounts` on one machine. exact_total: all records."""

    exact_total: int

    @property
    def exact_n_cells(self) -> int:  # type: ignore[override]
        return self.exact_n


@dataclass(frozen=True, eq=False, repr=False)
class DistributedRows(_OnWorkers):
    """Encoded rows; like `StreamedCounts` on one machine. exact_states: outcomes of each column's values."""

    exact_states: States


@contextmanager
def distributed_counts(
    source: Any, schema: Schema, options: ReadOptions = READ_ALL, master: str | None = None
) -> Iterator[DistributedCounts]:
    """Count the occupied cells of a table on Spark and hold them on the workers until the block ends.

    source: see `open_table.open_on_spark`. master: see `session.spark_session`.
    """
    layout = RowLayout(schema.sizes, has_counts=True)

    def chunked(table: SparkTable, rows: str) -> DataFrame:
        task = partial(tasks.cells_of, sql=cells_sql(rows, schema, options), schema=schema)
        cells = table.mapped(task, tasks.CELLS).groupBy("cell").sum("n").withColumnRenamed("sum(n)", "n")
        gather = partial(tasks.chunks_of_cells, schema=schema, layout=layout)
        return tasks.mapped(cells, gather, tasks.CHUNK)

    held = _held(source, schema, options, master, chunked, "Counting occupied cells")
    with held as (session, chunks, sizes):
        n_cells, total = (sum(size[i] for size in sizes) for i in (0, 1))
        yield DistributedCounts(schema, session, layout, chunks, n_cells, total)


@contextmanager
def distributed_rows(
    source: Any, schema: Schema, options: ReadOptions = READ_ALL, master: str | None = None
) -> Iterator[DistributedRows]:
    """Encode the rows of a table on Spark and hold them on the workers. See `distributed_counts`."""
    layout = RowLayout(schema.sizes, has_counts=options.limits.count is not None)

    def chunked(table: SparkTable, rows: str) -> DataFrame:
        task = partial(tasks.chunks_of_rows, sql=rows, schema=schema, layout=layout)
        return table.mapped(task, tasks.CHUNK)

    with _held(source, schema, options, master, chunked, "Reading rows") as (session, chunks, parts):
        states = sum(parts, start=States.nothing(len(schema)))
        yield DistributedRows(schema, session, layout, chunks, states.exact_rows, states)


@contextmanager
def _held(
    source: Any,
    schema: Schema,
    options: ReadOptions,
    master: str | None,
    chunked: Callable[[SparkTable, str], DataFrame],
    text: str,
) -> Iterator[tuple[Session, RDD, list[Any]]]:
    """The session, the chunks on its workers, and a summary of each chunk."""
    with spark_session(source, master, options.threads, options.memory_limit) as session:
        from pyspark import StorageLevel

        with _opened(session, source, schema, options) as table:
            if options.limits.unit is None:
                rows = rows_sql(table.types, schema, options)
            else:  # all rows of a person in one partition [P11]
                table = _by_person(table, schema, options)
                rows = limited_sql("SELECT * FROM source", schema, options)
            frame = chunked(table, rows)
            # This may already run tasks: those before an exchange of rows.
            chunks = run_job(session, lambda: frame.rdd, options.progress, text)
            # Other storage levels would serialise the bytes again and compress them, which is slow.
            chunks.persist(StorageLevel.MEMORY_AND_DISK_DESER)
        try:
            summaries = run_job(session, chunks.map(itemgetter("summary")).collect, options.progress, text)
            # pickled by our own tasks
            yield session, chunks, list(map(pickle.loads, summaries))
        finally:
            chunks.unpersist()


def _by_person(table: SparkTable, schema: Schema, options: ReadOptions) -> SparkTable:
    """Outcomes of all rows that name a person, those of each person in one partition."""
    names = ([] if options.limits.count is None else ["n"]) + [f"o_{i}" for i in range(len(schema))]
    columns = pa.schema([("unit", pa.string()), *((name, pa.int64()) for name in names)])
    listed = ", ".join(f"CAST({name} AS BIGINT) AS {name}" for name in names)
    rows = all_rows_sql(table.types, schema, options)
    query = f"SELECT unit, {listed} FROM ({rows}) AS encoded WHERE unit IS NOT NULL"
    return SparkTable(table.mapped(partial(run_on_batches, query), columns).repartition("unit"), columns)


@contextmanager
def _opened(session: Session, source: Any, schema: Schema, options: ReadOptions) -> Iterator[SparkTable]:
    """The table, once its columns fit the schema."""
    wanted, limits = options.wanted(schema), options.limits
    opened = open_on_spark(session, source, wanted, schema.source, limits.columns)
    with ExitStack() as stack:
        table = quoting_no_value(source, lambda: stack.enter_context(opened))
        check_columns(table.types, schema)
        limits.check(table.types)
        yield table


def check_on_spark(
    source: Any,
    schema: Schema,
    options: ReadOptions = READ_ALL,
    master: str | None = None,
    states: States | None = None,
) -> list[SchemaWarning]:
    """Like `counts.check`, but for a table on Spark. See `distributed_counts`."""
    if states is None:
        with distributed_rows(source, schema, options, master) as rows:
            states = rows.exact_states
    with spark_session(source, master, options.threads, options.memory_limit) as session:
        from pyspark.sql import functions

        with _opened(session, source, schema, options) as table:
            limits, types = options.limits, table.types

            def rows_of(wanted: DataFrame) -> list[Any]:
                return run_job(session, wanted.collect, options.progress, CHECKING)

            def texts(query: str, names: Sequence[str]) -> DataFrame:
                columns = pa.schema([(name, pa.string()) for name in names])
                return table.mapped(partial(run_on_batches, query), columns)

            facts: dict[str, int] = {}
            if queries := check.facts_sql(types, schema, limits):
                listed = ", ".join(f"CAST({sql} AS VARCHAR) AS {name}" for name, (_, sql) in queries.items())
                aggregates = (getattr(functions, how)(name).alias(name) for name, (how, _) in queries.items())
                (counted,) = rows_of(texts(f"SELECT {listed} FROM source", [*queries]).agg(*aggregates))
                facts = counted.asDict()

            def sample(position: int) -> list[str]:
                unread = texts(check.sample_sql(types, schema, position), ["raw"])
                return [row["raw"] for row in rows_of(unread.limit(check.SAMPLE_TEXTS))]

            return check.warnings_about(schema, types, states, facts, sample, limits)
