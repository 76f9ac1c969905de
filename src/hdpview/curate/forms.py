"""Forms of the page: the fields of an attribute as typed, and the schema file made from them.

column ─ suggestion, draft or schema file ─▶ form ─ typed in the browser ─▶ fields ─▶ text of a schema file
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from hdpview.domain.drafting import inline_fields
from hdpview.domain.language import PRESETS
from hdpview.domain.text_format import TextFormat
from hdpview.domain.toml import toml_key, toml_table, toml_value
from hdpview.errors import BudgetError, SchemaError
from hdpview.privacy.budget import exact_delta, exact_epsilon

KINDS = ("integer", "real", "category", "boolean", "datetime")
_SHORT_LINE = 50  # characters
_NO_BOUNDS = ("age", "percent")  # presets that need no bounds
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2})?)?")
_WIDTH = re.compile(r"[0-9]+(min|h|d|w|mo|q|y)")
_HEADER = "# Public statements about a table, written with `hdpview curate`.\n# Reference: docs/schema.md."
Text = Annotated[str, Field(max_length=200)]
MaxRows = Annotated[int, Field(ge=1, le=10_000)]
Names = Annotated[list[str], Field(max_length=5_000)]


class Form(BaseModel):
    """Data sent by the page. Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class BudgetForm(Form):
    """A budget as typed, and whom it protects: persons identified by the column privacy_unit, with at most
    max_rows rows each; without that column, single rows.
    """

    epsilon: Text
    delta: Text = ""
    privacy_unit: Text | None = None
    max_rows: MaxRows = 1

    def who(self) -> dict[str, Any]:
        """Options of a command that state whom the budget protects."""
        return {"privacy_unit": self.privacy_unit, "max_rows": self.max_rows if self.max_rows > 1 else ""}

    def exact(self) -> tuple[Fraction, Fraction]:
        """Epsilon and delta as fractions; delta is 0 where none is typed. Raises a BudgetError."""
        if not self.epsilon.strip():
            raise BudgetError("Enter the epsilon to spend, such as 1.")
        return exact_epsilon(self.epsilon), exact_delta(self.delta.strip() or 0)


class ColumnForm(Form):
    """One column as the page shows it. Texts are as typed; empty ones are open.

    use: whether it becomes an attribute. binning: "" (each number a bin), every, bins, edges or a preset;
    size: its number or numbers. missing: "own" (counted by themselves), "as" (counted as missing_as) or
    "unstated".
    rest: keys of a schema file that the form does not show.
    """

    name: Annotated[str, Field(max_length=1_000)]
    use: bool = True
    kind: Text = "category"
    min: Text = ""
    max: Text = ""
    binning: Text = ""
    size: Annotated[str, Field(max_length=20_000)] = ""
    values: Annotated[str, Field(max_length=2_000_000)] = ""
    ordered: bool = False
    other: Text = ""
    missing: Text = "own"
    missing_as: Text = ""
    label: Text = ""
    unit: Text = ""
    rest: dict[str, Any] = {}


class SourceForm(Form):
    """The text format as typed. Lists are separated by blanks or lines."""

    separator: Text = ""
    encoding: Text = ""
    decimal: Text = ""
    thousands: Text = ""
    strip: Text | list[Text] = ""
    negative: Text = ""
    epoch: Text = ""
    trim: bool = False
    quote: Text | None = None
    dates: Annotated[str, Field(max_length=2_000)] = ""
    missing: Annotated[list[Text], Field(max_length=200)] = []
    columns: Annotated[list[str], Field(max_length=2_000)] = []


class Document(Form):
    """The schema as the page has it. learnt: the cost of learning, by the keys of a schema file."""

    columns: Annotated[list[ColumnForm], Field(max_length=5_000)]
    source: SourceForm = SourceForm()
    lists: dict[str, Any] = {}
    learnt: dict[str, Any] = {}


class Saved(Form):
    """The saved state of the page: the document, the answers of the other steps, and a version number."""

    document: Document
    settings: dict[str, Any] = {}
    version: int = 0


class Described(Form):
    """A schema as the page has it."""

    document: Document


class Learning(Saved, BudgetForm):
    """Columns to learn about, and the budget for it."""

    columns: Names


