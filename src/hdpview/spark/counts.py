"""Distributed counts: the occupied cells of the data cube, spread over the workers of a Spark cluster. Exact:
private side.

    table ─ encode, group ─▶ a row per cell ─ pack ─▶ a row per 65,536 cells, held on the workers ─▶
    statistics, subtrees

Cells stay where they are. Spark moves a row of bytes far faster than a row per cell, and tasks read it as an
array without a copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from hdpview.counts.chunks import CHUNK, chunks_of_cells, mapped
from hdpview.counts.contributions import EACH_ROW, Contributions
from hdpview.counts.ingest import check_columns, occupied_cells, without_values
from hdpview.counts.sources import step_by_step
from hdpview.counts.sparse import Codes, code_type
from hdpview.domain import Schema
from hdpview.errors import HdpviewError, MethodError
from hdpview.progress import Progress
from hdpview.spark.jobs import run_job
from hdpview.spark.session import DataFrame, Session, spark_session

_STEP = "Counting occupied cells"


@dataclass(frozen=True, eq=False, repr=False)
class DistributedCounts:
    """Occupied cells, each once, in chunks on the workers: what `SparseCounts` is on one machine.

    exact_chunks: a DataFrame with columns codes, counts (see `chunks.chunk_arrays`), n and total: cells and
        records of a chunk.
    exact_n_cells, exact_total: cells and records in all.
    """

    schema: Schema
    session: Session
    exact_chunks: DataFrame
    exact_n_cells: int
    exact_total: int

    @property
    def exact_codes(self) -> Codes:
        """Refused: cells do not come together on one machine."""
        raise MethodError(
            "This method looks at single cells, which on Spark are spread over the workers. Build with engine='local'."
        )

    exact_counts = exact_codes

    def __repr__(self) -> str:
        return "DistributedCounts(exact)"  # sizes are exact values too: they have no place in a log line


@contextmanager
def distributed_counts(
    source: Any,
    schema: Schema,
    *,
    master: str | None = None,
    memory_limit: str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    limits: Contributions = EACH_ROW,
    salt: str = "",
) -> Iterator[DistributedCounts]:
    """Count the occupied cells of a table on Spark and hold them on the workers while the block lasts.

    source: see `spark_tables.open_on_spark`. master, memory_limit, threads: see
        `spark_session.spark_session`.
    limits: who is protected, and how many of their rows are counted; salt: decides by lot which ones.
    """
    with spark_session(source, master, threads, memory_limit) as session:
        chunks = None
        try:
            chunks, n_cells, total = _counted(session, source, schema, progress, limits, salt)
            yield DistributedCounts(schema, session, chunks, n_cells, total)
        finally:
            if chunks is not None:
                chunks.unpersist()


def _counted(
    session: Session, source: Any, schema: Schema, progress: Progress | None, limits: Contributions, salt: str
) -> tuple[DataFrame, int, int]:
    from pyspark import StorageLevel

    from hdpview.spark.sources import open_on_spark

    wanted = list(dict.fromkeys([*schema.names, *limits.columns]))
    try:
        with open_on_spark(session, source, wanted, schema.source) as opened, step_by_step():
            check_columns(opened.types, schema)
            limits.check(opened.types)
            cells = opened.backend.frame(occupied_cells(opened.table, schema, limits, salt))
    except HdpviewError:
        raise
    except Exception as refusal:
        problem = without_values(refusal, source)
    else:
        made = mapped(cells, partial(chunks_of_cells, sizes=schema.sizes, dtype=code_type(schema)), CHUNK)
        chunks = made.persist(StorageLevel.MEMORY_AND_DISK)
        row = run_job(session, lambda: chunks.agg({"n": "sum", "total": "sum"}).collect()[0], progress, _STEP)
        return chunks, int(row["sum(n)"] or 0), int(row["sum(total)"] or 0)
    raise problem
