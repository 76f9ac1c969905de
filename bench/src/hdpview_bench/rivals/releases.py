"""Forms of releases: synthetic records, or tables of all cells. Both answer boxes and marginals."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
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


@dataclass(frozen=True, eq=False)
class DenseRelease:
    """Estimated records of every cell, in the domain's shape; n_blocks: counts with noise of their own."""

    table: Floats | NDArray[np.int64]
    n_blocks: int

    def answer(self, boxes: CodeBoxes) -> Floats:
        return answer_from_marginals(boxes, self.marginal)

    def marginal(self, attributes: Sequence[int]) -> Floats:
        rest = tuple(a for a in range(self.table.ndim) if a not in attributes)
        kept = sorted(attributes)
        return np.ascontiguousarray(
            self.table.sum(axis=rest).transpose([kept.index(a) for a in attributes]), dtype=np.float64
        )


def answer_from_marginals(boxes: CodeBoxes, marginal: Callable[[tuple[int, ...]], Floats]) -> Floats:
    """Estimated records in each box, shape (n,), from the marginal of each set of attributes that boxes name.

    Args:
        boxes: any order of attributes within a box.
        marginal: records per combination of codes of these attributes, which are in rising order.
    """
    order = np.argsort(boxes.attribute, axis=1)
    attribute, lower, upper = (
        np.take_along_axis(part, order, axis=1) for part in (boxes.attribute, boxes.lower, boxes.upper)
    )
    sets, of_box = np.unique(attribute, axis=0, return_inverse=True)
    answers = np.empty(len(boxes))
    for number, chosen in enumerate(sets):
        mine = np.flatnonzero(of_box.reshape(-1) == number)
        answers[mine] = sums_of_boxes(marginal(tuple(chosen.tolist())), lower[mine], upper[mine])
    return answers


def sums_of_boxes(table: Floats, lower: NDArray[np.int64], upper: NDArray[np.int64]) -> Floats:
    """Sum of a table over half-open boxes, shape (n,). lower, upper: shape (n, axes of the table)."""
    running = np.zeros([size + 1 for size in table.shape])
    running[(slice(1, None),) * table.ndim] = table
    for axis in range(table.ndim):
        np.cumsum(running, axis=axis, out=running)
    sums = np.zeros(len(lower))
    for corner in itertools.product((0, 1), repeat=table.ndim):
        place = tuple((upper if end else lower)[:, axis] for axis, end in enumerate(corner))
        sums += (-1.0) ** (table.ndim - sum(corner)) * running[place]
    return sums
