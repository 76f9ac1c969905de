"""Schemas as TOML text: written anew, or into a person's file, whose comments and layout stay."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_DATES = ("min", "max", "missing")  # of a datetime attribute: written as dates, without quotes
# Keys that together say how an attribute is binned. A file may say in one what another says in plain words.
_BINNING = ("min", "max", "every", "bins", "edges")


def toml_text(description: Mapping[str, Any], comments: Mapping[str, str] | None = None) -> str:
    """A plain description of a schema as TOML.

    comments: per key of the top level, what to say behind its value.
    """
    comments = comments or {}
    facts = [
        f"{key} = {toml_value(value)}" + (f"  # {comments[key]}" if key in comments else "")
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
    is_moment = fields.get("type") == "datetime"
    lines = [
        f"{toml_key(key)} = {value if is_moment and key in _DATES else toml_value(value)}"
        for key, value in fields.items()
    ]
    return "\n".join([f"[{header}]", *lines]) + "\n"


def toml_key(name: str) -> str:
    """A name as a TOML key, quoted where it must be."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_string(name)


def toml_string(text: str) -> str:
    """A JSON string is a TOML string, save for DEL."""
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


def rewritten(text: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """The text of a schema file, changed only where its meaning has to change.

    before: what the file says, as a plain description; after: what it has to say. Comments, order, layout and
    what is said in short stay as they are wherever the meaning does.
    """
    import tomlkit

    document: Any = tomlkit.parse(text)
    for key in _changed(_facts(before), _facts(after)):
        _put(document, key, after.get(key))
    old_source, new_source = before.get("source", {}), after.get("source", {})
    if new_source and "source" not in document:
        document["source"] = tomlkit.table()
    for key in _changed(old_source, new_source):
        _put(document["source"], key, new_source.get(key))
    _rewrite_attributes(document, before["attributes"], after["attributes"])
    return tomlkit.dumps(document)


def _rewrite_attributes(document: Any, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    import tomlkit

    attributes = document["attributes"]
    if document.get("defaults", {}).get("nullable"):
        # what holds by default has to be denied where it does not
        before, after = _denied(before), _denied(after)
    for name in [name for name in before if name not in after]:
        del attributes[name]
    for name, fields in after.items():
        if name not in before:
            table = tomlkit.table()
            for key, value in fields.items():
                _put(table, key, value, is_moment=fields["type"] == "datetime")
            attributes[name] = table
            continue
        changed = _changed(before[name], fields)
        if "type" in changed or set(changed) & set(_BINNING):
            for key in _BINNING:
                attributes[name].pop(key, None)
            changed += [key for key in _BINNING if key in fields and key not in changed]
        for key in changed:
            _put(attributes[name], key, fields.get(key), is_moment=fields["type"] == "datetime")


def _denied(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: fields if {"nullable", "missing"} & set(fields) else {**fields, "nullable": False}
        for name, fields in attributes.items()
    }


def _facts(description: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in description.items() if not isinstance(value, Mapping)}


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return [key for key in dict.fromkeys([*before, *after]) if before.get(key) != after.get(key)]


def _put(table: Any, key: str, value: Any, is_moment: bool = False) -> None:
    """Set a key to a plain value, or remove it where there is none. What stood behind it stays there."""
    import tomlkit

    if value is None:
        table.pop(key, None)
        return
    text = value if is_moment and key in _DATES else toml_value(value)
    table[key] = tomlkit.value(text)
