"""Run tasks in processes with limits of time and memory; stopping one task affects no other.

A process runs many tasks, so that loaded modules are reused; a stopped process is replaced.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Generic, TypeVar

from hdpview.errors import DataError, HdpviewError, quoted

Task = TypeVar("Task")
Result = TypeVar("Result")
_PATIENCE = 5.0
_START_SECONDS = 60.0  # seconds of extra time for a process's first task, which loads everything
_ONE_THREAD = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
)  # processes already share the cores


@dataclass(frozen=True)
class Limits:
    """Limits of one task: seconds of CPU time, and bytes beyond the initial memory of its process.

    CPU time, so that other work on the machine does not decide what is feasible. In wall-clock time a task
    may take `_PATIENCE` times as long.
    """

    seconds: float
    memory_bytes: int


def memory_bytes(text: str) -> int:
    """4GB, 500MB, 1.5GiB in bytes; units are powers of 1024."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT])i?B?\s*", text, re.IGNORECASE)
    if match is None:
        raise DataError(f"A limit of memory is written like 4GB or 500MB, not {quoted(text)}.")
    return int(float(match[1]) * 1024 ** (1 + "KMGT".index(match[2].upper())))


@dataclass(frozen=True)
class Stopped:
    """A task without a result, and the reason. `expected`: a limit or a refusal, not a bug."""

    reason: str
    expected: bool = True


@dataclass
class _Worker(Generic[Task]):
    process: BaseProcess
    pipe: Connection
    task: Task | None = None
    deadline: float = 0.0
    has_started: bool = False


def in_processes(
    work: Callable[[Task], Result], tasks: Iterator[Task], limits: Limits, n_workers: int
) -> Iterator[tuple[Task, Result | Stopped]]:
    """Yield results as they arrive. The next task is taken only when a process is free."""
    workers: list[_Worker[Task]] = []
    try:
        while True:
            _hand_out(work, tasks, limits, n_workers, workers)
            busy = [worker for worker in workers if worker.task is not None]
            if not busy:
                return
            wait(
                [worker.pipe for worker in busy],
                timeout=max(0.0, min(worker.deadline for worker in busy) - time.monotonic()),
            )
            for worker in busy:
                outcome = _outcome(worker, limits)
                if outcome is not None:
                    if not worker.process.is_alive():
                        worker.pipe.close()
                        workers.remove(worker)
                    task, worker.task = worker.task, None
                    assert task is not None
                    yield task, outcome[0]
    finally:
        for worker in workers:
            _end(worker)


def _hand_out(
    work: Callable[[Task], Any],
    tasks: Iterator[Task],
    limits: Limits,
    n_workers: int,
    workers: list[_Worker[Task]],
) -> None:
    idle = [worker for worker in workers if worker.task is None]
    while idle or len(workers) < n_workers:
        task = next(tasks, None)
        if task is None:
            return
        if idle:
            worker = idle.pop()
        else:
            worker = _start(work, limits)
            workers.append(worker)
        worker.pipe.send(task)
        worker.task = task
        worker.deadline = (
            time.monotonic() + _PATIENCE * limits.seconds + (0.0 if worker.has_started else _START_SECONDS)
        )
        worker.has_started = True


def _outcome(worker: _Worker[Any], limits: Limits) -> tuple[Any] | None:
    """The outcome of a busy process; None while it works."""
    if worker.pipe.poll():
        try:
            return (worker.pipe.recv(),)
        except (EOFError, OSError):
            worker.process.join()
            return (Stopped(_how_it_ended(worker.process.exitcode, limits)),)
    if time.monotonic() < worker.deadline:
        return None
    _end(worker)
    return (Stopped(f"It did not end within {_PATIENCE * limits.seconds:g} s."),)


def _how_it_ended(exit_code: int | None, limits: Limits) -> str:
    if exit_code == -getattr(signal, "SIGXCPU", 0):
        return f"It needed more than the limit of {limits.seconds:g} s of computing time."
    return f"The process ended by itself (exit code {exit_code}), perhaps because memory ran out."


def _start(work: Callable[[Any], Any], limits: Limits) -> _Worker[Any]:
    context = multiprocessing.get_context("spawn")  # forking a process with threads may hang
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(work, theirs, limits), daemon=True)
    with _single_threaded():
        process.start()
    theirs.close()
    return _Worker(process, ours)


def _end(worker: _Worker[Any]) -> None:
    worker.process.kill()
    worker.process.join()
    worker.pipe.close()


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Processes started inside use one thread for linear algebra."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _serve(work: Callable[[Any], Any], pipe: Connection, limits: Limits) -> None:
    """Run one task after another until the other end closes."""
    while True:
        try:
            task = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        _set_limits(limits)
        outcome: Any
        try:
            outcome = work(task)
        except KeyboardInterrupt:
            return
        except HdpviewError as problem:
            outcome = Stopped(str(problem))
        except MemoryError:
            outcome = Stopped(
                f"It needed more than the limit of {limits.memory_bytes / 2**30:g} GiB of memory."
            )
        except Exception as problem:
            outcome = Stopped(f"{type(problem).__name__}: {problem}", expected=False)
        pipe.send(outcome)


def _set_limits(limits: Limits) -> None:
    """Limit further CPU time and address space. If the system does not support this, only wall-clock time is
    limited.
    """
    try:
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (ImportError, OSError):
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    for kind, limit in (
        (resource.RLIMIT_AS, pages * resource.getpagesize() + limits.memory_bytes),
        (resource.RLIMIT_CPU, math.ceil(used.ru_utime + used.ru_stime + limits.seconds)),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (limit, resource.getrlimit(kind)[1]))
