"""Coverage of intervals: many builds with fresh noise, many questions of each kind, and the share of true
answers inside. Views are built and queried through the public interface only.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache, partial
from operator import itemgetter
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from hdpview.build import build
from hdpview.errors import QueryError, unknown_name
from hdpview.machine import available_cores
from hdpview.methods import METHODS
from hdpview.progress import Progress
from hdpview.pview import PView
from hdpview.refine import refine
from hdpview_bench.asked import KINDS, Asked, Asking, Recoded, n_attributes_of
from hdpview_bench.datasets import HOSPITAL, dataset_counts, dataset_title
from hdpview_bench.experiments import SEVEN
from hdpview_bench.extremes import EXTREMES
from hdpview_bench.page import items, table
from hdpview_bench.workers import Limits, Stopped, in_processes

Row = dict[str, Any]
EPSILONS = ("0.1", "0.5", "1.0", "2.0", "10.0")
LARGE = ("nycflights", "kddcup99_10pct")
BUILDS_FILE = "coverage-builds.jsonl"
DEFAULT_LIMITS = Limits(seconds=1200.0, memory_bytes=8 * 2**30)
_NORMAL_95 = 1.96
_FEWEST = 30  # minimum number of questions of a cell that may be called the worst


def view_methods() -> tuple[str, ...]:
    """Methods that make views."""
    return tuple(METHODS)


def default_datasets(data_dir: Path | None) -> tuple[str, ...]:
    """The invented tables, and with a folder of data the paper's and the two large ones."""
    return (*(() if data_dir is None else (*SEVEN, *LARGE)), HOSPITAL, *EXTREMES)


@dataclass(frozen=True)
class CoveragePlan:
    """A measurement. n_questions: approximate, per kind and build. refine: ε for refining each view."""

    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    kinds: tuple[str, ...] = tuple(KINDS)
    epsilons: tuple[str, ...] = EPSILONS
    trials: int = 5
    n_questions: int = 200
    confidence: float = 0.95
    data_dir: Path | None = None
    refine: str | None = None

    def __post_init__(self) -> None:
        for kind in self.kinds:
            if kind not in KINDS:
                raise QueryError(unknown_name("kind of question", kind, KINDS, "The kinds are"))


@dataclass(frozen=True)
class Build:
    """One view to build and question."""

    dataset: str
    method: str
    epsilon: str
    trial: int


@dataclass(frozen=True)
class Tally:
    """Sums over questions of one kind. Unanswered questions count as missed; widths and scores are of
    intervals with two ends.

    typical_score: interval scores of typical intervals. constant_score: of intervals of ±1.96 RMSE.
    """

    questions: int = 0
    typical_held: int = 0
    guaranteed_held: int = 0
    answered: int = 0
    typical_bounded: int = 0
    guaranteed_bounded: int = 0
    squared_error: float = 0.0
    typical_width: float = 0.0
    guaranteed_width: float = 0.0
    typical_score: float = 0.0
    constant_score: float = 0.0

    @classmethod
    def of(cls, asked: Asked, confidence: float) -> Self:
        error = asked.estimate - asked.exact_truth
        known = np.isfinite(error)
        return cls(
            questions=len(error),
            typical_held=_held(asked.typical, asked.exact_truth),
            guaranteed_held=_held(asked.guaranteed, asked.exact_truth),
            answered=int(known.sum()),
            typical_bounded=_n_bounded(asked.typical),
            guaranteed_bounded=_n_bounded(asked.guaranteed),
            squared_error=float((error[known] ** 2).sum()),
            typical_width=_width(asked.typical),
            guaranteed_width=_width(asked.guaranteed),
            typical_score=_score(asked.typical[known], asked.exact_truth[known], confidence),
            constant_score=_score(
                _constant_ends(asked.estimate[known], error[known]), asked.exact_truth[known], confidence
            ),
        )

    def __add__(self, other: Tally) -> Tally:
        sums = {one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)}
        return Tally(**sums)


def _held(ends: NDArray[np.float64], truth: NDArray[np.float64]) -> int:
    # Answers without noise are exact up to rounding.
    slack = 1e-9 * np.maximum(1.0, np.abs(truth))
    return int(((ends[:, 0] <= truth + slack) & (truth - slack <= ends[:, 1])).sum())


def _score(ends: NDArray[np.float64], truth: NDArray[np.float64], confidence: float) -> float:
    """Sum of interval scores: width, and 2/(1 − confidence) times the distance of truths that lie outside."""
    bounded = np.isfinite(ends).all(axis=1)
    lower, upper, truth = ends[bounded, 0], ends[bounded, 1], truth[bounded]
    outside = np.maximum(lower - truth, 0.0) + np.maximum(truth - upper, 0.0)
    return float((upper - lower + 2.0 / (1.0 - confidence) * outside).sum())


def _constant_ends(estimate: NDArray[np.float64], error: NDArray[np.float64]) -> NDArray[np.float64]:
    half = _NORMAL_95 * float(np.sqrt(np.mean(error**2))) if len(error) else 0.0
    return np.stack([estimate - half, estimate + half], axis=1)


