"""Data frames as Arrow, by rules that look at one value alone."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from datetime import date
from typing import Any

import duckdb
import narwhals as nw
import pyarrow as pa
import pyarrow.dataset as pads

from hdpview.errors import DataError, quoted

_BATCH_ROWS = 131_072
_WIDE = ("HUGEINT", "UHUGEINT")


def arrow_of(source: Any, wanted: Sequence[str] | None) -> pa.Table | pa.RecordBatchReader:
    """A frame as an Arrow table, or as a stream of batches where it can be one.

    wanted: the columns that are needed. The others are left behind, unless one of these is absent: then all
        names are kept, to say what there is.
    """
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    if isinstance(source, pa.Table):
        table = source.select(_kept(source.column_names, wanted))
        return table.cast(_readable(table.schema))
    if isinstance(source, duckdb.DuckDBPyRelation):
        source = _narrow(
            source.select(*map(duckdb.ColumnExpression, _kept(source.columns, wanted)))
        ).to_arrow_reader(_BATCH_ROWS)
    if isinstance(source, pads.Dataset):
        source = source.scanner(
            columns=_kept(source.schema.names, wanted), batch_size=_BATCH_ROWS
        ).to_reader()
    if isinstance(source, pa.RecordBatchReader):
        return source.cast(_readable(source.schema))
    table = _from_frame(source, wanted)
    return table.cast(_readable(table.schema))


def _kept(names: Sequence[str], wanted: Sequence[str] | None) -> list[str]:
    return list(wanted) if wanted is not None and set(wanted) <= set(names) else list(names)


def _narrow(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """128-bit integers as decimals, null where those end: as Arrow they would wrap around or be refused."""
    narrowed = {
        name: duckdb.ColumnExpression(name).try_cast("DECIMAL(38, 0)").alias(name)
        for name, kind in zip(relation.columns, relation.types, strict=True)
        if str(kind) in _WIDE
    }
    return relation.select(*(narrowed.get(name, duckdb.ColumnExpression(name)) for name in relation.columns))


def _from_frame(source: Any, wanted: Sequence[str] | None) -> pa.Table:
    if nw.dependencies.is_pandas_dataframe(source):
        _check_names(list(source.columns))
    try:
        frame = nw.from_native(source)
    except TypeError:
        kinds = "a path, a pandas, Polars or Arrow table, a DuckDB relation or an Ibis table"
        raise DataError(f"A value of type {type(source).__name__!r} is not a table. Pass {kinds}.") from None
    frame = frame.select(_kept(frame.collect_schema().names(), wanted))
    if isinstance(frame, nw.LazyFrame):
        return frame.collect("pyarrow").to_arrow()
    return pa.table({series.name: _column(series) for series in frame.iter_columns()})


def _check_names(names: Sequence[Any]) -> None:
    """Raise where a schema could not call a pandas frame's columns by name: pandas takes anything for a name,
    and twice.
    """
    if not names:
        raise DataError("The frame has no columns.")
    for name in names:
        if not isinstance(name, str):
            raise DataError(
                f"Columns are called by text, and one is called {quoted(name)}. Rename it, for example: frame.columns = [...]."
            )
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise DataError(f"The frame has two columns named {quoted(twice[0])}. Rename one of them.")


def _column(series: nw.Series[Any]) -> pa.Array | pa.ChunkedArray:
    """A pandas column of objects becomes text: one type guessed for all would let one row change how others
    are read.
    """
    if series.dtype != nw.Object:
        try:
            return series.to_arrow()
        except (
            pa.ArrowException,
            TypeError,
            ValueError,
        ):  # pandas says text, having looked at the first rows only
            pass
    return pa.array([_text(value) for value in series.to_list()], pa.large_string())


def _text(value: Any) -> str | None:
    try:
        if value is None or bool(value != value):  # NaN and NaT differ from themselves
            return None
    except (TypeError, ValueError):  # pandas.NA has no truth
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode(
            "utf-8"
        )  # a lone surrogate is no text that a database takes
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and math.isfinite(value) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))  # 1.0 stands for 1 wherever numbers are told apart
    return value.isoformat() if isinstance(value, date) else str(value)


def _readable(schema: pa.Schema) -> pa.Schema:
    """The schema with a type that DuckDB does not read replaced by one that holds the same values."""
    for position, field in enumerate(schema):
        if pa.types.is_float16(field.type):
            schema = schema.set(position, field.with_type(pa.float32()))
    return schema
