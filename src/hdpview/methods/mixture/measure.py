"""The noisy tables measured so far, and the best estimates of totals and margins from all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hdpview.domain.tables import TableShape
from hdpview.methods.mixture.bins import Axis, membership, refinement, sums_over
from hdpview.methods.mixture.smooth import Histogram, shares_of
from hdpview.privacy.exact import MOST_RECORDS, Exact
from hdpview.privacy.mechanism import Mechanism
from hdpview.view.tables import Table, margin

Floats = NDArray[np.float64]
# Margins of tables with more bins than this are not combined with a histogram, because that inverts a square
# matrix of this size. Only categories in very large tables have so many, and their histograms are precise.
_MOST_BINS_COMBINED = 1_024


@dataclass(frozen=True, eq=False)
class Measured:
    """A released table and the variance of the noise of its cells."""

    table: Table
    variance: float

    @property
    def attributes(self) -> tuple[int, ...]:
        return self.table.shape.attributes

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
    # Shares by number of tables, cached because several steps of a build need the same ones.
    _known: tuple[int, list[Floats]] = field(default=(-1, []), repr=False)

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
        if self._known[0] != len(self.tables):
            combined = [self._combined(a) for a in range(len(self.axes))]
            self._known = (len(self.tables), shares_of(self.axes, combined, self.total))
        return list(self._known[1])

    def _combined(self, a: int) -> Histogram:
        """Counts per code of an attribute: its histogram and the margins of all tables, by generalised least
        squares.

        A margin estimates sums over bins of codes a second time. Within the finest bins of all tables only
        the histogram is known, so a correction of their sums is shared evenly among their codes.
        """
        histogram = self.histograms[a]
        fine, margins = refinement(self.axes[a].size, []), list[Table]()
        for own in (
            margin(one.table, [one.attributes.index(a)]) for one in self.tables if a in one.attributes
        ):
            finer = refinement(len(fine), [fine, *own.shape.bin_of_code])
            if finer.max() < _MOST_BINS_COMBINED:
                fine, margins = finer, [*margins, own]
        sizes = np.bincount(fine).astype(np.float64)
        sums = sums_over(fine, histogram.noisy)
        precision, weighted = np.diag(1 / (sizes * histogram.variance)), sums / (sizes * histogram.variance)
        for own in margins:
            inside = membership(own.shape.bin_of_code[0], fine).astype(np.float64)
            precision += inside.T @ inside / own.variance
            weighted += inside.T @ own.counts / own.variance
        covariance: Floats = np.linalg.inv(precision).astype(np.float64)
        counts = histogram.noisy + ((covariance @ weighted - sums) / sizes)[fine]
        return Histogram(counts, histogram.variance, fine, covariance)


def n_cells(measured: Sequence[Measured]) -> int:
    return sum(one.table.counts.size for one in measured)
