"""Before spending: what a budget will buy, from public quantities alone.

No data is needed. Tables with the curator's schema and number of rows are invented, from records strewn
evenly to records heaped on a few values; views of them are built, questions asked, and errors measured
against the inventions. Real tables lie somewhere between.

A method that measures tables of a few attributes divides its budget among the attributes. Of a wide schema
such a forecast therefore looks at a few attributes at a time, with their share of the budget, which takes
seconds. What it leaves out: of many attributes a smaller part of the pairs is measured.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from hdpview.build import release
from hdpview.counts.contributions import EACH_ROW, Contributions
from hdpview.counts.sparse import SparseCounts, code_type
from hdpview.domain import Schema
from hdpview.domain.tables import CodeBoxes
from hdpview.errors import BudgetError, DataError, MethodError
from hdpview.methods import DEFAULT_METHOD, Method, chosen_method
from hdpview.methods.protocol import delta_of, with_delta
from hdpview.privacy.budget import exact_delta, exact_epsilon
from hdpview.privacy.randomness import Randomness
from hdpview.progress import Progress, silent
from hdpview.query.estimate.estimates import estimates
from hdpview.query.workloads import WORKLOADS, draw, n_attributes_of, pack_boxes
from hdpview.view.file import size_in_bytes
from hdpview.view.risk import risk_sentence

KINDS = {  # what is asked → the workload that stands for it
    "range of one attribute": "range-1d",
    "range of two attributes": "random-2d",
    "range of three attributes": "random-3d",
    "cell of a two-way table": "marginal-2",
}
RELATIONS = {"group-mean": "mean within a group", "group-rate": "rate within a group"}
_N_GROUPS = 40  # of each kind, in each view
_N_RANGES = 8  # into which codes are put together for groups
_LEAST_GROUP, _LEAST_SHARE = 30, 0.01  # records of a group that is worth a mean, and their share
# A wanted error is about the first of these that the table has.
_WANTED = ("range of two attributes", "range of one attribute")
# Share of records on each attribute's most frequent value, one invented table each; and in one more table,
# the share of records on the most frequent values of all attributes at once.
_HEAPED = (0.0, 0.3, 0.6, 0.9)
_HEAPED_TOGETHER = 0.95
_N_CLASSES, _MOST_ROWS = 6, 50_000
_N_BUILDS = 3  # of each invented table: the noise of a single view is not what to expect
_MOST_ATTRIBUTES = 6  # at a time, of methods that measure tables of a few attributes
_MOST_ROWS_FOR_TABLES = 20_000  # likewise
_GROWTH_SEEN_ON = (1, 2)  # tables, by their place, that are also invented smaller: neither even nor extreme
_N_QUESTIONS = 150  # of each kind, to each view
_SMALLEST, _LARGEST = 0.01, 10.0  # budgets to look among for a wanted error
_BYTES_PER_CELL = 3.0

Floats = NDArray[np.float64]
Answer = Callable[[CodeBoxes], tuple[Floats, Floats]]  # a view's counts of boxes, and the true ones
Measured = dict[str, float]  # of one table: errors by kind, "blocks", "bytes", "seconds"


class Error(NamedTuple):
    """Root mean square error, in records: to be expected, and from the most to the least favourable invented
    table.
    """

    expected: float
    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """What a build will give and take."""

    epsilon: float
    n_rows: int
    errors: dict[str, Error]
    n_blocks: int
    file_bytes: int
    build_seconds: float
    memory_bytes: int
    risk: str
    delta: float = 0.0
    max_rows: int = 1
    relations: dict[str, Error] = field(default_factory=dict)  # by kind, in shares of the span and of records
    n_at_once: int | None = None  # attributes that were looked at together, where not all were

    def __str__(self) -> str:
        also = f" and delta {self.delta:g}" if self.delta else ""
        persons = f", {self.max_rows} of a person" if self.max_rows > 1 else ""
        lines = [
            (
                f"With epsilon {self.epsilon:.3g}{also} on {self.n_rows:,} rows{persons}, expect errors "
                "(root mean square, in records) of about"
            )
        ]
        lines += [
            f"  {found.expected:>10,.0f}  on a {kind} ({found.low:,.0f} to {found.high:,.0f})"
            for kind, found in self.errors.items()
        ]
        if self.relations:
            lines.append("and, within groups of at least one in a hundred records,")
        lines += [
            f"  {_shown(found.expected):>10}  on a {kind} ({_shown(found.low)} to {_shown(found.high)})"
            for kind, found in self.relations.items()
        ]
        if self.relations:
            lines.append("(rates in percentage points, means in percent of the attribute's span).")
        lines.append(
            "The ranges span invented tables, from heaped on a few values to strewn evenly; real ones "
            "can lie outside."
        )
        if self.n_at_once is not None:
            lines.append(
                f"Seen on {self.n_at_once} attributes at a time. Of all of them fewer pairs can be counted "
                "together, so errors on two and more attributes can be larger."
            )
        size = f"{self.n_blocks:,} blocks, {self.file_bytes / 1e3:,.0f} kB"
        lines.append(
            f"About {size}; {self.build_seconds:.1f} s and {self.memory_bytes / 1e6:,.0f} MB to build, "
            "once the table is read."
        )
        return "\n".join([*lines, self.risk])


def _shown(share: float) -> str:
    return f"{100 * share:.2g} %"


def estimate(
    schema: Schema,
    n_rows: int,
    epsilon: float | str | Fraction | None = None,
    *,
    error: float | None = None,
    delta: float | str | Fraction | None = None,
    max_rows: int = 1,
    method: str | Method = DEFAULT_METHOD,
    progress: Progress | None = None,
    **settings: Any,
) -> Estimate:
    """Tell what a budget will buy, or find the budget for a wanted error.

    Args:
        schema: the table's schema.
        n_rows: about how many rows it has. Say what is public; a rounded figure will do.
        epsilon: the budget; or leave it out and give `error`.
        error: wanted root mean square error, in records, of a range of two attributes (of one, where there is
            only one).
        delta: with the method `mixture`, part of the budget, as in `build`.
        max_rows: how many rows of one person would be counted, as in `build`.
        method: name of a method, or a method object.
        progress: called with the fraction done and a few words.
        **settings: settings of the method.
    """
    if isinstance(n_rows, bool) or not isinstance(n_rows, int) or n_rows < 1:
        raise DataError(f"n_rows must be a whole number from 1, not {n_rows!r}.")
    if (epsilon is None) == (error is None):
        raise BudgetError(
            "Give either epsilon, the budget, or error, the root mean square error that you want."
        )
    chosen = chosen_method(method, settings, estimate)
    chosen = chosen if delta is None else with_delta(chosen, exact_delta(delta))
    trial = _Trial(schema, n_rows, chosen, progress, _limits(max_rows))
    if epsilon is not None:
        return trial.run(exact_epsilon(epsilon))
    assert error is not None
    return trial.search(error)


class _Trial:
    """Invented tables, and builds on them."""

    def __init__(
        self,
        schema: Schema,
        n_rows: int,
        method: Method,
        progress: Progress | None,
        limits: Contributions,
    ) -> None:
        self.schema, self.n_rows, self.method, self.limits = schema, n_rows, method, limits
        self.progress = progress or silent
        self.kinds = {
            kind: workload for kind, workload in KINDS.items() if n_attributes_of(workload) <= len(schema)
        }
        self.relations = {kind: name for name, kind in RELATIONS.items()} if len(schema) > 1 else {}
        self.wanted = next(kind for kind in _WANTED if kind in self.kinds)
        by_parts = method.reads == "tables"
        self.simulated_rows = min(n_rows, _MOST_ROWS_FOR_TABLES if by_parts else _MOST_ROWS)
        # Invented data: the same for every call, so that budgets can be compared.
        rng = np.random.default_rng(0)
        self.n_at_once = min(len(schema), _MOST_ATTRIBUTES) if by_parts else len(schema)
        self.n_builds = min(_N_BUILDS, max(1, _MOST_ATTRIBUTES // len(schema))) if by_parts else _N_BUILDS
        self.tables = _invented_tables(schema, self.n_at_once, self.simulated_rows, rng)
        # Where the table is too large to invent whole, a second and smaller size tells how errors grow with
        # rows.
        self.smaller = (
            _invented_tables(schema, self.n_at_once, self.simulated_rows // 4, rng)
            if n_rows > self.simulated_rows
            else self.tables
        )

    def run(self, epsilon: Fraction) -> Estimate:
        measured, small = self._measured(epsilon, {**self.kinds, **self.relations})
        factor, width = self.n_rows / self.simulated_rows, len(self.schema) / self.n_at_once
        errors = {
            kind: _spread([_scaled(m, s, kind, factor) for m, s in zip(measured, small, strict=True)])
            for kind in (*self.kinds, *self.relations)
        }
        relations = {kind: _per_record(errors.pop(kind), self.n_rows) for kind in self.relations}
        n_blocks = round(
            statistics.median(_scaled(m, s, "blocks", factor) for m, s in zip(measured, small, strict=True))
        )
        n_bytes = round(
            width * statistics.median(_file_bytes(m, s, factor) for m, s in zip(measured, small, strict=True))
        )
        seconds = [_scaled(m, s, "seconds", factor) for m, s in zip(measured, small, strict=True)]
        return Estimate(
            epsilon=float(epsilon),
            n_rows=self.n_rows,
            errors=errors,
            n_blocks=n_blocks,
            file_bytes=n_bytes,
            build_seconds=statistics.median(seconds) * width,
            memory_bytes=round(
                self.n_rows * (len(self.schema) * code_type(self.schema)().itemsize + 8) * _BYTES_PER_CELL
            ),
            risk=risk_sentence(epsilon, delta=delta_of(self.method)),
            delta=float(delta_of(self.method)),
            max_rows=self.limits.max_rows,
            relations=relations,
            n_at_once=self.n_at_once if self.n_at_once < len(self.schema) else None,
        )

    def _measured(self, epsilon: Fraction, kinds: Mapping[str, str]) -> tuple[list[Measured], list[Measured]]:
        """What was found on each invented table, and on the smaller ones."""
        reason = self.method.why_infeasible(self.schema, float(epsilon / self.limits.max_rows))
        if reason is not None:
            raise MethodError(reason)
        share, measured = self._share(epsilon), []
        for i, table in enumerate(self.tables):
            self.progress(i / len(self.tables), "building views of invented tables")
            measured.append(self._of_one(table, share, kinds))
        if self.smaller is self.tables:
            return measured, measured
        if self.method.reads != "tables":
            return measured, [self._of_one(table, share, kinds) for table in self.smaller]
        # Noise sets the errors of such methods, so they grow alike on all tables: two of them show how.
        small = [self._of_one(self.smaller[i], share, kinds) for i in _GROWTH_SEEN_ON]
        return measured, _grown_alike(measured, [measured[i] for i in _GROWTH_SEEN_ON], small)

    def _of_one(self, table: SparseCounts, share: Fraction, kinds: Mapping[str, str]) -> Measured:
        return _measure(table, share, self.method, kinds, self.limits, self.n_builds)

    def _share(self, epsilon: Fraction) -> Fraction:
        """The budget for the attributes that are looked at together: their share of all. With a delta it is
        the root of it, as noise grows with the root of what is measured.
        """
        share = self.n_at_once / len(self.schema)
        if share == 1:
            return epsilon
        return Fraction(f"{float(epsilon) * (share**0.5 if delta_of(self.method) else share):.6g}")

    def search(self, error: float) -> Estimate:
        """The smallest budget whose expected error is at most `error`, to within 5 %."""
        low, high = _SMALLEST, self._largest_feasible()
        if not error > 0 or self._expected(high) > error:
            raise BudgetError(
                f"No budget up to {high:.3g} brings the error of a {self.wanted} down to {error:g} records; "
                f"the least to expect is {self._expected(high):,.0f}. Ask for coarser bins or fewer "
                "attributes."
            )
        while high / low > 1.05:
            middle = (low * high) ** 0.5
            low, high = (low, middle) if self._expected(middle) <= error else (middle, high)
        return self.run(Fraction(f"{high:.3g}"))

    def _largest_feasible(self) -> float:
        largest = _LARGEST
        while (reason := self.method.why_infeasible(self.schema, largest / self.limits.max_rows)) is not None:
            if largest < _SMALLEST:
                raise MethodError(reason)
            largest /= 1.1
        return largest

    def _expected(self, epsilon: float) -> float:
        kind, factor = self.wanted, self.n_rows / self.simulated_rows
        measured, small = self._measured(Fraction(f"{epsilon:.4g}"), {kind: self.kinds[kind]})
        return _spread([_scaled(m, s, kind, factor) for m, s in zip(measured, small, strict=True)]).expected


def _grown_alike(measured: list[Measured], large: list[Measured], small: list[Measured]) -> list[Measured]:
    """What would be found on smaller tables, by the mean growth from `small` to `large` of some of them."""
    shrunk = {
        what: float(
            np.exp(
                np.mean(
                    [
                        np.log(max(one[what], 1e-9) / max(other[what], 1e-9))
                        for one, other in zip(small, large, strict=True)
                    ]
                )
            )
        )
        for what in measured[0]
    }
    return [{what: value * shrunk[what] for what, value in each.items()} for each in measured]


def _per_record(error: Error, n_rows: int) -> Error:
    return Error(*(part / n_rows for part in error))


def _limits(max_rows: int) -> Contributions:
    """Who is protected: with several rows, whoever a column stands for; its name does not matter here."""
    return EACH_ROW if max_rows == 1 else Contributions("person", max_rows)


def _measure(
    table: SparseCounts,
    epsilon: Fraction,
    method: Method,
    kinds: Mapping[str, str],
    limits: Contributions,
    n_builds: int,
) -> Measured:
    """Errors by kind, blocks, bytes and seconds: root mean squares over a few builds."""
    builds = [_measure_one(table, epsilon, method, kinds, i, limits) for i in range(n_builds)]
    return {what: statistics.fmean(build[what] ** 2 for build in builds) ** 0.5 for what in builds[0]}


def _measure_one(
    table: SparseCounts,
    epsilon: Fraction,
    method: Method,
    kinds: Mapping[str, str],
    number: int,
    limits: Contributions,
) -> Measured:
    started = time.perf_counter()
    key = Randomness.from_test_key(
        b"estimate %d" % number
    )  # the data are invented, and budgets compare on equal terms
    view = release(table, epsilon, method, key, limits=limits)
    measured: Measured = {"seconds": time.perf_counter() - started, "blocks": view.n_components}
    measured["bytes"] = size_in_bytes(view)

    def answer(boxes: CodeBoxes) -> tuple[Floats, Floats]:
        found = estimates(view, pack_boxes(boxes, table.schema.sizes))
        return found, table.exact_box_counts(boxes).astype(np.float64)

    for kind, workload in kinds.items():
        rng = np.random.default_rng([number, _seed_of(workload)])
        measure = _relation_error if workload in RELATIONS else _count_error
        measured[kind] = measure(workload, table.schema, rng, answer)
    return measured


def _seed_of(workload: str) -> int:
    return [*WORKLOADS, *RELATIONS].index(workload)


def _count_error(workload: str, schema: Schema, rng: Generator, answer: Answer) -> float:
    boxes = draw(workload, schema.sizes, _N_QUESTIONS, rng)
    assert boxes is not None
    found, exact_counts = answer(boxes)
    return float(np.sqrt(((found - exact_counts) ** 2).mean()))


def _relation_error(kind: str, schema: Schema, rng: Generator, answer: Answer) -> float:
    """Error of means or rates of one attribute within groups of another, times the number of records: then it
    grows with a table as errors of counts do.

    A group is about an eighth of an attribute's codes. Its mean is that of places from 0 to 1 on the other
    attribute's axis, its rate the share of records in the upper half of it.
    """
    pairs = np.argsort(rng.random((_N_GROUPS, len(schema))), axis=1)[:, :2]
    sizes = np.array(schema.sizes)[pairs]
    groups = rng.integers(0, np.minimum(sizes[:, 0], _N_RANGES))
    parts = [_parts(int(size)) for size in sizes[:, 1]]
    lower, upper, pair, place = [], [], [], []
    for i, (starts, ends) in enumerate(parts):
        first, last = _parts(int(sizes[i, 0]))[0][groups[i]], _parts(int(sizes[i, 0]))[1][groups[i]]
        lower += [(first, start) for start in starts]
        upper += [(last, end) for end in ends]
        pair += [i] * len(starts)
        place += [(start + end) / 2 / sizes[i, 1] for start, end in zip(starts, ends, strict=True)]
    found, exact_counts = answer(CodeBoxes(pairs[pair], np.array(lower), np.array(upper)))
    weight = np.array(place) if kind == "group-mean" else (np.array(place) > 0.5).astype(np.float64)
    n_found, n_true = (np.bincount(pair, counts, _N_GROUPS) for counts in (found, exact_counts))
    n_rows = float(answer(CodeBoxes(pairs[:1, :1], np.zeros((1, 1), np.int64), sizes[:1, :1]))[1][0])
    large = (n_true >= max(_LEAST_GROUP, _LEAST_SHARE * n_rows)) & (n_found > 0)
    if not large.any():
        return 0.0
    estimated = np.bincount(pair, found * weight, _N_GROUPS)[large] / n_found[large]
    exact_means = np.bincount(pair, exact_counts * weight, _N_GROUPS)[large] / n_true[large]
    return float(np.sqrt(((estimated - exact_means) ** 2).mean())) * n_rows


def _parts(size: int) -> tuple[list[int], list[int]]:
    """Codes in up to eight ranges of about equal length: where each begins and ends."""
    ends = [size * (i + 1) // min(size, _N_RANGES) for i in range(min(size, _N_RANGES))]
    return [0, *ends[:-1]], ends


def _scaled(measured: Measured, smaller: Measured, what: str, factor: float) -> float:
    """A figure for a table `factor` times as large as the one measured, by the power law through two
    sizes.
    """
    if factor == 1:
        return measured[what]
    power = np.clip(np.log(max(measured[what], 1e-9) / max(smaller[what], 1e-9)) / np.log(4), 0.0, 1.0)
    return float(measured[what] * factor**power)


def _file_bytes(measured: Measured, smaller: Measured, factor: float) -> float:
    """The file of a view of a table `factor` times as large: what it holds once, and what each further block
    took between two sizes.
    """
    n_further = measured["blocks"] - smaller["blocks"]
    per_block = max(0.0, (measured["bytes"] - smaller["bytes"]) / n_further) if n_further > 0 else 0.0
    return measured["bytes"] + per_block * (_scaled(measured, smaller, "blocks", factor) - measured["blocks"])


def _spread(values: list[float]) -> Error:
    """What to expect from tables heaped attribute by attribute; the table heaped on all at once is the
    favourable extreme.
    """
    return Error(statistics.median(values[: len(_HEAPED)]), min(values), max(values))


def _invented_tables(schema: Schema, n_at_once: int, n_rows: int, rng: Generator) -> list[SparseCounts]:
    """A table for each way of heaping, of all attributes or of as many as are looked at together, drawn by
    lot.
    """
    shapes = [*((heaped, 0.0) for heaped in _HEAPED), (0.0, _HEAPED_TOGETHER)]
    tables = []
    for heaped, together in shapes:
        part = schema
        if n_at_once < len(schema):
            chosen = sorted(rng.permutation(len(schema))[:n_at_once])
            part = Schema([schema.attributes[i] for i in chosen])
        tables.append(invented_counts(part, n_rows, heaped, together, rng))
    return tables


def invented_counts(
    schema: Schema, n_rows: int, heaped: float, together: float, rng: Generator
) -> SparseCounts:
    """Occupied cells of a made-up table: a few classes of records, each with its own place and width on half
    of the attributes.

    A share `together` of the records lies on the tops of its class in all attributes at once, and a share
    `heaped` in each one by itself.
    """
    classes = rng.choice(_N_CLASSES, n_rows, p=rng.dirichlet(np.full(_N_CLASSES, 2.0)))
    on_top = rng.random(n_rows) < together
    columns = []
    for size in schema.sizes:
        shared = _invented_distribution(size, heaped, rng)
        column = np.empty(n_rows, np.int64)
        for k in range(_N_CLASSES):
            inside = classes == k
            chance = _invented_distribution(size, heaped, rng) if rng.random() < 0.5 else shared
            drawn = rng.choice(size, int(inside.sum()), p=chance)
            column[inside] = np.where(on_top[inside], chance.argmax(), drawn)
        columns.append(column)
    cells, counts = np.unique(np.stack(columns, axis=1).astype(code_type(schema)), axis=0, return_counts=True)
    return SparseCounts(schema, np.ascontiguousarray(cells), counts.astype(np.int64))


def _invented_distribution(size: int, heaped: float, rng: Generator) -> NDArray[np.float64]:
    """A peak that falls off to both sides, with a share of all records on its top."""
    place = (np.arange(size) + 0.5) / size
    top, width = rng.beta(1, 2), rng.uniform(0.05, 0.4)
    shape = np.exp(-np.abs(place - top) / width)
    chance = (1 - heaped) * shape / shape.sum()
    chance[int(top * size)] += heaped
    normalised: NDArray[np.float64] = chance / chance.sum()
    return normalised
