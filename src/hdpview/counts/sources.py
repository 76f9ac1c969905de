"""Any source as an Ibis table: files and frames in a DuckDB of our own, a database's table where it lives."""

from __future__ import annotations

import contextlib
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import ibis
import ibis.expr.datatypes as dt
import pyarrow as pa

from hdpview.counts import postgres
from hdpview.counts.files import files_of, kind_of_file, open_files
from hdpview.counts.frames import arrow_of, clean_parquet, needs_cleaning
from hdpview.counts.spill import private_directory
from hdpview.counts.values import Column
from hdpview.domain.text_format import PLAIN, TextFormat
from hdpview.errors import DataError

_MEMORY_SHARE = 0.5  # of the machine: the cells themselves, and whatever else runs, need the other half


@dataclass(frozen=True)
class OpenSource:
    """A table and the backend that computes on it. is_ours: whether that is a database of our own."""

    table: ibis.Table
    backend: Any
    is_ours: bool = False

    @property
    def is_duckdb(self) -> bool:
        return bool(self.backend.name == "duckdb")

    @property
    def types(self) -> dict[str, str]:
        """Type of each column, as Ibis writes it. Names and types are public."""
        return {name: str(dtype) for name, dtype in self.table.schema().items()}

    def batches_of_numbers(self, query: ibis.Table, n_rows: int) -> Iterator[pa.RecordBatch]:
        """The result of a query whose columns are all 64-bit numbers, none null, in batches."""
        if self.backend.name == "postgres":
            yield from postgres.batches_of_numbers(self.backend, query, n_rows)
        else:
            yield from self.batches(query, n_rows)

    def batches(self, query: ibis.Table, n_rows: int) -> Iterator[pa.RecordBatch]:
        """The result of a query in batches of about `n_rows`."""
        if not self.is_duckdb:
            yield from self.backend.to_pyarrow_batches(query, chunk_size=n_rows)
            return
        # Ibis 12 would ask DuckDB 2 for a method that is gone. A relation streams, and saves a copy of the
        # result.
        with step_by_step():
            relation = self.backend._to_duckdb_relation(query)
        with relation.to_arrow_reader(n_rows) as reader:
            yield from reader


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
        knows; Arrow table, batch, reader or dataset; DuckDB relation; Ibis table.
    wanted: the columns that will be asked for, so that a frame is not copied whole; all when None.
    memory_limit, threads: of our own DuckDB, such as "4GB" and 2; a table in a database follows the settings
        there.
    exact_text: columns whose texts must not be changed where they are no UTF-8, but be null: those that name
        persons.
    text: how CSV files are written. strict: see `files.open_files`.
    """
    if isinstance(source, ibis.Table):
        yield _opened(source, source.get_backend(), exact_text)
        return
    with _private_duckdb(memory_limit, threads) as (backend, room):
        with warnings.catch_warnings():
            # Ibis 12 calls DuckDB by names that DuckDB 2 has renamed
            warnings.simplefilter("ignore", DeprecationWarning)
            if isinstance(source, (str, Path)):
                table = _open_files(
                    backend, files_of(source), wanted, parallel_csv, exact_text, text, room, strict
                )
            else:
                backend.con.register("frame", arrow_of(source, wanted, exact_text))
                table = backend.table("frame")
        yield _opened(table, backend, exact_text, is_ours=True)


def _open_files(
    backend: Any,
    files: list[Path],
    wanted: Sequence[str] | None,
    parallel_csv: bool,
    exact_text: Sequence[str],
    text: TextFormat,
    room: Path,
    strict: bool,
) -> ibis.Table:
    is_parquet = kind_of_file(files[0]) == "parquet"
    if is_parquet and wanted is not None and needs_cleaning(files, wanted, exact_text):
        backend.con.register("frame", clean_parquet(files, wanted, exact_text))  # [P7]
        return backend.table("frame")
    return open_files(backend, files, parallel=parallel_csv, text=text, room=room, strict=strict)


def describe(source: Any) -> str:
    """What to call a source in a message."""
    if isinstance(source, (str, Path)):
        return repr(str(source))
    return f"the {type(source).__module__.split('.')[0]} {type(source).__name__}"


@contextmanager
def _private_duckdb(memory_limit: str | None, threads: int | None) -> Iterator[tuple[Any, Path]]:
    """An empty DuckDB that spills to a private directory and takes nothing from the network; and that."""
    if memory_limit is not None and not re.fullmatch(
        r"\s*\d+(\.\d+)?\s*[KMGT]i?B\s*", str(memory_limit), re.IGNORECASE
    ):
        raise DataError(
            f"memory_limit {str(memory_limit)!r} is not an amount of memory. Write a number and a "
            "unit, such as '4GB'."
        )
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise DataError(f"threads must be a whole number from 1, not {threads!r}.")
    with private_directory() as directory:
        backend = ibis.duckdb.connect(  # Ibis sets the session's time zone to UTC
            ":memory:",
            memory_limit=memory_limit.strip() if memory_limit else f"{default_memory_mib()}MiB",
            temp_directory=str(directory),
            extension_directory=str(directory),
            autoinstall_known_extensions=False,
            autoload_known_extensions=False,
            allow_community_extensions=False,
            preserve_insertion_order=False,
            **({} if threads is None else {"threads": threads}),
        )
        try:
            # in a notebook DuckDB wants its own widgets for it; there is no progress then
            with contextlib.suppress(duckdb.Error):
                backend.con.execute("SET enable_progress_bar = true; SET enable_progress_bar_print = false")
            yield backend, directory
        finally:
            backend.disconnect()


def default_memory_mib() -> int:
    """Half of what this machine, or the container we run in, has."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit_file = Path("/sys/fs/cgroup/memory.max")
    if limit_file.is_file() and (limit := limit_file.read_text().strip()).isdigit():
        total = min(total, int(limit))
    return max(256, int(total * _MEMORY_SHARE) >> 20)


