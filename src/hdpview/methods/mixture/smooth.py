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
# Standard deviations from which on a coefficient of a table is taken for real by itself, and the variance that noise
# has below, as a share of all.
_STRONG, _NOISE_OF_WEAK = 3.0, 0.95
# Degrees of freedom that are not shrunk in each group of a table: James and Stein's 2. Histograms are shrunk by all,
# because most of their contrasts are none where records lie at few codes.
_FREE_OF_TABLE, _FREE_OF_HISTOGRAM = 2, 0


def shares_of(axis: Axis, noisy: Floats, variances: Floats, total: float) -> Floats:
    """Shares of an attribute's codes from a noisy histogram, positive, sum 1, shape (size,).

    Contrasts between neighbouring runs of ordered codes are shrunk; other codes stay as they are.
    """
    n = axis.n_ordered
    counts = noisy.copy()
    if n:
        even = noisy[:n].mean()
        counts[:n] = even + Shrinkage([n], (n,), variances[:n], _FREE_OF_HISTOGRAM)(noisy[:n] - even)
    positive = project_to_simplex(counts, total) + LEAST_SHARE * total
    shares: Floats = positive / positive.sum()
    return shares


class Shrinkage:
    """What of a table's departures from a model is more than noise, for tables of one shape and noise.

    Departures are taken apart along every ordered axis into contrasts between halves of runs (an orthonormal
    basis, so that noise is the same in all of them). Those that stand out by themselves are kept but for what noise
    explains of them; the others of the same lengths of runs are shrunk alike (James and Stein). Along other axes
    nothing is taken apart: their codes have no neighbours.
    """

    def __init__(
        self,
        n_ordered: Sequence[int],
        shape: tuple[int, ...],
        variance: float | Floats,
        free: int = _FREE_OF_TABLE,
    ) -> None:
        """n_ordered: number of ordered bins of each axis, from the first on. variance: of the noise of the cells.
        free: coefficients of each group that noise is not taken off.
        """
        self._free = free
        self._bases: list[Floats] = []
        group = np.zeros((), np.int64)
        for n, size in zip(n_ordered, shape, strict=True):
            basis, level = _haar_basis(n, size)
            self._bases.append(basis)
            group = group[..., None] * (int(level.max()) + 1) + level
        self._group = np.unique(group, return_inverse=True)[1].reshape(-1)
        squared = [basis**2 for basis in self._bases]
        self._variance = _along_axes(
            squared, np.broadcast_to(np.asarray(variance, np.float64), shape)
        ).reshape(-1)

    def __call__(self, departures: Floats) -> Floats:
        """Any shape of the given table to the same."""
        coefficients = _along_axes(self._bases, departures)
        flat = coefficients.reshape(-1)
        squares = flat**2
        weak = squares <= _STRONG**2 * self._variance
        n = np.bincount(self._group, weak)
        beyond = np.maximum(0.0, n - self._free) / np.maximum(n, 1)
        noise = _NOISE_OF_WEAK * beyond * np.bincount(self._group, self._variance * weak)
        energy = np.bincount(self._group, squares * weak)
        believed = np.maximum(0.0, 1.0 - noise / np.maximum(energy, 1e-300))[self._group]
        kept = flat * np.where(weak, believed, 1.0 - self._variance / np.maximum(squares, 1e-300))
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
