"""PrivTree (Zhang, Xiao, Xie, SIGMOD 2016): halve all attributes of a block at once while its count, biased
by depth, is large.

Definition. Half of the budget grows the tree and half pays for the noise of the leaves. A block with count c
at depth t (the whole domain has depth 0) is split if b + Lap(λ) > θ, where b = max(θ − δ, c − tδ), θ = 0, λ =
(2β − 1)/((β − 1)·ε_tree) and δ = λ·ln β. A split halves every attribute with more than one code left, which
makes up to β = 2^d children. With `n_cut_attributes` = k, the attributes take turns, k at a time, and β =
2^k. If fewer attributes are left, there are fewer children with the same λ and δ: the proof follows one path
and does not depend on siblings. A block of one cell is never split, which is public.

Children without records are not created one by one, which changes nothing. Below the root, an empty block has
b = −δ, so it is split with probability P[Lap(λ) > δ] = 1/(2β), independently. Instead of one draw for each of
m empty children, the gaps between the split ones are drawn. They are geometric, so the decisions have the
same joint law, at about one draw per split. Only decisions leave this step, so the tree has exactly the law
of the definition. An empty child that is split becomes an ordinary block; the others are leaves. Every leaf,
occupied or empty, then gets its own discrete Laplace noise. Leaves are stored as one array of counts per
split, not as boxes, so that 2²² of them take 32 MiB. Nothing here is approximate.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Schema
from hdpview.errors import MethodError
from hdpview.methods.protocol import Floats
from hdpview.privacy.randomness import Randomness
from hdpview_bench.rivals.budget import Budget, CellMethod, Draws, noisy_vector
from hdpview_bench.rivals.privtree_release import PrivtreeRelease, middle_of, walsh_hadamard

MOST_CUT_ATTRIBUTES = 24
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class SplitRule:
    """Whether to split a block. noise_scale, bias_per_level: in records, computed from budget and fan-out
    alone.
    """

    n_children: int
    noise_scale: float
    bias_per_level: float

    @classmethod
    def choose(cls, n_children: int, epsilon_tree: Fraction) -> SplitRule:
        scale = (2 * n_children - 1) / (n_children - 1) / float(epsilon_tree)
        return cls(n_children, scale, scale * math.log(n_children))

    def chance(self, exact_counts: Ints, depth: int) -> Floats:
        """P[biased count + Lap(noise_scale) > 0] of blocks of this depth, shape of `exact_counts`."""
        biased = (
            np.maximum(-self.bias_per_level, exact_counts - depth * self.bias_per_level) / self.noise_scale
        )
        tail: Floats = 0.5 * np.exp(-np.abs(biased))
        return np.where(biased > 0, 1 - tail, tail)


@dataclass(frozen=True)
class _Block:
    """A block to split: its codes, half-open, shape (n_attributes,), which rows of the table it
    holds, whose turn it is.
    """

    lower: Ints
    upper: Ints
    depth: int
    exact_rows: Ints
    turn: int


@dataclass(frozen=True)
class _Split:
    """A block and its children.

    exact_leaves: shape (2^attributes cut,), counts of children that are leaves. The child at index i has the
    upper half of cut attribute j if bit j of i is set. is_leaf: same shape; the others are split in turn.
    """

    block: _Block
    cut: list[int]
    exact_leaves: Ints
    is_leaf: NDArray[np.bool_]


def empty_children_to_split(occupied: Ints, n_children: int, chance: float, draws: Draws) -> list[int]:
    """Indices below `n_children`, none of them in `occupied` (rising), each selected independently with this
    probability, by drawing the gaps between them.
    """
    n_empty, chosen, at = n_children - len(occupied), list[int](), -1
    empty_before = occupied - np.arange(len(occupied))  # empty children before each occupied one
    while True:
        gap = math.log1p(-draws.uniform(1)[0]) / math.log1p(-chance)
        at += 1 + int(min(gap, n_empty))
        if at >= n_empty:
            return chosen
        chosen.append(at + int(np.searchsorted(empty_before, at, side="right")))


class _Grower:
    """Splits blocks in first-in, first-out order, so the order of draws depends on key and table alone."""

    def __init__(self, counts: SparseCounts, rule: SplitRule, n_cut: int, draws: Draws) -> None:
        self._codes, self._counts = counts.exact_codes, counts.exact_counts
        self._sizes, self._rule, self._n_cut, self._draws = (
            np.array(counts.schema.sizes, np.int64),
            rule,
            n_cut,
            draws,
        )

    def grow(self) -> list[_Split]:
        """All splits, the whole domain's first. A domain that is not split has one child, a leaf."""
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
        going_on += [
            (i, block.exact_rows[:0])
            for i in empty_children_to_split(occupied, len(leaves), 0.5 / self._rule.n_children, self._draws)
        ]
        children = []
        for i, its_rows in going_on:
            lower, upper = self._half(block, cut, middle, i)
            if (upper - lower > 1).any():
                is_leaf[i], leaves[i] = False, 0
                children.append(_Block(lower, upper, block.depth + 1, its_rows, turn))
        return _Split(block, cut, leaves, is_leaf), children

    def _attributes_to_cut(self, block: _Block) -> tuple[list[int], int]:
        """The next attributes in turn that can be halved, in order, and the next attribute in turn for the
        children.
        """
        d = len(self._sizes)
        in_turn = [(block.turn + i) % d for i in range(d)]
        chosen = [a for a in in_turn if block.upper[a] - block.lower[a] > 1][: self._n_cut]
        return sorted(chosen), (chosen[-1] + 1) % d

    def _half(self, block: _Block, cut: list[int], middle: Ints, child: int) -> tuple[Ints, Ints]:
        lower, upper = block.lower.copy(), block.upper.copy()
        for bit, a in enumerate(cut):
            (lower if child >> bit & 1 else upper)[a] = middle[a]
        return lower, upper


