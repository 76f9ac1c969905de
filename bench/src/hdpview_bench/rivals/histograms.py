"""Independent histograms: one noisy histogram per attribute, and nothing about their relationships.

Each of the d histograms gets ε/d, because one record is in one bin of each. All histograms count the same
records, so their totals are averaged, weighted by precision (the noise of a total grows with the number of
bins). Every histogram becomes the nearest non-negative one with that total. The estimate of a box is total ·
Π (share of its range), as if attributes were independent. Every method that uses relationships should be more
accurate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hdpview.counts.exact_statistics import Counts
from hdpview.domain.table_shapes import TableShape
from hdpview.methods.protocol import Engine, Floats, Method, Progress
from hdpview.privacy.exact import unprotected
from hdpview.privacy.mechanism import Mechanism
from hdpview.view.blocks import project_to_simplex
from hdpview_bench.rivals.budget import Budget, noisy_vector
from hdpview_bench.workloads import CodeBoxes


@dataclass(frozen=True, eq=False)
class ProductRelease:
    """total: estimated records; shares: per attribute the share of records at each code, shape (size,),
    non-negative, sum 1.
    """

    total: float
    shares: tuple[Floats, ...]

    def answer(self, boxes: CodeBoxes) -> Floats:
        up_to = np.zeros((len(self.shares), max(map(len, self.shares)) + 1))
        for a, shares in enumerate(self.shares):
            up_to[a, 1 : len(shares) + 1] = np.cumsum(shares)
        inside = up_to[boxes.attribute, boxes.upper] - up_to[boxes.attribute, boxes.lower]
        answers: Floats = self.total * inside.prod(axis=1)
        return answers

    def marginal(self, attributes: Sequence[int]) -> Floats:
        table = np.array(self.total)
        for a in attributes:
            table = np.multiply.outer(table, self.shares[a])
        return table


@dataclass(frozen=True)
class Histograms(Method):
    """One histogram per attribute. It has no settings."""

    name = "histograms"
    reads = "tables"

    def release(
        self,
        counts: Counts,
        mechanism: Mechanism,
        engine: Engine,
        progress: Progress | None = None,
    ) -> ProductRelease:
        budget, sizes = Budget(mechanism), counts.schema.sizes
        epsilon = budget.charge("noise on histograms", budget.epsilon / len(sizes), times=len(sizes))
        shapes = [TableShape.of_codes((a,), sizes) for a in range(len(sizes))]
        noisy = [
            noisy_vector(unprotected(exact), epsilon, budget.randomness, f"histogram {a}").astype(np.float64)
            for a, exact in enumerate(counts.exact_tables(shapes, progress))
        ]
        precision = np.array([1.0 / size for size in sizes])
        total = max(0.0, float(np.average([histogram.sum() for histogram in noisy], weights=precision)))
        return ProductRelease(total, tuple(_as_shares(histogram, total) for histogram in noisy))


def _as_shares(noisy: Floats, total: float) -> Floats:
    """The nearest non-negative histogram with this total, as shares; uniform if there is no information."""
    return project_to_simplex(noisy, total) / total if total > 0 else np.full(len(noisy), 1.0 / len(noisy))
