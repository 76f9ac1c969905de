"""Encoded rows, column by column, and their bytes. Private side. Workers of a cluster load this."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hdpview.counts.unpack import unpack_into, words_of

Column = NDArray[np.uint8] | NDArray[np.uint16]
Ints = NDArray[np.int64]
Buffer = Any  # whatever has bytes: Arrow's buffers too, which typing does not know as such

# Small enough for a processor's cache, large enough that handing a part over costs little beside adding it
# up.
ROWS_PER_PART = 131_072
_SIZE_OF_ONE_BYTE = 256


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Some encoded rows, `ROWS_PER_PART` at most.

    exact_columns: per attribute the codes, shape (n,); they may be columns of a matrix.
    exact_counts: records that each row stands for, shape (n,), none negative; None where each row is one
        record.
    """

    exact_columns: tuple[Column, ...]
    exact_counts: Ints | None = None

    def __len__(self) -> int:
        return len(self.exact_columns[0])

    def __repr__(self) -> str:
        return "Rows(exact)"


class Parts(Protocol):
    """All rows of a table, part by part, as often as they are asked for."""

    def __len__(self) -> int:
        """How many parts."""
        ...

    def __iter__(self) -> Iterator[Rows]: ...


@dataclass(frozen=True)
class RowLayout:
    """How rows are kept as bytes: the counts, if any, then the codes of each attribute in the smallest
    unsigned type, one attribute after the other; those of two bytes come first, so that all numbers are
    aligned.
    """

    sizes: tuple[int, ...]
    has_counts: bool = False

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return sum(self._kind(size).itemsize for size in self.sizes) + 8 * self.has_counts

    @property
    def _order(self) -> list[int]:
        return sorted(range(len(self.sizes)), key=lambda a: self.sizes[a] <= _SIZE_OF_ONE_BYTE)

    @staticmethod
    def _kind(size: int) -> np.dtype[Any]:
        return np.dtype(np.uint8 if size <= _SIZE_OF_ONE_BYTE else np.uint16)

    def rows_of(self, batch: pa.RecordBatch) -> Iterator[Rows]:
        """The rows of a batch of packed cells `word_0`, `word_1`, …, with their counts `n` if any."""
        for start in range(0, len(batch), ROWS_PER_PART):
            part = batch.slice(start, ROWS_PER_PART)
            columns: list[Column] = [np.empty(len(part), self._kind(size)) for size in self.sizes]
            words = [part[f"word_{w}"].to_numpy() for w in range(len(words_of(self.sizes)))]
            unpack_into(columns, words, self.sizes)
            yield Rows(tuple(columns), part["n"].to_numpy() if self.has_counts else None)

    def to_bytes(self, rows: Rows) -> bytes:
        """The rows as they are kept."""
        counts = [] if rows.exact_counts is None else [rows.exact_counts.tobytes()]
        return b"".join([*counts, *(rows.exact_columns[a].tobytes() for a in self._order)])

    def from_bytes(self, data: Buffer) -> Rows:
        """Rows as views of these bytes, which are not copied."""
        flat = np.frombuffer(data, np.uint8)
        n = len(flat) // self.row_bytes
        end = 8 * n * self.has_counts
        counts = flat[:end].view(np.int64) if self.has_counts else None
        columns: dict[int, Column] = {}
        for a in self._order:
            kind = self._kind(self.sizes[a])
            start, end = end, end + n * kind.itemsize
            columns[a] = flat[start:end].view(kind)
        return Rows(tuple(columns[a] for a in range(len(self.sizes))), counts)
