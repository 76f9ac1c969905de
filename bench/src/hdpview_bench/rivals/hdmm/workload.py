"""A workload as HDMM needs it: how often each set of attributes is queried, and how questions on one
attribute overlap.

A question is a product of one vector per attribute: a range if it is queried, all ones otherwise. The mean
squared error of any strategy depends on the workload only through the mean of q·qᵀ over its questions, which
is a sum of products: over sets S of attributes, P(S) · ⊗_{i∈S} Gᵢ · ⊗_{i∉S} (all ones).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from hdpview_bench.workloads import kind_for

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Workload:
    """Sets of attributes, how often each is queried (shape (n_sets,), sum 1), and per attribute the mean of
    q·qᵀ (size, size).
    """

    sizes: tuple[int, ...]
    sets: list[tuple[int, ...]]
    frequency: Floats
    overlaps: list[Floats]

    @property
    def is_of_cells(self) -> bool:
        """Whether all questions are about single codes, so that ranges need no care."""
        return all(np.count_nonzero(overlap - np.diag(np.diag(overlap))) == 0 for overlap in self.overlaps)


def workload_named(name: str, sizes: tuple[int, ...]) -> Workload:
    """One of the paper's workloads, as `workloads.py` draws from it."""
    kind, k = kind_for(name, sizes)
    sets = list(combinations(range(len(sizes)), k))
    per_attribute = {"random": np.ones(len(sizes)), "range": np.array([n * (n + 1) / 2 for n in sizes])}
    weight = per_attribute.get(kind, np.array(sizes, dtype=np.float64))
    frequency = np.array([weight[list(chosen)].prod() for chosen in sets])
    return Workload(sizes, sets, frequency / frequency.sum(), [_OVERLAPS[kind](n) for n in sizes])


def _all_ranges(n: int) -> Floats:
    """Every range of n codes once: how many, as a share, hold both of two codes."""
    code = np.arange(n)
    low, high = np.minimum.outer(code, code), np.maximum.outer(code, code)
    overlap: Floats = (low + 1) * (n - high) / (n * (n + 1) / 2)
    return overlap


def _prefixes(n: int) -> Floats:
    """Every prefix of n codes once."""
    code = np.arange(n)
    overlap: Floats = (n - np.maximum.outer(code, code)) / n
    return overlap


def _random_ranges(n: int) -> Floats:
    """Ranges between two codes drawn uniformly, both inside: 1 − P(both above low) − P(both below high) +
    P(both between).
    """
    code = np.arange(n)
    low, high = np.minimum.outer(code, code), np.maximum.outer(code, code)
    overlap: Floats = (
        1 - ((n - 1 - low) / n) ** 2 - (high / n) ** 2 + (np.maximum(high - low - 1, 0) / n) ** 2
    )
    return overlap


def _single_codes(n: int) -> Floats:
    return np.eye(n) / n


_OVERLAPS: dict[str, Callable[[int], Floats]] = {
    "random": _random_ranges,
    "range": _all_ranges,
    "prefix": _prefixes,
    "marginal": _single_codes,
}
