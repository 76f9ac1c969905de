"""The notebook in examples/, run as a person would run it."""

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from pages import execute_notebook, structure

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))


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
