"""Data frames as Arrow, by rules that depend on one value alone.

Databases refuse a whole table for one value that they cannot store, such as invalid UTF-8 in a text or a date
beyond their calendar. This module replaces such values by null before a database reads them. [P7]
"""

from __future__ import annotations

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from numbers import Number
from pathlib import Path
from typing import Any

import duckdb
import narwhals as nw
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from hdpview.counts.encode import NOT_TEXT
from hdpview.errors import DataError, quoted

_BATCH_ROWS = 131_072
_WIDE = ("HUGEINT", "UHUGEINT")
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000}  # microseconds per unit, for units with a longer range


class Stream:
    """Batches that can be read again: DuckDB reads them once per scan, and their schema in between."""

    def __init__(self, schema: pa.Schema, batches: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        self.schema, self.batches = schema, batches

    def reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.schema, self.batches())

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.reader().__arrow_c_stream__(requested_schema)


def arrow_of(
    source: Any, wanted: Sequence[str] | None, exact_text: Sequence[str] = ()
) -> pa.Table | pa.RecordBatchReader | Stream:
    """A frame as an Arrow table, or as a stream of batches if possible.

    wanted: the columns that are needed. The others are dropped, unless a wanted one is absent: then all names
        are kept for the error message.
    exact_text: columns that identify persons, so distinct values must stay distinct.
    """
    if isinstance(source, duckdb.DuckDBPyRelation):
        # 128-bit integers as decimals, null beyond their range: Arrow would wrap them around or refuse them.
        is_wide = {name: str(kind) in _WIDE for name, kind in zip(source.columns, source.types, strict=True)}
        kept = {name: duckdb.ColumnExpression(name) for name in _kept(source.columns, wanted)}
        narrowed = (
            column.try_cast("DECIMAL(38, 0)").alias(name) if is_wide[name] else column
            for name, column in kept.items()
        )
        narrow = source.select(*narrowed)
        schema = narrow.limit(0).to_arrow_table().schema
        return clean_stream(schema, lambda: narrow.to_arrow_reader(_BATCH_ROWS))
    if isinstance(source, pads.Dataset):
        columns = _kept(source.schema.names, wanted)
        scanner = source.scanner(columns=columns, batch_size=_BATCH_ROWS)
        return clean_stream(scanner.projected_schema, scanner.to_reader)
    if isinstance(source, pa.RecordBatchReader):
        return clean_stream(source.schema, lambda: source).reader()
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if isinstance(source, pa.Table):
        check_names(source.column_names, "The table")
        table = source.select(_kept(source.column_names, wanted))
    else:
        table = _from_frame(source, wanted, exact_text)
    return clean_stream(table.schema, table.to_batches).reader().read_all()


def clean_stream(schema: pa.Schema, read: Callable[[], Iterable[pa.RecordBatch]]) -> Stream:
    """Batches with null for values that a database would refuse. [P7]"""
    # DuckDB cannot read float16.
    fields = [each.with_type(pa.float32()) if pa.types.is_float16(each.type) else each for each in schema]
    readable = pa.schema(fields)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in read():
            columns = [
                _clean(column.cast(field.type)) for column, field in zip(batch.columns, readable, strict=True)
            ]
            yield pa.record_batch(columns, schema=readable)

    return Stream(readable, batches)


def needs_cleaning(files: Sequence[Path], wanted: Sequence[str], exact_text: Sequence[str]) -> bool:
    """Whether Parquet files have column types that DuckDB's own reader could refuse or merge values of.

    It refuses timestamps in milliseconds beyond the range of microseconds. It replaces invalid UTF-8 in texts
    and turns numbers of mixed types into doubles. Both can merge two values, which matters in the columns
    `exact_text`, which identify persons.
    """
    schemas = [pq.read_schema(file) for file in files]
    for name in wanted:
        kinds = {schema.field(name).type for schema in schemas if name in schema.names}
        if any(map(_is_far_reaching, kinds)):
            return True
        if name in exact_text and (len(kinds) > 1 or any(map(_is_text, kinds))):
            return True
    return False


def parquet_schema(files: Sequence[Path], wanted: Sequence[str], exact_text: Sequence[str] = ()) -> pa.Schema:
    """The wanted columns, with types that hold those of all files."""
    schemas = [pq.read_schema(file) for file in files]
    schema = pa.unify_schemas(schemas, promote_options="permissive").remove_metadata()
    for name in exact_text:
        kinds = {each.field(name).type for each in schemas if name in each.names}
        if len(kinds) > 1 and pa.types.is_floating(schema.field(name).type):
            raise DataError(
                f"Column {quoted(name)} identifies persons but has {len(kinds)} types in these files, which "
                "could merge two persons. Write it with one type."
            )
    return pa.schema([schema.field(name) for name in _kept(schema.names, wanted)])


