"""HDMM, the high-dimensional matrix mechanism (McKenna, Miklau, Hay, Machanavajjhala: PVLDB 11(10), 2018),
purely ε-private.

For a workload known beforehand, it searches without the data for the queries whose noisy answers determine
the workload's answers best. It measures those and fits all measurements at once by least squares. Its
templates are the paper's: p-Identity strategies for each attribute, products of them, unions of products, and
weighted marginals. Here they are one family (`algebra.py`), searched as a whole. Weights are rounded to whole
numbers, so that noise can be discrete. The expected error is known exactly without data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hdpview.counts.exact_statistics import Counts
from hdpview.domain import Schema
from hdpview.domain.table_shapes import TableShape
from hdpview.errors import MethodError, unknown_name
from hdpview.methods.protocol import Engine, Method, Progress
from hdpview.privacy.budget import exact_epsilon
from hdpview.privacy.exact import unprotected
from hdpview.privacy.mechanism import Mechanism
from hdpview_bench.rivals.budget import Budget, noisy_vector
from hdpview_bench.rivals.hdmm.release import FittedRelease, exact_measurements, fit
from hdpview_bench.rivals.hdmm.strategy import Strategy, strategy_for
from hdpview_bench.rivals.hdmm.workload import workload_named
from hdpview_bench.workloads import WORKLOADS, n_attributes_of

MOST_MEASUREMENTS = 2**22
MOST_CODES = 512  # codes of an attribute; strategies are searched with dense matrices over its codes


@dataclass(frozen=True)
class Hdmm(Method):
    """The matrix mechanism for one workload, by its name."""

    name = "hdmm"
    workload: str = "range-1d"

    def __post_init__(self) -> None:
        if self.workload not in WORKLOADS:
            raise MethodError(unknown_name("workload", str(self.workload), WORKLOADS, "The workloads are"))

    def why_infeasible(self, schema: Schema, epsilon: float) -> str | None:
        """Its measurements must fit in memory. Its search and its expected error need no such limit."""
        k = n_attributes_of(self.workload)
        if k > len(schema):
            return (
                f"The workload {self.workload} asks about {k} attributes at once; this domain has "
                f"{len(schema)}. Use one about fewer."
            )
        if max(schema.sizes) > MOST_CODES:
            return (
                f"HDMM searches with dense matrices of an attribute's codes: {max(schema.sizes):,} here, "
                f"{MOST_CODES} at most. Use wider bins, or the method hdpview."
            )
        n = self._strategy(schema, epsilon).n_measurements
        if n <= MOST_MEASUREMENTS:
            return None
        return (
            f"HDMM would measure {n:.2g} queries for {self.workload} on this domain; its limit is "
            f"{MOST_MEASUREMENTS:,}. "
            "Its expected error is known without a release; or use the method hdpview."
        )

    def release(
        self,
        counts: Counts,
        mechanism: Mechanism,
        engine: Engine,
        progress: Progress | None = None,
    ) -> FittedRelease:
        budget = Budget(mechanism)
        reason = self.why_infeasible(counts.schema, float(budget.epsilon))
        if reason is not None:
            raise MethodError(reason)
        sizes, epsilon = counts.schema.sizes, budget.epsilon
        strategy = strategy_for(self.workload, sizes, epsilon)
        shapes = [TableShape.of_codes(chosen, sizes) for chosen in strategy.measured]
        exact_tables = map(unprotected, counts.exact_tables(shapes, progress))
        noisy_tables = []
        for chosen, share, exact_table in zip(strategy.measured, strategy.shares, exact_tables, strict=True):
            purpose = "noise on " + (
                " × ".join(counts.schema.names[i] for i in chosen) or "the number of records"
            )
            per_unit = budget.charge(purpose, share * epsilon) / strategy.sensitivity(chosen)
            exact = exact_measurements(exact_table, [strategy.factors[i] for i in chosen])
            noisy_tables.append(noisy_vector(exact, per_unit, budget.randomness, f"hdmm {chosen}"))
        return fit(strategy, noisy_tables, strategy.weights(epsilon))

    def expected_rmse(self, workload: str, schema: Schema, epsilon: float) -> float:
        """Uses the strategy for this method's workload; infinite for questions that it does not measure."""
        strategy = self._strategy(schema, epsilon)
        return math.sqrt(
            strategy.mean_squared_error(workload_named(workload, schema.sizes), exact_epsilon(epsilon))
        )

    def _strategy(self, schema: Schema, epsilon: float) -> Strategy:
        if max(schema.sizes) > MOST_CODES:
            raise MethodError(
                f"HDMM knows no strategy for attributes of more than {MOST_CODES} codes. Use wider bins."
            )
        return strategy_for(self.workload, schema.sizes, exact_epsilon(epsilon))
