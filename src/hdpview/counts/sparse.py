"""Sparse counts: the occupied cells of the data cube. Exact, so never outside the private side."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.exact_statistics import CellCounts, Counts, LocalCounts
from hdpview.counts.rows import ROWS_PER_PART, Parts, Rows
from hdpview.domain import Schema
from hdpview.errors import MethodError

Codes = NDArray[np.uint8] | NDArray[np.uint16]


@dataclass(frozen=True, eq=False, repr=False)
class SparseCounts(LocalCounts, CellCounts):
    """Distinct occupied cells. Their order has no meaning; growing a partition changes it.

    exact_codes: shape (n_occupied, n_attributes), in the smallest unsigned type that fits every code;
        row-major, because cutting blocks reads and moves whole rows.
    exact_counts: shape (n_occupied,), int64, all positive.
    """

    schema: Schema
    exact_codes: Codes
    exact_counts: NDArray[np.int64]
    threads: int | None = None

    @property
    def exact_n_cells(self) -> int:  # type: ignore[override]
        """Number of occupied cells."""
        return len(self.exact_counts)

    @property
    def exact_total(self) -> int:  # type: ignore[override]
        """Number of records, with the precision of doubles if 64 bits could overflow."""
        return int(self.exact_counts.sum(dtype=np.float64))

    @property
    def exact_rows(self) -> Parts:  # type: ignore[override]
        """Cells as rows that stand for several records."""
        parts = [slice(at, at + ROWS_PER_PART) for at in range(0, self.exact_n_cells, ROWS_PER_PART)]
        return [Rows(tuple(self.exact_codes[part].T), self.exact_counts[part]) for part in parts]


def code_type(schema: Schema) -> type[np.uint8 | np.uint16]:
    """The smallest unsigned type for codes of this schema. One type for all keeps rows contiguous."""
    return np.uint8 if max(schema.sizes) <= 256 else np.uint16


def local_cells(counts: Counts) -> SparseCounts:
    """The counts as cells on this machine, for methods that visit each of them."""
    if isinstance(counts, SparseCounts):
        return counts
    raise MethodError("This method needs all cells on this machine. Build with engine='local'.")
