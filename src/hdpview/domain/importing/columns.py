"""Shared by all readers of descriptions: columns with types, bounds and values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from hdpview.domain.drafting import DraftColumn
from hdpview.errors import SchemaError, unknown_name

_LONGEST_LABEL = 200


def column_of(
    name: str,
    kind: str | None,
    low: Any = None,
    high: Any = None,
    values: Sequence[Any] | None = None,
    aliases: Mapping[str, list[str]] | None = None,
    ordered: bool = False,
    label: str | None = None,
    note: str = "",
    dtype: object = "unknown",
) -> DraftColumn:
    """The column of a draft: a category if values are listed, else with bounds of its type.

    kind: the type of attribute; None if no type fits. dtype: its type as the description names it.
    values: its possible values, if the description lists them. Bounds are included.
    """
    if kind is None and not note:
        note = f"its type {dtype} cannot be counted"
    first_line = label.strip().partition("\n")[0][:_LONGEST_LABEL] if isinstance(label, str) else ""
    fields: dict[str, Any] = {"label": first_line} if first_line else {}
    texts = list(dict.fromkeys(_text(value) for value in as_list(values) if value is not None))
    if texts and kind != "boolean":
        also = {"aliases": dict(aliases)} if aliases else {}
        order = {"ordered": True} if ordered else {}
        return DraftColumn(name, "category", {"values": texts, **order, **also, **fields}, note)
    stated = {"min": _bound(low, kind), "max": _bound(high, kind)}
    bounds = {key: bound for key, bound in stated.items() if bound is not None}
    if kind == "real" and len(bounds) == 2 and not bounds["min"] < bounds["max"]:
        bounds = {}
    return DraftColumn(name, kind, {**bounds, **fields}, note)


def as_list(value: Any) -> list[Any]:
    """A list unchanged; an empty one for anything else, because people write descriptions."""
    return list(value) if isinstance(value, (list, tuple)) else []


def as_table(value: Any) -> Mapping[str, Any]:
    """A table unchanged; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _bound(value: Any, kind: str | None) -> Any:
    """A bound as in a schema file; None if it is invalid for this type."""
    with suppress(ValueError):
        if kind == "datetime" and isinstance(value, datetime):
            return value.replace(tzinfo=None).isoformat(timespec="seconds")
        if kind == "datetime":
            text = value.isoformat() if isinstance(value, date) else value
            return datetime.fromisoformat(text) and text if isinstance(text, str) else None
        value = float(value) if isinstance(value, str) else value
        if isinstance(value, (int, float, Decimal)) and not isinstance(value, bool) and math.isfinite(value):
            return math.floor(value) if kind == "integer" else float(value) if kind == "real" else None
    return None


def one_of(tables: Mapping[str, Any], wanted: str | None, what: str) -> Any:
    """The table of that name, or the only one."""
    if wanted is not None and wanted not in tables:
        raise SchemaError(unknown_name(what, wanted, tables, "The description has"))
    if wanted is None and len(tables) > 1:
        listed = ", ".join(list(tables)[:20])
        raise SchemaError(f"The description has several: {listed}. Choose one with --table.")
    if not tables:
        raise SchemaError(f"The description has no {what} with columns.")
    return tables[next(iter(tables)) if wanted is None else wanted]