@contextmanager
def step_by_step() -> Iterator[None]:
    """Keep the steps of a query apart: fused into one, each would be computed again for every use."""
    before = ibis.options.sql.fuse_selects
    ibis.options.sql.fuse_selects = False
    try:
        yield
    finally:
        ibis.options.sql.fuse_selects = before


def _opened(
    table: ibis.Table, backend: Any, exact_text: Sequence[str] = (), is_ours: bool = False
) -> OpenSource:
    """The table with DuckDB's own types put into ones that Ibis knows and that no value makes it refuse."""
    if backend.name == "duckdb":
        replaced = {name: _replacement(table[name], name in exact_text) for name in table.columns}
        table = table.mutate(*(column.name(name) for name, column in replaced.items() if column is not None))
    return OpenSource(table, backend, is_ours)


# DuckDB's own functions, for what Ibis has no word for. `moment` stays untyped: Ibis has no type for
# nanoseconds in a time zone.
@ibis.udf.scalar.builtin
def epoch_ns(moment) -> int:  # type: ignore[no-untyped-def,empty-body]
    """Nanoseconds since 1970."""


@ibis.udf.scalar.builtin
def divide(dividend: int, divisor: int) -> int:  # type: ignore[empty-body]
    """The quotient of whole numbers, towards zero."""


@ibis.udf.scalar.builtin
def make_timestamp(microseconds: int) -> dt.timestamp:
    """The moment that many microseconds after 1970."""


@ibis.udf.scalar.builtin
def isfinite(real: float) -> bool:  # type: ignore[empty-body]
    """Whether it is neither infinite nor NaN."""


def _replacement(column: Column, is_exact: bool) -> Column | None:
    """is_exact: whether no two values may become one."""
    dtype = column.type()
    if dtype.is_floating():
        # Parquet's statistics leave NaN out and DuckDB 2 believes them: of a column from 0 to 9 it takes
        # isnan(x) for false without a look, and x < 10 for true. These two it does look at, so NaN goes by
        # them, and the column is null there.
        return ibis.ifelse(isfinite(column) | column.isinf(), column, ibis.null(dtype))
    name = (
        dtype.raw_type.sql("duckdb").strip('"') if dtype.is_unknown() and dtype.raw_type is not None else ""
    )
    if name == "NULL":
        return ibis.null("string")
    if name == "UHUGEINT":
        return column.cast("string" if is_exact else "float64")
    # a cast would round to microseconds, not floor
    if name == "TIMESTAMPTZ_NS" or (dtype.is_timestamp() and dtype.scale == 9):
        if is_exact:
            return column.cast("string")
        nanoseconds = epoch_ns(column)
        return make_timestamp(divide(nanoseconds, 1000) - ibis.ifelse(nanoseconds % 1000 < 0, 1, 0))
    # seconds and milliseconds reach further than microseconds: null there
    if dtype.is_timestamp() and dtype.scale in (0, 3):
        return column.try_cast("timestamp")
    return None