@dataclass(frozen=True)
class Privtree(CellMethod):
    """PrivTree. n_cut_attributes: how many attributes a split halves, in turns; None for all."""

    name = "privtree"
    n_cut_attributes: int | None = None

    def __post_init__(self) -> None:
        k = self.n_cut_attributes
        if k is not None and (
            isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MOST_CUT_ATTRIBUTES
        ):
            raise MethodError(
                f"n_cut_attributes must be a whole number from 1 to {MOST_CUT_ATTRIBUTES}, or None for "
                f"all, not {k!r}."
            )

    def _n_cut(self, schema: Schema) -> int:
        """Attributes cut by the first split."""
        n_wide = sum(size > 1 for size in schema.sizes)
        return max(1, n_wide if self.n_cut_attributes is None else min(n_wide, self.n_cut_attributes))

    def why_infeasible(self, schema: Schema, epsilon: float) -> str | None:
        n_cut = self._n_cut(schema)
        if n_cut <= MOST_CUT_ATTRIBUTES:
            return None
        return (
            f"PrivTree would split a block into 2^{n_cut} at once and hold a number for each; it does "
            f"so up to 2^{MOST_CUT_ATTRIBUTES}. "
            f"Set n_cut_attributes to {MOST_CUT_ATTRIBUTES} or less, or use the method hdpview."
        )

    def release_cells(self, cells: SparseCounts, budget: Budget, randomness: Randomness) -> PrivtreeRelease:
        n_cut = self._n_cut(cells.schema)
        epsilon_tree = budget.charge("grow the tree", budget.epsilon / 2)
        epsilon_counts = budget.charge("noise on counts", budget.epsilon / 2)
        rule = SplitRule.choose(2**n_cut, epsilon_tree)
        splits = _Grower(cells, rule, n_cut, Draws(randomness.root_key("privtree"))).grow()
        is_leaf = np.concatenate([split.is_leaf for split in splits])
        leaves = np.concatenate([split.exact_leaves for split in splits])
        leaves[is_leaf] = noisy_vector(leaves[is_leaf], epsilon_counts, randomness, "leaves")
        first = np.cumsum([0, *(len(split.is_leaf) for split in splits)])
        for start, end in itertools.pairwise(first.tolist()):
            walsh_hadamard(leaves[start:end])
        bit = np.full((len(splits), len(cells.schema.sizes)), -1, dtype=np.int64)
        for i, split in enumerate(splits):
            bit[i, split.cut] = np.arange(len(split.cut))
        lower, upper = (
            np.array([getattr(split.block, end) for split in splits]) for end in ("lower", "upper")
        )
        return PrivtreeRelease(lower, upper, bit, first[:-1], leaves, int(is_leaf.sum()))
