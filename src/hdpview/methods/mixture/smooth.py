"""Remove noise from released tables: post-processing of noisy counts, at no cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpview.jit import numba as nb
from hdpview.methods.mixture.bins import Axis, Bins, sums_over
from hdpview.view.blocks import project_to_simplex

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Share divided among all codes of an attribute, so that no cell is impossible.
LEAST_SHARE = 1e-5
# Option of kernels: lets the compiler sum several numbers at a time, which is up to four times faster.
SUMS_IN_ANY_ORDER = {"reassoc", "contract"}
# Number of spreads tried for noiseless coefficients, from half the smallest noise upwards.
_MOST_SPREADS = 16
_ROUNDS = 30  # of expectation maximisation
_BEFOREHAND = 0.1  # prior number of coefficients with each spread
# Added to sums of probabilities, which may be 0.
_NO_CHANCE = 1e-30
# Smallest variance of a contrast, as a share of a code's: rounding must not make it negative.
_LEAST_VARIANCE = 1e-9
# Histograms of at most this many ordered codes have few contrasts, so they are shrunk together.
_SHORT = 16
# Places of the first cut of a histogram, as shares of its length. Their mean errs 2% to 5% less than one.
_FIRST_CUTS = (0.3, 0.4, 0.5, 0.6, 0.7)
_LONG = 1_000  # Histograms of more ordered codes are cut in the middle alone, which takes less time.
# Number of times counts are scaled to the sums over the classes of each cycle, one cycle after another.
_SCALINGS = 5


@dataclass(frozen=True, eq=False)
class Histogram:
    """Estimates of one attribute's codes.

    counts: estimates per code, shape (size,).
    variance: variance of a code's count, ignoring the more precise sum of its bin.
    bins: the bin of each code, shape (size,); the sums of bins are more precise. covariance: of these sums.
    """

    counts: Floats
    variance: float
    bins: Bins
    covariance: Floats

    def variances_of(self, n: int, contrasts: _Contrasts) -> Floats:
        """Variances of the coefficients of the first n codes."""
        sizes = np.bincount(self.bins).astype(np.float64)
        spread = np.zeros((n, len(sizes)))
        spread[np.arange(n), self.bins[:n]] = 1 / sizes[self.bins[:n]]
        parts = contrasts.forward(spread)
        within = self.variance * (1 - parts**2 @ sizes)
        variances: Floats = within + ((parts @ self.covariance) * parts).sum(axis=1)
        return np.maximum(variances, _LEAST_VARIANCE * self.variance)


def shares_of(axes: Sequence[Axis], known: Sequence[Histogram], total: float) -> list[Floats]:
    """Shares of the codes of every attribute, positive, sum 1, shape (size,) each.

    Contrasts between neighbouring runs of ordered codes are shrunk, and many codes without order towards
    their median: otherwise noise decides which of thousands of values look the most frequent.
    """
    smoothed = [one.counts.copy() for one in known]
    cuts = [_FIRST_CUTS if axis.n_ordered <= _LONG else (0.5,) for axis in axes]
    runs = [(a, cut) for a, axis in enumerate(axes) if axis.n_ordered > 1 for cut in cuts[a]]
    for (a, _), cells in zip(runs, _shrunk(axes, known, runs) if runs else (), strict=True):
        smoothed[a][: len(cells)] += (cells - known[a].counts[: len(cells)]) / len(cuts[a])
    for axis, one, counts in zip(axes, known, smoothed, strict=True):
        if axis.n_ordered == 0 and len(counts) > _SHORT:
            median = np.median(one.counts)
            variance, group = np.full(len(counts), one.variance), np.zeros(len(counts), np.int64)
            counts[:] = median + (counts - median) * kept_shares(counts - median, variance, group)
    positive = [_positive(axis, counts, total) for axis, counts in zip(axes, smoothed, strict=True)]
    return [counts / counts.sum() for counts in positive]


def _positive(axis: Axis, counts: Floats, total: float) -> Floats:
    """Positive counts near the given ones, with the same sums over recurring classes of codes.

    Where most codes have less than noise, clipping at 0 adds to rare classes and takes from common ones.
    """
    positive = project_to_simplex(counts, total) + LEAST_SHARE * total / len(counts)
    ordered = positive[: axis.n_ordered]
    for _ in range(_SCALINGS):
        for bins in reversed(axis.cycles):  # the finest first, so that sums over the others are exact
            sums = project_to_simplex(sums_over(bins, counts[: len(bins)]), float(ordered.sum()))
            ordered *= (np.maximum(sums, LEAST_SHARE * total) / sums_over(bins, ordered))[bins]
    return positive


def _shrunk(
    axes: Sequence[Axis], known: Sequence[Histogram], runs: Sequence[tuple[int, float]]
) -> list[Floats]:
    """Counts of the ordered codes of attributes with shrunk contrasts; `first_cut` places the first cut.

    Contrasts of the same depth are shrunk together; in short histograms, across attributes.
    """
    bases = [_Contrasts(axes[a].n_ordered, cut) for a, cut in runs]
    lengths = [len(basis.level) for basis in bases]
    counts = [known[a].counts[:n] for (a, _), n in zip(runs, lengths, strict=True)]
    flat = np.concatenate([basis.forward(own) for basis, own in zip(bases, counts, strict=True)])
    known_to = zip(runs, lengths, bases, strict=True)
    variance = np.concatenate([known[a].variances_of(n, basis) for (a, _), n, basis in known_to])
    alike = [-1.0 - cut if n <= _SHORT else float(a) for (a, cut), n in zip(runs, lengths, strict=True)]
    level = np.concatenate([basis.level for basis in bases])
    group = np.repeat(np.unique(alike, return_inverse=True)[1], lengths) * (int(level.max()) + 1) + level
    # The sum of all codes is not shrunk: there is no reason to expect a small one.
    contrast, kept = level > 0, np.ones(len(flat))
    kept[contrast] = kept_shares(flat[contrast], variance[contrast], group[contrast])
    parts = zip(
        *(np.split(each, np.cumsum(lengths)[:-1]) for each in (flat * kept, kept, variance)), strict=True
    )
    return [
        _with_cycles(axes[a], own, basis, *part)
        for (a, _), own, basis, part in zip(runs, counts, bases, parts, strict=True)
    ]


def _with_cycles(
    axis: Axis, counts: Floats, basis: _Contrasts, shrunk: Floats, kept: Floats, variance: Floats
) -> Floats:
    """Counts from shrunk contrasts, with the signal of recurring classes added back.

    Sums over all Sundays are precise, but contrasts between runs of days hardly capture them. So the
    differences between counts and shrunk counts are shrunk once more along the cycles.
    """
    smooth = basis.backward(shrunk)
    along, group = axis.cycle_basis
    if len(group):
        noise = variance @ (basis.forward(along) * (1.0 - kept)[:, None]) ** 2
        departures = along.T @ (counts - smooth)
        least = _LEAST_VARIANCE * float(variance.max())
        smooth += along @ (departures * kept_shares(departures, np.maximum(noise, least), group))
    return smooth


def kept_shares(
    coefficients: Floats, variance: Floats, group: Ints, parts: tuple[Ints, Ints] | None = None
) -> Floats:
    """The share of each coefficient that is signal, by empirical Bayes, in the shape of the coefficients.

    The model draws the noiseless coefficients of a group from a mixture of centred normal distributions, with
    spreads from 0 to large. Expectation maximisation estimates the frequency of each spread from the group's
    coefficients; the share is that of the posterior mean.

    group: each coefficient's group, from 0. parts: the part of each group, and the first coefficient of each
    part; each part has spreads of its own. One part by default.
    """
    part_of_group, first = parts or (np.zeros(int(group.max()) + 1, np.int64), np.zeros(1, np.int64))
    # 0, and from half the smallest noise to the largest coefficient in even steps of their logarithm.
    least = 0.5 * np.sqrt(np.minimum.reduceat(variance, first))
    most = np.maximum(np.maximum.reduceat(np.abs(coefficients), first), 4.0 * least)
    n_steps = np.minimum(_MOST_SPREADS - 1, np.ceil(np.log2(most / least)) + 1)[:, None]
    step = np.arange(_MOST_SPREADS) - 1.0
    spread = least[:, None] * (most / least)[:, None] ** (step / (n_steps - 1))
    spread = np.where(step < 0, 0.0, np.where(step < n_steps, spread, -1.0))[part_of_group]
    before = (spread >= 0).astype(np.float32)
    kept: Floats = _kept(coefficients, variance, group, spread, before, _ROUNDS, _BEFOREHAND)
    return kept


@nb.njit(cache=True, nogil=True, fastmath=SUMS_IN_ANY_ORDER)
def _kept(coefficients, variance, group, spread, before, rounds, beforehand):  # type: ignore[no-untyped-def]
    """spread: one row a group, padded with -1. before: 1 for each spread that is there.

    Plain loops: numba takes six times as long to compile expressions over arrays, and a first build waits.
    """
    n, n_spreads = len(coefficients), spread.shape[1]
    density = np.zeros((n, n_spreads), np.float32)
    logs = np.empty(n_spreads)
    for i in range(n):
        spreads, most = spread[group[i]], -np.inf
        for k in range(n_spreads):
            if spreads[k] >= 0:
                widened = variance[i] + spreads[k] ** 2
                logs[k] = -0.5 * (coefficients[i] ** 2 / widened + math.log(widened))
                most = max(most, logs[k])
        for k in range(n_spreads):
            if spreads[k] >= 0:
                density[i, k] = math.exp(logs[k] - most)
    common, learnt = before.copy(), np.empty_like(before)
    chance = np.empty(n_spreads, np.float32)
    for _ in range(rounds):
        for g in range(len(before)):
            for k in range(n_spreads):
                learnt[g, k] = before[g, k] * np.float32(beforehand)
        for i in range(n):
            g, total = group[i], np.float32(_NO_CHANCE)
            for k in range(n_spreads):
                chance[k] = density[i, k] * common[g, k]
                total += chance[k]
            for k in range(n_spreads):
                learnt[g, k] += chance[k] / total
        for g in range(len(before)):
            total = np.float32(0.0)
            for k in range(n_spreads):
                total += learnt[g, k]
            for k in range(n_spreads):
                common[g, k] = learnt[g, k] / total
    kept = np.empty(n)
    for i in range(n):
        g, likely, signal = group[i], _NO_CHANCE, 0.0
        for k in range(n_spreads):
            here = density[i, k] * common[g, k]
            likely += here
            signal += here * spread[g, k] ** 2 / (variance[i] + spread[g, k] ** 2)
        kept[i] = signal / likely
    return kept


class Shrinkage:
    """Shrinks departures from a model, for all tables of a release at once.

    Along the row of an axis, departures are transformed into contrasts between halves of runs (an orthonormal
    basis, so that noise is equal in all of them). Bins outside the row stay as they are: they have no
    neighbours. Coefficients of runs of the same lengths in the same table are shrunk together.
    """

    def __init__(
        self, n_in_row: Sequence[Sequence[int]], shapes: Sequence[Sequence[int]], variances: Sequence[float]
    ) -> None:
        """Per table: number of bins in the row of each axis, which come first; all bins; variance of a
        cell's noise.
        """
        bases: dict[int, _Contrasts] = {}
        groups, axes, n_groups, table_of_group = [], [], 0, []
        sizes = [math.prod(shape) for shape in shapes]
        for number, (in_row, shape) in enumerate(zip(n_in_row, shapes, strict=True)):
            group = np.zeros((), np.int64)
            for i, (n, size) in enumerate(zip(in_row, shape, strict=True)):
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
        self._variance = np.repeat(np.array(variances, np.float64), sizes)
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
        """Shrunk departures of all cells of all tables, one table after the other, each in C order."""
        coefficients = departures.copy()
        _transform(coefficients, self._axes, self._bases, False)
        parts = self._table_of_group, self._first
        coefficients *= kept_shares(coefficients, self._variance, self._group, parts)
        _transform(coefficients, self._axes, self._bases, True)
        return coefficients


@nb.njit(cache=True, nogil=True)
def _transform(cells, axes, bases, backward):  # type: ignore[no-untyped-def]
    """Transform cells to coefficients along each axis, or back, in place."""
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
    Uses running sums along the first axis, which is fast even for 65,536 codes.

    level: shape (n,), level of each coefficient: 0 for the mean, else the depth of its run.
    """

    def __init__(self, n: int, first_cut: float = 0.5) -> None:
        """first_cut: place of the first cut, as a share of the number of codes."""
        self._n = n
        # Each run: its first code, the code it is cut before, the code after its last, and its depth.
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
        left = (self._left * (sums[self._middle] - sums[self._start]).T).T
        right = (self._right * (sums[self._stop] - sums[self._middle]).T).T
        return np.concatenate([sums[-1:] / math.sqrt(self._n), left - right])

    def backward(self, coefficients: Floats) -> Floats:
        """The cells with these coefficients."""
        steps = np.zeros((self._n + 1, *coefficients.shape[1:]))
        left, right = ((side * coefficients[1:].T).T for side in (self._left, self._right))
        np.add.at(steps, self._start, left)
        np.add.at(steps, self._middle, -left - right)
        np.add.at(steps, self._stop, right)
        cells: Floats = np.cumsum(steps, axis=0)[:-1] + coefficients[0] / math.sqrt(self._n)
        return cells
