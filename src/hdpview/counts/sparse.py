"""Sparse counts: the occupied cells of the data cube. Exact, so never outside the private side."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numba as nb
import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Schema
from hdpview.domain.tables import CodeBoxes, TableShape
from hdpview.progress import Progress, silent

Codes = NDArray[np.uint8] | NDArray[np.uint16]


@dataclass(frozen=True, eq=False, repr=False)
class SparseCounts:
    """Occupied cells, each once. Their order means nothing, and growing a partition changes it.

    exact_codes: shape (n_occupied, n_attributes), row-major, the smallest unsigned type that holds every
        code: a row is read and moved as a whole while blocks are cut.
    exact_counts: shape (n_occupied,), int64, all positive.
    """

    schema: Schema
    exact_codes: Codes
    exact_counts: NDArray[np.int64]

    def exact_tables(
        self, shapes: Sequence[TableShape], progress: Progress | None = None
    ) -> list[NDArray[np.int64]]:
        """Exact counts of the cells of each table, shapes (bins of each attribute)."""
        tables, report = [], progress or silent
        for i, shape in enumerate(shapes):
            report(i / len(shapes), "adding up tables")
            place = np.zeros(len(self.exact_counts), np.int64)
            for a, bins, n_bins in zip(shape.attributes, shape.bin_of_code, shape.shape, strict=True):
                place = place * n_bins + bins[self.exact_codes[:, a]]
            exact = np.zeros(math.prod(shape.shape), np.int64)
            _add(place, self.exact_counts, exact)
            tables.append(exact.reshape(shape.shape))
        return tables

    def exact_box_counts(self, boxes: CodeBoxes, progress: Progress | None = None) -> NDArray[np.int64]:
        """Exact number of records in each box, shape (n,)."""
        found, report = np.empty(len(boxes), np.int64), progress or silent
        for i in range(len(boxes)):
            report(i / len(boxes), "adding up boxes")
            codes = self.exact_codes[:, boxes.attribute[i]]
            inside = ((codes >= boxes.lower[i]) & (codes < boxes.upper[i])).all(axis=1)
            found[i] = self.exact_counts[inside].sum()
        return found

    def __repr__(self) -> str:
        return "SparseCounts(exact)"  # sizes are exact values too: they have no place in a log line


def code_type(schema: Schema) -> type[np.uint8 | np.uint16]:
    """The smallest unsigned type for codes of this schema. One type for all attributes keeps rows
    contiguous.
    """
    return np.uint8 if max(schema.sizes) <= 256 else np.uint16


@nb.njit(cache=True, nogil=True)
def _add(place, counts, sums):  # type: ignore[no-untyped-def]
    """Add each count to its place; whole numbers, so that nothing is rounded."""
    for i in range(len(counts)):
        sums[place[i]] += counts[i]
