"""Tasks in processes with limits: results come back, and a failure stops only its own task."""

import itertools
import os
import time
from collections.abc import Iterator

import numpy as np
import pytest

from hdpview.errors import DataError, MethodError
from hdpview_bench.workers import Limits, Stopped, in_processes, memory_bytes

GENEROUS = Limits(seconds=60, memory_bytes=2 * 2**30)


def act(task: str) -> int:
    if task == "sleep":
        time.sleep(600)
    if task == "compute":
        while True:
            pass
    if task == "hoard":
        return int(np.ones(2**26).sum())  # 0.5 GiB
    if task == "die":
        os._exit(9)
    if task == "refuse":
        raise MethodError("Too large; use a smaller one.")
    if task == "stumble":
        raise ZeroDivisionError("a mistake")
    return os.getpid()


def outcomes(*tasks: str, limits: Limits = GENEROUS, n_workers: int = 1) -> dict[str, int | Stopped]:
    return dict(in_processes(act, iter(tasks), limits, n_workers))


def test_one_process_does_many_tasks_and_survives_refusals_and_mistakes():
    results = outcomes("one", "refuse", "stumble", "two")
    assert results["one"] == results["two"]
    assert results["refuse"] == Stopped("Too large; use a smaller one.")
    assert results["stumble"] == Stopped("ZeroDivisionError: a mistake", expected=False)


def test_memory_beyond_the_limit_is_refused_and_the_next_task_goes_on():
    stopped = outcomes("hoard", "one", limits=Limits(60, 2**28))
    assert stopped["hoard"] == Stopped("It needed more than the limit of 0.25 GiB of memory.")
    assert isinstance(stopped["one"], int)
    assert outcomes("hoard", limits=Limits(60, 2**30)) == {"hoard": 2**26}


def test_a_task_that_takes_too_long_or_dies_is_replaced(monkeypatch):
    monkeypatch.setattr("hdpview_bench.workers._START_SECONDS", 0.0)
    assert outcomes("sleep", limits=Limits(0.1, 2**30)) == {"sleep": Stopped("It did not end within 0.5 s.")}
    monkeypatch.undo()
    results = outcomes("compute", "one", limits=Limits(1.0, 2**30))
    assert results["compute"] == Stopped("It needed more than the limit of 1 s of computing time.")
    assert isinstance(results["one"], int)
    results = outcomes("die", "one")
    assert isinstance(results["die"], Stopped)
    assert "exit code 9" in results["die"].reason
    assert isinstance(results["one"], int)


def test_tasks_are_taken_only_when_a_process_is_free():
    known: list[str] = []

    def tasks() -> Iterator[str]:
        yield "refuse"
        assert known == ["refuse"]
        yield "one"

    for task, _ in in_processes(act, tasks(), GENEROUS, 1):
        known.append(task)
    assert known == ["refuse", "one"]


def test_an_abandoned_run_leaves_no_process_behind():
    results = in_processes(act, itertools.repeat("one"), GENEROUS, 1)
    _, pid = next(results)
    results.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_limits_of_memory_are_written_as_people_do():
    assert memory_bytes("4GB") == 4 * 2**30
    assert memory_bytes(" 1.5 gib ") == 3 * 2**29
    with pytest.raises(DataError, match="written like 4GB"):
        memory_bytes("much")