def parquet_batches(
    file: str, schema: pa.Schema, row_groups: Sequence[int] | None = None, *, use_threads: bool = True
) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file, or of some of its row groups, in a common schema.

    The file is read with its own types: reading it with others may round a value, and a strict reader would
    refuse the table because of it. [P7]
    """
    with pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as opened:
        own = [name for name in schema.names if name in opened.schema_arrow.names]
        for batch in opened.iter_batches(_BATCH_ROWS, row_groups, own, use_threads=use_threads):
            columns = [
                batch[field.name].cast(field.type, safe=False)
                if field.name in own
                else pa.nulls(len(batch), field.type)
                for field in schema
            ]
            yield pa.record_batch(columns, schema=schema)


def _clean(column: pa.Array) -> pa.Array:
    if _is_far_reaching(column.type):
        number, most = column.view(pa.int64()), (2**63 - 1) // _MICROSECONDS[column.type.unit]
        is_near = pc.and_(pc.less_equal(number, most), pc.greater_equal(number, -most))
        return pc.if_else(is_near, column, pa.scalar(None, column.type))
    if _is_text(column.type):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid:
            return _readable_texts(column)
    return column


def _readable_texts(column: pa.Array) -> pa.Array:
    """Texts with null in place of invalid UTF-8."""
    if pa.types.is_dictionary(column.type):
        return _readable_texts(column.dictionary).take(column.indices).cast(column.type)
    as_bytes = column.view(pa.binary_view()) if pa.types.is_string_view(column.type) else column
    texts: list[str | None] = []
    for value in as_bytes.cast(pa.large_binary()).to_pylist():
        texts.append(None)
        with contextlib.suppress(UnicodeDecodeError, AttributeError):
            texts[-1] = value.decode("utf-8")
    return pa.array(texts, pa.large_string()).cast(column.type)


def _is_far_reaching(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.unit in _MICROSECONDS)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _kept(names: Sequence[str], wanted: Sequence[str] | None) -> list[str]:
    return list(wanted) if wanted is not None and set(wanted) <= set(names) else list(names)


def _from_frame(source: Any, wanted: Sequence[str] | None, exact_text: Sequence[str]) -> pa.Table:
    if nw.dependencies.is_pandas_dataframe(source):
        check_names(list(source.columns))
    try:
        frame = nw.from_native(source)
    except TypeError:
        kinds = "a path, a pandas, Polars or Arrow table, a DuckDB relation or an Ibis table"
        raise DataError(f"A value of type {type(source).__name__!r} is not a table. Pass {kinds}.") from None
    frame = frame.select(_kept(frame.collect_schema().names(), wanted))
    if isinstance(frame, nw.LazyFrame):
        return frame.collect("pyarrow").to_arrow()
    return pa.table(
        {series.name: _column(series, series.name in exact_text) for series in frame.iter_columns()}
    )


def check_names(names: Sequence[Any], table: str = "The frame") -> None:
    """Raise if a schema could not address all columns by name."""
    if not names:
        raise DataError(f"{table} has no columns.")
    if odd := [name for name in names if not isinstance(name, str)]:
        example = "Rename it, for example: frame.columns = [...]."
        raise DataError(f"Names of columns must be texts, but one is {quoted(odd[0])}. {example}")
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise DataError(f"{table} has two columns named {quoted(name)}. Rename one of them.")


def _column(series: nw.Series[Any], is_exact: bool) -> pa.Array | pa.ChunkedArray:
    """A pandas column of objects becomes text, because a guessed type would let one row change others.

    is_exact: whether 1 and "1" must stay distinct; values that are not texts are then marked.
    """
    if series.dtype != nw.Object:
        with contextlib.suppress(pa.ArrowException, TypeError, ValueError):
            return series.to_arrow()  # fails where pandas infers text, from the first rows only
    texts = [_text(value) for value in series.to_list()]
    if is_exact:
        texts = [
            text if text is None or isinstance(value, str) else text + NOT_TEXT[isinstance(value, Number)]
            for text, value in zip(texts, series.to_list(), strict=True)
        ]
    return pa.array(texts, pa.large_string())


def _text(value: Any) -> str | None:
    try:
        if value is None or bool(value != value):  # NaN and NaT differ from themselves
            return None
    except (TypeError, ValueError):  # pandas.NA has no truth value
        return None
    if isinstance(value, str):
        # databases refuse lone surrogates
        return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and math.isfinite(value) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))  # 1.0 equals 1 wherever numbers are compared
    return value.isoformat() if isinstance(value, date) else str(value)
