"""Noise taken off released tables. Nothing here sees a record: it works on noisy counts, and costs no
budget.
"""

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
# Standard deviations from which on a coefficient of a table is taken for real by itself, and the variance
# that noise has below, as a share of all.
_STRONG, _NOISE_OF_WEAK = 3.0, 0.95
# Degrees of freedom that are not shrunk in each group of a table: James and Stein's 2. Histograms are shrunk
# by all, because most of their contrasts are none where records lie at few codes.
_FREE_OF_TABLE, _FREE_OF_HISTOGRAM = 2, 0


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
        found: Floats = np.maximum(within + ((parts @ self.covariance) * parts).sum(axis=1), 0.0)
        return found


def shares_of(axis: Axis, known: Histogram, total: float) -> Floats:
    """Shares of an attribute's codes, positive, sum 1, shape (size,).

    Contrasts between neighbouring runs of ordered codes are shrunk; other codes stay as they are.
    """
    n = axis.n_ordered
    counts = known.counts.copy()
    if n > 1:
        even = counts[:n].mean()
        variances = known.variances_of(n, _Contrasts(n, n))
        counts[:n] = even + Shrinkage([n], (n,), variances, _FREE_OF_HISTOGRAM)(counts[:n] - even)
    positive = project_to_simplex(counts, total) + LEAST_SHARE * total
    shares: Floats = positive / positive.sum()
    return shares


class Shrinkage:
    """What of a table's departures from a model is more than noise, for tables of one shape and noise.

    Departures are taken apart along every ordered axis into contrasts between halves of runs (an orthonormal
    basis, so that noise is the same in all of them). Those that stand out by themselves are kept but for what
    noise explains of them; the others of the same lengths of runs are shrunk alike (James and Stein). Along
    other axes nothing is taken apart: their codes have no neighbours.
    """

    def __init__(
        self,
        n_ordered: Sequence[int],
        shape: tuple[int, ...],
        variance: float | Floats,
        free: int = _FREE_OF_TABLE,
    ) -> None:
        """n_ordered: number of ordered bins of each axis, from the first on. variance: of the noise of the
        coefficients, which is that of the cells where they all have the same. free: coefficients of each
        group that noise is not taken off.
        """
        self._free = free
        self._axes = [_Contrasts(n, size) for n, size in zip(n_ordered, shape, strict=True)]
        group = np.zeros((), np.int64)
        for axis in self._axes:
            group = group[..., None] * (int(axis.level.max()) + 1) + axis.level
        self._group = np.unique(group, return_inverse=True)[1].reshape(-1)
        self._variance = np.broadcast_to(np.asarray(variance, np.float64), shape).reshape(-1)

    def __call__(self, departures: Floats) -> Floats:
        """Any table of the given shape to another of it."""
        coefficients = departures
        for i, axis in enumerate(self._axes):
            coefficients = axis.forward(coefficients, i)
        flat = coefficients.reshape(-1)
        squares = flat**2
        weak = squares <= _STRONG**2 * self._variance
        n = np.bincount(self._group, weak)
        beyond = np.maximum(0.0, n - self._free) / np.maximum(n, 1)
        noise = _NOISE_OF_WEAK * beyond * np.bincount(self._group, self._variance * weak)
        energy = np.bincount(self._group, squares * weak)
        believed = np.maximum(0.0, 1.0 - noise / np.maximum(energy, 1e-300))[self._group]
        kept = flat * np.where(weak, believed, 1.0 - self._variance / np.maximum(squares, 1e-300))
        cells = kept.reshape(departures.shape)
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

    def __init__(self, n_ordered: int, size: int) -> None:
        self._n = n = n_ordered if n_ordered > 1 else 0
        runs = [(0, n, 1)] if n else []
        for first, last, at in runs:
            half = (first + last + 1) // 2
            runs += [run for run in ((first, half, at + 1), (half, last, at + 1)) if run[1] - run[0] > 1]
        start, stop, depth = np.array(runs, np.int64).reshape(-1, 3).T
        middle = (start + stop + 1) // 2
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
