"""Blocks: boxes of the data cube with noisy counts, uniform on a range of each attribute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hdpview.view.rectangles import Rectangles

MAX_COUNT = 2**53  # counts are exact as doubles
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks in depth-first order, left before right; with their depths, this order gives the tree of cuts.

    lower, upper: shape (n_blocks, n_attributes), int32, half-open ranges of codes.
    noisy_counts: shape (n_blocks,), int64: unbiased, may be negative.
    depth: shape (n_blocks,), int32; the whole domain has depth 1.
    noise_scale: scale of the discrete Laplace noise on each count.
    """

    lower: NDArray[np.int32]
    upper: NDArray[np.int32]
    noisy_counts: NDArray[np.int64]
    depth: NDArray[np.int32]
    noise_scale: float

    def __post_init__(self) -> None:
        for array in (self.lower, self.upper, self.noisy_counts, self.depth):
            array.setflags(write=False)

    def __len__(self) -> int:
        return len(self.noisy_counts)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes of each attribute."""
        return tuple(self.upper.max(axis=0).tolist())

    @cached_property
    def weight(self) -> Floats:
        """Consistent counts: the nearest non-negative ones with the same total (least squares)."""
        counts = project_to_simplex(self.raw_weight, max(0.0, float(self.raw_weight.sum())))
        counts.setflags(write=False)
        return counts

    @cached_property
    def raw_weight(self) -> Floats:
        """The noisy counts as doubles."""
        return self.noisy_counts.astype(np.float64)

    @cached_property
    def inverse_width(self) -> Floats:
        """1 / number of codes of each block along each attribute, shape (n_attributes, n_blocks)."""
        return np.ascontiguousarray(1.0 / (self.upper - self.lower).T)

    def factors(self, a: int, values: Floats) -> Floats:
        """Mean of values per code of attribute `a` in each block: (k, size) → (k, n_blocks)."""
        running = np.zeros((len(values), self.sizes[a] + 1))
        np.cumsum(values, axis=1, out=running[:, 1:])
        lower, upper, of_block = self._ranges[a]
        means = (running[:, upper] - running[:, lower]) / (upper - lower)
        return np.take(means, of_block, axis=1)

    def grid(self, attributes: Sequence[int], weight: Floats) -> Floats:
        """Σ_z weight_z · Π share_a(code | z) for all combinations of codes, one axis per attribute."""
        if not len(attributes):
            return np.array(weight.sum())
        sums = self.rectangles(attributes).sums((weight * self.share_of_cell(attributes))[None])
        return sums.reshape([self.sizes[a] for a in attributes])

    def rectangles(self, attributes: Sequence[int]) -> Rectangles:
        """The rectangle of each block on the grid over these attributes."""
        chosen = list(attributes)
        lower, upper = (ends.T[chosen].astype(np.int64) for ends in (self.lower, self.upper))
        return Rectangles(lower, upper, tuple(self.sizes[a] for a in chosen))

    def seen_along(self, a: int, b: int) -> NDArray[np.int64]:
        """Distinct rectangles of blocks along two attributes, largest first: half-open bounds, (n, 4)."""
        ends = [self.lower[:, a], self.upper[:, a], self.lower[:, b], self.upper[:, b]]
        different = np.unique(np.stack(ends, axis=1).astype(np.int64), axis=0)
        area = (different[:, 1] - different[:, 0]) * (different[:, 3] - different[:, 2])
        largest_first: NDArray[np.int64] = different[np.argsort(-area, kind="stable")]
        return largest_first

    def share_of_cell(self, attributes: Sequence[int]) -> Floats:
        """The share of a block's records in each cell that it covers of such a grid, shape (n_blocks,)."""
        return np.asarray(self.inverse_width[list(attributes)].prod(axis=0))

    def draw(self, component: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int32]:
        """Draw one record from each of these blocks: codes, shape (n_attributes, n)."""
        lower, width = self.lower[component].T, (self.upper - self.lower)[component].T
        steps = (rng.random(lower.shape) * width).astype(np.int32)
        drawn: NDArray[np.int32] = lower + np.minimum(steps, width - 1)
        return drawn

    @cached_property
    def _ranges(self) -> list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
        """Per attribute: the distinct ranges of codes, and the number of each block's range."""
        ranges = []
        for a, size in enumerate(self.sizes):
            key = self.lower[:, a].astype(np.int64) * (size + 1) + self.upper[:, a]
            different, of_block = np.unique(key, return_inverse=True)
            ranges.append((different // (size + 1), different % (size + 1), of_block.reshape(-1)))
        return ranges


def undo_deepest_cuts(
    lower: NDArray[np.int32], upper: NDArray[np.int32], depth: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Bounds and depths one level above the deepest: pairs of halves become one block again."""
    deepest = np.flatnonzero(depth == depth.max())
    left, right = deepest[0::2], deepest[1::2]
    upper, depth = upper.copy(), depth.copy()
    # Halves differ in one attribute only; there, the right half ends where the block ends.
    upper[left] = upper[right]
    depth[left] -= 1
    kept = np.ones(len(depth), dtype=bool)
    kept[right] = False
    return lower[kept], upper[kept], depth[kept]


def project_to_simplex(values: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """The nearest non-negative vector with this total: values shift by one constant and are clipped at 0."""
    if total <= 0:
        return np.zeros_like(values)
    falling = np.sort(values)[::-1]
    surplus = np.cumsum(falling) - total
    # Always keep the largest value, even if the total vanishes beside it by rounding.
    kept = np.flatnonzero(falling * np.arange(1, len(values) + 1) > surplus)
    n_kept = kept[-1] + 1 if len(kept) else 1
    projected: NDArray[np.float64] = np.maximum(values - surplus[n_kept - 1] / n_kept, 0.0)
    return projected


def fault_in_tiling(
    lower: NDArray[np.int32], upper: NDArray[np.int32], depth: NDArray[np.int32], sizes: tuple[int, ...]
) -> str | None:
    """The reason why blocks are not the depth-first leaves of a tree of cuts, or None.

    Undoes the cuts from the deepest level up: neighbours there must be the two halves of a block one level
    above. Such a tree has no gaps and no overlaps, so the blocks tile the domain. Costs blocks × attributes.
    """
    if not len(depth):
        return "there are no blocks"
    if (lower < 0).any() or (upper > np.array(sizes)).any() or (lower >= upper).any():
        return "a block is empty or reaches outside the domain"
    if depth.min() < 1:
        return "a depth is below 1"
    while len(depth) > 1:
        deepest = np.flatnonzero(depth == depth.max())
        left, right = deepest[0::2], deepest[1::2]
        if len(left) != len(right) or (right != left + 1).any() or depth[deepest[0]] == 1:
            return "the depths do not form a tree"
        differs = (lower[left] != lower[right]) | (upper[left] != upper[right])
        if (differs.sum(axis=1) != 1).any():
            return "two halves of a block do not fit together"
        cut = np.argmax(differs, axis=1)
        if (upper[left, cut] != lower[right, cut]).any():
            return "two halves of a block overlap or leave a gap"
        lower, upper, depth = undo_deepest_cuts(lower, upper, depth)
    if depth[0] != 1 or (lower[0] != 0).any() or (upper[0] != np.array(sizes)).any():
        return "the blocks do not cover the domain"
    return None
