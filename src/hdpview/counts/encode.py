"""The encoder: one SQL text for our own DuckDB, made from a schema and the types of a table's columns.

    column ─ plain ─▶ one spelling ─ value ─▶ on the attribute's axis ─ outcome ─▶ bin, or reason for none

Each rule depends on one value alone and handles every value: nothing raises, no row is added or lost. [P7]
An outcome is the bin of a value, 0 ≤ bin < n_values, or n_values plus a `State`. `rows.Decoder` turns
outcomes into codes and counts the states for checks. For every value on an axis, the bin equals
`numpy.searchsorted(edges[1:-1], value, side="right")`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from hdpview.domain import Attribute, Boolean, Category, Datetime, Integer, Ordered, Real, Schema, TextFormat
from hdpview.domain.calendar import month_index
from hdpview.domain.numbers import MAX_EXPLICIT_EDGES

# Longer lists of categories use an ENUM, because a CASE is searched from the top for each row.
MAX_CASES = 64
# Invisible marks appended to an object that identifies a person and is not a text: other object, number.
NOT_TEXT = ("\u2063\u2063", "\u2063")
_BLANKS = " \u00a0\u202f"
_CALENDAR_SECONDS = (-62_135_596_800, 253_402_300_799)  # years 1 to 9999

# Whole numbers beyond 64 bits are clamped; reals beyond doubles become infinite or nearly zero.
_MACROS = r"""
CREATE OR REPLACE TEMP MACRO stripped(x) AS
  trim(x, ' ' || chr(9) || chr(10) || chr(11) || chr(12) || chr(13));
CREATE OR REPLACE TEMP MACRO clamped(x) AS CASE
  WHEN x <= -9223372036854775808 THEN CAST(-9223372036854775808 AS BIGINT)
  WHEN x >= 9223372036854775807 THEN CAST(9223372036854775807 AS BIGINT) ELSE TRY_CAST(x AS BIGINT) END;
CREATE OR REPLACE TEMP MACRO whole_of_real(x) AS CASE
  WHEN x < -9223372036854775808.0::DOUBLE THEN CAST(-9223372036854775808 AS BIGINT)
  WHEN x >= 9223372036854775808.0::DOUBLE THEN CAST(9223372036854775807 AS BIGINT)
  ELSE TRY_CAST(floor(x) AS BIGINT) END;
CREATE OR REPLACE TEMP MACRO not_underflown(x, t) AS CASE
  WHEN x = 0 AND regexp_matches(t, '^ *[+-]?[0.]*[1-9]')
  THEN CASE WHEN starts_with(ltrim(t), '-') THEN CAST('-1e-307' AS DOUBLE) ELSE CAST('1e-307' AS DOUBLE) END
  ELSE x END;
CREATE OR REPLACE TEMP MACRO real_of_text(t) AS CASE
  WHEN regexp_full_match(t, ' *[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)? *')
  THEN not_underflown(TRY_CAST(t AS DOUBLE), t)
  WHEN lower(stripped(t)) IN ('inf', '+inf', 'infinity', '+infinity') THEN CAST('inf' AS DOUBLE)
  WHEN lower(stripped(t)) IN ('-inf', '-infinity') THEN CAST('-inf' AS DOUBLE) END;
CREATE OR REPLACE TEMP MACRO whole_of_text(t) AS CASE
  WHEN regexp_full_match(t, ' *[+-]?[0-9]{1,18} *') THEN TRY_CAST(t AS BIGINT)
  WHEN regexp_full_match(t, ' *[+-]?[0-9]{19,38} *') THEN clamped(TRY_CAST(t AS HUGEINT))
  ELSE whole_of_real(real_of_text(t)) END;
CREATE OR REPLACE TEMP MACRO text_of_real(x) AS CASE
  WHEN abs(x) < 1e15 AND x = trunc(x) THEN CAST(CAST(x AS BIGINT) AS VARCHAR)
  ELSE CAST(CAST(x AS DOUBLE) AS VARCHAR) END;
CREATE OR REPLACE TEMP MACRO truth_of_text(t) AS CASE
  WHEN lower(stripped(t)) IN ('true', 't', 'yes', 'y', '1') THEN true
  WHEN lower(stripped(t)) IN ('false', 'f', 'no', 'n', '0') THEN false END;
