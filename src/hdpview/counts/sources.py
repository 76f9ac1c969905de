"""Any source as the table `source` of our own DuckDB: files, frames, and database tables as Arrow batches."""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, takewhile
from pathlib import Path
from threading import Event
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from hdpview.counts import postgresql
from hdpview.counts.arrow_input import (
    arrow_of,
    check_names,
    clean_stream,
    needs_cleaning,
    parquet_batches,
    parquet_schema,
)
from hdpview.counts.encode import prepare
from hdpview.counts.files import files_of, files_sql, kind_of_file
from hdpview.counts.spill import private_directory
from hdpview.domain.text_format import PLAIN, TextFormat
from hdpview.errors import DataError

_MEMORY_SHARE = 0.5  # of the machine's memory; the cells and other processes need the other half
_BATCH_ROWS = 131_072


@dataclass(frozen=True)
class OpenSource:
    """Our own DuckDB with the table `source`, and the types of its columns. Names and types are public.

    is_strict: whether malformed lines are left out and listed in the table `reject_errors`.
    """

    connection: duckdb.DuckDBPyConnection
    types: dict[str, str]
    is_strict: bool = False
    _stopped: Event = field(default_factory=Event)

    def batches(self, query: str) -> Iterator[pa.RecordBatch]:
        """The result of a query in batches; ends early once stopped."""
        with self.connection.sql(query).to_arrow_reader(_BATCH_ROWS) as reader:
            yield from takewhile(lambda _: not self._stopped.is_set(), reader)

    def rows(self, query: str) -> list[dict[str, Any]]:
        """The result of a query with few rows."""
        return [row for batch in self.batches(query) for row in batch.to_pylist()]

    def fraction_read(self) -> float | None:
        """The completed fraction of the running query; None if unknown."""
        percent = self.connection.query_progress()
        return percent / 100 if percent >= 0 else None

    def stop(self) -> None:
        """End the running query, and those to come."""
        self._stopped.set()
        self.connection.interrupt()


@contextmanager
def open_source(
    source: Any,
    wanted: Sequence[str] | None = None,
    *,
    memory_limit: str | None = None,
    threads: int | None = None,
    parallel_csv: bool = True,
    exact_text: Sequence[str] = (),
    text: TextFormat = PLAIN,
    strict: bool = False,
) -> Iterator[OpenSource]:
    """Open a table for one query.

    source: path, glob or folder of Parquet or CSV files; pandas or Polars frame, or another that narwhals
        supports; Arrow table, batch, reader or dataset; DuckDB relation; Ibis table.
    wanted: the columns that queries use, so that only these are copied from a frame; None for all.
    memory_limit, threads: of our own DuckDB, such as "4GB" and 2; tables in databases use the settings there.
    exact_text: columns that identify persons; invalid UTF-8 in them becomes null instead of being replaced.
    text: format of CSV files. strict: see `files.files_sql`.
    """
    with _private_duckdb(memory_limit, threads) as (connection, directory):
        table = "frame"
        if isinstance(source, (str, Path)):
            files = files_of(source)
            is_parquet = kind_of_file(files[0]) == "parquet"
            if is_parquet:
                check_names(pq.read_schema(files[0]).names, repr(files[0].name))
            if is_parquet and wanted is not None and needs_cleaning(files, wanted, exact_text):
                schema = parquet_schema(files, wanted, exact_text)
                read = lambda: (batch for file in files for batch in parquet_batches(str(file), schema))  # noqa: E731
                connection.register("frame", clean_stream(schema, read))  # [P7]
            else:
                table = files_sql(files, parallel=parallel_csv, text=text, directory=directory, strict=strict)
        elif is_ibis_table(source):
            table = _of_database(connection, source, wanted, exact_text)
        else:
            connection.register("frame", arrow_of(source, wanted, exact_text))
        connection.execute(f"CREATE OR REPLACE TEMP VIEW source AS SELECT * FROM {table}")
        described = connection.execute("DESCRIBE source").fetchall()
        yield OpenSource(connection, {name: kind.lower() for name, kind, *_ in described}, strict)


def run_on_batches(query: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The result of a query over batches as the table `source`, for the encoder inside a Spark task."""
    first = next(batches, None)
    if first is None:
        return
    with _private_duckdb(None, 1) as (connection, _):
        stream = clean_stream(first.schema, lambda: chain([first], batches))
        connection.register("frame", stream.reader())
        connection.execute("CREATE OR REPLACE TEMP VIEW source AS SELECT * FROM frame")
        yield from OpenSource(connection, {}).batches(query)


def is_ibis_table(source: Any) -> bool:
    """Whether a source is an Ibis table; does not import Ibis."""
    return type(source).__module__.startswith("ibis.") and type(source).__name__ == "Table"


def _of_database(
    connection: duckdb.DuckDBPyConnection, table: Any, wanted: Sequence[str] | None, exact_text: Sequence[str]
) -> str:
    """Register a database table as Arrow batches; returns the SQL that reads them."""
    if wanted is not None and set(wanted) <= set(table.columns):
        table = table.select(*wanted)
    backend = table.get_backend()
    if backend.name == "duckdb":
        with warnings.catch_warnings():
            # Ibis 12 uses names that DuckDB 2 has changed
            warnings.simplefilter("ignore", DeprecationWarning)
            relation = backend._to_duckdb_relation(table)
        connection.register("frame", arrow_of(relation, None, exact_text))
        return "frame"
    if backend.name == "postgres":
        stream, columns = postgresql.stream_of(backend, table, exact_text)
        connection.register("frame", stream)
        return f"(SELECT {columns} FROM frame)"
    read = lambda: backend.to_pyarrow_batches(table, chunk_size=_BATCH_ROWS)  # noqa: E731
    connection.register("frame", clean_stream(table.schema().to_pyarrow(), read))
    return "frame"


@contextmanager
def _private_duckdb(
    memory_limit: str | None, threads: int | None
) -> Iterator[tuple[duckdb.DuckDBPyConnection, Path]]:
    """An empty DuckDB that spills to a private directory and has no network access; and this directory."""
    amount = r"\s*\d+(\.\d+)?\s*[KMGT]i?B\s*"
    if memory_limit is not None and not re.fullmatch(amount, str(memory_limit), re.IGNORECASE):
        wrong = f"memory_limit {str(memory_limit)!r} is not an amount of memory"
        raise DataError(f"{wrong}. Write a number and a unit, such as '4GB'.")
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise DataError(f"threads must be a whole number of at least 1, not {threads!r}.")
    with private_directory() as directory:
        settings = {
            "memory_limit": memory_limit.strip() if memory_limit else f"{default_memory_mib()}MiB",
            "temp_directory": str(directory),
            "extension_directory": str(directory),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "preserve_insertion_order": False,
            **({} if threads is None else {"threads": threads}),
        }
        connection = duckdb.connect(":memory:", config=settings)
        try:
            # in notebooks, DuckDB needs its own widgets for progress, so there is none
            with contextlib.suppress(duckdb.Error):
                connection.execute("SET enable_progress_bar = true; SET enable_progress_bar_print = false")
            prepare(connection)
            yield connection, directory
        finally:
            connection.close()


def default_memory_mib() -> int:
    """Half of the memory of this machine or container."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit_file = Path("/sys/fs/cgroup/memory.max")
    if limit_file.is_file() and (limit := limit_file.read_text().strip()).isdigit():
        total = min(total, int(limit))
    return max(256, int(total * _MEMORY_SHARE) >> 20)
