"""Documents that must agree with the code."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Pages that exist on the documentation site alone; tests/interface/test_site.py builds it and checks links to
# them.
GENERATED = {"docs/gallery/admissions.html", "docs/reference/command-line.md"}
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def test_labels_of_the_privacy_argument_are_those_in_the_code():
    in_code = {
        label for path in SOURCES for label in re.findall(r"\[P\d+\]", path.read_text(encoding="utf-8"))
    }
    headings = re.findall(
        r"^### (\[P\d+\])", (ROOT / "docs/privacy.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert sorted(headings) == sorted(in_code)


def test_greek_stands_in_one_file_of_the_partition():
    for path in (ROOT / "src/hdpview/partition").glob("*.py"):
        if path.name != "parameters.py":
            code = re.sub(r'""".*?"""|#.*', "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
            assert not re.search("[α-ωΑ-Ω]", code), path.name


def test_links_between_documents_lead_somewhere():
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "bench/README.md"]:
        text = page.read_text(encoding="utf-8")
        for target, heading in re.findall(r"\]\((?!https?://)([^)#]*)#?([^)]*)\)", text):
            named = (page.parent / target).resolve() if target else page
            if named.is_relative_to(ROOT) and named.relative_to(ROOT).as_posix() in GENERATED:
                continue
            assert named.exists(), f"{page.name} → {target}"
            assert not heading or heading in _headings(named), f"{page.name} → {target}#{heading}"


def test_first_page_of_the_site_shows_the_program_of_the_readme():
    program = re.search(r"```python\n.*?```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert program[0] in (ROOT / "docs/index.md").read_text(encoding="utf-8")


def _headings(page: Path) -> set[str]:
    """Headings as links name them: small letters, without punctuation, with hyphens for spaces."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
