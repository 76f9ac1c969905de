"""Exact tables of counts: one per attribute, one per pair of attributes over bins. Exact, so never outside the private side."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numba as nb
import numpy as np
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts

Ints = NDArray[np.int64]


def exact_histograms(counts: SparseCounts) -> list[Ints]:
    """Records per code of each attribute, shapes (size,)."""
    sizes = np.array(counts.schema.sizes)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    found = np.zeros(int(sizes.sum()), np.int64)
    _add_histograms(counts.exact_codes, counts.exact_counts, starts, found)
    return np.split(found, starts[1:])


def exact_pair_tables(counts: SparseCounts, bin_of_code: Sequence[NDArray[np.int32]]) -> dict[tuple[int, int], Ints]:
    """Records per pair of bins, for all pairs of attributes a < b: shapes (bins of a, bins of b).

    bin_of_code: per attribute, shape (size,), numbered from 0 without gaps.
    """
    n_bins = np.array([int(bins.max()) + 1 for bins in bin_of_code])
    pairs = np.array(list(combinations(range(len(n_bins)), 2)), np.int64).reshape(-1, 2)
    starts = np.concatenate([[0], np.cumsum(n_bins[pairs[:, 0]] * n_bins[pairs[:, 1]])]).astype(np.int64)
    lookup = np.zeros((len(n_bins), max(map(len, bin_of_code))), np.int64)
    for a, bins in enumerate(bin_of_code):
        lookup[a, : len(bins)] = bins
    found = np.zeros(int(starts[-1]), np.int64)
    _add_pairs(counts.exact_codes, counts.exact_counts, lookup, n_bins, found)
    tables = np.split(found, starts[1:-1])
    return {(int(a), int(b)): table.reshape(n_bins[a], n_bins[b]) for (a, b), table in zip(pairs, tables, strict=False)}


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
