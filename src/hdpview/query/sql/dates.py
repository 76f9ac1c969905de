"""Dates in statements: their parts, starts of months and years, and how they cut an axis of time."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

from sqlglot import exp

from hdpview.domain import Datetime, calendar
from hdpview.errors import QueryError
from hdpview.query.question.conditions import Condition

_MAX_PERIODS = 65_536

PARTS: dict[str, Callable[[datetime], int]] = {
    "YEAR": lambda at: at.year,
    "QUARTER": lambda at: (at.month + 2) // 3,
    "MONTH": lambda at: at.month,
    "WEEK": lambda at: at.isocalendar().week,
    "DAY": lambda at: at.day,
    "DOW": lambda at: at.isoweekday() % 7,
    "DAYOFWEEK": lambda at: at.isoweekday() % 7,
    "ISODOW": lambda at: at.isoweekday(),
    "DAYOFYEAR": lambda at: at.timetuple().tm_yday,
    "HOUR": lambda at: at.hour,
    "MINUTE": lambda at: at.minute,
    "EPOCH": lambda at: (at - datetime(1970, 1, 1)) // timedelta(seconds=1),
}
PART_NODES: dict[type[exp.Expr], str] = {
    exp.Year: "YEAR",
    exp.Quarter: "QUARTER",
    exp.Month: "MONTH",
    exp.Week: "WEEK",
    exp.WeekOfYear: "WEEK",
    exp.Day: "DAY",
    exp.DayOfMonth: "DAY",
    exp.DayOfWeek: "DOW",
    exp.DayOfWeekIso: "ISODOW",
    exp.DayOfYear: "DAYOFYEAR",
    exp.Hour: "HOUR",
    exp.Minute: "MINUTE",
}


def moment_of(value: Any) -> datetime:
    """A date, a moment or ISO text as a moment; a date is its midnight."""
    if isinstance(value, str):
        return datetime.fromisoformat(value)
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)


def now() -> datetime:
    """The present moment; views hold no time zones."""
    return datetime.now(UTC).replace(tzinfo=None)


def truncate(value: Any, unit: str) -> date | datetime:
    """The start of the year, quarter, month, week, day, hour or minute that a moment lies in."""
    at = moment_of(value)
    day = datetime(at.year, at.month, at.day)
    starts: dict[str, Callable[[], datetime]] = {
        "YEAR": lambda: day.replace(month=1, day=1),
        "QUARTER": lambda: day.replace(month=(at.month - 1) // 3 * 3 + 1, day=1),
        "MONTH": lambda: day.replace(day=1),
        "WEEK": lambda: day - timedelta(days=at.weekday()),
        "DAY": lambda: day,
        "HOUR": lambda: at.replace(minute=0, second=0, microsecond=0),
        "MINUTE": lambda: at.replace(second=0, microsecond=0),
    }
    if unit.upper() not in starts:
        raise QueryError(
            f"Dates are truncated to {', '.join(name.lower() for name in starts)}, not to {unit.lower()!r}."
        )
    start = starts[unit.upper()]()
    return start if unit.upper() in ("HOUR", "MINUTE") else start.date()


class Duration(NamedTuple):
    """An INTERVAL: whole months, and the rest."""

    months: int
    rest: timedelta


_LENGTHS: dict[str, Duration] = {
    "YEAR": Duration(12, timedelta()),
    "QUARTER": Duration(3, timedelta()),
    "MONTH": Duration(1, timedelta()),
    **{
        unit: Duration(0, timedelta(**{f"{unit.lower()}s": 1}))
        for unit in ("WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
    },
}


def duration(text: str, unit: str = "") -> Duration:
    """The length of INTERVAL '2' MONTH or INTERVAL '1 year 2 months'. ValueError where it has none."""
    words = f"{text} {unit}".upper().split()
    months, rest = 0.0, timedelta()
    for amount, name in zip(words[::2], words[1::2], strict=True):
        length = _LENGTHS.get(name.rstrip("S"))
        if length is None:
            raise ValueError
        months, rest = months + float(amount) * length.months, rest + float(amount) * length.rest
    return Duration(round(months), rest)


def shifted(value: Any, by: Duration, sign: int = 1) -> datetime:
    """A moment so much later, or earlier where sign is −1; the last day of a month where a day is missing."""
    at = moment_of(value)
    months = at.year * 12 + at.month - 1 + sign * by.months
    year, month = months // 12, months % 12 + 1
    day = min(at.day, monthrange(year, month)[1])
    return at.replace(year=year, month=month, day=day) + sign * by.rest


# What the directives of strftime need to know of a moment.
_UNIT_OF_DIRECTIVE = {
    **dict.fromkeys("YyG", "YEAR"),
    **dict.fromkeys("mbB", "MONTH"),
    **dict.fromkeys("VUW", "WEEK"),
    **dict.fromkeys("dejaAuw", "DAY"),
    **dict.fromkeys("HIp", "HOUR"),
    "M": "MINUTE",
    "S": "SECOND",
}


def directives(pattern: str) -> list[str]:
    """The directives of a format, such as Y and m of '%Y-%m'."""
    found = re.findall(r"%-?(.)", pattern)
    if len(pattern) > 100 or set(found) - set(_UNIT_OF_DIRECTIVE) - {"%"}:
        raise QueryError(
            "Dates are written with years, months, weeks, days, hours and minutes: 'YYYY-MM-DD'."
        )
    return [directive for directive in found if directive != "%"]


def written(value: Any, pattern: str) -> str:
    """A moment in a format of strftime."""
    directives(pattern)
    return moment_of(value).strftime(pattern)


_UNIT_OF_PART = {"DOW": "DAY", "DAYOFWEEK": "DAY", "ISODOW": "DAY", "DAYOFYEAR": "DAY"}
_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE")


def finest_unit(node: exp.Expr, attribute: Datetime) -> str:
    """The longest unit of time over which an expression of a datetime is constant."""
    units = set()
    for column in node.find_all(exp.Column):
        parent = column.parent
        while isinstance(parent, exp.Paren):
            parent = parent.parent
        if isinstance(parent, (exp.TimestampTrunc, exp.DateTrunc)):
            units.add(parent.args["unit"].name.upper())
        elif isinstance(parent, exp.Extract):
            units.add(parent.this.name.upper())
        elif isinstance(parent, exp.TimeToStr):
            units |= {_UNIT_OF_DIRECTIVE[directive] for directive in directives(parent.args["format"].name)}
        elif parent is not None and type(parent) in PART_NODES:
            units.add(PART_NODES[type(parent)])
        elif isinstance(parent, exp.Cast) and parent.to.is_type(exp.DataType.Type.DATE):
            units.add("DAY")
        elif column.name.casefold() == attribute.name.casefold():
            raise QueryError(
                f"Use {attribute.name!r} by itself, or parts of it: date_trunc('month', "
                f"{attribute.name}), year({attribute.name})."
            )
    units = {_UNIT_OF_PART.get(unit, unit) for unit in units}
    for unit in units - set(_UNITS):
        raise QueryError(
            f"Dates are cut by {', '.join(name.lower() for name in _UNITS)}, not by {unit.lower()!r}."
        )
    if not units:
        units.add("YEAR")
    if "WEEK" in units and units & {"YEAR", "QUARTER", "MONTH"}:
        units.add("DAY")
    return str(max(units, key=_UNITS.index))


def periods(attribute: Datetime, unit: str) -> list[tuple[datetime, Condition]]:
    """The years, months, … of a datetime's axis."""
    shortest = {
        "YEAR": 365,
        "QUARTER": 90,
        "MONTH": 28,
        "WEEK": 7,
        "DAY": 1,
        "HOUR": 1 / 24,
        "MINUTE": 1 / 1440,
    }[unit]
    if (attribute.last - attribute.first) / (shortest * calendar.MICROSECONDS_PER_DAY) > _MAX_PERIODS:
        raise QueryError(
            f"{attribute.name!r} spans more than {_MAX_PERIODS:,} {unit.lower()}s; use a longer unit."
        )
    found = []
    start: datetime | None = moment_of(truncate(calendar.moment(attribute.first), unit))
    while start is not None and calendar.microseconds(start) <= attribute.last:
        after = _next_period(start, unit, shortest)
        end = attribute.last + 1 if after is None else calendar.microseconds(after)
        found.append((start, Condition(ranges=((calendar.microseconds(start), end),))))
        start = after
    return found


def _next_period(start: datetime, unit: str, shortest: float) -> datetime | None:
    """The start of the next period; None after the calendar's last, in 9999. shortest: in days."""
    try:
        beyond = start + (
            timedelta(days=shortest * 1.15) if shortest > 1 else timedelta(days=shortest, seconds=1)
        )
    except OverflowError:
        return None
    return moment_of(truncate(beyond, unit))
