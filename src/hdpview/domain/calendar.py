"""Dates and steps of time as whole microseconds since 1970-01-01, without time zones.

Aware values are converted to UTC and naive ones are kept. The machine's time zone is never used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from hdpview.errors import SchemaError

MICROSECONDS_PER_DAY = 86_400_000_000
_EPOCH = datetime(1970, 1, 1)
_FIXED_UNITS = {
    "us": 1, "ms": 1_000, "s": 1_000_000, "min": 60_000_000, "h": 3_600_000_000,
    "d": MICROSECONDS_PER_DAY, "w": 7 * MICROSECONDS_PER_DAY,
}  # fmt: skip
_MONTH_UNITS = {"mo": 1, "q": 3, "y": 12}


@dataclass(frozen=True)
class Step:
    """The width of a time bin: a fixed number of microseconds, or a number of calendar months."""

    microseconds: int = 0
    months: int = 0


def parse_step(text: str) -> Step:
    """Read `15min`, `1h`, `1d`, `2w`, `1mo`, `1q` or `1y`."""
    match = re.fullmatch(r"\s*(\d{1,9})\s*([a-z]+)\s*", text)
    unit = match.group(2) if match else ""
    if match is None or int(match.group(1)) < 1 or unit not in _FIXED_UNITS | _MONTH_UNITS:
        units = ", ".join([*_FIXED_UNITS, *_MONTH_UNITS])
        example = f"Write a number and one of {units}: for example '15min' or '1mo'"
        raise SchemaError(f"{text!r} is not a step of time. {example}.")
    count = int(match.group(1))
    if unit in _MONTH_UNITS:
        return Step(months=count * _MONTH_UNITS[unit])
    return Step(microseconds=count * _FIXED_UNITS[unit])


def microseconds(moment: date | datetime | str) -> int:
    """Microseconds from 1970-01-01 to a date, a datetime (in UTC if aware) or ISO text."""
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment.strip())
        except ValueError:
            example = "Write it as 2024-01-31 or 2024-01-31T13:00:00"
            raise SchemaError(f"{moment!r} is not a date. {example}.") from None
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    if moment.tzinfo is not None:
        try:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
        except OverflowError:
            raise SchemaError(f"{moment} is not a date within the years 1 to 9999 in UTC.") from None
    return (moment - _EPOCH) // timedelta(microseconds=1)


def iso_text(bound: date | datetime | str) -> str:
    """A bound in canonical form: a plain date as a date, anything else with its time in UTC."""
    at = moment(microseconds(bound))
    return at.date().isoformat() if is_whole_day(bound) else at.isoformat()


def moment(n_microseconds: int) -> datetime:
    """The datetime that lies this many microseconds after 1970-01-01."""
    return _EPOCH + timedelta(microseconds=n_microseconds)


def is_whole_day(value: date | datetime | str) -> bool:
    """Whether a bound was written as a plain date, so that as an upper bound it covers the day."""
    if isinstance(value, str):
        return re.fullmatch(r"\s*\d{4}-\d{2}-\d{2}\s*", value) is not None
    return not isinstance(value, datetime)


def month_index(n_microseconds: int) -> int:
    """Calendar months since January of year 0."""
    at = moment(n_microseconds)
    return at.year * 12 + at.month - 1
