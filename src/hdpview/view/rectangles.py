"""Sums and maxima over the rectangles that cover each cell of a grid, in NumPy.

For sums, each rectangle is written at its corners only, and running sums along each axis do the rest, in time
∝ rectangles + cells. For maxima, distinct rectangles are filled in from the smallest value to the largest.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rectangles:
    """Half-open rectangles on a grid. lower, upper: shape (n_axes, n), shape: cells along each axis."""

    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    shape: tuple[int, ...]

    @cached_property
    def _corners(self) -> tuple[NDArray[np.int64], Floats]:
        """Corners as places in a grid with a margin, shape (2^n_axes, n), and their signs, (2^n_axes,)."""
        ends, with_margin = np.stack([self.lower, self.upper]), [size + 1 for size in self.shape]
        corners = list(itertools.product((0, 1), repeat=len(self.shape)))
        places = [
            np.ravel_multi_index(tuple(ends[end, axis] for axis, end in enumerate(corner)), with_margin)
            for corner in corners
        ]
        return np.array(places), np.array([(-1.0) ** sum(corner) for corner in corners])

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
        """The largest value of the rectangles that cover each cell, or 0: non-negative (n,) → (n_cells,)."""
        ends, sizes = np.concatenate([self.lower, self.upper]), [size + 1 for size in self.shape] * 2
        different, of_rectangle = np.unique(np.ravel_multi_index(tuple(ends), sizes), return_inverse=True)
        largest = np.zeros(len(different))
        np.maximum.at(largest, of_rectangle, values)
        rising, n_axes, grid = np.argsort(largest), len(self.shape), np.zeros(self.shape)
        boxes = np.stack(np.unravel_index(different[rising], sizes), axis=1).tolist()
        for box, value in zip(boxes, largest[rising].tolist(), strict=True):
            grid[tuple(map(slice, box[:n_axes], box[n_axes:]))] = value
        return grid.reshape(-1)
