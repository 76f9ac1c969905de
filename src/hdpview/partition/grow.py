"""Grow a partition: cut a block, or let it converge into a leaf, until none is open.

A block is one row of `ExactBlocks`: bounds, depth, key, and the run of table rows that lie in it. Growing
reorders those rows in place, so children are runs too and nothing is copied. Leaves come out in depth-first
order, left before right; with their depths, this order determines the cuts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.sparse import Codes
from hdpview.partition.converge import converges
from hdpview.partition.cut import UNDECIDED, cut_blindly, cut_privately, error_of_deviation
from hdpview.partition.deviations import new_work
from hdpview.partition.jitted import absolute_deviation, compiled, new_scratch, split_rows, unmanaged, volume
from hdpview.partition.parameters import PartitionParameters
from hdpview.privacy.randomness import KEY_WORDS, child_keys, draw, new_stream

ROOT_DEPTH = 1
# Marks a decision that has not been made yet.
_NOT_DECIDED = (-3, -3)


@dataclass(frozen=True, eq=False, repr=False)
class ExactBlocks:
    """Blocks with their exact counts. Bounds are half-open.

    lower, upper: shape (n, n_attributes), int32.
    depth: shape (n,), int32; the root has depth 1.
    keys: shape (n, 8), uint32: the source of all randomness of the block and its descendants.
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
        rows = self.exact_first, self.exact_last, self.exact_sum
        return self.lower, self.upper, self.depth, self.keys, *rows

    def __getitem__(self, which: slice | NDArray[np.bool_]) -> ExactBlocks:
        return ExactBlocks(*(array[which] for array in self.as_tuple()))  # type: ignore[arg-type]

    @classmethod
    def concatenate(cls, parts: list[ExactBlocks]) -> ExactBlocks:
        return cls(
            *(np.concatenate(arrays) for arrays in zip(*(part.as_tuple() for part in parts), strict=True))
        )


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
    exact_codes: Codes,
    exact_counts: NDArray[np.int64],
    start: ExactBlocks,
    parameters: PartitionParameters,
    max_steps: int = 2**62,
) -> tuple[ExactBlocks, ExactBlocks]:
    """Grow one block: its leaves, and the blocks still open after `max_steps` decisions, depth-first.

    Rows of the block are reordered in place. By default every block is grown to the end.
    """
    offsets, n_values = offsets_of(start.upper[0]), int(start.upper[0].sum())
    table, numbers = (exact_codes, exact_counts, offsets, n_values), parameters.numbers
    leaves, pending, n_left, is_undecided = _grow(*table, _packed(start), numbers, max_steps, _NOT_DECIDED)
    grown = [_unpacked(leaves)]
    while is_undecided:
        block, sizes = _unpacked(pending)[-1:], tuple(start.upper[0].tolist())
        decided = _decide_exactly(exact_codes, exact_counts, block, parameters, sizes) or (-1, -1)
        leaves, pending, n_left, is_undecided = _grow(*table, pending, numbers, n_left, decided)
        grown.append(_unpacked(leaves))
    return ExactBlocks.concatenate(grown), _unpacked(pending)[::-1]


def _decide_exactly(*exact_rows_and_block: Any) -> tuple[int, int] | None:
    """`decide.decide_from_rows`; imported late, because that module builds on this one."""
    from hdpview.partition.decide import decide_from_rows

    return decide_from_rows(*exact_rows_and_block)


def offsets_of(upper: NDArray[np.int32]) -> NDArray[np.int64]:
    """Start of each attribute's values in an array over the values of all, shape (n_attributes,)."""
    return np.concatenate([[0], np.cumsum(upper)[:-1]]).astype(np.int64)


class _Packed(NamedTuple):
    """Blocks in few arrays, because every call in the loop passes them on.

    bounds: shape (n, 2, n_attributes), int32: lower, then upper.
    keys: shape (n, 8), uint32.
    facts: shape (n, 4), int64: depth, first row, last row (not included), sum.
    """

    bounds: NDArray[np.int32]
    keys: NDArray[np.uint32]
    facts: NDArray[np.int64]


def _packed(blocks: ExactBlocks) -> _Packed:
    facts = np.stack(
        [blocks.depth, blocks.exact_first, blocks.exact_last, blocks.exact_sum], axis=1, dtype=np.int64
    )
    return _Packed(np.stack([blocks.lower, blocks.upper], axis=1), np.ascontiguousarray(blocks.keys), facts)


def _unpacked(packed: _Packed) -> ExactBlocks:
    lower, upper = packed.bounds[:, 0].copy(), packed.bounds[:, 1].copy()
    depth, first, last, total = packed.facts.T.copy()
    return ExactBlocks(lower, upper, depth.astype(np.int32), packed.keys, first, last, total)


