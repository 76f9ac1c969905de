"""How a text file is written, guessed from its first lines: types and signs, never values or bounds.

If two interpretations fit, the guess asks instead of choosing: 5.500 may be five or five thousand, and
01/02/2024 may be in January or February.
"""

from __future__ import annotations

import codecs
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from hdpview.counts.encode import name_sql, text_sql
from hdpview.counts.files import csv_layout, first_lines, kind_of_file, open_text
from hdpview.counts.sources import open_source
from hdpview.counts.structure import check_first_line
from hdpview.domain.text_format import PLAIN, TextFormat
from hdpview.errors import DataError

N_LINES = 100
# The same list for every file, so that it reveals nothing about any file.
USUAL_MARKS = ("", "?", "NA", "N/A", "n/a", "NULL", "null", "None", "NaN", "nan", "-", ".")
# Fewest non-empty fields of a column that is called unique.
MIN_UNIQUE = 30
_BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_ENCODINGS = ("utf-8", "cp1252", "latin-1")
_ISO = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}.*)?")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_REAL = re.compile(r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,3})?")
_TRUTHS = {"true", "false", "t", "f", "yes", "no", "y", "n"}
_MONEY = "$€£¥₹%"
_WITH_UNIT = re.compile(r"[+-]?[0-9][0-9.,]* ?([a-zA-Zµ°]{1,12})")
_BLANKS = re.compile("[ \u00a0\u202f]")
_EPOCH_NAMES = re.compile(r"(time|date|epoch|stamp|_at|_ts|\bts|created|modified)", re.IGNORECASE)
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
_DAYS = (
    *(f"{a}{sign}{b}{sign}{year}" for year in ("%Y", "%y") for sign in "/-"
      for a, b in (("%d", "%m"), ("%m", "%d"))),
    "%d.%m.%Y", "%d.%m.%y", "%Y/%m/%d", "%Y.%m.%d", "%y-%m-%d", "%y/%m/%d",
    "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%b %d, %Y", "%d%b%Y",
)  # fmt: skip
_EPOCHS = {"s": (10, 946_684_800, 4_102_444_800), "ms": (13, 946_684_800_000, 4_102_444_800_000)}


@dataclass(frozen=True)
class Guess:
    """The format of a file, guessed from its first lines.

    kinds: per column, the type of attribute. text: the file's format; remark: a comment about it.
    questions: per undecided key of [source], a question to the curator. notes: per column, a remark.
    identifiers: columns whose values all differ. head: per column, its first non-empty fields, numbers
        in plain spelling; only the curator sees it.
    """

    kinds: dict[str, str]
    text: TextFormat
    remark: str
    questions: dict[str, str] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    identifiers: frozenset[str] = frozenset()
    head: dict[str, list[str]] = field(default_factory=dict)


def guess_format(file: Path, *, is_named: bool = False) -> Guess:
    """Types of columns and signs of a CSV or JSON-lines file, from the format of its first lines.

    is_named: whether the curator has named columns, so that the first line is certainly a header.
    """
    if kind_of_file(file) == "json":
        text, separator, columns = PLAIN, "", _json_head(file)
    else:
        text = _with_encoding(file)
        if not is_named:
            check_first_line(file, text)
        separator, names = csv_layout([file], text)
        lines = first_lines(file, text, N_LINES)
        columns = {name: [line[i].strip() for line in lines] for i, name in enumerate(names)}
        text = replace(text, separator=None if separator in ",\t" else separator)
    columns = {name: [each for each in fields if each not in USUAL_MARKS] for name, fields in columns.items()}
    guessed = _Guessing(file, replace(text, missing=USUAL_MARKS), separator, columns)
    guessed.decide_signs()
    guessed.decide_dates()
    return guessed.result()


