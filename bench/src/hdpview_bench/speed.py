"""How fast: builds against the paper's method written plainly, answers, files and start-up."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from hdpview.build import release
from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Integer, Ordered, Schema
from hdpview.methods import Hdpview, Mixture
from hdpview.methods.mixture import MixtureBuild
from hdpview.methods.mixture.measure import n_cells
from hdpview.methods.mixture.plan import effort_for
from hdpview.partition.grow import ExactBlocks
from hdpview.partition.local import LocalEngine
from hdpview.partition.parameters import PartitionParameters
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.randomness import Randomness
from hdpview.pview import PView
from hdpview.query.evaluate import run
from hdpview.query.interval.statistics import histograms
from hdpview.query.question.where import name_in_sql
from hdpview_bench import naive
from hdpview_bench.datasets import dataset_counts

Row = dict[str, Any]
EPSILON = Fraction(1)


def build_rows(names: list[str], data_dir: Path | None, trials: int, naive_limit_s: float) -> Iterator[Row]:
    """One row per dataset: blocks, CPU time on one core, the same by the plain implementation, and the size
    of the file.
    """
    for name in names:
        counts = dataset_counts(name, data_dir)
        parameters = PartitionParameters.choose(Hdpview(), EPSILON, counts.schema.n_cells)
        engine = LocalEngine(threads=1)
        engine.grow(counts, parameters, Randomness.fresh().root_key("partition"))  # compiles
        grown = [_timed_growth(engine, counts, parameters) for _ in range(trials)]
        seconds = statistics.median(s for s, _ in grown)
        blocks = [len(leaves) for _, leaves in grown]
        naive_s, finished = _naive_seconds(counts, parameters, naive_limit_s)
        yield {
            "dataset": name,
            "records": int(counts.exact_counts.sum()),
            "occupied_cells": len(counts.exact_counts),
            "attributes": len(counts.schema),
            "blocks": round(statistics.mean(blocks)),
            "blocks_sd": round(statistics.pstdev(blocks)),
            "build_cpu_ms": round(seconds * 1e3, 1),
            "naive_cpu_s": round(naive_s, 1),
            "naive_finished": finished,
            "times_faster": round(naive_s / seconds) if naive_s else 0,
            "us_per_block": round(statistics.median(s / len(leaves) for s, leaves in grown) * 1e6, 2),
            "ns_per_cell_attribute_level": round(_ns_per_unit(counts, grown), 2),
            "file_kb": round(_file_bytes(counts) / 1000, 1),
        }


def _timed_growth(
    engine: LocalEngine, counts: SparseCounts, parameters: PartitionParameters
) -> tuple[float, ExactBlocks]:
    key = Randomness.fresh().root_key("partition")
    started = time.process_time()
    leaves = engine.grow(counts, parameters, key)
    return time.process_time() - started, leaves


def _ns_per_unit(counts: SparseCounts, grown: list[tuple[float, ExactBlocks]]) -> float:
    """CPU nanoseconds per occupied cell, attribute and level that the cell passed through."""
    units = [
        ((leaves.exact_last - leaves.exact_first) * leaves.depth).sum() * len(counts.schema)
        for _, leaves in grown
    ]
    return float(statistics.median(s / int(n) * 1e9 for (s, _), n in zip(grown, units, strict=True)))


def _naive_seconds(
    counts: SparseCounts, parameters: PartitionParameters, limit_s: float
) -> tuple[float, bool]:
    cells = list(zip(map(tuple, counts.exact_codes.tolist()), counts.exact_counts.tolist(), strict=True))
    started, finished = time.process_time(), True
    if limit_s > 0:
        try:
            naive.partition(cells, counts.schema.sizes, parameters, seed=0, limit_s=limit_s)
        except naive.OutOfTimeError:
            finished = False
    return time.process_time() - started, finished


def released(counts: SparseCounts, epsilon: Fraction = EPSILON) -> PView:
    """A view by the paper's method, with fresh noise."""
    return release(counts, epsilon, Hdpview(), Randomness.fresh())


def _file_bytes(counts: SparseCounts) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "view.pview")
        released(counts).save(path)
        return path.stat().st_size


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
    """Time of the default method's fit, and the share of it that its matrix products would take by
    themselves: 6 · cells · components · rounds operations of each fit, at the speed of numpy.dot.
    """
    counts = dataset_counts(name, data_dir)
    build = MixtureBuild(counts, (), Mechanism(EPSILON, Randomness.fresh()), None)
    measured = build.measured()
    effort, cells = effort_for(n_cells(measured.tables)), n_cells(measured.tables)
    build.mixture(measured)  # compiles
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
    """Of a product of two matrices of single numbers on one core."""
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
    """Time of what people ask of a view by the default method and of one by the paper's, and of the command
    line.

    ms: on the clock. cpu_ms: of the processor, which other work on the machine disturbs less.
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
    found = view.count_many(questions)
    assert (found.lower <= found.upper).all()


def _statistics(view: PView, names: Sequence[str], where: dict[str, tuple[int, int]]) -> None:
    for name in names:
        view.mean(name, where)
        for share in (0.25, 0.5, 0.75):
            view.quantile(name, share, where)


def _run(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _timed(what: str, work: Callable[[], Any], repeats: int) -> Row:
    """Medians over repetitions, the first of which is left out where there are several. Processes that the
    work starts count as its own.
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
