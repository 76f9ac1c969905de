"""Accuracy of methods: methods × datasets × workloads × budgets × trials, each release with fresh noise.

A run is a list of tasks. Each task makes one release of a method with one budget and answers all workloads.
Finished cells are saved in a folder, and a later run with the same folder computes only the missing ones.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from hdpview.counts.sparse import SparseCounts
from hdpview.errors import MethodError
from hdpview.machine import available_cores
from hdpview.methods.protocol import Release
from hdpview.privacy.budget import exact_epsilon
from hdpview.privacy.randomness import Randomness
from hdpview.progress import Progress
from hdpview.view.blocks import Blocks
from hdpview_bench import cells as store
from hdpview_bench.cells import Cell
from hdpview_bench.contenders import contender
from hdpview_bench.datasets import dataset_counts
from hdpview_bench.relations import RelationErrors
from hdpview_bench.workers import Limits, Stopped, in_processes
from hdpview_bench.workload_errors import (
    NEAREST_WORKLOAD,
    PAPER_WORKLOADS,
    RELATIONS,
    WorkloadErrors,
    possible_workloads,
)

Row = dict[str, Any]
REFERENCE = "hdpview"  # relative errors are relative to the paper's method
RELATION_COLUMNS = tuple(field.name for field in fields(RelationErrors))
_NO_RELATION = "No attribute of this table explains 1% of the variance of another."
DEFAULT_LIMITS = Limits(seconds=300.0, memory_bytes=6 * 2**30)


@dataclass(frozen=True)
class Plan:
    """A comparison. `test_key` makes a run repeatable, in tests only; without it, noise is fresh.

    row_seconds: once releases of one method on one dataset have taken this long, further trials are skipped.
    """

    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    workloads: tuple[str, ...] = PAPER_WORKLOADS
    epsilons: tuple[str, ...] = ("1.0",)
    trials: int = 10
    data_dir: Path | None = None
    test_key: bytes | None = None
    row_seconds: float = 400.0


@dataclass(frozen=True)
class Task:
    """One release, and the workloads that question it."""

    dataset: str
    method: str
    epsilon: str
    trial: int
    workloads: tuple[str, ...]

    @property
    def keys(self) -> list[store.Key]:
        """The cells that the task fills."""
        return [cell.key for cell in self.cells("planned")]

    def cell(self, workload: str, kind: str, **values: Any) -> Cell:
        return Cell(
            self.dataset, self.method, workload, float(Fraction(self.epsilon)), self.trial, kind, **values
        )

    def cells(self, kind: str, **values: Any) -> list[Cell]:
        return [self.cell(workload, kind, **values) for workload in self.workloads]


def accuracy_rows(
    plan: Plan,
    folder: Path | None = None,
    limits: Limits = DEFAULT_LIMITS,
    n_workers: int | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """Run missing tasks, and return one row per dataset, method, workload and budget."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="hdpview-accuracy-") as temporary:
            return accuracy_rows(plan, Path(temporary), limits, n_workers, progress)
    known = store.load(folder)
    run([plan], folder, known, limits, n_workers, progress)
    return summary(plan, known)


