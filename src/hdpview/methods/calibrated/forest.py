"""Which attributes depend on which: pairs chosen with noise, so that all attributes hang together in one
tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hdpview.privacy.choice import choose
from hdpview.privacy.grid import grid_for
from hdpview.privacy.randomness import Draws

Floats = NDArray[np.float64]
Pair = tuple[int, int]


def exact_dependence(
    exact_tables: Mapping[Pair, NDArray[np.int64]], shares: Sequence[Floats], total: float
) -> dict[Pair, float]:
    """How far each pair of attributes is from independence: Σ |count − total·share·share|, of sensitivity 1.
    [P10]

    shares: of each attribute's bins; like the total, they are released.
    """
    return {
        (a, b): _departure(table, total * np.outer(shares[a], shares[b]), total)
        for (a, b), table in exact_tables.items()
    }


def _departure(exact_table: NDArray[np.int64], expected: Floats, total: float) -> float:
    """Σ |count − expected|, without rounding; counts and what is expected are held at the grid's bound."""
    grid = grid_for(total, expected.size)
    on_grid = np.floor(np.minimum(expected, grid.most) * grid.steps) / grid.steps
    return float(np.abs(np.minimum(exact_table, grid.most) - on_grid).sum())


def choose_tree(exact_scores: Mapping[Pair, float], n: int, epsilon: Fraction, draws: Draws) -> list[Pair]:
    """Pairs that connect n attributes, n − 1 of them, one by one: P(pair) ∝ exp(ε·score / 2) among those that
    connect two parts. [P10]
    """
    pairs, scores = np.array(list(exact_scores)), np.array(list(exact_scores.values()))
    part, chosen = np.arange(n), []
    for _ in range(n - 1):
        open_pairs = np.flatnonzero(part[pairs[:, 0]] != part[pairs[:, 1]])
        drawn = open_pairs[choose(scores[open_pairs], epsilon / 2, draws)]  # [P10]
        a, b = (int(attribute) for attribute in pairs[drawn])
        chosen.append((a, b))
        part[part == part[b]] = part[a]
    return chosen


def parents(edges: Sequence[Pair], n: int) -> list[int]:
    """The parent of each attribute when the tree hangs from its most central one; −1 for that one."""
    neighbours: list[list[int]] = [[] for _ in range(n)]
    for a, b in edges:
        neighbours[a].append(b)
        neighbours[b].append(a)
    depths = [_depths(neighbours, root) for root in range(n)]
    root = min(range(n), key=lambda a: max(depths[a]))
    return [
        -1 if a == root else next(b for b in neighbours[a] if depths[root][b] < depths[root][a])
        for a in range(n)
    ]


def _depths(neighbours: Sequence[Sequence[int]], root: int) -> list[int]:
    depth, found = [-1] * len(neighbours), [root]
    depth[root] = 0
    for a in found:
        for b in neighbours[a]:
            if depth[b] < 0:
                depth[b] = depth[a] + 1
                found.append(b)
    return depth
