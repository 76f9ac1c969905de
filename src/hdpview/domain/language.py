"""Expand the shorthand of schema files: shared lists, lists in CSV files, presets of bins, defaults.

    file ─ tomllib ─▶ description ─ spelled_out ─▶ plain description ─ Schema.from_dict ─▶ Schema

Only files on the curator's disk are read this way. Other descriptions, such as those in views, must be plain,
so that they cannot name files.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from hdpview.domain.numbers import MAX_EXPLICIT_EDGES
from hdpview.domain.text_format import separator_of
from hdpview.errors import SchemaError, quoted, unknown_name

MAX_LIST_BYTES = 16_000_000
_FIXED_EDGES = {
    "age": (*range(0, 86, 5), 120),  # five-year groups up to 84, then 85 and older
    "percent": tuple(range(0, 101, 5)),
}
PRESETS = (*_FIXED_EDGES, "log")
DEFAULTS = ("nullable", "other")  # keys allowed in [defaults]
_SERIES = (1, 2, 5)  # multiplied by powers of ten: the edges of the preset "log"

Fields = dict[str, Any]


def spelled_out(description: Mapping[str, Any], folder: Path) -> Fields:
    """The description of a schema file without `lists`, `defaults`, `@` references and presets of bins.

    folder: of files named after an @.
    """
    plain = dict(description)
    lists = _checked_table(plain.pop("lists", {}), "lists", "named lists of values")
    defaults = _checked_table(plain.pop("defaults", {}), "defaults", "defaults of all attributes")
    for key in defaults:
        if key not in DEFAULTS:
            raise SchemaError(unknown_name("key", str(key), DEFAULTS, "[defaults] has"))
    if isinstance(plain.get("attributes"), Mapping):
        shared = _Lists(lists, folder)
        plain["attributes"] = {
            name: _attribute(name, entry, defaults, shared) if isinstance(entry, Mapping) else entry
            for name, entry in plain["attributes"].items()
        }
    return plain


def _checked_table(value: Any, key: str, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SchemaError(f"[{key}] must be a table: {what}.")
    return value


def _attribute(name: str, entry: Mapping[str, Any], defaults: Mapping[str, Any], shared: _Lists) -> Fields:
    fields = dict(entry)
    try:
        if "nullable" in defaults and "missing" not in fields:
            fields.setdefault("nullable", defaults["nullable"])
        if fields.get("type") == "category":
            if "other" in defaults:
                fields.setdefault("other", defaults["other"])
            return _category(fields, shared)
        if fields.get("type") in ("integer", "real"):
            return _number(fields, whole=fields["type"] == "integer")
    except SchemaError as problem:
        raise SchemaError(f"Attribute {name!r}: {problem}") from None
    return fields


def _category(fields: Fields, shared: _Lists) -> Fields:
    """A category with its `@` references replaced by lists."""
    values, columns = fields.get("values"), fields.get("groups")
    if isinstance(values, str):
        reference = shared.reference(values)
        fields["values"] = shared.values(reference)
        if isinstance(columns, list):
            fields["groups"] = shared.groupings(reference, columns)
        aliases = fields.get("aliases")
        if isinstance(aliases, str):
            fields["aliases"] = shared.aliases(reference, shared.reference(aliases))
    elif isinstance(columns, list) or isinstance(fields.get("aliases"), str):
        way_out = 'Write values = "@file.csv:column", or give groups and aliases as tables of lists.'
        raise SchemaError(
            f"groups and aliases may name columns only if `values` comes from a file. {way_out}"
        )
    return fields


class _Lists:
    """Shared lists of a schema file, and CSV files beside it."""

    def __init__(self, lists: Mapping[str, Any], folder: Path) -> None:
        self.lists, self.folder = lists, folder
        self._rows = cache(self._read)

    def reference(self, text: str) -> tuple[str, str | None]:
        """The list or file, and the column, that `@name` or `@file.csv:column` points to."""
        if not text.startswith("@") or len(text) < 2:
            example = '"@codes.csv" or "@a_shared_list"'
            raise SchemaError(f"values must be a list, or name one with an @: {example}, not {quoted(text)}.")
        name, _, column = text[1:].partition(":")
        listed = self.lists.get(name)
        if isinstance(listed, str) and listed.startswith("@") and not column:
            name, _, column = listed[1:].partition(":")
        return name, column or None

    def values(self, reference: tuple[str, str | None]) -> list[Any]:
        """A shared list unchanged, or the distinct texts of a column."""
        name, column = reference
        if name not in self.lists or column is not None:
            return list(dict.fromkeys(self._column(name, column)))
        if not isinstance(self.lists[name], list):
            raise SchemaError(f"[lists] {name} must be a list of values, not {quoted(self.lists[name])}.")
        return list(self.lists[name])

    def groupings(self, reference: tuple[str, str | None], columns: list[Any]) -> dict[str, list[str]]:
        """Per column, the group of each value; from its first line if a value is on several."""
        values, groupings = self._column(*reference), {}
        for column in map(str, columns):
            groups = self._column(reference[0], column)
            first = dict(zip(reversed(values), reversed(groups), strict=True))
            groupings[column] = [first[value] for value in dict.fromkeys(values)]
        return groupings

    def aliases(
        self, values: tuple[str, str | None], spelled: tuple[str, str | None]
    ) -> dict[str, list[str]]:
        """Per value, the texts on its lines in another column of the same file."""
        if spelled[0] != values[0]:
            raise SchemaError("aliases must be in the file of `values`: each line pairs a value with a text.")
        keys, aliases = self._column(*values), dict[str, list[str]]()
        declared = set(keys)
        for value, text in dict.fromkeys(zip(keys, self._column(*spelled), strict=True)):
            if text not in declared:
                aliases.setdefault(value, []).append(text)
        return aliases

    def _column(self, name: str, column: str | None) -> list[str]:
        """The texts of a column of a file; by default of the first."""
        known = list(self._rows(name)[0])
        if column is not None and column not in known:
            raise SchemaError(unknown_name("column", column, known, f"{name!r} has"))
        return [row[known[0] if column is None else column] for row in self._rows(name)]

    def _read(self, name: str) -> list[dict[str, str]]:
        if not name.lower().endswith((".csv", ".tsv", ".txt")):
            known = [*self.lists, "a file such as codes.csv"]
            raise SchemaError(unknown_name("list", name, known, "After @, give a [lists] name or a CSV file"))
        path = self.folder / name
        try:
            if path.stat().st_size > MAX_LIST_BYTES:
                limit = f"{MAX_LIST_BYTES // 1_000_000} MB"
                raise SchemaError(f"{name!r} is larger than {limit}; is it the right file?")
            text = path.read_text(encoding="utf-8-sig")
            header = text.partition("\n")[0]
            lines = io.StringIO(text, newline="")
            rows = list(csv.DictReader(lines, delimiter=separator_of(header), restval=""))
        except (OSError, UnicodeError, csv.Error) as problem:
            reason = getattr(problem, "strerror", None) or "it must be a CSV file in UTF-8"
            raise SchemaError(f"Cannot read {name!r} in the folder of the schema: {reason}.") from None
        if not rows:
            raise SchemaError(f"{name!r} has no lines below its header line.")
        return [{column: text.strip() for column, text in row.items() if column is not None} for row in rows]


def _number(fields: Fields, whole: bool) -> Fields:
    """Translate `bins`, `every` and presets into the keys of the type of attribute."""
    bins, every = fields.get("bins"), fields.get("every")
    if len({"bins", "every", "edges"} & set(fields)) > 1:
        raise SchemaError("bins, every and edges exclude each other. Keep one of them.")
    if isinstance(bins, str):
        if bins not in PRESETS:
            raise SchemaError(unknown_name("preset", bins, PRESETS, "bins must be a number or one of"))
        low, high = fields.pop("min", None), fields.pop("max", None)
        if whole and not all(bound is None or _is_whole(bound) for bound in (low, high)):
            raise SchemaError(f"min and max must be whole numbers, not {quoted(low)} and {quoted(high)}.")
        edges = _log_edges(low, high, whole) if bins == "log" else _clipped(_FIXED_EDGES[bins], low, high)
        del fields["bins"]
        return {**fields, "edges": [int(edge) if whole else float(edge) for edge in edges]}
    if whole and bins is not None:
        return _whole_bins(fields)
    if not whole and every is not None:
        return _real_steps(fields)
    return fields


def _whole_bins(fields: Fields) -> Fields:
    """Convert a number of bins to the smallest step that makes at most that many."""
    bins: Any = fields.pop("bins")
    low: Any = fields.get("min")
    high: Any = fields.get("max")
    if not _is_whole(bins) or bins < 1:
        known = ", ".join(PRESETS)
        raise SchemaError(f"bins must be a whole number from 1 or one of {known}, not {quoted(bins)}.")
    if _is_whole(low) and _is_whole(high) and low <= high:
        fields["every"] = -(-(high - low + 1) // bins)
    return fields


def _real_steps(fields: Fields) -> Fields:
    """Bins of a width as a number of equal bins, or as edges if the last one is narrower."""
    every: Any = fields.pop("every")
    low: Any = fields.get("min")
    high: Any = fields.get("max")
    if not (_is_number(every) and _is_number(low) and _is_number(high) and every > 0 and low < high):
        raise SchemaError("bins of equal width need numbers: min < max and every > 0.")
    # exact decimals: ten times 0.1 is 1
    step, first, last = (Fraction(repr(each)) for each in (every, low, high))
    n_bins = (last - first) / step
    if n_bins.denominator == 1:
        return {**fields, "bins": int(n_bins)}
    if n_bins >= MAX_EXPLICIT_EDGES - 1:
        many = f"{float(n_bins):,.0f} bins, the last one narrower"
        raise SchemaError(f"every = {every} makes {many}. Use `bins`.")
    edges = [float(first + k * step) for k in range(math.ceil(n_bins))]
    del fields["min"], fields["max"]
    return {**fields, "edges": [*edges, float(last)]}


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _log_edges(low: Any, high: Any, whole: bool) -> list[float]:
    """1, 2 and 5 times powers of ten, on both sides of 0 if the bounds are."""
    if not _is_number(low) or not _is_number(high) or not low < high:
        raise SchemaError('bins = "log" needs min and max, with min < max.')
    last = math.floor(math.log10(max(abs(low), abs(high))))
    first = 0 if whole else math.floor(math.log10(low)) if low > 0 else last - 4
    powers = range(first, last + 1)
    steps: list[Any] = [factor * Fraction(10) ** power for power in powers for factor in _SERIES]
    inner = sorted({0, *steps, *(-step for step in steps)})
    return [low, *(edge for edge in inner if low < edge < high), high]


def _clipped(edges: tuple[int, ...], low: Any, high: Any) -> list[float]:
    """Edges of a preset between stated bounds; bounds beyond the preset widen its outer bins."""
    first, last = edges[0] if low is None else low, edges[-1] if high is None else high
    if not _is_number(first) or not _is_number(last) or not first < last:
        given = f"{quoted(low)} and {quoted(high)}"
        raise SchemaError(f"min and max must be numbers with min < max, not {given}.")
    return [first, *(edge for edge in edges[1:-1] if first < edge < last), last]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
