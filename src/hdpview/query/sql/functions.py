"""Functions of single values in statements, as DuckDB defines them: arithmetic, rounding, texts. None of them
is called with NULL.

TypeError and ValueError where the types do not fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date
from functools import cmp_to_key
from typing import Any, NamedTuple

from sqlglot import exp

from hdpview.errors import QueryError
from hdpview.query.question.axes import BinLabel
from hdpview.query.sql.dates import moment_of

_MOST_BITS = 512  # of a whole number on the way; larger ones go on as doubles


def literal_number(text: str) -> int | float:
    """A number as written; whole ones stay whole."""
    return int(text) if text.isdigit() and len(text) < 100 else float(text)


def as_number(value: Any) -> int | float:
    """A number as it is; whole numbers too long to go on with become doubles."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError
    return float(value) if isinstance(value, int) and value.bit_length() > _MOST_BITS else value


def divide(a: float, b: float) -> float:
    """As IEEE 754 has it where the divisor is 0."""
    if b:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a)


def divide_whole(a: float, b: float) -> int | float | None:
    """Rounded towards 0, as databases do; of fractional numbers DuckDB divides plainly."""
    if not b:
        return None
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    return a / b


def remainder(a: float, b: float) -> float | None:
    """With the sign of the first number; NULL where the second is 0."""
    if not b:
        return None
    return (
        abs(a) % abs(b) * (-1 if a < 0 else 1)
        if isinstance(a, int) and isinstance(b, int)
        else math.fmod(a, b)
    )


class OrderTerm(NamedTuple):
    """One term of ORDER BY: its value in each row, whether descending, and whether nulls come first."""

    values: list[Any]
    descending: bool
    nulls_first: bool

    @classmethod
    def of(cls, term: exp.Expr, values: list[Any]) -> OrderTerm:
        """The term with these values."""
        return cls(values, bool(term.args.get("desc")), bool(term.args.get("nulls_first")))


def places_in_order(n: int, terms: Sequence[OrderTerm]) -> list[int]:
    """The numbers from 0 to n - 1 in the order of ORDER BY."""

    def compared(a: int, b: int) -> int:
        for values, descending, nulls_first in terms:
            x, y = values[a], values[b]
            if x is None or y is None:
                if x is not y:
                    return -1 if (x is None) == nulls_first else 1
                continue
            if not isinstance(x, BinLabel):
                x, y = alike(x, y)
            if x != y:
                return -1 if (x < y) != descending else 1
        return 0

    try:
        return sorted(range(n), key=cmp_to_key(compared))
    except TypeError:
        raise QueryError("The values to order by are of different types.") from None


def alike(a: Any, b: Any) -> tuple[Any, Any]:
    """Two values as one type: a text beside a date is a date, a date beside a moment its midnight."""
    if isinstance(a, date) or isinstance(b, date):
        if not isinstance(a, (str, date)) or not isinstance(b, (str, date)):
            raise TypeError
        return moment_of(a), moment_of(b)
    if isinstance(a, bool) != isinstance(b, bool) or isinstance(a, str) != isinstance(b, str):
        raise TypeError
    return a, b


def round_half_away(value: float, digits: int = 0) -> int | float:
    """To so many decimals; halves go away from 0."""
    value, scale = as_number(value), 10.0 ** min(max(int(digits), -300), 300)
    if not math.isfinite(value):
        return value
    if isinstance(value, int) and digits >= 0:
        return value
    rounded = (
        math.copysign(math.floor(abs(value) * scale + 0.5) / scale, value)
        if math.isfinite(value * scale)
        else value
    )
    return int(rounded) if isinstance(value, int) else rounded


def to_whole(function: Callable[[float], int]) -> Callable[[Any], float]:
    """Floor, ceiling or truncation; infinities and NaN stay what they are."""
    return lambda value: function(as_number(value)) if math.isfinite(as_number(value)) else value


def width_bucket(value: float, low: float, high: float, n: int) -> int:
    """The bucket of a value among n equal ones from low to high: 1 to n, 0 below, n + 1 from `high` on."""
    if not low < high or not 1 <= n <= 100_000:
        raise ValueError
    return 0 if value < low else n + 1 if value >= high else int((value - low) * n / (high - low)) + 1


def as_text(value: Any) -> str:
    """A text as it is."""
    if not isinstance(value, str):
        raise TypeError
    return value


def substring(text: Any, start: int = 1, length: int | None = None) -> str:
    """From a place, counted from 1, on; places before the text hold nothing."""
    first = max(start, 1) - 1
    return as_text(text)[first : None if length is None else max(start - 1 + length, first)]


def power(a: float, b: float) -> float:
    """NaN where it is no real number; a negative power of 0 is infinite."""
    if a == 0 and b < 0:
        return math.inf
    return float(a) ** float(b) if a >= 0 or float(b).is_integer() else math.nan
