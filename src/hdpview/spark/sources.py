"""Any source as a DataFrame of Spark: a DataFrame, a table by name, files, or a frame that is sent."""

from __future__ import annotations

import codecs
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from hdpview.counts.files import csv_layout, files_of, kind_of_file
from hdpview.counts.frames import arrow_of
from hdpview.counts.sources import is_ibis_table
from hdpview.domain.text_format import PLAIN, TextFormat
from hdpview.errors import DataError
from hdpview.spark.session import DataFrame, Session, is_spark_frame, quiet_child

_CHARSETS = {
    "utf-8": "UTF-8",
    "iso8859-1": "ISO-8859-1",
    "utf-16": "UTF-16",
    "utf-16-le": "UTF-16LE",
    "utf-16-be": "UTF-16BE",
    "utf-32": "UTF-32",
}
_ADDRESS = r"[a-zA-Z][\w+.-]+://"
_TABLE_NAME = r"[\w`-]+(\.[\w`-]+){0,2}"


@contextmanager
def open_on_spark(
    session: Session,
    source: Any,
    wanted: Sequence[str] | None = None,
    text: TextFormat = PLAIN,
    exact_text: Sequence[str] = (),
) -> Iterator[DataFrame]:
    """Open a table in a child session on Spark.

    source: Spark DataFrame; name of a table in the session's catalog; path, glob, folder or address of
        Parquet or CSV files that every worker can read; Ibis table on Spark; or a pandas, Polars or Arrow
        table, which is sent to the workers.
    wanted: the columns to read; None for all.
    text: the format of CSV files.
    exact_text: columns that name persons, in which no two values may become one.
    """
    # All sessions of the driver see it, so its name must not clash.
    view = f"hdpview_{secrets.token_hex(8)}"
    _frame_of(session, source, wanted, text, exact_text).createOrReplaceGlobalTempView(view)
    try:
        with quiet_child(session) as child:
            yield child.table(f"global_temp.{view}")
    finally:
        session.catalog.dropGlobalTempView(view)


def _frame_of(
    session: Session, source: Any, wanted: Sequence[str] | None, text: TextFormat, exact_text: Sequence[str]
) -> DataFrame:
    if is_spark_frame(source):
        return source
    if is_ibis_table(source):
        if source.get_backend().name != "pyspark":
            raise DataError(
                "This Ibis table is not on Spark. Build with engine='local' to count it where it is."
            )
        return session.sql(source.get_backend().compile(source))
    if isinstance(source, (str, Path)):
        return _named(session, source, text)
    rows = arrow_of(source, wanted, exact_text)
    table = rows if isinstance(rows, pa.Table) else pa.table(rows)
    for position, field in enumerate(table.schema):
        # Spark knows microseconds.
        if field.name in exact_text and pa.types.is_timestamp(field.type) and field.type.unit == "ns":
            table = table.set_column(position, field.name, table[position].cast(pa.string()))
    return session.createDataFrame(table)


def _named(session: Session, source: str | Path, text_format: TextFormat) -> DataFrame:
    """The table or the files that a text names. Files take precedence over tables."""
    text = str(source)
    if re.match(_ADDRESS, text):
        return _read(session, [text], text_format)
    is_name = (
        isinstance(source, str)
        and re.fullmatch(_TABLE_NAME, text)
        and kind_of_file(Path(text)) is None
        and not Path(text).exists()
    )
    if is_name and session.catalog.tableExists(text):
        return session.table(text)
    if is_name:
        raise DataError(
            f"There is neither a table nor a file {text!r}. Check the name; spark.catalog.listTables() lists "
            "the tables."
        )
    return _read(session, [str(file.resolve()) for file in files_of(source)], text_format)


def _read(session: Session, paths: list[str], text: TextFormat) -> DataFrame:
    if kind_of_file(Path(paths[0])) != "csv":
        return session.read.parquet(*map(_literal, paths), mergeSchema=len(paths) > 1)
    if re.match(_ADDRESS, paths[0]):
        raise DataError(
            "CSV files cannot be read from an address. Convert them to Parquet, or pass "
            "spark.read.csv(address, ...)."
        )
    delimiter, names = csv_layout([Path(path) for path in paths], text)
    frame = session.read.csv(
        list(map(_literal, paths)),
        # Inferred types would depend on values.
        schema=", ".join(f"`{name.replace('`', '``')}` STRING" for name in names),
        header=not text.columns,
        sep=delimiter,
        encoding=_charset(text),
        quote=text.quote,
        escape=text.quote or "\\",
        multiLine=True,  # quoted fields may hold line breaks; costs one task per file
        mode="PERMISSIVE",
        enforceSchema=True,
    )
    return frame.fillna("")  # an empty field is empty text; the attribute decides how to read it


def _charset(text: TextFormat) -> str:
    """Spark's name for an encoding."""
    name = "utf-8" if text.is_utf8 else codecs.lookup(text.encoding).name
    if name not in _CHARSETS:
        raise DataError(
            f"Spark cannot read CSV files in {text.encoding}. Convert them to UTF-8 or Parquet, or build "
            "with engine='local'."
        )
    return _CHARSETS[name]


def _literal(path: str) -> str:
    """Escape glob characters of a path."""
    return path if re.match(_ADDRESS, path) else re.sub(r"([*?\[\]{}\\])", r"\\\1", path)
