"""What readers of descriptions have in common: columns with types, bounds and values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from hdpview.domain.drafting import Draft, DraftColumn
from hdpview.domain.text_format import TextFormat
from hdpview.errors import SchemaError, unknown_name

_LONGEST_LABEL = 200


@dataclass(frozen=True)
class Facts:
    """What a description says of one column.

    kind: the type of attribute; None where there is none for it. dtype: its type in the description's words.
    values: all that it may hold, where they are listed. Bounds are included.
    """

    name: str
    kind: str | None
    low: Any = None
    high: Any = None
    values: Sequence[Any] | None = None
    aliases: Mapping[str, list[str]] | None = None
    ordered: bool = False
    label: str | None = None
    note: str = ""
    dtype: object = "unknown"

    def column(self) -> DraftColumn:
        """The column of a draft: listed values make a category, bounds are put into the form of its type."""
        note = self.note
        if self.kind is None and not note:
            note = f"its type {self.dtype} is none that can be counted"
        label = self.label.strip().splitlines()[:1] if isinstance(self.label, str) else []
        fields: dict[str, Any] = {"label": label[0][:_LONGEST_LABEL]} if label and label[0] else {}
        values = list(dict.fromkeys(_text(value) for value in as_list(self.values) if value is not None))
        if values and self.kind != "boolean":
            also = {"aliases": dict(self.aliases)} if self.aliases else {}
            order = {"ordered": True} if self.ordered else {}
            return DraftColumn(self.name, "category", {"values": values, **order, **also, **fields}, note)
        bounds = {
            key: bound
            for key, value in (("min", self.low), ("max", self.high))
            if (bound := _bound(value, self.kind)) is not None
        }
        if self.kind == "real" and len(bounds) == 2 and not bounds["min"] < bounds["max"]:
            bounds = {}
        return DraftColumn(self.name, self.kind, {**bounds, **fields}, note)


def as_list(value: Any) -> list[Any]:
    """A list as it is, and nothing of anything else: descriptions are written by people."""
    return list(value) if isinstance(value, (list, tuple)) else []


def as_table(value: Any) -> Mapping[str, Any]:
    """A table as it is, and an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def draft_of(facts: Iterable[Facts], source: TextFormat | None = None) -> Draft:
    return Draft(tuple(each.column() for each in facts), source)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _bound(value: Any, kind: str | None) -> Any:
    """A bound as a schema file states it; None where it is none for this type."""
    if kind == "datetime":
        if isinstance(value, datetime):
            return value.replace(tzinfo=None).isoformat(timespec="seconds")
        text = value.isoformat() if isinstance(value, date) else value
        try:
            return None if not isinstance(text, str) else datetime.fromisoformat(text) and text
        except ValueError:
            return None
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)) or not math.isfinite(value):
        return None
    if kind == "integer":
        return math.floor(value)
    return float(value) if kind == "real" else None


def one_of(tables: Mapping[str, Any], wanted: str | None, what: str) -> Any:
    """The table that is meant: the one of that name, or the only one."""
    if wanted is not None and wanted not in tables:
        raise SchemaError(unknown_name(what, wanted, tables, "The description has"))
    if wanted is None and len(tables) > 1:
        raise SchemaError(
            f"The description has several: {', '.join(list(tables)[:20])}. Choose one with --table."
        )
    if not tables:
        raise SchemaError(f"The description has no {what} with columns.")
    return tables[next(iter(tables)) if wanted is None else wanted]
