"""PrivTree (Zhang, Xiao, Xie, SIGMOD 2016): split into all halves at once, as long as a block's count, biased by depth, is large.

The definition. Of the budget, half grows the tree and half pays for noise on the leaves' counts. A block with count c at depth t (the
whole domain has depth 0) is split if b + Lap(λ) > θ, where b = max(θ − δ, c − tδ), θ = 0, λ = (2β − 1)/((β − 1)·ε_tree) and
δ = λ·ln β. A split halves every attribute that has more than one code left, which makes up to β = 2^d children; with `n_cut_attributes` = k
the attributes take turns, k at a time, and β = 2^k. Where fewer attributes are left, there are fewer children and the same λ and δ: the
proof runs along one path and asks for no siblings. A block of one cell is never split, which is public.

Children without records are not made one by one, and nothing is lost by that. Below the root, an empty block has b = −δ and so
is split with probability P[Lap(λ) > δ] = 1/(2β), each by itself. Instead of a draw for each of m empty children, the gaps between
those that are split are drawn, which are geometric: the same joint law of decisions, at a cost of about one draw per split. Decisions
are all that leaves this step, so the tree has exactly the law of the definition. An empty child that is split becomes a block like
any other; the rest are leaves. Every leaf, occupied or empty, then gets discrete Laplace noise of its own: leaves are held as one
array of numbers per split, not as boxes, so that 2²² of them take 32 MiB. Nothing here is approximate.

A question on k attributes needs, of each split's array x(h), h ∈ {0,1}^c, only sums weighted by Π_a f_a(h_a) over the asked attributes.
With f_a(h) = p_a + (−1)^h·m_a this is Σ_S X(S)·Π_{a ∈ S} m_a·Π_{a ∉ S} p_a over subsets S of the asked attributes, where X is the
Walsh–Hadamard transform of x: 2^k numbers of X instead of 2^c of x. X is what the release holds; it is whole numbers, so nothing is rounded.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numba as nb
import numpy as np
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Schema
from hdpview.errors import MethodError
from hdpview.methods.base import Engine, Floats, Progress
from hdpview.privacy.ledger import Ledger
from hdpview.privacy.noise import noisy_vector
from hdpview.privacy.randomness import Draws, Randomness
from hdpview.query.paint import Rectangles
from hdpview.query.workloads import CodeBoxes

MOST_CUT_ATTRIBUTES = 24
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class SplitRule:
    """When a block is split. noise_scale and bias_per_level are in records; they follow from the budget and the fan-out alone."""

    n_children: int
    noise_scale: float
    bias_per_level: float

    @classmethod
    def choose(cls, n_children: int, epsilon_tree: Fraction) -> SplitRule:
        scale = (2 * n_children - 1) / (n_children - 1) / float(epsilon_tree)
        return cls(n_children, scale, scale * math.log(n_children))

    def chance(self, exact_counts: Ints, depth: int) -> Floats:
        """P[biased count + Lap(noise_scale) > 0] of blocks of this depth, shape of `exact_counts`."""
        biased = np.maximum(-self.bias_per_level, exact_counts - depth * self.bias_per_level) / self.noise_scale
        tail: Floats = 0.5 * np.exp(-np.abs(biased))
        return np.where(biased > 0, 1 - tail, tail)


@dataclass(frozen=True)
class _Block:
    """A block that is to be split: its codes, half-open, shape (n_attributes,), which rows of the table it holds, whose turn it is."""

    lower: Ints
    upper: Ints
    depth: int
    exact_rows: Ints
    turn: int


@dataclass(frozen=True)
class _Split:
    """A block and what its split made. exact_leaves: shape (2^attributes cut,), counts of children that are leaves.

    The child at index i has the upper half of cut attribute j where bit j of i is set. is_leaf: same shape; the others are split in turn.
    """

    block: _Block
    cut: list[int]
    exact_leaves: Ints
    is_leaf: NDArray[np.bool_]


def middle_of(lower: Ints, upper: Ints) -> Ints:
    """Where a range of codes is halved; an odd one has the longer half below."""
    return (lower + upper + 1) // 2


class _Grower:
    """Splits blocks, first come first served: so draws come in an order that the key and the table alone decide."""

    def __init__(self, counts: SparseCounts, rule: SplitRule, n_cut: int, draws: Draws) -> None:
        self._codes, self._counts = counts.exact_codes, counts.exact_counts
        self._sizes, self._rule, self._n_cut, self._draws = np.array(counts.schema.sizes, np.int64), rule, n_cut, draws

    def grow(self) -> list[_Split]:
        """All splits, the whole domain's first. A domain that is not split is a split without cuts: one child, a leaf."""
        whole = _Block(np.zeros_like(self._sizes), self._sizes, 0, np.arange(len(self._counts)), 0)
        total = np.array([self._counts.sum()])
        if self._sizes.max() == 1 or not self._decide(total, 0)[0]:
            return [_Split(whole, [], total, np.ones(1, dtype=bool))]
        waiting, splits = deque([whole]), []
        while waiting:
            split, children = self._split(waiting.popleft())
            splits.append(split)
            waiting.extend(children)
        return splits

    def _decide(self, exact_counts: Ints, depth: int) -> NDArray[np.bool_]:
        return self._draws.uniform(len(exact_counts)) < self._rule.chance(exact_counts, depth)

    def _split(self, block: _Block) -> tuple[_Split, list[_Block]]:
        cut, turn = self._attributes_to_cut(block)
        middle = middle_of(block.lower, block.upper)
        child = np.zeros(len(block.exact_rows), dtype=np.int64)
        for bit, a in enumerate(cut):
            child |= (self._codes[block.exact_rows, a] >= middle[a]).astype(np.int64) << bit
        order = np.argsort(child, kind="stable")
        occupied, first = np.unique(child[order], return_index=True)
        rows = np.split(block.exact_rows[order], first[1:]) if len(occupied) else []
        sums = np.array([self._counts[of_child].sum() for of_child in rows], dtype=np.int64)
        leaves, is_leaf = np.zeros(2 ** len(cut), dtype=np.int64), np.ones(2 ** len(cut), dtype=bool)
        leaves[occupied] = sums
        splits_on = np.flatnonzero(self._decide(sums, block.depth + 1))
        going_on = [(int(occupied[i]), rows[i]) for i in splits_on]
        going_on += [(i, block.exact_rows[:0]) for i in self._empty_children_to_split(occupied, len(leaves))]
        children = []
        for i, its_rows in going_on:
            lower, upper = self._half(block, cut, middle, i)
            if (upper - lower > 1).any():
                is_leaf[i], leaves[i] = False, 0
                children.append(_Block(lower, upper, block.depth + 1, its_rows, turn))
        return _Split(block, cut, leaves, is_leaf), children

    def _attributes_to_cut(self, block: _Block) -> tuple[list[int], int]:
        """The next attributes in turn that can be halved, in their order, and whose turn it is in the children."""
        d = len(self._sizes)
        in_turn = [(block.turn + i) % d for i in range(d)]
        chosen = [a for a in in_turn if block.upper[a] - block.lower[a] > 1][: self._n_cut]
        return sorted(chosen), (chosen[-1] + 1) % d

    def _empty_children_to_split(self, occupied: Ints, n_children: int) -> list[int]:
        """Indices of the empty children that are split: each with probability 1/(2β), by geometric gaps between them."""
        n_empty, chance = n_children - len(occupied), 0.5 / self._rule.n_children
        holes = occupied - np.arange(len(occupied))  # empty children before each occupied one
        found: list[int] = []
        at = -1
        while True:
            gap = math.log1p(-self._draws.uniform(1)[0]) / math.log1p(-chance)
            at = min(at + 1 + int(min(gap, n_children)), n_empty)
            if at == n_empty:
                return found
            found.append(at + int(np.searchsorted(holes, at, side="right")))

    def _half(self, block: _Block, cut: list[int], middle: Ints, child: int) -> tuple[Ints, Ints]:
        lower, upper = block.lower.copy(), block.upper.copy()
        for bit, a in enumerate(cut):
            (lower if child >> bit & 1 else upper)[a] = middle[a]
        return lower, upper


