"""Moments of functions of one attribute's codes, over codes and over the bins of tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.domain.attributes import Cycles
from hdpview.query.question.batch import Functions

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# Share of the records below which relative departures of groups from all records stop growing. On seven
# tables, squared relative departures of groups of 0.01%, 0.1%, 1–5% and 5–20% of the records were about 10,
# 8, 5 and 1.5 times the mean, as for 0.02; at 0.02, populated cells of few tables (jm1) held 10 points less.
RARE_SHARE = 0.005
MAX_ARRAY_SIZE = 60_000  # numbers in an array of functions × bins, which fits into the processor's cache


class Moments(NamedTuple):
    """Moments of pairs of functions of an attribute: shape (n,), or (n, n_binnings) if they depend on the
    bins of tables. Binning 0 has one bin per code.

    energy: Σ over bins of the product of both functions' deviations from their plain means over bins, each
        bin weighted by how much of its noise the fit keeps.
    covariance: the same for deviations from their means over records, each bin weighted by `unlike` of its
        share of the records. scattered: the same for codes, each weighted by its part of its bin's weight.
    inside: the uncertainty of both functions inside bins.
    """

    energy: Floats
    covariance: Floats
    scattered: Floats
    inside: Floats


def unlike(share: NDArray[Any]) -> Floats:
    """Weights of groups by their shares of the records: their expected departure from independence.

    All groups but the largest may depart together, as one group of their share: rare values of several
    attributes often meet.
    """
    weight: Floats = share**2 / (share + RARE_SHARE)
    largest = int(np.argmax(share))
    left, apart = np.delete(share, largest).sum(), np.delete(weight, largest).sum()
    if left > 0.0:
        weight[largest] += share[largest] ** 2 * max(1.0 / (left + RARE_SHARE) - apart / left**2, 0.0)
    return weight


class Codes:
    """An attribute's codes, and their bins in tables.

    margin: share of the records at each code, shape (size,).
    """

    def __init__(
        self,
        margin: Floats,
        binnings: Sequence[NDArray[np.int32]],
        kept: Sequence[Floats],
        n_binnings: int,
        cycles: Cycles = (),
    ) -> None:
        """binnings: the bin of each code, per binning. kept: weights of noise at each code, and in each bin
        of each binning. n_binnings: columns of the moments, one of them for the codes themselves. cycles:
        classes of codes whose sums keep all noise.
        """
        self.margin, self.kept, self._binnings = margin, kept, binnings
        size = len(margin)
        # The weight of every code in a plain mean over bins, per binning, shape (n_binnings, size).
        self.even = np.zeros((n_binnings, size))
        self.even[0] = 1.0 / size
        averages, weights = [np.zeros((size, 0))], [unlike(margin)]
        # Weights of codes, per binning, (size, n_binnings): their parts of the weights of their bins.
        self.of_codes = np.zeros((size, n_binnings))
        self.of_codes[:, 0] = weights[0]
        for number, bins in enumerate(binnings, 1):
            of_bin: Floats = np.bincount(bins, margin).astype(np.float64)
            # In a bin without records, all codes have equal weight.
            share = np.where(
                of_bin[bins] > 0,
                margin / np.where(of_bin > 0, of_bin, 1.0)[bins],
                1.0 / np.bincount(bins)[bins],
            )
            self.even[number] = share / len(of_bin)
            averages.append(np.zeros((size, len(of_bin))))
            averages[-1][np.arange(size), bins] = share
            weights.append(unlike(of_bin))
            self.of_codes[:, number] = share * weights[-1][bins]
        # One column per bin of every further binning, (size, n), which averages values per code over the bin.
        self._averages = np.concatenate(averages, axis=1)
        # The weights of noise, of bins and of codes in each binning, shape (n_bins, 3 · n_binnings).
        self._in_binning = np.zeros((size + self._averages.shape[1], 3 * n_binnings))
        rows = np.arange(len(self._in_binning))
        binning = np.repeat(np.arange(len(weights)), list(map(len, weights)))
        self._in_binning[rows, binning] = np.concatenate(kept)
        self._in_binning[rows, n_binnings + binning] = np.concatenate(weights)
        self._in_binning[:size, 2 * n_binnings :] = self.of_codes
        # Departures of each class of a cycle, by the square roots of the noise that its codes lost.
        of_classes = [np.zeros((size, 0))]
        for bins in cycles:
            inside = np.zeros((size, int(bins.max()) + 1))
            inside[np.arange(len(bins)), bins] = margin[: len(bins)]
            lost = np.maximum(np.bincount(bins) - np.bincount(bins, kept[0][: len(bins)]), 0.0)
            of_classes.append(inside / np.maximum(inside.sum(axis=0), 1e-300) * np.sqrt(lost))
        self.of_classes = np.concatenate(of_classes, axis=1)
        self._n_bins = np.bincount(binning, minlength=n_binnings)
        self._binning_of_bin = binning

    def over_bins(self, values: Floats, binning: int) -> Floats:
        """Averages of values per code over the bins of a binning: (n, size) → (n, n_bins)."""
        if not binning:
            return values
        start = int(self._n_bins[1:binning].sum())
        return values @ self._averages[:, start : start + int(self._n_bins[binning])]

    def moments(self, left: Functions, right: Functions, own: Ints | None, other: Ints | None) -> Moments:
        """Moments of the functions `own` on the left, ascending, with the functions `other` on the right;
        None for all functions with themselves.
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
        # Functions that are non-zero at a single code are multiples of the indicator of this code.
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
        energy, covariance, scattered = (each[code] * factor[:, None] for each in at_codes[:3])
        points = Moments(energy, covariance, scattered, inside)
        return Moments(*map(np.concatenate, zip(whole, points, strict=True)))

    @cached_property
    def _at_codes(self) -> Moments:
        """Moments of the indicator of each code with itself."""
        size, n_binnings = len(self.margin), len(self._n_bins)
        energy, covariance = np.zeros((2, size, n_binnings))
        margin = self.margin[:, None]
        scattered = self.of_codes * (1.0 - 2.0 * margin) + margin**2 * self.of_codes.sum(axis=0)
        all_bins: list[NDArray[Any]] = [np.arange(size), *self._binnings]
        for number, bins in enumerate(all_bins):
            kept, n_bins = self.kept[number], int(self._n_bins[number])
            share = self.even[number] * n_bins  # of a bin's records at each code: the average over the bin
            energy[:, number] = share**2 * (kept[bins] * (1.0 - 2.0 / n_bins) + kept.sum() / n_bins**2)
            weight = unlike(np.bincount(bins, self.margin))
            of_others = weight.sum() * self.margin**2
            covariance[:, number] = weight[bins] * share * (share - 2.0 * self.margin) + of_others
        energy[:, 0] += np.square(self.of_classes - margin * self.of_classes.sum(axis=0)).sum(axis=1)
        return Moments(energy, covariance, scattered, np.zeros(size))

    def _of_whole(self, left: Functions, right: Functions, own: Ints, other: Ints) -> Moments:
        """Moments of functions that are non-zero at several codes."""
        n, n_binnings, size = len(own), len(self._n_bins), len(self.margin)
        energy, covariance, scattered = np.zeros((3, n, n_binnings))
        moments = Moments(energy, covariance, scattered, np.zeros(n))
        is_open = left.condition is not None and right.condition is not None
        step = max(1, MAX_ARRAY_SIZE // len(self._in_binning))
        for start in range(0, n, step):
            rows = slice(start, start + step)
            deviations, plain = self._deviations(left.values[own[rows]])
            others, other_plain = deviations, plain
            if left is not right or own is not other:
                others, other_plain = self._deviations(right.values[other[rows]])
            moments.energy[rows] = (plain * other_plain) @ self._in_binning[:, :n_binnings]
            of_cycles = (each[:, :size] @ self.of_classes for each in (deviations, others))
            moments.energy[rows, 0] += np.multiply(*of_cycles).sum(axis=1)
            both = (deviations * others) @ self._in_binning[:, n_binnings:]
            moments.covariance[rows], moments.scattered[rows] = both[:, :n_binnings], both[:, n_binnings:]
            if is_open:
                one, two = own[rows, None], other[rows, None]
                cut, spread, spread_two = _inside(left, right, one, two, np.arange(size), self.margin)
                moments.inside[rows] = cut.sum(axis=1) + spread.sum(axis=1) * spread_two.sum(axis=1)
        return moments

    def _deviations(self, values: Floats) -> tuple[Floats, Floats]:
        """Mean deviations of functions in every bin from their means over records, and from their plain means
        over the bins of the same binning, shape (n, n_bins) each.
        """
        deviations = values - (values @ self.margin)[:, None]
        of_bins = np.concatenate([deviations, deviations @ self._averages], axis=1)
        return of_bins, of_bins - (deviations @ self.even.T)[:, self._binning_of_bin]


def _inside(
    left: Functions, right: Functions, own: Ints, other: Ints, code: Ints, margin: Floats
) -> tuple[Floats, Floats, Floats]:
    """The uncertainty of pairs of functions inside the bins of codes, per squared total: from cut bins and,
    for each of the two, from values that differ inside bins.

    If a bin is cut, two functions of the same condition select the same records of it. Functions of different
    conditions may have as few records in common as their shares allow. Records of all bins may lie on the
    same side, for example if values are rounded, so sums over differing values are multiplied.
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