def run(
    plans: Sequence[Plan],
    folder: Path,
    known: dict[store.Key, Cell],
    limits: Limits = DEFAULT_LIMITS,
    n_workers: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Run all missing tasks of the plans, and add their cells to `known` and the folder.

    The plans read the same folder of data and share limits and key.
    """
    waiting: list[Task] = []
    for plan in plans:
        waiting += missing_tasks(plan, known, {key for task in waiting for key in task.keys})
    row_seconds = plans[0].row_seconds
    work = partial(measure, plans[0].data_dir, plans[0].test_key)
    n_taken = 0

    def worth_trying() -> Iterator[Task]:
        nonlocal n_taken
        for task in waiting:
            n_taken += 1
            if not all(_is_settled(known, key, row_seconds) for key in task.keys):
                yield task

    for task, outcome in in_processes(work, worth_trying(), limits, n_workers or available_cores()):
        result = _without_result(task, outcome) if isinstance(outcome, Stopped) else outcome
        known.update((cell.key, cell) for cell in result)
        store.save((cell for cell in result if cell.kind != "failed"), folder)
        if progress is not None:
            progress((n_taken - 1) / len(waiting), "measuring accuracy")


def _without_result(task: Task, stopped: Stopped) -> list[Cell]:
    return task.cells("infeasible" if stopped.expected else "failed", reason=stopped.reason)


def missing_tasks(plan: Plan, known: dict[store.Key, Cell], planned: Container[store.Key] = ()) -> list[Task]:
    """The tasks that are neither known nor planned, by dataset and trial, so that failing tasks run once.

    If the software of a peer is missing, its known cells must suffice. Raises MethodError if there are none.
    """
    tasks = []
    contenders = {method: contender(method) for method in plan.methods}
    budgets = {epsilon: float(exact_epsilon(epsilon)) for epsilon in plan.epsilons}
    for dataset in plan.datasets:
        workloads = possible_workloads(
            list(plan.workloads), len(dataset_counts(dataset, plan.data_dir).schema)
        )
        for trial in range(plan.trials):
            for epsilon, budget in budgets.items():
                for method, one in contenders.items():
                    keys = {workload: (dataset, method, workload, budget, trial) for workload in workloads}
                    left = [
                        workload
                        for workload, key in keys.items()
                        if key not in planned and not _is_settled(known, key, plan.row_seconds)
                    ]
                    absent = one.why_absent() if left else None
                    if absent is not None:
                        if any((*keys[workload][:4], 0) not in known for workload in left):
                            raise MethodError(f"{method}: {absent}")
                        continue
                    groups = [[workload] for workload in left] if one.needs_workload else [left]
                    tasks += [
                        Task(dataset, method, epsilon, trial, tuple(group)) for group in groups if group
                    ]
    return tasks


def _is_settled(known: dict[store.Key, Cell], key: store.Key, row_seconds: float) -> bool:
    """Whether to skip a task: it is known, an earlier trial failed, or earlier trials took too long.

    Each trial counts with the time of the shortest of at least two: the first may include compilation.
    """
    earlier = [known[before] for trial in range(key[4]) if (before := (*key[:4], trial)) in known]
    shortest = min((cell.build_s or 0.0 for cell in earlier), default=0.0)
    took_long = len(earlier) > 1 and len(earlier) * shortest > row_seconds
    return key in known or took_long or any(cell.kind != "measured" for cell in earlier)


def measure(data_dir: Path | None, test_key: bytes | None, task: Task) -> list[Cell]:
    """Make one release and ask it all questions. Runs in its own process."""
    counts, errors = _table(task.dataset, data_dir)
    epsilon, one = exact_epsilon(task.epsilon), contender(task.method)
    if one.needs_workload:
        one = one.for_workload(NEAREST_WORKLOAD.get(task.workloads[0], task.workloads[0]))
    reason = one.why_infeasible(counts.schema, epsilon)
    if reason is not None:
        expected = {
            workload: one.expected_rmse(workload, counts.schema, epsilon)
            if workload in PAPER_WORKLOADS
            else None
            for workload in task.workloads
        }
        return [
            task.cell(workload, "infeasible" if rmse is None else "expected", rmse=rmse, reason=reason)
            for workload, rmse in expected.items()
        ]
    randomness = (
        Randomness.fresh() if test_key is None else Randomness.from_test_key(test_key + repr(task).encode())
    )
    started = _computing_seconds()
    released = one.release(counts, epsilon, randomness)
    seconds = _computing_seconds() - started
    errors_of = errors.measure(released, list(task.workloads))
    cells = [
        task.cell(workload, "measured", **measured, blocks=_n_blocks(released), build_s=seconds)
        for workload, measured in errors_of.items()
    ]
    absent = [workload for workload in task.workloads if workload not in errors_of]
    return cells + [task.cell(workload, "infeasible", reason=_NO_RELATION) for workload in absent]


def _computing_seconds() -> float:
    """CPU seconds of this process and its finished children, so that other work does not count."""
    used = os.times()
    return time.process_time() + used.children_user + used.children_system


def _n_blocks(released: Release) -> int | None:
    """Number of blocks of a release, if it has any."""
    components = getattr(released, "components", None)
    if isinstance(components, Blocks):
        return len(components)
    number: int | None = getattr(released, "n_blocks", None)
    return number


@lru_cache(maxsize=2)
def _table(dataset: str, data_dir: Path | None) -> tuple[SparseCounts, WorkloadErrors]:
    counts = dataset_counts(dataset, data_dir)
    return counts, WorkloadErrors(counts)


def summary(plan: Plan, known: dict[store.Key, Cell]) -> list[Row]:
    """One row per dataset, method, workload and budget: the mean RMSE over trials, and its ratio to the
    paper's method's.
    """
    groups: dict[tuple[str, str, str, float], list[Cell]] = defaultdict(list)
    for cell in known.values():
        groups[cell.key[:4]].append(cell)
    rows = []
    for epsilon in (float(exact_epsilon(text)) for text in plan.epsilons):
        for dataset in plan.datasets:
            for workload in plan.workloads:
                reference = _mean_rmse(groups.get((dataset, REFERENCE, workload, epsilon), []), plan.trials)
                for method in plan.methods:
                    cells = [
                        cell
                        for cell in groups.get((dataset, method, workload, epsilon), [])
                        if cell.trial < plan.trials
                    ]
                    if cells:
                        rows.append(_row(cells, plan.trials, reference))
    return rows


def _mean_rmse(cells: list[Cell], trials: int) -> float | None:
    errors = [cell.rmse for cell in cells if cell.rmse is not None and cell.trial < trials]
    return statistics.fmean(errors) if errors else None


def _row(cells: list[Cell], trials: int, reference: float | None) -> Row:
    """The paper's mean over trials; the time is the median, because the first also loads libraries."""
    best = min(cells, key=lambda cell: ("measured", "expected", "infeasible", "failed").index(cell.kind))
    used = [cell for cell in cells if cell.kind == best.kind]
    reasons = [cell.reason for cell in cells if cell.reason]
    blocks = [cell.blocks for cell in used if cell.blocks is not None]
    times = [cell.build_s for cell in used if cell.build_s is not None]
    return {
        "dataset": best.dataset,
        "method": best.method,
        "workload": best.workload,
        "epsilon": best.epsilon,
        "trials": len(times),
        **_errors(used, trials, reference),
        "blocks": statistics.fmean(blocks) if blocks else None,
        "build_s": statistics.median(times) if times else None,
        "kind": best.kind,
        "reason": reasons[0] if reasons else None,
    }


def _errors(used: list[Cell], trials: int, reference: float | None) -> Row:
    """Means over trials: of the RMSE, or of the three figures of `relations`."""
    if used[0].workload == RELATIONS:
        return {name: _mean_of(used, name) for name in RELATION_COLUMNS}
    rmse = _mean_rmse(used, trials)
    return {
        "rmse": rmse,
        "relative_rmse": rmse / reference if rmse is not None and reference else None,
    }


def _mean_of(used: list[Cell], name: str) -> float | None:
    values = [value for cell in used if (value := getattr(cell, name)) is not None]
    return statistics.fmean(values) if values else None
