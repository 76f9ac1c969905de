"""What was measured so far: noisy tables, and what they say together about totals and margins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hdpview.domain.tables import TableShape
from hdpview.methods.mixture.accounting import TableNoise
from hdpview.methods.mixture.bins import Axis, sums_over
from hdpview.methods.mixture.smooth import shares_of
from hdpview.privacy.randomness import Randomness
from hdpview.view.tables import Table

Floats = NDArray[np.float64]


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
    exact_table: NDArray[np.int64], shape: TableShape, noise: TableNoise, randomness: Randomness
) -> Measured:
    """A table with noise on every cell; its budget was charged before. [P8]"""
    purpose = "table " + " ".join(map(str, shape.attributes))
    noisy = noise.on(exact_table, randomness, purpose)
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
    def total(self) -> float:
        """The number of records: every table tells it, those with few cells and little noise best; at least 1."""
        values, precisions = [self.noisy_total], [1 / self.total_variance]
        for one in [*self.histograms, *self.tables]:
            values.append(float(one.noisy.sum()))
            precisions.append(1 / (one.table.counts.size * one.variance))
        return max(1.0, float(np.average(values, weights=precisions)))

    def shares(self) -> list[Floats]:
        """Share of records at each code of each attribute, from histograms and the margins of tables."""
        total = self.total
        return [shares_of(axis, *self._combined(a), total) for a, axis in enumerate(self.axes)]

    def _combined(self, a: int) -> tuple[Floats, Floats]:
        """Counts per code of an attribute and their variances: its histogram, corrected by the margins of tables.

        A margin tells the sum over a bin's codes once more. What it differs by is shared among the codes of the bin
        by their variances, weighted by the precision of both.
        """
        histogram = self.histograms[a]
        counts, variances = histogram.noisy, np.full(len(histogram.noisy), histogram.variance)
        for one in self.tables:
            if a not in one.attributes:
                continue
            i = one.attributes.index(a)
            bins = one.table.shape.bin_of_code[i]
            margin = one.noisy.sum(axis=tuple(j for j in range(one.noisy.ndim) if j != i))
            margin_variance = one.variance * one.noisy.size / len(margin)
            variance = sums_over(bins, variances)
            trust = variance / (variance + margin_variance)
            part = variances / variance[bins]
            counts = counts + part * (trust * (margin - sums_over(bins, counts)))[bins]
            variances = variances * (1 - part * trust[bins])
        return counts, variances


def n_cells(measured: Sequence[Measured]) -> int:
    return sum(one.table.counts.size for one in measured)
