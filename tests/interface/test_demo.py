"""The demo and the notebook in examples/, run as a person would run them."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from pages import execute_notebook, structure


def test_commands_that_the_demo_suggests_work_as_printed(tmp_path):
    program = Path(sys.executable).parent / "hdpview"
    environment = {**os.environ, "PATH": "/usr/bin:/bin", "COLUMNS": "110"}

    def run(command: list[str]) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    printed = run([str(program), "demo"])
    suggested = [line.strip() for line in printed.split("5. Try it yourself")[1].splitlines() if line.strip()]
    assert len(suggested) == 6
    assert all(line.startswith(str(program)) for line in suggested)
    for line in suggested:
        if " explore " not in line and "your-table" not in line:
            run(["bash", "-c", line])
    assert (tmp_path / "hdpview-demo/admissions.html").stat().st_size > 100_000


NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))


# A notebook builds with fresh noise, which may reorder its rows.
@pytest.mark.flaky(reruns=3)
@pytest.mark.filterwarnings("default")  # Jupyter's own
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_show_what_they_print(path, tmp_path):
    """`python tests/interface/pages.py examples/explore.ipynb` renews the outputs."""
    kept = nbformat.read(path, as_version=4)
    now = execute_notebook(path, tmp_path)
    shown = [output for cell in kept.cells for output in cell.get("outputs", [])]
    assert sum("<svg" in output.get("data", {}).get("text/html", "") for output in shown) == 1, "a view"
    assert sum("<table" in output.get("data", {}).get("text/html", "") for output in shown) > 4, "tables"
    assert sum("image/svg+xml" in output.get("data", {}) for output in shown) == 3, "pictures"
    for before, after in zip(kept.cells, now.cells, strict=True):
        assert _outline(before) == _outline(after), before.source


def _outline(cell: Any) -> list[Any]:
    """What the outputs of a cell are, without what noise changes: of synthetic records that is all but their
    columns, of pictures everything."""
    outlines: list[Any] = []
    for output in cell.get("outputs", []):
        assert output["output_type"] != "error"
        texts = {"text/plain": output["text"]} if "text" in output else output["data"]
        # Frames are wrapped as text, by the width of their numbers, and are whole as HTML.
        table = texts.get("text/html", "")
        words = structure(re.sub(r"\s*<[^>]*>\s*", " ", table) if "<table" in table else texts["text/plain"])
        if "synthetic" in cell.metadata.get("tags", []):
            words = structure(table.split("</thead>")[0])
        outlines.append((output["output_type"], sorted(texts), words.split()))
    return outlines
