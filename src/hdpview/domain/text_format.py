"""How texts are written in a source: separators, decimal signs, encodings, dates, and what stands for
nothing.

A public statement like the rest of the schema. Whether a text can be read follows from it and from that text
alone.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from hdpview.errors import SchemaError, quoted, unknown_name

MAX_FORMATS, MAX_MARKS = 20, 100
# Directive of a date format → what it matches: names of groups are parts of a moment.
DIRECTIVES = {
    "Y": r"([0-9]{4})",
    "y": r"([0-9]{2})",
    "m": r"([0-9]{1,2})",
    "b": r"([A-Za-z]{3})[a-z]{0,6}",
    "d": r"([0-9]{1,2})",
    "H": r"([0-9]{1,2})",
    "I": r"([0-9]{1,2})",
    "M": r"([0-9]{2})",
    "S": r"([0-9]{2})",
    "p": r"([AaPp])\.?[Mm]\.?",
}
_SAME_PART = ("Yy", "mb", "HI")  # directives that say the same part of a moment
_LISTS = ("dates", "missing", "columns", "strip")
_DATE_EXAMPLE = 'such as "%d.%m.%Y" or "%m/%d/%Y %I:%M %p"'


@dataclass(frozen=True)
class TextFormat:
    """How texts are read. Everything but `separator`, `quote`, `encoding` and `columns` also holds for texts
    in Parquet files, frames and databases.

    separator: between fields of a line; None: a tab for .tsv, else the one that parts the header line best.
    quote: encloses fields that hold separators or line breaks; empty where quotes mean nothing.
    decimal, thousands: signs in numbers; no sign parts thousands by default. A blank also stands for those
        that do not break lines.
    strip: texts that are taken off numbers, such as ("$", "%", "days"); a text is a list of its characters.
    negative: "-", or "parentheses" where (468.00) is below zero as well.
    encoding: of the file, by the name that Python knows it by.
    dates: formats besides ISO, in the directives of strptime: %Y %y %m %b %d %H %I %M %S %p.
    epoch: "s" or "ms" where moments are whole numbers of seconds or milliseconds since 1970, in UTC.
    trim: whether blanks around the values of categories are ignored.
    missing: texts that stand for nothing, blanks around them aside.
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
            if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
                raise SchemaError(f"[source] {key} is a list of texts, not {quoted(texts)}.")
            object.__setattr__(self, key, tuple(texts))
        self._check_signs()
        self._check_encoding()
        if len(self.dates) > MAX_FORMATS or len(self.missing) > MAX_MARKS:
            raise SchemaError(
                f"[source] has at most {MAX_FORMATS} date formats and {MAX_MARKS} texts for missing values."
            )
        for date_format in self.dates:
            date_parts(date_format)
        object.__setattr__(self, "missing", tuple(dict.fromkeys(text.strip() for text in self.missing)))
        if len({name.casefold() for name in self.columns}) < len(self.columns) or "" in self.columns:
            raise SchemaError("[source] columns names each column of the file once, from left to right.")

    def _check_signs(self) -> None:
        if self.separator is not None and (
            not isinstance(self.separator, str) or len(self.separator) != 1 or self.separator in '\r\n"\\'
        ):
            raise SchemaError(
                f'[source] separator is one sign such as ";" or "\\t", not {quoted(self.separator)}.'
            )
        if self.quote not in ('"', "'", ""):
            raise SchemaError(
                f"[source] quote is a double or single quotation mark, or empty, not {quoted(self.quote)}."
            )
        if self.decimal not in (".", ","):
            raise SchemaError(f'[source] decimal is "." or ",", not {quoted(self.decimal)}.')
        if self.thousands not in (None, ".", ",", " ", "'", "_", "\u00a0", "\u202f", "’") or (
            self.thousands == self.decimal
        ):
            raise SchemaError(
                f"[source] thousands is a point, comma, blank or apostrophe other than decimal, "
                f"not {quoted(self.thousands)}."
            )
        if len(self.strip) > MAX_MARKS or any(not re.sub(r"[\d.,+\-() ]", "", text) for text in self.strip):
            raise SchemaError(
                f'[source] strip lists signs and units such as "$€%" or ["days"], without digits, points '
                f"and commas, not {quoted(list(self.strip))}."
            )
        if self.negative not in ("-", "parentheses"):
            raise SchemaError(f'[source] negative is "-" or "parentheses", not {quoted(self.negative)}.')
        if self.epoch not in (None, "s", "ms"):
            raise SchemaError(f'[source] epoch is "s" or "ms", not {quoted(self.epoch)}.')
        if not isinstance(self.trim, bool):
            raise SchemaError(f"[source] trim is true or false, not {quoted(self.trim)}.")

    def _check_encoding(self) -> None:
        try:
            codec = codecs.lookup(self.encoding)
        except (LookupError, TypeError, ValueError):
            raise SchemaError(
                f"[source] encoding {quoted(self.encoding)} is unknown. Usual ones are utf-8, latin-1, "
                "cp1252 and utf-16."
            ) from None
        if not codec._is_text_encoding:
            raise SchemaError(f"[source] encoding {quoted(self.encoding)} is not one of text.")

    @property
    def is_utf8(self) -> bool:
        return codecs.lookup(self.encoding).name in ("utf-8", "ascii", "utf-8-sig")

    def to_dict(self) -> dict[str, Any]:
        """What differs from the default, as plain JSON types."""
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
            raise SchemaError(f"[source] is a table with keys such as {', '.join(names[:4])}.")
        for key, value in description.items():
            if key not in names:
                raise SchemaError(unknown_name("key", str(key), names, "[source] has"))
            if key in ("dates", "missing", "columns") and not isinstance(value, (list, tuple)):
                raise SchemaError(f"[source] {key} is a list of texts, not {quoted(value)}.")
        return cls(**description)


