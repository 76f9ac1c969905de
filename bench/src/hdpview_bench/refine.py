"""The benefit of refining: errors of refined views, of the view before, and of one built with both budgets.

    before ── refine ──▶ plain, without a focus     once: built with both budgets together
           └─ refine ──▶ focus: on a random pair of attributes

Errors are root mean squares over all trials. `own` questions are ranges and cells of the focus's pair.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from hdpview.build import release
from hdpview.counts.sparse import SparseCounts
from hdpview.domain.table_shapes import CodeBoxes
from hdpview.methods import Mixture
from hdpview.methods.protocol import Release, ViewRelease
from hdpview.privacy.exact import unprotected
from hdpview.privacy.randomness import Randomness
from hdpview.progress import Progress, silent
from hdpview.pview import PView
from hdpview.refine.tables import Refinement
from hdpview_bench.datasets import dataset_counts
from hdpview_bench.questions import codes_of_records
from hdpview_bench.workload_errors import WorkloadErrors

DATASETS = ("adult", "bank", "heart")
KINDS = ("range-1", "range-2", "range-3", "cell-1", "cell-2", "cell-3")
OWN = "own"
_N_OWN = 500  # questions about the focus's pair, half of them ranges
Row = dict[str, Any]


def refine_rows(
    datasets: tuple[str, ...],
    epsilon: Fraction,
    more: Fraction,
    trials: int,
    data_dir: Path | None = None,
    progress: Progress = silent,
) -> list[Row]:
    """One row per table and kind of question, with ratios to the view built once and of the focus to the view
    before.
    """
    rows = []
    for i, dataset in enumerate(datasets):
        counts = dataset_counts(dataset, data_dir)
        errors, squares = WorkloadErrors(counts), defaultdict[tuple[str, str], list[float]](list)
        for trial in range(trials):
            progress((i + trial / trials) / len(datasets), f"refining views of {dataset}")
            rng = np.random.default_rng(trial)
            pair = tuple(sorted(rng.permutation(len(counts.schema))[:2].tolist()))
            boxes = _about(pair, counts, rng)
            truth = unprotected(counts.exact_box_counts(boxes)).astype(np.float64)
            for name, view in _views(counts, epsilon, more, pair):
                answers: Release = ViewRelease(view.parts[0].components)
                for kind, rmse in errors.rmse(answers, list(KINDS)).items():
                    squares[kind, name].append(rmse**2)
                squares[OWN, name].append(float(((answers.answer(boxes) - truth) ** 2).mean()))
        for kind in (*KINDS, OWN):
            of = {n: math.sqrt(fmean(squares[kind, n])) for n in ("before", "plain", "once", "focus")}
            row = {"dataset": dataset, "kind": kind, "trials": trials, **of}
            rows.append(
                {**row, "plain/once": of["plain"] / of["once"], "focus/before": of["focus"] / of["before"]}
            )
    return rows


def _views(
    counts: SparseCounts, epsilon: Fraction, more: Fraction, pair: tuple[int, ...]
) -> Iterator[tuple[str, PView]]:
    """The view before, refined without and with a focus, and built once; each with fresh noise."""
    names = counts.schema.names
    before = _built(counts, epsilon, Mixture())
    tables = before.parts[0].tables
    yield "before", before
    yield "plain", _built(counts, more, Refinement(tables=tables))
    yield "focus", _built(counts, more, Refinement((tuple(names[a] for a in pair),), tables=tables))
    yield "once", _built(counts, epsilon + more, Mixture())


def _built(counts: SparseCounts, epsilon: Fraction, method: Mixture) -> PView:
    return release(counts, epsilon, method, Randomness.fresh(), threads=1, quality=True)


def _about(pair: tuple[int, ...], counts: SparseCounts, rng: np.random.Generator) -> CodeBoxes:
    """Random ranges of two attributes, and cells at the location of random records."""
    attribute = np.tile(pair, (_N_OWN, 1))
    ends = np.sort(
        rng.integers(0, np.array(counts.schema.sizes)[attribute][..., None], (_N_OWN, 2, 2)), axis=2
    )
    cells = codes_of_records(counts, attribute, rng)
    is_cell = (np.arange(_N_OWN) % 2 == 0)[:, None]
    lower, upper = np.where(is_cell, cells, ends[..., 0]), np.where(is_cell, cells, ends[..., 1])
    return CodeBoxes(attribute, lower, upper + 1)
