"""Noise taken off released tables: post-processing of noisy counts, at no cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpview.methods.mixture.bins import Axis, Bins
from hdpview.view.blocks import project_to_simplex

Floats = NDArray[np.float64]

# Share of every code, so that no cell is impossible.
LEAST_SHARE = 1e-6
# Spreads that coefficients may have without noise: this many at most, from half the least noise upwards.
_MOST_SPREADS = 14
# How often spreads and coefficients learn from each other, and coefficients that every spread has beforehand.
_ROUNDS, _BEFOREHAND = 30, 0.1
# Of a contrast, as a share of a code's: rounding must not make it negative.
_LEAST_VARIANCE = 1e-9
# Histograms of so few ordered codes have too few contrasts to learn from, so all of them learn together, and
# the place of the first cut decides too much, so what is kept is the mean over several: shares of the length.
_SHORT, _MIDDLE, _FIRST_CUTS = 16, 0.5, (0.3, 0.4, 0.5, 0.6, 0.7)


@dataclass(frozen=True, eq=False)
class Histogram:
    """What is known of one attribute's codes.

    counts: estimates per code, shape (size,).
    variance: of a code's count, if the sum of its bin were not known better.
    bins: of codes whose sums are known better, shape (size,). covariance: of these sums.
    """

    counts: Floats
    variance: float
    bins: Bins
    covariance: Floats

    def variances_of(self, n: int, contrasts: _Contrasts) -> Floats:
        """Of the coefficients of the first n codes."""
        sizes = np.bincount(self.bins).astype(np.float64)
        spread = np.zeros((n, len(sizes)))
        spread[np.arange(n), self.bins[:n]] = 1 / sizes[self.bins[:n]]
        parts = contrasts.forward(spread, 0)
        within = self.variance * (1 - parts**2 @ sizes)
        found: Floats = within + ((parts @ self.covariance) * parts).sum(axis=1)
        return np.maximum(found, _LEAST_VARIANCE * self.variance)


def shares_of(axes: Sequence[Axis], known: Sequence[Histogram], total: float) -> list[Floats]:
    """Shares of the codes of every attribute, positive, sum 1, shape (size,) each.

    Contrasts between neighbouring runs of ordered codes are shrunk; other codes stay as they are.
    """
    smoothed = [one.counts.copy() for one in known]
    ordered = [a for a, axis in enumerate(axes) if axis.n_ordered > 1]
    cuts = {a: _FIRST_CUTS if axes[a].n_ordered <= _SHORT else (_MIDDLE,) for a in ordered}
    for a in ordered:
        smoothed[a][: axes[a].n_ordered] = 0.0
    for cut in _FIRST_CUTS:
        cut_here = [a for a in ordered if cut in cuts[a]]
        for a, runs in zip(cut_here, _shrunk_together(axes, known, cut_here, cut), strict=True):
            smoothed[a][: len(runs)] += runs / len(cuts[a])
    shares = []
    for counts in smoothed:
        positive = project_to_simplex(counts, total) + LEAST_SHARE * total
        shares.append(positive / positive.sum())
    return shares


def _shrunk_together(
    axes: Sequence[Axis], known: Sequence[Histogram], attributes: Sequence[int], cut: float
) -> list[Floats]:
    """Counts of the ordered codes of these attributes, their contrasts shrunk.

    Contrasts of the same depth tell of each other what to expect; those of short histograms across
    attributes.
    """
    if not attributes:
        return []
    bases = [_Contrasts(axes[a].n_ordered, axes[a].n_ordered, cut) for a in attributes]
    coefficients = [
        basis.forward(known[a].counts[: len(basis.level)], 0)
        for a, basis in zip(attributes, bases, strict=True)
    ]
    variances = [
        known[a].variances_of(len(basis.level), basis) for a, basis in zip(attributes, bases, strict=True)
    ]
    level = np.concatenate([basis.level for basis in bases])
    lengths = np.array([len(basis.level) for basis in bases])
    own = np.repeat(np.where(lengths <= _SHORT, 0, 1 + np.arange(len(bases))), lengths)
    group = own * (int(level.max()) + 1) + level
    flat, variance = np.concatenate(coefficients), np.concatenate(variances)
    # The sum of all codes is not shrunk: nothing says that it is small.
    contrast = level > 0
    flat[contrast] *= kept_shares(flat[contrast], variance[contrast], group[contrast])
    ends = np.cumsum(lengths)[:-1]
    return [basis.backward(part, 0) for basis, part in zip(bases, np.split(flat, ends), strict=True)]


def kept_shares(coefficients: Floats, variance: Floats, group: NDArray[np.int64]) -> Floats:
    """What share of each coefficient is more than noise: empirical Bayes, shape as given.

    Without noise the coefficients of a group are drawn from a mixture of normal distributions around 0 with
    spreads from none to large. How common each spread is, the group's own coefficients tell (expectation
    maximisation); the share is that of the posterior mean.

    group: numbers from 0 on, of coefficients that have this in common.
    """
    spread = _spreads(coefficients, variance)
    widened = variance[:, None] + spread**2
    log_density = -0.5 * (coefficients[:, None] ** 2 / widened + np.log(widened))
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    order = np.argsort(group, kind="stable")
    of_group = group[order]
    numbers, first, which = np.unique(of_group, return_index=True, return_inverse=True)
    density, common = density[order], np.full((len(numbers), len(spread)), 1 / len(spread))
    for _ in range(_ROUNDS):
        chance = density * common[which]
        chance /= chance.sum(axis=1, keepdims=True)
        common = np.add.reduceat(chance, first, axis=0) + _BEFOREHAND
        common /= common.sum(axis=1, keepdims=True)
    chance = density * common[which]
    chance /= chance.sum(axis=1, keepdims=True)
    kept = np.empty(len(coefficients))
    kept[order] = (chance * (spread**2 / widened[order])).sum(axis=1)
    return kept


def _spreads(coefficients: Floats, variance: Floats) -> Floats:
    """None, and from half the least noise to the greatest coefficient in even steps of their logarithm."""
    least = 0.5 * math.sqrt(float(variance.min()))
    most = max(float(np.abs(coefficients).max()), 4.0 * least)
    steps = min(_MOST_SPREADS - 1, math.ceil(math.log2(most / least)) + 1)
    return np.concatenate([[0.0], np.geomspace(least, most, steps)])


class Shrinkage:
    """What of a table's departures from a model is more than noise, for tables of one shape and noise.

    Departures are taken apart along every ordered axis into contrasts between halves of runs (an orthonormal
    basis, so that noise is the same in all of them). Along other axes nothing is taken apart: their codes
    have no neighbours. Coefficients of the same lengths of runs are shrunk by what they tell of each other.
    """

    def __init__(self, n_ordered: Sequence[int], shape: tuple[int, ...], variance: float) -> None:
        """n_ordered: ordered bins of each axis, from the first on. variance: of a cell's noise."""
        self._axes = [_Contrasts(n, size) for n, size in zip(n_ordered, shape, strict=True)]
        group = np.zeros((), np.int64)
        for axis in self._axes:
            group = group[..., None] * (int(axis.level.max()) + 1) + axis.level
        self._group, self._variance = group.reshape(-1), np.full(group.size, variance)

    def __call__(self, departures: Floats) -> Floats:
        """Any table of the given shape to another of it."""
        coefficients = departures
        for i, axis in enumerate(self._axes):
            coefficients = axis.forward(coefficients, i)
        flat = coefficients.reshape(-1)
        cells = (flat * kept_shares(flat, self._variance, self._group)).reshape(departures.shape)
        for i, axis in enumerate(self._axes):
            cells = axis.backward(cells, i)
        return cells


