"""Guess how a text file is written from its first lines: types and signs, never values or bounds.

If two interpretations fit, the guess asks instead of choosing: 5.500 may be five or five thousand, and
01/02/2024 may be in January or February.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from hdpview.counts.check import common_shape
from hdpview.counts.encode import name_sql, text_sql
from hdpview.counts.files import csv_layout, first_lines, guessed_encoding, json_head, kind_of_file
from hdpview.counts.sources import open_source
from hdpview.domain.drafting import Draft, DraftColumn, suggested_fields
from hdpview.domain.text_format import PLAIN, TextFormat
from hdpview.errors import DataError

N_LINES = 100
# The same list for every file, so that it reveals nothing about any file.
USUAL_MARKS = (
    "", "?", "NA", "N/A", "n/a", "NULL", "null", "None", "NaN", "nan", "-", ".",
    "#N/A", "#DIV/0!", "#VALUE!", "#REF!", "#NUM!", "#NAME?",
)  # fmt: skip
# Minimum number of non-empty fields of a column that is called unique.
MIN_UNIQUE = 30
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}.*)?")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_REAL = re.compile(r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,3})?")
# A field of a record: a number, a date or an e-mail address.
_VALUE = re.compile(
    r"[+-]?[0-9]+([.,][0-9]+)?|[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}([ T].*)?|.*@.*", re.DOTALL
)
_YEAR = re.compile(r"(19|20)[0-9]{2}")
_TRUTHS = {"true", "false", "t", "f", "yes", "no", "y", "n"}
_MONEY = "$€£¥₹%"
_WITH_UNIT = re.compile(r"[+-]?[0-9][0-9.,]* ?([a-zA-Zµ°]{1,12})")
# Decimal signs and thousands separators, the usual ones first.
_POINTS = [(".", None), (",", None), (".", ","), (",", "."), *itertools.product(".,", " '’")]
_EPOCH_NAMES = re.compile(r"(time|date|epoch|stamp|_at|_ts|_ms|\bts|created|modified)", re.IGNORECASE)
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_DAYS = (
    *(f"{a}{sign}{b}{sign}{year}" for year in ("%Y", "%y") for sign in "/-"
      for a, b in (("%d", "%m"), ("%m", "%d"))),
    "%d.%m.%Y", "%d.%m.%y", "%Y/%m/%d", "%Y.%m.%d", "%y-%m-%d", "%y/%m/%d",
    "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%b %d, %Y", "%d%b%Y", "%Y%m%d",
)  # fmt: skip
_DATE_FORMATS = [day + time for day in _DAYS for time in _TIMES]
_NUMERIC = ("integer", "real")
_EPOCHS = {"s": (10**9, 4_102_444_800), "ms": (10**12, 4_102_444_800_000)}  # from 2001 to 2100


def guessed_draft(file: Path, *, is_named: bool = False) -> Draft:
    """Draft of a CSV or JSON-lines file: types of columns and signs, from the format of its first lines.

    is_named: whether the curator has named columns, so that the first line is certainly a header.
    """
    if kind_of_file(file) == "json":
        text, separator, columns = PLAIN, "", _json_head(file)
    else:
        text = replace(PLAIN, encoding=guessed_encoding(file))
        separator, names = csv_layout([file], text)
        lines = first_lines(file, text, N_LINES)
        columns = {name: [line[i].strip() for line in lines] for i, name in enumerate(names)}
        if not is_named and any(_is_record_like(name, [*filter(None, columns[name])]) for name in names):
            raise DataError(
                f"The first line of {file.name!r} looks like a record, not like column names. Write a header "
                "line above it, or state [source] columns = [...] in a schema. If these are the names, "
                "choose the columns to use by name (--columns)."
            )
        text = replace(text, separator=None if separator in ",\t" else separator)
    columns = {name: [each for each in fields if each not in USUAL_MARKS] for name, fields in columns.items()}
    guessing = _Guessing(file, replace(text, missing=USUAL_MARKS), separator, columns)
    guessing.decide_signs()
    guessing.decide_dates()
    return guessing.draft()


def _json_head(file: Path) -> dict[str, list[str]]:
    columns: dict[str, list[str]] = {}
    for name, value in (field for record in json_head(file) for field in record.items()):
        texts = columns.setdefault(name, [])
        texts += [] if value is None else [value if isinstance(value, str) else json.dumps(value)]
    return columns


def _is_record_like(name: str, below: Sequence[str]) -> bool:
    """Whether a column's name looks like the values below it, or is one of them. Years may be names."""
    if _VALUE.fullmatch(name) and not _YEAR.fullmatch(name):
        return sum(_VALUE.fullmatch(each) is not None for each in below) > len(below) / 2
    return below.count(name) >= max(2, len(below) // 20)


class _Guessing:
    """Successive guesses about one file."""

    def __init__(
        self, file: Path, text: TextFormat, separator: str, columns: Mapping[str, Sequence[str]]
    ) -> None:
        self.file, self.text, self.separator, self.columns = file, text, separator, columns
        self.questions: dict[str, str] = {}
        self.notes: dict[str, str] = {}
        self.dates_of: dict[str, str] = {}

    def decide_signs(self) -> None:
        """Signs around and inside numbers, judged by columns that are numeric without them."""
        signs: dict[str, None] = {}
        columns: list[Sequence[str]] = []
        in_parentheses = False
        for name, fields in self.columns.items():
            units = [unit[1] for each in fields if (unit := _WITH_UNIT.fullmatch(each))]
            own = {sign for sign in _MONEY if any(sign in each for each in fields)}
            if fields and len(units) == len(fields):
                if len(set(units)) == 1:
                    own |= {units[0]}
                else:
                    self.notes[name] = "numbers in several units: convert them to one, or keep a category"
            bare = [_bare(each, own) for each in fields]
            if fields and all(
                re.fullmatch(r"[(]?[+-]?[0-9][0-9.,' \u00a0\u202f’]*[)]?|", each) for each in bare
            ):
                signs |= dict.fromkeys(sorted(own))
                columns.append(fields)
                in_parentheses |= any(each.startswith("(") for each in bare)
        negative = "parentheses" if in_parentheses else self.text.negative
        self.text = replace(self.text, strip=tuple(signs), negative=negative)
        self._decide_points(columns)

    def _decide_points(self, columns: Sequence[Sequence[str]]) -> None:
        """The decimal sign and the thousands separator: those with which most columns are numbers."""
        fitting = {
            form: tuple(i for i, own in enumerate(columns) if all(_is_number(each, form) for each in own))
            for decimal, thousands in _POINTS
            for form in [replace(self.text, decimal=decimal, thousands=thousands)]
        }
        most = max(map(len, fitting.values()))
        best = [form for form, own in fitting.items() if len(own) == most]
        if len({fitting[form] for form in best}) > 1:
            # Columns differ; those that do not suit the file's separator become categories.
            usual = "." if self.separator == "," else ","
            best = [form for form in best if form.decimal == usual] or best
        readings = {
            tuple(_plain_number(each, form) for i in fitting[form] for each in columns[i]) for form in best
        }
        sign = best[0].thousands or best[0].decimal
        other = "," if sign == "." else "."
        # Files separated by commas hardly use decimal commas.
        if len(readings) == 1 or (self.separator, sign) == (",", "."):
            self.text = best[0]
        else:
            self.questions["decimal"] = (
                f"is 9{sign}999 nearly ten ({sign!r}) or nearly ten thousand ({other!r}, with "
                f"thousands = {sign!r})? Then declare columns of such numbers as integer or real."
            )

    def decide_dates(self) -> None:
        """Formats of dates other than ISO; a question if several fit the whole file."""
        chosen: dict[str, None] = {}
        for name, fields in self.columns.items():
            dates = [each for each in fields if not is_iso(each)]
            fitting = [each for each in _DATE_FORMATS if dates and _are_dates(dates, each)]
            if len(fitting) > 1:
                fitting = self._fitting_whole_file(name, fitting) or fitting
            if len(fitting) > 1:
                listed = " or ".join(json.dumps(each) for each in fitting)
                self.questions["dates"] = f"all dates of {name} fit {listed}: which comes first?"
            if fitting:
                self.dates_of[name] = fitting[0]
                if "%y" in fitting[0]:
                    self.notes[name] = "two-digit years are read as 1969 to 2068"
                chosen |= dict.fromkeys(fitting[:1])
        self.text = replace(self.text, dates=() if "dates" in self.questions else tuple(chosen)[:20])

    def _fitting_whole_file(self, name: str, formats: Sequence[str]) -> list[str]:
        """The formats that fit (nearly) all dates of the file; only the curator sees the result."""
        with open_source(str(self.file), [name], text=self.text) as opened:
            column = f"stripped({name_sql(name)})"
            marks = ", ".join(map(text_sql, USUAL_MARKS))
            is_filled = f"{column} NOT IN ({marks}) AND NOT regexp_full_match({column}, '{_ISO.pattern}')"
            failures = "".join(
                f", count_if({is_filled} AND moment_by({column}, [{text_sql(each)}]) IS NULL) AS f{i}"
                for i, each in enumerate(formats)
            )
            (row,) = opened.rows(f"SELECT count_if({is_filled}) AS n{failures} FROM source")
        return [each for i, each in enumerate(formats) if int(row[f"f{i}"] or 0) <= 0.01 * int(row["n"] or 0)]

    def draft(self) -> Draft:
        kinds = {name: self._kind(name, fields) for name, fields in self.columns.items()}
        heads = {
            name: [_plain_number(each, self.text) for each in fields] if kinds[name] in _NUMERIC else fields
            for name, fields in self.columns.items()
        }
        epochs = {  # whole numbers whose name and size suggest timestamps
            name: unit
            for name, kind in kinds.items()
            for unit, (low, high) in _EPOCHS.items()
            if kind == "integer" and _EPOCH_NAMES.search(name)
            if all(low <= int(each) <= high for each in heads[name])
        }
        if epochs and "datetime" not in kinds.values() and len(set(epochs.values())) == 1:
            self.text = replace(self.text, epoch=next(iter(epochs.values())))
            kinds |= dict.fromkeys(epochs, "datetime")
        else:
            note = "looks like seconds or milliseconds since 1970: set [source] epoch, or convert them"
            self.notes |= dict.fromkeys(epochs, note)
        remark = (
            f"Types, signs and dates were guessed from the first {N_LINES} lines of {self.file.name}. "
            "They show the format only, not the values. Correct any mistakes."
        )
        columns = []
        for name, kind in kinds.items():
            is_unique = _are_unique(self.columns[name], kind)
            suggested = suggested_fields(name, kind, heads[name]) or {}
            columns.append(DraftColumn(name, kind, suggested, self.notes.get(name, ""), is_unique))
        return Draft(tuple(columns), self.text, (remark,), questions=self.questions)

    def _kind(self, name: str, fields: Sequence[str]) -> str:
        """The type of attribute whose format fits all fields; otherwise a category."""
        if not fields:
            return "category"
        if name in self.dates_of or all(map(is_iso, fields)):
            return "datetime"
        if any(re.fullmatch(r"0[0-9]+", each) for each in fields):
            self.notes[name] = "codes with leading zeros"
            return "category"
        plain = [_plain_number(each, self.text) for each in fields]
        if all(_WHOLE.fullmatch(each) for each in plain):
            return "integer"
        if all(_REAL.fullmatch(each) for each in plain):
            return "real"
        if all(re.fullmatch(r"[0-9]{1,3}:[0-5][0-9](:[0-5][0-9])?", each) for each in fields):
            self.notes[name] = "times or durations: convert them to minutes to count them as numbers"
        if all(re.fullmatch(r"\{.*|\[(.*,.*)?\]", each) for each in fields):
            self.notes[name] = "nested: write its parts to columns of their own"
        odd = [each for each, number in zip(fields, plain, strict=True) if not _REAL.fullmatch(number)]
        if len(odd) < len(fields) / 2 and (shape := common_shape(odd)) is not None:
            self.notes[name] = (
                f"mostly numbers, but some look like {shape!r}: list those texts in [source] missing, or "
                "their signs in strip, or keep a category"
            )
        words = {each.lower() for each in fields}
        return "boolean" if words <= _TRUTHS and len(words) > 1 else "category"


def is_iso(text: str) -> bool:
    """Whether a text is a date or a time in the format of ISO 8601."""
    return _ISO.fullmatch(text) is not None


def _bare(text: str, signs: set[str]) -> str:
    for sign in signs:
        text = text.replace(sign, "")
    return text.strip()


def _is_number(text: str, form: TextFormat) -> bool:
    """Whether a text is a number in this format. Groups of thousands do not begin with 0."""
    is_grouped = form.thousands is not None and re.match(rf"\D*0+[{form.thousands}]", text)
    return not is_grouped and _REAL.fullmatch(_plain_number(text, form)) is not None


def _are_dates(texts: Sequence[str], date_format: str) -> bool:
    with contextlib.suppress(ValueError):
        digits = "(19|20)[0-9]{6}" if date_format == "%Y%m%d" else ".*"  # 123456 fits this format, too
        return all(re.match(digits, text) and datetime.strptime(text, date_format) for text in texts)
    return False


def _are_unique(fields: Sequence[str], kind: str) -> bool:
    """Whether first fields look like identifiers: all differ, and they are texts, long or in sequence."""
    if len(fields) < MIN_UNIQUE or len(set(fields)) < len(fields):
        return False
    if kind != "integer" or not all(_WHOLE.fullmatch(each) for each in fields):
        return kind == "category"
    in_sequence = all(int(later) - int(each) == 1 for each, later in itertools.pairwise(fields))
    return in_sequence or min(map(len, fields)) >= 7


def _plain_number(text: str, how: TextFormat) -> str:
    """A number as a build would spell it."""
    text = _bare(text, set(how.strip))
    if how.negative == "parentheses" and (match := re.fullmatch(r"\(([^()+-]+)\)", text)):
        text = f"-{match[1]}"
    if how.thousands is not None:
        sign = " \u00a0\u202f" if how.thousands == " " else how.thousands
        grouped = rf"[+-]?[0-9]{{1,3}}([{sign}][0-9]{{3}})+([{how.decimal}][0-9]*)?"
        text = re.sub(f"[{sign}]", "", text) if re.fullmatch(grouped, text) else text
    if how.decimal == ",":
        return "." + text + "." if "." in text else text.replace(",", ".")
    return text
