"""The runner of comparisons: its rows, skipped tasks and their reasons, and resuming a stopped run."""

import os
import signal
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commands import bench, rows_of

from hdpview.domain import Schema
from hdpview.errors import DataError, MethodError, QueryError
from hdpview.privacy.randomness import Randomness
from hdpview_bench import accuracy, cells
from hdpview_bench.accuracy import Plan, Task, accuracy_rows, measure, missing_tasks, summary
from hdpview_bench.cells import Cell
from hdpview_bench.contenders import MethodContender, contender
from hdpview_bench.datasets import DATASETS, Dataset
from hdpview_bench.workers import Limits

LIMITS = Limits(600, 4 * 2**30)  # a first run compiles kernels


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    rng = np.random.default_rng(5)
    columns = {f"V{i}": rng.normal(size=400) for i in range(1, 6)} | {"Class": rng.integers(1, 3, 400)}
    pq.write_table(pa.table(columns), tmp_path / "phoneme.parquet")
    return tmp_path


def plan(data_dir: Path, **changes: Any) -> Plan:
    settings = {"datasets": ("phoneme",), "methods": ("hdpview",), "trials": 2, "data_dir": data_dir}
    return Plan(**(settings | changes))


def test_rows_have_the_documented_keys_and_repeat_with_a_key(data_dir, tmp_path):
    methods, workloads = ("hdpview", "hdpview:bias_ratio=3.0"), ("range-1d", "random-4d")
    asked = plan(data_dir, test_key=b"rows", workloads=workloads, methods=methods)
    rows = accuracy_rows(asked, tmp_path / "a", LIMITS, 2)
    documented = "dataset method workload epsilon trials rmse relative_rmse blocks build_s"
    assert [" ".join(row).startswith(documented) for row in rows] == [True] * 4
    assert {(row["kind"], row["trials"]) for row in rows} == {("measured", 2)}
    saved = cells.load(tmp_path / "a").values()
    by_method = {(row["method"], row["workload"]): row for row in rows}
    for (method, workload), row in by_method.items():
        errors = [cell.rmse for cell in saved if (cell.method, cell.workload) == (method, workload)]
        assert row["rmse"] == pytest.approx(np.mean(errors))
        ours = by_method["hdpview", workload]["rmse"]
        assert row["relative_rmse"] == pytest.approx(row["rmse"] / ours)
    again = accuracy_rows(asked, tmp_path / "b", LIMITS, 1)
    assert [row["rmse"] for row in again] == [row["rmse"] for row in rows]


def test_noise_is_fresh_unless_a_key_is_given(data_dir):
    task = Task("phoneme", "hdpview", "1.0", 0, ("random-2d",))
    assert measure(data_dir, None, task)[0].rmse != measure(data_dir, None, task)[0].rmse


