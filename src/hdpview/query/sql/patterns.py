"""Patterns of texts: regular expressions, LIKE and SIMILAR TO, with an engine whose time grows with the text
alone, whatever the pattern. Python's own can be made to run for ever.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hdpview.errors import QueryError

_LONGEST = 2_000  # characters of a pattern


def matches(text: str, pattern: str, ignore_case: bool = False) -> bool:
    """Whether a regular expression occurs in a text."""
    return bool(_computed(pc.match_substring_regex, text, pattern, ignore_case=ignore_case))


def is_like(text: str, pattern: str, ignore_case: bool = False, escape: str = "\\") -> bool:
    """Whether a text is LIKE a pattern: % for any run of characters, _ for one."""
    parts, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            parts.append(re.escape(next(characters, "")))
        else:
            parts.append({"%": ".*", "_": "."}.get(character, re.escape(character)))
    return matches(text, f"(?s)^{''.join(parts)}$", ignore_case)


def is_similar_to(text: str, pattern: str) -> bool:
    """Whether a text is SIMILAR TO a pattern: that of LIKE, with |, *, +, ?, brackets and classes."""
    signs = {"%": ".*", "_": ".", ".": r"\.", "^": r"\^", "$": r"\$"}
    return matches(text, f"(?s)^(?:{''.join(signs.get(sign, sign) for sign in pattern)})$")


def replaced(text: str, pattern: str, new: str, everywhere: bool = False) -> str:
    """A text with the first match of a regular expression replaced, or all of them."""
    most = None if everywhere else 1
    return str(_computed(pc.replace_substring_regex, text, pattern, new, max_replacements=most))


def _computed(function: Callable[..., Any], text: str, pattern: str, *others: Any, **options: Any) -> Any:
    if len(pattern) > _LONGEST:
        raise QueryError(f"Patterns are at most {_LONGEST:,} characters long here.")
    try:
        return function(pa.scalar(text), pattern, *others, **options).as_py()
    except pa.ArrowInvalid:
        raise QueryError("The pattern is not a regular expression that can be used here.") from None
