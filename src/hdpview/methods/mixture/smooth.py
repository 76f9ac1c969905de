"""Noise taken off released tables: post-processing of noisy counts, at no cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpview.jit import numba as nb
from hdpview.methods.mixture.bins import Axis, Bins
from hdpview.view.blocks import project_to_simplex

Floats = NDArray[np.float64]

# Share of every code, so that no cell is impossible.
LEAST_SHARE = 1e-6
# Spreads that coefficients may have without noise: this many at most, from half the least noise upwards.
_MOST_SPREADS = 14
# How often spreads and coefficients learn from each other, and coefficients that every spread has beforehand.
_ROUNDS, _BEFOREHAND = 30, 0.1
# Added to sums of chances that may be 0.
_NO_CHANCE = 1e-30
# Of a contrast, as a share of a code's: rounding must not make it negative.
_LEAST_VARIANCE = 1e-9
# Histograms of so few ordered codes have too few contrasts to learn from, so all of them learn together, and
# the place of the first cut decides too much, so what is kept is the mean over several: shares of the length.
_SHORT, _MIDDLE, _FIRST_CUTS = 16, 0.5, (0.3, 0.4, 0.5, 0.6, 0.7)
# Codes that a class of a cycle has on average at least: sums over fewer have no less noise than ranges.
_CODES_PER_CLASS = 8
# Length of a class's indicator beyond those before it; less is what they say already, up to rounding.
_NEW_DIRECTION = 1e-6


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
        parts = contrasts.forward(spread)
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
    bases = [_Contrasts(axes[a].n_ordered, cut) for a in attributes]
    coefficients = [
        basis.forward(known[a].counts[: len(basis.level)]) for a, basis in zip(attributes, bases, strict=True)
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
    contrast, kept = level > 0, np.ones(len(flat))
    kept[contrast] = kept_shares(flat[contrast], variance[contrast], group[contrast])
    ends = np.cumsum(lengths)[:-1]
    split = zip(attributes, bases, *(np.split(each, ends) for each in (flat, kept, variance)), strict=True)
    return [
        _with_cycles(axes[a].cycles, known[a].counts[: len(own)], basis, own * share, share, noise)
        for a, basis, own, share, noise in split
    ]


def _with_cycles(
    cycles: Sequence[Bins],
    counts: Floats,
    contrasts: _Contrasts,
    shrunk: Floats,
    kept: Floats,
    variance: Floats,
) -> Floats:
    """Counts from shrunk contrasts, with what shrinkage took from classes of codes that recur.

    Sums over all Sundays are known well, but runs of days hardly show them. So departures of the counts from
    the shrunk ones are shrunk once more along the cycles, as far as they are noise that was not yet kept.
    """
    smooth = contrasts.backward(shrunk)
    basis, group = _cycle_basis([bins for bins in cycles if len(bins) >= _CODES_PER_CLASS * (bins.max() + 1)])
    if not len(group):
        return smooth
    noise = (contrasts.forward(basis) * (1.0 - kept)[:, None]) ** 2
    least = _LEAST_VARIANCE * float(variance.max())
    departures = basis.T @ (counts - smooth)
    smooth += basis @ (departures * kept_shares(departures, np.maximum(variance @ noise, least), group))
    return smooth


def _cycle_basis(cycles: Sequence[Bins]) -> tuple[Floats, NDArray[np.int64]]:
    """An orthonormal basis of what differs between classes, shape (n, n_differences), and each one's cycle."""
    if not cycles:
        return np.zeros((0, 0)), np.zeros(0, np.int64)
    members = [(bins[:, None] == np.unique(bins)[1:]).astype(np.float64) for bins in cycles]
    basis, triangle = np.linalg.qr(np.concatenate([np.ones((len(cycles[0]), 1)), *members], axis=1))
    new = np.abs(np.diag(triangle)) > _NEW_DIRECTION
    new[0] = False  # the sum of all codes
    group = np.repeat(np.arange(len(members)), [own.shape[1] for own in members])
    return basis[:, new], np.unique(group[new[1:]], return_inverse=True)[1]