class Forecast(Described, BudgetForm):
    """A budget to evaluate."""

    rows: Annotated[int, Field(ge=1, le=10**12)]


class Building(Described, BudgetForm):
    """A view to build. output: name of the file in the curation's folder. focus: groups of attributes.
    confirmed: even if much of a column would be lost.
    """

    output: Text
    no_person: list[Text] = []
    focus: Annotated[list[Names], Field(max_length=100)] = []
    confirmed: bool = False

    @property
    def groups(self) -> list[tuple[str, ...]]:
        return [tuple(group) for group in self.focus if group]


def command_line(*words: str, **options: Any) -> str:
    """A command of hdpview as text. Empty options are left out; lists repeat their option."""
    command = ["hdpview", *words]
    for name, value in options.items():
        for each in value if isinstance(value, list) else [value]:
            dashes = "-" if len(name) == 1 else "--"
            command += [dashes + name.replace("_", "-"), str(each)] if each else []
    return shlex.join(command)


def form_of(name: str, fields: Mapping[str, Any], nullable: bool = True) -> ColumnForm:
    """The form of an attribute that a schema file, a suggestion or a draft describes.

    nullable: the default if the fields do not state how missing values are counted.
    """
    rest = {key: value for key, value in fields.items() if value is not None and value != [None]}
    form = ColumnForm(name=name, kind=str(rest.pop("type", "category")))
    for key in ("min", "max", "label", "unit", "other"):
        setattr(form, key, _typed(rest.pop(key, "")))
    every, bins, edges = rest.pop("every", None), rest.pop("bins", None), rest.pop("edges", None)
    if bins in PRESETS:
        form.binning = str(bins)
    elif edges is not None:
        form.binning, form.size = "edges", ", ".join(map(_typed, edges))
    elif every is not None:
        form.binning, form.size = "every", _typed(every)
    elif bins is not None:
        form.binning, form.size = "bins", _typed(bins)
    values = rest.pop("values", [])
    form.values = values if isinstance(values, str) else _listed(list(map(_typed, values)))
    form.ordered = bool(rest.pop("ordered", False))
    is_own = bool(rest.pop("nullable", nullable and "missing" not in fields))
    form.missing = "own" if is_own else "as" if "missing" in rest else "unstated"
    form.missing_as = _typed(rest.pop("missing", ""))
    form.rest = rest
    return form


def _listed(values: list[str]) -> str:
    """Values with commas between them where that is one short line, else one per line."""
    line = ", ".join(values)
    is_short = len(line) <= _SHORT_LINE and len(values) > 1 and not any("," in value for value in values)
    return line if is_short else "\n".join(values)


