"""The base measure: how counts spread inside a block. Uniform for the paper's method; released by methods that learn it.

A base gives every code of every attribute a positive weight, and a cell the product of its codes' weights. A block's count lies in its
cells in proportion to them. Ranges of codes are weighed by differences of running sums, as fast as widths.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Base:
    """A product of one distribution per attribute.

    weights: per attribute, shape (size,), positive, summing to 1.
    """

    weights: tuple[Floats, ...]

    @classmethod
    def uniform(cls, sizes: tuple[int, ...]) -> Base:
        return cls(tuple(np.full(size, 1.0 / size) for size in sizes))

    @cached_property
    def running(self) -> tuple[Floats, ...]:
        """Running sums of the weights, shape (size + 1,) per attribute."""
        return tuple(np.concatenate([[0.0], np.cumsum(weight)]) for weight in self.weights)

    def shares(self, lower: NDArray[np.int32], upper: NDArray[np.int32]) -> Floats:
        """Weight of each range, attribute by attribute, shape (n_attributes, n_blocks); bounds have shape (n_blocks, n_attributes)."""
        return np.stack([running[upper[:, a]] - running[lower[:, a]] for a, running in enumerate(self.running)])

    def masses(self, lower: NDArray[np.int32], upper: NDArray[np.int32]) -> Floats:
        """Share of the whole measure in each block, shape (n_blocks,)."""
        masses: Floats = self.shares(lower, upper).prod(axis=0)
        return masses

    def to_lists(self) -> list[list[float]]:
        """Plain numbers for a manifest, to six digits: far below the noise in them."""
        return [[float(f"{value:.6g}") for value in weight.tolist()] for weight in self.weights]

    @classmethod
    def from_lists(cls, lists: list[list[float]], sizes: tuple[int, ...]) -> Base:
        """The inverse; ValueError where the numbers are not distributions over these sizes."""
        if len(lists) != len(sizes):
            raise ValueError
        weights = [np.array(values, dtype=np.float64) for values in lists]
        for weight, size in zip(weights, sizes, strict=True):
            if weight.shape != (size,) or not np.isfinite(weight).all() or (weight <= 0).any() or not 0.99 < weight.sum() < 1.01:
                raise ValueError
        return cls(tuple(weight / weight.sum() for weight in weights))