def _n_bounded(ends: NDArray[np.float64]) -> int:
    return int(np.isfinite(ends).all(axis=1).sum())


def _width(ends: NDArray[np.float64]) -> float:
    widths = ends[:, 1] - ends[:, 0]
    return float(widths[np.isfinite(widths)].sum())


def measure_build(plan: CoveragePlan, task: Build) -> dict[str, Tally]:
    """Build one view with fresh noise and ask it questions of every kind. Runs in a process of its own."""
    recoded = recoded_table(task.dataset, plan.data_dir)
    rows, schema = recoded.exact_rows(), recoded.schema
    view = build(rows, schema, task.epsilon, method=task.method, threads=1, ledger=False)
    if plan.refine is not None:
        view = refine(view, rows, plan.refine, threads=1, ledger=False)
    return ask(view, recoded, plan, task.trial)


def ask(view: PView, recoded: Recoded, plan: CoveragePlan, trial: int) -> dict[str, Tally]:
    """Questions of every kind, the same for all methods and budgets."""
    tallies = {}
    for kind in plan.kinds:
        if n_attributes_of(kind) <= len(recoded.schema):
            rng = np.random.default_rng([trial, list(KINDS).index(kind)])
            tallies[kind] = Tally.of(
                KINDS[kind](Asking(view, recoded, plan.n_questions, plan.confidence, rng)), plan.confidence
            )
    return tallies


@lru_cache(maxsize=1)
def recoded_table(dataset: str, data_dir: Path | None) -> Recoded:
    """A dataset in codes; the last one is kept."""
    return Recoded.of(dataset_counts(dataset, data_dir))


def coverage_rows(
    plan: CoveragePlan,
    folder: Path | None = None,
    limits: Limits = DEFAULT_LIMITS,
    n_workers: int | None = None,
    progress: Progress | None = None,
) -> tuple[list[Row], list[str]]:
    """One row per dataset, method, kind of question and budget, the worst first; and the failures.

    folder: stores finished builds, so that a stopped run can resume.
    """
    tasks = [
        Build(dataset, method, epsilon, trial)
        for dataset in plan.datasets
        for trial in range(plan.trials)
        for epsilon in plan.epsilons
        for method in plan.methods
    ]
    tallies = {} if folder is None else _load(folder, plan)
    missing = [task for task in tasks if task not in tallies]
    problems = []
    outcomes = in_processes(
        partial(measure_build, plan), iter(missing), limits, n_workers or available_cores()
    )
    for done, (task, outcome) in enumerate(outcomes, 1):
        if isinstance(outcome, Stopped):
            problems.append(f"{task.method} on {task.dataset} at ε = {task.epsilon}: {outcome.reason}")
        else:
            tallies[task] = outcome
            if folder is not None:
                _save(folder, plan, task, outcome)
        if progress is not None:
            progress(done / len(missing), "measuring coverage")
    measured = ((task, tallies[task]) for task in tasks if task in tallies)
    return summarise(measured), list(dict.fromkeys(problems))


def _key(plan: CoveragePlan) -> str:
    """The settings that a stored build depends on."""
    return repr((plan.kinds, plan.n_questions, plan.confidence, plan.data_dir, plan.refine))


