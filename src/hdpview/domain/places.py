"""Find the line of an entry in a schema file, for messages."""

from __future__ import annotations

import re

from hdpview.domain.toml import toml_key

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