@compiled
def _grow(codes, counts, offsets, n_values, start, numbers, max_steps, decided):  # type: ignore[no-untyped-def]
    """The loop: take the first open block in depth-first order, and cut it in two or make it a leaf.

    Stops before a block that doubles cannot decide about, and returns True last.
    start: open blocks, the depth-first first one last. decided: the decision about that one, or _NOT_DECIDED.
    """
    n_attributes, n_open, n_leaves = start.bounds.shape[2], len(start.facts), 0
    open_blocks, leaves = _with_room(start, max(64, 2 * n_open)), _with_room(start, 64)
    lower, upper = np.empty(n_attributes, np.int32), np.empty(n_attributes, np.int32)
    key = np.empty(KEY_WORDS, np.uint32)
    most_rows = 0
    for i in range(n_open):
        most_rows = max(most_rows, start.facts[i, 2] - start.facts[i, 1])
    work = new_work(n_values, most_rows)
    stream, scratch = new_stream(), new_scratch()
    while n_open > 0 and max_steps > 0:
        max_steps -= 1
        n_open -= 1
        # Copied, because the halves take their place.
        depth, first, last, total = _take(open_blocks, n_open, lower, upper, key)
        a, cut = decided
        decided = _NOT_DECIDED
        if a == _NOT_DECIDED[0]:
            rows = codes, counts, first, last, offsets
            a, cut = _decide(*rows, lower, upper, depth, total, numbers, key, stream, work)
        if a == UNDECIDED:
            n_open, max_steps = n_open + 1, max_steps + 1  # the block stays open
            return _with_room(leaves, n_leaves), _with_room(open_blocks, n_open), max_steps, True
        if a < 0:
            if n_leaves == len(leaves.facts):
                leaves = _with_room(leaves, 2 * n_leaves)
            _put(leaves, n_leaves, lower, upper, depth, key, 0, first, last, total)
            n_leaves += 1
            continue
        n_left, left_sum = split_rows(codes, counts, first, last, a, cut, scratch)
        if n_open + 2 > len(open_blocks.facts):
            open_blocks = _with_room(open_blocks, 2 * len(open_blocks.facts))
        child_keys(key, stream)  # the stream is free: all draws of this block are made
        # The left half goes on top, so that it is grown first.
        middle = first + n_left
        _put(open_blocks, n_open, lower, upper, depth + 1, stream, KEY_WORDS, middle, last, total - left_sum)
        _put(open_blocks, n_open + 1, lower, upper, depth + 1, stream, 0, first, middle, left_sum)
        open_blocks.bounds[n_open, 0, a] = cut
        open_blocks.bounds[n_open + 1, 1, a] = cut
        n_open += 2
    return _with_room(leaves, n_leaves), _with_room(open_blocks, n_open), max_steps, False


@unmanaged
def _decide(  # type: ignore[no-untyped-def]
    codes, counts, first, last, offsets, lower, upper, depth, total, numbers, key, stream, work
):
    """A block's attribute and cut point, or −1 for a leaf, or UNDECIDED if doubles cannot settle it."""
    epsilon_cut, n_private_levels, noise_scale, bias, threshold, floor = numbers
    n_cells = volume(lower, upper)
    if n_cells == 1.0:
        return -1, -1  # one cell, which is public
    deviation = absolute_deviation(counts, first, last, total, n_cells)
    error = error_of_deviation(total, last - first, len(lower))
    stops = converges(deviation, depth, noise_scale, bias, threshold, floor, draw(key, 0, stream), error)
    if stops != 0:
        return (-1, -1) if stops > 0 else (UNDECIDED, UNDECIDED)
    if depth <= n_private_levels:  # [P3]
        rows, block = (codes, counts, first, last), (offsets, lower, upper, total, n_cells)
        return cut_privately(*rows, *block, epsilon_cut, key, 1, stream, work)
    return cut_blindly(lower, upper, key, 1, stream)


@unmanaged
def _take(blocks, at, lower, upper, key):  # type: ignore[no-untyped-def]
    for a in range(len(lower)):
        lower[a], upper[a] = blocks.bounds[at, 0, a], blocks.bounds[at, 1, a]
    for word in range(KEY_WORDS):
        key[word] = blocks.keys[at, word]
    return blocks.facts[at, 0], blocks.facts[at, 1], blocks.facts[at, 2], blocks.facts[at, 3]


@unmanaged
def _put(blocks, at, lower, upper, depth, keys, key_at, first, last, total):  # type: ignore[no-untyped-def]
    """Write a block; its key is the eight words of `keys` from `key_at` on."""
    for a in range(len(lower)):
        blocks.bounds[at, 0, a], blocks.bounds[at, 1, a] = lower[a], upper[a]
    for word in range(KEY_WORDS):
        blocks.keys[at, word] = keys[key_at + word]
    blocks.facts[at, 0], blocks.facts[at, 1] = depth, first
    blocks.facts[at, 2], blocks.facts[at, 3] = last, total


@compiled
def _with_room(blocks, room):  # type: ignore[no-untyped-def]
    """A copy with space for `room` blocks; only the first `room` if there are more."""
    bounds = np.empty((room, 2, blocks.bounds.shape[2]), np.int32)
    keys = np.empty((room, KEY_WORDS), np.uint32)
    facts = np.empty((room, 4), np.int64)
    n = min(room, len(blocks.facts))
    bounds[:n], keys[:n], facts[:n] = blocks.bounds[:n], blocks.keys[:n], blocks.facts[:n]
    return _Packed(bounds, keys, facts)
