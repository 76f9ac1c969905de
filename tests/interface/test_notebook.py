"""The notebook in examples/, and the programs of docs/sql.md, run as a person would run them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from pages import execute_notebook, structure
from people import write_people

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))


@pytest.mark.filterwarnings("default")  # Jupyter's own
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_show_what_they_print(path: Path, tmp_path: Path) -> None:
    """Every cell succeeds in an empty folder, and its outputs are those in the file, numbers aside.

    `python tests/interface/pages.py examples/explore.ipynb` renews outputs that changed for a good reason.
    """
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
    columns, of pictures everything.
    """
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


def test_programs_of_the_language_page_run_as_written(tmp_path: Path) -> None:
    """docs/sql.md shows what works."""
    root = Path(__file__).parents[2]
    schema = re.search(
        r"<!-- file: people.toml -->\n```toml\n(.*?)```",
        (root / "README.md").read_text(encoding="utf-8"),
        re.DOTALL,
    )
    programs = re.findall(
        r"<!-- run -->\n```python\n(.*?)```", (root / "docs/sql.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert schema is not None
    assert programs
    write_people(tmp_path / "people.csv")
    (tmp_path / "people.toml").write_text(schema[1], encoding="utf-8")
    build = (
        "import hdpview as hv; hv.build('people.csv', hv.Schema.load('people.toml'), "
        "1.0).save('people.pview')"
    )
    for program in [build, *programs]:
        done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, program + done.stderr
