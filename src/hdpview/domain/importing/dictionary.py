"""Data dictionaries in CSV: REDCap's, and plain ones with a line per column."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from typing import Any

from hdpview.domain.drafting import Draft, DraftColumn
from hdpview.domain.importing.columns import column_of
from hdpview.domain.importing.sql import kind_of_type
from hdpview.domain.text_format import TextFormat, separator_of
from hdpview.errors import SchemaError

_REDCAP = "Variable / Field Name"
_REDCAP_SHORT = {  # names of columns in exports through the API → in manual exports
    "field_name": _REDCAP, "field_type": "Field Type", "field_label": "Field Label",
    "identifier": "Identifier?",
    "select_choices_or_calculations": "Choices, Calculations, OR Slider Labels",
    "text_validation_type_or_show_slider_number": "Text Validation Type OR Show Slider Number",
    "text_validation_min": "Text Validation Min", "text_validation_max": "Text Validation Max",
}  # fmt: skip
_NO_TABLE = ("descriptive", "file", "notes", "sql", "signature")
_NAMES = ("name", "column", "variable", "field", "column_name", "variable_name", "field_name")
_LABELS = ("label", "title", "description")


def from_text(content: str) -> Draft:
    header = content.splitlines()[0] if content else ""
    rows = list(csv.DictReader(io.StringIO(content), delimiter=separator_of(header), restval=""))
    rows = [
        {_REDCAP_SHORT.get(str(key), str(key)): value or "" for key, value in row.items()} for row in rows
    ]
    if rows and _REDCAP in rows[0]:
        # Raw exports of REDCap have ISO dates, whatever the form shows.
        return Draft(tuple(each for row in rows for each in _redcap(row)), TextFormat(missing=("",)))
    named = {key.strip().lower(): key for key in rows[0]} if rows else {}
    column = next((named[name] for name in _NAMES if name in named), None)
    if column is None or "type" not in named:
        plain = "`name` and `type`, and perhaps `min`, `max`, `values` (with | between them), `label`"
        raise SchemaError(f"A data dictionary has a header line with {_REDCAP!r}, or one with {plain}.")
    return Draft(tuple(_plain(row, column, named) for row in rows if row[column].strip()))


def _plain(row: Mapping[str, str], column: str, named: Mapping[str, str]) -> DraftColumn:
    def cell(*names: str) -> str | None:
        texts = (row[named[name]].strip() for name in names if name in named)
        return next(filter(None, texts), None)

    stated = (cell("type") or "").lower()
    kinds = {own: own for own in ("integer", "real", "category", "boolean", "datetime")}
    kinds |= {"categorical": "category", "number": "real"}
    kind, label = kinds.get(stated) or kind_of_type(stated or "text"), cell(*_LABELS)
    low, high = cell("min", "minimum"), cell("max", "maximum")
    listed = cell("values", "categories", "levels", "codes", "allowed_values")
    values = [value.strip() for value in listed.split("|")] if listed else None
    return column_of(row[column].strip(), kind, low, high, values, label=label, dtype=stated)


def _redcap(row: Mapping[str, str]) -> Iterator[DraftColumn]:
    """The columns of a field in an export: one, or one per checkbox."""
    name, form = row[_REDCAP].strip(), row.get("Field Type", "").strip()
    label = _plain_words(row.get("Field Label", ""))
    choices = _choices(row.get("Choices, Calculations, OR Slider Labels", ""))
    if row.get("Identifier?", "").strip().lower() == "y":
        yield column_of(name, None, note="it is marked as an identifier")
    elif form in _NO_TABLE:
        yield column_of(name, None, note=f"a field of type {form} has nothing to count")
    elif form == "checkbox":
        for code, text in choices.items():
            box = f"{name}___{code.lower().replace('-', '_')}"
            yield column_of(box, "boolean", label=f"{label}: {text}" if label else text)
    elif form in ("yesno", "truefalse"):
        yield column_of(name, "boolean", label=label)
    elif form in ("dropdown", "radio"):
        # Exports contain codes or their texts. Both are read; the texts are displayed.
        texts = list(choices.values())
        if len(set(texts)) < len(texts) or "" in texts:
            yield column_of(name, "category", values=list(choices), label=label)
        else:
            aliases = {text: [code] for code, text in choices.items() if code != text and code not in texts}
            yield column_of(name, "category", values=texts, aliases=aliases, label=label)
    else:
        yield _redcap_text(name, form, label, row)


def _redcap_text(name: str, form: str, label: str, row: Mapping[str, str]) -> DraftColumn:
    check = row.get("Text Validation Type OR Show Slider Number", "").strip().lower()
    low: Any = row.get("Text Validation Min", "").strip() or None
    high: Any = row.get("Text Validation Max", "").strip() or None
    if form == "slider":
        return column_of(name, "integer", low or 0, high or 100, label=label)
    is_real = check.startswith("number") or form == "calc"
    kind = "real" if is_real else "datetime" if check.startswith("date") else "category"
    return column_of(name, "integer" if check == "integer" else kind, low, high, label=label)


def _choices(text: str) -> dict[str, str]:
    """`1, Female | 2, Male` as codes and texts."""
    pairs = (choice.partition(",") for choice in text.split("|") if choice.strip())
    return {code.strip(): _plain_words(label) for code, _, label in pairs}


def _plain_words(text: str) -> str:
    """A label without HTML tags, which forms may have."""
    return " ".join(re.sub(r"<[^<>]*>", " ", text).split())
