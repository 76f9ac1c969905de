"""The paper's workloads: questions drawn at random, to measure with and to tell what a view is good for.

A workload is a set of boxes of codes: all ranges of one attribute, all cells of all k-way marginals, all
prefixes of k attributes, or random ranges of k attributes. Questions are drawn uniformly from that set.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from hdpview.domain.tables import CodeBoxes as CodeBoxes  # most take it from here
from hdpview.errors import QueryError, unknown_name
from hdpview.query.question.batch import Batch, Functions

WORKLOADS = (
    "range-1d",
    "marginal-2",
    "prefix-2d",
    "marginal-3",
    "prefix-3d",
    "random-2d",
    "random-3d",
    "random-4d",
)
Ints = NDArray[np.int64]


def n_attributes_of(workload: str) -> int:
    """How many attributes each question of a workload is about."""
    return int(workload.split("-")[1][0])


def kind_for(workload: str, sizes: Sequence[int]) -> tuple[str, int]:
    """The kind of a workload's ranges, such as `prefix`, and how many attributes each of its questions is
    about. Raises where there is no such workload, or where a domain of these sizes has too few attributes.
    """
    if workload not in WORKLOADS:
        raise QueryError(unknown_name("workload", workload, WORKLOADS, "The workloads are"))
    k = n_attributes_of(workload)
    if k > len(sizes):
        raise QueryError(
            f"The workload {workload} asks about {k} attributes at once; this domain has {len(sizes)}."
        )
    return workload.split("-")[0], k


def draw(workload: str, sizes: tuple[int, ...], n: int, rng: Generator) -> CodeBoxes | None:
    """Draw `n` questions; None where the domain has too few attributes."""
    if workload not in WORKLOADS:
        raise QueryError(unknown_name("workload", workload, WORKLOADS, "The workloads are"))
    kind, k = workload.split("-")[0], n_attributes_of(workload)
    if k > len(sizes):
        return None
    width = np.array(sizes, dtype=np.int64)
    if kind == "random":
        attribute = np.argsort(rng.random((n, len(sizes))), axis=1)[:, :k]
        ends = np.sort(rng.integers(0, width[attribute][..., None], (n, k, 2)), axis=2)
        return CodeBoxes(attribute, ends[..., 0], ends[..., 1] + 1)
    if kind == "range":
        weight = width * (width + 1) / 2.0
        attribute = rng.choice(len(sizes), (n, 1), p=weight / weight.sum())
        ends = _uniform_ranges(width[attribute[:, 0]], rng)
        return CodeBoxes(attribute, ends[:, :1], ends[:, 1:])
    attribute = _subsets(width, k, n, rng)
    code = rng.integers(0, width[attribute])
    return CodeBoxes(attribute, code if kind == "marginal" else np.zeros_like(code), code + 1)


def _uniform_ranges(width: Ints, rng: Generator) -> Ints:
    """A range uniform among all with lower < upper ≤ width, shape (n, 2)."""
    ends = rng.integers(0, width[:, None] + 1, (len(width), 2))
    while (bad := ends[:, 0] == ends[:, 1]).any():
        ends[bad] = rng.integers(0, width[bad, None] + 1, (int(bad.sum()), 2))
    return np.sort(ends, axis=1)


def _subsets(width: Ints, k: int, n: int, rng: Generator) -> Ints:
    """Attribute sets in proportion to their number of cells, shape (n, k)."""
    sets = np.array(list(combinations(range(len(width)), k)), dtype=np.int64)
    weight = width[sets].astype(np.float64).prod(axis=1)
    chosen: Ints = sets[rng.choice(len(sets), n, p=weight / weight.sum())]
    return chosen


def pack_boxes(boxes: CodeBoxes, sizes: Sequence[int]) -> Batch:
    """The same questions as a batch of counts."""
    n = len(boxes)
    functions: dict[int, Functions] = {}
    row = np.zeros(boxes.attribute.shape, np.int64)
    for a in np.unique(boxes.attribute).tolist():
        here, codes = boxes.attribute == a, np.arange(sizes[a])
        ends, row[here] = np.unique(
            np.stack([boxes.lower[here], boxes.upper[here]], axis=1), axis=0, return_inverse=True
        )
        functions[a] = Functions(((codes >= ends[:, :1]) & (codes < ends[:, 1:])).astype(np.float64))
    return Batch(n, np.arange(n), np.ones(n), boxes.attribute, row, functions)
