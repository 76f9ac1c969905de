"""Error against rows and budget."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hdpview.cli.main import app
from hdpview.errors import DataError


def test_parts_and_budgets_are_measured_and_drawn(tmp_path: Path) -> None:
    """Rows for each part at ε = 1 and for each budget on all rows; percents are of the part; a figure."""
    words = ["bench", "growth", "--datasets", "heavy-tails", "--rows", "1000,90000", "--epsilon", "1,4"]
    words += ["--methods", "histograms", "--workloads", "random-2d", "--trials", "1", "--workers", "1"]
    done = CliRunner().invoke(app, [*words, "-o", str(tmp_path), "--format", "json"])
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    assert [(row["varying"], row["rows"], row["epsilon"]) for row in rows] == [
        ("rows", 1_000, 1.0),
        ("rows", 30_000, 1.0),
        ("epsilon", 30_000, 1.0),
        ("epsilon", 30_000, 4.0),
    ]
    assert all(row["rmse_percent"] == pytest.approx(100 * row["rmse"] / row["rows"]) for row in rows)
    assert (tmp_path / "growth.svg").read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize("words", [["--datasets", "uniform,function"], ["--rows", "many"]])
def test_wrong_words_are_refused(words: list[str]) -> None:
    """Two tables, or rows that are no number."""
    done = CliRunner().invoke(app, ["bench", "growth", *words])
    assert isinstance(done.exception, DataError)
