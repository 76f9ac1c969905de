"""Draft a schema from names and types of columns. Values are read only if the data is public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pyarrow as pa

from hdpview.counts.encode import kind_of_type, name_sql
from hdpview.counts.files import csv_layout, kind_of_file, text_files
from hdpview.counts.guess import N_LINES, guessed_draft, is_iso
from hdpview.counts.ingest import column_types
from hdpview.counts.learn import MOST_CATEGORIES, Learnt, integer_between, real_between
from hdpview.counts.refusals import quoting_no_value
from hdpview.counts.sources import OpenSource, open_source
from hdpview.domain import Attribute, Boolean, Category, Datetime, Schema
from hdpview.domain.drafting import (
    Draft,
    DraftColumn,
    chosen_columns,
    is_identifier,
    is_suggestive,
    suggested_fields,
)
from hdpview.domain.text_format import PLAIN
from hdpview.errors import DataError, quoted

_KINDS = {  # kind of column → type of attribute
    "boolean": "boolean", "integer": "integer", "floating": "real", "decimal": "real",
    "timestamp": "datetime", "date": "datetime", "string": "category", "uuid": "category", "null": "category",
}  # fmt: skip


def draft_schema(
    source: Any,
    from_data_not_private: bool = False,
    *,
    columns: Sequence[str] = (),
    exclude: Sequence[str] = (),
) -> str:
    """Text of a schema file. With `from_data_not_private`, it is completed from values, and marked.

    columns, exclude: names of the columns to use (all if empty) and of those to leave out.
    """
    if from_data_not_private:
        return _filled(source, columns, exclude).to_toml()
    return draft_of(source, columns, exclude).text()


def draft_of(source: Any, columns: Sequence[str] = (), exclude: Sequence[str] = ()) -> Draft:
    """Names and types of a table's columns; text files are judged by the format of their first lines."""
    if (files := text_files(source)) is not None:
        draft = guessed_draft(files[0], is_named=bool(columns))
        if kind_of_file(files[0]) == "csv":
            csv_layout(files, draft.source or PLAIN)  # refuses files with different columns
        return draft.only(columns, exclude)
    types = column_types(source)
    names = chosen_columns(types, columns, exclude)
    head = {} if isinstance(source, pa.RecordBatchReader) else _typed_head(source, types, names)
    return Draft(tuple(_typed_column(name, types[name], head.get(name, ())) for name in names))


def _typed_head(source: Any, types: Mapping[str, str], names: Sequence[str]) -> dict[str, list[str]]:
    """First values of columns of which they may suggest something."""
    wanted = [name for name in names if is_suggestive(name, _kind(types[name]))]

    def read() -> dict[str, list[str]]:
        with open_source(source, wanted) as opened:
            rows = opened.rows(f"SELECT {', '.join(map(name_sql, wanted))} FROM source LIMIT {N_LINES}")
        return {name: [str(row[name]) for row in rows if row[name] is not None] for name in wanted}

    return quoting_no_value(source, read) if wanted else {}


def learnable_draft(
    source: Any, columns: Sequence[str] = (), exclude: Sequence[str] = (), unit: str | None = None
) -> tuple[Draft, dict[str, str]]:
    """The free draft, and the type of attribute of each column to learn: everything that can be decided or
    refused before budget is spent on values.

    columns: columns to learn; all but identifiers if empty. exclude: columns to leave out.
    unit: the column that identifies persons, which is not an attribute.
    """
    if unit is not None:
        chosen_columns(column_types(source), (), [unit])
    draft = draft_of(source, columns, exclude)
    kinds = {
        column.name: column.kind
        for column in draft.columns
        if column.kind is not None and column.name != unit and (columns or not column.is_identifier)
    }
    if draft.questions:
        listed = "; ".join(f"{key}: {question}" for key, question in draft.questions.items())
        raise DataError(f"The format of the file is ambiguous, so nothing was spent. {listed}")
    if not kinds:
        raise DataError("There is no column to learn. Name others with --columns, or exclude fewer.")
    return draft, kinds


