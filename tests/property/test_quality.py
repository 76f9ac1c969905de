"""A view's measurements of its own errors change by at most one if a record is added or removed. [P16]"""

from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hdpview.build import release
from hdpview.counts.sparse import SparseCounts
from hdpview.methods import Hdpview, Mixture, quality
from hdpview.privacy.exact import Exact, unprotected
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.randomness import Randomness
from hdpview.query.errors.questions import questions_about
from hdpview.view.data import ViewPart
from hdpview_bench.audit.tables import sparse

SIZES = (5, 4, 3)


def view_of(cells: NDArray[np.int64], method: str) -> ViewPart:
    """A view of a table, before its errors are measured."""
    made = release(
        sparse(cells),
        Fraction(1),
        Mixture() if method == "mixture" else Hdpview(),
        Randomness.from_test_key(b"view"),
        quality=False,
    )
    return made.parts[0]


def scores_on(part: ViewPart, exact_counts: SparseCounts) -> list[NDArray[np.float64]]:
    """The scores of the factors, for each number of attributes, if the first candidate is always drawn."""
    seen: list[NDArray[np.float64]] = []

    def note(_self: Mechanism, _purpose: str, scores: Exact, *_rest: object) -> int:
        seen.append(unprotected(scores))
        return 0

    with patch.object(Mechanism, "choose", note):
        quality.measure_quality(part, exact_counts, Mechanism(Fraction(1), Randomness.fresh()))
    return seen


@pytest.mark.parametrize("method", ["mixture", "hdpview"])
@given(
    seed=st.integers(0, 2**32 - 1),
    crowd=st.integers(0, 60),
    at=st.tuples(*(st.integers(0, n - 1) for n in SIZES)),
)
@settings(max_examples=15, deadline=None)
def test_scores_move_by_one_at_most(method, seed, crowd, at):
    """Whatever the table, the view and the record. Scores are whole numbers, so that draws are exact."""
    rng = np.random.default_rng(seed)
    cells = rng.poisson(crowd * rng.random(SIZES)).astype(np.int64)
    more = cells.copy()
    more[at] += 1
    part = view_of(rng.poisson(crowd * rng.random(SIZES)).astype(np.int64), method)
    for without, with_it in zip(scores_on(part, sparse(cells)), scores_on(part, sparse(more)), strict=True):
        assert (without == np.rint(without)).all()
        assert np.abs(without - with_it).max() <= 1


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 3))
@settings(max_examples=15, deadline=None)
def test_no_record_satisfies_two_questions_of_a_group(seed, k):
    """Each cell of the domain lies in one question of a group at most, and in exactly one of each grid."""
    rng = np.random.default_rng(seed)
    asked = questions_about(view_of(rng.poisson(5.0, SIZES).astype(np.int64), "mixture"), k)
    cells = np.stack(np.meshgrid(*map(np.arange, SIZES), indexing="ij"), axis=-1).reshape(-1, len(SIZES))
    values = cells[:, asked.boxes.attribute]
    inside = ((asked.boxes.lower <= values) & (values < asked.boxes.upper)).all(axis=2)
    for group in range(int(asked.group[-1]) + 1):
        hits = inside[:, asked.group == group].sum(axis=1)
        assert hits.max() <= 1
        assert group % 2 or hits.min() == 1
