"""Bins of a table: which codes of an attribute are counted together. Decided from released numbers alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Schema
from hdpview.jit import numba as nb

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Bins = NDArray[np.int32]
# From this size on, bins of different tables are made to nest, so that few of them differ.
_NESTED_FROM = 256


@dataclass(frozen=True)
class Axis:
    """What is public about an attribute's codes. n_ordered: how many, from the first on, are ordered; the
    others (all categories, and the code for missing values) have no neighbours.
    """

    size: int
    n_ordered: int


def axes_of(schema: Schema) -> tuple[Axis, ...]:
    return tuple(
        Axis(attribute.size, attribute.n_values if attribute.has_order else 0)
        for attribute in schema.attributes
    )


def bins_of(axis: Axis, shares: Floats, most: int, least_share: float, lots: Floats) -> Bins:
    """The bin of each code, int32, shape (size,): ordered codes in runs, others by themselves or by rarity.

    Args:
        axis: the attribute.
        shares: of records at each code, shape (size,), released.
        most: number of bins for ordered codes.
        least_share: a code without order has its own bin if it has this share of records.
        lots: shape (size,), decide between codes of which the same is known.
    """
    n = axis.n_ordered
    bins = np.empty(axis.size, np.int32)
    bins[:n] = _runs(shares[:n], most)
    start = int(bins[:n].max(initial=-1)) + 1
    bins[n:] = start + _by_rarity(shares[n:], least_share, lots[n:])
    return bins


def _runs(shares: Floats, most: int) -> Bins:
    """Runs of neighbouring codes with about the same share of records."""
    size = len(shares)
    if size <= most:
        return np.arange(size, dtype=np.int32)
    if size > _NESTED_FROM:
        most = 1 << (most.bit_length() - 1)
    middles = (np.cumsum(shares) - shares / 2) / max(float(shares.sum()), 1e-300)
    return _numbered(np.minimum((middles * most).astype(np.int64), most - 1))


def _by_rarity(shares: Floats, least_share: float, lots: Floats) -> Bins:
    """Codes with records enough by themselves, the others gathered in order of their shares."""
    size = len(shares)
    if size > _NESTED_FROM:
        least_share = float(2.0 ** np.ceil(np.log2(least_share)))
    order = np.lexsort((lots, -shares))
    falling = shares[order]
    n_own = int((falling >= least_share).sum())
    rest = np.cumsum(falling[n_own:])
    gathered = np.zeros(size - n_own, np.int64)
    if size > n_own and rest[-1] > 0:
        n_bins = max(1, int(rest[-1] / least_share))
        middles = (rest - falling[n_own:] / 2) / rest[-1]
        gathered = np.minimum((middles * n_bins).astype(np.int64), n_bins - 1)
    bins = np.empty(size, np.int32)
    bins[order] = np.concatenate([np.arange(n_own), n_own + _numbered(gathered)])
    return bins


def _numbered(labels: NDArray[np.int64]) -> Bins:
    """The same groups, numbered from 0 without gaps in the order of their labels."""
    return np.unique(labels, return_inverse=True)[1].reshape(-1).astype(np.int32)


def refinement(size: int, bins: Sequence[Bins]) -> Bins:
    """The coarsest bins that those of every table are unions of, shape (size,); one bin without tables."""
    if not bins:
        return np.zeros(size, np.int32)
    labels = np.stack(bins, axis=1)
    return np.unique(labels, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int32)


def sums_over(bins: NDArray[np.integer[Any]], values: Floats) -> Floats:
    """Sums of values over the codes of each bin."""
    return np.bincount(bins, values).astype(np.float64)


def membership(coarse: Bins, fine: Bins) -> NDArray[np.float32]:
    """Which fine bins make up each coarse one, 0 or 1, shape (n_coarse, n_fine). Bins are nested."""
    inside = np.zeros((int(coarse.max()) + 1, int(fine.max()) + 1), np.float32)
    inside[coarse, fine] = 1
    return inside


class Gathering:
    """Which fine bins of an attribute make up each coarse one. Both shape (size,), nested."""

    def __init__(self, coarse: Bins, fine: Bins) -> None:
        self._n = int(coarse.max()) + 1
        self._of_fine = np.empty(int(fine.max()) + 1, np.int64)
        self._of_fine[fine] = coarse

    def sums(self, values: Singles) -> Singles:
        """Sums over the fine bins of each coarse one: (n_fine, k) → (n_coarse, k)."""
        found = np.zeros((self._n, values.shape[1]), values.dtype)
        _add_rows(found, self._of_fine, values)
        return found

    def add_to_fine(self, values: Singles, sums: Singles) -> None:
        """Add to each fine bin what its coarse one has: (n_coarse, k) to (n_fine, k)."""
        sums += values[self._of_fine]

    def sums_of_one(self, values: Floats) -> Floats:
        """The same sums of one value per fine bin: (n_fine,) → (n_coarse,)."""
        return sums_over(self._of_fine, values)


@nb.njit(cache=True, nogil=True)
def _add_rows(sums, place, rows):  # type: ignore[no-untyped-def]
    """Add every row to the sum at its place: a category may have 50,000 bins, and a matrix of 0 and 1 for
    them would be multiplied for minutes.
    """
    for i in range(len(place)):
        to = place[i]
        for k in range(rows.shape[1]):
            sums[to, k] += rows[i, k]


def in_order(bins: NDArray[np.int32]) -> NDArray[np.int32]:
    """The same bins, numbered by their first codes: by the codes themselves where each is a bin."""
    _, first, which = np.unique(bins, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return rank[which.reshape(-1)]
