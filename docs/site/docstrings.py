"""Format docstrings for the reference: definitions become a list, and examples become code."""

from __future__ import annotations

import re
from typing import Any

import griffe

# `name: definition`, or several names with commas between them, and the indented lines below.
_EXPLAINED = re.compile(r"^(?P<names>[a-z_]+(?:, [a-z_]+)*): (?P<text>\S.*(?:\n[ ]+\S.*)*)$", re.MULTILINE)
# A sentence with a colon, and such names indented below it.
_HEADED = re.compile(r"^(?P<head>[A-Z][a-z ]+ [a-z ]+):\n(?P<body>(?:[ ]{4}.*\n?)+)", re.MULTILINE)
_EXAMPLE = re.compile(r"^>>> (.*?)(?:[ ]+# doctest: \+SKIP)?$", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Rewrites docstrings while the package is read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """A docstring with lists and code where it has names with explanations and examples."""
    text = _HEADED.sub(_without_indent, text)
    text = _EXPLAINED.sub(_item, text)
    return _EXAMPLE.sub(r"```python\n\1\n```", text)


def _without_indent(match: re.Match[str]) -> str:
    return f"**{match['head']}**\n\n" + re.sub(r"^[ ]{4}", "", match["body"], flags=re.MULTILINE)


def _item(match: re.Match[str]) -> str:
    names = ", ".join(f"`{name}`" for name in match["names"].split(", "))
    return f"- {names}: {' '.join(match['text'].split())}"
