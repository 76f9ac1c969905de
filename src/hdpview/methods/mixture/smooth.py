"""Noise taken off released tables. Nothing here sees a record: it works on noisy counts, and costs no budget."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hdpview.methods.mixture.bins import Axis
from hdpview.view.blocks import project_to_simplex

Floats = NDArray[np.float64]

# Share of every code, so that no cell is impossible.
LEAST_SHARE = 1e-6
# Standard deviations from which on a departure is taken for real, and how much of it is kept at least.
_STRONG, _KEPT = 2.5, 0.85
# For one attribute: contrasts beyond so many standard deviations are kept by so much at least, others by half.
_STRONG_CONTRAST, _KEPT_CONTRAST, _DOUBTED = 2.0, 0.8, 0.5


def shares_of(axis: Axis, noisy: Floats, variances: Floats, total: float) -> Floats:
    """Shares of an attribute's codes from a noisy histogram, positive, sum 1, shape (size,).

    Contrasts between neighbouring runs of ordered codes are shrunk; other codes stay as they are.
    """
    n = axis.n_ordered
    counts = noisy.copy()
    if n:
        counts[:n] = _smoothed_runs(noisy[:n], variances[:n])
    positive = project_to_simplex(counts, total) + LEAST_SHARE * total
    shares: Floats = positive / positive.sum()
    return shares


def _smoothed_runs(noisy: Floats, variances: Floats) -> Floats:
    """Contrasts between halves of runs of 1, 2, 4, … codes, those of each length shrunk alike (James and Stein)."""
    size = 1 << max(0, len(noisy) - 1).bit_length()
    even = noisy.mean()
    sums, variance = np.zeros(size), np.zeros(size)
    sums[: len(noisy)], variance[: len(noisy)] = noisy - even, variances
    contrasts = []
    while len(sums) > 1:
        contrasts.append(_shrunk((sums[0::2] - sums[1::2]) / 2, (variance[0::2] + variance[1::2]) / 4))
        sums, variance = sums[0::2] + sums[1::2], variance[0::2] + variance[1::2]
    departures = sums
    for contrast in reversed(contrasts):
        departures = np.stack([departures / 2 + contrast, departures / 2 - contrast], axis=1).reshape(-1)
    smoothed: Floats = even + departures[: len(noisy)]
    return smoothed


def _shrunk(contrasts: Floats, variances: Floats) -> Floats:
    believed = max(0.0, 1.0 - float(variances.sum()) / max(float((contrasts**2).sum()), 1e-300))
    strong = np.abs(contrasts) > _STRONG_CONTRAST * np.sqrt(variances)
    return contrasts * np.where(strong, max(believed, _KEPT_CONTRAST), _DOUBTED * believed)


class Shrinkage:
    """What of a table's departures from a model is more than noise, for tables of one shape and noise.

    Departures are taken apart along every ordered axis into contrasts between halves of runs (an orthonormal
    basis, so that noise is the same in all of them). Coefficients of the same lengths of runs are shrunk alike;
    single ones that stand out are kept. Along other axes nothing is taken apart: their codes have no neighbours.
    """

    def __init__(self, n_ordered: Sequence[int], shape: tuple[int, ...], variance: float) -> None:
        """n_ordered: number of ordered bins of each axis, from the first on. variance: of the noise of a cell."""
        self._variance = variance
        self._bases, group = [], np.zeros((), np.int64)
        for n, size in zip(n_ordered, shape, strict=True):
            basis, level = _haar_basis(n, size)
            self._bases.append(basis)
            group = group[..., None] * (int(level.max()) + 1) + level
        self._group = np.unique(group, return_inverse=True)[1].reshape(-1)
        self._noise = variance * np.bincount(self._group)

    def __call__(self, departures: Floats) -> Floats:
        """Any shape of the given table to the same."""
        coefficients = _along_axes(self._bases, departures)
        flat = coefficients.reshape(-1)
        energy = np.bincount(self._group, flat**2)
        believed = np.maximum(0.0, 1.0 - self._noise / np.maximum(energy, 1e-300))[self._group]
        strong = np.abs(flat) > _STRONG * math.sqrt(self._variance)
        kept = flat * np.where(strong, np.maximum(believed, _KEPT), believed)
        return _along_axes([basis.T for basis in self._bases], kept.reshape(departures.shape))


def _along_axes(matrices: Sequence[Floats], table: Floats) -> Floats:
    """Each matrix applied along its axis of the table."""
    for axis, matrix in enumerate(matrices):
        table = np.moveaxis(np.tensordot(matrix, table, axes=(1, axis)), 0, axis)
    return np.ascontiguousarray(table)


def _haar_basis(n_ordered: int, size: int) -> tuple[Floats, NDArray[np.int64]]:
    """An orthonormal basis, a vector per row, and the level of each: 0 for bins without order, else the depth of a
    contrast.
    """
    basis, level = np.eye(size), np.zeros(size, np.int64)
    if n_ordered < 2:
        return basis, level
    basis[0] = 0.0
    basis[0, :n_ordered] = 1 / math.sqrt(n_ordered)
    row, runs = 1, [(0, n_ordered, 1)]
    while runs:
        start, stop, depth = runs.pop()
        if stop - start < 2:
            continue
        middle = (start + stop + 1) // 2
        left, right = middle - start, stop - middle
        basis[row] = 0.0
        basis[row, start:middle] = math.sqrt(right / (left * (left + right)))
        basis[row, middle:stop] = -math.sqrt(left / (right * (left + right)))
        level[row] = depth
        row += 1
        runs += [(start, middle, depth + 1), (middle, stop, depth + 1)]
    return basis, level
