"""What the README shows, done as written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from people import write_people

README = Path(__file__).parents[2] / "README.md"
BLOCK = re.compile(r"<!-- (run|file: (?P<name>\S+)) -->\n```(?P<language>\w+)\n(?P<text>.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the table and the schema file that the README talks about."""
    path = tmp_path_factory.mktemp("readme")
    write_people(path / "people.csv")
    for block in BLOCK.finditer(README.read_text(encoding="utf-8")):
        if block["name"]:
            (path / block["name"]).write_text(block["text"], encoding="utf-8")
    return path


def test_commands_and_programs_of_the_readme_run_as_written(folder: Path) -> None:
    """Every block marked to run succeeds, in the order of the page."""
    blocks = [block for block in BLOCK.finditer(README.read_text(encoding="utf-8")) if not block["name"]]
    assert len(blocks) >= 4
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for block in blocks:
        command = (
            ["bash", "-euo", "pipefail", "-c"] if block["language"] == "bash" else [sys.executable, "-c"]
        )
        done = subprocess.run(
            [*command, block["text"]], cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, block["text"] + done.stderr


def test_duckdb_alone_counts_what_the_view_counts(folder: Path) -> None:
    """The README's plain SQL over the Parquet file gives the raw answer of a view by the paper's method."""
    import duckdb

    import hdpview as hv

    text = README.read_text(encoding="utf-8")
    sql = re.search(r'duckdb\.sql\("""(.*?)"""\)', text, re.DOTALL)
    assert sql is not None
    view = hv.build(folder / "people.csv", hv.Schema.load(folder / "people.toml"), 1.0, method="hdpview")
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

    sql = re.search(r'duckdb\.sql\("(SELECT SUM\(weight.*?)"\)', README.read_text(encoding="utf-8"))
    assert sql is not None
    view = hv.build(folder / "people.csv", hv.Schema.load(folder / "people.toml"), 1.0, ledger=False)
    view.save(folder / "other.pview")
    with duckdb.connect() as connection:
        ((found,),) = connection.execute(
            sql[1].replace("people.pview", str(folder / "other.pview"))
        ).fetchall()
    assert found == pytest.approx(view.count("member").estimate)
