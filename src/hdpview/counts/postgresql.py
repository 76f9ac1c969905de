"""Read the columns of a PostgreSQL table, many rows per message.

One row per message would cost the driver microseconds, far more than the encoding. So the server packs
thousands of rows into one text, which Arrow reads. A row is written as PostgreSQL writes composite values,
`(1,"a b",)`: a line of a CSV file, with a parenthesis at either end and doubled backslashes.
"""

from __future__ import annotations

import io
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from hdpview.counts.arrow_input import Stream
from hdpview.counts.encode import name_sql

_ROWS_PER_PART = 32_768
# Number of parts that the driver fetches at a time.
_PARTS_AT_ONCE = 2
# Maximum characters of a text; longer ones count as missing.
_LONGEST_TEXT = 100_000
# With the usual 4 MB of memory, the server would write the packed rows to its disk first.
_SETTINGS = "SET LOCAL datestyle = 'ISO'; SET LOCAL extra_float_digits = 1; SET LOCAL work_mem = '64MB'"
# Types of Ibis → types of DuckDB that restore columns other than text.
_TYPES = {"boolean": "BOOLEAN", "integer": "BIGINT", "floating": "DOUBLE", "date": "DATE", "uuid": "UUID"}


def stream_of(backend: Any, table: Any, exact_text: Sequence[str]) -> tuple[Stream, str]:
    """The table as texts, and the SQL that restores the types of its columns.

    exact_text: columns that identify persons, which stay texts. Each reading is one statement, and so one
    snapshot of the table.
    """
    fields, typed = [], []
    for name, dtype in table.schema().items():
        column, kind = name_sql(name), None if name in exact_text else _duckdb_type(dtype)
        fields.append(_field(column, dtype, name in exact_text))
        single = f"replace({column}, '\\\\', '\\')"
        typed.append(f"{single if kind is None else f'TRY_CAST({column} AS {kind})'} AS {column}")
    schema = pa.schema([(name, pa.string()) for name in table.columns])

    def batches() -> Iterator[pa.RecordBatch]:
        # register in-memory tables, as Ibis does for its own queries
        backend._run_pre_execute_hooks(table)
        # The first and last fields contain the parentheses.
        line = f"ROW(NULL, {', '.join(fields)}, NULL)::text"
        numbered = (
            f"SELECT {line} AS line, (row_number() OVER () - 1) / {_ROWS_PER_PART} AS part "
            f"FROM ({backend.compile(table)}) AS rows"
        )
        statement = f"SELECT string_agg(line, E'\\n') FROM ({numbered}) AS numbered GROUP BY part"
        with backend.con.transaction(), backend.con.cursor(name=f"hdpview_{secrets.token_hex(8)}") as cursor:
            backend.con.execute(_SETTINGS)
            cursor.execute(statement)
            while parts := cursor.fetchmany(_PARTS_AT_ONCE):
                for (lines,) in parts:
                    yield from _parsed(lines, schema)

    return Stream(schema, batches), ", ".join(typed)


def _duckdb_type(dtype: Any) -> str | None:
    if dtype.is_timestamp():
        return "TIMESTAMP" if dtype.timezone is None else "TIMESTAMPTZ"
    if dtype.is_decimal() and dtype.precision is not None and dtype.precision <= 38:
        return f"DECIMAL({dtype.precision}, {dtype.scale or 0})"
    return next((kind for name, kind in _TYPES.items() if getattr(dtype, f"is_{name}")()), None)


def _field(column: str, dtype: Any, is_exact: bool) -> str:
    """A column that the server writes as the text of a field."""
    if dtype.is_string() or not (dtype.is_numeric() or dtype.is_boolean() or dtype.is_temporal()):
        return f"CASE WHEN length({column}::text) <= {_LONGEST_TEXT} THEN {column}::text END"
    if dtype.is_decimal() and dtype.scale is None:
        return f"trim_scale({column})"
    if (dtype.is_timestamp() or dtype.is_date()) and not is_exact:
        # dates outside DuckDB's calendar, including infinity
        kind = "date" if dtype.is_date() else "timestamp" if dtype.timezone is None else "timestamptz"
        first, last = "'0001-01-01'", "'9999-12-31'" if kind == "date" else "'9999-12-31 23:59:59.999999'"
        return (
            f"CASE WHEN {column} < {first}::{kind} THEN {first}::{kind} "
            f"WHEN {column} > {last}::{kind} THEN {last}::{kind} ELSE {column} END"
        )
    return f"{column}::text" if is_exact else column


def _parsed(lines: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    content = lines.encode()
    table = pacsv.read_csv(
        io.BytesIO(content),
        pacsv.ReadOptions(column_names=["(", *schema.names, ")"], block_size=max(1 << 20, len(content) + 1)),
        pacsv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        pacsv.ConvertOptions(
            column_types=schema,
            include_columns=schema.names,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    yield from table.to_batches()
