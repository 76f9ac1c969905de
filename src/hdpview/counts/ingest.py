"""From a table to its encoded rows or occupied cells, encoded and grouped in the database. Private side."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np

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
from hdpview.counts.refusals import quoting_no_value
from hdpview.counts.rows import Decoder, States
from hdpview.counts.sources import OpenSource, open_source
from hdpview.counts.sparse import Codes, SparseCounts, code_type
from hdpview.domain import Schema
from hdpview.domain.text_format import PLAIN, TextFormat
from hdpview.errors import DataError, unknown_name
from hdpview.progress import Progress, in_background, silent

Result = TypeVar("Result")

CHECKING = "Checking the table against the schema"
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
    codes = [np.empty((0, len(schema)), code_type(schema))]
    counts = [np.empty(0, np.int64)]

    def collect(opened: OpenSource) -> None:
        del codes[1:], counts[1:]
        rows = rows_sql(opened.types, schema, options)
        for batch in opened.batches(cells_sql(rows, schema, options)):
            codes.append(np.stack([batch[f"c_{i}"].to_numpy() for i in range(len(schema))], axis=1))
            counts.append(batch["n"].to_numpy().copy())  # a view would keep the whole batch

    read_with(collect, source, schema, options, "Counting occupied cells")
    # One array at a time, to limit peak memory.
    all_codes = cast("Codes", np.concatenate(codes))
    codes.clear()
    return SparseCounts(schema, all_codes, np.concatenate(counts), options.threads)


def read_states(source: Any, schema: Schema, options: ReadOptions = READ_ALL) -> States:
    """Count, per column, how values would be read, in one pass that keeps no row."""

    def count(opened: OpenSource) -> States:
        decoder = Decoder(schema)
        for batch in opened.batches(rows_sql(opened.types, schema, options)):
            deque(decoder.rows_of(batch), maxlen=0)
        return decoder.states

    return read_with(count, source, schema, options, CHECKING)


def read_with(
    work: Callable[[OpenSource], Result],
    source: Any,
    schema: Schema,
    options: ReadOptions,
    text: str,
    *,
    strict: bool = False,
) -> Result:
    """Open a table, check its columns, and do the work on a thread, so that Ctrl-C stops the database at
    once. Errors quote no value.
    """
    settings = {"parallel_csv": True, "strict": strict}

    def read() -> Result:
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
            report = lambda: options.progress(opened.fraction_read(), text)  # noqa: E731
            return in_background(lambda: work(opened), report, opened.stop)

    def can_retry(refusal: Exception) -> bool:
        others = other_settings(refusal)
        is_new = not others.items() <= settings.items()
        settings.update(others)
        return is_new

    return quoting_no_value(source, read, can_retry)


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
        readable = (*_COLUMN_KINDS[attribute.kind], *(_NUMBERS if is_epoch else ()))
        if kind_of_type(written) not in readable:
            fitting = ", ".join(kind for kind in _COLUMN_KINDS[attribute.kind] if kind != "null")
            raise DataError(
                f"Column {attribute.name!r} is of type {written}, which cannot be read as {attribute.kind}. "
                f"Change its type in the schema, or make the column one of: {fitting}."
            )


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
