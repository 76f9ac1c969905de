"""Answers from blocks that were halved along many attributes at once, which have too many children to store
as boxes.

A child of a block is a choice of halves h ∈ {0,1}^c of the c cut attributes; its count x(h) is stored in an
array. A question on k attributes needs only sums of x weighted by Π_a f_a(h_a) over these attributes. With
f_a(h) = p_a + (−1)^h·m_a such a sum is Σ_S X(S)·Π_{a ∈ S} m_a·Π_{a ∉ S} p_a over subsets S of these
attributes, where X is the Walsh–Hadamard transform of x: 2^k numbers of X instead of 2^c of x. So X is
stored, which is exact because X has whole numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpview.jit import numba as nb
from hdpview.view.rectangles import Rectangles
from hdpview_bench.workloads import CodeBoxes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def middle_of(lower: Ints, upper: Ints) -> Ints:
    """The code at which a range is halved; the lower half of an odd range is the longer one."""
    return (lower + upper + 1) // 2


@dataclass(frozen=True, eq=False)
class PrivtreeRelease:
    """Leaves of all splits, as Walsh–Hadamard transforms of their noisy counts.

    lower, upper: shape (n_splits, n_attributes), the blocks that were split; bit: same shape, the bit of an
        attribute in a child's index, −1 where it was not cut.
    transformed: all transforms one after another; those of split i begin at `first[i]`.
    """

    lower: Ints
    upper: Ints
    bit: Ints
    first: Ints
    transformed: Ints
    n_blocks: int

    def answer(self, boxes: CodeBoxes) -> Floats:
        middle = middle_of(self.lower, self.upper)
        arrays = (np.ascontiguousarray(a) for a in (boxes.attribute, boxes.lower, boxes.upper))
        answers: Floats = _answers(
            *arrays, self.lower, middle, self.upper, self.bit, self.first, self.transformed
        )
        return answers

    def marginal(self, attributes: Sequence[int]) -> Floats:
        """Every split adds a rectangle for each combination of halves of these attributes."""
        chosen = list(attributes)
        ends = np.stack([self.lower, middle_of(self.lower, self.upper), self.upper])[:, :, chosen]
        was_cut = self.bit[:, chosen] >= 0
        lowers, uppers, densities = [], [], []
        for halves in itertools.product((0, 1), repeat=len(chosen)):
            half = np.array(halves)
            # an attribute that was not cut has one range, counted once
            there = (was_cut | (half == 0)).all(axis=1)
            lower = np.where(half == 0, ends[0], ends[1])[there]
            upper = np.where((half == 0) & was_cut, ends[1], ends[2])[there]
            sums = _sums_of_halves(
                np.flatnonzero(there), np.array(chosen), half, self.bit, self.first, self.transformed
            )
            lowers.append(lower)
            uppers.append(upper)
            densities.append(sums / (upper - lower).prod(axis=1))
        shape = tuple(int(size) for size in self.upper[0, chosen])  # the first split is the whole domain's
        grid = Rectangles(np.concatenate(lowers).T, np.concatenate(uppers).T, shape)
        return grid.sums(np.concatenate(densities)[None]).reshape(shape)


@nb.njit(cache=True, nogil=True)
def walsh_hadamard(x):  # type: ignore[no-untyped-def]
    """Walsh–Hadamard transform in place: X(S) = Σ_h x(h)·(−1)^{|S ∩ h|}, sets as bits. x: (2^c,) int64."""
    half = 1
    while half < len(x):
        for start in range(0, len(x), 2 * half):
            for i in range(start, start + half):
                x[i], x[i + half] = x[i] + x[i + half], x[i] - x[i + half]
        half *= 2


@nb.njit(cache=True, nogil=True)
def _share(low, high, start, end):  # type: ignore[no-untyped-def]
    """Share of the codes start to end − 1 that lie in low to high − 1."""
    return max(0.0, min(high, end) - max(low, start)) / (end - start)


@nb.njit(cache=True, nogil=True)
def _weighted_sum(transform, first, bits, even, odd, n):  # type: ignore[no-untyped-def]
    """Σ_h x(h) Π_{j<n} (even_j + (−1)^{h at bits_j}·odd_j), from the transform of x that begins at
    `first`.
    """
    total = 0.0
    for subset in range(1 << n):
        weight, place = 1.0, first
        for j in range(n):
            if subset >> j & 1:
                weight *= odd[j]
                place += 1 << bits[j]
            else:
                weight *= even[j]
        total += weight * transform[place]
    return total


@nb.njit(cache=True, nogil=True)
def _answers(attribute, low, high, lower, middle, upper, bit, first, transform):  # type: ignore[no-untyped-def]
    n, k = attribute.shape
    answers, bits, even, odd = np.zeros(n), np.empty(k, np.int64), np.empty(k), np.empty(k)
    for q in range(n):
        for split in range(len(first)):
            outside, n_cut = 1.0, 0
            for j in range(k):
                a = attribute[q, j]
                start, end = lower[split, a], upper[split, a]
                if bit[split, a] < 0:
                    outside *= _share(low[q, j], high[q, j], start, end)
                else:
                    below = _share(low[q, j], high[q, j], start, middle[split, a])
                    above = _share(low[q, j], high[q, j], middle[split, a], end)
                    bits[n_cut], even[n_cut], odd[n_cut] = (
                        bit[split, a],
                        (below + above) / 2,
                        (below - above) / 2,
                    )
                    n_cut += 1
                    if below == 0.0 and above == 0.0:
                        outside = 0.0
                if outside == 0.0:
                    break
            if outside > 0.0:
                answers[q] += outside * _weighted_sum(transform, first[split], bits, even, odd, n_cut)
    return answers


@nb.njit(cache=True, nogil=True)
def _sums_of_halves(splits, attributes, half, bit, first, transform):  # type: ignore[no-untyped-def]
    """Sum of the leaves of each split in these halves of these attributes; uncut attributes are ignored."""
    k = len(attributes)
    sums, bits, even, odd = np.empty(len(splits)), np.empty(k, np.int64), np.full(k, 0.5), np.empty(k)
    for i in range(len(splits)):
        n_cut = 0
        for j in range(k):
            if bit[splits[i], attributes[j]] >= 0:
                bits[n_cut], odd[n_cut] = bit[splits[i], attributes[j]], 0.5 - half[j]
                n_cut += 1
        sums[i] = _weighted_sum(transform, first[splits[i]], bits, even, odd, n_cut)
    return sums
