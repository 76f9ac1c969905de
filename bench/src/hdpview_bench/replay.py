"""Replay: build a table, record what every mechanism returned, and build another table with the same
outcomes.

Everything else in the view must then be equal to the last byte. In addition, the exact numbers passed to
samplers are recorded, so that the privacy loss of a build on two neighbouring tables can be computed without
trusting its accounting.
"""

from __future__ import annotations

import itertools
import math
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import hdpview as hv
from hdpview.build import release
from hdpview.counts.contributions import Contributions
from hdpview.counts.ingest import ReadOptions, read_counts
from hdpview.counts.learn import Learnt, learn
from hdpview.counts.paid_check import paid_check
from hdpview.counts.person_counts import person_counts
from hdpview.counts.sparse import SparseCounts, code_type
from hdpview.counts.stream import streamed_counts
from hdpview.domain import Schema
from hdpview.domain.table_shapes import TableShape
from hdpview.errors import BudgetError
from hdpview.methods import Hdpview, Method, Mixture, mixture
from hdpview.methods.people import measure_people
from hdpview.methods.quality import QUALITY_SHARE
from hdpview.partition.local import LocalEngine
from hdpview.privacy import mechanism
from hdpview.privacy.checkpoint import Checkpoint, is_of
from hdpview.privacy.exact import Exact, unprotected
from hdpview.privacy.ledger import Ledger
from hdpview.privacy.mechanism import Mechanism, Outcomes
from hdpview.privacy.noise import Noise
from hdpview.privacy.randomness import Randomness
from hdpview.pview import PView
from hdpview.query.errors.questions import questions_about
from hdpview.refine.tables import FinerCounts, Refinement

Rows = NDArray[np.int64]
_ZERO = Exact(np.zeros(3, np.int64))


@dataclass(frozen=True)
class Case:
    """A method on a table, a budget, and the number of records per person."""

    name: str
    schema: Schema
    rows: Rows
    method: Method
    epsilon: Fraction
    max_rows: int = 1
    weight: int = 1  # records that each row stands for


@dataclass
class Draw:
    """One call of a sampler: the exact numbers it received and its law. rate: 1/scale, or a choice's."""

    kind: str
    exact: NDArray[np.float64]
    rate: float
    noise: NDArray[np.float64] | None = None
    delta: float = 0.0


