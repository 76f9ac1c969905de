"""Sums and maxima over the rectangles that cover each cell of a grid, in NumPy.

For sums, each rectangle is written at its corners only, and running sums along each axis do the rest. For
maxima, each rectangle is covered by overlapping boxes whose sides are powers of two; the boxes are then
halved down to cells. Both take time ∝ rectangles + cells, whatever the size of the rectangles.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# Most values in the tables of powers of two (32 MB); beyond, rectangles are painted one by one.
_MAX_TABLE_VALUES = 4_000_000


@dataclass(frozen=True, eq=False)
class Rectangles:
    """Half-open rectangles on a grid. lower, upper: shape (n_axes, n), shape: cells along each axis."""

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    shape: tuple[int, ...]

    def only(self, rows: NDArray[np.int64]) -> Rectangles:
        """The rectangles with these numbers."""
        return Rectangles(self.lower[:, rows], self.upper[:, rows], self.shape)

    @cached_property
    def _corners(self) -> tuple[NDArray[np.int64], Floats]:
        """Corners as places in a grid with a margin, shape (2^n_axes, n), and their signs, (2^n_axes,)."""
        strides = _strides([size + 1 for size in self.shape])
        ends = np.stack([self.lower, self.upper])
        places, signs = [], []
        for corner in itertools.product((0, 1), repeat=len(self.shape)):
            along_axes = [ends[end, axis] * strides[axis] for axis, end in enumerate(corner)]
            places.append(sum(along_axes, np.zeros(ends.shape[2], np.int64)))
            signs.append((-1.0) ** sum(corner))
        return np.array(places), np.array(signs)

    def sums(self, values: Floats) -> Floats:
        """Sums over the rectangles that cover each cell: values (n_columns, n) to (n_columns, n_cells)."""
        places, signs = self._corners
        with_margin = [size + 1 for size in self.shape]
        n_cells, sums = math.prod(with_margin), np.empty((len(values), *self.shape))
        for column, out in zip(values, sums, strict=True):
            corners = (signs[:, None] * column).ravel()
            grid = np.bincount(places.ravel(), corners, n_cells).reshape(with_margin)
            for axis in range(grid.ndim):
                grid = grid.cumsum(axis)
            out[...] = grid[tuple(slice(size) for size in self.shape)]
        return sums.reshape(len(values), -1)

    def maxima(self, values: Floats) -> Floats:
        """Largest value of the rectangles over each cell, or 0: non-negative (n,) → (n_cells,)."""
        positive = np.flatnonzero(values > 0)
        lower, upper, values = self.lower[:, positive], self.upper[:, positive], values[positive]
        levels = [size.bit_length() for size in self.shape]
        if math.prod(levels) * math.prod(self.shape) > _MAX_TABLE_VALUES:
            return _maxima_one_by_one(lower, upper, values, self.shape)
        # log2 of each side, rounded down
        powers = np.array([0, *(i.bit_length() - 1 for i in range(1, max(self.shape) + 1))])[upper - lower]
        table = np.zeros((*levels, *self.shape))
        strides = _strides([*levels, *self.shape])
        at_level = sum((powers[axis] * strides[axis] for axis in range(len(levels))), np.int64(0))
        starts_and_ends = np.stack([lower, upper - (1 << powers)])
        for corner in itertools.product((0, 1), repeat=len(levels)):
            starts = [starts_and_ends[end, axis] for axis, end in enumerate(corner)]
            place = sum((start * strides[len(levels) + axis] for axis, start in enumerate(starts)), at_level)
            np.maximum.at(table.reshape(-1), place, values)
        for _ in levels:
            table = _halve(table, cells_axis=len(levels) - 1)
        return table.reshape(-1)


def _halve(table: Floats, cells_axis: int) -> Floats:
    """Pass the maxima of boxes of side 2^k, table[k], down to boxes of half the side, to single cells.

    cells_axis: the axis of table[k] along which the boxes lie.
    """
    current = table[-1]
    for level in range(len(table) - 2, -1, -1):
        half = 1 << level
        below = np.maximum(table[level], current)
        n = current.shape[cells_axis]
        if n > half:
            right = [slice(None)] * current.ndim
            left = right.copy()
            right[cells_axis], left[cells_axis] = slice(half, n), slice(0, n - half)
            np.maximum(below[tuple(right)], current[tuple(left)], out=below[tuple(right)])
        current = below
    cells: Floats = current
    return cells


def _maxima_one_by_one(
    lower: NDArray[np.int64], upper: NDArray[np.int64], values: Floats, shape: tuple[int, ...]
) -> Floats:
    grid = np.zeros(shape)
    for i, value in enumerate(values):
        part = grid[tuple(slice(low, high) for low, high in zip(lower[:, i], upper[:, i], strict=True))]
        np.maximum(part, value, out=part)
    return grid.reshape(-1)


def _strides(sizes: list[int]) -> list[int]:
    return [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
