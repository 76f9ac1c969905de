"""Errors over all questions of a workload, against questions written down one by one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Integer, Schema
from hdpview.errors import QueryError
from hdpview_bench import workload_errors
from hdpview_bench.workload_errors import (
    N_RANDOM_QUESTIONS,
    WorkloadErrors,
    attribute_sets,
    possible_workloads,
)
from hdpview_bench.workloads import WORKLOADS, CodeBoxes

Box = tuple[slice, ...]


@dataclass(frozen=True)
class DenseRelease:
    """Any numbers at all in a dense cube, answered by adding cells up."""

    cube: NDArray[np.float64]

    def marginal(self, attributes: Sequence[int]) -> NDArray[np.float64]:
        others = tuple(a for a in range(self.cube.ndim) if a not in attributes)
        kept = sorted(attributes)
        return self.cube.sum(axis=others).transpose([kept.index(a) for a in attributes])

    def answer(self, boxes: CodeBoxes) -> NDArray[np.float64]:
        found = []
        for attribute, lower, upper in zip(boxes.attribute, boxes.lower, boxes.upper, strict=True):
            box = [slice(None)] * self.cube.ndim
            for a, low, high in zip(attribute, lower, upper, strict=True):
                box[a] = slice(low, high)
            found.append(self.cube[tuple(box)].sum())
        return np.array(found)


def all_boxes(workload: str, sizes: tuple[int, ...]) -> Iterator[Box]:
    """Every question of a workload, spelled out."""
    kind, number = workload.split("-")
    for attributes in itertools.combinations(range(len(sizes)), int(number[0])):
        for codes in itertools.product(*(range(sizes[a]) for a in attributes)):
            for start in range(codes[0] + 1) if kind == "range" else (0,):
                box = [slice(None)] * len(sizes)
                for a, code in zip(attributes, codes, strict=True):
                    low = {"range": start, "marginal": code, "prefix": 0}[kind]
                    box[a] = slice(low, code + 1)
                yield tuple(box)


def table(sizes: tuple[int, ...], seed: int = 1) -> tuple[SparseCounts, NDArray[np.float64], DenseRelease]:
    """Some counts, the same as a cube, and a release that is wrong everywhere."""
    rng = np.random.default_rng(seed)
    cube = rng.poisson(0.7, sizes)
    codes = np.argwhere(cube).astype(np.uint8)
    schema = Schema(Integer(name=f"a{i}", min=0, max=size - 1) for i, size in enumerate(sizes))
    counts = SparseCounts(schema, np.ascontiguousarray(codes), cube[tuple(codes.T)].astype(np.int64))
    return counts, cube.astype(float), DenseRelease(cube + rng.normal(0, 3, sizes))


@pytest.mark.parametrize("sizes", [(4, 1, 3, 2), (2, 5, 3), (6, 2)])
def test_errors_are_those_of_every_question_asked_one_by_one(sizes: tuple[int, ...]) -> None:
    """Ranges, marginals and prefixes of tiny tables, pooled over all attribute sets, equal brute force over
    the spelled-out questions.
    """
    counts, truth, release = table(sizes)
    found = WorkloadErrors(counts).rmse(release, list(WORKLOADS))
    for workload in (name for name in found if not name.startswith("random")):
        squares = [(release.cube[box].sum() - truth[box].sum()) ** 2 for box in all_boxes(workload, sizes)]
        assert found[workload] == pytest.approx(math.sqrt(np.mean(squares))), workload


def test_random_ranges_are_three_thousand_and_always_the_same() -> None:
    """Two measurements of one release agree exactly, and equal the error against the cube itself on boxes of
    the stated number.
    """
    counts, truth, release = table((4, 3, 3, 2))
    asked: list[CodeBoxes] = []

    class Watching(DenseRelease):
        def answer(self, boxes: CodeBoxes) -> NDArray[np.float64]:
            asked.append(boxes)
            return super().answer(boxes)

    first = WorkloadErrors(counts).rmse(Watching(release.cube), ["random-3d"])
    second = WorkloadErrors(counts).rmse(Watching(release.cube), ["random-3d"])
    assert first == second
    assert len(asked[0]) == N_RANDOM_QUESTIONS
    assert (asked[0].lower == asked[1].lower).all()
    squares = (release.answer(asked[0]) - DenseRelease(truth).answer(asked[0])) ** 2
    assert first["random-3d"] == pytest.approx(math.sqrt(squares.mean()))


def test_the_truth_itself_has_no_error() -> None:
    """A release of the exact counts scores zero on all eight workloads."""
    counts, truth, _ = table((4, 3, 3, 2))
    assert set(WorkloadErrors(counts).rmse(DenseRelease(truth), list(WORKLOADS)).values()) == {0.0}


def test_measuring_leaves_a_release_as_it_was() -> None:
    """A release may hand out the array it keeps: differences are taken on a copy."""
    counts, _, release = table((4, 3, 3, 2))
    before = release.cube.copy()
    WorkloadErrors(counts).rmse(release, list(WORKLOADS))
    assert (release.cube == before).all()


def test_workloads_of_more_attributes_than_there_are_have_no_questions() -> None:
    """A table of two attributes has no three-way marginals; unknown workloads are named."""
    assert possible_workloads(list(WORKLOADS), 2) == ["range-1d", "marginal-2", "prefix-2d", "random-2d"]
    with pytest.raises(QueryError, match="Did you mean 'marginal-3'"):
        possible_workloads(["marginal-33"], 5)


def test_very_many_attribute_sets_are_capped_by_a_fixed_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """All sets below the cap; above it, the same distinct sets each time."""
    assert attribute_sets(22, 3) == list(itertools.combinations(range(22), 3))
    monkeypatch.setattr(workload_errors, "MOST_SETS", 50)
    chosen = attribute_sets(22, 3)
    assert chosen == attribute_sets(22, 3)
    assert len(set(chosen)) == 50
    assert {a for attributes in chosen for a in attributes} == set(range(22))
