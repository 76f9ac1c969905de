"""Cuts guided by a base measure: where a block's records depart most from what the base says of it.

The base is released before anything is cut, so all it says of a block is public: its share of all records,
    how it spreads over each
attribute's values, which cuts are worth a look, and when a block is too small to be cut. Only the choice
among those cuts looks at records.

The base is a Markov forest over bins of the attributes (see docs/method.md). One pass over the attributes,
children before parents, tells the share of a block; one pass back tells how it spreads.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.partition.cut import UNDECIDED, by_inversion
from hdpview.partition.deviations import histograms
from hdpview.partition.kernels import compiled, unmanaged
from hdpview.privacy.randomness import draw

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Guide(NamedTuple):
    """A base measure as arrays. Values of all attributes stand in one array: value v of attribute a at
    offsets[a] + v.

    parent: shape (n_attributes,): the attribute each depends on, or −1. order: all attributes, parents before
        their children.
    n_bins: shape (n_attributes,). table: shape (n_attributes, most bins, most bins): chance of a bin (last
        axis) given the parent's.
    bin_of_code, shape: shape (n_values,): bin of a value, and its share of that bin.
    least_share: blocks that hold less of the base are not cut. n_quantiles: cuts considered are those next to
        these quantiles.
    steps, most: the grid on which cuts are scored; see `privacy/grid.py`.
    """

    parent: Ints
    order: Ints
    n_bins: Ints
    table: Floats
    offsets: Ints
    bin_of_code: Ints
    shape: Floats
    least_share: float
    n_quantiles: int
    steps: float
    most: float


_NONE = np.zeros(0, np.int64)
NO_GUIDE = Guide(_NONE, _NONE, _NONE, np.zeros((0, 0, 0)), _NONE, _NONE, np.zeros(0), 0.0, 0, 1.0, 1.0)


class GuideWork(NamedTuple):
    """Scratch space for one block. held, inside, message, spread: shape (n_attributes, most bins).

    held: the block's share of each bin by shape. inside: the same, times what the attributes below say.
        message: what an attribute says to
    its parent, per bin of the parent. spread: the share of the block's records in each bin, by the base.
    cut_attribute, cut_at: the cuts considered.
    """

    held: Floats
    inside: Floats
    message: Floats
    spread: Floats
    cut_attribute: Ints
    cut_at: Ints


@compiled
def new_guide_work(guide):  # type: ignore[no-untyped-def]
    """Scratch space for blocks under this guide."""
    n, most = guide.table.shape[0], guide.table.shape[2]
    whole, cuts = np.zeros((4, n, most)), np.empty((2, n * max(1, guide.n_quantiles)), np.int64)
    return GuideWork(whole[0], whole[1], whole[2], whole[3], cuts[0], cuts[1])


@unmanaged
def cut_by_guide(  # type: ignore[no-untyped-def]
    codes,
    counts,
    first,
    last,
    offsets,
    lower,
    upper,
    depth,
    total,
    epsilon,
    n_levels,
    guide,
    room,
    key,
    stream,
    work,
):
    """Attribute and cut point of a block, or −1 where it stays whole, which is decided without a look at its
    records.
    """
    n_cuts = candidate_cuts(lower, upper, depth, n_levels, guide, room)
    if n_cuts == 0:
        return -1, -1
    histograms(codes, counts, first, last, offsets, lower, upper, work)
    return choose_cut(
        lower, total, work.sums, offsets, n_cuts, epsilon, guide, room, key, stream, work.deviations
    )


@unmanaged
def candidate_cuts(lower, upper, depth, n_levels, guide, room):  # type: ignore[no-untyped-def]
    """Write the cuts worth a look into `room`, attribute by attribute; returns their number, 0 for a block
    that stays whole. [P9]

    Public: it depends on the block, the depth and the base, which is released. A cut has the code that is the
        first on its right.
    """
    if depth > n_levels or share_of_block(lower, upper, guide, room) < guide.least_share:
        return 0
    spread_over_bins(guide, room)
    n_cuts = 0
    for a in range(len(lower)):
        share, before, quantile, taken = 0.0, 0.0, 1, lower[a]
        for v in range(lower[a], upper[a] - 1):
            before = share
            share += _share_of_value(a, v, guide, room)
            while quantile < guide.n_quantiles and (
                share >= quantile / guide.n_quantiles or v == upper[a] - 2
            ):
                target = quantile / guide.n_quantiles
                cut = v if v > lower[a] and target - before < share - target else v + 1
                if cut > taken:
                    room.cut_attribute[n_cuts], room.cut_at[n_cuts] = a, cut
                    n_cuts += 1
                    taken = cut
                quantile += 1
    return n_cuts


@unmanaged
def choose_cut(lower, total, sums, offsets, n_cuts, epsilon, guide, room, key, stream, scores):  # type: ignore[no-untyped-def]
    """The exponential mechanism with score |S_L − S·share of the left side|, whose sensitivity is 1: P(cut) ∝
    exp(ε·score / 2). [P9] The attribute is UNDECIDED where doubles cannot tell.

    sums: records per value, value v of attribute a at offsets[a] + v. `scores` is scratch space.
    """
    score_cuts(lower, total, sums, offsets, n_cuts, guide, room, scores)
    chosen = by_inversion(scores, n_cuts, epsilon / 2.0, draw(key, 0, stream), 0.0)  # [P9]
    if chosen < 0:
        return UNDECIDED, UNDECIDED
    return room.cut_attribute[chosen], room.cut_at[chosen]


@unmanaged
def score_cuts(lower, total, sums, offsets, n_cuts, guide, room, scores):  # type: ignore[no-untyped-def]
    """Write −|S_L − S·share| of each cut in `room` into `scores`."""
    a, v, left, share = -1, 0, 0, 0.0
    for i in range(n_cuts):
        if room.cut_attribute[i] != a:
            a, left, share = room.cut_attribute[i], 0, 0.0
            v = lower[a]
        while v < room.cut_at[i]:
            left += sums[offsets[a] + v]
            share += _share_of_value(a, v, guide, room)
            v += 1
        scores[i] = -departure(left, total - left, share, guide)


@unmanaged
def departure(left, right, share, guide):  # type: ignore[no-untyped-def]
    """|S_L − S·share|, without rounding, from the records on either side and the left one's share: a record
    more on a side moves it by 1 at most. [P9]
    """
    on_grid = math.floor(min(share, 1.0) * guide.steps) / guide.steps
    held_left, held_right = min(float(left), guide.most), min(float(right), guide.most)
    return abs(held_left - (held_left + held_right) * on_grid)


@unmanaged
def _share_of_value(a, v, guide, room):  # type: ignore[no-untyped-def]
    """Share of the block's records at one value of an attribute, by the base."""
    at = guide.offsets[a] + v
    c = guide.bin_of_code[at]
    return room.spread[a, c] * guide.shape[at] / room.held[a, c]


