"""The audit: how much ε a build reveals to an adversary who knows both tables, compared with the ε it claims.

A pair of tables and an event are selected on some builds, and the event is counted on others. So however long
the search takes, the selection cannot invalidate the bound.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from hdpview.build import for_one_record
from hdpview.errors import BudgetError, MethodError
from hdpview.methods import DEFAULT_METHOD, Method, chosen_method
from hdpview.methods.protocol import delta_of, with_delta
from hdpview.methods.quality import QUALITY_SHARE
from hdpview.privacy.budget import exact_delta, exact_epsilon
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.randomness import Randomness
from hdpview.progress import Progress
from hdpview_bench.audit.bound import divergence_per_order, epsilon_lower_bound, rho_lower_bound
from hdpview_bench.audit.builds import Build, builds
from hdpview_bench.audit.evidence import Features, features_of
from hdpview_bench.audit.scores import Scorer, Scores
from hdpview_bench.audit.tables import Neighbours, Source, neighbours, persons

CONFIDENCE = 0.999
LEAST_RUNS = 100
RUNS = 2_000
# Half width of intervals at the usual confidence, in standard deviations.
_CAUTION = 3.3


@dataclass(frozen=True)
class Claim:
    """The guarantee of a build: ε, or ε and δ. With a δ the build accounts in ρ, which is a guarantee too."""

    epsilon: float
    delta: float = 0.0
    rho: float | None = None


@dataclass(frozen=True)
class Audit:
    """Result of an audit.

    claimed, lower_bound: of ε at this δ. claimed_rho, rho_lower_bound: of ρ, for builds that account in ρ.
    runs: builds of each table that the bound uses. table, event, hits: the event that revealed the most.
    visible: the largest ε that this number of builds can show, for an event that is certain on one table and
    impossible on the other.
    kinds_seen, kinds_missed: bugs that this number of builds would and would not show, by their expected
    effect.
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
    delta: float = 0.0
    claimed_rho: float | None = None
    rho_lower_bound: float | None = None
    visible: float = 0.0
    kinds_seen: tuple[str, ...] = ()
    kinds_missed: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        if self.rho_lower_bound is not None and self.claimed_rho is not None:
            return self.lower_bound <= self.claimed and self.rho_lower_bound <= self.claimed_rho
        return self.lower_bound <= self.claimed


@dataclass(frozen=True)
class _Event:
    """Views of a pair whose score is at least `threshold`. second: the event is likelier with the canary;
    otherwise scores change sign.
    """

    pair: Neighbours
    scorer: Scorer
    column: int
    threshold: float
    second: bool
    promise: float

    def hits(self, views: Sequence[Features]) -> int:
        scores = _signed(self.scorer.scores(views)[:, self.column], self.second)
        return int((scores >= self.threshold).sum())

    def __str__(self) -> str:
        threshold = self.threshold if self.second else -self.threshold
        return f"{self.scorer.columns[self.column]}: {threshold:.3g} or {'more' if self.second else 'less'}"


def audit(
    method: str | Method = DEFAULT_METHOD,
    epsilon: float | str | Fraction = 1,
    *,
    delta: float | str | Fraction | None = None,
    runs: int = RUNS,
    max_rows: int = 1,
    from_files: bool = False,
    fits: bool = False,
    confidence: float = CONFIDENCE,
    progress: Progress | None = None,
    **settings: Any,
) -> Audit:
    """Build many views of neighbouring tables and compute a lower bound on their ε. Needs no data.

    Args:
        method: name of a method, or a method object.
        epsilon: the claimed budget.
        delta: the claimed δ, for methods that take one.
        runs: builds of each of the two tables that the bound uses. Half as many again of every pair
            select the event.
        max_rows: rows of one person. The tables differ by that many.
        from_files: build from files in which persons have several rows, including reading. Slower.
        fits: also fit components in every build. Without, the audit examines the numbers that fits start
            from, which reveal no less, and takes a fraction of the time.
        confidence: confidence of the bound.
        progress: called with the fraction done and a short text.
        **settings: settings of the method.
    """
    budget = exact_epsilon(epsilon)
    chosen = chosen_method(method, settings, audit)
    chosen = chosen if delta is None else with_delta(chosen, exact_delta(delta))
    build = builds(chosen, budget, max_rows=max_rows, fits=fits)
    with tempfile.TemporaryDirectory() as folder:
        if from_files:
            pairs = [persons(Path(folder), max_rows)]
        else:
            pairs = list(neighbours(chosen.name, float(budget), max_rows))
        pairs = _feasible(pairs, for_one_record(chosen, budget, max_rows), budget / max_rows)
        claim = claim_of(chosen, budget, max_rows)
        return audit_builds(
            chosen.name,
            claim,
            build,
            pairs,
            runs,
            max_rows=max_rows,
            confidence=confidence,
            progress=progress,
        )


