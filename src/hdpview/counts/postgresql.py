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
    columns = [_column(name, dtype, name in exact_text) for name, dtype in table.schema().items()]
    fields, typed = ([each[side] for each in columns] for side in (0, 1))
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


def _column(name: str, dtype: Any, is_exact: bool) -> tuple[str, str]:
    """A column that the server writes as the text of a field, and the SQL that restores its type."""
    column, kind = name_sql(name), None
    if dtype.is_timestamp():
        kind = "TIMESTAMP" if dtype.timezone is None else "TIMESTAMPTZ"
    elif dtype.is_decimal() and dtype.precision is not None and dtype.precision <= 38:
        kind = f"DECIMAL({dtype.precision}, {dtype.scale or 0})"
    else:
        kind = next((own for each, own in _TYPES.items() if getattr(dtype, f"is_{each}")()), None)
    text = f"replace({column}, '\\\\', '\\')"
    restored = f"TRY_CAST({column} AS {kind})" if kind is not None and not is_exact else text
    field = f"{column}::text" if is_exact else column
    if dtype.is_string() or not (dtype.is_numeric() or dtype.is_boolean() or dtype.is_temporal()):
        field = f"CASE WHEN length({column}::text) <= {_LONGEST_TEXT} THEN {column}::text END"
    elif dtype.is_decimal() and dtype.scale is None:
        field = f"trim_scale({column})"
    elif (dtype.is_timestamp() or dtype.is_date()) and not is_exact:
        # dates outside DuckDB's calendar, including infinity
        cast = "date" if dtype.is_date() else "timestamp" if dtype.timezone is None else "timestamptz"
        end = "" if dtype.is_date() else " 23:59:59.999999"
        first, last = f"'0001-01-01'::{cast}", f"'9999-12-31{end}'::{cast}"
        field = (
            f"CASE WHEN {column} < {first} THEN {first} WHEN {column} > {last} THEN {last} ELSE {column} END"
        )
    return field, f"{restored} AS {column}"


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
