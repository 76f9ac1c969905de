"""The noisy tables measured so far, and the best estimates of totals and margins from all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hdpview.domain.table_shapes import TableShape
from hdpview.methods.mixture.bins import Axis, refinement, sums_over
from hdpview.methods.mixture.smooth import Histogram, shares_of
from hdpview.privacy.exact import MOST_RECORDS, Exact
from hdpview.privacy.mechanism import Mechanism
from hdpview.view.released_tables import Table, margin

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Measured:
    """A released table and the variance of the noise of its cells."""

    table: Table
    variance: float

    @property
    def noisy(self) -> Floats:
        return self.table.counts.astype(np.float64)


def measure(
    mechanism: Mechanism, heading: str, exact_table: Exact, shape: TableShape, amount: Fraction
) -> Measured:
    """A table with noise on every cell. heading: its purpose in the manifest. [P8]"""
    purpose = f"{heading}: {' '.join(map(str, shape.attributes))}"
    noisy, noise = mechanism.noisy(purpose, exact_table, amount), mechanism.noise(amount)
    return Measured(Table(shape, noisy, noise.law, noise.scale), noise.variance)


@dataclass
class Measurements:
    """The released number of records, histograms (tables of one attribute) and tables of several."""

    axes: tuple[Axis, ...]
    noisy_total: float
    total_variance: float
    histograms: list[Measured] = field(default_factory=list)
    tables: list[Measured] = field(default_factory=list)

    @property
    def total_to_plan_with(self) -> float:
        """The number of records minus two standard deviations: noise alone must not justify tables."""
        return self.noisy_total - 2 * math.sqrt(self.total_variance)

    @property
    def total(self) -> float:
        """The number of records, at least 1; tables with few cells and little noise weigh most."""
        values, precisions = [self.noisy_total], [1 / self.total_variance]
        for one in [*self.histograms, *self.tables]:
            values.append(float(one.noisy.sum()))
            precisions.append(1 / (one.table.counts.size * one.variance))
        return min(max(1.0, float(np.average(values, weights=precisions))), float(MOST_RECORDS))

    def shares(self) -> list[Floats]:
        """Share of records at each code of each attribute, from histograms and the margins of tables."""
        return shares_of(self.axes, [self._combined(a) for a in range(len(self.axes))], self.total)

    def _combined(self, a: int) -> Histogram:
        """Counts per code of an attribute: its histogram and the margins of all tables, by generalised least
        squares.

        A margin estimates sums over bins of codes a second time. Within the finest bins of all tables only
        the histogram is known, so a correction of their sums is shared evenly among their codes.
        """
        histogram = self.histograms[a]
        of_tables = [one.table for one in self.tables if a in one.table.attributes]
        margins = [margin(table, [table.shape.attributes.index(a)]) for table in of_tables]
        fine = refinement(self.axes[a].size, [table_margin.shape.bin_of_code[0] for table_margin in margins])
        sizes = np.bincount(fine).astype(np.float64)
        sums = sums_over(fine, histogram.noisy)
        precision, weighted = np.diag(1 / (sizes * histogram.variance)), sums / (sizes * histogram.variance)
        for table_margin in margins:
            inside = np.zeros((len(table_margin.counts), len(sums)))  # bins of the margin × bins inside them
            inside[table_margin.shape.bin_of_code[0], fine] = 1
            precision += inside.T @ inside / table_margin.variance
            weighted += inside.T @ table_margin.counts / table_margin.variance
        covariance: Floats = np.linalg.inv(precision).astype(np.float64)
        counts = histogram.noisy + ((covariance @ weighted - sums) / sizes)[fine]
        return Histogram(counts, histogram.variance, fine, covariance)
