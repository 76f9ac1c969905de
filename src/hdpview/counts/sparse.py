"""Sparse counts: the occupied cells of the data cube. Exact, so never outside the private side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpview.counts import tally
from hdpview.counts.protocol import Counts
from hdpview.counts.rows import ROWS_PER_PART, Rows
from hdpview.domain import Schema
from hdpview.domain.tables import CodeBoxes, TableShape
from hdpview.errors import MethodError
from hdpview.privacy.exact import Exact
from hdpview.progress import Progress

Codes = NDArray[np.uint8] | NDArray[np.uint16]


@dataclass(frozen=True, eq=False, repr=False)
class SparseCounts:
    """Distinct occupied cells. Their order has no meaning; growing a partition changes it.

    exact_codes: shape (n_occupied, n_attributes), in the smallest unsigned type that fits every code;
        row-major, because cutting blocks reads and moves whole rows.
    exact_counts: shape (n_occupied,), int64, all positive.
    threads: for passes over the cells; by default all cores.
    """

    schema: Schema
    exact_codes: Codes
    exact_counts: NDArray[np.int64]
    threads: int | None = None

    @property
    def exact_n_cells(self) -> int:
        """Number of occupied cells."""
        return len(self.exact_counts)

    def exact_tables(self, shapes: Sequence[TableShape], progress: Progress | None = None) -> list[Exact]:
        """Records per cell of each table, in its shape."""
        return tally.exact_tables(_Parts(self), shapes, self.threads, progress)

    def exact_box_counts(self, boxes: CodeBoxes, progress: Progress | None = None) -> Exact:
        """Records in each box, shape (n,)."""
        return tally.exact_box_counts(_Parts(self), boxes, self.threads, progress)

    def __repr__(self) -> str:
        return "SparseCounts(exact)"  # sizes are exact values too and must not appear in logs


@dataclass(frozen=True, eq=False)
class _Parts:
    """Cells as rows that stand for several records."""

    cells: SparseCounts

    def __len__(self) -> int:
        return -(-self.cells.exact_n_cells // ROWS_PER_PART)

    def __iter__(self) -> Iterator[Rows]:
        for start in range(0, self.cells.exact_n_cells, ROWS_PER_PART):
            part = slice(start, start + ROWS_PER_PART)
            yield Rows(tuple(self.cells.exact_codes[part].T), self.cells.exact_counts[part])


def code_type(schema: Schema) -> type[np.uint8 | np.uint16]:
    """The smallest unsigned type for codes of this schema. One type for all keeps rows contiguous."""
    return np.uint8 if max(schema.sizes) <= 256 else np.uint16


def local_cells(counts: Counts) -> SparseCounts:
    """The counts as cells on this machine, for methods that visit each of them."""
    if isinstance(counts, SparseCounts):
        return counts
    raise MethodError("This method needs all cells on this machine. Build with engine='local'.")
