"""Attributes whose values are dates or datetimes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import calendar
from hdpview.domain.attributes import MAX_CODES, Cycles, Ordered
from hdpview.errors import SchemaError

_DAY = calendar.MICROSECONDS_PER_DAY


@dataclass(frozen=True, kw_only=True)
class Datetime(Ordered):
    """Datetimes from `min` to `max` in bins of `every` (`15min`, `1d`, `1mo`, …). A plain date as `max`
    includes that day. Bounds may be dates, datetimes or ISO text; they are stored as ISO text.
    """

    min: date | datetime | str
    max: date | datetime | str
    every: str
    kind: ClassVar[str] = "datetime"

    def _check(self) -> None:
        for key in ("min", "max"):
            bound = getattr(self, key)
            is_date = isinstance(bound, (date, str))
            self._require(is_date, f"{key} must be a date such as 2024-01-31, not {bound!r}")
            object.__setattr__(self, key, calendar.iso_text(bound))
        if isinstance(self.missing, date):
            object.__setattr__(self, "missing", calendar.iso_text(self.missing))
        is_step = isinstance(self.every, str)
        self._require(is_step, f"every must be a step such as '1d' or '1mo', not {self.every!r}")
        in_order = self.first <= self.last
        self._require(in_order, f"bounds must satisfy min ≤ max; got {self.min} and {self.max}")
        span = (self.last - self.first) // (self.step.microseconds or self.step.months * 28 * _DAY)
        steps = f"{self.min} to {self.max} in steps of {self.every}"
        too_many = f"{steps} makes more than {MAX_CODES:,} bins; use a longer step"
        self._require(span < MAX_CODES, too_many)

    @cached_property
    def step(self) -> calendar.Step:
        return calendar.parse_step(self.every)

    @cached_property
    def first(self) -> int:
        """The first microsecond of the axis."""
        return calendar.microseconds(self.min)

    @cached_property
    def last(self) -> int:
        """The last microsecond of the axis, included."""
        end_of_day = _DAY - 1 if calendar.is_whole_day(self.max) else 0
        return calendar.microseconds(self.max) + end_of_day

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        if self.step.months:
            ends = calendar.month_index(self.first), calendar.month_index(self.last) + 1
            months = np.arange(*ends, self.step.months) - calendar.month_index(0)
            starts = months.astype("M8[M]").astype("M8[us]").astype(np.int64)
            starts[0] = self.first
        else:
            starts = np.arange(self.first, self.last + 1, self.step.microseconds)
        return np.append(starts, self.last + 1)

    def position(self, value: Any) -> int:
        if not isinstance(value, (str, date)):
            raise TypeError
        try:
            return calendar.microseconds(value)
        except SchemaError:
            raise TypeError from None

    def value_labels(self) -> list[str]:
        starts = self.edges[:-1].astype("M8[us]")
        if self.step.months % 12 == 0 and self.step.months and calendar.month_index(self.first) % 12 == 0:
            unit = "Y"
        elif self.step.months:
            unit = "M"
        elif self.step.microseconds % _DAY == 0 and self.first % _DAY == 0:
            unit = "D"
        else:
            return [start.isoformat(sep=" ") for start in starts.tolist()]
        labels: list[str] = starts.astype(f"M8[{unit}]").astype(str).tolist()
        return labels

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "every": self.every}

    @cached_property
    def cycles(self) -> Cycles:
        """Weekdays, months, days of the month, hours, and hours of weekdays."""
        day, hour, us, month = _DAY, _DAY // 24, "M8[us]", "M8[M]"
        return (
            *self._classes(day, lambda x: x // day % 7),
            *self._classes(31 * day, lambda x: x.astype(us).astype(month).astype(np.int64) % 12),
            *self._classes(day, lambda x: (x - x.astype(us).astype(month).astype(us).astype("i8")) // day),
            *self._classes(hour, lambda x: x // hour % 24),
            *self._classes(hour, lambda x: x // hour % (7 * 24)),
        )

    @cached_property
    def counts_days(self) -> bool:
        """True if all bins begin and end at midnight, so that a plain date names whole bins."""
        return not bool((self.edges % _DAY).any())


@dataclass(frozen=True, kw_only=True)
class Date(Datetime):
    """Days from `min` to `max`, both included, in bins of `every` (`1d`, `1w`, `1mo`, …)."""

    every: str = "1d"
    kind: ClassVar[str] = "date"

    def _check(self) -> None:
        super()._check()
        are_days = calendar.is_whole_day(self.min) and calendar.is_whole_day(self.max)
        way_out = "for times of day, use type datetime"
        self._require(are_days, f"min and max are plain dates such as 2024-01-31; {way_out}")
        steps = f"every must be a step of whole days, such as '1d' or '1mo', not {self.every!r}"
        self._require(self.counts_days, steps)
