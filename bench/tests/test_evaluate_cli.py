"""`bench accuracy` and `bench paper` on the command line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from hdpview.cli.main import app
from hdpview.errors import DataError, MethodError


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A table of 100^4 cells: too many for a method that lays them all out."""
    rng = np.random.default_rng(2)
    wide = {name: rng.normal(size=200) for name in ("age", "workclass", "race", "capital-gain")}
    pq.write_table(pa.table(wide), tmp_path / "adult.parquet")
    return tmp_path


def test_accuracy_prints_rows_for_programs_and_reasons_for_people(data_dir: Path) -> None:
    """JSON has the documented keys; the table tells why a method has no figure; both come from one folder
    without measuring twice.
    """
    words = [
        "bench",
        "accuracy",
        "--datasets",
        "small-adult",
        "--methods",
        "hdpview,dawa",
        "--data-dir",
        str(data_dir),
        "--epsilon",
        "1,2",
    ]
    words += ["--workloads", "range-1d", "--trials", "1", "--workers", "1", "-o", str(data_dir / "out")]
    done = CliRunner().invoke(app, [*words, "--format", "json"])
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    assert [(row["method"], row["epsilon"], row["kind"]) for row in rows] == [
        ("hdpview", 1.0, "measured"),
        ("dawa", 1.0, "infeasible"),
        ("hdpview", 2.0, "measured"),
        ("dawa", 2.0, "infeasible"),
    ]
    assert list(rows[0])[:9] == [
        "dataset",
        "method",
        "workload",
        "epsilon",
        "trials",
        "rmse",
        "relative_rmse",
        "blocks",
        "build_s",
    ]
    before = {path.name: path.stat().st_mtime_ns for path in (data_dir / "out/cells").iterdir()}
    done = CliRunner().invoke(app, words)
    assert "dawa on small-adult: DAWA lays out all" in " ".join(done.stdout.split())
    assert {path.name: path.stat().st_mtime_ns for path in (data_dir / "out/cells").iterdir()} == before


@pytest.mark.parametrize(
    ("words", "problem", "sentence"),
    [
        (["accuracy", "--datasets", "hospitl"], DataError, "Did you mean 'hospital'"),
        (["accuracy", "--methods", "hdpviev"], MethodError, "Did you mean 'hdpview'"),
        (["accuracy", "--memory-limit", "lots"], DataError, "written like 4GB"),
        (["paper", "--datasets", "jm"], DataError, "Did you mean 'jm1'"),
    ],
)
def test_wrong_words_are_refused_with_the_right_ones(
    words: list[str], problem: type[Exception], sentence: str
) -> None:
    """Before anything is measured. The command turns these into one sentence and exit code 2."""
    done = CliRunner().invoke(app, ["bench", *words])
    assert isinstance(done.exception, problem)
    assert re.search(sentence, str(done.exception))