@unmanaged
def share_of_block(lower, upper, guide, room):  # type: ignore[no-untyped-def]
    """The share of all records in a block, by the base. Leaves in `room` what `spread_over_bins` needs."""
    held, inside = room.held, room.inside
    for a in range(len(lower)):
        for c in range(guide.n_bins[a]):
            held[a, c] = 0.0
        for v in range(lower[a], upper[a]):
            held[a, guide.bin_of_code[guide.offsets[a] + v]] += guide.shape[guide.offsets[a] + v]
        for c in range(guide.n_bins[a]):
            inside[a, c] = held[a, c]
    share = 1.0
    for i in range(len(lower) - 1, -1, -1):
        a = guide.order[i]
        parent = guide.parent[a]
        for row in range(1 if parent < 0 else guide.n_bins[parent]):
            message = 0.0
            for c in range(guide.n_bins[a]):
                message += guide.table[a, row, c] * inside[a, c]
            room.message[a, row] = message
            if parent >= 0:
                inside[parent, row] *= message
        if parent < 0:
            share *= room.message[a, 0]
    return share


@unmanaged
def spread_over_bins(guide, room):  # type: ignore[no-untyped-def]
    """How the records of the block last asked for spread over each attribute's bins, by the base: into
    `room.spread`.
    """
    spread, message = room.spread, room.message
    for i in range(len(guide.order)):
        a = guide.order[i]
        parent = guide.parent[a]
        for c in range(guide.n_bins[a]):
            spread[a, c] = 0.0
        for row in range(1 if parent < 0 else guide.n_bins[parent]):
            given = 1.0 if parent < 0 else spread[parent, row]
            if given <= 0.0 or message[a, row] <= 0.0:
                continue
            given /= message[a, row]
            for c in range(guide.n_bins[a]):
                spread[a, c] += given * guide.table[a, row, c] * room.inside[a, c]
