"""Grow a partition: the loop that owns the worklist. Cut a block, or let it converge into a leaf, until none is left.

A block is what `Blocks` holds in one row: bounds, depth, key, and the run of rows of the table that lies in it. Growing
reorders those rows in place, so children are runs too and nothing is copied. Leaves come out in depth-first order, left
before right; with their depths this order says which cuts were made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba as nb
import numpy as np
from numpy.typing import NDArray

from hdpview.counts.sparse import Codes
from hdpview.partition import kernels
from hdpview.partition.converge import converges
from hdpview.partition.cut import cut_blindly, cut_privately
from hdpview.partition.parameters import PartitionParameters
from hdpview.privacy.randomness import KEY_WORDS, child_keys, draw, new_stream

ROOT_DEPTH = 1


@dataclass(frozen=True, eq=False, repr=False)
class ExactBlocks:
    """Blocks with what the private side knows of them. Bounds are half-open.

    lower, upper: shape (n, n_attributes), int32.
    depth: shape (n,), int32; the root has depth 1.
    keys: shape (n, 8), uint32: the source of all randomness of the block and of what is below it.
    exact_first, exact_last: shape (n,), int64: the run of rows of the table in the block, half-open.
    exact_sum: shape (n,), int64: records in the block.
    """

    lower: NDArray[np.int32]
    upper: NDArray[np.int32]
    depth: NDArray[np.int32]
    keys: NDArray[np.uint32]
    exact_first: NDArray[np.int64]
    exact_last: NDArray[np.int64]
    exact_sum: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.depth)

    def as_tuple(self) -> tuple[NDArray[np.generic], ...]:
        """The arrays in the order the loop takes and returns them."""
        return self.lower, self.upper, self.depth, self.keys, self.exact_first, self.exact_last, self.exact_sum

    def __getitem__(self, which: slice | NDArray[np.bool_]) -> ExactBlocks:
        return ExactBlocks(*(array[which] for array in self.as_tuple()))  # type: ignore[arg-type]

    @classmethod
    def concatenate(cls, parts: list[ExactBlocks]) -> ExactBlocks:
        return cls(*(np.concatenate(arrays) for arrays in zip(*(part.as_tuple() for part in parts), strict=True)))


def root(sizes: tuple[int, ...], exact_counts: NDArray[np.int64], key: NDArray[np.uint32]) -> ExactBlocks:
    """The block that covers the whole domain and all rows."""
    return ExactBlocks(
        lower=np.zeros((1, len(sizes)), np.int32),
        upper=np.array([sizes], np.int32),
        depth=np.array([ROOT_DEPTH], np.int32),
        keys=key.reshape(1, KEY_WORDS),
        exact_first=np.zeros(1, np.int64),
        exact_last=np.array([len(exact_counts)], np.int64),
        exact_sum=np.array([exact_counts.sum()], np.int64),
    )


def grow(
    exact_codes: Codes, exact_counts: NDArray[np.int64], start: ExactBlocks, parameters: PartitionParameters, max_steps: int = 2**62
) -> tuple[ExactBlocks, ExactBlocks]:
    """Grow one block: its leaves, and the blocks still open after `max_steps` decisions, both in depth-first order.

    Rows of the block are reordered in place. With the default every block is grown to the end.
    """
    upper = start.upper[0]
    offsets = np.concatenate([[0], np.cumsum(upper)[:-1]]).astype(np.int64)
    numbers = (
        float(parameters.epsilon_cut),
        parameters.n_private_cut_levels,
        parameters.converge_noise_scale,
        parameters.converge_bias_per_level,
        parameters.converge_threshold,
        parameters.converge_floor,
    )
    leaves, pending = _grow(exact_codes, exact_counts, start.as_tuple(), offsets, numbers, max_steps)
    return ExactBlocks(*leaves), ExactBlocks(*pending)[::-1]


@nb.njit(cache=True, nogil=True)
def _grow(codes, counts, start, offsets, numbers, max_steps):  # type: ignore[no-untyped-def]
    epsilon_cut, n_private_levels, noise_scale, bias, threshold, floor = numbers
    n_values = offsets[-1] + start[1][0, -1]
    work = (np.empty(n_values, np.int64), np.empty(n_values, np.int64), np.empty(n_values, np.float64))
    stream = new_stream()
    stack = _with_room(start, 64)
    leaves = _with_room(start, 64)
    n_attributes, n_open, n_leaves = start[0].shape[1], 1, 0
    lower, upper, key = np.empty(n_attributes, np.int32), np.empty(n_attributes, np.int32), np.empty(KEY_WORDS, np.uint32)
    while n_open > 0 and max_steps > 0:
        max_steps -= 1
        n_open -= 1
        for a in range(n_attributes):  # copied, because their place is taken by the halves; a loop is faster than slices here
            lower[a], upper[a] = stack[0][n_open, a], stack[1][n_open, a]
        for word in range(KEY_WORDS):
            key[word] = stack[3][n_open, word]
        depth, first, last, total = stack[2][n_open], stack[4][n_open], stack[5][n_open], stack[6][n_open]
        own_codes, own_counts = codes[first:last], counts[first:last]
        n_cells = kernels.volume(lower, upper)
        if n_cells == 1.0:
            stop = True  # a public fact: there is nothing to cut
        else:
            deviation = kernels.absolute_deviation(own_counts, total, n_cells)
            stop = converges(deviation, depth, noise_scale, bias, threshold, floor, draw(key, 0, stream))
        if stop:
            if n_leaves == len(leaves[2]):
                leaves = _with_room(leaves, 2 * n_leaves)
            _put(leaves, n_leaves, lower, upper, depth, key, first, last, total)
            n_leaves += 1
            continue
        if depth <= n_private_levels:  # [P3]
            a, cut = cut_privately(own_codes, own_counts, offsets, lower, upper, total, n_cells, epsilon_cut, key, 1, stream, work)
        else:
            a, cut = cut_blindly(lower, upper, key, 1, stream)
        n_left, left_sum = kernels.split_rows(own_codes, own_counts, a, cut)
        if n_open + 2 > len(stack[2]):
            stack = _with_room(stack, 2 * len(stack[2]))
        child_keys(key, stream[0])
        _push_halves(stack, n_open, lower, upper, depth, stream[0], first, last, total, a, cut, n_left, left_sum)
        n_open += 2
    return _head(leaves, n_leaves), _head(stack, n_open)


@nb.njit(cache=True, nogil=True)
def _push_halves(stack, at, lower, upper, depth, keys, first, last, total, a, cut, n_left, left_sum):  # type: ignore[no-untyped-def]
    """Right half below left half, so that the left one is grown first. `keys` (16,): the left one's key, then the right one's."""
    middle = first + n_left
    _put(stack, at, lower, upper, depth + 1, keys[KEY_WORDS:], middle, last, total - left_sum)
    _put(stack, at + 1, lower, upper, depth + 1, keys[:KEY_WORDS], first, middle, left_sum)
    stack[0][at, a] = cut
    stack[1][at + 1, a] = cut


@nb.njit(cache=True, nogil=True)
def _put(blocks, at, lower, upper, depth, key, first, last, total):  # type: ignore[no-untyped-def]
    for a in range(len(lower)):
        blocks[0][at, a] = lower[a]
        blocks[1][at, a] = upper[a]
    blocks[2][at] = depth
    for word in range(KEY_WORDS):
        blocks[3][at, word] = key[word]
    blocks[4][at] = first
    blocks[5][at] = last
    blocks[6][at] = total


@nb.njit(cache=True, nogil=True)
def _with_room(blocks, room):  # type: ignore[no-untyped-def]
    """A copy with space for `room` blocks."""
    lower = np.empty((room, blocks[0].shape[1]), np.int32)
    upper = np.empty((room, blocks[0].shape[1]), np.int32)
    depth, keys = np.empty(room, np.int32), np.empty((room, KEY_WORDS), np.uint32)
    first, last, total = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    n = min(room, len(blocks[2]))
    lower[:n], upper[:n], depth[:n], keys[:n] = blocks[0][:n], blocks[1][:n], blocks[2][:n], blocks[3][:n]
    first[:n], last[:n], total[:n] = blocks[4][:n], blocks[5][:n], blocks[6][:n]
    return lower, upper, depth, keys, first, last, total


@nb.njit(cache=True, nogil=True)
def _head(blocks, n):  # type: ignore[no-untyped-def]
    return (
        blocks[0][:n].copy(),
        blocks[1][:n].copy(),
        blocks[2][:n].copy(),
        blocks[3][:n].copy(),
        blocks[4][:n].copy(),
        blocks[5][:n].copy(),
        blocks[6][:n].copy(),
    )
