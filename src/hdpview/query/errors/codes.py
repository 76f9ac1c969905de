"""Moments of functions of one attribute's codes, over codes and over the bins of tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.query.question.batch import Functions
from hdpview.query.question.conditions import LEAST_SHARE

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# Share of the records below which relative departures of groups from all records stop growing. On seven
# tables, squared relative departures of groups of 0.01%, 0.1%, 1–5% and 5–20% of the records were about 10,
# 8, 5 and 1.5 times the mean, which fits 0.02 as well; but with 0.02 and few tables (jm1), intervals of
# populated cells held 10 points less often.
RARE_SHARE = 0.005
# Variance of the share of a bin's records that lies exactly at its edge, so that 95% intervals cover all or
# none of them: 1 / 2.36².
EDGE_VARIANCE = 0.18
MAX_ARRAY_SIZE = 60_000  # maximum size of an array of functions × bins, which fits into the processor's cache


class Cycle(NamedTuple):
    """Classes of an attribute's codes that recur, such as weekdays.

    bins: the class of each code. lost: per class, the noise that its sum keeps beyond that of its codes, in
    variances of a code.
    """

    bins: NDArray[np.int32]
    lost: Floats


class Moments(NamedTuple):
    """Moments of pairs of functions of an attribute: shape (n,), or (n, n_binnings) if they depend on the
    bins of tables. Binning 0 has one bin per code.

    energy: Σ over bins of the product of both functions' deviations from their means over bins. Each bin is
        weighted by the share of its noise that the fit keeps, also in the means, because the sum over all
        bins is known far better than single bins.
    covariance: the same for deviations from their means over records, each bin weighted by `unlike` of its
        share of the records. scattered: the same as far as it is unknown inside bins, or between them.
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
    """An attribute's codes, and their bins in tables. Binning 0 has one bin per code.

    margin: share of the records at each code, shape (size,). kept: weights of noise in each bin, per binning.
    weights: of bins, see `unlike`, per binning. of_codes: each code's part of the weight of its bin, shape
    (n_binnings, size): of the dependence that n ranges of codes leave unknown inside them, 1/n is left, and
    all inside other bins. of_noise: the weight of each code in a mean over bins by their noise, likewise.
    """

    def __init__(
        self,
        margin: Floats,
        binnings: Sequence[NDArray[np.int32]],
        kept: Sequence[Floats],
        n_binnings: int,
        cycles: Sequence[Cycle] = (),
    ) -> None:
        """binnings: the bin of each code, per binning but the first. n_binnings: columns of the moments."""
        self.margin, self.kept, size = margin, kept, len(margin)
        self.bins: list[NDArray[Any]] = [np.arange(size), *binnings]
        self.weights: list[Floats] = []
        between = []
        self.of_noise, self.of_codes = np.zeros((2, n_binnings, size))
        # For every binning but the first, a column per bin, which averages values per code over the bin.
        self._averages = [np.zeros((size, 0))]
        # Moments of the indicator of each code with itself.
        energy, covariance, scattered = np.zeros((3, size, n_binnings))
        column = margin[:, None]
        for number, (bins, own) in enumerate(zip(self.bins, kept, strict=True)):
            of_bin: Floats = np.bincount(bins, margin).astype(np.float64)
            # In a bin without records, all codes have equal weight.
            even = 1.0 / np.bincount(bins)[bins]
            share = np.divide(margin, of_bin[bins], out=even, where=of_bin[bins] > 0)
            weight, all_noise = unlike(of_bin), max(own.sum(), 1e-300)
            scatter = 1.0 / len(weight) if (np.diff(bins) >= 0).all() else 1.0
            self.weights.append(weight)
            between.append((1.0 - scatter) * weight)
            self.of_noise[number] = share * (own / all_noise)[bins]
            self.of_codes[number] = scatter * share * weight[bins]
            if number:
                self._averages.append(np.zeros((size, len(of_bin))))
                self._averages[-1][np.arange(size), bins] = share
            energy[:, number] = share**2 * own[bins] * (1.0 - own[bins] / all_noise)
            covariance[:, number] = weight[bins] * share * (share - 2.0 * margin) + weight.sum() * margin**2
            scattered[:, number] = (1.0 - scatter) * covariance[:, number]
        self._all_averages = np.concatenate(self._averages, axis=1)
        # Departures of each class of a cycle, by the square roots of the noise that its codes lost.
        of_classes = [np.zeros((size, 0))]
        for bins, lost in cycles:
            inside = np.zeros((size, len(lost)))
            inside[np.arange(len(bins)), bins] = margin[: len(bins)]
            of_classes.append(inside / np.maximum(inside.sum(axis=0), 1e-300) * np.sqrt(lost))
        self._of_classes = np.concatenate(of_classes, axis=1)
        by_noise = self.of_noise[0][:, None] * self._of_classes.sum(axis=0)
        energy[:, 0] += np.square(self._of_classes - by_noise).sum(axis=1)
        scattered += self.of_codes.T * (1.0 - 2.0 * column) + column**2 * self.of_codes.sum(axis=1)
        self._at_codes = Moments(energy, covariance, scattered, np.zeros(size))
        # The weights of noise, of bins and of codes in each binning, shape (n_bins of all, 3 · n_binnings).
        self._binning = np.repeat(np.arange(len(kept)), list(map(len, kept)))
        in_binning, rows = np.zeros((len(self._binning), 3, n_binnings)), np.arange(len(self._binning))
        in_binning[rows, 0, self._binning] = np.concatenate(kept)
        in_binning[rows, 1, self._binning] = np.concatenate(self.weights)
        in_binning[rows, 2, self._binning] = np.concatenate(between)
        in_binning[:size, 2] += self.of_codes.T
        self._in_binning = in_binning.reshape(len(rows), -1)

    def over_bins(self, values: Floats, binning: int) -> Floats:
        """Means over the bins of a binning, (n, size) → (n, n_bins)."""
        return values @ self._averages[binning] if binning else values

    def means_over_bins(self, functions: Functions, binning: int) -> Floats:
        """Means of functions in each bin, shape (n, n_bins)."""
        values = self.over_bins(functions.values, binning)
        if not functions.at_codes:
            return values
        of_codes = self.over_bins(np.eye(len(self.margin)), binning)
        points = functions.values_at_codes.reshape(-1, len(of_codes), 1) * of_codes
        return np.concatenate([values, points.reshape(-1, values.shape[1])])

    def coordinates(self, values: Floats, kind: str, binning: int) -> Floats:
        """Coordinates of functions whose products are their moments, shape (n, n_coordinates).

        kind: `noise`, whose products are energies; `bins`, covariances; `inside`, what is added inside bins.
        """
        of_bins = self.over_bins(values, binning)
        from_mean = of_bins - (values @ self.margin)[:, None]
        if kind == "inside":
            deviations = values - of_bins[:, self.bins[binning]]
            return np.asarray(deviations * np.sqrt(self.of_codes[binning]))
        if kind == "bins":
            return np.asarray(from_mean * np.sqrt(self.weights[binning]))
        from_noise = of_bins - (values @ self.of_noise[binning])[:, None]
        noisy: Floats = from_noise * np.sqrt(self.kept[binning])
        return noisy if binning else np.concatenate([noisy, from_noise @ self._of_classes], axis=1)

    def moments(self, functions: Functions, own: Ints | None, other: Ints | None) -> Moments:
        """Moments of the functions `own`, ascending, with the functions `other`; None for all functions with
        themselves.
        """
        k, size = functions.share.shape
        if own is None or other is None:
            if functions.at_codes and not k:
                return self._at_codes
            own = other = np.arange(len(functions))
        border = int(np.searchsorted(own, k))
        whole = self._of_whole(functions, own[:border], other[:border])
        if border == len(own):
            return whole
        # Functions that are non-zero at a single code are multiples of the indicator of this code.
        one, two = own[border:] - k, other[border:] - k
        code, inside = one % size, np.zeros(len(one))
        if functions.condition is not None:
            rows = np.flatnonzero((one < functions.share.size) & (two < functions.share.size))
            pair = one[rows] // size, two[rows] // size
            cut, spread, spread_two = _inside(functions, *pair, code[rows], self.margin)
            inside[rows] = cut + spread * spread_two
        factor = (functions.values_at_codes[one] * functions.values_at_codes[two])[:, None]
        points = (each[code] * factor for each in self._at_codes[:3])
        return Moments(*map(np.concatenate, zip(whole, (*points, inside), strict=True)))

    def _of_whole(self, functions: Functions, own: Ints, other: Ints) -> Moments:
        """Moments of functions that are non-zero at several codes."""
        n, (n_binnings, size) = len(own), self.of_codes.shape
        energy, covariance, scattered = np.zeros((3, n, n_binnings))
        moments = Moments(energy, covariance, scattered, np.zeros(n))
        step = max(1, MAX_ARRAY_SIZE // len(self._in_binning))
        for start in range(0, n, step):
            rows = slice(start, start + step)
            deviations, noisy = self._deviations(functions.values[own[rows]])
            others, other_noisy = deviations, noisy
            if own is not other:
                others, other_noisy = self._deviations(functions.values[other[rows]])
            moments.energy[rows] = (noisy * other_noisy) @ self._in_binning[:, :n_binnings]
            of_cycles = (each[:, :size] @ self._of_classes for each in (noisy, other_noisy))
            moments.energy[rows, 0] += np.multiply(*of_cycles).sum(axis=1)
            both = (deviations * others) @ self._in_binning[:, n_binnings:]
            moments.covariance[rows], moments.scattered[rows] = both[:, :n_binnings], both[:, n_binnings:]
            if functions.condition is not None:
                one, two = own[rows, None], other[rows, None]
                cut, spread, spread_two = _inside(functions, one, two, np.arange(size), self.margin)
                moments.inside[rows] = cut.sum(axis=1) + spread.sum(axis=1) * spread_two.sum(axis=1)
        return moments

    def _deviations(self, values: Floats) -> tuple[Floats, Floats]:
        """Mean deviations of functions in every bin from their means over records, and from their means by
        noise over the bins of the same binning, shape (n, n_bins) each.
        """
        deviations = values - (values @ self.margin)[:, None]
        of_bins = np.concatenate([deviations, deviations @ self._all_averages], axis=1)
        return of_bins, of_bins - (deviations @ self.of_noise.T)[:, self._binning]


def _inside(
    functions: Functions, own: Ints, other: Ints, code: Ints, margin: Floats
) -> tuple[Floats, Floats, Floats]:
    """The uncertainty of pairs of functions inside the bins of codes, per squared total: from cut bins and,
    for each of the two, from values that differ inside bins.

    If a bin is cut, two functions of the same condition select the same records of it. Functions of different
    conditions may have as few records in common as their shares allow. Records of all bins may lie on the
    same side, for example if values are rounded, so sums over differing values are multiplied.
    """
    assert functions.condition is not None
    share, share_two, weight = functions.share[own, code], functions.share[other, code], margin[code]
    same = functions.condition[own] == functions.condition[other]
    common = np.where(same, np.minimum(share, share_two), np.maximum(share + share_two - 1.0, 0.0))
    cut = (common - share * share_two) * _at_edge(share) * _at_edge(share_two) * weight**2
    spreads = []
    for rows, of_code in ((own, share), (other, share_two)):
        if functions.value is not None:
            cut = cut * functions.value[rows, code]
        spread = 0.0 if functions.spread is None else functions.spread[rows, code]
        spreads.append(of_code * weight * spread)
    return cut, spreads[0], spreads[1]


def _at_edge(share: Floats) -> Floats:
    """Factor on the error of a cut: all records of a bin may lie at an edge, as 0 does in `x > 0`."""
    variance = share * (1.0 - share)
    is_sliver = (variance > 0.0) & (variance <= LEAST_SHARE)
    return np.where(is_sliver, np.sqrt(EDGE_VARIANCE / np.where(is_sliver, variance, 1.0)), 1.0)