@dataclass
class Recording(Outcomes):
    """Outcomes in order, and the calls of samplers. With `of`, the outcomes of that recording are returned
    instead; `strange` lists requests that it does not have.
    """

    of: Recording | None = None
    draws: list[Draw] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    strange: list[str] = field(default_factory=list)
    growth: tuple[float, ...] = ()
    sampled: list[NDArray[Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def recall(self, purpose: str, terms: str) -> list[NDArray[Any]] | None:
        self.asked.append(f"{purpose}: {terms}")
        if self.of is None:
            return super().recall(purpose, terms)
        then, arrays = self.of._known.get(purpose, ("nothing", []))
        if then != terms:
            self.strange.append(f"{purpose}: {terms}, where it was {then}")
            return None
        return arrays

    def drew(self, purpose: str, arrays: list[NDArray[Any]]) -> None:
        """Check that what the samplers returned since the last draw is released unchanged."""
        if self.sampled:
            values = np.concatenate([each.reshape(-1) for each in self.sampled])
            if not any(values.tolist() == array.reshape(-1).tolist() for array in arrays):
                self.strange.append(f"{purpose}: what is released is not what the sampler returned")
        self.sampled.clear()

    def missing(self) -> list[str]:
        """Outcomes of the other build that this one did not request."""
        return [] if self.of is None else sorted(set(self.of.asked) - set(self.asked))


@contextmanager
def noting(recording: Recording) -> Iterator[None]:
    """Record what samplers receive. When outcomes are replayed, samplers still compute, but their results are
    ignored.
    """
    sampled: Any = mechanism._sampled
    chosen: Any = mechanism._choose  # type: ignore[attr-defined]
    thresholded, recalled = mechanism._laplace_with_threshold, Mechanism._recalled
    finer: Any = mechanism.finer_noise  # type: ignore[attr-defined]

    def note_sampled(exact: Any, law: str, scale: float, *rest: Any) -> Any:
        noisy = sampled(exact, law, scale, *rest)
        recording.draws.append(Draw(law, np.array(exact, float), 1 / scale, np.array(noisy - exact, float)))
        recording.sampled.append(noisy)
        return noisy

    def note_choice(scores: Any, rate: Fraction, *rest: Any) -> Any:
        recording.draws.append(Draw("choice", np.array(scores, float), float(rate)))
        choice = chosen(scores, rate, *rest)
        recording.sampled.append(np.array(choice))
        return choice

    def note_texts(exact: Any, scale: float, epsilon: Fraction, delta: Fraction, k: int) -> Any:
        counts = np.array([exact[text] for text in sorted(exact)], float)
        recording.draws.append(Draw("texts", counts, 1 / scale, delta=float(delta)))
        return thresholded(exact, scale, epsilon, delta, k)

    def note_finer(coarse: Any, rate: Fraction, finer_rate: Fraction, *rest: Any) -> Any:
        # The old noise is known to have the old rate, so the new draw costs the difference. [P17]
        recording.draws.append(Draw("laplace", np.array(coarse, float), float(finer_rate - rate)))
        return finer(coarse, rate, finer_rate, *rest)

    def always_draw(self: Mechanism, purpose: str, terms: str, draw: Callable[[], Any]) -> Any:
        fresh = draw()
        recording.drew(purpose, fresh)
        return recalled(self, purpose, terms, lambda: fresh)

    with (
        patch.object(mechanism, "_sampled", note_sampled),
        patch.object(mechanism, "_choose", note_choice),
        patch.object(mechanism, "_laplace_with_threshold", note_texts),
        patch.object(mechanism, "finer_noise", note_finer),
        patch.object(Mechanism, "_recalled", always_draw),
    ):
        yield


class SameBlocks:
    """An engine that returns the blocks of another build with this table's counts in them."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording

    def grow(self, counts: Any, parameters: Any, key: Any, progress: Any = None) -> Any:
        self.recording.growth = parameters.numbers
        grown = LocalEngine(1).grow(counts, parameters, key, progress)
        if self.recording.of is None or "noise on counts" not in self.recording.of._known:
            return grown
        lower, upper = self.recording.of._known["noise on counts"][1][:2]
        codes = counts.exact_codes[:, None, :].astype(np.int64)
        inside = ((lower <= codes) & (codes < upper)).all(axis=2)
        sums = (inside * counts.exact_counts[:, None]).sum(axis=0)
        depth = self.recording.of._known["noise on counts"][1][3]
        empty = np.zeros(len(sums), np.int64)
        keys = np.zeros((len(sums), 8), np.uint32)
        return replace(
            grown,
            lower=lower,
            upper=upper,
            depth=depth,
            keys=keys,
            exact_first=empty,
            exact_last=empty,
            exact_sum=sums,
        )


def cells(case: Case, rows: Rows) -> SparseCounts:
    """The occupied cells. Rows beyond those of the case stand for one record each."""
    codes, place = np.unique(rows, axis=0, return_inverse=True)
    counts = np.zeros(len(codes), np.int64)
    np.add.at(counts, place.reshape(-1), np.where(np.arange(len(rows)) < len(case.rows), case.weight, 1))
    return SparseCounts(case.schema, np.ascontiguousarray(codes.astype(code_type(case.schema))), counts, 1)


def built(case: Case, rows: Rows, recording: Recording, test_key: bytes | None = b"k") -> bytes:
    """The file of a view. Fits are small, because they are post-processing and take most of the time."""
    key = Randomness.fresh() if test_key is None else Randomness.from_test_key(test_key)
    limits = Contributions("who" if case.max_rows > 1 else None, case.max_rows)
    with noting(recording), small_fits(), tempfile.TemporaryDirectory() as folder:
        view = release(
            cells(case, rows),
            case.epsilon,
            case.method,
            key,
            1,
            None,
            limits,
            SameBlocks(recording),
            quality=True,
            outcomes=recording,
        )
        view.save(f"{folder}/v.pview")
        return Path(folder, "v.pview").read_bytes()


@contextmanager
def small_fits() -> Iterator[None]:
    right: Any = mixture.effort_for  # type: ignore[attr-defined]

    def little(n: int) -> Any:
        return replace(right(n), n_components=16, passes=1, rounds=5, members=1)

    with patch.object(mixture, "effort_for", little):
        yield


def neighbours(case: Case) -> Iterator[tuple[str, Rows]]:
    """Tables with one more person in a rare or a common cell, and one with one person less."""
    rare = np.array([size - 1 for size in case.schema.sizes])
    for name, cell in (("rare", rare), ("common", case.rows[0])):
        yield f"one more, {name}", np.concatenate([case.rows, np.repeat(cell[None], case.max_rows, axis=0)])
    if case.weight == 1:
        yield "one less", case.rows[case.max_rows :]


def another_table(case: Case) -> Rows:
    """A table that shares only the schema with the case's table."""
    mirrored = np.array(case.schema.sizes) - 1 - case.rows
    return np.concatenate([mirrored, mirrored, mirrored[: len(mirrored) // 2]])


def problems_of(case: Case) -> list[str]:
    """All problems that replay finds in builds of a case; none for a private build."""
    first = Recording()
    file = built(case, case.rows, first)
    problems = [*first.strange, *_wrong_sums(case, first)]
    for name, rows in (("another table", another_table(case)), *neighbours(case)):
        second = Recording(of=first)
        again = built(case, rows, second)
        problems += [f"{name}: {what}" for what in (second.strange + second.missing())[:3]]
        if not problems and again != file:
            problems.append(f"{name}: the view differs although every mechanism returned the same")
        if name != "another table" and not problems:
            problems += [f"{name}: {what}" for what in _too_much_loss(case, first, second)]
        if problems:
            return problems
    return problems + _not_fresh(case)


def _of_quality(case: Case) -> Fraction:
    return case.epsilon * QUALITY_SHARE


def _wrong_sums(case: Case, recording: Recording) -> list[str]:
    """The amounts that samplers used add up to what was paid, by formulas of this file."""
    k = case.max_rows
    delta = Fraction(getattr(case.method, "delta", 0))
    noise = [draw for draw in recording.draws if draw.kind in ("laplace", "gaussian")]
    choices = [draw for draw in recording.draws if draw.kind == "choice"]
    n_quality = min(4, len(case.schema))
    of_quality = sum(2 * draw.rate for draw in choices[-n_quality:]) * k
    if not math.isclose(of_quality, float(_of_quality(case)), rel_tol=1e-9):
        return [f"quality was paid {float(_of_quality(case)):g} and draws at {of_quality:g}"]
    rest = choices[:-n_quality]
    if delta:
        rho = sum(draw.rate**2 / 2 for draw in noise) + sum((2 * draw.rate) ** 2 / 8 for draw in rest)
        of_view = float(case.epsilon - _of_quality(case))
        of_one = float(delta) / (k * math.exp(of_view)) if k > 1 else float(delta)
        drawn = epsilon_of_rho(rho, of_one) * k
        return [] if 0.999 <= drawn / of_view <= 1 + 1e-6 else [f"{drawn:g} drawn, {of_view:g} paid"]
    wanted = float(case.epsilon - _of_quality(case))
    nominal = (sum(draw.rate for draw in noise) + sum(2 * draw.rate for draw in rest)) * k
    nominal += _of_growth(recording.growth) * k
    return [] if math.isclose(nominal, wanted, rel_tol=1e-9) else [f"{nominal:g} drawn, {wanted:g} paid"]


def _of_growth(numbers: tuple[float, ...]) -> float:
    """The loss of growing blocks with these numbers, by the proof's formula. Infinite below the floor."""
    if not numbers:
        return 0.0
    epsilon_cut, n_levels, scale, bias, threshold, floor = numbers
    if floor < (threshold + 2 - bias) * (1 - 1e-12):
        return math.inf
    return epsilon_cut * n_levels + 2 / scale * (1 / -math.expm1(-bias / scale) + 2)


def epsilon_of_rho(rho: float, delta: float) -> float:
    """The ε of ρ-zCDP at δ (Canonne, Kamath, Steinke 2020), by a search over α of its own."""
    orders = 1 + np.exp(np.linspace(-8, 12, 40_001))
    bounds = orders * rho + (math.log(1 / delta) + (orders - 1) * np.log1p(-1 / orders) - np.log(orders)) / (
        orders - 1
    )
    return float(bounds.min())


def _too_much_loss(case: Case, first: Recording, second: Recording) -> list[str]:
    """The losses of all draws on these two tables add up to at most ε (ρ with a δ)."""
    if [draw.exact.shape for draw in first.draws] != [draw.exact.shape for draw in second.draws]:
        return ["samplers received vectors of other shapes"]
    epsilon = rho = 0.0
    for one, two in zip(first.draws, second.draws, strict=True):
        change = np.abs(one.exact - two.exact)
        if one.rate != two.rate:
            return ["a sampler received another scale"]
        if one.kind in ("laplace", "texts"):
            epsilon += float(change.sum()) * one.rate
        elif one.kind == "gaussian":
            rho += float((change**2).sum()) * one.rate**2 / 2
        else:
            epsilon += 2 * float(change.max()) * one.rate
            rho += (2 * float(change.max()) * one.rate) ** 2 / 8
    if not getattr(case.method, "delta", 0):
        limit = float(case.epsilon) * (1 + 1e-9)
        return [] if epsilon <= limit else [f"a loss of {epsilon:g} where {float(case.epsilon):g} was paid"]
    paid = sum(draw.rate**2 / 2 for draw in first.draws if draw.kind == "gaussian")
    paid += sum((2 * draw.rate) ** 2 / 8 for draw in first.draws if draw.kind == "choice")
    limit = paid * case.max_rows**2 * (1 + 1e-9)
    return [] if rho <= limit else [f"rho {rho:g} where {limit:g} was paid"]


def _not_fresh(case: Case) -> list[str]:
    """Two builds with their own keys have different, uncorrelated noise of the stated size."""
    one, two = Recording(), Recording()
    built(case, case.rows, one, None)
    built(case, case.rows, two, None)
    pooled = []
    for recording in (one, two):
        noise = [
            draw.noise * draw.rate for draw in recording.draws if draw.noise is not None and draw.rate < 0.7
        ]
        pooled.append(np.concatenate([np.zeros(0), *(each.reshape(-1) for each in noise)]))
    n = min(map(len, pooled))
    if n < 30:
        return []
    a, b = pooled[0][:n], pooled[1][:n]
    if (a == b).mean() > 0.7 or abs(np.corrcoef(a, b)[0, 1]) > 5 / math.sqrt(n) + 0.05:
        return ["noise of two builds is correlated"]
    spread = float(np.abs(np.concatenate(pooled)).mean())
    expected = math.sqrt(2 / math.pi) if getattr(case.method, "delta", 0) else 1.0
    if not expected * (1 - 5 / math.sqrt(2 * n)) - 0.1 < spread < expected * (1 + 6 / math.sqrt(2 * n)) + 0.1:
        return [f"noise is {spread:.2f} scales large on average, not {expected:.2f}"]
    return []


def integers(sizes: tuple[int, ...]) -> Schema:
    return hv.Schema([hv.Integer(name=f"a{i}", min=0, max=size - 1) for i, size in enumerate(sizes)])


def random_rows(sizes: tuple[int, ...], n: int, seed: int, constant: int | None = None) -> Rows:
    """Skewed and dependent rows; attribute `constant` is nearly always 0."""
    rng = np.random.default_rng(seed)
    rows = np.stack([np.minimum((rng.random(n) ** 2 * s).astype(np.int64), s - 1) for s in sizes], axis=1)
    if len(sizes) > 3:
        rows[:, 3] = (rows[:, 0] + rows[:, 1]) % sizes[3]
    if constant is not None:
        rows[:, constant] = np.where(rng.random(n) < 0.003, rows[:, constant], 0)
    return rows


def cases() -> list[Case]:
    eight, six = (4, 3, 3, 2, 3, 3, 2, 4), (4, 3, 3, 2, 5, 3)
    mixed, paper, tiny = Mixture, Hdpview, Fraction(1, 10**6)

    def case(
        name: str, sizes: tuple[int, ...], n: int, method: Method, epsilon: int = 1, **more: Any
    ) -> Case:
        constant = more.pop("constant", None)
        rows = random_rows(sizes, n, len(sizes), constant)
        return Case(name, integers(sizes), rows, method, Fraction(epsilon), **more)

    blocks = case("refined blocks", (6, 5), 500, paper())
    refined = case("refined, with a focus", (4, 3, 3, 2), 3_000, mixed())
    refinement = Refinement(
        (("a0", "a3"),), tables=_view_of(refined).parts[0].tables, refined_view="the first"
    )
    return [
        replace(refined, method=refinement),
        replace(blocks, method=FinerCounts(_view_of(blocks).blocks, "the first")),
        case("choices", eight, 5_000, mixed()),
        case("choices with delta", eight, 4_000, mixed(delta=tiny), 2),
        case("delta for a person of three", six, 3_000, mixed(delta=tiny), 4, max_rows=3),
        case("focus", (4, 3, 3, 2), 3_000, mixed(focus=(("a0", "a1"),)), 2),
        case("nearly constant", (*six, 6, 300), 9_000, mixed(), 1, constant=6),
        case("three rows of a person", (4, 3, 3), 400, mixed(), 1, max_rows=3),
        case("sparse", (30, 12), 40, mixed()),
        case("one attribute", (5,), 50, mixed()),
        case("counts at their bound", (512, 3), 12_000, mixed(), 1, weight=2**40),
        case("paper", (8, 6, 5), 900, paper()),
        case("paper, a person of two", (8, 6), 300, paper(), 2, max_rows=2),
    ]


def _view_of(case: Case) -> PView:
    """A view of a case, to refine."""
    with small_fits():
        key = Randomness.from_test_key(b"before")
        return release(cells(case, case.rows), case.epsilon, case.method, key, quality=False)


def people(n: int = 600, extra: int = 0, youngest: int = 20) -> pa.Table:
    """A table for learning and for bounding rows: persons with five rows each, and one with `extra` rows."""
    rng = np.random.default_rng(3)
    who = [f"p{i // 5}" for i in range(n)] + ["new"] * extra
    ages = [*rng.integers(youngest, youngest + 40, n).tolist(), *(i % 100 for i in range(extra))]
    cities = [*rng.choice(["Bonn", "Kiel"], n).tolist(), *(f"city {i}" for i in range(extra))]
    debts = [*rng.normal(0, 50, n).tolist(), *((-1e300, 1e300)[i % 2] for i in range(extra))]
    return pa.table({"who": who, "age": ages, "city": cities, "debt": debts})


def problems_of_learning() -> list[str]:
    """Learning with the outcomes of another table has the same result and loses at most what was paid."""
    limits, epsilon, delta = Contributions("who", 2), Fraction(2), Fraction(1, 10**6)
    kinds = {"age": "integer", "city": "category", "debt": "real"}

    def token(n: int) -> str:  # the same salt selects the rows of persons each time
        return "0" * 32 if n == 16 else secrets.token_hex(n)

    def learnt(recording: Recording, table: pa.Table) -> Learnt:
        with noting(recording), patch("hdpview.counts.learn.secrets", SimpleNamespace(token_hex=token)):
            charged: Any = nullcontext(SimpleNamespace(outcomes=recording))
            return learn(table, kinds, epsilon, delta, limits, charged=charged)

    first, problems = Recording(), list[str]()
    said = learnt(first, people())
    if first.strange:
        return first.strange
    nominal = sum(draw.rate for draw in first.draws) * limits.max_rows
    if not math.isclose(nominal, float(epsilon), rel_tol=1e-9):
        return [f"learning draws at {nominal:g} where {float(epsilon):g} was paid"]
    if sum(draw.delta for draw in first.draws) > float(delta):
        return ["texts pass more often than delta allows"]
    for table in (people(300, 9, youngest=2_000), people(extra=7)):
        second = Recording(of=first)
        if learnt(second, table) != said:
            problems.append("learning has another result although every mechanism returned the same")
        problems += second.strange + second.missing()
    loss = 0.0
    for one, two in zip(first.draws, second.draws, strict=True):
        n = min(len(one.exact), len(two.exact))
        if one.kind == "texts":  # chosen rows of the additional person, each with one text
            loss += min(limits.max_rows, abs(one.exact.sum() - two.exact.sum())) * one.rate
        else:
            loss += np.abs(one.exact[:n] - two.exact[:n]).sum() * one.rate
    return problems + ([] if loss <= float(epsilon) * (1 + 1e-9) else [f"learning loses {loss:g}"])


def problems_of_reading() -> list[str]:
    """One more person changes the selected rows only by that person's rows, at most k."""
    schema = hv.Schema([hv.Integer(name="age", min=0, max=99)])
    for k, salt in itertools.product((1, 3), ("a", "b", "c")):
        options = ReadOptions(limits=Contributions("who", k), salt=salt, threads=1)
        cells, rows = list[Rows](), list[Rows]()
        for extra in (0, 200):
            counts = read_counts(people(extra=extra), schema, options)
            cells.append(np.bincount(counts.exact_codes[:, 0], counts.exact_counts, 100))
            with streamed_counts(people(extra=extra), schema, options) as streamed:
                rows.append(unprotected(*streamed.exact_tables([TableShape.of_codes([0], (100,))])))
        for less, more in (cells, rows):
            if (more < less).any() or (more - less).sum() > k:
                return [f"a person of {k} rows changes {np.abs(more - less).sum()}"]
    return []


def problems_of_checking() -> list[str]:
    """A paid check depends only on its draws, and a person changes them by what is charged."""
    schema, epsilon, k = hv.Schema([hv.Integer(name="age", min=0, max=99)]), Fraction(1), 2

    def checked(recording: Recording, table: pa.Table) -> list[str]:
        receipt = SimpleNamespace(outcomes=recording)
        ledger: Any = SimpleNamespace(check=lambda *_: None, charged=lambda *_, **__: nullcontext(receipt))
        options = ReadOptions(limits=Contributions("who", k), salt="a", threads=1)
        with noting(recording):
            return list(map(str, paid_check(table, schema, epsilon, ledger, "t", options)))

    first, said = Recording(), list[list[str]]()
    said.append(checked(first, people()))
    for table in (people(youngest=2_000), people(extra=200)):
        second = Recording(of=first)
        said.append(checked(second, table))
        if said[0] != said[-1] or first.strange + second.strange:
            return ["a paid check reveals more than its draws"]
    loss = sum(
        np.abs(a.exact - b.exact).sum() * a.rate for a, b in zip(first.draws, second.draws, strict=True)
    )
    return [] if loss <= float(epsilon) * (1 + 1e-9) else [f"a paid check loses {loss:g}"]


def problems_of_asking() -> list[str]:
    """A record satisfies at most one of the questions in a group by which a view measures its errors."""
    case = Case("asked", integers((4, 3, 3)), random_rows((4, 3, 3), 200, 1), Mixture(), Fraction(1))
    records = np.array(list(itertools.product(*map(range, case.schema.sizes))))
    for k in (1, 2, 3):
        asked = questions_about(_view_of(case).parts[0], k)
        own = records[:, asked.boxes.attribute]
        inside = ((asked.boxes.lower <= own) & (own < asked.boxes.upper)).all(axis=2)
        for record in np.atleast_2d(inside):
            if np.bincount(asked.group, record).max() > 1:
                return [f"a record is in two questions of a group about {k} attributes"]
    return []


def problems_of_people() -> list[str]:
    """One more person adds one to numbers of persons, to k of those per value; draws cost what is charged."""
    schema, epsilon = hv.Schema([hv.Integer(name="age", min=0, max=99)]), Fraction(1)
    for k in (1, 3):
        limits = Contributions("who", k)
        options = ReadOptions(limits=limits, salt="a", threads=1)
        numbers = [person_counts(people(extra=extra), schema, options, ["age"]) for extra in (0, 200)]
        less, more = ([unprotected(each) for each in exact] for exact in numbers)
        for i, most in enumerate((1, k)):
            change = more[i] - less[i]
            if set(change.tolist()) - {0, 1} or change.sum() > most:
                return [f"a person changes numbers of persons by {change.sum()}, not {most}"]
        recording = Recording()
        with noting(recording):
            measure_people(numbers[0], ["age"], schema, epsilon, Randomness.fresh(), k, recording)
        drawn = sum(draw.rate * most for draw, most in zip(recording.draws, (1, k), strict=True))
        if not math.isclose(drawn, float(epsilon), rel_tol=1e-9):
            return [f"numbers of persons draw at {drawn:g}, not {float(epsilon):g}"]
        case = Case("people", schema, random_rows((100,), 200, 1), Mixture(), epsilon, k)
        with small_fits():
            view = release(
                *(cells(case, case.rows), epsilon, case.method, Randomness.fresh(), 1),
                limits=limits,
                quality=True,
                people=["age"],
                exact_people=numbers[0],
            )
        paid = sum(each.epsilon * each.times for each in view.manifest.spending)
        if paid != epsilon:
            return [f"a view with numbers of persons spends {float(paid):g}, not {float(epsilon):g}"]
    return []


def problems_of_choosing() -> list[str]:
    """Choices follow the exponential mechanism: the second of two scores is chosen with its probability."""
    scores, n = Exact(np.array([0, -2]), in_all=2), 600
    chosen = [
        Mechanism(Fraction(1), Randomness.fresh()).choose("one", scores, Fraction(1), np.array([1.0, 2.0]))
        for _ in range(n)
    ]
    chance = 2 * math.exp(-1) / (1 + 2 * math.exp(-1))
    if abs(sum(chosen) - n * chance) > 6 * math.sqrt(n * chance * (1 - chance)):
        return [f"{sum(chosen)} of {n} choices fall on an option with probability {chance:.2f}"]
    return []


def problems_of_keys() -> list[str]:
    """Builds have different keys, and so have the purposes of one build."""
    keys = [Randomness.fresh().root_key(purpose).tobytes() for purpose in "aab"]
    one = Randomness.fresh()
    keys += [one.root_key(purpose).tobytes() for purpose in "ab"]
    return [] if len(set(keys)) == len(keys) else ["two purposes, or two builds, share a key"]


def problems_of_refining() -> list[str]:
    """The old noise is the new noise plus independent noise, and a view can be refined only once."""
    n, exact, amount = 4_000, Exact(np.arange(4_000)), Fraction(1, 4)
    before = Mechanism(amount, Randomness.fresh())
    coarse = before.noisy("one", exact, amount)
    scale = before.noise(amount).scale
    finer = Mechanism(amount, Randomness.fresh()).refined("one", exact, coarse, scale, amount)
    old, new = coarse - np.arange(n), finer - np.arange(n)
    spread = Noise("laplace", 2 * amount).variance
    for what, product in (("its size", new**2), ("what it shares with the old", new * old)):
        if abs(product.mean() - spread) > 6 * product.std() / math.sqrt(n):
            return [f"finer noise is wrong in {what}: {product.mean():.1f}, not {spread:.1f}"]
    first, delta = Fraction(1), Fraction(1, 10**6)
    rho = Mechanism(first, Randomness.fresh(), delta=delta).total
    rho += Mechanism(Fraction(1, 2), Randomness.fresh(), before=(first, delta)).total
    if epsilon_of_rho(float(rho), float(delta)) > 1.5 * (1 + 1e-6):
        return [f"refining with a delta draws {float(rho):g} of rho in total"]
    return []


def problems_of_refining_persons() -> list[str]:
    """A view of persons is refined with the same rows, for the budget of one record, and only once."""
    schema = hv.Schema([hv.Integer(name="age", min=0, max=99)])
    with small_fits(), tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder, "l.sqlite"))
        ledger.set_limit("t", Fraction(99))
        kept: dict[str, Any] = {"ledger": ledger.path, "table": "t", "quality": False, "threads": 1}
        view = hv.build(people(), schema, 1, privacy_unit="who", max_rows=3, **kept)
        finer = hv.refine(view, people(), 1, **kept)
        before, after = (sum(1 / table.scale for table in each.parts[0].tables) for each in (view, finer))
        if 3 * (after - before) > 1 + 1e-9:
            return [f"refining a view of persons draws at {3 * (after - before):g} where 1 was paid"]
        if finer.manifest.choice != view.manifest.choice:
            return ["different rows of persons are counted"]
        with suppress(BudgetError):
            hv.refine(view, people(), 1, **kept)
            return ["a second refinement is not refused"]
    return []


def problems_of_paying() -> list[str]:
    """Draws are returned only for the charge that paid for them, on the same terms. A view is refined only
    once.
    """
    with tempfile.TemporaryDirectory() as folder:
        kept, ledger = Path(folder, "x.released"), Ledger(Path(folder, "l.sqlite"))
        outcomes = Checkpoint(kept, {"epsilon": "1"})
        Mechanism(Fraction(1), Randomness.fresh(), outcomes=outcomes).noisy("a", _ZERO, Fraction(1))
        outcomes.close(remove=False)
        refused: list[tuple[str, Callable[[], object]]] = []
        again = Checkpoint(kept, {"epsilon": "1"}, resume=True)
        more = Mechanism(Fraction(2), Randomness.fresh(), outcomes=again)
        refused.append(("other terms", lambda: more.noisy("a", _ZERO, Fraction(2))))
        gone = Path(folder, "y.released")
        refused.append(("draws that cannot be read", lambda: Checkpoint(gone, {}, resume=True)))
        terms = "t", Fraction(1), "mixture", "row", 1, Fraction(0), None, None, "checksum"
        ledger.set_limit("u", Fraction(3, 2))
        ledger.charge("u", Fraction(1), "x")
        ledger.charge(*terms)
        refused.append(("charges beyond the limit", lambda: ledger.charge("u", Fraction(1), "x")))
        refused.append(("a second refinement", lambda: ledger.charge(*terms)))
        for what, act in refused:
            with suppress(BudgetError):
                act()
                return [f"not refused: {what}"]
        if is_of(kept, {"epsilon": "2"}):
            return ["draws of another order are taken"]
    return []


# Checks of parts of a build, the quick ones first.
CHECKS = (
    problems_of_keys,
    problems_of_choosing,
    problems_of_refining,
    problems_of_paying,
    problems_of_reading,
    problems_of_asking,
    problems_of_people,
    problems_of_refining_persons,
    problems_of_checking,
    problems_of_learning,
)


def all_problems() -> Iterator[tuple[str, list[str]]]:
    """Each check and each case with its problems, the quick ones first."""
    for check in CHECKS:
        yield check.__name__.removeprefix("problems_of_"), check()
    for case in sorted(cases(), key=lambda case: len(case.schema) * len(case.rows)):
        try:
            yield case.name, problems_of(case)
        except Exception as refusal:
            yield case.name, [f"{type(refusal).__name__}: {refusal}"]
