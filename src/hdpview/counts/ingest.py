"""From a table to its encoded rows or occupied cells, encoded and grouped in the database. Private side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any, TypeVar, cast

import numpy as np
import pyarrow as pa

from hdpview.counts.contributions import (
    EACH_ROW,
    MOST_PER_ROW,
    Contributions,
    bounded_sql,
    count_sql,
    unit_sql,
)
from hdpview.counts.encode import code_sql, kind_of_type, outcomes_sql
from hdpview.counts.files import csv_layout, other_settings, text_files
from hdpview.counts.refusals import quoting_no_value, without_values
from hdpview.counts.rows import Decoder, States
from hdpview.counts.sources import OpenSource, open_source
from hdpview.counts.sparse import Codes, SparseCounts, code_type
from hdpview.domain import Schema
from hdpview.domain.text_format import PLAIN, TextFormat
from hdpview.errors import DataError, HdpviewError, unknown_name
from hdpview.progress import Progress, in_background, silent

Result = TypeVar("Result")

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
    """Options for reading a table.

    limits: the privacy unit and the most rows counted per person; salt: decides which rows are drawn.
    memory_limit, threads: of the embedded database, which spills to disk beyond the limit; with Spark, of our
        own session on this machine.
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
    """The occupied cells of a table. No row is refused: the cell of a row depends on this row alone.
    source: see `sources.open_source`.
    """

    def read(opened: OpenSource) -> SparseCounts:
        batches = opened.batches(cells_sql(rows_sql(opened.types, schema, options), schema, options))
        return run_query(
            opened, lambda stop: _collected(batches, schema, stop, options.threads), options.progress, _STEP
        )

    return read_with(read, source, schema, options)


def read_states(source: Any, schema: Schema, options: ReadOptions = READ_ALL) -> States:
    """Count, per column, how values would be read, in one pass that keeps no row."""

    def read(opened: OpenSource) -> States:
        def add(stop: Event) -> States:
            decoder = Decoder(schema)
            for batch in opened.batches(rows_sql(opened.types, schema, options)):
                if stop.is_set():
                    break
                for _ in decoder.rows_of(batch):
                    pass
            return decoder.states

        return run_query(opened, add, options.progress, "Checking the table against the schema")

    return read_with(read, source, schema, options)


def read_with(
    read: Callable[[OpenSource], Result],
    source: Any,
    schema: Schema,
    options: ReadOptions,
    *,
    strict: bool = False,
) -> Result:
    """Open a table, check its columns and read it; its errors quote no value."""
    settings, problem = {"parallel_csv": True, "strict": strict}, None
    while problem is None:
        try:
            with open_source(
                source,
                options.wanted(schema),
                memory_limit=options.memory_limit,
                threads=options.threads,
                exact_text=[] if options.limits.unit is None else [options.limits.unit],
                text=schema.source,
                **settings,
            ) as opened:
                check_columns(opened.types, schema)
                options.limits.check(opened.types)
                return read(opened)
        except HdpviewError:
            raise
        # any error of a database or file reader may quote values: pass on only its kind
        except Exception as refusal:
            others = other_settings(refusal)
            if others.items() <= settings.items():
                problem = without_values(refusal, source)
            settings |= others
    raise problem  # not in the handler: there the original, with its message, would become its context


def column_types(source: Any, text: TextFormat = PLAIN) -> dict[str, str]:
    """Names and DuckDB types of a table's columns. Reads no rows from files and databases.

    text: format of CSV files.
    """
    if (files := text_files(source, ["csv"])) is not None:
        return dict.fromkeys(csv_layout(files, text)[1], "varchar")

    def read() -> dict[str, str]:
        with open_source(source, text=text) as opened:
            return opened.types

    return quoting_no_value(source, read)


def check_columns(types: Mapping[str, str], schema: Schema) -> None:
    """Raise a DataError if columns of these types do not fit the schema."""
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
    """Whether a column of this DuckDB type can be read as an attribute of that kind."""
    return kind_of_type(written) in _COLUMN_KINDS[kind]


def rows_sql(
    types: Mapping[str, str], schema: Schema, options: ReadOptions, texts: Mapping[str, str] | None = None
) -> str:
    """The query that encodes: outcomes `o_0`, `o_1`, … of each row that counts and, if `limits` has a count
    column, the number of records `n` > 0 of the row. texts: further columns, as SQL by name.
    """
    return limited_sql(all_rows_sql(types, schema, options, texts), schema, options, [*(texts or ())])


def all_rows_sql(
    types: Mapping[str, str], schema: Schema, options: ReadOptions, texts: Mapping[str, str] | None = None
) -> str:
    """Like `rows_sql`, but of all rows, with the text `unit` that identifies the person."""
    limits = options.limits
    along = {} if limits.unit is None else {"unit": unit_sql(types[limits.unit], limits)}
    along |= {} if limits.count is None else {"n": count_sql(limits.count, types[limits.count])}
    return outcomes_sql(schema, types, {**along, **(texts or {})}, limits.unit)


def limited_sql(rows: str, schema: Schema, options: ReadOptions, texts: Sequence[str] = ()) -> str:
    """The rows that count, of those of `all_rows_sql`."""
    if options.limits == EACH_ROW:
        return rows
    columns, codes = zip(*((f"o_{i}", code_sql(i, each)) for i, each in enumerate(schema)), strict=True)
    hashes = [f"md5({name})" for name in texts]
    return bounded_sql(rows, [*columns, *texts], [*codes, *hashes], options.limits, options.salt)  # [P11]


def cells_sql(rows: str, schema: Schema, options: ReadOptions) -> str:
    """The query that counts: codes `c_0`, `c_1`, … of each occupied cell, and its records `n` > 0.
    rows: the query of `rows_sql`.
    """
    kind = "UTINYINT" if code_type(schema) == np.uint8 else "USMALLINT"
    cell = [f"CAST({code_sql(i, attribute)} AS {kind}) AS c_{i}" for i, attribute in enumerate(schema)]
    n = "count(*)" if options.limits.count is None else f"CAST(least(sum(n), {MOST_PER_ROW}) AS BIGINT)"
    along = [] if options.limits.count is None else ["n"]
    codes = f"SELECT {', '.join([*cell, *along])} FROM ({rows}) AS counted"
    names = ", ".join(f"c_{i}" for i in range(len(schema)))
    return f"SELECT {names}, {n} AS n FROM ({codes}) AS encoded GROUP BY {names}"  # [P7]


def run_query(opened: OpenSource, work: Callable[[Event], Result], report: Progress, text: str) -> Result:
    """Do the work on a thread, so that Ctrl-C stops the database at once. Setting the event ends it early."""
    report(None, text)
    event, connection = Event(), opened.connection

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
    """Collect batches, then join their parts one array at a time to limit peak memory."""
    dtype = code_type(schema)
    codes = [cast("Codes", np.empty((0, len(schema)), dtype))]
    counts = [np.empty(0, np.int64)]
    for batch in batches:
        if stop.is_set():
            break
        codes.append(np.stack([batch[f"c_{i}"].to_numpy() for i in range(len(schema))], axis=1))
        counts.append(batch["n"].to_numpy().copy())  # a view would keep the whole batch
    all_codes = cast("Codes", np.concatenate(codes))
    codes.clear()
    return SparseCounts(schema, all_codes, np.concatenate(counts), threads)
