"""Released tables: noisy counts of combinations of bins, unbiased and with known noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hdpview.domain.table_shapes import TableShape

_LEAST_VARIANCE = 1e-12


@dataclass(frozen=True, eq=False)
class Table:
    """A released table.

    shape: its attributes and bins. counts: int64, shape (bins of each attribute): exact count plus noise, may
        be negative. noise: the distribution of the noise, which is independent between cells. scale: 1/ε of
        the table for Laplace noise, the standard deviation for Gaussian noise.
    """

    shape: TableShape
    counts: NDArray[np.int64]
    noise: Literal["laplace", "gaussian"]
    scale: float

    def __post_init__(self) -> None:
        self.counts.setflags(write=False)

    @property
    def attributes(self) -> tuple[int, ...]:
        """Numbers of the attributes that the table counts, ascending."""
        return self.shape.attributes

    @property
    def variance(self) -> float:
        """Variance of the noise of one cell; positive even if the budget is so large that there is none."""
        if self.noise == "gaussian":
            return self.scale**2
        return max(2.0 * math.exp(-1.0 / self.scale) / math.expm1(-1.0 / self.scale) ** 2, _LEAST_VARIANCE)


def pairs_inside(tables: Sequence[Table]) -> list[Table]:
    """The most precise margin of a larger table for each pair without a table of its own."""
    measured, best = {table.attributes for table in tables}, dict[tuple[int, ...], Table]()
    for table in tables:
        for places in combinations(range(len(table.attributes)), 2):
            attributes = tuple(table.attributes[i] for i in places)
            if attributes not in measured:
                inside = margin(table, places)
                best[attributes] = min(best.get(attributes, inside), inside, key=lambda each: each.scale)
    return list(best.values())


def margin(table: Table, places: Sequence[int]) -> Table:
    """A table summed over all attributes except those at these places, which are ascending.

    The noise of a sum is nearly Gaussian; its variance is exact.
    """
    others = tuple(i for i in range(len(table.attributes)) if i not in places)
    if not others:
        return table
    n_summed = math.prod(table.counts.shape[i] for i in others)
    shape = TableShape(
        tuple(table.attributes[i] for i in places), tuple(table.shape.bin_of_code[i] for i in places)
    )
    return Table(shape, table.counts.sum(axis=others), "gaussian", math.sqrt(table.variance * n_summed))
