"""The paper's workloads: questions drawn at random, to measure methods with.

A workload is a set of boxes of codes: all ranges of one attribute, all cells of all k-way marginals, all
prefixes of k attributes, or random ranges of k attributes. Questions are drawn uniformly from that set.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from hdpview.domain.table_shapes import CodeBoxes as CodeBoxes  # the default of most callers
from hdpview.errors import QueryError, unknown_name
from hdpview.forecast.measured_errors import draw_cells, draw_ranges, draw_single_ranges

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


def n_attributes_of(workload: str) -> int:
    """Number of attributes in each question of a workload."""
    return int(workload.split("-")[1][0])


def kind_for(workload: str, sizes: Sequence[int]) -> tuple[str, int]:
    """The kind of a workload's ranges, such as `prefix`, and the number of attributes per question.

    Raises if there is no such workload, or if a domain of these sizes has too few attributes.
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
    """Draw `n` questions; None if the domain has too few attributes."""
    if workload not in WORKLOADS:
        raise QueryError(unknown_name("workload", workload, WORKLOADS, "The workloads are"))
    kind, k = workload.split("-")[0], n_attributes_of(workload)
    if k > len(sizes):
        return None
    if kind == "range":
        return draw_single_ranges(sizes, n, rng)
    if kind == "random":
        return draw_ranges(sizes, k, n, rng)
    cells = draw_cells(sizes, k, n, rng)
    lower = cells.lower if kind == "marginal" else np.zeros_like(cells.lower)
    return CodeBoxes(cells.attribute, lower, cells.upper)
