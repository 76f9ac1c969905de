"""Exact tables of counts: one per attribute, one per pair of attributes over bins. Exact, so never outside
the private side.

What is to be counted is told apart from the cells, which may be here or spread over machines: tables of parts
    of the cells add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.sparse import Codes, SparseCounts
from hdpview.jit import numba as nb

Ints = NDArray[np.int64]


class Tables(Protocol):
    """What is to be counted."""

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of each table."""
        ...

    def add(self, exact_codes: Codes, exact_counts: Ints, exact_sums: Ints) -> None:
        """Add cells to the tables, which stand in `exact_sums` one after another, row-major."""
        ...


@dataclass(frozen=True)
class HistogramTables:
    """Records per code of each attribute, shapes (size,)."""

    sizes: tuple[int, ...]

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [(size,) for size in self.sizes]

    def add(self, exact_codes: Codes, exact_counts: Ints, exact_sums: Ints) -> None:
        starts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)
        _add_histograms(exact_codes, exact_counts, starts, exact_sums)


@dataclass(frozen=True, eq=False)
class PairTables:
    """Records per pair of bins, for all `pairs` of attributes a < b: shapes (bins of a, bins of b).

    bin_of_code: per attribute, shape (size,), numbered from 0 without gaps.
    """

    bin_of_code: Sequence[NDArray[np.int32]]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return list(combinations(range(len(self.bin_of_code)), 2))

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        n_bins = self._n_bins
        return [(int(n_bins[a]), int(n_bins[b])) for a, b in self.pairs]

    @property
    def _n_bins(self) -> Ints:
        return np.array([int(bins.max()) + 1 for bins in self.bin_of_code], np.int64)

    def add(self, exact_codes: Codes, exact_counts: Ints, exact_sums: Ints) -> None:
        lookup = np.zeros((len(self.bin_of_code), max(map(len, self.bin_of_code))), np.int64)
        for a, bins in enumerate(self.bin_of_code):
            lookup[a, : len(bins)] = bins
        _add_pairs(exact_codes, exact_counts, lookup, self._n_bins, exact_sums)


def exact_tables(tables: Tables, parts: Iterable[tuple[Codes, Ints]]) -> list[Ints]:
    """The tables of all cells: codes and counts of one part after another."""
    n_numbers = [int(np.prod(shape)) for shape in tables.shapes]
    exact_sums = np.zeros(sum(n_numbers), np.int64)
    for exact_codes, exact_counts in parts:
        tables.add(exact_codes, exact_counts, exact_sums)
    ends = np.cumsum(n_numbers)
    return [
        exact_sums[end - n : end].reshape(shape)
        for end, n, shape in zip(ends, n_numbers, tables.shapes, strict=True)
    ]


def exact_histograms(counts: SparseCounts) -> list[Ints]:
    """Records per code of each attribute, shapes (size,)."""
    return exact_tables(HistogramTables(counts.schema.sizes), [(counts.exact_codes, counts.exact_counts)])


def exact_pair_tables(
    counts: SparseCounts, bin_of_code: Sequence[NDArray[np.int32]]
) -> dict[tuple[int, int], Ints]:
    """Records per pair of bins, for all pairs of attributes a < b; see `PairTables`."""
    tables = PairTables(bin_of_code)
    return dict(
        zip(tables.pairs, exact_tables(tables, [(counts.exact_codes, counts.exact_counts)]), strict=True)
    )


@nb.njit(cache=True, nogil=True)
def _add_histograms(codes, counts, starts, found):  # type: ignore[no-untyped-def]
    for i in range(len(counts)):
        for a in range(len(starts)):
            found[starts[a] + codes[i, a]] += counts[i]


@nb.njit(cache=True, nogil=True)
def _add_pairs(codes, counts, lookup, n_bins, found):  # type: ignore[no-untyped-def]
    n = len(n_bins)
    binned = np.empty(n, np.int64)
    for i in range(len(counts)):
        for a in range(n):
            binned[a] = lookup[a, codes[i, a]]
        start = 0
        for a in range(n):
            for b in range(a + 1, n):
                found[start + binned[a] * n_bins[b] + binned[b]] += counts[i]
                start += n_bins[a] * n_bins[b]
