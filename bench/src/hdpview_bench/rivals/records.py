"""A release made of synthetic records: boxes are counted on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpview.jit import numba as nb
from hdpview_bench.workloads import CodeBoxes

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RecordRelease:
    """Synthetic records, each of which stands for `weight` records of the table.

    codes: shape (n_attributes, n_records), an unsigned type; sizes: number of codes of each attribute.
    """

    codes: NDArray[np.unsignedinteger]
    weight: float
    sizes: tuple[int, ...]

    def answer(self, boxes: CodeBoxes) -> Floats:
        answers: Floats = _records_inside(self.codes, boxes.attribute, boxes.lower, boxes.upper) * self.weight
        return answers

    def marginal(self, attributes: Sequence[int]) -> Floats:
        shape = tuple(self.sizes[a] for a in attributes)
        place = np.zeros(self.codes.shape[1], np.int64)
        for a in attributes:
            place = place * self.sizes[a] + self.codes[a]
        return np.bincount(place, minlength=math.prod(shape)).astype(np.float64).reshape(shape) * self.weight


@nb.njit(cache=True, nogil=True)
def _records_inside(codes, attribute, lower, upper):  # type: ignore[no-untyped-def]
    """Number of records in each box, shape (n,), one attribute at a time over all records."""
    n_records = codes.shape[1]
    n_inside, inside = np.zeros(len(attribute)), np.empty(n_records, np.bool_)
    for q in range(len(attribute)):
        inside[:] = True
        for j in range(attribute.shape[1]):
            column, low, high = codes[attribute[q, j]], lower[q, j], upper[q, j]
            for i in range(n_records):
                inside[i] &= (column[i] >= low) & (column[i] < high)
        n_inside[q] = inside.sum()
    return n_inside
