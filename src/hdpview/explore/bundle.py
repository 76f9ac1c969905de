"""Join the page's modules into one script, without comments and indentation, otherwise unchanged."""

from __future__ import annotations

import re
from collections.abc import Callable

_IMPORT = re.compile(r'^import \{([\w,\s]+)\} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:const|let|function|class) (\w+))", re.MULTILINE)
# Matches comments, which are on separate lines.
_COMMENT = re.compile(r"^[ ]*(?://[^\n]*|/\*\*?[\s\S]*?\*/)\n", re.MULTILINE)
_LINE_START = re.compile(r"^\s+", re.MULTILINE)
_SEVERAL_EXPORTS = re.compile(r"^export (?:const|let) [^\n]*,\n  \w+ = ", re.MULTILINE)


def bundled(entry: str, read: Callable[[str], str]) -> str:
    """A module and all that it imports as one script, each module after those that it imports from; it
    becomes a function that returns its exports. read: returns the text of a module.
    """
    parts = []
    for name, text in _in_order(entry, read).items():
        if _SEVERAL_EXPORTS.search(text):
            raise ValueError(f"{name}.js: one name for each export")
        exported = [match[1] for match in _EXPORT.findall(text)]
        text = _IMPORT.sub(lambda match: f"const {{{match[1]}}} = module_{match[2]};", text)
        text = _EXPORT.sub(r"\1", text)
        if re.search(r"^(import|export)\b", text, re.MULTILINE):
            raise ValueError(f"{name}.js: imports or exports in a form that is not understood")
        parts.append(f"const module_{name} = (() => {{\n{text}\nreturn {{ {', '.join(exported)} }};\n}})();")
    return _LINE_START.sub("", _COMMENT.sub("", "\n".join(parts)))


def _in_order(entry: str, read: Callable[[str], str]) -> dict[str, str]:
    """The texts of a module and of all that it imports, by name, each after those that it imports from."""
    sources: dict[str, str] = {}

    def visit(name: str) -> None:
        text = read(name)
        for _, other in _IMPORT.findall(text):
            if other not in sources:
                visit(other)
        sources[name] = text

    visit(entry)
    return sources
