"""Draft a schema from a table's column names and types. Values are looked at only where the curator says the
data is public.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import ibis

from hdpview.counts.files import files_of, kind_of_file
from hdpview.counts.ingest import can_be_read, column_types
from hdpview.counts.sources import describe, open_source
from hdpview.counts.values import is_one_of
from hdpview.domain import Attribute, Boolean, Category, Datetime, Integer, Real, Schema
from hdpview.domain.toml import toml_key
from hdpview.errors import DataError, HdpviewError, quoted

_HEADER = """\
# Schema draft: which columns to use and what values they may take.
# These are public statements: write what is known without looking at the data (a law, a form, a code book).
# Values beyond the bounds are moved to the nearest bound, so wide bounds are safe and tight ones sharper.
# Replace every ? and uncomment the line; delete the columns nobody needs to ask about, such as identifiers.
"""
_BOUNDS_NOTE = "known without looking at the data"
_KINDS = {
    "boolean": ("boolean",),
    "integer": ("integer",),
    "real": ("floating", "decimal"),
    "datetime": ("timestamp", "date"),
}
_MAX_CATEGORIES, _MAX_INTEGER_VALUES, _N_BINS = 1_000, 1_000, 100


def draft_schema(source: Any, *, from_data_not_private: bool = False) -> str:
    """Text of a schema file. With `from_data_not_private` it is filled in from the values, and marked."""
    if from_data_not_private:
        return _filled(source).to_toml()
    types, says_nothing = column_types(source), _is_text(source)
    tables = [
        _undecided_table(name) if says_nothing else _table_of(name, written)
        for name, written in types.items()
    ]
    return _HEADER + "\n" + "\n".join(tables)


def learnable_columns(source: Any) -> dict[str, str]:
    """Per column, the type of attribute it becomes: all that can be said, or refused, before budget is spent
    on looking at values.
    """
    types = column_types(source)
    if _is_text(source):
        raise DataError(
            "Text files do not say the types of their columns. Save the table as Parquet to learn bounds from it."
        )
    return {name: kind for name, written in types.items() if (kind := _kind(written)) is not None}


def learnt_schema(source: Any, kinds: Mapping[str, str], epsilon: Fraction, delta: Fraction) -> str:
    """Text of a schema file with bounds learnt for ε, and categories where δ > 0. It says what it cost.
    kinds: of `learnable_columns`.
    """
    from hdpview.counts.learn import learn

    found = learn(source, kinds, epsilon, delta)
    spent = {"learnt_epsilon": str(epsilon), "learnt_delta": str(delta) if delta else None}
    if not found.attributes:
        raise DataError(
            "Nothing could be learnt with this budget. The budget is spent; write the bounds yourself."
        )
    drawn = Schema(
        found.attributes, learnt_epsilon=spent["learnt_epsilon"], learnt_delta=spent["learnt_delta"]
    )
    return (
        _HEADER
        + "\n"
        + drawn.to_toml()
        + "\n"
        + "\n".join(_open_table(name, kind) for name, kind in found.open)
    )


def _is_text(source: Any) -> bool:
    return isinstance(source, (str, Path)) and kind_of_file(files_of(source)[0]) == "csv"


def _kind(written: str) -> str | None:
    """The type of attribute that a column of this type becomes; None where it cannot be read as any, such as
    lists.
    """
    found = next((kind for kind, columns in _KINDS.items() if is_one_of(written, columns)), None)
    return found or ("category" if can_be_read(written, "category") else None)


def _table_of(name: str, written: str) -> str:
    kind = _kind(written)
    return (
        f"# {toml_key(name)} is left out: no attribute can be read from the type {quoted(written)}.\n"
        if kind is None
        else _open_table(name, kind)
    )


def _open_table(name: str, kind: str) -> str:
    """One attribute with what needs knowledge left open."""
    lines = {
        "integer": [
            f"# min = ?            # least value, {_BOUNDS_NOTE}",
            "# max = ?            # greatest value",
            "# every = 5          # bins of 5; leave out for single values",
        ],
        "real": [f"# min = ?            # {_BOUNDS_NOTE}", "# max = ?", "bins = 100"],
        "datetime": [
            f"# min = 2020-01-01   # {_BOUNDS_NOTE}",
            "# max = 2024-12-31",
            'every = "1mo"        # or 15min, 1h, 1d, 1w, 1q, 1y',
        ],
        "category": [
            '# values = ["?", "?"]   # the categories, from a code book or a form',
            'other = "other"         # where all other values are counted',
        ],
        "boolean": [],
    }[kind]
    return "\n".join([f"[attributes.{toml_key(name)}]", f'type = "{kind}"', *lines, "nullable = true", ""])


def _undecided_table(name: str) -> str:
    """One attribute of a text file, which does not say what its columns are."""
    lines = [
        f"[attributes.{toml_key(name)}]           # keep one of these:",
        '# type = "integer"      # with min = ?, max = ? and perhaps every = 5',
        '# type = "real"         # with min = ?, max = ? and bins = 100, or edges = [?, ?, ?]',
        '# type = "category"     # with values = ["?", "?"] and perhaps other = "other"',
        '# type = "datetime"     # with min = 2020-01-01, max = 2024-12-31 and every = "1mo"; read if written 2024-01-31 [13:05]',
        '# type = "boolean"',
        "nullable = true",
    ]
    return "\n".join([*lines, ""])


def _filled(source: Any) -> Schema:
    try:
        with open_source(source) as opened:
            kinds = {
                name: kind for name, written in opened.types.items() if (kind := _kind(written)) is not None
            }
            attributes = [
                _filled_attribute(opened.table, opened.backend, name, kind) for name, kind in kinds.items()
            ]
    except HdpviewError:
        raise
    except Exception as refusal:
        raise DataError(f"Cannot draw a schema from {describe(source)} ({type(refusal).__name__}).") from None
    return Schema(attributes, learnt_from_data=True)


def _filled_attribute(table: ibis.Table, backend: Any, name: str, kind: str) -> Attribute:
    column = table[name]
    if kind == "category" and column.type().is_string():
        kind, column = _kind_of_text(column, table, backend)
    if kind in ("integer", "real", "datetime"):
        finite = column.nullif(float("nan")) if column.type().is_floating() else column
        row = backend.execute(
            table.aggregate(low=finite.min(), high=finite.max(), nulls=column.isnull().sum())
        ).iloc[0]
        if row["low"] is None or row["low"] != row["low"]:
            return Boolean(name=name, nullable=True)  # a column without values: anything will do
        return _ordered(name, kind, row["low"], row["high"], bool(row["nulls"]))
    if kind == "boolean":
        return Boolean(name=name, nullable=True)
    counts = table.filter(column.notnull()).group_by(v=column.cast("string")).aggregate(n=ibis._.count())
    values = [
        str(v) for v in backend.execute(counts.order_by(ibis.desc("n"), "v").limit(_MAX_CATEGORIES + 1))["v"]
    ]
    if not values:
        return Boolean(name=name, nullable=True)
    other = "other" if len(values) > _MAX_CATEGORIES else None
    return Category(name=name, values=tuple(sorted(values[:_MAX_CATEGORIES])), other=other, nullable=True)


def _kind_of_text(column: Any, table: ibis.Table, backend: Any) -> tuple[str, Any]:
    """What the values of a text column are, where all of them are it, and the column as that."""
    if backend.name != "duckdb":
        return "category", column
    filled = column.strip().nullif("")
    candidates = {
        "integer": filled.try_cast("int64"),
        "real": filled.try_cast("float64"),
        "datetime": filled.try_cast("timestamp"),
    }
    failures = {kind: (filled.notnull() & cast.isnull()).sum() for kind, cast in candidates.items()}
    row = backend.execute(table.aggregate(filled=filled.count(), **failures)).iloc[0]
    for kind, cast in candidates.items():
        if row["filled"] and not row[kind]:
            return kind, cast
    return "category", filled


def _ordered(name: str, kind: str, low: Any, high: Any, nullable: bool) -> Attribute:
    if kind == "integer":
        first, last = int(low), int(high)
        return Integer(
            name=name,
            min=first,
            max=last,
            every=max(1, -(-(last - first + 1) // _MAX_INTEGER_VALUES)),
            nullable=nullable,
        )
    if kind == "datetime":
        first_day, last_day = str(low)[:10], str(high)[:10]
        days = (high - low).days
        every = "1h" if days <= 7 else "1d" if days <= 366 else "1mo"
        return Datetime(name=name, min=first_day, max=last_day, every=every, nullable=nullable)
    bottom, top = float(low), float(high)
    return Real(
        name=name, min=bottom, max=top if top > bottom else bottom + 1.0, bins=_N_BINS, nullable=nullable
    )
