"""Moments of functions of one attribute's codes, over codes and over the bins in which tables gather them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.query.question.batch import Functions

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_AT_ONCE = 60_000  # numbers of an array of functions × bins


class Moments(NamedTuple):
    """Of pairs of functions of an attribute: shape (n,), or (n, n_binnings) where they depend on how tables
    gather its codes in bins. Binning 0 has a bin for each code.

    energy: Σ over bins of the product of both functions' deviations from their plain means over bins.
    covariance: the same of deviations from their means over records, each bin weighted by its share of the
        records.
    noise: what noise in the attribute's histogram adds, per squared mean of all other functions.
    related: the covariance, as large as it may be: where the view sees no records, there may be as many as
        noise hides.
    inside: what both functions leave open inside bins.
    """

    energy: Floats
    covariance: Floats
    noise: Floats
    related: Floats
    inside: Floats


class Codes:
    """An attribute's codes, and the bins in which tables gather them.

    margin: share of the records at each code, shape (size,).
    """

    def __init__(
        self,
        margin: Floats,
        binnings: Sequence[NDArray[np.int32]],
        n_binnings: int,
        variance: float,
        total: float,
    ) -> None:
        """binnings: the bin of each code, in several ways. n_binnings: columns of the moments, one for the
        codes themselves. variance: of the noise in the count of a code. total: of all records.
        """
        self.margin, self._variance, self._hidden = margin, variance, np.sqrt(variance) / total
        size = len(margin)
        # What every code counts with in a plain mean over bins, per binning, shape (n_binnings, size).
        self.even = np.zeros((n_binnings, size))
        self.even[0] = 1.0 / size
        averages, weights = [np.zeros((size, 0))], [margin]
        for number, bins in enumerate(binnings, 1):
            of_bin: Floats = np.bincount(bins, margin).astype(np.float64)
            # In a bin without records all codes count alike.
            share = np.where(
                of_bin[bins] > 0,
                margin / np.where(of_bin > 0, of_bin, 1.0)[bins],
                1.0 / np.bincount(bins)[bins],
            )
            self.even[number] = share / len(of_bin)
            averages.append(np.zeros((size, len(of_bin))))
            averages[-1][np.arange(size), bins] = share
            weights.append(of_bin)
        # A column for every bin of every further binning, (size, n): averages values per code over the bin.
        self._averages = np.concatenate(averages, axis=1)
        # Which binning a bin belongs to, and its share of the records, shape (n_bins, 2 · n_binnings).
        self._in_binning = np.zeros((size + self._averages.shape[1], 2 * n_binnings))
        rows = np.arange(len(self._in_binning))
        binning = np.repeat(np.arange(len(weights)), list(map(len, weights)))
        self._in_binning[rows, binning] = 1.0
        self._in_binning[rows, n_binnings + binning] = np.concatenate(weights)
        self._n_bins = self._in_binning[:, :n_binnings].sum(axis=0)

    def moments(self, left: Functions, right: Functions, own: Ints | None, other: Ints | None) -> Moments:
        """Moments of functions `own` on the left, rising, with functions `other` on the right; None for all
        functions with themselves.
        """
        k, size = left.share.shape
        if own is None or other is None:
            if left.at_codes and not k:
                return self._at_codes
            own = other = np.arange(len(left))
        border = int(np.searchsorted(own, k))
        whole = self._of_whole(left, right, own[:border], other[:border])
        if border == len(own):
            return whole
        # Functions that are 0 but for one code are multiples of the one that is 1 there.
        one, two = own[border:] - k, other[border:] - len(right.share)
        code = one % size
        factor = left.values_at_codes[one] * right.values_at_codes[two]
        at_codes = self._at_codes
        inside = np.zeros(len(one))
        if left.condition is not None and right.condition is not None:
            rows = np.flatnonzero((one < left.share.size) & (two < right.share.size))
            cut, spread, spread_two = _inside(
                left, right, one[rows] // size, two[rows] // size, code[rows], self.margin
            )
            inside[rows] = cut + spread * spread_two
        covariance = at_codes.covariance[code] * factor[:, None]
        hidden = (at_codes.related - at_codes.covariance[:, 0])[code] * np.abs(factor)
        points = Moments(
            at_codes.energy[code] * factor[:, None],
            covariance,
            at_codes.noise[code] * factor,
            covariance[:, 0] + hidden,
            inside,
        )
        return Moments(*map(np.concatenate, zip(whole, points, strict=True)))

    @cached_property
    def _at_codes(self) -> Moments:
        """Of the function that is 1 at one code alone, with itself, for each code."""
        size, parts = len(self.margin), list[Moments]()
        for start in range(0, size, step := max(1, _AT_ONCE // size)):
            codes = Functions(np.eye(min(step, size - start), size, start))
            every = np.arange(len(codes))
            parts.append(self._of_whole(codes, codes, every, every))
        return Moments(*map(np.concatenate, zip(*parts, strict=True)))

    def _of_whole(self, left: Functions, right: Functions, own: Ints, other: Ints) -> Moments:
        """Of functions that are not at one code alone."""
        n, n_binnings, size = len(own), len(self._n_bins), len(self.margin)
        found = Moments(*np.zeros((2, n, n_binnings)), *np.zeros((3, n)))
        is_open = left.condition is not None and right.condition is not None
        step = max(1, _AT_ONCE // len(self._in_binning))
        for start in range(0, n, step):
            rows = slice(start, start + step)
            deviations, shift = self._deviations(left.values[own[rows]])
            others, other_shift = deviations, shift
            if left is not right or own is not other:
                others, other_shift = self._deviations(right.values[other[rows]])
            products = deviations * others
            sums = products @ self._in_binning
            found.energy[rows] = sums[:, :n_binnings] - self._n_bins * shift * other_shift
            found.covariance[rows] = sums[:, n_binnings:]
            squares = products[:, :size] - products[:, :size].mean(axis=1, keepdims=True)
            hidden = self._hidden * np.sqrt(np.einsum("nc,nc->n", squares, squares))
            found.related[rows] = sums[:, n_binnings] + hidden
            if is_open:
                one, two = own[rows, None], other[rows, None]
                cut, spread, spread_two = _inside(left, right, one, two, np.arange(size), self.margin)
                found.inside[rows] = cut.sum(axis=1) + spread.sum(axis=1) * spread_two.sum(axis=1)
        return found._replace(noise=self._variance * found.energy[:, 0])

    def _deviations(self, values: Floats) -> tuple[Floats, Floats]:
        """How functions deviate on average in every bin from their means over records, (n, n_bins), and how
        much on average over the bins of each binning, (n, n_binnings).
        """
        deviations = values - (values @ self.margin)[:, None]
        return (
            np.concatenate([deviations, deviations @ self._averages], axis=1),
            deviations @ self.even.T,
        )


def _inside(
    left: Functions, right: Functions, own: Ints, other: Ints, code: Ints, margin: Floats
) -> tuple[Floats, Floats, Floats]:
    """What pairs of functions leave open inside the bins of codes, per squared total: from bins that are cut
    through, and, for each of the two, from values that differ inside bins.

    Where a bin is cut through, two functions of the same condition ask for the same records of it. Those of
    different conditions may ask for others: as few in common as their shares allow. Records of all bins may
    lie to the same side, as where values are rounded, so sums over values that differ are multiplied.
    """
    assert left.condition is not None
    assert right.condition is not None
    share, share_two, weight = left.share[own, code], right.share[other, code], margin[code]
    same = left.condition[own] == right.condition[other]
    common = np.where(same, np.minimum(share, share_two), np.maximum(share + share_two - 1.0, 0.0))
    cut = (common - share * share_two) * weight**2
    spreads = []
    for functions, rows, of_code in ((left, own, share), (right, other, share_two)):
        if functions.value is not None:
            cut = cut * functions.value[rows, code]
        spread = 0.0 if functions.spread is None else functions.spread[rows, code]
        spreads.append(of_code * weight * spread)
    return cut, spreads[0], spreads[1]