@dataclass(frozen=True, eq=False)
class SplitRelease:
    """Leaves of all splits, as Walsh–Hadamard transforms of their noisy counts.

    lower, upper: shape (n_splits, n_attributes), the blocks that were split; bit: same shape, the bit of an attribute in a child's index,
        −1 where it was not cut.
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
        answers: Floats = _answers(*arrays, self.lower, middle, self.upper, self.bit, self.first, self.transformed)
        return answers

    def marginal(self, attributes: Sequence[int]) -> Floats:
        """Every split paints a rectangle for each combination of halves of these attributes."""
        chosen = list(attributes)
        ends = np.stack([self.lower, middle_of(self.lower, self.upper), self.upper])[:, :, chosen]
        was_cut = self.bit[:, chosen] >= 0
        lowers, uppers, densities = [], [], []
        for halves in itertools.product((0, 1), repeat=len(chosen)):
            half = np.array(halves)
            there = (was_cut | (half == 0)).all(axis=1)  # an attribute that was not cut has one range, counted once
            lower = np.where(half == 0, ends[0], ends[1])[there]
            upper = np.where((half == 0) & was_cut, ends[1], ends[2])[there]
            sums = _sums_of_halves(np.flatnonzero(there), np.array(chosen), half, self.bit, self.first, self.transformed)
            lowers.append(lower)
            uppers.append(upper)
            densities.append(sums / (upper - lower).prod(axis=1))
        shape = tuple(int(size) for size in self.upper[0, chosen])  # the first split is the whole domain's
        grid = Rectangles(np.concatenate(lowers).T, np.concatenate(uppers).T, shape)
        return grid.sums(np.concatenate(densities)[None]).reshape(shape)


@dataclass(frozen=True)
class Privtree:
    """PrivTree. n_cut_attributes: how many attributes a split halves, in turns; None for all."""

    n_cut_attributes: int | None = None

    def __post_init__(self) -> None:
        k = self.n_cut_attributes
        if k is not None and (isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MOST_CUT_ATTRIBUTES):
            raise MethodError(f"n_cut_attributes must be a whole number from 1 to {MOST_CUT_ATTRIBUTES}, or None for all, not {k!r}.")

    @property
    def name(self) -> str:
        return "privtree"

    @property
    def makes_views(self) -> bool:
        return False

    def settings(self) -> Mapping[str, float]:
        return {} if self.n_cut_attributes is None else {"n_cut_attributes": self.n_cut_attributes}

    def _n_cut(self, schema: Schema) -> int:
        """Attributes that the first split halves."""
        n_wide = sum(size > 1 for size in schema.sizes)
        return max(1, n_wide if self.n_cut_attributes is None else min(n_wide, self.n_cut_attributes))

    def why_infeasible(self, schema: Schema, epsilon: float) -> str | None:
        n_cut = self._n_cut(schema)
        if n_cut <= MOST_CUT_ATTRIBUTES:
            return None
        return (
            f"PrivTree would split a block into 2^{n_cut} at once and hold a number for each; it does so up to 2^{MOST_CUT_ATTRIBUTES}. "
            f"Set n_cut_attributes to {MOST_CUT_ATTRIBUTES} or less, or use the method hdpview."
        )

    def release(
        self, counts: SparseCounts, ledger: Ledger, randomness: Randomness, engine: Engine, progress: Progress | None = None
    ) -> SplitRelease:
        n_cut = self._n_cut(counts.schema)
        epsilon_tree = ledger.charge("grow the tree", ledger.epsilon / 2)
        epsilon_counts = ledger.charge("noise on counts", ledger.epsilon / 2)
        rule = SplitRule.choose(2**n_cut, epsilon_tree)
        splits = _Grower(counts, rule, n_cut, Draws(randomness.root_key("privtree"))).grow()
        is_leaf = np.concatenate([split.is_leaf for split in splits])
        leaves = np.concatenate([split.exact_leaves for split in splits])
        leaves[is_leaf] = noisy_vector(leaves[is_leaf], epsilon_counts, randomness, "leaves")
        first = np.cumsum([0, *(len(split.is_leaf) for split in splits)])
        for start, end in itertools.pairwise(first.tolist()):
            _transform(leaves[start:end])
        bit = np.full((len(splits), len(counts.schema.sizes)), -1, dtype=np.int64)
        for i, split in enumerate(splits):
            bit[i, split.cut] = np.arange(len(split.cut))
        lower, upper = (np.array([getattr(split.block, end) for split in splits]) for end in ("lower", "upper"))
        return SplitRelease(lower, upper, bit, first[:-1], leaves, int(is_leaf.sum()))


@nb.njit(cache=True, nogil=True)
def _transform(x):  # type: ignore[no-untyped-def]
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
    """Σ_h x(h) Π_{j<n} (even_j + (−1)^{h at bits_j}·odd_j), from the transform of x that begins at `first`."""
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
                    bits[n_cut], even[n_cut], odd[n_cut] = bit[split, a], (below + above) / 2, (below - above) / 2
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
    """Sum of the leaves of each split in these halves of these attributes; attributes that were not cut do not matter."""
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
