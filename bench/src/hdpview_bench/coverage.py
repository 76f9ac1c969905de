"""How often intervals hold: many builds of real data with fresh noise, many questions, and the share of true
counts inside.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpview.build import release
from hdpview.counts.answers import exact_answers
from hdpview.methods import method_named
from hdpview.privacy.budget import exact_epsilon
from hdpview.privacy.randomness import Randomness
from hdpview.progress import Progress
from hdpview.query.answers import Answers, with_intervals
from hdpview.query.noise_width import NoiseLaw
from hdpview.query.summary import summarise
from hdpview.query.workloads import WORKLOADS, as_questions, draw
from hdpview_bench.datasets import dataset_counts

Row = dict[str, Any]
INTERVALS = ("noise", "guaranteed", "typical")


def coverage_rows(
    names: list[str],
    data_dir: Path | None,
    workloads: list[str],
    epsilon: str,
    trials: int,
    n_questions: int,
    confidence: float,
    method: str,
    progress: Progress | None = None,
) -> Iterator[Row]:
    """One row per dataset and workload: coverage and mean relative width of each interval."""
    with ProcessPoolExecutor(
        mp_context=get_context("spawn")
    ) as pool:  # a fork of a process with threads may hang
        for done, name in enumerate(names):
            build = partial(one_build, name, data_dir, workloads, epsilon, n_questions, confidence, method)
            tasks = [pool.submit(build, trial) for trial in range(trials)]
            builds = []
            for finished, task in enumerate(as_completed(tasks)):
                builds.append(task.result())
                if progress is not None:
                    progress((done + (finished + 1) / trials) / len(names), "measuring coverage")
            for workload in workloads:
                found = [measured[workload] for measured in builds if workload in measured]
                if found:
                    yield {
                        "dataset": name,
                        "method": method,
                        "workload": workload,
                        "epsilon": float(exact_epsilon(epsilon)),
                        "trials": trials,
                        **_aggregate(found),
                    }


def one_build(
    name: str,
    data_dir: Path | None,
    workloads: list[str],
    epsilon: str,
    n_questions: int,
    confidence: float,
    method: str,
    trial: int,
) -> dict[str, dict[str, float]]:
    """One view with fresh noise and, per workload, what its intervals did."""
    counts = dataset_counts(name, data_dir)
    view = release(counts, exact_epsilon(epsilon), method_named(method, {}), Randomness.fresh())
    law, sizes = NoiseLaw(view.manifest.noise_scale), counts.schema.sizes
    found = {}
    for workload in workloads:
        boxes = draw(workload, sizes, n_questions, np.random.default_rng([trial, WORKLOADS.index(workload)]))
        if boxes is not None:
            answers = with_intervals(summarise(view.blocks, as_questions(boxes, sizes)), law, confidence)
            found[workload] = _measure(
                answers, exact_answers(counts, boxes.attribute, boxes.lower, boxes.upper)
            )
    return found


def _measure(answers: Answers, truth: NDArray[np.float64]) -> dict[str, float]:
    measured = {
        "squared_error": float(((answers.estimate - truth) ** 2).mean()),
        "true_zeros": float((truth == 0).mean()),
    }
    for kind in INTERVALS:
        ends: NDArray[np.float64] = getattr(answers, kind)
        measured[f"{kind}_inside"] = float(((ends[:, 0] <= truth) & (truth <= ends[:, 1])).mean())
        measured[f"{kind}_width"] = float((ends[:, 1] - ends[:, 0]).mean())
    return measured


def _aggregate(found: list[dict[str, float]]) -> Row:
    mean = {key: float(np.mean([build[key] for build in found])) for key in found[0]}
    rmse = mean["squared_error"] ** 0.5
    row: Row = {"rmse": round(rmse, 1), "true_zeros": round(mean["true_zeros"], 3)}
    for kind in INTERVALS:
        row[f"{kind}_coverage"] = round(mean[f"{kind}_inside"], 4)
        row[f"{kind}_width_over_rmse"] = round(mean[f"{kind}_width"] / (2 * 1.96 * rmse), 2) if rmse else 0.0
    return row
