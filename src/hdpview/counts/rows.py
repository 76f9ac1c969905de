"""Encoded rows, column by column, and their bytes. Private side. Workers of a cluster load this."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hdpview.counts.encode import State, codes_of_states
from hdpview.domain import Schema

Column = NDArray[np.uint8] | NDArray[np.uint16]
Ints = NDArray[np.int64]
Buffer = Any  # any buffer, including Arrow's, which have no type hints

# Few enough rows to fit into a processor's cache, but enough to make the cost per part small.
ROWS_PER_PART = 131_072
_SIZE_OF_ONE_BYTE = 256


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Some encoded rows, at most `ROWS_PER_PART`.

    exact_columns: per attribute the codes, shape (n,); they may be columns of a matrix.
    exact_counts: records per row, shape (n,), none negative; None if each row is one record.
    """

    exact_columns: tuple[Column, ...]
    exact_counts: Ints | None = None

    def __len__(self) -> int:
        return len(self.exact_columns[0])

    def __repr__(self) -> str:
        return "Rows(exact)"


class Parts(Protocol):
    """All rows of a table, part by part; can be read repeatedly."""

    def __len__(self) -> int:
        """The number of parts."""
        ...

    def __iter__(self) -> Iterator[Rows]: ...


@dataclass(frozen=True)
class RowLayout:
    """The layout of rows as bytes: the counts, if any, then the codes of each attribute in the smallest
    unsigned type.
    """

    sizes: tuple[int, ...]
    has_counts: bool = False

    @property
    def kinds(self) -> list[np.dtype[Any]]:
        """The types of the codes."""
        return [code_kind(size) for size in self.sizes]

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return sum(kind.itemsize for kind in self.kinds) + 8 * self.has_counts

    def to_bytes(self, rows: Rows) -> bytes:
        """The rows as bytes."""
        counts = [] if rows.exact_counts is None else [rows.exact_counts.tobytes()]
        columns = zip(rows.exact_columns, self.kinds, strict=True)
        return b"".join([*counts, *(own.astype(kind, copy=False).tobytes() for own, kind in columns)])

    def from_bytes(self, data: Buffer) -> Rows:
        """The inverse of `to_bytes`."""
        n = memoryview(data).nbytes // self.row_bytes
        arrays, start = [], 0
        for kind in [*([np.dtype(np.int64)] if self.has_counts else []), *self.kinds]:
            arrays.append(np.frombuffer(data, kind, n, start).copy())  # a copy is aligned
            start += n * kind.itemsize
        counts = arrays.pop(0) if self.has_counts else None
        return Rows(tuple(arrays), counts)


def code_kind(size: int) -> np.dtype[Any]:
    """The smallest type for codes of an attribute of this size."""
    return np.dtype(np.uint8 if size <= _SIZE_OF_ONE_BYTE else np.uint16)


@dataclass(frozen=True, eq=False)
class States:
    """Outcomes of the values of each column. exact_rows: number of rows; exact_counts: rows in each `State`,
    shape (columns, states); exact_ends: the lowest and the highest bin of other rows, shape (columns, 2).
    """

    exact_rows: int
    exact_counts: Ints
    exact_ends: Ints

    def __add__(self, other: States) -> States:
        lowest = np.minimum(self.exact_ends[:, 0], other.exact_ends[:, 0])
        highest = np.maximum(self.exact_ends[:, 1], other.exact_ends[:, 1])
        return States(
            self.exact_rows + other.exact_rows,
            self.exact_counts + other.exact_counts,
            np.stack([lowest, highest], axis=1),
        )

    @classmethod
    def nothing(cls, n_columns: int) -> States:
        ends = np.tile(np.array([2**32, -1]), (n_columns, 1))
        return cls(0, np.zeros((n_columns, len(State)), np.int64), ends)


class Decoder:
    """Turns outcomes of the encoder into codes, and counts their states."""

    def __init__(self, schema: Schema) -> None:
        self.states = States.nothing(len(schema))
        self._sizes = [attribute.n_values for attribute in schema]
        self._codes = [
            np.array([*range(each.n_values), *codes_of_states(each)], code_kind(each.size)) for each in schema
        ]

    def rows_of(self, batch: pa.RecordBatch) -> Iterator[Rows]:
        """The rows of a batch of outcomes `o_0`, `o_1`, …, with their counts `n` if any."""
        for start in range(0, len(batch), ROWS_PER_PART):
            part = batch.slice(start, ROWS_PER_PART)
            outcomes = [part[f"o_{i}"].to_numpy() for i in range(len(self._sizes))]
            self.states += self._states_of(outcomes)
            columns = tuple(np.take(codes, own) for codes, own in zip(self._codes, outcomes, strict=True))
            yield Rows(columns, part["n"].to_numpy() if "n" in part.schema.names else None)

    def _states_of(self, outcomes: list[NDArray[Any]]) -> States:
        counts, ends = np.zeros((len(outcomes), len(State)), np.int64), []
        for i, (own, n) in enumerate(zip(outcomes, self._sizes, strict=True)):
            per_outcome = np.bincount(own, minlength=n + len(State))
            counts[i] = per_outcome[n:]
            filled = np.flatnonzero(per_outcome[:n])
            ends.append((filled[0], filled[-1]) if len(filled) else (2**32, -1))
        return States(len(outcomes[0]), counts, np.array(ends))