CREATE OR REPLACE TEMP MACRO moment_of(x) AS epoch_us(CASE
  WHEN x < TIMESTAMP '0001-01-01' THEN TIMESTAMP '0001-01-01'
  WHEN x > TIMESTAMP '9999-12-31 23:59:59.999999' THEN TIMESTAMP '9999-12-31 23:59:59.999999' ELSE x END);
CREATE OR REPLACE TEMP MACRO moment_of_day(x) AS epoch_us(TRY_CAST(CASE
  WHEN x < DATE '0001-01-01' THEN DATE '0001-01-01'
  WHEN x > DATE '9999-12-31' THEN DATE '9999-12-31' ELSE x END AS TIMESTAMP));
CREATE OR REPLACE TEMP MACRO stamp_by(t, formats) AS coalesce(try_strptime(t, formats), try_strptime(
  regexp_replace(regexp_replace(t, '([A-Za-z]{3})[a-z]{1,6}', '\1'), '([AaPp])\.?([Mm])\.?$', '\1\2'),
  formats));
CREATE OR REPLACE TEMP MACRO moment_by(t, formats) AS CASE
  WHEN regexp_matches(t, '[0-9]') AND stamp_by(t, formats) >= TIMESTAMP '1000-01-01'
  THEN epoch_us(stamp_by(t, formats)) END;
CREATE OR REPLACE TEMP MACRO moment_of_text(t) AS CASE
  WHEN t < '0001' THEN NULL
  WHEN regexp_full_match(t, '[0-9]{4}-[0-9]{2}-[0-9]{2}') THEN epoch_us(TRY_CAST(t AS TIMESTAMP))
  WHEN regexp_full_match(t, '[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]([01][0-9]|2[0-3]):[0-5][0-9]'
    || '(:[0-5][0-9]([.,][0-9]{1,9})?)?( ?(Z|z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?))?')
    OR regexp_full_match(t, '[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]24:00(:00)?')
  THEN epoch_us(TRY_CAST(left(t, 10) || ' '
    || upper(replace(replace(substr(t, 12), ' ', ''), ',', '.')) AS TIMESTAMPTZ)) END;
