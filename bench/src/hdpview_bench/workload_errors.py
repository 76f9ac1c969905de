"""Error of a release on the paper's workloads, over all their questions, and on three more.

The paper's questions are not listed one by one. All cells of the k-way marginals are computed at once;
prefixes are running sums of the same differences, and all ranges of an attribute follow from the running sum
of its histogram. Random ranges are 3,000 boxes that are the same in every run.

`range-k` has random ranges of k attributes. `cell-k` (also `populated-k`) has cells of k attributes at the
location of a random record, where people usually look. `relations` is explained in `relations.py`.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts
from hdpview.errors import QueryError, unknown_name
from hdpview.jit import numba as nb
from hdpview.methods.protocol import Release
from hdpview.privacy.exact import unprotected
from hdpview_bench import workloads as paper
from hdpview_bench.questions import populated_cells, random_ranges
from hdpview_bench.relations import Relation, exact_relations, relation_errors
from hdpview_bench.workloads import CodeBoxes, draw, n_attributes_of

PAPER_WORKLOADS = paper.WORKLOADS
RELATIONS = "relations"
RANGES = {f"range-{k}": k for k in (1, 2, 3, 4)}
POPULATED = {"populated-2": 2, "populated-3": 3, "cell-1": 1, "cell-2": 2, "cell-3": 3}
WORKLOADS = (*PAPER_WORKLOADS, "populated-2", "populated-3", RELATIONS, *RANGES, "cell-1", "cell-2", "cell-3")
# Workload for which a workload-dependent method is built if the measured one is not the paper's.
NEAREST_WORKLOAD = {
    **{name: f"random-{k}d" if k > 1 else "range-1d" for name, k in RANGES.items()},
    **{name: f"marginal-{k}" if k > 1 else "range-1d" for name, k in POPULATED.items()},
    RELATIONS: "marginal-2",
}

N_RANDOM_QUESTIONS = 3_000
MOST_SETS = 2_000  # attribute sets of one workload; includes all sets for k = 3 up to 23 attributes
_SEED = 20220509  # seed of the questions; public, because no noise comes from it

Floats = NDArray[np.float64]


def possible_workloads(workloads: list[str], n_attributes: int) -> list[str]:
    """Workloads that apply to a table with this number of attributes."""
    for name in workloads:
        if name not in WORKLOADS:
            raise QueryError(unknown_name("workload", name, WORKLOADS, "The workloads are"))
    return [name for name in workloads if n_attributes_of(NEAREST_WORKLOAD.get(name, name)) <= n_attributes]


def attribute_sets(n_attributes: int, k: int) -> list[tuple[int, ...]]:
    """All sets of k attributes, or a fixed sample of `MOST_SETS` of them."""
    sets = list(combinations(range(n_attributes), k))
    if len(sets) <= MOST_SETS:
        return sets
    chosen = np.random.default_rng(_SEED).choice(len(sets), MOST_SETS, replace=False)
    return [sets[i] for i in np.sort(chosen)]


class WorkloadErrors:
    """The true answers for one table, to measure releases with. Exact: for benchmarks only."""

    def __init__(self, counts: SparseCounts) -> None:
        self._sizes = counts.schema.sizes
        self._exact_codes = np.ascontiguousarray(counts.exact_codes.T.astype(np.int64))
        self._exact_counts = counts.exact_counts.astype(np.float64)
        self._counts = counts

    def measure(self, release: Release, workloads: list[str]) -> dict[str, dict[str, float]]:
        """The measurements of each workload, by name: its RMSE, or the figures of `relations`."""
        by_workload = {
            name: {"rmse": rmse}
            for name, rmse in self.rmse(release, [w for w in workloads if w != RELATIONS]).items()
        }
        if RELATIONS in workloads:
            errors = relation_errors(release, self._relations)
            if errors is not None:
                by_workload[RELATIONS] = asdict(errors)
        return by_workload

    @cached_property
    def _relations(self) -> list[Relation]:
        return exact_relations(self._counts)

    def rmse(self, release: Release, workloads: list[str]) -> dict[str, float]:
        """Root of the mean squared error over all questions of each workload; workloads the table is too
        narrow for are left out.
        """
        asked = possible_workloads(workloads, len(self._sizes))
        totals: dict[str, float] = {}
        for k in (2, 3):
            if {f"marginal-{k}", f"prefix-{k}d"} & set(asked):
                totals[f"marginal-{k}"], totals[f"prefix-{k}d"] = self._marginals_and_prefixes(release, k)
        if "range-1d" in asked:
            totals["range-1d"] = self._ranges(release)
        for name in asked:
            if name not in totals:
                boxes, truth = self._random_questions[name]
                totals[name] = math.sqrt(float(((release.answer(boxes) - truth) ** 2).mean()))
        return {name: totals[name] for name in asked}

    def _ranges(self, release: Release) -> float:
        """Σ over i < j of (cᵢ − cⱼ)² is n·Σc² − (Σc)² for running sums c: all ranges in one pass. [n = size +
        1 ends]
        """
        squares, n_questions = 0.0, 0
        for a, size in enumerate(self._sizes):
            running = np.concatenate([[0.0], np.cumsum(self._difference(release, (a,)))])
            running -= running.mean()
            squares += (size + 1) * float((running**2).sum())
            n_questions += size * (size + 1) // 2
        return math.sqrt(squares / n_questions)

    def _marginals_and_prefixes(self, release: Release, k: int) -> tuple[float, float]:
        squares, n_questions = np.zeros(2), 0
        for attributes in attribute_sets(len(self._sizes), k):
            difference = self._difference(release, attributes)
            squares += _squares(difference.reshape(-1, *difference.shape[-2:]))
            n_questions += difference.size
        cells, prefixes = np.sqrt(squares / n_questions).tolist()
        return cells, prefixes

    def _difference(self, release: Release, attributes: tuple[int, ...]) -> Floats:
        """Estimated minus true records per combination of codes."""
        shape = tuple(self._sizes[a] for a in attributes)
        difference = np.array(release.marginal(attributes), dtype=np.float64, order="C", copy=True)
        if difference.shape != shape:
            raise AssertionError(f"a marginal of shape {difference.shape} where {shape} was asked for")
        strides = np.array([math.prod(shape[i + 1 :]) for i in range(len(shape))], dtype=np.int64)
        _take_away(
            difference.reshape(-1),
            self._exact_codes,
            np.array(attributes, dtype=np.int64),
            strides,
            self._exact_counts,
        )
        return difference

    @cached_property
    def _random_questions(self) -> dict[str, tuple[CodeBoxes, Floats]]:
        """Boxes and their true answers per workload of random ranges, and of populated cells."""
        questions = {}
        for number, name in enumerate(WORKLOADS):
            rng = np.random.default_rng([_SEED, number])
            boxes = None
            if name.startswith("random"):
                boxes = draw(name, self._sizes, N_RANDOM_QUESTIONS, rng)
            elif RANGES.get(name, math.inf) <= len(self._sizes):
                boxes = random_ranges(self._sizes, RANGES[name], N_RANDOM_QUESTIONS, rng)
            elif POPULATED.get(name, math.inf) <= len(self._sizes):
                boxes = populated_cells(self._counts, POPULATED[name], N_RANDOM_QUESTIONS, rng)
            if boxes is not None:
                truth = unprotected(self._counts.exact_box_counts(boxes)).astype(np.float64)
                questions[name] = boxes, truth
        return questions


@nb.njit(cache=True, nogil=True)
def _take_away(cells, codes, attributes, strides, counts):  # type: ignore[no-untyped-def]
    """Subtract each occupied cell's count from the cell of the marginal it falls into."""
    for i in range(len(counts)):
        place = 0
        for j in range(len(attributes)):
            place += codes[attributes[j], i] * strides[j]
        cells[place] -= counts[i]


@nb.njit(cache=True, nogil=True)
def _squares(cells):  # type: ignore[no-untyped-def]
    """Sums of squares of the cells and of all prefix sums, of shape (n, m, l), in one pass. A pair has n
    = 1.
    """
    n, m, l = cells.shape  # noqa: E741
    slab = np.zeros((m, l))  # prefix sums of all slabs so far
    row = np.empty(l)  # running sums down this slab's columns
    of_cells, of_prefixes = 0.0, 0.0
    for i in range(n):
        row[:] = 0.0
        for j in range(m):
            along = 0.0
            for k in range(l):
                cell = cells[i, j, k]
                of_cells += cell * cell
                along += cell
                row[k] += along
                slab[j, k] += row[k]
                of_prefixes += slab[j, k] * slab[j, k]
    return np.array([of_cells, of_prefixes])
