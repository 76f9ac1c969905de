"""Released tables: noisy counts of combinations of bins, unbiased and with known noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hdpview.domain.tables import TableShape


@dataclass(frozen=True, eq=False)
class Table:
    """A released table.

    shape: its attributes and bins. counts: int64, shape (bins of each attribute): exact count plus noise, may
        be negative. noise: the law of the noise of each cell, independent of all others; scale: its scale,
        for Laplace 1/ε of the table, for Gaussian the standard deviation.
    """

    shape: TableShape
    counts: NDArray[np.int64]
    noise: Literal["laplace", "gaussian"]
    scale: float

    def __post_init__(self) -> None:
        self.counts.setflags(write=False)

    @property
    def attributes(self) -> tuple[int, ...]:
        """Numbers of the attributes it counts, rising."""
        return self.shape.attributes

    @property
    def variance(self) -> float:
        """Of the noise of one cell."""
        if self.noise == "gaussian":
            return self.scale**2
        return 2.0 * math.exp(-1.0 / self.scale) / math.expm1(-1.0 / self.scale) ** 2
