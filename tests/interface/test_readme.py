"""The README, the tutorials and the page on the file format run as written."""

import re
import shutil
from pathlib import Path

import duckdb
import pytest
from pages import BLOCK, run_page, structure
from people import write_people

import hdpview as hv

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/tutorials/curators.md", "docs/tutorials/analysts.md", "docs/sql.md")
MAX_LINES = 130


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("readme")
    write_people(path / "people.csv")
    for block in BLOCK.finditer((ROOT / "README.md").read_text(encoding="utf-8")):
        if block["name"]:
            (path / block["name"]).write_text(block["text"], encoding="utf-8")
    built(path, "mixture").save(path / "people.pview")
    return path


def built(folder: Path, method: str) -> hv.PView:
    schema = hv.Schema.load(folder / "people.toml")
    return hv.build(folder / "people.csv", schema, 1.0, method=method, ledger=False, on_warning=str)


@pytest.mark.parametrize("page", PAGES)
def test_pages_do_what_they_show(page, folder, tmp_path):
    """`python tests/interface/pages.py PAGE` renews the outputs."""
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    text = (ROOT / page).read_text(encoding="utf-8")
    outputs = run_page(text, tmp_path)
    assert len(outputs) == text.count("<!-- output -->")
    for output in outputs:
        assert structure(output.printed) == structure(output.shown)


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= MAX_LINES


def test_outputs_are_compared_up_to_noise():
    assert structure("n   1,234\n────\na  -0.5") == structure("n     9\n──────────\na 12.25")
    assert structure("is there: True") == structure("is there: False")
    assert structure("a 5") != structure("b 5")


@pytest.mark.parametrize(
    ("method", "program", "where"),
    [
        ("hdpview", r'duckdb\.sql\("""(.*?)"""\)', "age BETWEEN 30 AND 39"),
        ("mixture", r'duckdb\.sql\("(SELECT SUM\(weight.*?)"\)', "member"),
    ],
)
def test_duckdb_alone_counts_what_the_view_counts(folder, method, program, where):
    page = (ROOT / "docs/reference/file-format.md").read_text(encoding="utf-8")
    sql = re.search(program, page, re.DOTALL)
    view, path = built(folder, method), folder / f"{method}.pview"
    view.save(path)
    ((count,),) = duckdb.sql(re.sub(r"\w+\.pview", str(path), sql[1])).fetchall()
    assert count == pytest.approx(view.count(where, counts="raw").estimate)
