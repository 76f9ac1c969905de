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
from hdpview.forecast.measured_errors import COUNTS, RELATIONS, Measured, measure
from hdpview.forecast.result import Error, Estimate
from hdpview.methods import Method
from hdpview.methods.protocol import delta_of
from hdpview.progress import Progress
from hdpview.view.manifest import risk_sentence

# A wanted error refers to the first of these kinds that the table has.
_WANTED = ("range of two attributes", "range of one attribute")
_MOST_ROWS = 50_000  # simulated rows, so that a forecast takes seconds
_N_BUILDS = 3  # builds per invented table, because the noise of a single view varies
_MOST_ATTRIBUTES = 6  # attributes at a time, for methods that measure tables of a few attributes
_MOST_ROWS_FOR_TABLES = 20_000  # simulated rows for these methods
_GROWTH_SEEN_ON = (1, 2)  # indices of the tables that are also invented smaller: neither even nor extreme
_BYTES_PER_CELL = 3.0  # peak memory per byte of the encoded rows
_MOST_BYTES_OF_TABLES = 512e6  # encoded rows and sums in memory of a method that measures tables
# The whole process, with libraries and database: 375 to 430 MB in builds of seven tables by the command.
_FIXED_BYTES = 300e6
_SMALLEST = 0.01  # smallest epsilon that a search tries
_LARGEST = 10.0  # largest epsilon that a search tries
_MOST_TRIED = 8  # budgets that a search tries
_TOLERANCE = 0.1  # relative tolerance of the wanted error
_SLOPES = (-2.0, -0.25)  # steepest and flattest slope of log error over log budget
# Real tables leave more cells empty than invented ones: errors on cells fell to a fifth of the smallest
# simulated error (adult at epsilon 1).
_EMPTIER_CELLS = 8.0
# Largest real error per largest simulated one: 2.0 for counts and 3.7 for means and rates, in builds of
# adult, bank, heart and phoneme at epsilon 0.1, 1 and 3.
_BEYOND_SIMULATED = 2.5
_RELATIONS_BEYOND_SIMULATED = 4.0
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
        if reason := self.method.why_infeasible(self.schema, float(epsilon / self.limits.max_rows)):
            raise MethodError(reason)
        share, measured = self._share(epsilon), []
        for i, table in enumerate(self.tables):
            self.progress(done + part * i / len(self.tables), "building views of invented tables")
            measured.append(self._of_one(table, share))
        grown, width = self._grown(measured, share), len(self.schema) / self.n_at_once
        typical = {what: statistics.median(each[what] for each in grown) for what in grown[0]}
        kinds = (*self.kinds, *self.relations)
        spreads = {kind: _spread([each[kind] for each in grown], kind, width) for kind in kinds}
        row_bytes = len(self.schema) * code_type(self.schema)().itemsize + 8
        rows_bytes = self.n_rows * row_bytes * _BYTES_PER_CELL
        if self.method.reads == "tables":
            rows_bytes = min(rows_bytes, _MOST_BYTES_OF_TABLES)
        return Estimate(
            epsilon=float(epsilon),
            n_rows=self.n_rows,
            errors={kind: spreads[kind] for kind in self.kinds},
            n_blocks=round(typical["blocks"]),
            file_bytes=round(width * typical["bytes"]),
            build_seconds=width * typical["seconds"],
            memory_bytes=round(_FIXED_BYTES + rows_bytes),
            risk=risk_sentence(epsilon, delta=delta_of(self.method)),
            delta=float(delta_of(self.method)),
            max_rows=self.limits.max_rows,
            relations={
                kind: Error(*(min(1.0, each / self.n_rows) for each in spreads[kind]))
                for kind in self.relations
            },
            n_at_once=self.n_at_once if self.n_at_once < len(self.schema) else None,
        )

    def _grown(self, measured: list[Measured], share: Fraction) -> list[Measured]:
        """Measurements for the whole number of rows, by the power laws through two sizes of two tables."""
        factor = self.n_rows / self.simulated_rows
        if factor == 1:
            return measured
        pairs = [(self._of_one(self.smaller[i], share), measured[i]) for i in _GROWTH_SEEN_ON]
        grown = [dict(each) for each in measured]
        for what in measured[0]:
            logs = [np.log(max(large[what], 1e-9) / max(small[what], 1e-9)) for small, large in pairs]
            times = factor ** float(np.clip(np.mean(logs) / np.log(4), 0.0, 1.0))
            for each in grown:
                each[what] *= times
        # A file has a part that does not grow, so its size follows the number of blocks.
        further, bytes_of_them = (
            sum(large[what] - small[what] for small, large in pairs) for what in ("blocks", "bytes")
        )
        per_block = max(0.0, bytes_of_them / further) if further > 0 else 0.0
        for before, after in zip(measured, grown, strict=True):
            after["bytes"] = before["bytes"] + per_block * (after["blocks"] - before["blocks"])
        return grown

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
        """A budget whose expected error is at most `error`, and hardly less.

        Errors fall roughly as a power of the budget, so the next budget to try is on a line through the last
        two on a log-log scale.
        """
        largest = self._largest_feasible()
        epsilon, slope = min(1.0, largest) if error > 0 else largest, _FIRST_SLOPE
        tried: list[Estimate] = []
        expected: list[float] = []
        for i in range(_MOST_TRIED):
            tried.append(self.run(Fraction(f"{epsilon:.3g}"), 1 - 0.5**i, 0.5 ** (i + 1)))
            expected.append(max(tried[-1].errors[self.wanted].expected, 1e-9))
            if expected[-1] <= error and (expected[-1] >= (1 - _TOLERANCE) * error or epsilon == _SMALLEST):
                return tried[-1]
            if expected[-1] > error and epsilon == largest:
                break
            if i and tried[-1].epsilon != tried[-2].epsilon:
                slope = np.log(expected[-1] / expected[-2]) / np.log(tried[-1].epsilon / tried[-2].epsilon)
            aim = error * (1 - _TOLERANCE / 2) / expected[-1]
            epsilon = float(np.clip(epsilon * aim ** (1 / np.clip(slope, *_SLOPES)), _SMALLEST, largest))
        enough = [each for each, reached in zip(tried, expected, strict=True) if reached <= error]
        if enough:
            return min(enough, key=lambda each: each.epsilon)
        raise BudgetError(
            f"No budget up to {largest:.3g} brings the error of a {self.wanted} down to {error:g} records; "
            f"the smallest expected error is {min(expected):,.0f}. Use coarser bins or fewer attributes."
        )

    def _largest_feasible(self) -> float:
        largest = _LARGEST
        while (reason := self.method.why_infeasible(self.schema, largest / self.limits.max_rows)) is not None:
            if largest < _SMALLEST:
                raise MethodError(reason)
            largest /= 1.1
        return largest


def _spread(values: list[float], kind: str, width: float) -> Error:
    """The median over tables concentrated by attribute, and the range over all tables, widened to what real
    tables have shown.

    width: attributes of the schema per attribute of an invented table. The wider the schema, the fewer of
    its pairs are counted together.
    """
    low = min(values) / width / (_EMPTIER_CELLS if kind.startswith("cell") else 1.0)
    beyond = _BEYOND_SIMULATED if kind in COUNTS else _RELATIONS_BEYOND_SIMULATED
    high = max(values) * width ** (COUNTS.get(kind, 1) / 2) * beyond
    return Error(statistics.median(values[: len(HEAPED)]), low, high)
