"""The page's scripts and style in few bytes: modules as one script, without comments and needless space.

Names stay as they are, so what the page runs can be read. Scripts end every statement with a semicolon, as
the formatter writes them: no line break in them has a meaning of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_IMPORT = re.compile(r'^import \{([\w,\s]+)\} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:const|let|function|class) (\w+))", re.MULTILINE)
_SEVERAL_EXPORTS = re.compile(r"^export (?:const|let) [^\n]*,\n  \w+ = ", re.MULTILINE)
_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
      | (?P<pattern>/(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\\[\n])+/[a-z]*)
      | (?P<space>\s+)
      | (?P<word>[\w$]+)
      | (?P<sign>.)""",
    re.VERBOSE | re.DOTALL,
)
# A slash after one of these begins a regular expression; after anything else it divides.
_BEFORE_PATTERN = set("(,=:[!&|?{};+>\n") | {"return"}


def bundled(entry: str, read: Callable[[str], str]) -> str:
    """A module and all that it imports as one script, each module after those that it imports from; it
    becomes a function that returns what it exports. read: gives the text of a module.
    """
    parts = []
    for name, text in _in_order(entry, read).items():
        if _SEVERAL_EXPORTS.search(text):
            raise ValueError(f"{name}.js: one name for each export")
        exported = [found[1] for found in _EXPORT.findall(text)]
        text = _IMPORT.sub(lambda found: f"const {{{found[1]}}} = module_{found[2]};", text)
        text = _EXPORT.sub(r"\1", text)
        if re.search(r"^(import|export)\b", text, re.MULTILINE):
            raise ValueError(f"{name}.js: imports or exports in a form that is not understood")
        parts.append(f"const module_{name} = (() => {{\n{text}\nreturn {{ {', '.join(exported)} }};\n}})();")
    return compact_script("\n".join(parts))


def _in_order(entry: str, read: Callable[[str], str]) -> dict[str, str]:
    """The texts of a module and of all that it imports, by name, each after those that it imports from."""
    found: dict[str, str] = {}

    def visit(name: str) -> None:
        text = read(name)
        for _, other in _IMPORT.findall(text):
            if other not in found:
                visit(other)
        found[name] = text

    visit(entry)
    return found


def compact_script(text: str) -> str:
    """A script without comments and needless space. Strings, templates and regular expressions stay."""
    found: list[str] = []
    position, before, is_apart = 0, "\n", False
    while position < len(text):
        match = _TOKEN.match(text, position)
        assert match is not None
        kind, piece = match.lastgroup, match[0]
        if kind == "pattern" and before not in _BEFORE_PATTERN:
            kind, piece = "sign", "/"
        if piece == "`":
            piece = text[position : _template_end(text, position)]
        position += len(piece)
        if kind in ("comment", "space"):
            is_apart = True
            continue
        if is_apart and _needs_space(before[-1], piece[0]):
            found.append(" ")
        found.append(piece)
        before, is_apart = piece, False
    return "".join(found).strip()


def _needs_space(before: str, after: str) -> bool:
    """Whether two characters mean something else without space between them: two words, `+ +`, or a slash."""
    is_word = [character.isalnum() or character in "_$#" for character in (before, after)]
    return all(is_word) or (before == after and before in "+-") or "/" in (before, after)


def _template_end(text: str, start: int) -> int:
    """Where the template that begins at a backtick ends; templates may stand in its expressions."""
    depth, position = 0, start + 1
    while True:
        character = text[position]
        if character == "\\":
            position += 1
        elif depth == 0 and character == "`":
            return position + 1
        elif text.startswith("${", position):
            depth += 1
            position += 1
        elif depth and character == "`":
            position = _template_end(text, position) - 1
        elif depth and character == "{":
            depth += 1
        elif depth and character == "}":
            depth -= 1
        position += 1


def compact_style(text: str) -> str:
    """A style sheet without comments and needless space."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"\s+", " ", text)
    return re.sub(r" ?([{};,]) ?", r"\1", text).replace(";}", "}").strip()