def learnt_text(draft: Draft, learnt: Learnt, epsilon: Fraction, delta: Fraction) -> str:
    """Text of a schema file from the free draft and the learnt attributes, with their cost in ε and δ."""
    cost = {"learnt_epsilon": str(epsilon), **({"learnt_delta": str(delta)} if delta else {})}

    def described(column: DraftColumn) -> DraftColumn:
        if column.name not in learnt.kinds:
            return column
        if column.name not in learnt.attributes:
            return replace(column, note="could not be learnt with this budget")
        known = learnt.attributes[column.name].to_dict()
        fields = {key: value for key, value in known.items() if key not in ("type", "nullable")}
        return DraftColumn(column.name, learnt.kinds[column.name], fields)

    return replace(draft, columns=tuple(map(described, draft.columns)), learnt=cost).text()


def _kind(written: str) -> str | None:
    """The type of attribute for a column of this type; None if there is none."""
    return _KINDS.get(kind_of_type(written) or "")


def _typed_column(name: str, written: str, head: Sequence[str]) -> DraftColumn:
    kind = _kind(written)
    if kind == "category" and head and all(map(is_iso, head)):
        kind = "datetime"  # pandas keeps Python dates as objects, which are read as text
    reason = f"no attribute can be read from the type {quoted(written)}" if kind is None else ""
    return DraftColumn(name, kind, suggested_fields(name, kind, head) or {}, reason)


def _filled(source: Any, columns: Sequence[str], exclude: Sequence[str]) -> Schema:
    """A schema with bounds and values read from the table itself."""

    def read() -> list[Attribute]:
        with open_source(source) as opened:
            chosen = chosen_columns(opened.types, columns, exclude)
            return [
                _filled_attribute(opened, name, kind)
                for name in chosen
                if (kind := _kind(opened.types[name])) is not None and (columns or not is_identifier(name))
            ]

    return Schema(quoting_no_value(source, read), learnt_from_data=True)


def _filled_attribute(opened: OpenSource, name: str, kind: str) -> Attribute:
    column = name_sql(name)
    if kind == "category" and kind_of_type(opened.types[name]) == "string":
        kind, column = _kind_of_text(column, opened)
    if kind in ("integer", "real", "datetime"):
        finite = f"CASE WHEN isfinite({column}) THEN {column} END" if kind == "real" else column
        ends = f"min({finite}) AS low, max({finite}) AS high, count(*) > count({column}) AS nullable"
        (row,) = opened.rows(f"SELECT {ends} FROM source")
        if row["low"] is not None:
            return _ordered(name, kind, **row)
    elif kind == "category":
        query = f"SELECT CAST({column} AS VARCHAR) AS v FROM source WHERE {column} IS NOT NULL GROUP BY v"
        rows = opened.rows(f"{query} ORDER BY count(*) DESC, v LIMIT {MOST_CATEGORIES + 1}")
        if values := sorted(row["v"] for row in rows[:MOST_CATEGORIES]):
            other = "other" if len(rows) > MOST_CATEGORIES else None
            return Category(name=name, values=tuple(values), other=other, nullable=True)
    return Boolean(name=name, nullable=True)  # fits a column without values, too


def _kind_of_text(column: str, opened: OpenSource) -> tuple[str, str]:
    """The type that all values of a text column share, and the column cast to it."""
    filled = f"nullif(stripped({column}), '')"
    candidates = {"integer": "BIGINT", "real": "DOUBLE", "datetime": "TIMESTAMP", "category": "VARCHAR"}
    casts = {kind: f"TRY_CAST({filled} AS {cast})" for kind, cast in candidates.items()}
    counts = ", ".join(f"count({cast}) AS {name_sql(kind)}" for kind, cast in casts.items())
    (row,) = opened.rows(f"SELECT {counts} FROM source")
    kind = next(kind for kind in casts if row[kind] == row["category"] > 0 or kind == "category")
    return kind, casts[kind]


def _ordered(name: str, kind: str, low: Any, high: Any, nullable: bool) -> Attribute:
    if kind == "integer":
        return integer_between(name, int(low), int(high), nullable)
    if kind == "real":
        return real_between(name, float(low), float(high), nullable)
    days = (high - low).days
    every = "1h" if days <= 7 else "1d" if days <= 366 else "1mo"
    return Datetime(name=name, min=str(low)[:10], max=str(high)[:10], every=every, nullable=nullable)
