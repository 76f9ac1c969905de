"""The sources of the pages: readable lines, and the single script of published pages."""

import re
from pathlib import Path

import pytest

import hdpview
from hdpview.explore.bundle import bundled

ROOT = Path(hdpview.__file__).parent
LONGEST_LINE = 110
MOST_LINES = 7_899  # of all scripts, style sheets and pages together
_SEVERAL_NAMES = re.compile(r"^\s*(?:const|let) [^\n]*[^{\[(],\n\s+\S[^\n]* = ", re.MULTILINE)
SOURCES = sorted(
    file for file in ROOT.rglob("*") if file.suffix in {".js", ".css", ".html"} and file.is_file()
)


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT)))
def test_lines_can_be_read_without_scrolling(file):
    lines = file.read_text("utf-8").splitlines()
    assert [line for line in lines if len(line) > LONGEST_LINE] == []


def test_the_pages_stay_small():
    assert sum(len(file.read_text("utf-8").splitlines()) for file in SOURCES) <= MOST_LINES


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_line_declares_one_name(file):
    assert _SEVERAL_NAMES.findall(file.read_text("utf-8")) == []


def test_modules_become_one_script():
    modules = {
        "one": "// One.\nexport const A = 1;\n/** Two\n * lines. */\nexport async function b() {}\n",
        "two": 'import {\n  A,\n  b,\n} from "./one.js";\nb(A);\n',
    }
    script = bundled("two", modules.__getitem__)
    assert script == (
        "const module_one = (() => {\nconst A = 1;\nasync function b() {}\nreturn { A, b };\n})();\n"
        "const module_two = (() => {\nconst {\nA,\nb,\n} = module_one;\nb(A);\nreturn {  };\n})();"
    )
    for refused in ('import x from "./one.js";\n', "export default 1;\n", "export const A = 1,\n  B = 2;\n"):
        with pytest.raises(ValueError, match=r"bad\.js"):
            bundled("bad", {"bad": refused}.__getitem__)
