"""Every question of a workload, written out: the oracle for formulas about all of them."""

import itertools
import math
from functools import reduce

import numpy as np

from dense import Floats
from hdpview_bench.workloads import CodeBoxes

Range = tuple[int, int, float]  # half-open codes, and how often they are drawn


def ranges_of(kind: str, n: int) -> list[Range]:
    if kind == "marginal":
        return [(code, code + 1, 1.0) for code in range(n)]
    if kind == "prefix":
        return [(0, code + 1, 1.0) for code in range(n)]
    pairs = [(low, high) for low in range(n) for high in range(low, n)]
    if kind == "range":
        return [(low, high + 1, 1.0) for low, high in pairs]
    return [(low, high + 1, (1.0 + (low < high)) / n**2) for low, high in pairs]


def all_questions(workload: str, sizes: tuple[int, ...]) -> tuple[CodeBoxes, Floats]:
    """The questions, and how often `workloads.draw` draws each."""
    kind, number = workload.split("-")
    rows = [
        (chosen, [r[0] for r in ranges], [r[1] for r in ranges], math.prod(r[2] for r in ranges))
        for chosen in itertools.combinations(range(len(sizes)), int(number[0]))
        for ranges in itertools.product(*(ranges_of(kind, sizes[a]) for a in chosen))
    ]
    boxes = CodeBoxes(*(np.array([row[j] for row in rows], dtype=np.int64) for j in range(3)))
    frequency = np.array([row[3] for row in rows])
    return boxes, frequency / frequency.sum()


def as_vectors(boxes: CodeBoxes, sizes: tuple[int, ...]) -> Floats:
    """Questions as vectors over all cells of the domain, shape (n, n_cells)."""
    rows = []
    for attribute, lower, upper in zip(boxes.attribute, boxes.lower, boxes.upper, strict=True):
        axes = [np.ones(size) for size in sizes]
        for i, low, high in zip(attribute, lower, upper, strict=True):
            axes[i] = ((np.arange(sizes[i]) >= low) & (np.arange(sizes[i]) < high)).astype(float)
        rows.append(reduce(np.kron, axes))
    return np.array(rows)