def _typed(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def fields_of(form: ColumnForm) -> dict[str, Any]:
    """The fields of an attribute in a schema file; None where the form is open. Raises a SchemaError."""
    if form.kind not in KINDS:
        raise SchemaError(f"Attribute {form.name!r}: choose one of the types {', '.join(KINDS)}.")
    fields: dict[str, Any] = {"type": form.kind}
    read = {"integer": _number, "real": _number, "datetime": _moment}.get(form.kind, _text)
    if form.kind in ("integer", "real"):
        fields |= _number_fields(form)
    elif form.kind == "category":
        fields["values"] = _values(form.values.strip())
        fields |= {"ordered": True} if form.ordered else {}
        fields |= {"other": other} if (other := form.other.strip()) else {}
    elif form.kind == "datetime":
        every = _text(form, "size")
        if every is not None and not _WIDTH.fullmatch(every):
            wrong = f"the width of bins can be 1d, 1w, 1mo, 1q or 1y, not {every!r}"
            raise SchemaError(f"Attribute {form.name!r}: {wrong}.")
        fields |= {"min": _moment(form, "min"), "max": _moment(form, "max"), "every": every}
    if form.missing == "as":
        fields["missing"] = read(form, "missing_as")
    elif form.missing == "unstated":
        fields["nullable"] = False
    fields |= {key: text for key in ("label", "unit") if (text := getattr(form, key).strip())}
    return {**fields, **_kept(form, fields.get("values"))}


def _kept(form: ColumnForm, values: Any) -> dict[str, Any]:
    """Fields of the schema file that the form does not show, if they still fit the type and the values."""
    aliases = form.rest.get("aliases")
    if form.kind == "category" and not (isinstance(aliases, Mapping) and isinstance(values, list)):
        return form.rest
    rest = {key: value for key, value in form.rest.items() if key != "aliases"}
    if form.kind != "category":
        return {key: value for key, value in rest.items() if key != "groups"}
    spellings = {
        value: [text for text in texts if text not in values]
        for value, texts in (aliases or {}).items()
        if value in values
    }
    kept = {value: texts for value, texts in spellings.items() if texts}
    return {**rest, "aliases": kept} if kept else rest


def _number_fields(form: ColumnForm) -> dict[str, Any]:
    if form.binning == "edges":
        parts = [part for part in re.split(r"[,;\s]+", form.size) if part]
        return {"edges": [_plain_number(form, part, "edges") for part in parts] or None}
    fields: dict[str, Any] = {}
    if form.binning not in _NO_BOUNDS or form.min.strip() or form.max.strip():
        fields = {"min": _number(form, "min"), "max": _number(form, "max")}
    if form.binning in PRESETS:
        fields["bins"] = form.binning
    elif form.binning in ("every", "bins"):
        fields[form.binning] = _number(form, "size")
    elif form.kind == "real":
        fields["bins"] = 100
    return fields


def _values(text: str) -> Any:
    """A reference, or the distinct values of a list; [None] if it is empty."""
    if text.startswith("@"):
        return text
    parts = text.splitlines() if "\n" in text else text.split(",")
    return list(dict.fromkeys(part.strip() for part in parts if part.strip())) or [None]


def _number(form: ColumnForm, key: str) -> int | float | None:
    text = _text(form, key)
    return None if text is None else _plain_number(form, text, key)


def _plain_number(form: ColumnForm, text: str, key: str) -> int | float:
    try:
        number = float(text.replace("_", ""))
    except ValueError:
        what = {"size": "the width or number of bins", "missing_as": "the value for missing ones"}
        wrong = f"{what.get(key, key)} must be a number with a decimal point, not {text[:40]!r}"
        raise SchemaError(f"Attribute {form.name!r}: {wrong}.") from None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _moment(form: ColumnForm, key: str) -> str | None:
    text = _text(form, key)
    if text is not None and not _MOMENT.fullmatch(text):
        wrong = f"write {key} as a date such as 2020-01-31, not {text[:40]!r}"
        raise SchemaError(f"Attribute {form.name!r}: {wrong}.")
    return text


def _text(form: ColumnForm, key: str) -> str | None:
    return getattr(form, key).strip() or None


def source_form(text: TextFormat) -> SourceForm:
    """The text format as the page shows it."""
    described = text.to_dict()
    lists = {"dates": "\n".join(described.pop("dates", ())), "missing": list(described.pop("missing", ()))}
    return SourceForm(**{**{key: value for key, value in described.items() if value is not None}, **lists})


def source_of(form: SourceForm) -> dict[str, Any]:
    """The fields of [source]. A tab may be typed with a backslash."""
    source = form.model_dump(exclude_defaults=True)
    source["separator"] = form.separator.replace("\\t", "\t")
    source["encoding"] = form.encoding.strip()
    source["dates"] = [line.strip() for line in form.dates.splitlines() if line.strip()]
    return {key: value for key, value in source.items() if value or key == "quote"}


def schema_text(document: Document, fields: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """The text of a schema file: one line per attribute, a ? where something is open."""
    parts = [_HEADER]
    parts += [f"{key} = {toml_value(value)}" for key, value in document.learnt.items()]
    parts.append("")
    if source := source_of(document.source):
        parts.append(toml_table("source", source))
    parts += ["[defaults]", "nullable = true   # missing values are counted by themselves", ""]
    if document.lists:
        parts.append(toml_table("lists", document.lists))
    left_out = [toml_key(form.name) for form in document.columns if not form.use]
    parts += [f"# Left out: {', '.join(left_out)}"] if left_out else []
    lines = [f"{toml_key(name)} = {inline_fields(each)}" for name, each in fields]
    return "\n".join([*parts, "[attributes]", *lines]) + "\n"
