"""The exact statistics that methods may request of a table, wherever its rows are. Private side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from hdpview.domain import Schema
from hdpview.domain.tables import CodeBoxes, TableShape
from hdpview.errors import MethodError
from hdpview.privacy.exact import Exact
from hdpview.progress import Progress


class Counts(Protocol):
    """Exact counts of a table, local or on a cluster, as cells or as rows that are read repeatedly."""

    @property
    def schema(self) -> Schema: ...

    def exact_tables(self, shapes: Sequence[TableShape], progress: Progress | None = None) -> list[Exact]:
        """Exact counts of the cells of each table, in its shape: one pass over the rows for all."""
        ...

    def exact_box_counts(self, boxes: CodeBoxes, progress: Progress | None = None) -> Exact:
        """Exact number of records in each box, shape (n,): one pass over the rows for all."""
        ...


@runtime_checkable
class CellCounts(Counts, Protocol):
    """Counts stored as distinct occupied cells, on one machine or on the workers of a cluster."""

    @property
    def exact_n_cells(self) -> int:
        """Occupied cells in all."""
        ...


def as_cells(counts: Counts) -> CellCounts:
    """The counts as occupied cells, for methods that cut the cube into blocks."""
    if isinstance(counts, CellCounts):
        return counts
    raise MethodError("This method needs occupied cells, but rows were read. Its `reads` must be 'cells'.")
