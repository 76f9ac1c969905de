"""The notebook in examples/, run as a person would run it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from people import write_people

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples").glob("*.ipynb"))


@pytest.mark.filterwarnings("default")  # Jupyter's own
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run_from_top_to_bottom(path: Path, tmp_path: Path) -> None:
    """Every cell succeeds in an empty folder, tables and pictures are shown, and the file in the repository
    carries no output.
    """
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells)
    NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    ).execute()
    pages = [
        output["data"].get("text/html", "")
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "data" in output
    ]
    assert any("<svg" in page for page in pages), "the view shows itself"
    assert any("<table" in page for page in pages), "tables are shown"
    assert sum("vega" in page for page in pages) == 3, "and three pictures"
    assert not [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output["output_type"] == "error"
    ]


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
    build = "import hdpview as hv; hv.build('people.csv', hv.Schema.load('people.toml'), 1.0).save('people.pview')"
    for program in [build, *programs]:
        done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, program + done.stderr