def kept_shares(coefficients: Floats, variance: Floats, group: NDArray[np.int64]) -> Floats:
    """What share of each coefficient is more than noise: empirical Bayes, shape as given.

    Without noise the coefficients of a group are drawn from a mixture of normal distributions around 0 with
    spreads from none to large. How common each spread is, the group's own coefficients tell (expectation
    maximisation); the share is that of the posterior mean.

    group: numbers from 0 on, of coefficients that have this in common.
    """
    spread = np.full((1, _MOST_SPREADS), -1.0)
    own = _spreads(float(np.abs(coefficients).max()), float(variance.min()))
    spread[0, : len(own)] = own
    of_groups = np.zeros(int(group.max()) + 1, np.int64)
    kept: Floats = _kept(coefficients, variance, group, of_groups, spread, _ROUNDS, _BEFOREHAND)
    return kept


@nb.njit(cache=True, nogil=True)
def _kept(coefficients, variance, group, spreads_of, spread, rounds, beforehand):  # type: ignore[no-untyped-def]
    """spread: a row for all groups that have it in `spreads_of`, filled up with -1."""
    n, n_spreads = len(coefficients), spread.shape[1]
    density = np.empty((n, n_spreads), np.float32)
    for i in range(n):
        own = spread[spreads_of[group[i]]]
        widened = variance[i] + own**2
        logs = np.where(own >= 0, -0.5 * (coefficients[i] ** 2 / widened + np.log(widened)), -np.inf)
        density[i] = np.exp(logs - logs.max())
    before = (spread[spreads_of] >= 0).astype(np.float32)
    common = before.copy()
    chance = np.empty(n_spreads, np.float32)
    for _ in range(rounds):
        learnt = before * np.float32(beforehand)
        for i in range(n):
            g, total = group[i], np.float32(_NO_CHANCE)
            for k in range(n_spreads):
                chance[k] = density[i, k] * common[g, k]
                total += chance[k]
            for k in range(n_spreads):
                learnt[g, k] += chance[k] / total
        for g in range(len(common)):
            common[g] = learnt[g] / learnt[g].sum()
    kept = np.empty(n)
    for i in range(n):
        own, likely = spread[spreads_of[group[i]]], density[i] * common[group[i]]
        kept[i] = (likely * (own**2 / (variance[i] + own**2))).sum() / max(likely.sum(), _NO_CHANCE)
    return kept


def _spreads(greatest: float, least_variance: float) -> Floats:
    """None, and from half the least noise to the greatest coefficient in even steps of their logarithm."""
    least = 0.5 * math.sqrt(least_variance)
    most = max(greatest, 4.0 * least)
    steps = min(_MOST_SPREADS - 1, math.ceil(math.log2(most / least)) + 1)
    return np.concatenate([[0.0], np.geomspace(least, most, steps)])


class Shrinkage:
    """What of departures from a model is more than noise, for all tables of a release at once.

    Departures are taken apart along every ordered axis into contrasts between halves of runs (an orthonormal
    basis, so that noise is the same in all of them). Along other axes nothing is taken apart: their codes
    have no neighbours. Coefficients of the same lengths of runs in the same table are shrunk by what they
    tell of each other.
    """

    def __init__(
        self,
        n_ordered: Sequence[Sequence[int]],
        shapes: Sequence[tuple[int, ...]],
        variances: Sequence[float],
    ) -> None:
        """Per table: ordered bins of each axis, from the first on; bins of each axis; variance of a cell's
        noise.
        """
        bases: dict[int, _Contrasts] = {}
        groups, axes, n_groups, table_of_group = [], [], 0, []
        sizes = [math.prod(shape) for shape in shapes]
        for number, (ordered, shape) in enumerate(zip(n_ordered, shapes, strict=True)):
            group = np.zeros((), np.int64)
            for i, (n, size) in enumerate(zip(ordered, shape, strict=True)):
                level = np.zeros(size, np.int64)
                if n > 1:
                    level[:n] = bases.setdefault(n, _Contrasts(n)).level
                    axes.append((number, math.prod(shape[:i]), size, math.prod(shape[i + 1 :]), n))
                group = group[..., None] * (int(level.max()) + 1) + level
            numbers, which = np.unique(group, return_inverse=True)
            groups.append(n_groups + which.reshape(-1))
            table_of_group += [number] * len(numbers)
            n_groups += len(numbers)
        self._group, self._table_of_group = np.concatenate(groups), np.array(table_of_group)
        self._variances = np.array(variances, np.float64)
        self._variance = np.repeat(self._variances, sizes)
        self._first = np.cumsum([0, *sizes[:-1]])
        starts, parts, at = {}, [], 0
        for n, basis in bases.items():
            starts[n] = at
            parts.append(basis.forward(np.eye(n)).reshape(-1))
            at += n * n
        self._bases = np.concatenate(parts) if parts else np.zeros(0)
        self._axes = np.array(
            [(self._first[t], before, size, after, n, starts[n]) for t, before, size, after, n in axes],
            np.int64,
        ).reshape(-1, 6)

    def __call__(self, departures: Floats) -> Floats:
        """Departures of all cells of all tables, one table after the other, each in C order."""
        coefficients = departures.copy()
        _transform(coefficients, self._axes, self._bases, False)
        greatest = np.maximum.reduceat(np.abs(coefficients), self._first)
        spread = np.full((len(greatest), _MOST_SPREADS), -1.0)
        for t, (most, variance) in enumerate(zip(greatest.tolist(), self._variances.tolist(), strict=True)):
            own = _spreads(most, variance)
            spread[t, : len(own)] = own
        coefficients *= _kept(
            coefficients, self._variance, self._group, self._table_of_group, spread, _ROUNDS, _BEFOREHAND
        )
        _transform(coefficients, self._axes, self._bases, True)
        return coefficients