def _json_head(file: Path) -> dict[str, list[str]]:
    with open_text(file, PLAIN) as lines:
        records = [json.loads(line) for line in itertools.islice(lines, N_LINES) if line.strip()]
    names = dict.fromkeys(name for record in records for name in record)
    return {
        name: [
            value if isinstance(value, str) else json.dumps(value)
            for record in records
            if (value := record.get(name)) is not None
        ]
        for name in names
    }


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
        numbers: list[str] = []
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
                numbers += [each for each in bare if each]
        in_parentheses = any(each.startswith("(") for each in numbers)
        self.text = replace(
            self.text, strip=tuple(signs), negative="parentheses" if in_parentheses else self.text.negative
        )
        self._decide_points([each.strip("()+-") for each in numbers])

    def _decide_points(self, numbers: Sequence[str]) -> None:
        """The decimal sign and the thousands separator."""
        spaced = next((sign for sign in "'’" if any(sign in each for each in numbers)), None)
        if any(_BLANKS.search(each) for each in numbers):
            spaced = " "
        plain = [_BLANKS.sub("", re.sub("['’]", "", each)) for each in numbers]
        decimal = {sign for each in plain if (sign := _decimal_sign(each))}
        grouped = {sign for each in plain if (sign := _thousands_sign(each))}
        doubtful = {
            each.strip("0123456789") for each in plain if re.fullmatch(r"[1-9][0-9]{0,2}[.,][0-9]{3}", each)
        }
        if decimal:
            # If columns differ, those that do not suit the file's separator become categories.
            sign = decimal.pop() if len(decimal) == 1 else "." if self.separator == "," else ","
            other = "," if sign == "." else "."
            self.text = replace(
                self.text, decimal=sign, thousands=spaced or (other if other in grouped | doubtful else None)
            )
            return
        doubtful -= grouped
        if self.separator == ",":
            doubtful.discard(".")  # files separated by commas hardly use decimal commas
        self.text = replace(self.text, thousands=spaced or next(iter(grouped), None))
        if doubtful:
            sign = doubtful.pop()
            other = "," if sign == "." else "."
            self.questions["decimal"] = (
                f"is 9{sign}999 nearly ten ({sign!r}) or nearly ten thousand ({other!r}, with "
                f"thousands = {sign!r})?"
            )

    def decide_dates(self) -> None:
        """Formats of dates; a question if several fit the whole file."""
        chosen: dict[str, None] = {}
        for name, fields in self.columns.items():
            if not fields or all(_ISO.fullmatch(each) for each in fields):
                continue
            fitting = [each for each in _date_formats() if all(_is_date(value, each) for value in fields)]
            if len(fitting) > 1:
                fitting = self._fitting_whole_file(name, fitting) or fitting
            if len(fitting) > 1:
                listed = " or ".join(json.dumps(each) for each in fitting)
                self.questions["dates"] = f"all dates of {name} fit {listed}: which comes first?"
            if fitting:
                self.dates_of[name] = fitting[0]
                chosen |= dict.fromkeys(fitting[:1])
        self.text = replace(self.text, dates=() if "dates" in self.questions else tuple(chosen)[:20])

    def _fitting_whole_file(self, name: str, formats: Sequence[str]) -> list[str]:
        """The formats that fit (nearly) all dates of the file; only the curator sees the result."""
        with open_source(str(self.file), [name], text=self.text) as opened:
            column = f"stripped({name_sql(name)})"
            is_filled = f"{column} NOT IN ({', '.join(map(text_sql, USUAL_MARKS))})"
            failures = "".join(
                f", count_if({is_filled} AND try_strptime({column}, {text_sql(each)}) IS NULL) AS f{i}"
                for i, each in enumerate(formats)
            )
            (row,) = opened.rows(f"SELECT count_if({is_filled}) AS n{failures} FROM source")
        return [each for i, each in enumerate(formats) if int(row[f"f{i}"] or 0) <= 0.01 * int(row["n"] or 0)]

    def result(self) -> Guess:
        kinds = {name: self._kind(name, fields) for name, fields in self.columns.items()}
        epochs = dict(self._epochs(kinds))
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
        unique = frozenset(name for name, fields in self.columns.items() if _are_unique(fields, kinds[name]))
        head = {
            name: [_plain_number(each, self.text) for each in fields]
            if kinds[name] in ("integer", "real")
            else list(fields)
            for name, fields in self.columns.items()
        }
        return Guess(kinds, self.text, remark, self.questions, self.notes, unique, head)

    def _epochs(self, kinds: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Columns of whole numbers whose name and size suggest timestamps."""
        for name, fields in self.columns.items():
            if kinds[name] != "integer" or not _EPOCH_NAMES.search(name):
                continue
            for unit, (digits, low, high) in _EPOCHS.items():
                if all(len(each) == digits and low <= int(each) <= high for each in fields):
                    yield name, unit

    def _kind(self, name: str, fields: Sequence[str]) -> str:
        """The type of attribute whose format fits all fields; otherwise a category."""
        if not fields:
            return "category"
        if name in self.dates_of or all(_ISO.fullmatch(each) for each in fields):
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
        words = {each.lower() for each in fields}
        return "boolean" if words <= _TRUTHS and len(words) > 1 else "category"


def _bare(text: str, signs: set[str]) -> str:
    for sign in signs:
        text = text.replace(sign, "")
    return text.strip()


def _decimal_sign(number: str) -> str | None:
    """The certain decimal sign: the last one of two kinds, or one not followed by three digits."""
    match = re.fullmatch(r"([0-9.,]*)([.,])([0-9]*)", number)
    if match is None:
        return None
    before, sign, digits = match.groups()
    if sign in before:
        return None
    is_mixed = "." in before or "," in before
    return sign if is_mixed or len(digits) != 3 or not re.fullmatch(r"[1-9][0-9]{0,2}", before) else None


def _thousands_sign(number: str) -> str | None:
    """The certain thousands separator: it appears twice, or before the decimal sign."""
    match = re.fullmatch(r"[1-9][0-9]{0,2}(([.,])[0-9]{3})(\2[0-9]{3})*([.,][0-9]*)?", number)
    if match is None:
        return None
    is_sure = number.count(match[2]) > 1 or (match[4] is not None and match[4][0] != match[2])
    return match[2] if is_sure else None


def _date_formats() -> Iterator[str]:
    return (day + time for day in _DAYS for time in _TIMES)


def _is_date(text: str, date_format: str) -> bool:
    try:
        datetime.strptime(text, date_format)
    except ValueError:
        return False
    return True


def _are_unique(fields: Sequence[str], kind: str) -> bool:
    """Whether first fields look like identifiers: all differ, and they are texts, long or in sequence."""
    if len(fields) < MIN_UNIQUE or len(set(fields)) < len(fields):
        return False
    if kind == "category":
        return True
    if kind != "integer" or not all(_WHOLE.fullmatch(each) for each in fields):
        return False
    numbers = [int(each) for each in fields]
    in_sequence = all(later - earlier == 1 for earlier, later in itertools.pairwise(numbers))
    return in_sequence or min(map(len, fields)) >= 7


def _with_encoding(file: Path) -> TextFormat:
    """The encoding given by a byte order mark, or the first common one that decodes the lines."""
    with file.open("rb") as opened:
        start = opened.read(4)
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if start.startswith(mark):
            return replace(PLAIN, encoding=encoding)
    if len(start) == 4 and start.count(0) == 2:
        return replace(PLAIN, encoding="utf-16-le" if start[1] == 0 else "utf-16-be")
    for encoding in _ENCODINGS:
        text = replace(PLAIN, encoding=encoding)
        try:
            lines = first_lines(file, text, N_LINES)
        except DataError as problem:
            if "header line" not in str(problem) or encoding == _ENCODINGS[-1]:
                raise
            continue
        if not any("\ufffd" in each for line in lines for each in line):
            return text
    return PLAIN


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
