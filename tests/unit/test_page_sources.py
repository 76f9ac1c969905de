"""The sources of the pages: lines that can be read, and the few bytes that a published page makes of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hdpview
from hdpview.explore.bundle import bundled, compact_script, compact_style

ROOT = Path(hdpview.__file__).parent
LONGEST_LINE = 110
_SEVERAL_NAMES = re.compile(r"^\s*(?:const|let) [^\n]*[^{\[(],\n\s+\S[^\n]* = ", re.MULTILINE)
SOURCES = sorted(
    file for file in ROOT.rglob("*") if file.suffix in {".js", ".css", ".html"} and file.is_file()
)


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT)))
def test_lines_can_be_read_without_scrolling(file: Path) -> None:
    """No line of a script, a style sheet or a page is longer than those of Python."""
    lines = file.read_text("utf-8").splitlines()
    assert [line for line in lines if len(line) > LONGEST_LINE] == []


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_line_declares_one_name(file: Path) -> None:
    """Several names in one `const` or `let` would hide what is declared."""
    assert _SEVERAL_NAMES.findall(file.read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("const a = 1; // one\n  const b = a + 2;\n", "const a=1;const b=a+2;"),
        ("/** two\n * lines */\nlet x = y - -1;", "let x=y- -1;"),
        ("const s = \"a // b\" + 'it''s';", "const s=\"a // b\"+'it''s';"),
        ("return /[/ ]  x/g.test(s);", "return /[/ ]  x/g.test(s);"),
        ("const half = a / 2 / b; // c", "const half=a / 2 / b;"),
        (
            "const t = `a  ${b ? `{ ${c}  }` : { d: 1 }}  // e`;",
            "const t=`a  ${b ? `{ ${c}  }` : { d: 1 }}  // e`;",
        ),
        ("if (x)\n  return;\nelse\n  go();", "if(x)return;else go();"),
    ],
)
def test_space_and_comments_go_but_text_stays(text: str, expected: str) -> None:
    """Strings, templates in templates, divisions and regular expressions are told from comments and code."""
    assert compact_script(text) == expected


def test_modules_become_one_script() -> None:
    """Names imported over several lines come from the module before; what cannot be understood is refused."""
    modules = {
        "one": "export const A = 1;\nexport async function b() {}\n",
        "two": 'import {\n  A,\n  b,\n} from "./one.js";\nb(A);\n',
    }
    script = bundled("two", modules.__getitem__)
    assert script == (
        "const module_one=(()=>{const A=1;async function b(){}return{A,b};})();"
        "const module_two=(()=>{const{A,b,}=module_one;b(A);return{};})();"
    )
    for refused in ('import x from "./one.js";\n', "export default 1;\n", "export const A = 1,\n  B = 2;\n"):
        with pytest.raises(ValueError, match=r"bad\.js"):
            bundled("bad", {"bad": refused}.__getitem__)


def test_style_sheets_lose_nothing_but_space() -> None:
    """Space that separates selectors and values stays."""
    text = "/* a\n b */\na :hover,\nb > c {\n  margin: 0 calc(1px + 2px);\n  color: red;\n}\n"
    assert compact_style(text) == "a :hover,b > c{margin: 0 calc(1px + 2px);color: red}"
