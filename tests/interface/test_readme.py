"""What the README, the tutorials and the page on the file format show, done as written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import BLOCK, run_page, structure
from people import write_people

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/tutorials/curators.md", "docs/tutorials/analysts.md")
MAX_LINES = 130


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the table and the schema file that the README talks about."""
    path = tmp_path_factory.mktemp("readme")
    _prepare(path)
    return path


def _prepare(folder: Path) -> None:
    write_people(folder / "people.csv")
    for block in BLOCK.finditer((ROOT / "README.md").read_text(encoding="utf-8")):
        if block["name"]:
            (folder / block["name"]).write_text(block["text"], encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_pages_do_what_they_show(page: str, tmp_path: Path) -> None:
    """Every block marked to run succeeds, in the order of the page, and prints what the page says, numbers
    aside.

    `python tests/interface/pages.py PAGE` renews outputs that changed for a good reason.
    """
    _prepare(tmp_path)
    text = (ROOT / page).read_text(encoding="utf-8")
    outputs = run_page(text, tmp_path)
    assert outputs
    for output in outputs:
        assert structure(output.printed) == structure(output.shown)


def test_readme_is_short() -> None:
    """A newcomer reads it to the end."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= MAX_LINES


def test_outputs_are_compared_up_to_noise() -> None:
    """Numbers and widths of columns may differ, words may not."""
    assert structure("n   1,234\n────\na  -0.5") == structure("n     9\n──────────\na 12.25")
    assert structure("is there: True") == structure("is there: False")
    assert structure("a 5") != structure("b 5")


def test_duckdb_alone_counts_what_the_view_counts(folder: Path) -> None:
    """The page's plain SQL over the Parquet file gives the raw answer of a view by the paper's method."""
    import duckdb

    import hdpview as hv

    sql = re.search(r'duckdb\.sql\("""(.*?)"""\)', _file_format(), re.DOTALL)
    assert sql is not None
    schema = hv.Schema.load(folder / "people.toml")
    view = hv.build(folder / "people.csv", schema, 1.0, method="hdpview", ledger=False)
    view.save(folder / "other.pview")
    with duckdb.connect() as connection:
        ((found,),) = connection.execute(
            sql[1].replace("plain.pview", str(folder / "other.pview"))
        ).fetchall()
    assert found == pytest.approx(view.count("age BETWEEN 30 AND 39", counts="raw").estimate)


def test_duckdb_alone_counts_over_a_mixture(folder: Path) -> None:
    """Of a default view, weights and shares are all that a count takes."""
    import duckdb

    import hdpview as hv

    sql = re.search(r'duckdb\.sql\("(SELECT SUM\(weight.*?)"\)', _file_format())
    assert sql is not None
    view = hv.build(folder / "people.csv", hv.Schema.load(folder / "people.toml"), 1.0, ledger=False)
    view.save(folder / "other.pview")
    with duckdb.connect() as connection:
        ((found,),) = connection.execute(
            sql[1].replace("people.pview", str(folder / "other.pview"))
        ).fetchall()
    assert found == pytest.approx(view.count("member").estimate)


def _file_format() -> str:
    return (ROOT / "docs/reference/file-format.md").read_text(encoding="utf-8")
