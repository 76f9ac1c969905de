"""Choose each constant of typical intervals again, leaving out the table on which it is then tested.

Each constant is tried with a smaller and a larger value. A view is built once per table; for each value its
errors are measured again, as in a build, and the same questions are asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from importlib import import_module
from statistics import fmean
from types import ModuleType
from typing import Any

from hdpview.build import build
from hdpview.machine import available_cores
from hdpview.methods import quality as measurement
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.randomness import Randomness
from hdpview.progress import Progress
from hdpview.pview import PView
from hdpview.query.errors import kernels
from hdpview.view.quality import prior_quality
from hdpview_bench.coverage import (
    DEFAULT_LIMITS,
    Build,
    CoveragePlan,
    Row,
    Tally,
    ask,
    has_errors,
    recoded_table,
    summarise,
)
from hdpview_bench.workers import Limits, Stopped, in_processes

METHOD = "mixture"
_HOLDS = 0.9
_MAY_MISS = 0.02  # share of cells below 90%, above which a wider value is chosen


@dataclass(frozen=True)
class Constant:
    """A constant in an hdpview module, and the factors to try."""

    where: str
    name: str
    factors: tuple[float, ...] = (0.5, 1.0, 2.0)

    @property
    def title(self) -> str:
        """Its module and its name."""
        return f"{self.where}.{self.name.lstrip('_').lower()}"

    @property
    def module(self) -> ModuleType:
        """The module that defines it."""
        return import_module(f"hdpview.{self.where}")

    @contextmanager
    def times(self, factor: float) -> Iterator[None]:
        """Multiply it by a factor for the duration of the block."""
        value = getattr(self.module, self.name)
        setattr(self.module, self.name, _scaled(value, factor))
        _forget()
        try:
            yield
        finally:
            setattr(self.module, self.name, value)
            _forget()


def _scaled(value: Any, factor: float) -> Any:
    return tuple(one * factor for one in value) if isinstance(value, tuple) else value * factor


def _forget() -> None:
    """Drop what was cached with another value."""
    kernels.error_model.cache_clear()


_SMALL_STEPS = (0.85, 1.0, 1.15)
CONSTANTS = (
    *(
        Constant("query.errors.kernels", name)
        for name in (
            "KEPT_NOISE",
            "HIDDEN_DEPARTURE",
            "EMPTY_CODE_NOISE",
            "MIN_ERROR_RECORDS",
        )
    ),
    Constant("query.errors.codes", "RARE_SHARE"),
    *(
        Constant("view.quality", name)
        for name in ("_MAX_OF_ONE", "_MIN_UNKNOWN", "_MAX_UNKNOWN", "_UNKNOWN_PER_NOISE", "_WITHOUT_TABLES")
    ),
    Constant("methods.quality", "_HELD", _SMALL_STEPS),
    Constant("methods.quality", "_SEEN"),
    Constant("methods.quality", "_OF_MODEL"),
)
Setting = tuple[str, float]  # a constant's title, and its factor


def measure_settings(
    plan: CoveragePlan, constants: Sequence[Constant], task: Build
) -> dict[Setting, dict[str, Tally]]:
    """Build one view with fresh noise, and question it with every value of every constant. Runs in its own
    process.
    """
    recoded = recoded_table(task.dataset, plan.data_dir)
    view = build(recoded.exact_rows(), recoded.schema, task.epsilon, method=METHOD, threads=1, ledger=False)
    epsilon = Fraction(task.epsilon) * measurement.QUALITY_SHARE
    tallies = {}
    for constant in constants:
        for factor in constant.factors:
            with constant.times(factor):
                again = _measured_again(view, recoded.counts, epsilon)
                tallies[constant.title, factor] = ask(again, recoded, plan, task.trial)
    return tallies


def _measured_again(view: PView, counts: Any, epsilon: Fraction) -> PView:
    """The view with its errors measured under the current constants."""
    part = view.parts[0]
    part = replace(part, quality=prior_quality(part.components, part.tables))
    quality = measurement.measure_quality(part, counts, Mechanism(epsilon, Randomness.fresh()))
    return replace(view, parts=(replace(part, quality=quality),))


def left_out_rows(
    plan: CoveragePlan,
    constants: Sequence[Constant] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    n_workers: int | None = None,
    progress: Progress | None = None,
) -> tuple[list[Row], list[str]]:
    """One row per constant: the value chosen without each table, and how intervals perform on that table.
    Also returns what failed.

    constants: all by default.
    """
    constants = CONSTANTS if constants is None else constants
    tasks = [
        Build(dataset, METHOD, epsilon, trial)
        for dataset in plan.datasets
        for epsilon in plan.epsilons
        for trial in range(plan.trials)
    ]
    tallies, problems = {}, []
    outcomes = in_processes(
        partial(measure_settings, plan, constants), iter(tasks), limits, n_workers or available_cores()
    )
    for done, (task, outcome) in enumerate(outcomes, 1):
        if isinstance(outcome, Stopped):
            problems.append(f"{task.dataset} at ε = {task.epsilon}: {outcome.reason}")
        else:
            tallies[task] = outcome
        if progress is not None:
            progress(done / len(tasks), "trying constants")
    if not tallies:
        return [], problems
    return [_row(constant, tallies) for constant in constants], problems


def _row(constant: Constant, tallies: dict[Build, dict[Setting, dict[str, Tally]]]) -> Row:
    by_factor = {
        factor: summarise((task, settings[constant.title, factor]) for task, settings in tallies.items())
        for factor in constant.factors
    }
    chosen, left_out = Counter[float](), []
    for dataset in dict.fromkeys(task.dataset for task in tallies):
        best = choose(
            {factor: [row for row in rows if row["dataset"] != dataset] for factor, rows in by_factor.items()}
        )
        chosen[best] += 1
        left_out += [row for row in by_factor[best] if row["dataset"] == dataset]
    return {
        "constant": constant.title,
        "chosen": ", ".join(f"× {factor:g}: {n}" for factor, n in sorted(chosen.items())),
        **{f"in use, {name}": value for name, value in _summary(by_factor[1.0]).items()},
        **{f"left out, {name}": value for name, value in _summary(left_out).items()},
    }


def choose(by_factor: dict[float, list[Row]]) -> float:
    """The factor with the best interval score among those with few cells below 90%, or with the fewest."""
    summaries = {factor: _summary(rows) for factor, rows in by_factor.items()}
    enough = max(min(own["below 90%"] for own in summaries.values()), _MAY_MISS)
    holding = {factor: own for factor, own in summaries.items() if own["below 90%"] <= enough}
    return min(holding, key=lambda factor: (holding[factor]["score"], abs(factor - 1.0)))


def _summary(rows: Sequence[Row]) -> dict[str, float]:
    """Share of cells below 90%, the mean of all and the worst, and the mean interval score."""
    many = [row for row in rows if row["questions"] >= 30] or list(rows)
    scores = [row["score"] for row in many if has_errors(row) and row["score"]]
    return {
        "below 90%": sum(row["typical"] < _HOLDS for row in many) / max(len(many), 1),
        "held": fmean(row["typical"] for row in many) if many else 1.0,
        "worst": min((row["typical"] for row in many), default=1.0),
        "score": fmean(scores) if scores else 0.0,
    }
