"""From a table to its encoded rows or occupied cells, encoded and grouped in the database. Private side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from threading import Event
from typing import Any, TypeVar, cast

import ibis
import numpy as np
import pyarrow as pa

from hdpview.counts.contributions import EACH_ROW, MOST_PER_ROW, Contributions, bounded, words_in
from hdpview.counts.encode import encode
from hdpview.counts.files import csv_files, csv_layout, needs_one_reader
from hdpview.counts.pack import pack
from hdpview.counts.refusals import quoting_no_value, without_values
from hdpview.counts.sources import OpenSource, open_source
from hdpview.counts.sparse import Codes, SparseCounts, code_type
from hdpview.counts.unpack import unpack, words_of
from hdpview.counts.values import is_one_of
from hdpview.domain import Schema
from hdpview.domain.text_format import PLAIN, TextFormat
from hdpview.errors import DataError, HdpviewError, unknown_name
from hdpview.progress import Progress, in_background, silent

Result = TypeVar("Result")

BATCH_ROWS = 131_072
_STEP = "Counting occupied cells"
_NUMBERS = ("integer", "floating", "decimal", "boolean", "string", "null")
_COLUMN_KINDS = {  # type of attribute → kinds of columns it can be read from
    "integer": _NUMBERS,
    "real": _NUMBERS,
    "boolean": _NUMBERS,
    "category": (*_NUMBERS, "uuid"),
    "datetime": ("timestamp", "date", "string", "null"),
    "date": ("timestamp", "date", "string", "null"),
}


@dataclass(frozen=True)
class ReadOptions:
    """How a table is read.

    limits: who is protected, and how many of their rows are counted; salt: decides by lot which ones.
    memory_limit, threads: of the embedded database, which spills to disk beyond it; on Spark, of a session of
        our own on this machine.
    """

    limits: Contributions = EACH_ROW
    salt: str = ""
    memory_limit: str | None = None
    threads: int | None = None
    progress: Progress = silent

    def wanted(self, schema: Schema) -> list[str]:
        """The columns that are read, each once."""
        return list(dict.fromkeys([*schema.names, *self.limits.columns]))


READ_ALL = ReadOptions()


def read_counts(source: Any, schema: Schema, options: ReadOptions = READ_ALL) -> SparseCounts:
    """The occupied cells of a table. No row is refused: what that row holds decides its cell, and nothing
    else does. source: see `sources.open_source`.
    """

    def read(opened: OpenSource) -> SparseCounts:
        query = occupied_cells(opened.table, schema, options.limits, options.salt, is_ours=opened.is_ours)
        batches = opened.batches_of_numbers(query, BATCH_ROWS)
        return run_query(
            opened, lambda stop: _collected(batches, schema, stop, options.threads), options.progress, _STEP
        )

    return read_with(read, source, schema, options)


def read_with(
    read: Callable[[OpenSource], Result],
    source: Any,
    schema: Schema,
    options: ReadOptions,
    *,
    strict: bool = False,
) -> Result:
    """Open a table, check its columns and read it; errors that come back quote no value."""
    problem: DataError | None = None
    for parallel_csv in (True, False):
        try:
            with open_source(
                source,
                options.wanted(schema),
                memory_limit=options.memory_limit,
                threads=options.threads,
                parallel_csv=parallel_csv,
                exact_text=[] if options.limits.unit is None else [options.limits.unit],
                text=schema.source,
                strict=strict,
            ) as opened:
                check_columns(opened.types, schema)
                options.limits.check(opened.types)
                return read(opened)
        except HdpviewError:
            raise
        # whatever a database or file reader raises may quote values: only its kind is passed on
        except Exception as refusal:
            problem = without_values(refusal, source)
            if not (parallel_csv and needs_one_reader(refusal)):
                break
    assert problem is not None
    raise problem  # not in the handler: there the original, with its message, would become its context


def column_types(source: Any, text: TextFormat = PLAIN) -> dict[str, str]:
    """Names and types of a table's columns, as Ibis writes them. No row is read from files and databases.

    text: how CSV files are written.
    """
    if (files := csv_files(source)) is not None:
        return dict.fromkeys(csv_layout(files, text)[1], "string")

    def read() -> dict[str, str]:
        with open_source(source, text=text) as opened:
            return opened.types

    return quoting_no_value(source, read)


def check_columns(types: Mapping[str, str], schema: Schema) -> None:
    """Raise a DataError where a table with columns of these types cannot be read by the schema."""
    for attribute in schema:
        if attribute.name not in types:
            raise DataError(unknown_name("column", attribute.name, types, "The table has"))
        written = types[attribute.name]
        is_epoch = attribute.kind == "datetime" and schema.source.epoch is not None
        if not can_be_read(written, attribute.kind) and not (is_epoch and can_be_read(written, "integer")):
            fitting = ", ".join(kind for kind in _COLUMN_KINDS[attribute.kind] if kind != "null")
            raise DataError(
                f"Column {attribute.name!r} is of type {written}, which cannot be read as {attribute.kind}. "
                f"Change its type in the schema, or make the column one of: {fitting}."
            )


def can_be_read(written: str, kind: str) -> bool:
    """Whether a column of this type, as Ibis writes it, can be read as an attribute of that kind."""
    return is_one_of(written, _COLUMN_KINDS[kind])


def packed_rows(
    table: ibis.Table, schema: Schema, limits: Contributions, salt: str, *, is_ours: bool = False
) -> ibis.Table:
    """The query that encodes: the cell of each row that counts, packed into `word_0`, `word_1`, …, and where
    `limits` has a count column, how many records `n` > 0 the row stands for.
    """
    kept = {new: old for new, old in (("unit", limits.unit), ("count", limits.count)) if old is not None}
    words = pack(encode(table, schema, kept, is_ours=is_ours), schema.sizes)
    if limits == EACH_ROW:
        return words
    rows = bounded(words, limits, salt, is_ours=is_ours)  # [P11]
    return rows.filter(rows["n"] > 0).select(*words_in(rows), *(["n"] if limits.count is not None else []))


def occupied_cells(
    table: ibis.Table, schema: Schema, limits: Contributions, salt: str, *, is_ours: bool = False
) -> ibis.Table:
    """The query that counts: packed cells `word_0`, `word_1`, … and the records `n` > 0 in each."""
    rows = packed_rows(table, schema, limits, salt, is_ours=is_ours)
    cell = words_in(rows)
    if limits.count is None:
        return rows.group_by(cell).aggregate(n=rows.count())  # [P7]
    # Summed as wide as the database can, then held at a bound: no two neighbours get further apart by it, and
    # 64 bits cannot overflow. Through a double, which is exact here, since Ibis takes a sum for 64 bits wide
    # already and would leave the cast out.
    records = rows["n"].cast("decimal(38, 0)") if table.get_backend().name == "pyspark" else rows["n"]
    totals = rows.group_by(cell).aggregate(total=records.sum())
    held = ibis.ifelse(totals["total"] > MOST_PER_ROW, MOST_PER_ROW, totals["total"])
    return totals.select(*cell, n=held.cast("float64").cast("int64"))


def run_query(opened: OpenSource, work: Callable[[Event], Result], report: Progress, text: str) -> Result:
    """Do the work, on a thread where the database is DuckDB, so that Ctrl-C stops the database at once. The
    work ends early when the event is set.
    """
    report(None, text)
    event = Event()
    if not opened.is_duckdb:
        return work(event)
    connection = opened.backend.con

    def tell() -> None:
        percent = connection.query_progress()
        report(percent / 100 if percent >= 0 else None, text)

    def stop() -> None:
        event.set()
        connection.interrupt()

    return in_background(lambda: work(event), tell, stop)


def _collected(
    batches: Iterator[pa.RecordBatch], schema: Schema, stop: Event, threads: int | None
) -> SparseCounts:
    """Unpack each batch as it comes; the parts are joined one array at a time, to keep the peak low."""
    dtype, n_words = code_type(schema), len(words_of(schema.sizes))
    codes = [cast("Codes", np.empty((0, len(schema)), dtype))]
    counts = [np.empty(0, np.int64)]
    for batch in batches:
        if stop.is_set():
            break
        codes.append(unpack([batch[f"word_{w}"].to_numpy() for w in range(n_words)], schema.sizes, dtype))
        counts.append(batch["n"].to_numpy().copy())  # a view would keep the whole batch
    all_codes = cast("Codes", np.concatenate(codes))
    codes.clear()
    return SparseCounts(schema, all_codes, np.concatenate(counts), threads)
