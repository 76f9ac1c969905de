"""Sum rows into a fixed number of integers: tables over bins, and counts of boxes. Exact: private side.

    parts of the rows ──▶ threads, each with its own sums ──▶ the total

Cost is linear in rows × tables, or rows × boxes; memory does not depend on the rows. Sums of parts add up, in
any order and on any machine. Workers of a cluster load this and no database.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from threading import Event, Lock
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.rows import Parts, Rows
from hdpview.domain.table_shapes import CodeBoxes, TableShape
from hdpview.jit import numba as nb
from hdpview.machine import available_cores
from hdpview.privacy.exact import MOST_RECORDS, Exact
from hdpview.progress import Progress, in_background, silent

Ints = NDArray[np.int64]

# Maximum memory for the sums of all threads; larger sums mean fewer threads.
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


def add_all(tally: Tally, parts: Iterable[Rows]) -> Ints:
    """The sums over all parts, on one thread."""
    exact_sums = np.zeros(sum(tally.lengths), np.int64)
    for rows in parts:
        tally.add(rows, exact_sums)
        if rows.exact_counts is not None:
            np.minimum(exact_sums, MOST_RECORDS, out=exact_sums)
        del rows
    return exact_sums


def sums_of_parts(
    tally: Tally, parts: Parts, threads: int | None, progress: Progress | None, text: str
) -> Ints:
    """The sums over all parts. Each thread takes the next part, and has sums of its own."""
    report, n_parts = progress or silent, len(parts)
    report(0.0, text)
    fitting = _BYTES_OF_SUMS // max(1, 8 * sum(tally.lengths))
    n_threads = max(1, min(threads or available_cores(), fitting, n_parts))
    coming, lock, stopped, n_taken = iter(parts), Lock(), Event(), [0]

    def taken() -> Iterator[Rows]:
        while not stopped.is_set():
            with lock:
                rows = next(coming, None)
                n_taken[0] += 1
            if rows is None:
                return
            yield rows
            del rows

    def work() -> list[Ints]:
        with ThreadPoolExecutor(n_threads, "hdpview-tally") as pool:
            running = [pool.submit(add_all, tally, taken()) for _ in range(n_threads)]
            if any(each.exception() for each in wait(running, return_when=FIRST_EXCEPTION).done):
                stopped.set()
        return [each.result() for each in running]

    sums = in_background(work, lambda: report(min(1.0, n_taken[0] / max(1, n_parts)), text), stopped.set)
    report(1.0, text)
    return functools.reduce(lambda total, own: np.minimum(total + own, MOST_RECORDS), sums)


@dataclass(frozen=True, eq=False)
class TableTally:
    """Records per cell of each table: combinations of bins of some attributes, row-major."""

    shapes: tuple[TableShape, ...]

    @cached_property
    def lengths(self) -> list[int]:
        return [int(np.prod(shape.shape)) for shape in self.shapes]

    @cached_property
    def _plan(self) -> tuple[list[tuple[int, NDArray[np.uint16]]], Ints, Ints]:
        """The lookups of bins by code, which tables share, with their attributes; and per table and attribute
        the index of its lookup, -1 past the last, and the number of bins.
        """
        lookups: dict[tuple[int, bytes], tuple[int, tuple[int, NDArray[np.uint16]]]] = {}
        most = max((len(shape.attributes) for shape in self.shapes), default=0)
        indexes, n_bins = np.full((2, len(self.shapes), most), -1, np.int64)
        for t, shape in enumerate(self.shapes):
            n_bins[t, : len(shape.shape)] = shape.shape
            for j, (a, bins) in enumerate(zip(shape.attributes, shape.bin_of_code, strict=True)):
                own = len(lookups), (a, bins.astype(np.uint16))
                indexes[t, j] = lookups.setdefault((a, bins.tobytes()), own)[0]
        return [lookup for _, lookup in lookups.values()], indexes, n_bins

    def add(self, rows: Rows, exact_sums: Ints) -> None:
        lookups, indexes, n_bins = self._plan
        bins = np.empty((len(lookups), len(rows)), np.uint16)
        for own, (a, lookup) in zip(bins, lookups, strict=True):
            _look_up(rows.exact_columns[a], lookup, own)
        starts = np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int64)
        _add_tables(bins, _counts_of(rows), indexes, n_bins, starts, exact_sums)

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
    def _plan(self) -> tuple[list[tuple[int, NDArray[np.uint32]]], tuple[Ints, Ints, Ints, Ints]]:
        """The segment of each code by attribute, as the number of bounds ≤ the code; and the first bitmap and
        the number of bounds of each of these attributes, and per box and attribute the bitmaps of its bounds.

        An attribute has a bitmap per bound, and one beyond all boxes.
        """
        attribute, ends = self.boxes.attribute, np.stack([self.boxes.lower, self.boxes.upper])
        bitmaps = np.empty(ends.shape, np.int64)
        lookups: list[tuple[int, NDArray[np.uint32]]] = []
        starts: list[int] = []
        n_bounds: list[int] = []
        for a in np.unique(attribute).tolist():
            bounds = np.unique(ends[:, attribute == a])
            segments = np.searchsorted(bounds, np.arange(_MOST_CODES), side="right").astype(np.uint32)
            lookups.append((a, segments))
            starts.append(sum(n_bounds) + len(n_bounds))
            n_bounds.append(len(bounds))
            bitmaps[:, attribute == a] = starts[-1] + np.searchsorted(bounds, ends[:, attribute == a])
        return lookups, (np.array(starts), np.array(n_bounds), bitmaps[0], bitmaps[1])

    def add(self, rows: Rows, exact_sums: Ints) -> None:
        lookups, places = self._plan
        if not lookups:  # no boxes, or boxes without restrictions
            exact_sums += len(rows) if rows.exact_counts is None else rows.exact_counts.sum()
            return
        segments = np.empty((len(lookups), len(rows)), np.uint32)
        for own, (a, lookup) in zip(segments, lookups, strict=True):
            _look_up(rows.exact_columns[a], lookup, own)
        _add_boxes(segments, _counts_of(rows), *places, exact_sums)


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
                    codes, width = bins[lookups[t, j], first : first + n], np.uint32(n_bins[t, j])
                    for i in range(n):
                        cell[i] = cell[i] * width + codes[i]
            table = sums[starts[t] : starts[t + 1]]
            # each row adds its records to one cell of each table [P7]
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
