"""Blocks: boxes of the data cube with noisy counts. What a view is made of, and all it knows of the table."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hdpview.view.base import Base
from hdpview.view.within import Within

MAX_COUNT = 2**53  # counts are exact as doubles
N_COARSER_LEVELS, COARSENING = (
    4,
    4,
)  # each coarser level has at most a quarter of the blocks: together a third more


@dataclass(frozen=True, eq=False)
class Level:
    """Blocks in the shape that questions are answered in: bounds and 1/width, shape (n_attributes, n_blocks),
    and counts (n_blocks,).

    within: how records spread inside blocks, part by part; empty where they spread evenly.
    """

    lower: NDArray[np.int32]
    upper: NDArray[np.int32]
    inverse_width: NDArray[np.float64]
    counts: NDArray[np.float64]
    within: tuple[Within, ...] = ()

    def __post_init__(self) -> None:
        for array in (self.lower, self.upper, self.inverse_width, self.counts):
            array.setflags(write=False)

    @classmethod
    def of(
        cls,
        lower: NDArray[np.int32],
        upper: NDArray[np.int32],
        counts: NDArray[np.float64],
        bases: tuple[Base, ...] = (),
    ) -> Level:
        """bases: one per part, or none where records spread evenly in all of them."""
        by_attribute = np.ascontiguousarray(lower.T), np.ascontiguousarray(upper.T)
        within: tuple[Within, ...] = ()
        if bases:  # a part begins with the block that holds its first cell
            ends = itertools.pairwise([*np.flatnonzero((lower == 0).all(axis=1)).tolist(), len(lower)])
            within = tuple(
                Within.of(base, lower[i:j], upper[i:j], i, j)
                for base, (i, j) in zip(bases, ends, strict=True)
            )
        return cls(*by_attribute, 1.0 / (by_attribute[1] - by_attribute[0]), counts, within)


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks in depth-first order of the tree of cuts, left before right; with the depths, this order tells
    the tree.

    lower, upper: shape (n_blocks, n_attributes), int32, half-open ranges of codes.
    noisy_counts: shape (n_blocks,), int64: unbiased, may be negative.
    depth: shape (n_blocks,), int32; the whole domain has depth 1.
    part: shape (n_blocks,), uint16, rising from 0, in a merged view: blocks of one part are a tree of their
        own. None where there is one.
    base: how records spread inside blocks: evenly where it is None. In a merged view, one for each part.
    fitted: shape (n_blocks,), float64, not negative: counts that a method's inference found; None where there
        are only noisy ones.
    """

    lower: NDArray[np.int32]
    upper: NDArray[np.int32]
    noisy_counts: NDArray[np.int64]
    depth: NDArray[np.int32]
    part: NDArray[np.uint16] | None = None
    base: Base | tuple[Base | None, ...] | None = None
    fitted: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        for array in (self.lower, self.upper, self.noisy_counts, self.depth, self.part, self.fitted):
            if array is not None:
                array.setflags(write=False)

    @property
    def base_of_parts(self) -> tuple[Base | None, ...]:
        """The base of each part; None where its records spread evenly."""
        return self.base if isinstance(self.base, tuple) else (self.base,) * (int(self.parts[-1]) + 1)

    @cached_property
    def bases(self) -> tuple[Base, ...]:
        """The base of each part, an even one where there is none; empty where no part has one."""
        sizes = self.upper.max(axis=0).tolist()
        return (
            tuple(base or Base.even(sizes) for base in self.base_of_parts) if any(self.base_of_parts) else ()
        )

    @property
    def parts(self) -> NDArray[np.uint16]:
        """The number of the part that each block belongs to."""
        return np.zeros(len(self.noisy_counts), np.uint16) if self.part is None else self.part

    def __len__(self) -> int:
        return len(self.noisy_counts)

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        """These blocks with their consistent counts, and coarser ones: the tree with its deepest cuts undone,
        again and again.
        """
        lower, upper, depth, counts = self.lower, self.upper, self.depth, self.consistent_counts
        found = [Level.of(lower, upper, counts, self.bases)]
        for step in range(1, N_COARSER_LEVELS + 1):
            while len(depth) > max(1.0, len(self) / COARSENING**step) and depth.max() > 1:
                lower, upper, depth, counts = undo_deepest_cuts(lower, upper, depth, counts)
            found.append(Level.of(lower, upper, counts, self.bases))
        return tuple(found)

    @cached_property
    def consistent_counts(self) -> NDArray[np.float64]:
        """Counts that could be a table's, none negative: as the method fitted them, or the nearest of the
        same total (least squares).
        """
        if self.fitted is not None:
            return self.fitted
        counts = project_to_simplex(
            self.noisy_counts.astype(np.float64), max(0.0, float(self.noisy_counts.sum(dtype=np.float64)))
        )
        counts.setflags(write=False)
        return counts


