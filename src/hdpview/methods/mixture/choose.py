"""Which tables to measure: drawn by the exponential mechanism, by how far the model so far is from each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hdpview.privacy import choice
from hdpview.privacy.grid import grid_for
from hdpview.privacy.randomness import Draws

Floats = NDArray[np.float64]


def exact_distance(exact_table: NDArray[np.int64], expected: Floats, total: float) -> float:
    """Σ |count − expected| over the cells of a table, of sensitivity 1 to the last bit. [P9]

    expected and total are released. What is expected is rounded down to a grid, and counts are held at its
    bound, so that the sum has no rounding.
    """
    grid = grid_for(total, expected.size)
    on_grid = np.floor(np.clip(expected, 0, grid.most) * grid.steps) / grid.steps
    return float(np.abs(np.minimum(exact_table, grid.most) - on_grid).sum())


def draw_one(exact_scores: Floats, epsilon: Fraction, draws: Draws) -> int:
    """One of the scored, with probability ∝ exp(ε·score / 2). [P9]"""
    return choice.choose(exact_scores, epsilon / 2, draws)  # [P9]


def choose(
    exact_scores: Floats,
    n: int,
    epsilon: Fraction,
    draws: Draws,
    still_open: Callable[[list[int]], NDArray[np.bool_]] | None = None,
) -> list[int]:
    """`n` of the scored, drawn one after another, none twice: each draw costs ε. [P9]

    still_open: from those drawn so far, which of all may be drawn next; fewer than n are drawn where none
        may.
    """
    chosen: list[int] = []
    for _ in range(n):
        possible = np.ones(len(exact_scores), bool) if still_open is None else still_open(chosen)
        possible[chosen] = False
        left = np.flatnonzero(possible)
        if not len(left):
            break
        chosen.append(int(left[draw_one(exact_scores[left], epsilon, draws)]))
    return chosen


def joins_parts(
    tables: Sequence[tuple[int, ...]], n_attributes: int
) -> Callable[[list[int]], NDArray[np.bool_]]:
    """For a spanning tree: tables whose attributes those chosen so far do not connect."""

    def still_open(chosen: list[int]) -> NDArray[np.bool_]:
        part = np.arange(n_attributes)
        for i in chosen:
            for a in tables[i][1:]:
                part[part == part[a]] = part[tables[i][0]]
        return np.array([len({int(part[a]) for a in table}) > 1 for table in tables])

    return still_open