def _feasible(pairs: list[Neighbours], method: Method, epsilon: Fraction) -> list[Neighbours]:
    """The pairs of tables that the method can build views of."""
    reasons = [method.why_infeasible(pair.exact_without.schema, float(epsilon)) for pair in pairs]
    feasible = [pair for pair, reason in zip(pairs, reasons, strict=True) if reason is None]
    if not feasible:
        raise MethodError(str(reasons[0]))
    return feasible


def claim_of(method: Method, epsilon: Fraction, max_rows: int = 1, quality: bool = True) -> Claim:
    """The guarantee of builds by a method. With a δ: the method's ρ, plus ε²/2 for measuring errors."""
    delta = delta_of(method)
    if not delta:
        return Claim(float(epsilon))
    for_quality = epsilon * QUALITY_SHARE if quality else Fraction(0)
    of_view = Mechanism(epsilon - for_quality, Randomness.fresh(), delta=delta, max_rows=max_rows)
    rho = of_view.total + (for_quality / max_rows) ** 2 / 2
    # A person of k records is k neighbours away, and divergences grow with k².
    return Claim(float(epsilon), float(delta), float(rho * max_rows**2))


def audit_builds(
    name: str,
    claim: Claim,
    build: Build,
    pairs: Iterable[Neighbours],
    runs: int,
    *,
    max_rows: int = 1,
    search_runs: int | None = None,
    confidence: float = CONFIDENCE,
    progress: Progress | None = None,
) -> Audit:
    """Audit any function that builds views. search_runs: builds of each table of each pair that select the
    event; half of `runs` by default.
    """
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < LEAST_RUNS:
        raise BudgetError(f"An audit needs {LEAST_RUNS} runs or more, not {runs!r}.")
    if not 0.5 <= confidence < 1:
        raise BudgetError(f"confidence must lie between 0.5 and 1, not {confidence!r}.")
    listed, n_search = list(pairs), search_runs or runs // 2
    # With a δ there are two bounds, of ε and of ρ, and each may be wrong.
    each = confidence if claim.rho is None else 1 - (1 - confidence) / 2
    report = _Steps(progress, total=2 * (len(listed) * n_search + runs))
    events = [event for pair in listed for event in _events(pair, build, runs, n_search, claim, report)]
    fresh = _FreshViews(build, runs, report)
    event = max((one for one, is_rho in events if not is_rho), key=lambda one: one.promise)
    hits = fresh.hits(event)
    seen, missed = _kinds(claim, runs, each, max_rows)
    result = Audit(
        method=name,
        claimed=claim.epsilon,
        lower_bound=epsilon_lower_bound(*hits, runs, each, claim.delta),
        runs=runs,
        confidence=confidence,
        max_rows=max_rows,
        table=event.pair.name,
        event=str(event),
        hits=hits,
        delta=claim.delta,
        visible=epsilon_lower_bound(runs, 0, runs, each, claim.delta),
        kinds_seen=seen,
        kinds_missed=missed,
    )
    if claim.rho is None:
        return result
    event = max((one for one, is_rho in events if is_rho), key=lambda one: one.promise)
    bound = rho_lower_bound(*fresh.hits(event), runs, each)
    return replace(result, claimed_rho=claim.rho, rho_lower_bound=bound)


def _kinds(claim: Claim, runs: int, confidence: float, max_rows: int) -> tuple[tuple[str, ...], ...]:
    """The kinds of bugs that the best event would show if it occurred as often as expected.

    A bug that makes the loss `factor` times ε shows best in an event of probability 1/(1 + a) on one table
    and a/(1 + a) on the other, a = e^(−factor·ε): the sign of one noisy number.
    """
    factors = {
        "a number or a choice without noise": np.inf,
        "all noise half as wide as was charged": 2.0,
        "one row more of a person than was charged": (max_rows + 1) / max_rows,
        "half the noise where half of the budget is spent": 1.5,
        "half the noise where a tenth of the budget is spent": 1.1,
    }
    seen, missed = list[str](), list[str]()
    for kind, factor in factors.items():
        chance = 1 / (1 + np.exp(-factor * claim.epsilon))
        hits = round(runs * chance)
        bound = epsilon_lower_bound(hits, runs - hits, runs, confidence, claim.delta)
        (seen if bound > claim.epsilon else missed).append(kind)
    return tuple(seen), tuple(missed)


