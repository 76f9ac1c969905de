"""Builds on invented tables: the errors of one budget, and the budget for a wanted error.

A method that measures tables of a few attributes divides its budget among the attributes. The forecast for a
wide schema therefore simulates a few attributes at a time, with their share of the budget, which takes
seconds. This ignores that a build on many attributes measures a smaller part of their pairs.
"""

from __future__ import annotations

import statistics
from fractions import Fraction

import numpy as np

from hdpview.counts.contributions import Contributions
from hdpview.counts.sparse import SparseCounts, code_type
from hdpview.domain import Schema
from hdpview.errors import BudgetError, MethodError
from hdpview.forecast.invented import HEAPED, invented_tables
from hdpview.forecast.measure import COUNTS, RELATIONS, Measured, measure
from hdpview.forecast.result import Error, Estimate
from hdpview.methods import Method
from hdpview.methods.protocol import delta_of
from hdpview.progress import Progress
from hdpview.view.risk import risk_sentence

# A wanted error refers to the first of these kinds that the table has.
_WANTED = ("range of two attributes", "range of one attribute")
_MOST_ROWS = 50_000  # simulated rows, so that a forecast takes seconds
_N_BUILDS = 3  # builds per invented table, because the noise of a single view varies
_MOST_ATTRIBUTES = 6  # attributes at a time, for methods that measure tables of a few attributes
_MOST_ROWS_FOR_TABLES = 20_000  # simulated rows for these methods
_GROWTH_SEEN_ON = (1, 2)  # indices of the tables that are also invented smaller: neither even nor extreme
_BYTES_PER_CELL = 3.0  # peak memory per byte of the encoded rows
_SMALLEST = 0.01  # smallest epsilon that a search tries
_LARGEST = 10.0  # largest epsilon that a search tries
_N_TRIED, _MOST_TRIED = 4, 8  # budgets that a search tries, usually and at most
_TOLERANCE = 0.1  # relative tolerance of the wanted error; half of it for the budget
_SLOPES = (-2.0, -0.25)  # steepest and flattest slope of log error over log budget
# Real tables leave more cells empty than invented ones: errors on cells fell to a fifth of the smallest
# simulated error (adult at epsilon 1).
_EMPTIER_CELLS = 8.0
_FIRST_SLOPE = -0.8  # noise is ∝ 1/budget; errors of the model fall more slowly