PLAIN = TextFormat()


def separator_of(header: str) -> str:
    """The sign that parts the names of a header line best, outside quotes; a comma in case of doubt."""
    outside = re.sub(r'"[^"]*"', "", header)
    return max(",;\t|", key=outside.count)


def date_parts(date_format: str) -> list[str]:
    """The directives of a date format, in order; a SchemaError where it is none."""
    directives = re.findall(r"%(.)", date_format)
    unknown = next((letter for letter in directives if letter not in DIRECTIVES), None)
    if unknown is not None or date_format.endswith("%"):
        known = " ".join(f"%{letter}" for letter in DIRECTIVES)
        raise SchemaError(
            f"[source] dates: {quoted(date_format)} has %{unknown or ''}, which is not one of {known}."
        )
    twice = any(sum(directives.count(letter) for letter in same) > 1 for same in (*_SAME_PART, *"dMSp"))
    whole_day = all(any(letter in directives for letter in same) for same in ("Yy", "mb", "d"))
    if twice or not whole_day or ("I" in directives) != ("p" in directives):
        raise SchemaError(
            f"[source] dates: {quoted(date_format)} has to name year, month and day once each, "
            f"{_DATE_EXAMPLE}."
        )
    if ("M" in directives or "S" in directives) and not {"H", "I"} & set(directives):
        raise SchemaError(f"[source] dates: {quoted(date_format)} names minutes without hours.")
    return directives


def date_pattern(date_format: str) -> str:
    """A regular expression of a date format, with a group for each directive in order."""
    pieces = re.split(r"(%.)", date_format)
    body = "".join(DIRECTIVES[piece[1]] if piece.startswith("%") else _literal(piece) for piece in pieces)
    return f"^ *{body} *$"


def _literal(text: str) -> str:
    """Text in which no database finds an operator of regular expressions."""
    return re.sub(r"[!-/:-@\[-`{-~]", lambda sign: "\\" + sign[0], text)
