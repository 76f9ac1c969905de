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

# Rows that fit into a processor's cache, but enough of them to make the cost of handing over a part small.
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
        """How many parts."""
        ...

    def __iter__(self) -> Iterator[Rows]: ...


@dataclass(frozen=True)
class RowLayout:
    """The layout of rows as bytes: the counts, if any, then the codes of each attribute in the smallest
    unsigned type. Attributes of two bytes come first, so that all numbers are aligned.
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

    def to_bytes(self, rows: Rows) -> bytes:
        """The rows as bytes."""
        counts = [] if rows.exact_counts is None else [rows.exact_counts.tobytes()]
        return b"".join([*counts, *(rows.exact_columns[a].tobytes() for a in self._order)])

    def from_bytes(self, data: Buffer) -> Rows:
        """Rows as views of these bytes, without a copy."""
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

    def to_bytes(self) -> bytes:
        """The states as Spark tasks send them."""
        return np.concatenate(
            [[self.exact_rows], self.exact_counts.ravel(), self.exact_ends.ravel()]
        ).tobytes()

    @classmethod
    def from_bytes(cls, data: bytes, n_columns: int) -> States:
        numbers = np.frombuffer(data, np.int64)
        counts, ends = np.split(numbers[1:], [n_columns * len(State)])
        return cls(int(numbers[0]), counts.reshape(n_columns, -1), ends.reshape(n_columns, -1))

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
            np.array([*range(each.n_values), *codes_of_states(each)], RowLayout._kind(each.size))
            for each in schema
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
