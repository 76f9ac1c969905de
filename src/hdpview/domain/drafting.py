"""Drafts of schema files: one line per column, with a ? for each fact that a person must supply."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hdpview.domain.text_format import TextFormat
from hdpview.domain.toml import toml_key, toml_table, toml_value
from hdpview.errors import DataError, unknown_name

OPEN = "?"  # a place that a person must fill in
_HEADER = """\
# Draft of a schema: public statements. Replace each ? by what is known without looking at the data, such as \
from a law,
# a form or a code book, and delete columns that nobody needs. Reference: docs/schema.md."""
_NEEDED: dict[str, dict[str, Any]] = {  # required keys of each type; None is open
    "integer": {"min": None, "max": None},
    "real": {"min": None, "max": None, "bins": 100},
    "datetime": {"min": None, "max": None, "every": "1mo"},
    "category": {"values": [None]},
    "boolean": {},
}
_IDENTIFIERS = re.compile(
    r"(^|_|\b)(id|uuid|guid|ssn|mrn|vin|iban|e-?mail|phone|passport|name|first[ _]?name|last[ _]?name|surname"
    r"|full[ _]?name|street|address)$|_(nbr|no|nr)$|^(id|vin)\b"
    r"|\b(vin|e-?mail|phone|passport) (number|address)\b"
    r"|(?-i:[a-z](Id|ID|Nbr|UUID)$)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class DraftColumn:
    """Facts about a column that need none of its values.

    kind: the type of its attribute; None if it cannot become one, for the reason in `note`.
    fields: known keys of the attribute, such as bounds from a CHECK.
    note: the comment behind the line. is_unique: whether all its first values differ, as in identifiers.
    """

    name: str
    kind: str | None
    fields: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    is_unique: bool = False

    @property
    def is_identifier(self) -> bool:
        """Whether its name or its values suggest an identifier, which is better left out."""
        return self.is_unique or is_identifier(self.name)


@dataclass(frozen=True)
class Draft:
    """Facts about a table that need none of its values.

    source: how texts are written, as far as known. remarks: sentences above the columns.
    learnt: the cost of learning, by the keys of a schema file.
    questions: for each key of [source] that a person has to decide, the question.
    """

    columns: tuple[DraftColumn, ...]
    source: TextFormat | None = None
    remarks: tuple[str, ...] = ()
    learnt: Mapping[str, str] = field(default_factory=dict)
    questions: Mapping[str, str] = field(default_factory=dict)

    def only(self, columns: Sequence[str], exclude: Sequence[str]) -> Draft:
        """The draft of chosen columns, see `chosen_columns`."""
        names = chosen_columns((each.name for each in self.columns), columns, exclude)
        return replace(self, columns=tuple(each for each in self.columns if each.name in names))

    def text(self) -> str:
        """A draft of a schema file."""
        spelled = {} if self.source is None else self.source.to_dict()
        parts = [_HEADER, *(f"# {remark}" for remark in self.remarks), ""]
        parts += [f"{key} = {toml_value(cost)}" for key, cost in self.learnt.items()]
        parts += [toml_table("source", spelled).rstrip("\n")] if spelled or self.questions else []
        parts += [
            f"{key} = {f'[{OPEN}]' if key == 'dates' else OPEN}  # {question}"
            for key, question in self.questions.items()
        ]
        parts += [""] if spelled or self.questions else []
        parts += ["[defaults]", "nullable = true   # missing values are counted by themselves", ""]
        return "\n".join([*parts, "[attributes]", *map(_line, self.columns)]) + "\n"


def chosen_columns(known: Iterable[str], columns: Sequence[str], exclude: Sequence[str]) -> list[str]:
    """The chosen names, in the order of `known`. columns: wanted names; all if empty."""
    names = list(known)
    for name in (*columns, *exclude):
        if name not in names:
            raise DataError(unknown_name("column", name, names, "The columns are"))
    return [name for name in names if (not columns or name in columns) and name not in exclude]


def is_identifier(name: str) -> bool:
    """Whether a column's name suggests an identifier."""
    return _IDENTIFIERS.search(name) is not None


def _line(column: DraftColumn) -> str:
    """The line of a column; a comment if the column is better left out."""
    key, note = toml_key(column.name), f"  # {column.note}" if column.note else ""
    if column.kind is None:
        return f"# {key} is left out: {column.note}."
    fields = {"type": column.kind, **_suggested(column)}
    line = f"{key} = {inline_fields(fields)}"
    if not column.fields and column.is_identifier:
        by_name = is_identifier(column.name)
        reason = "its name suggests an identifier" if by_name else "its first values all differ"
        return f"# {line}  # left out: {reason}. To protect persons: --privacy-unit {key}"
    return line + note


def _suggested(column: DraftColumn) -> dict[str, Any]:
    """Known fields, fields that the name suggests, and fields left open."""
    assert column.kind is not None
    known = {key: value for key, value in column.fields.items() if value is not None}
    if {"edges", "values"} & set(known) or known.get("bins") in ("age", "percent"):
        return known
    needed = {key: value for key, value in _NEEDED[column.kind].items() if key not in known}
    if column.kind == "real" and "every" in known:
        needed.pop("bins", None)
    # A category with open values needs `other`, for those that will not be listed.
    return {**needed, **known} | ({"other": "other"} if column.kind == "category" else {})


def inline_fields(fields: Mapping[str, Any]) -> str:
    """The fields of an attribute as an inline table of TOML, with a ? for each that is None."""
    is_moment = fields["type"] == "datetime"

    def shown(key: str, value: Any) -> str:
        if value is None:
            return OPEN
        if value == [None]:
            return f"[{OPEN}]"
        return str(value) if is_moment and key in ("min", "max", "missing") else toml_value(value)

    inner = ", ".join(f"{toml_key(key)} = {shown(key, value)}" for key, value in fields.items())
    return "{ " + inner + " }"


# Suggestions: the list is the same for every table. A person accepts or changes them, and the check before a
# build shows what they would lose.
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