class Trial:
    """Invented tables of a schema, and builds of a method on them."""

    def __init__(
        self, schema: Schema, n_rows: int, method: Method, progress: Progress, limits: Contributions
    ) -> None:
        self.schema, self.n_rows, self.method, self.limits = schema, n_rows, method, limits
        self.progress = progress
        self.kinds = [kind for kind, n_attributes in COUNTS.items() if n_attributes <= len(schema)]
        self.relations = RELATIONS if len(schema) > 1 else ()
        self.wanted = next(kind for kind in _WANTED if kind in self.kinds)
        by_parts = method.reads == "tables"
        self.simulated_rows = min(n_rows, _MOST_ROWS_FOR_TABLES if by_parts else _MOST_ROWS)
        # Every call invents the same data, so that budgets can be compared.
        rng = np.random.default_rng(0)
        self.n_at_once = min(len(schema), _MOST_ATTRIBUTES) if by_parts else len(schema)
        self.n_builds = min(_N_BUILDS, max(1, _MOST_ATTRIBUTES // len(schema))) if by_parts else _N_BUILDS
        self.tables = invented_tables(schema, self.n_at_once, self.simulated_rows, rng)
        # If the table is too large to simulate, a second, smaller size shows how errors grow with rows.
        self.smaller = (
            invented_tables(schema, self.n_at_once, self.simulated_rows // 4, rng)
            if n_rows > self.simulated_rows
            else self.tables
        )

    def run(self, epsilon: Fraction, done: float = 0.0, part: float = 1.0) -> Estimate:
        """Forecast for this budget. done, part: shares of the work before this run and in it."""
        measured, small = self._measured(epsilon, done, part)
        pairs = list(zip(measured, small, strict=True))
        factor, width = self.n_rows / self.simulated_rows, len(self.schema) / self.n_at_once
        spreads = {
            kind: _spread([_scaled(m, s, kind, factor) for m, s in pairs], kind, width)
            for kind in (*self.kinds, *self.relations)
        }
        bytes_per_row = len(self.schema) * code_type(self.schema)().itemsize + 8
        return Estimate(
            epsilon=float(epsilon),
            n_rows=self.n_rows,
            errors={kind: spreads[kind] for kind in self.kinds},
            n_blocks=round(statistics.median(_scaled(m, s, "blocks", factor) for m, s in pairs)),
            file_bytes=round(width * statistics.median(_file_bytes(m, s, factor) for m, s in pairs)),
            build_seconds=width * statistics.median(_scaled(m, s, "seconds", factor) for m, s in pairs),
            memory_bytes=round(self.n_rows * bytes_per_row * _BYTES_PER_CELL),
            risk=risk_sentence(epsilon, delta=delta_of(self.method)),
            delta=float(delta_of(self.method)),
            max_rows=self.limits.max_rows,
            relations={
                kind: Error(*(each / self.n_rows for each in spreads[kind])) for kind in self.relations
            },
            n_at_once=self.n_at_once if self.n_at_once < len(self.schema) else None,
        )

    def _measured(self, epsilon: Fraction, done: float, part: float) -> tuple[list[Measured], list[Measured]]:
        """Measurements on each invented table, and on the smaller ones."""
        reason = self.method.why_infeasible(self.schema, float(epsilon / self.limits.max_rows))
        if reason is not None:
            raise MethodError(reason)
        share, measured = self._share(epsilon), []
        for i, table in enumerate(self.tables):
            self.progress(done + part * i / len(self.tables), "building views of invented tables")
            measured.append(self._of_one(table, share))
        if self.smaller is self.tables:
            return measured, measured
        if self.method.reads != "tables":
            return measured, [self._of_one(table, share) for table in self.smaller]
        # Noise dominates the errors of such methods, so they grow alike on all tables: two are enough.
        small = [self._of_one(self.smaller[i], share) for i in _GROWTH_SEEN_ON]
        return measured, _grown_alike(measured, [measured[i] for i in _GROWTH_SEEN_ON], small)

    def _of_one(self, table: SparseCounts, share: Fraction) -> Measured:
        kinds = (*self.kinds, *self.relations)
        return measure(table, share, self.method, kinds, self.limits, self.n_builds)

    def _share(self, epsilon: Fraction) -> Fraction:
        """The budget for attributes simulated together: ∝ their share of all attributes, or ∝ its square root
        with a delta, because noise then grows with the square root of the number of tables.
        """
        share = self.n_at_once / len(self.schema)
        if share == 1:
            return epsilon
        return Fraction(f"{float(epsilon) * (share**0.5 if delta_of(self.method) else share):.6g}")

    def search(self, error: float) -> Estimate:
        """The smallest budget whose expected error is at most `error`, within a tolerance.

        Errors fall roughly as a power of the budget, so the next budget to try is on a line through two
        earlier ones on a log-log scale.
        """
        largest = self._largest_feasible()
        epsilon = min(1.0, largest) if error > 0 else largest
        tried: list[Estimate] = []
        while True:
            done = min(len(tried) / _N_TRIED, 1.0)
            tried.append(self.run(Fraction(f"{epsilon:.3g}"), done, 0.0 if done == 1 else 1 / _N_TRIED))
            tried.sort(key=lambda each: each.epsilon)
            enough = next((i for i, each in enumerate(tried) if self._expected(each) <= error), None)
            if enough is None and epsilon == largest:
                raise BudgetError(
                    f"No budget up to {largest:.3g} brings the error of a {self.wanted} down to {error:g} "
                    f"records; the smallest expected error is {self._expected(tried[-1]):,.0f}. Use coarser "
                    "bins or fewer attributes."
                )
            if enough is not None and self._is_near(tried, enough, error):
                return tried[enough]
            epsilon = self._next(tried, enough, error, largest)

    def _expected(self, forecast: Estimate) -> float:
        return forecast.errors[self.wanted].expected

    def _is_near(self, tried: list[Estimate], enough: int, error: float) -> bool:
        """Whether `tried[enough]` is close to the smallest sufficient budget, or the search should end."""
        smallest = tried[enough]
        below = tried[enough - 1].epsilon if enough else _SMALLEST
        return (
            self._expected(smallest) >= (1 - _TOLERANCE) * error
            or smallest.epsilon <= (1 + _TOLERANCE / 2) * below
            or len(tried) >= _MOST_TRIED
        )

    def _next(self, tried: list[Estimate], enough: int | None, error: float, largest: float) -> float:
        """The budget to try next: between the largest insufficient and the smallest sufficient one, or beyond
        all that were tried.
        """
        aim = np.log(error * (1 - _TOLERANCE / 2))
        x = [np.log(each.epsilon) for each in tried]
        y = [np.log(max(self._expected(each), 1e-9)) for each in tried]
        start = len(tried) - 1 if enough is None else enough
        upper = max(start, 1)  # the larger of the two that define the slope
        slope = (y[upper] - y[upper - 1]) / (x[upper] - x[upper - 1]) if len(tried) > 1 else _FIRST_SLOPE
        target = x[start] + (aim - y[start]) / np.clip(slope, *_SLOPES)
        if enough:  # stay off the ends of the bracket, or it would shrink from one side alone
            margin = 0.1 * (x[enough] - x[enough - 1])
            return float(np.exp(np.clip(target, x[enough - 1] + margin, x[enough] - margin)))
        if enough is None and len(tried) >= _N_TRIED:
            return largest
        return float(np.clip(np.exp(target), _SMALLEST, largest))

    def _largest_feasible(self) -> float:
        largest = _LARGEST
        while (reason := self.method.why_infeasible(self.schema, largest / self.limits.max_rows)) is not None:
            if largest < _SMALLEST:
                raise MethodError(reason)
            largest /= 1.1
        return largest


def _grown_alike(measured: list[Measured], large: list[Measured], small: list[Measured]) -> list[Measured]:
    """Predicted measurements on smaller tables, from the mean growth between `small` and `large`."""
    logs = {
        what: [np.log(max(s[what], 1e-9) / max(m[what], 1e-9)) for s, m in zip(small, large, strict=True)]
        for what in measured[0]
    }
    return [
        {what: value * float(np.exp(np.mean(logs[what]))) for what, value in each.items()}
        for each in measured
    ]


def _scaled(measured: Measured, smaller: Measured, what: str, factor: float) -> float:
    """A figure for a table `factor` times as large, by the power law through two sizes."""
    if factor == 1:
        return measured[what]
    power = np.clip(np.log(max(measured[what], 1e-9) / max(smaller[what], 1e-9)) / np.log(4), 0.0, 1.0)
    return float(measured[what] * factor**power)


def _file_bytes(measured: Measured, smaller: Measured, factor: float) -> float:
    """The file size for a table `factor` times as large, from the bytes per additional block."""
    n_further = measured["blocks"] - smaller["blocks"]
    per_block = max(0.0, (measured["bytes"] - smaller["bytes"]) / n_further) if n_further > 0 else 0.0
    return measured["bytes"] + per_block * (_scaled(measured, smaller, "blocks", factor) - measured["blocks"])


def _spread(values: list[float], kind: str, width: float) -> Error:
    """The median over tables concentrated by attribute, and the range over all tables.

    width: attributes of the schema per attribute of an invented table. The wider the schema, the fewer of
    its pairs are counted together. At epsilon 1, all 16 errors on four tables lie in the range.
    """
    low = min(values) / width / (_EMPTIER_CELLS if kind.startswith("cell") else 1.0)
    high = max(values) * width ** (COUNTS.get(kind, 1) / 2)
    return Error(statistics.median(values[: len(HEAPED)]), low, high)
