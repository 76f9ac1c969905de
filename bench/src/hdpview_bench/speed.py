"""Time the fits of the default method, answers, and the start of the command line."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from hdpview.build import release
from hdpview.domain import Integer, Ordered, Schema
from hdpview.methods import Hdpview, Mixture
from hdpview.methods.mixture import MixtureBuild
from hdpview.methods.mixture.plan import effort_for
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.randomness import Randomness
from hdpview.pview import PView
from hdpview.query.evaluate import run
from hdpview.query.interval.statistics import histograms
from hdpview.query.question.where import name_in_sql
from hdpview_bench.datasets import dataset_counts
from hdpview_bench.growing import EPSILON, Row


def random_ranges(
    schema: Schema, n_questions: int, n_attributes: int, seed: int = 0
) -> list[dict[str, tuple[Any, Any]]]:
    """Questions with both ends of each range drawn uniformly, over attributes chosen at random; schemas of
    whole numbers and categories.
    """
    rng = np.random.default_rng(seed)
    ordered = [a for a in schema if isinstance(a, Integer)]
    questions = []
    for _ in range(n_questions):
        chosen = rng.choice(len(ordered), min(n_attributes, len(ordered)), replace=False)
        ends = {
            ordered[i].name: np.sort(rng.integers(ordered[i].min, ordered[i].max + 1, 2)).tolist()
            for i in chosen
        }
        questions.append({name: (low, high) for name, (low, high) in ends.items()})
    return questions


def fit_row(name: str, data_dir: Path | None) -> Row:
    """Time of the default method's fit, and the share that its matrix products alone would take: 6 · cells ·
    components · rounds operations per fit, at the speed of numpy.dot.
    """
    counts = dataset_counts(name, data_dir)
    build = MixtureBuild(counts, (), Mechanism(EPSILON, Randomness.fresh()), None)
    measured = build.measure_histograms()
    build.measure_tables(measured)
    cells = sum(one.noisy.size for one in measured.tables)
    effort = effort_for(cells)
    build.mixture(measured)  # compiles the kernels
    started = time.process_time()
    build.mixture(measured)
    seconds = time.process_time() - started
    work = 6 * cells * effort.n_components * effort.rounds * effort.passes * effort.members
    bound = work / _operations_per_second()
    return {
        "dataset": name,
        "tables": len(measured.tables),
        "cells": cells,
        "components": effort.n_components,
        "fits": effort.members,
        "rounds of each": effort.rounds * effort.passes,
        "fit_cpu_s": round(seconds, 2),
        "bound_cpu_s": round(bound, 2),
        "share_of_bound": round(bound / seconds, 2),
    }


def _operations_per_second() -> float:
    """Operations per second of a product of two single-precision matrices on one core."""
    rng = np.random.default_rng(0)
    left, right = rng.random((2, 1024, 1024), dtype=np.float32)
    with threadpool_limits(1, user_api="blas"):
        times = []
        for _ in range(8):
            started = time.process_time()
            left @ right
            times.append(time.process_time() - started)
    return float(2 * 1024**3 / statistics.median(times))


def answer_rows(name: str, data_dir: Path | None, repeats: int = 7) -> Iterator[Row]:
    """Time of typical queries on a view by the default method and one by the paper's, and of the command
    line.

    ms: wall-clock time. cpu_ms: CPU time, which other work on the machine affects less.
    """
    counts = dataset_counts(name, data_dir)
    for method in (Mixture(), Hdpview()):
        view = release(counts, EPSILON, method, Randomness.fresh())
        yield from _language_rows(view, f"{name}, {method.name}, {view.n_components:,} components", repeats)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "view.pview")
            view.save(path)
            yield _timed(
                f"open the view and check it ({name}, {method.name})", partial(PView.open, path), repeats
            )
            for words in (["--help"], ["query", str(path), "SELECT COUNT(*) FROM view"]):
                command = partial(_run, [sys.executable, "-m", "hdpview", *words])
                yield _timed(f"hdpview {words[0]} ({name}, {method.name})", command, repeats)


def _language_rows(view: PView, title: str, repeats: int) -> Iterator[Row]:
    """Time of many counts, all histograms under a filter, a large group-by, statistics and synthetic rows."""
    questions = random_ranges(view.schema, 1000, 3)
    yield _timed(
        f"1,000 random 3-D counts with intervals ({title})", lambda: _counts(view, questions), repeats
    )
    wide = sorted((a for a in view.schema if isinstance(a, Integer)), key=lambda a: -a.size)[:2]
    where: dict[str, tuple[int, int]] = {a.name: (a.min, a.min + a.size // 2) for a in wide}
    yield _timed(
        f"all {len(view.schema)} histograms under a two-attribute filter, with intervals ({title})",
        lambda: histograms(view, where),
        repeats,
    )
    if len(wide) == 2:
        names = ", ".join(name_in_sql(a.name) for a in wide)
        statement = f"SELECT {names}, COUNT(*) AS n FROM view GROUP BY {names}"
        groups = " × ".join(str(a.size) for a in wide)
        yield _timed(f"GROUP BY of {groups} with intervals ({title})", lambda: run(view, statement), repeats)
    numbers = [a.name for a in view.schema if isinstance(a, Ordered)]
    yield _timed(
        f"means and quartiles of {len(numbers)} attributes under the filter, with intervals ({title})",
        lambda: _statistics(view, numbers, where),
        repeats,
    )
    yield _timed(f"1,000,000 synthetic rows ({title})", lambda: view.sample(1_000_000, as_="pyarrow"), 1)


def _counts(view: PView, questions: Sequence[dict[str, tuple[Any, Any]]]) -> None:
    answers = view.count_many(questions)
    assert (answers.lower <= answers.upper).all()


def _statistics(view: PView, names: Sequence[str], where: dict[str, tuple[int, int]]) -> None:
    for name in names:
        view.mean(name, where)
        for share in (0.25, 0.5, 0.75):
            view.quantile(name, share, where)


def _run(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _timed(what: str, work: Callable[[], Any], repeats: int) -> Row:
    """Medians over repetitions. The first repetition is left out if there are several. Includes child
    processes.
    """
    clock, processor = [], []
    for _ in range(repeats + (repeats > 1)):
        started, used = time.perf_counter(), _processor_seconds()
        work()
        clock.append(time.perf_counter() - started)
        processor.append(_processor_seconds() - used)
    kept = slice(1 if repeats > 1 else 0, None)
    ms, cpu_ms = (round(statistics.median(times[kept]) * 1e3, 1) for times in (clock, processor))
    return {"what": what, "ms": ms, "cpu_ms": cpu_ms}


def _processor_seconds() -> float:
    children = os.times()
    return time.process_time() + children.children_user + children.children_system
