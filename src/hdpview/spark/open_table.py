"""Any source as a table on Spark, whose tasks read rows as Arrow batches.

    DataFrame, table by name, address ──────▶ partitions of its rows
    Parquet, CSV, pandas, Polars, Arrow ────▶ pieces, whose rows the tasks read as the local engine does

A piece is a row group of a Parquet file, a CSV or JSON-lines file, or the bytes of some rows of a frame.
Tasks read Parquet in a quarter of the processor time that Spark's own scan and hand-over of rows take.
"""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from hdpview.counts.arrow_input import arrow_of, parquet_batches, parquet_schema
from hdpview.counts.encode import name_sql
from hdpview.counts.files import files_of, kind_of_file
from hdpview.counts.ingest import column_types
from hdpview.counts.sources import is_ibis_table, open_source
from hdpview.domain.text_format import PLAIN, TextFormat
from hdpview.errors import DataError
from hdpview.spark.session import DataFrame, Session, is_spark_frame, quiet_child
from hdpview.spark.tasks import Batches, mapped

# Rows of a frame per piece: a few megabytes.
_ROWS_PER_PIECE = 65_536
_ADDRESS = r"[a-zA-Z][\w+.-]+://"
_TABLE_NAME = r"[\w`-]+(\.[\w`-]+){0,2}"


@dataclass(frozen=True)
class SparkTable:
    """A table on Spark.

    frame: its rows, or the pieces that they are read from. columns: names and types of the rows.
    read: turns batches of `frame` into batches of rows, inside a task; None if they are rows already.
    """

    frame: DataFrame
    columns: pa.Schema
    read: Callable[[Batches], Batches] | None = None

    @cached_property
    def types(self) -> dict[str, str]:
        """DuckDB's types of the columns."""
        with duckdb.connect() as connection:
            connection.register("frame", self.columns.empty_table())
            described = connection.execute("DESCRIBE frame").fetchall()
        return {name: kind.lower() for name, kind, *_ in described}

    def mapped(self, task: Callable[[Batches], Batches], columns: pa.Schema) -> DataFrame:
        """Apply `task` to the rows of each partition."""
        read = self.read
        return mapped(self.frame, task if read is None else lambda pieces: task(read(pieces)), columns)


@contextmanager
def open_on_spark(
    session: Session,
    source: Any,
    wanted: Sequence[str],
    text: TextFormat = PLAIN,
    exact_text: Sequence[str] = (),
) -> Iterator[SparkTable]:
    """Open a table on Spark.

    source: Spark DataFrame; name of a table in the session's catalog; path, glob or folder of files that
        every worker can read; address of Parquet files; Ibis table on Spark; or a pandas, Polars or Arrow
        table, which is sent to the workers.
    wanted: the columns to read. text: the format of CSV files.
    exact_text: columns that name persons, in which no two values may become one.
    """
    spark_frame = _frame_of(session, source)
    if spark_frame is None:
        pieces, columns, read = pieces_of(source, wanted, text, exact_text)
        yield SparkTable(session.createDataFrame(pieces), columns, read)
        return
    # All sessions of the driver see it, so its name must not clash.
    view = f"hdpview_{secrets.token_hex(8)}"
    spark_frame.createOrReplaceGlobalTempView(view)
    try:
        with quiet_child(session) as child:
            frame = child.table(f"global_temp.{view}")
            if set(wanted) <= set(frame.columns):
                frame = frame.select(*(f"`{name.replace('`', '``')}`" for name in wanted))
            yield SparkTable(frame, frame.limit(0).toArrow().schema)
    finally:
        session.catalog.dropGlobalTempView(view)


def _frame_of(session: Session, source: Any) -> DataFrame | None:
    """The DataFrame that Spark has of a source; None for files and frames, which tasks read themselves."""
    if is_spark_frame(source):
        return source
    if is_ibis_table(source):
        if source.get_backend().name != "pyspark":
            raise DataError("This Ibis table is not on Spark. Count it where it is, with engine='local'.")
        return session.sql(source.get_backend().compile(source))
    text = str(source)
    if not isinstance(source, (str, Path)):
        return None
    if re.match(_ADDRESS, text):
        if kind_of_file(Path(text)) not in ("parquet", None):
            way_out = "Convert them to Parquet, or pass a DataFrame: spark.read.csv(address, ...)."
            raise DataError(f"Only Parquet files can be read from an address. {way_out}")
        return session.read.parquet(text)
    is_name = isinstance(source, str) and re.fullmatch(_TABLE_NAME, text) and kind_of_file(Path(text)) is None
    if not is_name or Path(text).exists():
        return None
    if session.catalog.tableExists(text):
        return session.table(text)
    way_out = "Check the name; spark.catalog.listTables() lists the tables."
    raise DataError(f"There is neither a table nor a file {text!r}. {way_out}")


def pieces_of(
    source: Any, wanted: Sequence[str], text: TextFormat, exact_text: Sequence[str]
) -> tuple[pa.Table, pa.Schema, Callable[[Batches], Batches]]:
    """Pieces of files, which every worker can read under the same path, or of a frame: a table with a row per
    piece, the columns of the rows, and a function from batches of pieces to batches of rows.

    wanted, text, exact_text: see `sources.open_source`. All columns are kept if a wanted one is absent.
    """
    if not isinstance(source, (str, Path)):
        frame, contents = pa.table(arrow_of(source, wanted, exact_text)), []
        for batch in frame.to_batches(_ROWS_PER_PIECE):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, frame.schema) as writer:
                writer.write_batch(batch)
            contents.append(sink.getvalue().to_pybytes())
        return pa.table({"rows": pa.array(contents, pa.binary())}), frame.schema, _unpacked
    files = [file.resolve() for file in files_of(source)]
    paths = list(map(str, files))
    if kind_of_file(files[0]) == "parquet":
        columns = parquet_schema(files, wanted, exact_text)
        groups = [(path, i) for path in paths for i in range(pq.read_metadata(path).num_row_groups)]
        kinds = pa.schema([("file", pa.string()), ("group", pa.int32())])
        pieces = pa.table({"file": [path for path, _ in groups], "group": [i for _, i in groups]}, kinds)
        return pieces, columns, partial(_row_groups, columns=columns)
    names = list(dict.fromkeys(name for path in paths for name in column_types(path, text)))
    kept = list(wanted) if set(wanted) <= set(names) else names
    columns = pa.schema([(name, pa.string()) for name in kept])
    return pa.table({"file": paths}), columns, partial(_lines, names=kept, text=text)


def _unpacked(pieces: Batches) -> Batches:
    for batch in pieces:
        for rows in batch["rows"]:
            yield from pa.ipc.open_stream(rows.as_buffer())


def _row_groups(pieces: Batches, columns: pa.Schema) -> Batches:
    for batch in pieces:
        named = zip(batch["file"].to_pylist(), batch["group"].to_pylist(), strict=True)
        for file, own in itertools.groupby(named, key=lambda piece: piece[0]):
            yield from parquet_batches(file, columns, [group for _, group in own], use_threads=False)


def _lines(pieces: Batches, names: Sequence[str], text: TextFormat) -> Batches:
    for file in (file for batch in pieces for file in batch["file"].to_pylist()):
        with open_source(file, threads=1, parallel_csv=False, text=text) as opened:
            absent = "CAST(NULL AS VARCHAR) AS "
            listed = ((name_sql(name), name in opened.types) for name in names)
            columns = ", ".join(name if is_there else absent + name for name, is_there in listed)
            yield from opened.batches(f"SELECT {columns} FROM source")
