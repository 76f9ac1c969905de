"""Bounds and bins that the name of a column suggests. The same for every table: nothing here looks at data.

A suggestion is for a person to accept or to change. What it gets wrong shows in the diagnosis of a view.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Any

Fields = dict[str, Any]


def _name(pattern: str) -> re.Pattern[str]:
    """A name that has one of these words in it, parted from others by anything that is no letter."""
    return re.compile(rf"(^|[^a-z])({pattern})($|[^a-z])", re.IGNORECASE)


# In this order: the first that fits counts. Numbers are fields of an attribute, whole or real.
_NUMBERS: tuple[tuple[re.Pattern[str], Fields], ...] = (
    (_name("percent|percentage|pct"), {"bins": "percent"}),
    (_name("birth_?year|year_of_birth"), {"min": 1900, "max": 2030, "every": 5}),
    (_name("years?"), {"min": 1990, "max": 2030}),
    (_name("ages?|alter"), {"bins": "age"}),
    (_name("months?"), {"min": 1, "max": 12}),
    (_name("weekday|day_of_week"), {"min": 0, "max": 7}),
    (_name("hours?"), {"min": 0, "max": 24}),
    (_name("minutes?"), {"min": 0, "max": 240, "every": 5}),
    (_name("bmi"), {"min": 10, "max": 60, "every": 1}),
    (_name("weight|weight_kg|gewicht"), {"min": 0, "max": 200, "every": 5}),
    (_name("height|height_cm|gr(ö|oe)(ß|ss)e"), {"min": 40, "max": 220, "every": 5}),
    (_name("temp|temperature|temperatur"), {"min": 30, "max": 45, "every": 0.5}),
    (_name("systolic|sbp|sys_bp"), {"min": 50, "max": 250, "every": 10}),
    (_name("diastolic|dbp|dia_bp"), {"min": 30, "max": 150, "every": 10}),
    (_name("pulse|heart_rate|hr|puls"), {"min": 20, "max": 220, "every": 10}),
    (_name("saturation|spo2"), {"min": 50, "max": 100, "every": 1}),
    (_name("stay|los|length_of_stay|days?|tage|liegetage"), {"min": 0, "max": 60}),
    (_name("costs?|price|amount|income|salary|charges?|revenue|kosten|preis|betrag|einkommen"),
     {"min": 0, "max": 1_000_000, "bins": "log"}),
    (_name("n|num|number|count|visits|procedures|medications|anzahl"), {"min": 0, "max": 50}),
    (_name("score|grade|rating"), {"min": 0, "max": 100, "every": 5}),
)  # fmt: skip
_BIRTH = _name("birth|dob|born|birthday|birthdate|geburtsdatum")
_CATEGORIES: tuple[tuple[re.Pattern[str], Fields], ...] = (
    (_name("sex|gender|geschlecht"),
     {"values": ["Female", "Male"], "other": "other",
      "aliases": {"Female": ["female", "F", "f", "W", "w", "weiblich"],
                  "Male": ["male", "M", "m", "männlich"]}}),
    (_name("age_?(group|band|range)|altersgruppe"),
     {"values": [f"[{low}-{low + 10})" for low in range(0, 100, 10)], "ordered": True, "other": "other"}),
)  # fmt: skip


def suggested_fields(name: str, kind: str | None) -> Fields | None:
    """Fields of an attribute that a column's name and type suggest; None where they suggest nothing."""
    if kind in ("integer", "real"):
        found = _first(name, _NUMBERS)
        return None if found is None else _for_whole(found) if kind == "integer" else _for_real(found)
    if kind == "datetime":
        last = date(date.today().year, 12, 31)
        first = date(1900 if _BIRTH.search(name) else last.year - 10, 1, 1)
        every = "1y" if _BIRTH.search(name) else "1mo"
        return {"min": first.isoformat(), "max": last.isoformat(), "every": every}
    return _first(name, _CATEGORIES) if kind == "category" else {} if kind == "boolean" else None


def _first(name: str, known: tuple[tuple[re.Pattern[str], Mapping[str, Any]], ...]) -> Fields | None:
    return next((dict(fields) for pattern, fields in known if pattern.search(name)), None)


def _for_real(fields: Fields) -> Fields:
    """Real numbers need bins."""
    return fields if {"every", "bins"} & set(fields) else {**fields, "bins": 100}


def _for_whole(fields: Fields) -> Fields:
    """Bins of whole numbers are at least 1 wide."""
    every = fields.get("every")
    return fields if every is None else {**fields, "every": max(1, int(every))}
