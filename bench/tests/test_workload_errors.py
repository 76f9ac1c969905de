"""Errors over all questions of a workload, against questions written down one by one."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from enumerated import all_questions, as_vectors

from dense import Floats, counts_of
from hdpview.counts.sparse import SparseCounts
from hdpview.errors import QueryError
from hdpview_bench import workload_errors
from hdpview_bench.workload_errors import (
    N_RANDOM_QUESTIONS,
    WorkloadErrors,
    attribute_sets,
    possible_workloads,
)
from hdpview_bench.workloads import WORKLOADS, CodeBoxes


@dataclass(frozen=True)
class DenseRelease:
    """Arbitrary numbers in a dense cube, answered by adding up cells."""

    cube: Floats

    def marginal(self, attributes: Sequence[int]) -> Floats:
        others = tuple(a for a in range(self.cube.ndim) if a not in attributes)
        kept = sorted(attributes)
        return self.cube.sum(axis=others).transpose([kept.index(a) for a in attributes])

    def answer(self, boxes: CodeBoxes) -> Floats:
        return as_vectors(boxes, self.cube.shape) @ self.cube.reshape(-1)


def table(sizes: tuple[int, ...]) -> tuple[SparseCounts, DenseRelease, DenseRelease]:
    rng = np.random.default_rng(1)
    cube = rng.poisson(0.7, sizes)
    return counts_of(cube), DenseRelease(cube.astype(float)), DenseRelease(cube + rng.normal(0, 3, sizes))


@pytest.mark.parametrize("sizes", [(4, 1, 3, 2), (2, 5, 3), (6, 2)])
def test_errors_are_those_of_every_question_asked_one_by_one(sizes):
    counts, truth, release = table(sizes)
    rmse = WorkloadErrors(counts).rmse(release, list(WORKLOADS))
    for workload in (name for name in rmse if not name.startswith("random")):
        boxes, _ = all_questions(workload, sizes)
        squares = (release.answer(boxes) - truth.answer(boxes)) ** 2
        assert rmse[workload] == pytest.approx(math.sqrt(squares.mean())), workload


def test_random_ranges_are_three_thousand_and_always_the_same():
    """Two measurements of one release agree exactly, and equal the error on the stated number of boxes."""
    counts, truth, release = table((4, 3, 3, 2))
    asked: list[CodeBoxes] = []

    class Watching(DenseRelease):
        def answer(self, boxes: CodeBoxes) -> Floats:
            asked.append(boxes)
            return super().answer(boxes)

    first = WorkloadErrors(counts).rmse(Watching(release.cube), ["random-3d"])
    second = WorkloadErrors(counts).rmse(Watching(release.cube), ["random-3d"])
    assert first == second
    assert len(asked[0]) == N_RANDOM_QUESTIONS
    assert (asked[0].lower == asked[1].lower).all()
    squares = (release.answer(asked[0]) - truth.answer(asked[0])) ** 2
    assert first["random-3d"] == pytest.approx(math.sqrt(squares.mean()))


def test_workloads_of_more_attributes_than_there_are_have_no_questions():
    assert possible_workloads(list(WORKLOADS), 2) == ["range-1d", "marginal-2", "prefix-2d", "random-2d"]
    with pytest.raises(QueryError, match="Did you mean 'marginal-3'"):
        possible_workloads(["marginal-33"], 5)


def test_very_many_attribute_sets_are_capped_by_a_fixed_choice(monkeypatch):
    assert attribute_sets(22, 3) == list(itertools.combinations(range(22), 3))
    monkeypatch.setattr(workload_errors, "MOST_SETS", 50)
    chosen = attribute_sets(22, 3)
    assert chosen == attribute_sets(22, 3)
    assert len(set(chosen)) == 50
    assert {a for attributes in chosen for a in attributes} == set(range(22))
