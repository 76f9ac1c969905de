"""The format of texts in a source: separators, decimal signs, encodings, dates, marks for missing values.

A public statement, like the rest of the schema. It and a text alone decide how that text is read.
"""

from __future__ import annotations

import codecs
import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from hdpview.errors import SchemaError, quoted, unknown_name

MAX_FORMATS, MAX_MARKS = 20, 100
DIRECTIVES = "YymbdHIMSp"  # of date formats, as in strptime
_SAME_PART = ("Yy", "mb", "HI")  # directives for the same part of a datetime
_LISTS = ("dates", "missing", "columns", "strip")
_DATE_EXAMPLE = 'such as "%d.%m.%Y" or "%m/%d/%Y %I:%M %p"'


def _require(is_met: bool, key: str, rule: str, value: Any) -> None:
    """Raise a SchemaError unless a setting follows its rule."""
    if not is_met:
        raise SchemaError(f"[source] {key} {rule}, not {quoted(value)}.")


@dataclass(frozen=True)
class TextFormat:
    """How texts are read. Everything but `separator`, `quote`, `encoding` and `columns` also applies to texts
    in Parquet files, frames and databases.

    separator: between fields; None: a tab for .tsv, otherwise the one that splits the header line best.
    quote: encloses fields that hold separators or line breaks; empty where quotes mean nothing.
    decimal, thousands: signs in numbers; by default, thousands have no separator. A blank also matches
        non-breaking spaces.
    strip: texts to remove from numbers, such as ("$", "%", "days"); a text is a list of its characters.
    negative: "-", or "parentheses" if (468.00) is also below zero.
    encoding: of the file, by its name in Python.
    dates: formats besides ISO, in the directives of strptime: %Y %y %m %b %d %H %I %M %S %p.
    epoch: "s" or "ms" if datetimes are whole numbers of seconds or milliseconds since 1970, in UTC.
    trim: whether blanks around the values of categories are ignored.
    missing: texts that mean "missing"; blanks around them are ignored.
    columns: names of the columns, for files without a header line.
    """

    separator: str | None = None
    quote: str = '"'
    decimal: str = "."
    thousands: str | None = None
    strip: tuple[str, ...] = ()
    negative: str = "-"
    encoding: str = "utf-8"
    dates: tuple[str, ...] = ()
    epoch: str | None = None
    trim: bool = False
    missing: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.strip, str):
            object.__setattr__(self, "strip", tuple(self.strip))
        for key in _LISTS:
            texts = getattr(self, key)
            are_texts = isinstance(texts, (list, tuple)) and all(isinstance(text, str) for text in texts)
            _require(are_texts, key, "must be a list of texts", texts)
            object.__setattr__(self, key, tuple(texts))
        sign = "," if self.separator is None else self.separator
        is_sign = isinstance(sign, str) and len(sign) == 1 and sign not in '\r\n"\\'
        _require(is_sign, "separator", 'must be one character, like ";" or "\\t"', self.separator)
        is_quote = self.quote in ('"', "'", "")
        _require(is_quote, "quote", "must be a double or single quote, or empty", self.quote)
        _require(self.decimal in (".", ","), "decimal", 'must be "." or ","', self.decimal)
        is_mark = self.thousands in (None, *".,'_ \u00a0\u202f’") and self.thousands != self.decimal
        marks = "must be a point, comma, space or apostrophe other than decimal"
        _require(is_mark, "thousands", marks, self.thousands)
        are_units = len(self.strip) <= MAX_MARKS and all(
            re.sub(r"[\d.,+\-() ]", "", each) for each in self.strip
        )
        units = 'must list signs and units such as "$€%" or ["days"], without digits, points and commas'
        _require(are_units, "strip", units, list(self.strip))
        is_known = self.negative in ("-", "parentheses")
        _require(is_known, "negative", 'must be "-" or "parentheses"', self.negative)
        _require(self.epoch in (None, "s", "ms"), "epoch", 'must be "s" or "ms"', self.epoch)
        _require(isinstance(self.trim, bool), "trim", "must be true or false", self.trim)
        codec: Any = None
        with contextlib.suppress(LookupError, TypeError, ValueError):
            codec = codecs.lookup(self.encoding)
        encodings = "must be a text encoding such as utf-8, latin-1, cp1252 or utf-16"
        _require(codec is not None and codec._is_text_encoding, "encoding", encodings, self.encoding)
        if len(self.dates) > MAX_FORMATS or len(self.missing) > MAX_MARKS:
            raise SchemaError(f"[source] takes at most {MAX_FORMATS} dates and {MAX_MARKS} missing texts.")
        for date_format in self.dates:
            _check_date_format(date_format)
        object.__setattr__(self, "missing", tuple(dict.fromkeys(text.strip() for text in self.missing)))
        if len({name.casefold() for name in self.columns}) < len(self.columns) or "" in self.columns:
            raise SchemaError("[source] columns must name each column of the file once, from left to right.")

    @property
    def is_utf8(self) -> bool:
        return codecs.lookup(self.encoding).name in ("utf-8", "ascii", "utf-8-sig")

    def to_dict(self) -> dict[str, Any]:
        """The settings that differ from the default, as plain JSON types."""
        plain = TextFormat()
        return {
            each.name: list(value) if isinstance(value, tuple) else value
            for each in fields(self)
            if (value := getattr(self, each.name)) != getattr(plain, each.name)
        }

    @classmethod
    def from_dict(cls, description: Any) -> TextFormat:
        """The inverse of `to_dict`."""
        names = [each.name for each in fields(cls)]
        if not isinstance(description, Mapping):
            raise SchemaError(f"[source] must be a table with keys such as {', '.join(names[:4])}.")
        for key in description:
            if key not in names:
                raise SchemaError(unknown_name("key", str(key), names, "[source] has"))
        return cls(**description)


PLAIN = TextFormat()


def separator_of(header: str) -> str:
    """The sign that splits a header line best, ignoring quoted text; a comma in case of doubt."""
    outside = re.sub(r'"[^"]*"', "", header)
    return max(",;\t|", key=outside.count)


def _check_date_format(date_format: str) -> None:
    directives, shown = re.findall(r"%(.)", date_format), f"[source] dates: {quoted(date_format)}"
    unknown = next((letter for letter in directives if letter not in DIRECTIVES), None)
    if unknown is not None or date_format.endswith("%"):
        known = " ".join(f"%{letter}" for letter in DIRECTIVES)
        raise SchemaError(f"{shown} has %{unknown or ''}, which is not one of {known}.")
    twice = any(sum(directives.count(letter) for letter in same) > 1 for same in (*_SAME_PART, *"dMSp"))
    whole_day = all(any(letter in directives for letter in same) for same in ("Yy", "mb", "d"))
    if twice or not whole_day or ("I" in directives) != ("p" in directives):
        raise SchemaError(f"{shown} must contain year, month and day once each, {_DATE_EXAMPLE}.")
    if ("M" in directives or "S" in directives) and not {"H", "I"} & set(directives):
        raise SchemaError(f"{shown} has minutes without hours.")