class _Contrasts:
    """An orthonormal basis along one axis: the mean of the ordered bins, contrasts between halves of runs of
    them, and the other bins as they are. Works by running sums, so that an axis of 65,536 codes is no
    trouble.

    level: shape (size,), of each coefficient: 0 for the mean and for bins without order, else the depth of a
        run.
    """

    def __init__(self, n_ordered: int, size: int, first_cut: float = _MIDDLE) -> None:
        """first_cut: where all ordered bins are cut in two, as a share of their number."""
        self._n = n = n_ordered if n_ordered > 1 else 0
        # Of each run the first code, the one that it is cut before, the one after the last, and the depth.
        runs = [(0, min(max(1, math.ceil(n * first_cut)), n - 1), n, 1)] if n else []
        for first, cut, last, at in runs:
            halves = ((first, cut), (cut, last))
            runs += [(a, (a + b + 1) // 2, b, at + 1) for a, b in halves if b - a > 1]
        start, middle, stop, depth = np.array(runs, np.int64).reshape(-1, 4).T
        left, right = middle - start, stop - middle
        self._start, self._middle, self._stop = start, middle, stop
        self._left = np.sqrt(right / np.maximum(left * (left + right), 1))
        self._right = np.sqrt(left / np.maximum(right * (left + right), 1))
        self.level = np.concatenate([np.zeros(size - len(depth), np.int64), depth])

    def forward(self, table: Floats, axis: int) -> Floats:
        """Coefficients along an axis."""
        cells, n = np.moveaxis(table, axis, 0), self._n
        if not n:
            return table
        sums = np.concatenate([np.zeros((1, *cells.shape[1:])), np.cumsum(cells[:n], axis=0)])
        left = _times(self._left, sums[self._middle] - sums[self._start])
        right = _times(self._right, sums[self._stop] - sums[self._middle])
        mean = sums[n : n + 1] / math.sqrt(n)
        return np.moveaxis(np.concatenate([mean, cells[n:], left - right]), 0, axis)

    def backward(self, coefficients: Floats, axis: int) -> Floats:
        """The cells of which these are the coefficients."""
        given, n = np.moveaxis(coefficients, axis, 0), self._n
        if not n:
            return coefficients
        n_plain = len(given) - len(self._start)
        contrasts, steps = given[n_plain:], np.zeros((n + 1, *given.shape[1:]))
        left, right = _times(self._left, contrasts), _times(self._right, contrasts)
        np.add.at(steps, self._start, left)
        np.add.at(steps, self._middle, -left - right)
        np.add.at(steps, self._stop, right)
        cells = np.cumsum(steps, axis=0)[:n] + given[0] / math.sqrt(n)
        return np.moveaxis(np.concatenate([cells, given[1:n_plain]]), 0, axis)


def _times(factors: Floats, rows: Floats) -> Floats:
    """Each row times its factor."""
    found: Floats = factors.reshape(-1, *[1] * (rows.ndim - 1)) * rows
    return found