def _save(folder: Path, plan: CoveragePlan, task: Build, tallies: dict[str, Tally]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    line = {"plan": _key(plan), "build": asdict(task), "kinds": {k: asdict(t) for k, t in tallies.items()}}
    with (folder / BUILDS_FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def _load(folder: Path, plan: CoveragePlan) -> dict[Build, dict[str, Tally]]:
    path, tallies = folder / BUILDS_FILE, {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        kept = json.loads(line)
        if kept["plan"] == _key(plan):
            tallies[Build(**kept["build"])] = {kind: Tally(**sums) for kind, sums in kept["kinds"].items()}
    return tallies


def summarise(measured: Iterable[tuple[Build, dict[str, Tally]]]) -> list[Row]:
    """Rows over all trials, the least coverage of typical intervals first."""
    sums: dict[tuple[str, str, str, str], Tally] = defaultdict(Tally)
    trials: dict[tuple[str, str, str, str], int] = defaultdict(int)
    for task, tallies in measured:
        for kind, tally in tallies.items():
            key = task.dataset, task.method, kind, task.epsilon
            sums[key] += tally
            trials[key] += 1
    rows = [_row(*key, trials[key], tally) for key, tally in sums.items() if tally.questions]
    return sorted(rows, key=lambda row: (row["typical"], row["guaranteed"]))


def _row(dataset: str, method: str, kind: str, epsilon: str, trials: int, tally: Tally) -> Row:
    """Coverage, widths as multiples of ±1.96 RMSE, and the interval score in units of that of ±1.96 RMSE."""
    rmse = (tally.squared_error / max(1, tally.answered)) ** 0.5
    unit = 2 * _NORMAL_95 * rmse
    return {
        "dataset": dataset,
        "method": method,
        "kind": kind,
        "epsilon": float(epsilon),
        "trials": trials,
        "questions": tally.questions,
        "typical": tally.typical_held / tally.questions,
        "guaranteed": tally.guaranteed_held / tally.questions,
        "rmse": rmse,
        "typical_width": _ratio(tally.typical_width, tally.typical_bounded * unit),
        "guaranteed_width": _ratio(tally.guaranteed_width, tally.guaranteed_bounded * unit),
        "score": _ratio(tally.typical_score, tally.constant_score),
        "typical_unbounded": 1 - tally.typical_bounded / tally.questions,
    }


def has_errors(row: Row) -> bool:
    """Whether errors are large enough to compare widths: compared with an error far below one record, or a
    thousandth of a standard deviation, any interval is wide.
    """
    least = 1e-3 if row["kind"] in ("mean", "rate", "median", "share") else 1.0
    return bool(row["rmse"] >= least)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def lead(rows: Sequence[Row]) -> list[str]:
    """The first sentences of a report: the worst cell of each kind of interval, and the widest.

    Cells with fewer than `_FEWEST` questions could be worst by chance, so they are left out; those of
    COUNT(*), with one question per build, are pooled.
    """
    many = [row for row in rows if row["questions"] >= _FEWEST] or list(rows)
    worst, worst_guaranteed = (min(many, key=itemgetter(name)) for name in ("typical", "guaranteed"))
    not_tiny = list(filter(has_errors, many)) or many
    widest = max(not_tiny, key=lambda row: row["typical_width"] or 0.0)
    below = sum(row["typical"] < 0.93 for row in many)
    totals = [row for row in rows if row["kind"] == "count-all"]
    builds = sum(row["questions"] for row in totals)
    held = round(sum(row["typical"] * row["questions"] for row in totals))
    return [
        f"Worst typical interval: held {worst['typical']:.1%} of {_place(worst)}.",
        (
            f"Worst guaranteed interval: held {worst_guaranteed['guaranteed']:.1%} of "
            f"{_place(worst_guaranteed)}."
        ),
        (
            f"Widest typical interval: {widest['typical_width'] or 0.0:.1f} times ±1.96 RMSE for "
            f"{_place(widest)}."
        ),
        (
            f"Cells (table × method × kind × ε) where typical intervals held less than 93%: {below} of "
            f"{len(many)}."
        ),
        *([f"COUNT(*): held {held:,} of {builds:,}, one a build."] if totals else []),
        *_by_budget(rows),
    ]


def _by_budget(rows: Sequence[Row]) -> list[str]:
    """A sentence per method and budget: the worst cell, guaranteed intervals that missed, and widths."""
    sentences = []
    for method, epsilon in sorted({(row["method"], row["epsilon"]) for row in rows}):
        own = [row for row in rows if (row["method"], row["epsilon"]) == (method, epsilon)]
        many = [row for row in own if row["questions"] >= _FEWEST] or own
        missed = round(sum((1 - row["guaranteed"]) * row["questions"] for row in own))
        widths = [row["typical_width"] for row in many if has_errors(row) and row["typical_width"]] or [0.0]
        scores = [row["score"] for row in many if has_errors(row) and row["score"]] or [0.0]
        sentences.append(
            f"{method}, ε = {epsilon:g}: held {np.mean([row['typical'] for row in many]):.1%}, score "
            f"{np.mean(scores):.2f} on average and {max(scores):.2f} at worst; "
            f"worst {min(row['typical'] for row in many):.1%}, "
            f"{sum(row['typical'] < 0.93 for row in many)} of {len(many)} cells below 93%; guaranteed "
            f"missed {missed:,} of {sum(row['questions'] for row in own):,}; typical width "
            f"{np.mean(widths):.1f} on average, {np.median(widths):.1f} in the median, "
            f"{np.quantile(widths, 0.9):.1f} at the 90th percentile."
        )
    return sentences


def _place(row: Row) -> str:
    return (
        f"{row['questions']:,} questions of kind {row['kind']} "
        f"({dataset_title(row['dataset'])}, {row['method']}, ε = {row['epsilon']:g})"
    )


def report(rows: Sequence[Row]) -> str:
    """A page of Markdown: the worst cells first, then per method the worst budget of every table and kind."""
    parts = ["# Coverage of intervals", items(lead(rows))]
    kinds = [kind for kind in KINDS if any(row["kind"] == kind for row in rows)]
    datasets = list(
        dict.fromkeys(row["dataset"] for row in sorted(rows, key=lambda row: str(row["dataset"])))
    )
    for method in dict.fromkeys(row["method"] for row in rows):
        for name, title in (("typical", "typical"), ("guaranteed", "guaranteed")):
            worst = {
                (row["dataset"], row["kind"]): row
                for row in sorted(rows, key=lambda row: -row[name])
                if row["method"] == method
            }
            lines = [
                [dataset_title(dataset), *(_share(worst.get((dataset, kind)), name) for kind in kinds)]
                for dataset in datasets
            ]
            parts += [
                f"## `{method}`: {title} intervals",
                "Share of true answers inside, in percent, at the worst ε (in brackets).",
                table(["table", *kinds], lines),
            ]
    return "\n\n".join(parts) + "\n"


def _share(row: Row | None, name: str) -> str:
    return "–" if row is None else f"{100 * row[name]:.1f} ({row['epsilon']:g})"