def undo_deepest_cuts(
    lower: NDArray[np.int32], upper: NDArray[np.int32], depth: NDArray[np.int32], counts: NDArray[np.float64]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
    """Blocks one level above the deepest: each pair of halves there becomes the block it was cut from."""
    deepest = np.flatnonzero(depth == depth.max())
    left, right = deepest[0::2], deepest[1::2]
    upper, depth, counts = upper.copy(), depth.copy(), counts.copy()
    upper[left] = upper[
        right
    ]  # the halves differ in one attribute only, and there the right one ends where the block does
    depth[left] -= 1
    counts[left] += counts[right]
    kept = np.ones(len(depth), dtype=bool)
    kept[right] = False
    return lower[kept], upper[kept], depth[kept], counts[kept]


def project_to_simplex(values: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """The non-negative vector with this total that is nearest to `values`: all are lowered alike, and cut off
    at 0.
    """
    if total <= 0:
        return np.zeros_like(values)
    falling = np.sort(values)[::-1]
    surplus = np.cumsum(falling) - total
    n_kept = np.flatnonzero(falling * np.arange(1, len(values) + 1) > surplus)[-1] + 1
    projected: NDArray[np.float64] = np.maximum(values - surplus[n_kept - 1] / n_kept, 0.0)
    return projected


def fault_in_tiling(
    lower: NDArray[np.int32], upper: NDArray[np.int32], depth: NDArray[np.int32], sizes: tuple[int, ...]
) -> str | None:
    """Why blocks are not the leaves, in depth-first order, of a tree of cuts over the whole domain; None if
    they are.

    Undoes the cuts from the deepest level up: neighbours at that level must be the two halves of a block one
        level above. A
    tree of cuts has no gaps and no overlaps, so this also proves that the blocks tile the domain. Cost:
    blocks × attributes.
    """
    if not len(depth):
        return "there are no blocks"
    if (lower < 0).any() or (upper > np.array(sizes)).any() or (lower >= upper).any():
        return "a block is empty or reaches outside the domain"
    if depth.min() < 1:
        return "a depth is below 1"
    unused = np.zeros(len(depth))
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
        lower, upper, depth, unused = undo_deepest_cuts(lower, upper, depth, unused)
    if depth[0] != 1 or (lower[0] != 0).any() or (upper[0] != np.array(sizes)).any():
        return "the blocks do not cover the domain"
    return None


def fault_in_parts(
    lower: NDArray[np.int32],
    upper: NDArray[np.int32],
    depth: NDArray[np.int32],
    part: NDArray[np.uint16],
    n_parts: int,
    sizes: tuple[int, ...],
) -> str | None:
    """Why blocks are not that many parts, one after the other, each of which tiles the domain; None if they
    are.
    """
    if not len(part):
        return "there are no blocks"
    starts = np.searchsorted(part, np.arange(n_parts + 1))
    if (np.diff(part.astype(np.int64)) < 0).any() or (np.diff(starts) == 0).any() or starts[-1] != len(part):
        return "its parts are not those that the manifest lists"
    faults = (
        fault_in_tiling(lower[i:j], upper[i:j], depth[i:j], sizes)
        for i, j in itertools.pairwise(starts.tolist())
    )
    return next((fault for fault in faults if fault is not None), None)
