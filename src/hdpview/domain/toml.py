"""Schemas as TOML text, and the lines of its entries, for messages."""

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


_OPEN = re.compile(r"(?m)^(?!\s*#)[^#\n]*?([\[=,]\s*)\?\s*(?=[\],}#\n]|$)")


def located(message: str, text: str, name: str) -> str:
    """A message with the file and, if it is about one attribute or table, the line."""
    match = re.match(r"Attribute (['\"])(.*?)\1", message)
    line = _line_of(text, match[2] if match else None, message)
    return f"{name}, line {line}: {message}" if line else f"{name}: {message}"


def open_lines(text: str) -> list[int]:
    """Numbers of the lines of a draft with an open place."""
    return [text.count("\n", 0, match.start(1)) + 1 for match in _OPEN.finditer(text)]


def open_places(text: str, name: str) -> str | None:
    """A message about the open places of a draft; None if there are none."""
    places = open_lines(text)
    if not places:
        return None
    lines = ", ".join(map(str, places[:10])) + (f", … ({len(places)} in total)" if len(places) > 10 else "")
    return (
        f"{name}: a ? stands in line{'s' if len(places) > 1 else ''} {lines}. Replace each by what is known "
        "without looking at the data, or delete the line of a column that nobody needs to ask about."
    )


def _line_of(text: str, attribute: str | None, message: str) -> int | None:
    lines = text.splitlines()
    if attribute is not None:
        keys = {toml_key(attribute), f"'{attribute}'", f'"{attribute}"'}
        forms = [rf"\s*\[\s*attributes\s*\.\s*{re.escape(key)}\s*\]" for key in keys]
        forms += [rf"\s*(attributes\s*\.\s*)?{re.escape(key)}\s*=\s*\{{" for key in keys]
    elif message.startswith("[source]"):
        forms = [r"\s*\[\s*source\s*\]"]
    else:
        return None
    start = next((i for i, line in enumerate(lines) if any(re.match(form, line) for form in forms)), None)
    if start is None:
        return None
    for i in range(start + 1, len(lines)):
        if lines[i].lstrip().startswith("["):
            break
        key = re.match(r"\s*([A-Za-z_]+)\s*=", lines[i])
        if key and re.search(rf"[ '`]{key[1]}\b", message):
            return i + 1
    return start + 1
