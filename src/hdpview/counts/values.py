"""A column of any type as values on the attribute's axis, inside the database. Null means missing, and
nothing raises.

Each rule looks at one value alone and has an answer for every value: a cast that could fail stands behind a
test that keeps such values away from it. Only operations that mean the same in every database are used:
PostgreSQL has no cast that may fail, and databases differ in how they round, so moments are put together from
whole numbers.

    column ── make_castable ──▶ column ── value ──▶ whole number · real number · microseconds · truth · text,
    or null
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ibis
import ibis.expr.datatypes as dt

from hdpview.domain import Attribute, Boolean, Datetime, Integer, Real
from hdpview.domain.calendar import MICROSECONDS_PER_DAY

Column = (
    Any  # an Ibis column expression; Ibis builds their methods from the column's type, which mypy cannot see
)

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_FIRST_DAY, _LAST_DAY = "0001-01-01", "9999-12-31"  # the calendar that attributes can speak of

# Bounds on lengths keep a cast within a double's range, so that no database can refuse it.
_WHOLE = r"^ *[+-]?[0-9]{1,18} *$"
_LONG_WHOLE = r"^ *[+-]?[0-9]{19,38} *$"
_MANTISSA = r"^ *[+-]?[1-9](\.[0-9]{1,30})?"
_REAL = r"^ *[+-]?([0-9]{1,100}(\.[0-9]{0,100})?|\.[0-9]{1,100})([eE][+-]?[0-9]{1,2})? *$"
_FAR_REAL = _MANTISSA + r"[eE][+-]?([0-2][0-9]{2}|30[0-7]) *$"
_HUGE = _MANTISSA + r"[eE]\+?(30[89]|3[1-9][0-9]|[4-9][0-9]{2}) *$"
_TINY = _MANTISSA + r"[eE]-(30[89]|3[1-9][0-9]|[4-9][0-9]{2}) *$"
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.,][0-9]{1,9})?)?"
_OFFSET = r" ?(Z|z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)"
_MOMENT = rf"^ *[0-9]{{4}}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])([Tt ]{_TIME}({_OFFSET})?)? *$"

_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")


def is_one_of(written: str, kinds: Sequence[str]) -> bool:
    """Whether a type, as Ibis writes it, is of one of these kinds: integer, floating, string, …"""
    try:
        dtype = dt.dtype(written)
    except Exception:  # Ibis writes types it does not know in a way it does not read
        return False
    return any(getattr(dtype, f"is_{kind}")() for kind in kinds)


def exact_int(number: int) -> Column:
    """A 64-bit literal, as text and cast: a bare -2**63 is read as minus a number that is too large."""
    return ibis.literal(str(number)).cast("int64")


def exact_float(number: float) -> Column:
    """A double literal with all its bits: text that is cast. DuckDB reads a bare 0.1 as a decimal."""
    return ibis.literal(repr(float(number))).cast("float64")


def exact_quotient(dividend: Column, divisor: int) -> Column:
    """floor(dividend / divisor) for whole dividends ≥ 0 and quotients below 2**50, free of overflow.

    Databases divide as doubles here: taking off the remainder first makes the quotient whole, so rounding
        restores it.
    """
    return (
        dividend
        if divisor == 1
        else ((dividend - dividend % exact_int(divisor)) / exact_int(divisor)).round().cast("int64")
    )


def make_castable(column: Column, attribute: Attribute) -> Column:
    """The column without what its parts cannot be taken from: text that is no moment is null, far moments are
    clamped.

    A step of its own, so that the database tests each value once and not once for each part.
    """
    dtype = column.type()
    if not isinstance(attribute, Datetime) or dtype.is_null() or dtype.is_integer():
        return column
    if dtype.is_string():
        return ibis.ifelse(column.re_search(_MOMENT), column.strip(), ibis.null("string"))
    kind = "date" if dtype.is_date() else "timestamp"
    # sessions run in UTC, so aware moments become UTC
    moment = column if dtype.is_date() else column.cast("timestamp")
    first = ibis.literal(_FIRST_DAY).cast(kind)
    last = ibis.literal(_LAST_DAY if dtype.is_date() else f"{_LAST_DAY} 23:59:59.999999").cast(kind)
    return ibis.cases((moment < first, first), (moment > last, last), else_=moment)


def value(column: Column, attribute: Attribute) -> Column:
    """A column made castable, as values of the attribute's axis; null where missing.

    int64 for integers, float64 for reals, int64 microseconds for datetimes, boolean for booleans; for
    categories text, boolean, int64 or float64, whichever the column holds.
    """
    if column.type().is_null():
        return ibis.null("string" if attribute.kind == "category" else "int64")
    if isinstance(attribute, Integer):
        return whole_number(column)
    if isinstance(attribute, Real):
        return real_number(column)
    if isinstance(attribute, Datetime):
        if column.type().is_integer():  # microseconds, by `plain_text`
            return column.cast("int64")
        return _text_moment(column) if column.type().is_string() else _moment(column)
    if isinstance(attribute, Boolean):
        return _truth(column)
    return _label(column)


def whole_number(column: Column) -> Column:
    """int64, rounded down, and held at the ends of 64 bits."""
    dtype = column.type()
    if dtype.is_boolean():
        return ibis.cases((column, exact_int(1)), (~column, exact_int(0)))
    if dtype.is_string():
        return ibis.cases(
            (column.re_search(_WHOLE), column.cast("int64")),
            (column.re_search(_LONG_WHOLE), _held(column.cast("decimal(38, 0)"))),
            else_=_floor(real_number(column)),
        )
    if dtype.is_floating():
        return _floor(real_number(column))
    # a database's numbers of any length, NaN and infinity among them
    if dtype.is_decimal() and dtype.scale is None:
        return ibis.ifelse(
            column.cast("string").lower() == "nan", ibis.null("int64"), _held(column, column.floor())
        )
    if dtype.is_decimal() and dtype.scale > 0:
        return _floor(real_number(column))
    return _held(column) if dtype.is_decimal() or dtype.is_uint64() else column.cast("int64")


def _held(number: Column, rounded: Column | None = None) -> Column:
    low, high = exact_int(_INT64_MIN), exact_int(_INT64_MAX)
    inside = (number if rounded is None else rounded).cast("int64")
    return ibis.cases((number <= low, low), (number >= high, high), else_=inside)


def _floor(real: Column) -> Column:
    below, above = real < exact_float(-(2.0**63)), real >= exact_float(2.0**63)
    return ibis.cases(
        (below, exact_int(_INT64_MIN)), (above, exact_int(_INT64_MAX)), else_=real.floor().cast("int64")
    )


def real_number(column: Column) -> Column:
    """float64, infinities included; NaN is null."""
    dtype = column.type()
    if dtype.is_boolean():
        return ibis.cases((column, exact_float(1)), (~column, exact_float(0)))
    if dtype.is_string():
        return _text_real(column)
    if dtype.is_decimal() and dtype.scale is None:
        return _unbounded_real(column)
    real = column.cast("float64")
    return ibis.ifelse(real.isnan(), ibis.null("float64"), real) if dtype.is_floating() else real


def _text_real(text: Column) -> Column:
    """Decimal or scientific notation, or infinity. Beyond 1e308 is infinite, below 1e-307 is 1e-307."""
    negative = text.strip().startswith("-")
    word = text.strip().lower()
    return ibis.cases(
        (text.re_search(_REAL) | text.re_search(_FAR_REAL), text.cast("float64")),
        (text.re_search(_HUGE), ibis.ifelse(negative, exact_float(float("-inf")), exact_float(float("inf")))),
        (text.re_search(_TINY), ibis.ifelse(negative, exact_float(-1e-307), exact_float(1e-307))),
        (word.isin(("inf", "+inf", "infinity", "+infinity")), exact_float(float("inf"))),
        (word.isin(("-inf", "-infinity")), exact_float(float("-inf"))),
    )


def _unbounded_real(number: Column) -> Column:
    """A decimal of any length as a double: such databases refuse casts that overflow or underflow."""
    limit, least = (ibis.literal(text).cast("decimal") for text in ("1" + "0" * 300, "0." + "0" * 299 + "1"))
    return ibis.cases(
        (number.cast("string").lower() == "nan", ibis.null("float64")),
        (number > limit, exact_float(float("inf"))),
        (number < -limit, exact_float(float("-inf"))),
        (number.abs() < least, number.sign().cast("float64") * exact_float(1e-307)),
        else_=number.cast("float64"),
    )


def _truth(column: Column) -> Column:
    dtype = column.type()
    if dtype.is_boolean():
        return column
    if dtype.is_string():
        word = column.strip().lower()
        return ibis.cases((word.isin(_TRUE), ibis.literal(True)), (word.isin(_FALSE), ibis.literal(False)))
    return real_number(column) != exact_float(0)


def _label(column: Column) -> Column:
    """What categories are told apart by: the text, the truth or the number that stands in the column."""
    dtype = column.type()
    if dtype.is_string() or dtype.is_boolean():
        return column
    if dtype.is_uuid():
        return column.cast("string").lower()
    fractional = dtype.is_floating() or (dtype.is_decimal() and dtype.scale != 0)
    return real_number(column) if fractional else whole_number(column)


def _moment(moment: Column) -> Column:
    def part(name: str) -> Column:
        return getattr(moment, name)().cast("int64")

    days = _days(part("year"), part("month"), part("day"))
    if moment.type().is_date():
        return days * exact_int(MICROSECONDS_PER_DAY)
    seconds = ((days * 24 + part("hour")) * 60 + part("minute")) * 60 + part("second")
    return seconds * 1_000_000 + part("microsecond")


def _text_moment(text: Column) -> Column:
    """Microseconds of ISO text that `make_castable` let pass, from a date to a moment with an offset."""

    def number(start: int, length: int) -> Column:
        return text.substr(start, length).cast("int64")

    year, month, day = number(0, 4), number(5, 2), number(8, 2)
    rest = text.substr(16)  # what follows hours and minutes: seconds, fraction, offset
    minutes = ibis.ifelse(text.length() >= 16, number(11, 2) * 60 + number(14, 2), exact_int(0))
    seconds = ibis.ifelse(rest.startswith(":"), rest.substr(1, 2).cast("int64"), exact_int(0))
    fraction = (ibis.coalesce(rest.re_extract(r"[.,]([0-9]+)", 1), "") + "000000").substr(0, 6).cast("int64")
    at = (
        (_days(year, month, day) * 1440 + minutes - _offset_minutes(rest)) * 60 + seconds
    ) * 1_000_000 + fraction
    return ibis.ifelse((year >= 1) & (day <= _days_in_month(year, month)), at, ibis.null("int64"))


def _offset_minutes(rest: Column) -> Column:
    sign, digits = "[+-]([0-9]{2}):?([0-9]{2})?$", ibis.literal("0")
    hours, minutes = (
        (digits + ibis.coalesce(rest.re_extract(sign, group), "")).cast("int64") for group in (1, 2)
    )
    offset = hours * 60 + minutes
    return ibis.cases((rest.contains("+"), offset), (rest.contains("-"), -offset), else_=exact_int(0))


def _days_in_month(year: Column, month: Column) -> Column:
    leap = ((year % 4 == 0) & (year % 100 != 0)) | (year % 400 == 0)
    return ibis.cases((month == 2, ibis.ifelse(leap, 29, 28)), (month.isin((4, 6, 9, 11)), 30), else_=31)


def _days(year: Column, month: Column, day: Column) -> Column:
    """Days from 1970-01-01, with years that start in March so that the leap day is the last."""
    march_year = year - ibis.ifelse(month <= 2, 1, 0)
    march_month = (month + 9) % 12
    leap_days = march_year // 4 - march_year // 100 + march_year // 400
    return march_year * 365 + leap_days + (march_month * 153 + 2) // 5 + day - 719_469