@nb.njit(cache=True, nogil=True)
def _transform(cells, axes, bases, backward):  # type: ignore[no-untyped-def]
    """To coefficients along each axis, or back, in place."""
    for j in range(len(axes)):
        first, before, size, after, n, start = axes[j]
        for outer in range(before):
            at = first + outer * size * after
            changed = np.zeros((n, after))
            for i in range(n):
                for k in range(n):
                    factor = bases[start + k * n + i] if backward else bases[start + i * n + k]
                    if factor != 0:
                        for inner in range(after):
                            changed[i, inner] += factor * cells[at + k * after + inner]
            for i in range(n):
                for inner in range(after):
                    cells[at + i * after + inner] = changed[i, inner]


class _Contrasts:
    """An orthonormal basis for n > 1 ordered codes: their mean, and contrasts between halves of runs of them.
    Works by running sums along the first axis, so that 65,536 codes are no trouble.

    level: shape (n,), of each coefficient: 0 for the mean, else the depth of a run.
    """

    def __init__(self, n: int, first_cut: float = _MIDDLE) -> None:
        """first_cut: where all codes are cut in two, as a share of their number."""
        self._n = n
        # Of each run the first code, the one that it is cut before, the one after the last, and the depth.
        runs = [(0, min(max(1, math.ceil(n * first_cut)), n - 1), n, 1)]
        for first, cut, last, at in runs:
            halves = ((first, cut), (cut, last))
            runs += [(a, (a + b + 1) // 2, b, at + 1) for a, b in halves if b - a > 1]
        start, middle, stop, depth = np.array(runs, np.int64).T
        left, right = middle - start, stop - middle
        self._start, self._middle, self._stop = start, middle, stop
        self._left = np.sqrt(right / (left * (left + right)))
        self._right = np.sqrt(left / (right * (left + right)))
        self.level = np.concatenate([[0], depth])

    def forward(self, cells: Floats) -> Floats:
        """Coefficients along the first axis."""
        sums = np.concatenate([np.zeros((1, *cells.shape[1:])), np.cumsum(cells, axis=0)])
        left = _times(self._left, sums[self._middle] - sums[self._start])
        right = _times(self._right, sums[self._stop] - sums[self._middle])
        return np.concatenate([sums[-1:] / math.sqrt(self._n), left - right])

    def backward(self, coefficients: Floats) -> Floats:
        """The cells of which these are the coefficients."""
        steps = np.zeros((self._n + 1, *coefficients.shape[1:]))
        left, right = _times(self._left, coefficients[1:]), _times(self._right, coefficients[1:])
        np.add.at(steps, self._start, left)
        np.add.at(steps, self._middle, -left - right)
        np.add.at(steps, self._stop, right)
        cells: Floats = np.cumsum(steps, axis=0)[:-1] + coefficients[0] / math.sqrt(self._n)
        return cells


def _times(factors: Floats, rows: Floats) -> Floats:
    """Each row times its factor."""
    products: Floats = factors.reshape(-1, *[1] * (rows.ndim - 1)) * rows
    return products
