"""The top of a tree whose rows are spread over machines: its blocks, and the lookup of a row's block.

A row finds its block by walking down from the root, so cutting a block neither moves nor marks rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.partition.grow import ExactBlocks
from hdpview.partition.jitted import compiled
from hdpview.privacy.randomness import KEY_WORDS, child_keys


class Route(NamedTuple):
    """A tree as arrays over its nodes, for `slots_of`.

    attribute, cut: a row with a code < cut goes left; attribute −1 for a node that is not cut.
    left: number of the left half; the right one is the next.
    slot: index of a node that is not cut among the wanted ones, or −1.
    """

    attribute: NDArray[np.int32]
    cut: NDArray[np.int32]
    left: NDArray[np.int32]
    slot: NDArray[np.int32]


class Top:
    """A tree that grows from its root, node 0. Nodes are numbered in the order of their creation."""

    def __init__(self, root: ExactBlocks) -> None:
        self.blocks = [root]
        self._attribute, self._cut, self._left = [-1], [0], [-1]

    def halve(
        self, node: int, attribute: int, cut: int, exact_n_left: int, exact_left_sum: int
    ) -> tuple[int, int]:
        """Cut a node; return the numbers of its halves."""
        left = len(self.blocks)
        self._attribute[node], self._cut[node], self._left[node] = attribute, cut, left
        self.blocks += halves(self.blocks[node], attribute, cut, exact_n_left, exact_left_sum)
        for values, value in ((self._attribute, -1), (self._cut, 0), (self._left, -1)):
            values += [value, value]
        return left, left + 1

    def route(self, wanted: list[int]) -> Route:
        """A lookup from rows to the nodes `wanted`, none of which is cut; slots are indexes of that list."""
        slot = np.full(len(self.blocks), -1, np.int32)
        slot[wanted] = np.arange(len(wanted), dtype=np.int32)
        cuts = (np.array(each, np.int32) for each in (self._attribute, self._cut, self._left))
        return Route._make([*cuts, slot])

    def ends(self) -> list[int]:
        """Nodes that are not cut, depth-first, left before right."""
        ends, stack = [], [0]
        while stack:
            node = stack.pop()
            if self._attribute[node] < 0:
                ends.append(node)
            else:
                stack += [self._left[node] + 1, self._left[node]]
        return ends


def halves(
    block: ExactBlocks, attribute: int, cut: int, exact_n_left: int, exact_left_sum: int
) -> list[ExactBlocks]:
    """The left and the right half of a block, with keys derived from its own."""
    words = np.empty(2 * KEY_WORDS, np.uint32)
    child_keys(block.keys[0], words)
    upper, lower = block.upper.copy(), block.lower.copy()
    upper[0, attribute] = lower[0, attribute] = cut
    middle, right_sum = block.exact_first + exact_n_left, block.exact_sum - exact_left_sum
    left_key, right_key = words[None, :KEY_WORDS], words[None, KEY_WORDS:]
    left_sum, depth = block.exact_sum - right_sum, block.depth + 1
    return [
        ExactBlocks(block.lower, upper, depth, left_key, block.exact_first, middle, left_sum),
        ExactBlocks(lower, block.upper, depth, right_key, middle, block.exact_last, right_sum),
    ]


@compiled
def slots_of(codes, route):  # type: ignore[no-untyped-def]
    """The slot of each row's block, shape (n_rows,), int32."""
    slots = np.empty(len(codes), np.int32)
    for i in range(len(codes)):
        node = 0
        while route.attribute[node] >= 0:
            node = route.left[node] + (codes[i, route.attribute[node]] >= route.cut[node])
        slots[i] = route.slot[node]
    return slots


@compiled
def add_statistics(codes, counts, slots, offsets, least_above, out):  # type: ignore[no-untyped-def]
    """Add rows to the statistics of their blocks: integers that add up over any parts of the rows.

    offsets: where each attribute's values begin, (n_attributes,); n_values: values of all attributes.
    least_above: per slot, the least count above the mean of that block.
    out: (n_slots, 2 + 2·n_values), int64: number and sum of the cells with at least that count; records per
        value; occupied cells per value.
    """
    n_values = (out.shape[1] - 2) // 2
    for i in range(len(counts)):
        slot, x = slots[i], counts[i]
        if slot < 0:
            continue
        statistics = out[slot]
        if x >= least_above[slot]:
            statistics[0] += 1
            statistics[1] += x
        for a in range(codes.shape[1]):
            at = 2 + offsets[a] + codes[i, a]
            statistics[at] += x
            statistics[at + n_values] += 1


@compiled
def add_above(codes, counts, slots, offsets, lower, upper, least_left, least_right, out):  # type: ignore[no-untyped-def]
    """Add rows to the cells above the mean of either side of every cut of their blocks.

    lower, upper: bounds per slot. least_left, least_right: (n_slots, n_values): the least count above the
        mean of a side of cut v, at offsets[a] + lower[a] + v; the first v + 1 values go left.
    out: (n_slots, 3·n_values), int64: at those places, the cells of the left side with at least that count,
        those of the right side, and the records in both.
    """
    n_values = out.shape[1] // 3
    for i in range(len(counts)):
        slot, x = slots[i], counts[i]
        if slot < 0:
            continue
        statistics = out[slot]
        for a in range(codes.shape[1]):
            first, value = offsets[a] + lower[slot, a], codes[i, a] - lower[slot, a]
            n_cuts = upper[slot, a] - lower[slot, a] - 1
            for v in range(min(value, n_cuts)):
                reaches = x >= least_right[slot, first + v]
                statistics[n_values + first + v] += reaches
                statistics[2 * n_values + first + v] += x * reaches
            for v in range(value, n_cuts):
                reaches = x >= least_left[slot, first + v]
                statistics[first + v] += reaches
                statistics[2 * n_values + first + v] += x * reaches
