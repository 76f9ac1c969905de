"""Which tables to measure: drawn by the exponential mechanism, by how far the model so far is from each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hdpview.privacy.exact import Exact
from hdpview.privacy.mechanism import Mechanism

_PURPOSE = "choice of tables"


def choose(
    mechanism: Mechanism,
    scores: Exact,
    n: int,
    amount: Fraction,
    n_before: int = 0,
    still_open: Callable[[list[int]], NDArray[np.bool_]] | None = None,
) -> list[int]:
    """`n` of the scored tables, drawn one after another, none twice: each draw costs `amount`. [P9]

    n_before: choices that were made before; they are numbered. still_open: from those drawn so far, which
        of all may
        be drawn next; fewer than n are drawn where none may.
    """
    chosen: list[int] = []
    for _ in range(n):
        possible = np.ones(scores.shape[0], bool) if still_open is None else still_open(chosen)
        possible[chosen] = False
        if not possible.any():
            break
        purpose = f"{_PURPOSE}: {n_before + len(chosen) + 1}"
        chosen.append(mechanism.choose(purpose, scores, amount, among=possible))
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
