"""How a view measures its own errors: groups of questions, what one record moves, and what is found."""

from __future__ import annotations

from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from numpy.typing import NDArray

from cells import random_mixture, tables_of
from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Integer, Schema
from hdpview.methods import quality
from hdpview.privacy.exact import Exact, unprotected
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.randomness import Randomness
from hdpview.query.errors.questions import questions_about
from hdpview.view.data import ViewPart
from hdpview.view.mixture import Mixture
from hdpview.view.quality import Quality, prior_quality

SIZES = (7, 5, 2, 3)
SCHEMA = Schema([Integer(name=f"a{i}", min=0, max=size - 1) for i, size in enumerate(SIZES)])


def _part(seed: int = 3) -> ViewPart:
    mixture = random_mixture(SIZES, seed)
    tables = tables_of(mixture, seed)
    return ViewPart(mixture, prior_quality(mixture, tables), tables)


def _counts(rows: NDArray[np.int64]) -> SparseCounts:
    cells, counts = np.unique(rows, axis=0, return_counts=True)
    return SparseCounts(SCHEMA, np.ascontiguousarray(cells.astype(np.uint8)), counts.astype(np.int64))


def _measured(part: ViewPart, rows: NDArray[np.int64], epsilon: int) -> Quality:
    return quality.measure_quality(
        part, _counts(rows), Mechanism(Fraction(epsilon), Randomness.from_test_key(b"q"))
    )


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_no_cell_lies_in_two_questions_of_a_group(k: int) -> None:
    """[P16] rests on it: every cell of the domain satisfies at most one question of each group."""
    asked = questions_about(_part(), k)
    cells = np.stack(np.meshgrid(*map(np.arange, SIZES), indexing="ij"), axis=-1).reshape(-1, len(SIZES))
    at = cells[:, asked.boxes.attribute]
    inside = ((asked.boxes.lower <= at) & (at < asked.boxes.upper)).all(axis=2)
    for group in np.unique(asked.group):
        assert inside[:, asked.group == group].sum(axis=1).max() == 1


def test_one_record_moves_scores_by_one_at_most() -> None:
    """Scores of all factors, with one record more, are the same but for one."""
    part, rng = _part(), np.random.default_rng(5)
    rows = rng.integers(0, SIZES, (800, len(SIZES)))
    seen: list[NDArray[np.float64]] = []

    def note(_self: Mechanism, _purpose: str, scores: Exact, *_rest: object) -> int:
        seen.append(unprotected(scores))
        return 20

    with patch.object(Mechanism, "choose", note):
        for more in range(6):
            _measured(part, np.concatenate([rows, rng.integers(0, SIZES, (min(more, 1), len(SIZES)))]), 1)
    first, rest = seen[:4], seen[4:]
    moved = [np.abs(scores - first[i % 4]).max() for i, scores in enumerate(rest)]
    assert max(moved) == 1


def test_dependence_that_a_view_does_not_know_is_measured() -> None:
    """A view that takes attributes for independent finds a larger factor on a table where they are not, and a
    smaller one where they are."""
    rng = np.random.default_rng(1)
    even = [np.full((size, 1), 1.0 / size) for size in SIZES]
    bins = tuple(np.arange(size, dtype=np.int32) for size in SIZES)
    mixture = Mixture(
        np.array([50_000.0]), bins, tuple(np.ones(size) for size in SIZES), tuple(even), np.zeros(1, np.int32)
    )
    part = ViewPart(mixture, prior_quality(mixture), tables_of(mixture, 1)[: len(SIZES)])
    independent = rng.integers(0, SIZES, (50_000, len(SIZES)))
    dependent = independent.copy()
    dependent[:, 2] = dependent[:, 0] % 2
    found = [_measured(part, rows, 1).factors[1] for rows in (independent, dependent)]
    assert found[0] < 0.03
    assert found[1] > 0.1


def test_groups_of_small_errors_do_not_hide_what_large_ones_show() -> None:
    """Of three attributes with many values, single cells hold next to nothing, and ranges show that a view
    which is right knows all: the factor falls well below what other tables suggest."""
    sizes, n = (40, 30, 20), 30_000
    even = tuple(np.full((size, 1), 1.0 / size) for size in sizes)
    bins = tuple(np.arange(size, dtype=np.int32) for size in sizes)
    mixture = Mixture(
        np.array([float(n)]), bins, tuple(np.ones(size) for size in sizes), even, np.zeros(1, np.int32)
    )
    part = ViewPart(mixture, prior_quality(mixture), tables_of(mixture, 1))
    schema = Schema([Integer(name=f"a{i}", min=0, max=size - 1) for i, size in enumerate(sizes)])
    rows = np.random.default_rng(2).integers(0, sizes, (n, len(sizes)))
    cells, counts = np.unique(rows, axis=0, return_counts=True)
    table = SparseCounts(schema, np.ascontiguousarray(cells.astype(np.uint8)), counts.astype(np.int64))
    drawn = [
        quality.measure_quality(
            part, table, Mechanism(Fraction(1, 25), Randomness.from_test_key(b"%d" % i))
        ).factors[2]
        for i in range(20)
    ]
    assert np.median(drawn) < 0.25 * part.quality.factors[2]
