"""Bounds and bins that a column's name suggests and its first values confirm.

The list is the same for every table. A person accepts or changes suggestions, and the check before a build
shows what they would lose.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

Fields = dict[str, Any]


def _name(pattern: str) -> re.Pattern[str]:
    """Match a name that contains one of these as a whole word."""
    return re.compile(rf"(^|[^a-z])({pattern})($|[^a-z])", re.IGNORECASE)


# Pattern, fields of the attribute, and the range of the first values; the first match counts. Only quantities
# with natural or calendar bounds, so that later values rarely lie outside.
_NUMBERS: tuple[tuple[re.Pattern[str], Fields, tuple[float, float]], ...] = (
    (_name("percent|percentage|pct"), {"bins": "percent"}, (0, 100)),
    (_name("ages?|alter|age_years|age_at_[a-z]+"), {"bins": "age"}, (0, 120)),
    (_name("months?|monat"), {"min": 1, "max": 12}, (1, 12)),
    (_name("weekday|day_of_week|wochentag"), {"min": 0, "max": 7}, (0, 7)),
    (_name("hour_of_day|uhrzeit_stunde"), {"min": 0, "max": 23}, (0, 23)),
    (_name("bmi"), {"min": 10, "max": 60, "every": 1}, (10, 60)),
    (_name("weight_kg|gewicht_kg"), {"min": 0, "max": 200, "every": 5}, (0, 200)),
    (_name("height_cm|gr(ö|oe)(ß|ss)e_cm"), {"min": 40, "max": 220, "every": 5}, (40, 220)),
    (_name("systolic|sbp|sys_bp"), {"min": 50, "max": 250, "every": 10}, (50, 250)),
    (_name("diastolic|dbp|dia_bp"), {"min": 30, "max": 150, "every": 10}, (30, 150)),
    (_name("heart_rate|pulse|puls"), {"min": 20, "max": 220, "every": 10}, (20, 220)),
    (_name("saturation|spo2"), {"min": 50, "max": 100, "every": 1}, (50, 100)),
)
_FEMALE = ("Female", "female", "FEMALE", "F", "f", "W", "w", "weiblich")
_MALE = ("Male", "male", "MALE", "M", "m", "männlich")
_SEX = _name("sex|gender|geschlecht")


def is_suggestive(name: str, kind: str | None) -> bool:
    """Whether first values are read: texts may be dates, and a number's name may suggest bounds."""
    is_number = kind in ("integer", "real")
    return kind == "category" or (is_number and any(pattern.search(name) for pattern, *_ in _NUMBERS))


def suggested_fields(name: str, kind: str | None, head: Sequence[str] = ()) -> Fields | None:
    """Fields of an attribute on which a column's name and first values agree; None if they do not.

    head: first values, numbers in plain spelling. If there are none, nothing is suggested.
    """
    if kind == "boolean":
        return {}
    if not head:
        return None
    if kind in ("integer", "real"):
        numbers = [float(each) for each in head if re.fullmatch(r"[+-]?[0-9.]+([eE][+-]?[0-9]+)?", each)]
        for pattern, fields, (low, high) in _NUMBERS:
            if pattern.search(name):
                agrees = len(numbers) == len(head) and all(low <= number <= high for number in numbers)
                needs_bins = kind == "real" and not {"every", "bins"} & set(fields)
                return fields | ({"bins": 100} if needs_bins else {}) if agrees else None
    if kind == "category" and _SEX.search(name) and set(head) <= {*_FEMALE, *_MALE}:
        aliases = {"Female": list(_FEMALE[1:]), "Male": list(_MALE[1:])}
        return {"values": ["Female", "Male"], "other": "other", "aliases": aliases}
    return None
