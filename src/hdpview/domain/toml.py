"""Schemas as TOML text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_COMMENTS = {"learnt_from_data": "  # drawn from the table itself: a view built on it is NOT private"}
_DATES = ("min", "max", "missing")  # of a datetime attribute: written as dates, without quotes


def toml_text(description: Mapping[str, Any]) -> str:
    """A plain description of a schema as TOML."""
    facts = [
        f"{key} = {toml_value(value)}{_COMMENTS.get(key, '')}"
        for key, value in description.items()
        if not isinstance(value, Mapping)
    ]
    source = description.get("source")
    tables = [toml_table("source", source)] if source else []
    tables += [
        toml_table(f"attributes.{toml_key(name)}", fields)
        for name, fields in description["attributes"].items()
    ]
    return "\n".join([*(["\n".join(facts) + "\n"] if facts else []), *tables])


def toml_table(header: str, fields: Mapping[str, Any]) -> str:
    """A table with a line per key."""
    is_moment = fields.get("type") in ("datetime", "date")
    lines = [
        f"{toml_key(key)} = {value if is_moment and key in _DATES else toml_value(value)}"
        for key, value in fields.items()
    ]
    return "\n".join([f"[{header}]", *lines]) + "\n"


def toml_key(name: str) -> str:
    """A name as a TOML key, quoted if necessary."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_string(name)


def toml_string(text: str) -> str:
    """A text as a TOML string: a JSON string, except for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_value(value: Any) -> str:
    """A plain value as TOML; a mapping as an inline table."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return toml_string(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{toml_key(key)} = {toml_value(each)}" for key, each in value.items())
        return "{ " + inner + " }" if inner else "{}"
    return repr(value)
