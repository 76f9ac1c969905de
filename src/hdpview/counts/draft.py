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
from hdpview.domain.drafting import Draft, DraftColumn, chosen_columns, is_identifier
from hdpview.domain.suggestions import is_suggestive, suggested_fields
from hdpview.domain.text_format import PLAIN
from hdpview.errors import DataError, quoted

_KINDS = {  # kind of column → type of attribute
    "boolean": "boolean", "integer": "integer", "floating": "real", "decimal": "real",
    "timestamp": "datetime", "date": "datetime", "string": "category", "uuid": "category", "null": "category",
}  # fmt: skip
_NOT_LEARNT = "could not be learnt with this budget"


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
        return draft.only(columns, exclude, DataError)
    types = column_types(source)
    names = chosen_columns(types, columns, exclude, DataError)
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
        chosen_columns(column_types(source), (), [unit], DataError)
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
    columns = tuple(_learnt_column(column, learnt) for column in draft.columns)
    cost = {"learnt_epsilon": str(epsilon), **({"learnt_delta": str(delta)} if delta else {})}
    return replace(draft, columns=columns, learnt=cost).text()


def _learnt_column(column: DraftColumn, learnt: Learnt) -> DraftColumn:
    if column.name in learnt.attributes:
        return DraftColumn(column.name, learnt.kinds[column.name], _known(learnt.attributes[column.name]))
    return replace(column, note=_NOT_LEARNT) if column.name in learnt.kinds else column


def _known(attribute: Attribute) -> dict[str, Any]:
    """The learnt facts about an attribute, without the defaults of a draft."""
    return {key: value for key, value in attribute.to_dict().items() if key not in ("type", "nullable")}


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
    def read() -> list[Attribute]:
        with open_source(source) as opened:
            chosen = chosen_columns(opened.types, columns, exclude, DataError)
            kinds = {
                name: kind
                for name in chosen
                if (kind := _kind(opened.types[name])) is not None and (columns or not is_identifier(name))
            }
            return [_filled_attribute(opened, name, kind) for name, kind in kinds.items()]

    return Schema(quoting_no_value(source, read), learnt_from_data=True)


def _filled_attribute(opened: OpenSource, name: str, kind: str) -> Attribute:
    column = name_sql(name)
    if kind == "category" and kind_of_type(opened.types[name]) == "string":
        kind, column = _kind_of_text(column, opened)
    if kind in ("integer", "real", "datetime"):
        finite = f"CASE WHEN isfinite({column}) THEN {column} END" if kind == "real" else column
        ends = f"min({finite}) AS low, max({finite}) AS high"
        (row,) = opened.rows(f"SELECT {ends}, count(*) - count({column}) AS nulls FROM source")
        if row["low"] is None:
            return Boolean(name=name, nullable=True)  # a column without values: any type will do
        return _ordered(name, kind, row["low"], row["high"], bool(row["nulls"]))
    if kind == "boolean":
        return Boolean(name=name, nullable=True)
    text = f"CAST({column} AS VARCHAR)"
    query = f"SELECT {text} AS v FROM source WHERE {column} IS NOT NULL GROUP BY v ORDER BY count(*) DESC, v"
    values = [row["v"] for row in opened.rows(f"{query} LIMIT {MOST_CATEGORIES + 1}")]
    if not values:
        return Boolean(name=name, nullable=True)
    other = "other" if len(values) > MOST_CATEGORIES else None
    return Category(name=name, values=tuple(sorted(values[:MOST_CATEGORIES])), other=other, nullable=True)


def _kind_of_text(column: str, opened: OpenSource) -> tuple[str, str]:
    """The type that all values of a text column share, and the column cast to it."""
    filled = f"nullif(stripped({column}), '')"
    candidates = {"integer": "BIGINT", "real": "DOUBLE", "datetime": "TIMESTAMP", "category": "VARCHAR"}
    casts = {kind: f"TRY_CAST({filled} AS {cast})" for kind, cast in candidates.items()}
    counts = ", ".join(f"count({cast}) AS {name_sql(kind)}" for kind, cast in casts.items())
    (row,) = opened.rows(f"SELECT {counts} FROM source")
    kind = next(kind for kind in casts if row[kind] == row["category"])
    return (kind, casts[kind]) if row["category"] else ("category", filled)


def _ordered(name: str, kind: str, low: Any, high: Any, nullable: bool) -> Attribute:
    if kind == "integer":
        return integer_between(name, int(low), int(high), nullable)
    if kind == "real":
        return real_between(name, float(low), float(high), nullable)
    days = (high - low).days
    every = "1h" if days <= 7 else "1d" if days <= 366 else "1mo"
    return Datetime(name=name, min=str(low)[:10], max=str(high)[:10], every=every, nullable=nullable)
