"""Sums and maxima over all rectangles that cover each cell of a grid, for any number of rectangles, in NumPy.

A rectangle that adds the same number to each of its cells only has to be written down at its corners: running
sums along each axis do the rest. For maxima, a rectangle is covered by overlapping boxes with sides of powers
of two, and boxes are halved until they are cells. Both cost about rectangles + cells, however large the
rectangles are.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_MOST_TABLE_VALUES = 4_000_000  # of the tables of powers of two; beyond, rectangles are painted one by one


@dataclass(frozen=True, eq=False)
class Rectangles:
    """Half-open rectangles on a grid. lower, upper: shape (n_axes, n), shape: cells along each axis."""

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    shape: tuple[int, ...]

    def only(self, rows: NDArray[np.int64]) -> Rectangles:
        """Some of the rectangles."""
        return Rectangles(self.lower[:, rows], self.upper[:, rows], self.shape)

    @cached_property
    def _corners(self) -> tuple[NDArray[np.int64], Floats]:
        """Places in the grid with a margin, and signs, shape (2^n_axes, n) and (2^n_axes,)."""
        strides = _strides([size + 1 for size in self.shape])
        ends = np.stack([self.lower, self.upper])
        places, signs = [], []
        for corner in itertools.product((0, 1), repeat=len(self.shape)):
            places.append(
                sum(
                    (ends[end, axis] * strides[axis] for axis, end in enumerate(corner)),
                    np.zeros(ends.shape[2], np.int64),
                )
            )
            signs.append((-1.0) ** sum(corner))
        return np.array(places), np.array(signs)

    def sums(self, values: Floats) -> Floats:
        """Sums over the rectangles that cover each cell: values (n_columns, n) to (n_columns, n_cells)."""
        places, signs = self._corners
        with_margin = [size + 1 for size in self.shape]
        n_cells, found = math.prod(with_margin), np.empty((len(values), *self.shape))
        for column, out in zip(values, found, strict=True):
            grid = np.bincount(places.ravel(), (signs[:, None] * column).ravel(), n_cells).reshape(
                with_margin
            )
            for axis in range(grid.ndim):
                grid = grid.cumsum(axis)
            out[...] = grid[tuple(slice(size) for size in self.shape)]
        return found.reshape(len(values), -1)

    def maxima(self, values: Floats) -> Floats:
        """Largest value, in each cell, of the rectangles over it, and 0: (n,), not negative → (n_cells,)."""
        useful = np.flatnonzero(values > 0)
        lower, upper, values = self.lower[:, useful], self.upper[:, useful], values[useful]
        levels = [size.bit_length() for size in self.shape]
        if math.prod(levels) * math.prod(self.shape) > _MOST_TABLE_VALUES:
            return _maxima_one_by_one(lower, upper, values, self.shape)
        powers = np.array(
            [[0], *([i.bit_length() - 1] for i in range(1, max(self.shape) + 1))], dtype=np.int64
        )[:, 0][upper - lower]
        table = np.zeros((*levels, *self.shape))
        strides = _strides([*levels, *self.shape])
        at_level = sum(
            (powers[axis] * strides[axis] for axis in range(len(levels))), np.zeros(len(values), np.int64)
        )
        for corner in itertools.product((0, 1), repeat=len(levels)):
            starts = [
                upper[axis] - (1 << powers[axis]) if end else lower[axis] for axis, end in enumerate(corner)
            ]
            place = sum((start * strides[len(levels) + axis] for axis, start in enumerate(starts)), at_level)
            np.maximum.at(table.reshape(-1), place, values)
        for _ in levels:
            table = _halve(table, cells_axis=len(levels) - 1)
        return table.reshape(-1)


def _halve(table: Floats, cells_axis: int) -> Floats:
    """Hand maxima of boxes of side 2^k, table[k], down to the two boxes of half the side; returns the level
    of single cells.

    cells_axis: the axis along which these boxes lie, counted in table[k].
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