"""


class State(IntEnum):
    """Reasons why a value has no bin of its own; an outcome is `n_values` plus this."""

    MISSING = 0
    UNREAD = 1  # unreadable or undeclared
    BELOW = 2
    ABOVE = 3


def prepare(connection: Any) -> None:
    """Define the macros and settings that the SQL of this file needs."""
    connection.execute("SET TimeZone = 'UTC';" + _MACROS)


def name_sql(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def text_sql(text: str) -> str:
    """A text as an SQL literal."""
    parts = text.encode("utf-8", "replace").decode().replace("'", "''").split("\0")
    return "(" + " || chr(0) || ".join(f"'{part}'" for part in parts) + ")" if parts[1:] else f"'{parts[0]}'"


def real_sql(number: float) -> str:
    """A double with all its bits, as a cast text, because DuckDB reads a bare 0.1 as a decimal."""
    return f"CAST('{float(number)!r}' AS DOUBLE)"


def whole_sql(number: int) -> str:
    return f"CAST({int(number)} AS BIGINT)"


def kind_of_type(written: str) -> str | None:
    """The kind of values in a DuckDB type; None if no attribute can be read from it."""
    base = re.split(r"[(\[]", written.lower())[0].strip('" ')
    if written.endswith("]"):
        return None
    if base.startswith("timestamp"):
        return "timestamp"
    if re.fullmatch(r"u?(tiny|small|huge|big)?int(eger)?", base):
        return "integer"
    other = {"float": "floating", "double": "floating", "varchar": "string", "enum": "string"}
    return base if base in ("boolean", "decimal", "date", "uuid", "null") else other.get(base)


def outcomes_sql(
    schema: Schema, types: Mapping[str, str], along: Mapping[str, str] | None = None, unit: str | None = None
) -> str:
    """The table `source` as outcomes: columns `o_0`, `o_1`, … in the order of the schema, one row per row,
    never null.

    types: of the table's columns. along: further columns, as SQL by name. unit: column that names persons.
    """
    own, plain = [*(along or {})], [f"{sql} AS {name}" for name, sql in (along or {}).items()]
    values, ends = [], []
    for i, each in enumerate(schema):
        column, written = name_sql(each.name), types[each.name]
        if each.name == unit and _is_text(written):
            # 1 and "1" are two different persons, but the same value.
            column = f"regexp_replace(CAST({column} AS VARCHAR), '{NOT_TEXT[1]}+$', '')"
        plain.append(f"{plain_sql(column, written, each, schema.source)} AS p_{i}")
        values.append(f"{_value(f'p_{i}', written, each, schema.source)} AS v_{i}")
        outcome = _outcome(f"p_{i}", f"v_{i}", _bin(f"v_{i}", written, each), written, each)
        n = each.n_values + len(State)
        kind = "UTINYINT" if n <= 2**8 else "USMALLINT" if n <= 2**16 else "UINTEGER"
        ends.append(f"CAST({outcome} AS {kind}) AS o_{i}")
    kept = ", ".join([*own, *(f"p_{i}" for i in range(len(schema))), *values])
    return (
        f"SELECT {', '.join([*own, *ends])} FROM (SELECT {kept} FROM "
        f"(SELECT {', '.join(plain)} FROM source) AS plain) AS valued"
    )


def code_sql(i: int, attribute: Attribute) -> str:
    """The code of an outcome `o_<i>`."""
    codes = codes_of_states(attribute)
    cases = " ".join(f"WHEN {attribute.n_values + state} THEN {codes[state]}" for state in State)
    return f"CASE CAST(o_{i} AS INTEGER) {cases} ELSE o_{i} END"


def codes_of_states(attribute: Attribute) -> list[int]:
    """The code that a value in each `State` is counted under."""
    unread = attribute.unknown_code if isinstance(attribute, Category) else attribute.missing_code
    return [attribute.missing_code, unread, 0, attribute.n_values - 1]


def _is_text(written: str) -> bool:
    return kind_of_type(written) in ("string", "null")


def _is_fraction(written: str) -> bool:
    """Whether numbers of this type may have digits after the point."""
    has_scale = "," in written and int(written.split(",")[1].strip(" )")) > 0
    return has_scale if kind_of_type(written) == "decimal" else kind_of_type(written) == "floating"


def _first_case(*cases: tuple[str, str], otherwise: str = "NULL") -> str:
    parts = " ".join(f"WHEN {condition} THEN {result}" for condition, result in cases)
    return f"CASE {parts} ELSE {otherwise} END" if cases else otherwise


def plain_sql(column: str, written: str, attribute: Attribute, text: TextFormat) -> str:
    """A column in plain spelling: texts without marks for missing values, numbers with a decimal point, ISO
    dates; NaN is null.
    """
    kind = kind_of_type(written)
    if kind == "null":
        return "CAST(NULL AS VARCHAR)"
    if kind == "floating":
        # Parquet's statistics ignore NaN and DuckDB 2 trusts them: for a column from 0 to 9 it assumes that
        # isnan(x) is false. It does evaluate these two conditions.
        return f"CASE WHEN isfinite({column}) OR isinf({column}) THEN CAST({column} AS DOUBLE) END"
    if kind != "string":
        return column
    column = f"CAST({column} AS VARCHAR)" if written.lower().startswith("enum") else column
    if text.missing:
        declared = set(attribute.values) if isinstance(attribute, Category) else set()
        marks = ", ".join(text_sql(mark) for mark in text.missing if mark not in declared)
        column = f"CASE WHEN stripped({column}) NOT IN ({marks}) THEN {column} END" if marks else column
    if isinstance(attribute, (Integer, Real)):
        return _plain_number(column, text)
    is_stripped = isinstance(attribute, Datetime) or (text.trim and isinstance(attribute, Category))
    return f"stripped({column})" if is_stripped else column


def _plain_number(column: str, text: TextFormat) -> str:
    """Digits with a decimal point. Thousands separators are accepted only between groups of three."""
    for unit in text.strip:
        column = f"replace({column}, {text_sql(unit)}, '')"
    column = f"stripped({column})" if text.strip else column
    if text.negative == "parentheses":
        enclosed = r"'^ *\(([^()+-]+)\) *$'"
        column = f"regexp_replace({column}, {enclosed}, '-\\1')"
    if text.thousands is not None:
        signs = _BLANKS if text.thousands == " " else text.thousands
        grouped = rf" *[+-]?[0-9]{{1,3}}([{signs}][0-9]{{3}})+([{text.decimal}][0-9]*)? *"
        without = f"translate({column}, {text_sql(signs)}, '')"
        column = (
            f"CASE WHEN regexp_full_match({column}, {text_sql(grouped)}) THEN {without} ELSE {column} END"
        )
    if text.decimal == ",":
        # A point is not a decimal sign here: 1.234 must not be read as a little more than 1.
        column = f"CASE WHEN contains({column}, '.') THEN '.' ELSE replace({column}, ',', '.') END"
    return column


def whole_of_sql(column: str, written: str) -> str:
    """int64, rounded down and clamped to 64 bits."""
    if _is_text(written):
        return f"whole_of_text(CAST({column} AS VARCHAR))"
    if _is_fraction(written):
        return f"whole_of_real(CAST({column} AS DOUBLE))"
    is_wide = kind_of_type(written) == "decimal" or written.lower() in ("ubigint", "hugeint", "uhugeint")
    return f"clamped({column})" if is_wide else f"CAST({column} AS BIGINT)"


def _value(column: str, written: str, attribute: Attribute, text: TextFormat) -> str:
    """A plain column on the axis of its attribute; null for values that have no place there."""
    kind, is_text = kind_of_type(written), _is_text(written)
    if isinstance(attribute, Integer):
        return whole_of_sql(column, written)
    if isinstance(attribute, Real):
        return f"real_of_text({column})" if is_text else f"CAST({column} AS DOUBLE)"
    if isinstance(attribute, Datetime):
        if kind == "date":
            return f"moment_of_day({column})"
        if kind == "timestamp" and "ns" in written.lower():
            # A cast would round to microseconds, not floor.
            return f"(epoch_ns({column}) - (epoch_ns({column}) % 1000 + 1000) % 1000) // 1000"
        if kind == "timestamp":
            # Seconds and milliseconds reach further than microseconds; such values become null.
            return f"moment_of(TRY_CAST({column} AS TIMESTAMP))"
        if text.epoch is not None:
            # Held within the calendar, so that none overflows.
            per_second = {"s": 1, "ms": 1_000}[text.epoch]
            low, high = (whole_sql(end * per_second) for end in _CALENDAR_SECONDS)
            number = whole_of_sql(column, written)
            held = _first_case((f"{number} < {low}", low), (f"{number} > {high}", high), otherwise=number)
            return f"({held}) * {1_000_000 // per_second}"
        formats, iso = ", ".join(map(text_sql, text.dates)), f"moment_of_text({column})"
        return f"coalesce(moment_by({column}, [{formats}]), {iso})" if formats else iso
    if isinstance(attribute, Boolean) and kind != "boolean":
        return f"truth_of_text({column})" if is_text else f"CAST({column} <> 0 AS BOOLEAN)"
    if is_text or isinstance(attribute, Boolean):
        return column
    # Numbers are compared as texts: 1.0 is 1, and -0.0 is 0.
    return f"text_of_real({column})" if _is_fraction(written) else f"CAST({column} AS VARCHAR)"


def _outcome(plain: str, value: str, bin_: str, written: str, attribute: Attribute) -> str:
    """The bin of a value, or `n_values` plus the `State` that explains why it has none."""
    n = attribute.n_values
    is_empty = f"{plain} IS NULL"
    if _is_text(written):
        is_blank = f"{plain} = ''" if isinstance(attribute, Category) else f"stripped({plain}) = ''"
        is_empty = f"({is_empty} OR {is_blank})"
    nothing = f"CASE WHEN {is_empty} THEN {n} ELSE {n + State.UNREAD} END"
    if isinstance(attribute, Category):
        return f"coalesce({bin_}, {nothing})"
    if not isinstance(attribute, Ordered):
        return f"CASE WHEN {value} IS NULL THEN {nothing} ELSE {bin_} END"
    literal: Callable[[Any], str] = whole_sql if attribute.whole else real_sql
    low, high = (literal(end) for end in (attribute.edges[0].item(), attribute.edges[-1].item()))
    above = ">=" if attribute.whole else ">"
    return _first_case(
        (f"{value} IS NULL", nothing),
        (f"{value} < {low}", str(n + State.BELOW)),
        (f"{value} {above} {high}", str(n + State.ABOVE)),
        otherwise=bin_,
    )


def _bin(column: str, written: str, attribute: Attribute) -> str:
    """The bin of a value within the bounds."""
    if isinstance(attribute, Category):
        return _category(column, written, attribute)
    if isinstance(attribute, Boolean):
        return f"CAST({column} AS INTEGER)"
    assert isinstance(attribute, Ordered)
    edges = attribute.edges.tolist()
    if attribute.n_values == 1:
        return "0"
    if isinstance(attribute, (Integer, Real)) and attribute.explicit_edges is not None:
        return _searched(column, edges[1:-1], whole_sql if attribute.whole else real_sql)
    if isinstance(attribute, Integer):
        return f"({column} - {whole_sql(edges[0])}) // {attribute.every}"
    if isinstance(attribute, Datetime):
        if not attribute.step.months:
            return f"({column} - {whole_sql(attribute.first)}) // {attribute.step.microseconds}"
        at = f"make_timestamp({column})"
        months = f"(year({at}) * 12 + month({at}) - 1 - {month_index(attribute.first)})"
        return f"{months} // {attribute.step.months}"
    assert isinstance(attribute, Real)
    is_even = (attribute.edges == attribute.edges[0] + np.arange(len(edges)) * attribute.width).all()
    if len(edges) <= MAX_EXPLICIT_EDGES and not is_even:
        return _searched(column, edges[1:-1], real_sql)
    return _equal_bin(column, attribute)


def _equal_bin(column: str, attribute: Real) -> str:
    """Guess by division, then correct the guess by comparison with the edges around it, as NumPy does."""
    edges, width, low = attribute.edges, real_sql(attribute.width), real_sql(attribute.edges[0])
    guess = f"floor(({column} - {low}) / {width})"
    spacing = math.ulp(max(abs(edges[0]), abs(edges[-1])))
    # Bins near the resolution of doubles have edges off by whole bins.
    reach = 1 if attribute.width > 64 * spacing else 3
    reached = " + ".join(
        f"CASE WHEN {column} >= {low} + ({guess} + {k}) * {width} THEN 1 ELSE 0 END"
        for k in range(1 - reach, reach + 1)
    )
    return _first_case(
        (f"{column} < {real_sql(edges[1])}", "0"),
        (f"{column} >= {real_sql(edges[-2])}", str(attribute.n_values - 1)),
        otherwise=f"CAST({guess} AS BIGINT) - {reach} + {reached}",
    )


def _searched(column: str, inner: Sequence[float], literal: Callable[[Any], str], offset: int = 0) -> str:
    """Number of inner edges ≤ the value: binary search as a nested CASE, at most ten deep."""
    if not inner:
        return str(offset)
    middle = len(inner) // 2
    below = _searched(column, inner[:middle], literal, offset)
    above = _searched(column, inner[middle + 1 :], literal, offset + middle + 1)
    return f"CASE WHEN {column} < {literal(inner[middle])} THEN {below} ELSE {above} END"


def _category(column: str, written: str, attribute: Category) -> str:
    codes: dict[str, int] = {}
    for text, code in attribute.spellings():  # the first declared wins
        codes.setdefault(text if _is_text(written) else _as_number(text), code)
    if len(codes) <= MAX_CASES:
        cases = " ".join(f"WHEN {text_sql(text)} THEN {code}" for text, code in codes.items())
        return f"CASE {column} {cases} END"
    codes = {text.replace("\0", "\1"): code for text, code in codes.items()}  # an ENUM holds no NUL
    keys, listed = ", ".join(map(text_sql, codes)), ", ".join(map(str, codes.values()))
    place = f"enum_code(TRY_CAST(replace({column}, chr(0), chr(1)) AS ENUM({keys})))"
    return f"([{listed}])[CAST({place} AS INTEGER) + 1]"


def _as_number(text: str) -> str:
    """A declared value as a column of numbers spells it: 007 and 7.0 as 7."""
    number = re.fullmatch(r"\s*\+?(-?)0*([0-9]+)(\.[0-9]*)?\s*", text)
    return text if number is None else number[1] + number[2] + (number[3] or "").rstrip("0").rstrip(".")
