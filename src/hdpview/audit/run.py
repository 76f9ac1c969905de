"""The audit: how much ε the whole build shows to an adversary who knows both tables, against the ε it claims.

A table pair and an event are chosen on some builds, and the event is counted on others; so the choice,
however long the search for it, cannot make the bound wrong. Every build is a whole one: fresh key, real
noise, a finished view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from hdpview.audit.bound import epsilon_lower_bound
from hdpview.audit.evidence import Features, Scorer, Scores, features_of
from hdpview.audit.tables import Neighbours, neighbours
from hdpview.build import release
from hdpview.counts.contributions import Contributions
from hdpview.counts.sparse import SparseCounts
from hdpview.errors import BudgetError, MethodError
from hdpview.methods import DEFAULT_METHOD, Method, chosen_method
from hdpview.methods.protocol import delta_of
from hdpview.privacy.budget import exact_epsilon
from hdpview.privacy.randomness import Randomness
from hdpview.progress import Progress
from hdpview.view.blocks import Blocks

Build = Callable[[SparseCounts], Blocks]
CONFIDENCE = 0.999
LEAST_RUNS = 100
_CAUTION = (
    3.3  # standard deviations that the ends of intervals lie from their middle, at the usual confidence
)


@dataclass(frozen=True)
class Audit:
    """claimed, lower_bound: of ε. runs: builds of each table that the bound rests on. table, event: where the
    most was seen.
    """

    method: str
    claimed: float
    lower_bound: float
    runs: int
    confidence: float
    max_rows: int
    table: str
    event: str
    hits: tuple[int, int]

    @property
    def passed(self) -> bool:
        return self.lower_bound <= self.claimed


@dataclass(frozen=True)
class _Event:
    """Views of a pair whose score is `threshold` or more. second: whether they are likelier with the canary;
    else scores change sign.
    """

    pair: Neighbours
    scorer: Scorer
    column: int
    threshold: float
    second: bool
    promise: float

    def hits(self, views: Sequence[Features]) -> int:
        sign = 1.0 if self.second else -1.0
        return int((sign * self.scorer.scores(views)[:, self.column] >= self.threshold).sum())


def audit(
    method: str | Method = DEFAULT_METHOD,
    epsilon: float | str | Fraction = 1,
    *,
    runs: int = 4_000,
    max_rows: int = 1,
    confidence: float = CONFIDENCE,
    progress: Progress | None = None,
    **settings: Any,
) -> Audit:
    """Build many views of neighbouring tables and tell what ε they show at least. Needs no data.

    Args:
        method: name of a method, or a method object.
        epsilon: the claimed budget.
        runs: builds of each of the two tables that the bound rests on; half as many again of every pair
            choose the event.
        max_rows: rows of one person; the tables then differ by that many.
        confidence: with which the bound holds.
        progress: called with the fraction done and a few words.
        **settings: settings of the method.
    """
    budget = exact_epsilon(epsilon)
    chosen = chosen_method(method, settings, audit)
    if delta_of(chosen):
        raise MethodError("An audit judges the promise of epsilon alone. Audit the method without a delta.")
    limits = Contributions(None if max_rows == 1 else "person", max_rows)

    def build(counts: SparseCounts) -> Blocks:
        return release(counts, budget, chosen, Randomness.fresh(), 1, limits=limits).blocks

    pairs = list(neighbours(float(budget), max_rows))
    reason = chosen.why_infeasible(pairs[0].without.schema, float(budget) / max_rows)
    if reason is not None:
        raise MethodError(reason)
    return audit_builds(chosen.name, float(budget), build, pairs, runs, max_rows, confidence, progress)


def audit_builds(
    name: str,
    claimed: float,
    build: Build,
    pairs: Iterable[Neighbours],
    runs: int,
    max_rows: int = 1,
    confidence: float = CONFIDENCE,
    progress: Progress | None = None,
) -> Audit:
    """Audit anything that builds blocks from counts."""
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < LEAST_RUNS:
        raise BudgetError(f"An audit needs {LEAST_RUNS} runs or more, not {runs!r}.")
    if not 0.5 <= confidence < 1:
        raise BudgetError(f"confidence must lie between 0.5 and 1, not {confidence!r}.")
    listed = list(pairs)
    report = _Steps(progress, total=(len(listed) * (runs // 2) + runs) * 2)
    event = max((_best_event(pair, build, runs, report) for pair in listed), key=lambda found: found.promise)
    tables = (event.pair.with_canary, event.pair.without)
    likelier, other = tables if event.second else tables[::-1]
    hits = (
        event.hits(_views(likelier, event.pair, build, runs, report)),
        event.hits(_views(other, event.pair, build, runs, report)),
    )
    return Audit(
        method=name,
        claimed=claimed,
        lower_bound=epsilon_lower_bound(*hits, runs, confidence),
        runs=runs,
        confidence=confidence,
        max_rows=max_rows,
        table=event.pair.name,
        event=f"score {event.column} of {f'{event.threshold:.3g} or more' if event.second else f'{-event.threshold:.3g} or less'}",
        hits=hits,
    )


def _best_event(pair: Neighbours, build: Build, runs: int, report: _Steps) -> _Event:
    """A quarter of `runs` on each table teaches the scores, another quarter chooses among them and their
    thresholds.
    """
    n_learn = runs // 4
    first = _views(pair.without, pair, build, runs // 2, report)
    second = _views(pair.with_canary, pair, build, runs // 2, report)
    scorer = Scorer.learn(first[:n_learn], second[:n_learn])
    on_first, on_second = scorer.scores(first[n_learn:]), scorer.scores(second[n_learn:])
    found = [_Event(pair, scorer, 0, np.inf, True, -np.inf)]
    for column in range(on_first.shape[1]):
        for second_likelier in (True, False):
            scores = (
                (on_second[:, column], on_first[:, column])
                if second_likelier
                else (-on_first[:, column], -on_second[:, column])
            )
            found += [
                _Event(pair, scorer, column, t, second_likelier, promise)
                for t, promise in _thresholds(*scores, runs)
            ]
    return max(found, key=lambda event: event.promise)


def _thresholds(likelier: Scores, other: Scores, runs: int) -> Iterator[tuple[float, float]]:
    """Thresholds on a score, and about the bound on ε that each would give in `runs` builds: this only guides
    the choice.
    """
    shares = np.geomspace(10 / len(likelier), 0.995, 60)
    for threshold in np.unique(np.quantile(likelier, 1 - shares, method="higher")).tolist():
        factor = runs / len(likelier)
        seen, seen_on_other = int((likelier >= threshold).sum()), int((other >= threshold).sum())
        # The best of many events looked better here than it is: expect two standard deviations less of it.
        hits, hits_on_other = (
            factor * max(0.0, seen - 2 * seen**0.5),
            factor * (seen_on_other + 2 * (seen_on_other + 1) ** 0.5),
        )
        least, largest = (
            hits - _CAUTION * hits**0.5,
            hits_on_other + _CAUTION * (hits_on_other + 1) ** 0.5 + 3,
        )
        yield threshold, float(np.log(least / largest)) if least > 0 else -np.inf


def _views(table: SparseCounts, pair: Neighbours, build: Build, runs: int, report: _Steps) -> list[Features]:
    views = []
    for _ in range(runs):
        views.append(features_of(build(table), pair.canary))
        report.step()
    return views


class _Steps:
    """Counts builds and passes the fraction done on, now and then."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def step(self) -> None:
        self._done += 1
        if self._progress is not None and self._done % 64 == 0:
            self._progress(self._done / self._total, "building views")
