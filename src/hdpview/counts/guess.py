"""How a CSV file is written, guessed from its first lines: types and signs, never values or bounds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hdpview.counts.files import csv_layout, first_lines
from hdpview.domain.text_format import PLAIN, TextFormat, date_pattern
from hdpview.errors import DataError

N_LINES = 100
# The same list for every file, so that it tells nothing about one.
USUAL_MARKS = ("", "?", "NA", "N/A", "n/a", "NULL", "null", "None", "NaN", "nan", "-", ".")
_ENCODINGS = ("utf-8", "cp1252", "latin-1")
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}.*)?")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_REAL = re.compile(r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,3})?")
_COMMA_REAL = re.compile(r"[+-]?[0-9]*,[0-9]+|[+-]?[0-9]{1,3}([.][0-9]{3})+(,[0-9]+)?")
_POINT_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+([.][0-9]+)?")
_TRUTHS = {"true", "false", "t", "f", "yes", "no", "y", "n"}
_DATES = (
    "%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%Y %H:%M",
    "%m/%d/%Y %H:%M",
    "%m/%d/%Y %I:%M %p", "%d-%m-%Y", "%d-%b-%Y", "%d %b %Y", "%b %d, %Y", "%Y/%m/%d", "%d.%m.%y", "%m/%d/%y",
)  # fmt: skip
_MONTH_FIRST = re.compile(r"[0-9]{1,2}/(1[3-9]|2[0-9]|3[01])/")


@dataclass(frozen=True)
class Guess:
    """kinds: per column, the type of attribute; text: how the file is written; remark: what to say of it."""

    kinds: dict[str, str]
    text: TextFormat
    remark: str


def guess_format(file: Path) -> Guess:
    """Types of columns and signs of a CSV file, from its header and the format of its first lines."""
    text = _with_encoding(file)
    separator, names = csv_layout([file], text)
    lines = first_lines(file, text, N_LINES)
    columns = {
        name: [field for line in lines if (field := line[i].strip()) not in USUAL_MARKS]
        for i, name in enumerate(names)
    }
    text = replace(text, separator=None if separator in ",\t" else separator, missing=USUAL_MARKS)
    if any(fields and _all(_COMMA_REAL, fields) for fields in columns.values()) and separator != ",":
        grouped = any(
            "." in field for fields in columns.values() if _all(_COMMA_REAL, fields) for field in fields
        )
        text = replace(text, decimal=",", thousands="." if grouped else None)
    elif any(fields and _all(_POINT_GROUPED, fields) for fields in columns.values()):
        text = replace(text, thousands=",")
    text = replace(text, dates=_date_formats(columns.values()))
    kinds = {name: _kind(fields, text) for name, fields in columns.items()}
    remark = (
        f"Types, signs and dates were guessed from the first {N_LINES} lines of {file.name}: "
        "this tells their format only, not their values. Correct what is wrong."
    )
    return Guess(kinds, text, remark)


def _with_encoding(file: Path) -> TextFormat:
    """The first of the usual encodings that the header and the first lines have."""
    for encoding in _ENCODINGS:
        text = replace(PLAIN, encoding=encoding)
        try:
            lines = first_lines(file, text, N_LINES)
        except DataError:
            continue
        if not any("\ufffd" in field for line in lines for field in line):
            return text
    return PLAIN


def _all(pattern: re.Pattern[str], fields: Sequence[str]) -> bool:
    return all(pattern.fullmatch(field) for field in fields)


def _date_formats(columns: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Formats that read all of the first lines of some column. Where day and month could be either, a day
    above 12 decides; without one, the day comes first.
    """
    found: list[str] = []
    for fields in columns:
        if not fields or _all(_ISO, fields) or _all(_WHOLE, fields):
            continue
        fitting = [each for each in _DATES if _all(re.compile(date_pattern(each)), fields)]
        american = [each for each in fitting if each.startswith("%m/")]
        if any(_MONTH_FIRST.match(field) for field in fields):
            fitting = american
        found += [each for each in fitting[:1] if each not in found]
    return tuple(found)


def _kind(fields: Sequence[str], text: TextFormat) -> str:
    """The type of attribute whose format all fields have; a category where none is."""
    if not fields:
        return "category"
    if _all(_ISO, fields) or any(_all(re.compile(date_pattern(each)), fields) for each in text.dates):
        return "datetime"
    if _all(_WHOLE, fields):
        return "integer"
    plain = [_plain_number(field, text) for field in fields]
    if _all(_REAL, plain):
        return "integer" if _all(_WHOLE, plain) else "real"
    if all(field.lower() in _TRUTHS for field in fields):
        return "boolean"
    return "category"


def _plain_number(field: str, text: TextFormat) -> str:
    if text.thousands is not None:
        grouped = rf"[+-]?[0-9]{{1,3}}([{text.thousands}][0-9]{{3}})+([{text.decimal}][0-9]*)?"
        field = field.replace(text.thousands, "") if re.fullmatch(grouped, field) else field
    if text.decimal == ",":
        return "." + field + "." if "." in field else field.replace(",", ".")
    return field
