"""Tasks in processes with limits: results come back, and what goes wrong stops one task alone."""

from __future__ import annotations

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
    """A task that does what its name says."""
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


def test_one_process_does_many_tasks_and_survives_refusals_and_mistakes() -> None:
    """Refusals in words and mistakes end a task, not its process; only mistakes count as unexpected."""
    found = outcomes("one", "refuse", "stumble", "two")
    assert found["one"] == found["two"]
    assert found["refuse"] == Stopped("Too large; use a smaller one.")
    assert found["stumble"] == Stopped("ZeroDivisionError: a mistake", expected=False)


def test_memory_beyond_the_limit_is_refused_and_the_next_task_goes_on() -> None:
    """Half a GiB does not fit into a limit of a quarter, and does into one."""
    stopped = outcomes("hoard", "one", limits=Limits(60, 2**28))
    assert stopped["hoard"] == Stopped("It needed more than the limit of 0.25 GiB of memory.")
    assert isinstance(stopped["one"], int)
    assert outcomes("hoard", limits=Limits(60, 2**30)) == {"hoard": 2**26}


def test_a_task_that_takes_too_long_or_dies_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process is killed at its deadline, or found dead; a new one does the rest."""
    monkeypatch.setattr("hdpview_bench.workers._START_SECONDS", 0.0)
    assert outcomes("sleep", limits=Limits(0.1, 2**30)) == {"sleep": Stopped("It did not end within 0.5 s.")}
    monkeypatch.undo()
    found = outcomes("compute", "one", limits=Limits(1.0, 2**30))
    assert found["compute"] == Stopped("It needed more than the limit of 1 s of computing time.")
    assert isinstance(found["one"], int)
    found = outcomes("die", "one")
    assert isinstance(found["die"], Stopped)
    assert "exit code 9" in found["die"].reason
    assert isinstance(found["one"], int)


def test_tasks_are_taken_only_when_a_process_is_free() -> None:
    """With one process, the second task is chosen after the first result is known: a runner may then leave it
    out.
    """
    known: list[str] = []

    def tasks() -> Iterator[str]:
        yield "refuse"
        assert known == ["refuse"]
        yield "one"

    for task, _ in in_processes(act, tasks(), GENEROUS, 1):
        known.append(task)
    assert known == ["refuse", "one"]


def test_an_abandoned_run_leaves_no_process_behind() -> None:
    """Closing the results ends the processes."""
    results = in_processes(act, itertools.repeat("one"), GENEROUS, 1)
    _, pid = next(results)
    results.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_limits_of_memory_are_written_as_people_do() -> None:
    """Units are powers of 1024; anything else is refused in words."""
    assert memory_bytes("4GB") == 4 * 2**30
    assert memory_bytes(" 1.5 gib ") == 3 * 2**29
    with pytest.raises(DataError, match="written like 4GB"):
        memory_bytes("much")
