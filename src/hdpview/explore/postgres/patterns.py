"""Patterns of texts: regular expressions and LIKE, with an engine whose time grows with the text alone."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hdpview.errors import QueryError

_LONGEST_PATTERN = 2_000  # characters


def matches(value: Any, pattern: Any, ignore_case: Any = 0) -> int | None:
    return (
        None if value is None or pattern is None else int(_found(str(value), str(pattern), bool(ignore_case)))
    )


def _found(text: str, pattern: str, ignore_case: bool) -> bool:
    """Whether a pattern occurs in a text. Arrow's engine takes time in proportion to the text, whatever the
    pattern; Python's own can be made to run for ever.
    """
    if len(pattern) > _LONGEST_PATTERN:
        raise QueryError(f"Patterns are at most {_LONGEST_PATTERN:,} characters long here.")
    try:
        return bool(pc.match_substring_regex(pa.scalar(text), pattern, ignore_case=ignore_case).as_py())
    except pa.ArrowInvalid:
        raise QueryError("The pattern is not a regular expression that can be used here.") from None


def like_any_case(value: Any, pattern: Any, escape: Any = "\\") -> int | None:
    return (
        None
        if value is None or pattern is None
        else int(_is_like(str(value), str(pattern), str(escape), True))
    )


def like(pattern: Any, value: Any, escape: Any = "\\") -> int | None:
    """SQLite's own, with the pattern first; its engine can be made to run for ever."""
    return (
        None
        if value is None or pattern is None
        else int(_is_like(str(value), str(pattern), str(escape), False))
    )


def _is_like(text: str, pattern: str, escape: str, ignore_case: bool) -> bool:
    parts, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            parts.append(re.escape(next(characters, "")))
        else:
            parts.append({"%": ".*", "_": "."}.get(character, re.escape(character)))
    return _found(text, f"(?s)^{''.join(parts)}$", ignore_case)


def replace_first(text: Any, pattern: Any, new: Any, flags: Any = "") -> str | None:
    if text is None or len(str(pattern)) > _LONGEST_PATTERN:
        return None
    most = None if "g" in str(flags) else 1
    try:
        replaced = pc.replace_substring_regex(
            pa.scalar(str(text)), str(pattern), str(new), max_replacements=most
        )
    except pa.ArrowInvalid:
        raise QueryError("The pattern is not a regular expression that can be used here.") from None
    return str(replaced.as_py())
