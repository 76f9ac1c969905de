"""The exact statistics that methods may request of a table, wherever its rows are. Private side."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from hdpview.counts.rows import Parts
from hdpview.counts.tally import BoxTally, Ints, TableTally, Tally, sums_of_parts
from hdpview.domain import Schema
from hdpview.domain.table_shapes import CodeBoxes, TableShape
from hdpview.errors import MethodError
from hdpview.privacy.exact import Exact
from hdpview.progress import Progress


class Counts(ABC):
    """Exact counts of a table, local or on a cluster, as cells or as rows that are read repeatedly."""

    schema: Schema

    @abstractmethod
    def exact_sums(self, tally: Tally, progress: Progress | None, text: str) -> Ints:
        """The sums of one pass over the rows."""

    def exact_tables(self, shapes: Sequence[TableShape], progress: Progress | None = None) -> list[Exact]:
        """Records per cell of each table, in its shape. A record is in one cell of each."""
        tally = TableTally(tuple(shapes))
        return tally.tables(self.exact_sums(tally, progress, "Adding up tables"))

    def exact_box_counts(self, boxes: CodeBoxes, progress: Progress | None = None) -> Exact:
        """Records in each box, shape (n,). A record may be in several boxes."""
        exact_sums = self.exact_sums(BoxTally(boxes), progress, "Counting records in boxes")
        return Exact(exact_sums, in_all=max(1, len(exact_sums)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}(exact)"  # sizes are exact values too and must not appear in logs


class CellCounts(Counts):
    """Counts stored as distinct occupied cells, on one machine or on the workers of a cluster.

    exact_n_cells: number of occupied cells; exact_total: number of records.
    """

    exact_n_cells: int
    exact_total: int


class LocalCounts(Counts):
    """Counts of rows on this machine. threads: for passes over them; by default all cores."""

    exact_rows: Parts
    threads: int | None

    def exact_sums(self, tally: Tally, progress: Progress | None, text: str) -> Ints:
        return sums_of_parts(tally, self.exact_rows, self.threads, progress, text)


def as_cells(counts: Counts) -> CellCounts:
    """The counts as occupied cells, for methods that cut the cube into blocks."""
    if isinstance(counts, CellCounts):
        return counts
    raise MethodError("This method needs occupied cells, but rows were read. Its `reads` must be 'cells'.")
