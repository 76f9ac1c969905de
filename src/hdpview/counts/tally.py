"""Sum rows into a fixed number of integers: tables over bins, and counts of boxes. Exact: private side.

    parts of the rows ──▶ threads, each with its own sums ──▶ the total

Cost is linear in rows × tables, or rows × boxes; memory does not depend on the rows. Sums of parts add up, in
any order and on any machine. Workers of a cluster load this and no database.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from queue import SimpleQueue
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.rows import Parts, Rows
from hdpview.domain.tables import CodeBoxes, TableShape
from hdpview.jit import numba as nb
from hdpview.machine import available_cores
from hdpview.privacy.exact import MOST_RECORDS, Exact
from hdpview.progress import Progress, silent

Ints = NDArray[np.int64]

# Most memory for the sums of all threads; larger sums mean fewer threads.
_BYTES_OF_SUMS = 256 << 20
# Rows per call of a kernel: their bins stay in the cache while one table after another is summed.
_ROWS_AT_ONCE = 8_192
_WORDS_AT_ONCE = _ROWS_AT_ONCE // 64
_MOST_CODES = 2**16


class Tally(Protocol):
    """Statistics to sum over rows."""

    @property
    def lengths(self) -> Sequence[int]:
        """Length of each statistic; the sums are concatenated."""
        ...

    def add(self, rows: Rows, exact_sums: Ints) -> None:
        """Add rows to the sums, shape (sum of lengths,)."""
        ...


def exact_tables(
    parts: Parts, shapes: Sequence[TableShape], threads: int | None = None, progress: Progress | None = None
) -> list[Exact]:
    """Records per cell of each table, in its shape, from one pass. A record is in one cell of each."""
    tally = TableTally(tuple(shapes))
    return tally.tables(_exact_sums(tally, parts, threads, progress, "Adding up tables"))


def exact_box_counts(
    parts: Parts, boxes: CodeBoxes, threads: int | None = None, progress: Progress | None = None
) -> Exact:
    """Records in each box, shape (n,), from one pass over the rows."""
    return counts_of_boxes(
        _exact_sums(BoxTally(boxes), parts, threads, progress, "Counting records in boxes")
    )


def counts_of_boxes(exact_sums: Ints) -> Exact:
    """Records in each box. A record may be in several boxes."""
    return Exact(exact_sums, in_all=max(1, len(exact_sums)))


def add_all(tally: Tally, parts: Iterable[Rows]) -> Ints:
    """The sums over all parts, on one thread."""
    exact_sums = np.zeros(sum(tally.lengths), np.int64)
    for rows in parts:
        _add(tally, rows, exact_sums)
    return exact_sums


def _add(tally: Tally, rows: Rows, exact_sums: Ints) -> None:
    tally.add(rows, exact_sums)
    if rows.exact_counts is not None:
        np.minimum(exact_sums, MOST_RECORDS, out=exact_sums)


def _exact_sums(
    tally: Tally, parts: Parts, threads: int | None, progress: Progress | None, text: str
) -> Ints:
    """The sums over all parts. At most one part more than there are threads is in memory at a time."""
    report, n_parts = progress or silent, len(parts)
    report(0.0, text)
    fitting = _BYTES_OF_SUMS // max(1, 8 * sum(tally.lengths))
    n_threads = max(1, min(threads or available_cores(), fitting, n_parts))
    if n_threads == 1:
        return add_all(tally, _reported(parts, n_parts, report, text))
    idle: SimpleQueue[Ints] = SimpleQueue()
    for _ in range(n_threads):
        idle.put(np.zeros(sum(tally.lengths), np.int64))

    def add(rows: Rows) -> None:
        exact_sums = idle.get()
        _add(tally, rows, exact_sums)
        idle.put(exact_sums)

    running: deque[Future[None]] = deque()
    with ThreadPoolExecutor(n_threads, "hdpview-tally") as pool:
        for rows in _reported(parts, n_parts, report, text):
            running.append(pool.submit(add, rows))
            del rows
            if len(running) > n_threads:
                running.popleft().result()
        for task in running:
            task.result()
    total = idle.get()
    for _ in range(n_threads - 1):
        np.minimum(total + idle.get(), MOST_RECORDS, out=total)
    return total


def _reported(parts: Iterable[Rows], n_parts: int, report: Progress, text: str) -> Iterable[Rows]:
    for number, rows in enumerate(parts):
        yield rows
        del rows
        report((number + 1) / n_parts, text)


@dataclass(frozen=True, eq=False)
class TableTally:
    """Records per cell of each table: combinations of bins of some attributes, row-major."""

    shapes: tuple[TableShape, ...]

    @cached_property
    def lengths(self) -> list[int]:
        return [int(np.prod(shape.shape)) for shape in self.shapes]

    @cached_property
    def _lookups(self) -> dict[tuple[int, bytes], NDArray[np.uint16]]:
        """Bins of codes; tables with the same bins share them."""
        return {
            (a, bins.tobytes()): bins.astype(np.uint16)
            for shape in self.shapes
            for a, bins in zip(shape.attributes, shape.bin_of_code, strict=True)
        }

    @cached_property
    def _axes(self) -> tuple[Ints, Ints]:
        """Per table and attribute, the index of its lookup, -1 past the last, and the number of bins."""
        numbers = {key: number for number, key in enumerate(self._lookups)}
        most = max((len(shape.attributes) for shape in self.shapes), default=0)
        lookups, n_bins = np.full((2, len(self.shapes), most), -1, np.int64)
        for t, shape in enumerate(self.shapes):
            for j, (a, bins) in enumerate(zip(shape.attributes, shape.bin_of_code, strict=True)):
                lookups[t, j], n_bins[t, j] = numbers[a, bins.tobytes()], shape.shape[j]
        return lookups, n_bins

    def add(self, rows: Rows, exact_sums: Ints) -> None:
        bins = np.empty((len(self._lookups), len(rows)), np.uint16)
        for number, ((a, _), lookup) in enumerate(self._lookups.items()):
            _look_up(rows.exact_columns[a], lookup, bins[number])
        starts = np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64)
        _add_tables(bins, _counts_of(rows), *self._axes, starts, exact_sums)

    def tables(self, exact_sums: Ints) -> list[Exact]:
        """The sums, each table in its shape."""
        parts = np.split(exact_sums, np.cumsum(self.lengths)[:-1]) if self.shapes else []
        return [Exact(part.reshape(shape.shape)) for part, shape in zip(parts, self.shapes, strict=True)]


@dataclass(frozen=True, eq=False)
class BoxTally:
    """Records in each box.

    Rows become bits. Per attribute, the bounds of all boxes cut its codes into segments; each bound has a
    bitmap of the rows below it. A box is then (below upper and not below lower), combined by AND over its
    attributes, and its count is the number of set bits. Counts of rows are split into binary digits.
    """

    boxes: CodeBoxes

    @property
    def lengths(self) -> list[int]:
        return [len(self.boxes)]

    @cached_property
    def _bounds(self) -> dict[int, Ints]:
        """The bounds on each attribute that any box restricts, ascending."""
        ends = np.stack([self.boxes.lower, self.boxes.upper])
        return {
            int(a): np.unique(ends[:, self.boxes.attribute == a]) for a in np.unique(self.boxes.attribute)
        }

    @cached_property
    def _starts(self) -> dict[int, int]:
        """The first bitmap of each attribute: it has one per bound, and one beyond all boxes."""
        ends = np.cumsum([len(bounds) + 1 for bounds in self._bounds.values()]).tolist()
        return dict(zip(self._bounds, [0, *ends], strict=False))

    @cached_property
    def _rows_of_bounds(self) -> tuple[Ints, Ints]:
        """Per box and attribute, the bitmaps of its lower and upper bound."""
        lower, upper = np.empty_like(self.boxes.lower), np.empty_like(self.boxes.upper)
        for a, bounds in self._bounds.items():
            own = self.boxes.attribute == a
            lower[own] = self._starts[a] + np.searchsorted(bounds, self.boxes.lower[own])
            upper[own] = self._starts[a] + np.searchsorted(bounds, self.boxes.upper[own])
        return lower.astype(np.int64), upper.astype(np.int64)

    @cached_property
    def _lookups(self) -> dict[int, NDArray[np.uint32]]:
        """Per attribute, the segment of each code: the number of bounds ≤ the code."""
        codes = np.arange(_MOST_CODES)
        return {
            a: np.searchsorted(bounds, codes, side="right").astype(np.uint32)
            for a, bounds in self._bounds.items()
        }

    def add(self, rows: Rows, exact_sums: Ints) -> None:
        if not self._bounds:  # no boxes, or boxes without restrictions
            exact_sums += len(rows) if rows.exact_counts is None else rows.exact_counts.sum()
            return
        segments = np.empty((len(self._bounds), len(rows)), np.uint32)
        for number, (a, lookup) in enumerate(self._lookups.items()):
            _look_up(rows.exact_columns[a], lookup, segments[number])
        starts = np.array([*self._starts.values()], np.int64)
        n_bounds = np.array([len(bounds) for bounds in self._bounds.values()], np.int64)
        _add_boxes(segments, _counts_of(rows), starts, n_bounds, *self._rows_of_bounds, exact_sums)


def _counts_of(rows: Rows) -> Ints:
    """Counts, or an empty array if each row is one record."""
    return np.empty(0, np.int64) if rows.exact_counts is None else rows.exact_counts


@nb.njit(cache=True, nogil=True)
def _look_up(codes, lookup, out):  # type: ignore[no-untyped-def]
    for i in range(len(codes)):
        out[i] = lookup[codes[i]]


@nb.njit(cache=True, nogil=True)
def _add_tables(bins, counts, lookups, n_bins, starts, sums):  # type: ignore[no-untyped-def]
    cell = np.empty(_ROWS_AT_ONCE, np.uint32)
    for first in range(0, bins.shape[1], _ROWS_AT_ONCE):
        n = min(_ROWS_AT_ONCE, bins.shape[1] - first)
        for t in range(len(lookups)):
            cell[:] = 0
            for j in range(lookups.shape[1]):
                if lookups[t, j] >= 0:
                    own, width = bins[lookups[t, j], first : first + n], np.uint32(n_bins[t, j])
                    for i in range(n):
                        cell[i] = cell[i] * width + own[i]
            table = sums[starts[t] : starts[t + 1]]
            # a row is in one cell of each table, and adds its records there [P7]
            if len(counts):
                for i in range(n):
                    table[cell[i]] += counts[first + i]
            else:
                for i in range(n):
                    table[cell[i]] += 1


@nb.njit(cache=True, nogil=True)
def _add_boxes(segments, counts, starts, n_bounds, lower, upper, sums):  # type: ignore[no-untyped-def]
    below = np.empty((starts[-1] + n_bounds[-1] + 1, _WORDS_AT_ONCE), np.uint64)
    digits = np.empty((63, _WORDS_AT_ONCE), np.uint64)
    inside = np.empty(_WORDS_AT_ONCE, np.uint64)
    for first in range(0, segments.shape[1], _ROWS_AT_ONCE):
        n = min(_ROWS_AT_ONCE, segments.shape[1] - first)
        _fill_below(segments[:, first : first + n], starts, n_bounds, below)
        n_digits = _fill_digits(counts[first : first + n], n, digits)
        for q in range(len(sums)):
            inside[:] = ~np.uint64(0)
            for j in range(lower.shape[1]):
                low, high = below[lower[q, j]], below[upper[q, j]]
                for w in range(_WORDS_AT_ONCE):
                    inside[w] &= high[w] & ~low[w]
            for digit in range(n_digits):
                total = np.uint64(0)
                for w in range(_WORDS_AT_ONCE):
                    total += _n_bits(inside[w] & digits[digit, w])
                sums[q] += np.int64(total << np.uint64(digit))


@nb.njit(cache=True, nogil=True)
def _fill_below(segments, starts, n_bounds, below):  # type: ignore[no-untyped-def]
    """Bitmaps of the rows below each bound: first per segment, then accumulated over segments."""
    below[:] = 0
    for a in range(len(starts)):
        for i in range(segments.shape[1]):
            below[starts[a] + segments[a, i], i >> 6] |= np.uint64(1) << np.uint64(i & 63)
        for b in range(1, n_bounds[a] + 1):
            for w in range(below.shape[1]):
                below[starts[a] + b, w] |= below[starts[a] + b - 1, w]


@nb.njit(cache=True, nogil=True)
def _fill_digits(counts, n, digits):  # type: ignore[no-untyped-def]
    """Binary digits of each row's count as bitmaps; returns their number. Bits past the last row are 0."""
    digits[:] = 0
    if len(counts) == 0:
        for i in range(n):
            digits[0, i >> 6] |= np.uint64(1) << np.uint64(i & 63)
        return 1
    n_digits = 0
    for i in range(n):
        rest, digit = counts[i], 0
        while rest:
            digits[digit, i >> 6] |= np.uint64(rest & 1) << np.uint64(i & 63)
            rest >>= 1
            digit += 1
        n_digits = max(n_digits, digit)
    return n_digits


@nb.njit(cache=True, nogil=True)
def _n_bits(word):  # type: ignore[no-untyped-def]
    """Number of set bits: sums of bits, pairs, fours and bytes. LLVM compiles it to one instruction."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (word * np.uint64(0x0101010101010101)) >> np.uint64(56)