class _FreshViews:
    """Views of both tables of a pair that took no part in selecting the event."""

    def __init__(self, build: Build, runs: int, report: _Steps) -> None:
        self._build, self._runs, self._report = build, runs, report
        self._views: dict[tuple[str, bool], list[Features]] = {}

    def hits(self, event: _Event) -> tuple[int, int]:
        """The number of times an event occurs on the table where it is likelier, and on the other one."""
        return event.hits(self._of(event.pair, event.second)), event.hits(
            self._of(event.pair, not event.second)
        )

    def _of(self, pair: Neighbours, with_canary: bool) -> list[Features]:
        key = pair.name, with_canary
        if key not in self._views:
            table = pair.with_canary if with_canary else pair.without
            self._views[key] = _views(table, pair, self._build, self._runs, self._report)
        return self._views[key]


def _events(
    pair: Neighbours, build: Build, runs: int, n_search: int, claim: Claim, report: _Steps
) -> Iterator[tuple[_Event, bool]]:
    """The most promising event of a pair for a bound on ε and, if there is one, on ρ.

    Half of the views train the scores. The others select events and their thresholds.
    """
    n_learn = n_search // 2
    first = _views(pair.without, pair, build, n_search, report)
    second = _views(pair.with_canary, pair, build, n_search, report)
    scorer = Scorer.learn(first[:n_learn], second[:n_learn])
    on_first, on_second = scorer.scores(first[n_learn:]), scorer.scores(second[n_learn:])
    for is_rho in (False,) if claim.rho is None else (False, True):
        best = _Event(pair, scorer, 0, np.inf, True, -np.inf)
        for column in range(on_first.shape[1]):
            for is_second in (True, False):
                sides = on_second[:, column], on_first[:, column]
                likelier, other = (_signed(side, is_second) for side in (sides if is_second else sides[::-1]))
                for threshold, promise in _thresholds(likelier, other, runs, claim.delta, is_rho):
                    if promise > best.promise:
                        best = _Event(pair, scorer, column, threshold, is_second, promise)
        yield best, is_rho


def _signed(scores: Scores, is_second: bool) -> Scores:
    """Scores that are larger on the likelier table, and lowest for views without a score."""
    signed = scores if is_second else -scores
    return np.where(np.isnan(signed), -np.inf, signed)


def _thresholds(
    likelier: Scores, other: Scores, runs: int, delta: float, is_rho: bool
) -> Iterator[tuple[float, float]]:
    """Thresholds on a score and the approximate bound of each, which only guides the selection."""
    shares = np.geomspace(10 / len(likelier), 0.995, 60)
    factor = runs / len(likelier)
    for threshold in np.unique(np.quantile(likelier, 1 - shares, method="higher")).tolist():
        seen, seen_on_other = int((likelier >= threshold).sum()), int((other >= threshold).sum())
        # The best of many events looks better than it is, so subtract two standard deviations.
        hits = factor * max(0.0, seen - 2 * seen**0.5)
        hits_on_other = factor * (seen_on_other + 2 * (seen_on_other + 1) ** 0.5)
        least = (hits - _CAUTION * hits**0.5) / runs - delta
        largest = (hits_on_other + _CAUTION * (hits_on_other + 1) ** 0.5 + 3) / runs
        if least > 0 and is_rho:
            yield threshold, divergence_per_order(least, largest) if least > largest else least - largest
        elif least > 0:
            yield threshold, float(np.log(least / largest))


def _views(table: Source, pair: Neighbours, build: Build, runs: int, report: _Steps) -> list[Features]:
    views = []
    for _ in range(runs):
        views.append(features_of(build(table), pair))
        report.step()
    return views


class _Steps:
    """Counts builds and reports the fraction done now and then."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def step(self) -> None:
        self._done += 1
        if self._progress is not None and self._done % 64 == 0:
            self._progress(self._done / self._total, "building views")