def test_a_killed_run_goes_on_where_it_stopped(data_dir, tmp_path):
    out = tmp_path / "out"
    words = "bench accuracy --datasets phoneme --methods hdpview --trials 200 --workers 1"
    command = [sys.executable, "-m", "hdpview", *words.split(), "--data-dir", data_dir, "-o", out]
    run = subprocess.Popen(command, start_new_session=True)
    deadline = time.monotonic() + 600
    while len(list(out.glob("cells/*.parquet"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    before = {path: path.read_bytes() for path in out.glob("cells/*.parquet")}
    finished = {cell.trial for cell in cells.load(out).values()}
    assert 2 <= len(finished) < 200
    trials = max(finished) + 3
    left = missing_tasks(plan(data_dir, trials=trials), cells.load(out))
    assert {task.trial for task in left} == set(range(trials)) - finished
    rows = accuracy_rows(plan(data_dir, trials=trials), out, LIMITS, 1)
    assert {row["trials"] for row in rows} == {trials}
    assert all(path.read_bytes() == content for path, content in before.items())


def test_what_a_method_cannot_do_is_a_row_with_its_reason(data_dir, monkeypatch):
    wide = {f"c{i}": np.arange(400) % 97 + i for i in range(8)}
    pq.write_table(pa.table(wide), data_dir / "electricity.parquet")
    monkeypatch.setitem(DATASETS, "electricity", Dataset("Electricity", "electricity", 100))
    task = Task("electricity", "hdpview", "1000", 0, ("range-1d", "marginal-2"))
    measured = measure(data_dir, None, task)
    assert {cell.kind for cell in measured} == {"infeasible"}
    assert all("random converge would keep cutting" in cell.reason for cell in measured)
    asked = plan(data_dir, datasets=("electricity",), epsilons=("1000",))
    rows = summary(asked, {cell.key: cell for cell in measured})
    keys = ("kind", "rmse", "relative_rmse", "trials")
    assert [[row[key] for key in keys] for row in rows] == [["infeasible", None, None, 0]] * 2


def test_known_errors_stand_in_for_releases_that_cannot_be_made(data_dir, monkeypatch):
    class Vast(MethodContender):
        def why_infeasible(self, schema: Schema, epsilon: Fraction) -> str | None:
            return f"{schema.n_cells} cells are too many."

        def expected_rmse(self, workload: str, schema: Schema, epsilon: Fraction) -> float | None:
            return 7.0 / float(epsilon) if workload == "range-1d" else None

    named = {"vast": Vast("hdpview")}
    monkeypatch.setattr(accuracy, "contender", lambda text: named.get(text) or contender(text))
    measured = measure(data_dir, None, Task("phoneme", "vast", "0.5", 0, ("range-1d", "marginal-2")))
    assert [(cell.kind, cell.rmse) for cell in measured] == [("expected", 14.0), ("infeasible", None)]
    ours = Cell("phoneme", "hdpview", "range-1d", 0.5, 0, "measured", rmse=7.0, build_s=0.1)
    asked = plan(data_dir, methods=("vast", "hdpview"), epsilons=("0.5",))
    rows = summary(asked, {cell.key: cell for cell in [*measured, ours]})[:2]
    told = [(row["method"], row["kind"], row["relative_rmse"]) for row in rows]
    assert told == [("vast", "expected", 2.0), ("hdpview", "measured", 1.0)]
    assert "too many" in rows[0]["reason"]


def test_a_cell_beyond_its_limit_is_infeasible_and_the_run_goes_on(data_dir, tmp_path, monkeypatch):
    monkeypatch.setattr("hdpview_bench.workers._START_SECONDS", 0.0)
    asked = plan(data_dir, workloads=("range-1d",), trials=5)
    (row,) = accuracy_rows(asked, tmp_path / "out", Limits(0.001, 2**30), 1)
    assert (row["kind"], row["reason"]) == ("infeasible", "It did not end within 0.005 s.")
    assert len(cells.load(tmp_path / "out")) == 1


def test_methods_built_for_a_workload_get_one_release_each(data_dir, monkeypatch):
    monkeypatch.setattr(MethodContender, "needs_workload", property(lambda self: bool(self.settings)))
    methods, workloads = ("hdpview", "hdpview:bias_ratio=2.0"), ("range-1d", "prefix-2d")
    tasks = missing_tasks(plan(data_dir, methods=methods, trials=1, workloads=workloads), {})
    apart = [(methods[1], (workload,)) for workload in workloads]
    assert [(task.method, task.workloads) for task in tasks] == [(methods[0], workloads), *apart]


def test_trials_end_when_a_row_has_taken_long_enough(data_dir):
    slow = [
        Cell("phoneme", "hdpview", "range-1d", 1.0, i, "measured", rmse=1.0, build_s=3.0) for i in range(2)
    ]
    known = {cell.key: cell for cell in slow[:1]}
    two = {"methods": ("hdpview", "identity"), "workloads": ("range-1d",)}
    asked = plan(data_dir, **two, trials=4, row_seconds=5.0)
    assert [task.trial for task in missing_tasks(asked, known) if task.method == "hdpview"] == [1, 2, 3]
    known |= {cell.key: cell for cell in slow}
    left = [(task.method, task.trial) for task in missing_tasks(asked, known)]
    assert left == [("identity", trial) for trial in range(4)]


def test_peers_take_part_where_they_are_named(data_dir, tmp_path, monkeypatch):
    asked = plan(data_dir, methods=("mst",), workloads=("range-1d",), trials=2)
    monkeypatch.setenv("HDPVIEW_PEERS_PYTHON", sys.executable)

    def stand_in(name: str, counts: Any, epsilon: float, seconds: float) -> Any:
        assert (name, epsilon) == ("mst", 1.0)
        return contender("hdpview").release(counts, Fraction(1), Randomness.from_test_key(b"peer"))

    monkeypatch.setattr("hdpview_bench.contenders.peer_release", stand_in)
    first = missing_tasks(asked, {})[0]
    (cell,) = measure(data_dir, None, first)
    assert cell.kind == "measured"
    assert (cell.rmse or 0) > 0
    monkeypatch.delenv("HDPVIEW_PEERS_PYTHON")
    monkeypatch.setattr("hdpview_bench.peers.find_spec", lambda name: None)
    with pytest.raises(MethodError, match=r"mst: It is not installed: pip install 'hdpview-bench\[peers\]'"):
        accuracy_rows(asked, tmp_path, LIMITS, 1)
    cells.save([cell], tmp_path)
    (row,) = accuracy_rows(asked, tmp_path, LIMITS, 1)
    assert (row["trials"], row["rmse"], row["reason"]) == (1, cell.rmse, None)


def test_plans_that_overlap_measure_a_cell_once(data_dir, tmp_path):
    plans = [
        plan(data_dir, trials=1, workloads=("range-1d", "random-2d")),
        plan(data_dir, trials=2, workloads=("random-2d", "random-3d")),
    ]
    known: dict[cells.Key, Cell] = {}
    accuracy.run(plans, tmp_path, known, LIMITS, 1)
    assert known == cells.load(tmp_path)
    saved = [row for path in (tmp_path / "cells").iterdir() for row in pq.read_table(path).to_pylist()]
    once = [("random-2d", 0), ("random-2d", 1), ("random-3d", 0), ("random-3d", 1), ("range-1d", 0)]
    assert sorted((row["workload"], row["trial"]) for row in saved) == once


@pytest.mark.parametrize(
    ("changes", "problem", "words"),
    [
        ({"datasets": ("phonem",)}, DataError, "Did you mean 'phoneme'"),
        ({"methods": ("hdpviev",)}, MethodError, "Did you mean 'hdpview'"),
        ({"methods": ("hdpview:bias_ration=2",)}, MethodError, "Did you mean 'bias_ratio'"),
        ({"methods": ("hdpview:fast",)}, MethodError, "written as name:setting=value"),
        ({"workloads": ("random-2",)}, QueryError, "Did you mean 'random-2d'"),
    ],
)
def test_names_that_do_not_exist_are_refused_before_anything_runs(data_dir, changes, problem, words):
    with pytest.raises(problem, match=words):
        accuracy_rows(plan(data_dir, **changes))


def test_the_command_prints_rows_for_programs_and_reasons_for_people(tmp_path):
    rng = np.random.default_rng(2)
    wide = {name: rng.normal(size=200) for name in ("age", "workclass", "race", "capital-gain")}
    pq.write_table(pa.table(wide), tmp_path / "adult.parquet")
    words = "accuracy --datasets small-adult --methods hdpview,dawa --epsilon 1,2 --workloads range-1d"
    words = f"{words} --trials 1 --workers 1 --data-dir {tmp_path} -o {tmp_path / 'out'}"
    assert [(row["method"], row["epsilon"], row["kind"]) for row in rows_of(words)] == [
        ("hdpview", 1.0, "measured"), ("dawa", 1.0, "infeasible"), ("hdpview", 2.0, "measured"),
        ("dawa", 2.0, "infeasible"),
    ]  # fmt: skip
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out/cells").iterdir()}
    assert "dawa on small-adult: DAWA lays out all" in " ".join(bench(words).stdout.split())
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out/cells").iterdir()} == before
