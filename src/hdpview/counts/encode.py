"""From values to codes, inside the database: which bin of its attribute a value falls into.

The codes are those of the attribute's edges: for every value on an axis the database computes exactly what
`numpy.searchsorted(edges[1:-1], value, side="right")` would.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ibis
import numpy as np
import pyarrow as pa

from hdpview.counts.contributions import md5
from hdpview.counts.frames import NOT_TEXT
from hdpview.counts.plain_text import plain_text
from hdpview.counts.values import Column, exact_float, exact_int, exact_quotient, make_castable, value
from hdpview.domain import Attribute, Category, Datetime, Integer, Ordered, Real, Schema
from hdpview.domain.calendar import MICROSECONDS_PER_DAY, month_index
from hdpview.domain.numbers import MAX_EXPLICIT_EDGES
from hdpview.domain.text_format import PLAIN

MAX_CASES = 64  # longer lists of categories are joined: a CASE is searched from the top for each row
_NO_LIMIT = 2**62
_DAYS_TO_1970 = 719_468  # from 0000-03-01, where a 400-year cycle of the calendar starts


def encode(
    table: ibis.Table, schema: Schema, kept: Mapping[str, str] | None = None, *, is_ours: bool = False
) -> ibis.Table:
    """The table as codes: int64 columns `code_0`, `code_1`, … in the order of the schema, one row per row,
    never null.

    kept: columns that come along as they are: their new name and their name in the table.
    is_ours: whether the table is in a database of our own, where texts are equal only if all their bytes are.
    """
    attributes = list(enumerate(schema))
    along = {new: table[old] for new, old in (kept or {}).items()}
    plain = {
        f"value_{i}": plain_text(
            unmarked(column) if attribute.name == (kept or {}).get("unit") else column,
            attribute,
            schema.source,
        )
        for i, attribute in attributes
        for column in [table[attribute.name]]
    }
    is_postgres = table.get_backend().name == "postgres"
    table = table.select(**along, **plain)
    if schema.source != PLAIN and is_postgres:
        # PostgreSQL puts the text of a step into each use of it in the next steps, unless the step has a
        # limit.
        table = table.limit(_NO_LIMIT)
    safe = table.select(
        *along, **{f"value_{i}": make_castable(table[f"value_{i}"], attribute) for i, attribute in attributes}
    )
    values = safe.select(
        *along, **{f"value_{i}": value(safe[f"value_{i}"], attribute) for i, attribute in attributes}
    )
    looked_up = values
    for i, attribute in attributes:
        if (
            isinstance(attribute, Category)
            and len(attribute.spellings()) > MAX_CASES
            and not values[f"value_{i}"].type().is_boolean()
        ):
            looked_up = _look_up(looked_up, i, attribute, is_ours)
    codes = {
        f"code_{i}": _category_code(column, attribute, looked_up[f"found_{i}"])
        if isinstance(attribute, Category) and f"found_{i}" in looked_up.columns
        else _code(column, attribute)
        for i, attribute in attributes
        for column in [looked_up[f"value_{i}"]]
    }
    return looked_up.select(*along, **codes)


def unmarked(unit: Column) -> Column:
    """A column that names persons as an attribute: 1 and "1" are two persons, and the same value."""
    return unit.re_replace(f"{NOT_TEXT[1]}+$", "") if unit.type().is_string() else unit


def _code(column: Column, attribute: Attribute) -> Column:
    if isinstance(attribute, Category):
        pairs = [(column == known, exact_int(code)) for known, code in _known_values(column, attribute)]
        return _category_code(column, attribute, ibis.cases(*pairs) if pairs else ibis.null("int64"))
    code = (
        _bin(column, attribute)
        if isinstance(attribute, Ordered)
        else ibis.cases((column, exact_int(1)), (~column, exact_int(0)))
    )
    return ibis.coalesce(code, exact_int(attribute.missing_code))


def _bin(column: Column, attribute: Ordered) -> Column:
    if attribute.n_values == 1:
        return ibis.ifelse(column.notnull(), exact_int(0), ibis.null("int64"))
    if isinstance(attribute, (Integer, Real)) and attribute.explicit_edges is not None:
        inner, literal = attribute.explicit_edges[1:-1], exact_int if attribute.whole else exact_float
        return ibis.ifelse(column.notnull(), _searched(column, inner, literal), ibis.null("int64"))
    if isinstance(attribute, Integer):
        return exact_quotient(
            _clamped(column, attribute.min, attribute.max) - exact_int(attribute.min), attribute.every
        )
    if isinstance(attribute, Datetime):
        return _moment_bin(_clamped(column, attribute.first, attribute.last), attribute)
    assert isinstance(attribute, Real)
    edges = attribute.edges
    if (
        len(edges) <= MAX_EXPLICIT_EDGES
        and (edges != edges[0] + np.arange(len(edges)) * attribute.width).any()
    ):
        return ibis.ifelse(
            column.notnull(), _searched(column, edges[1:-1].tolist(), exact_float), ibis.null("int64")
        )
    return _equal_bin(column, attribute)


def _clamped(column: Column, low: int, high: int) -> Column:
    """`column` held within [low, high]; null stays null, which GREATEST and LEAST do not promise."""
    return ibis.cases(
        (column < exact_int(low), exact_int(low)), (column > exact_int(high), exact_int(high)), else_=column
    )


def _moment_bin(moment: Column, attribute: Datetime) -> Column:
    if not attribute.step.months:
        return exact_quotient(moment - exact_int(attribute.first), attribute.step.microseconds)
    # division is exact for numbers ≥ 0, so count from the first day
    first_day = attribute.first // MICROSECONDS_PER_DAY
    days = exact_quotient(moment - exact_int(first_day * MICROSECONDS_PER_DAY), MICROSECONDS_PER_DAY)
    months = _month_index(days + exact_int(first_day + _DAYS_TO_1970)) - exact_int(
        month_index(attribute.first)
    )
    return exact_quotient(months, attribute.step.months)


def _month_index(days: Column) -> Column:
    """Months since January of year 0, from days since 0000-03-01 (≥ 0): `calendar.month_index` in whole
    numbers.

    Neri and Schneider's way, in quarters of days, since each name below is written out in full where it is
    used.
    """
    day_of_century = (days * 4 + 3) % 146_097 // 4
    quarters = day_of_century * 4 + 3
    march_month = (quarters % 1_461 // 4 * 5 + 2) // 153
    return ((days * 4 + 3) // 146_097 * 100 + quarters // 1_461) * 12 + march_month + 2


def _equal_bin(column: Column, attribute: Real) -> Column:
    """Guess by division, then count how many of the edges around the guess are reached; the edges decide, as
    in NumPy.

    The outer bins come first, so that the division is of ordinary numbers: PostgreSQL refuses to overflow or
        underflow.
    """
    edges, width, last = attribute.edges, exact_float(attribute.width), attribute.n_values - 1
    low = exact_float(edges[0])
    guess = ((column - low) / width).floor()
    spacing = math.ulp(max(abs(edges[0]), abs(edges[-1])))
    # bins near the resolution of doubles have edges off by whole bins
    reach = 1 if attribute.width > 64 * spacing else 3
    reached = [
        ibis.ifelse(column >= low + (guess + k).cast("float64") * width, 1, 0)
        for k in range(1 - reach, reach + 1)
    ]
    return ibis.cases(
        (column < exact_float(edges[1]), exact_int(0)),
        (column >= exact_float(edges[-2]), exact_int(last)),
        else_=guess.cast("int64") - reach + sum(reached[1:], start=reached[0]),
    )


def _searched(
    column: Column, inner_edges: Sequence[float], literal: Callable[[Any], Column], offset: int = 0
) -> Column:
    """How many of the inner edges are ≤ the value: binary search as a nested CASE, ten deep at most."""
    if not inner_edges:
        return exact_int(offset)
    middle = len(inner_edges) // 2
    below = _searched(column, inner_edges[:middle], literal, offset)
    above = _searched(column, inner_edges[middle + 1 :], literal, offset + middle + 1)
    return ibis.ifelse(column < literal(inner_edges[middle]), below, above)


def _category_code(column: Column, attribute: Category, found: Column) -> Column:
    """The code that was found; else that of missing values where the column is null or empty, or unknown."""
    absent = column.isnull() | (column == "") if column.type().is_string() else column.isnull()
    return ibis.coalesce(
        found, ibis.ifelse(absent, exact_int(attribute.missing_code), exact_int(attribute.unknown_code))
    )


def _look_up(table: ibis.Table, position: int, attribute: Category, is_ours: bool) -> ibis.Table:
    """`table` with a column `found_<position>`: the code of declared values, null for others. No row is added
    or lost. [P7]

    Where a database takes `a` and `A` for equal, a row would meet both and count twice: so there texts are
        compared by their hashes.
    """
    column = table[f"value_{position}"]
    known = known_constants(column, attribute)
    if column.type().is_string() and not is_ours:
        known = [
            (hashlib.md5(str(text).encode("utf-8", "replace"), usedforsecurity=False).hexdigest(), code)
            for text, code in known
        ]
        column = md5(column)
    keys = pa.array(
        [key for key, _ in known], pa.string() if column.type().is_string() else column.type().to_pyarrow()
    )
    key, found = f"key_{position}", f"found_{position}"
    codes = ibis.memtable(pa.table({key: keys, found: pa.array([code for _, code in known], pa.int64())}))
    return table.left_join(codes, column == codes[key]).drop(key)


def _known_values(column: Column, attribute: Category) -> Iterator[tuple[Column, int]]:
    """Declared values as literals of the column's type, with their codes."""
    dtype = column.type()
    literal: Callable[..., Column] = (
        exact_int if dtype.is_integer() else exact_float if dtype.is_floating() else ibis.literal
    )
    return ((literal(constant), code) for constant, code in known_constants(column, attribute))


def known_constants(column: Column, attribute: Category) -> list[tuple[str | bool | int | float, int]]:
    """Declared values that a column of this type can hold, with their codes; the first declared wins."""
    dtype = column.type()
    if dtype.is_string():
        return list(attribute.spellings())
    read = _truth_of if dtype.is_boolean() else _whole_of if dtype.is_integer() else _real_of
    known: dict[bool | int | float, int] = {}
    for text, code in attribute.spellings():
        constant = read(text)
        if constant is not None:
            known.setdefault(constant, code)
    return list(known.items())


def _truth_of(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text)


def _real_of(text: str) -> float | None:
    spelled = re.fullmatch(
        r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*|\s*[+-]?inf(inity)?\s*", text, re.ASCII | re.IGNORECASE
    )
    return float(text) + 0.0 if spelled else None  # + 0.0: -0.0 and 0.0 are one value


def _whole_of(text: str) -> int | None:
    if re.fullmatch(r"\s*[+-]?\d{1,30}\s*", text, re.ASCII):
        return int(text) if -(2**63) <= int(text) < 2**63 else None
    real = _real_of(text)
    return (
        int(real)
        if real is not None and np.isfinite(real) and real.is_integer() and abs(real) < 2**63
        else None
    )
