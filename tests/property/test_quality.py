"""A view's measurement of its own errors changes by at most one with a record, and finds errors. [P16]"""

from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cells import random_mixture, tables_of
from dense import counts_of, tensor_of
from hdpview.build import release
from hdpview.counts.sparse import SparseCounts
from hdpview.methods import Hdpview, Mixture, quality
from hdpview.privacy.exact import Exact, unprotected
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.randomness import Randomness
from hdpview.query.errors.questions import questions_about
from hdpview.view.data import ViewPart
from hdpview.view.mixture import Mixture as Components
from hdpview.view.quality import Quality, prior_quality
from hdpview_bench.audit.tables import sparse

SMALL = (5, 4, 3)


def view_of(cells: NDArray[np.int64], method: str) -> ViewPart:
    made = release(
        sparse(cells), Fraction(1), Mixture() if method == "mixture" else Hdpview(),
        Randomness.from_test_key(b"view"), quality=False,
    )  # fmt: skip
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
    at=st.tuples(*(st.integers(0, n - 1) for n in SMALL)),
)
@settings(max_examples=15, deadline=None)
def test_scores_move_by_one_at_most(method, seed, crowd, at):
    rng = np.random.default_rng(seed)
    cells = rng.poisson(crowd * rng.random(SMALL)).astype(np.int64)
    more = cells.copy()
    more[at] += 1
    part = view_of(rng.poisson(crowd * rng.random(SMALL)).astype(np.int64), method)
    for without, with_it in zip(scores_on(part, sparse(cells)), scores_on(part, sparse(more)), strict=True):
        assert (without == np.rint(without)).all()
        assert np.abs(without - with_it).max() <= 1


@given(seed=st.integers(0, 2**32 - 1), k=st.integers(1, 3))
@settings(max_examples=15, deadline=None)
def test_no_record_satisfies_two_questions_of_a_group(seed, k):
    """Each cell of the domain lies in one question of a group at most, and in exactly one of each grid."""
    rng = np.random.default_rng(seed)
    asked = questions_about(view_of(rng.poisson(5.0, SMALL).astype(np.int64), "mixture"), k)
    cells = np.stack(np.meshgrid(*map(np.arange, SMALL), indexing="ij"), axis=-1).reshape(-1, len(SMALL))
    values = cells[:, asked.boxes.attribute]
    inside = ((asked.boxes.lower <= values) & (values < asked.boxes.upper)).all(axis=2)
    for group in range(int(asked.group[-1]) + 1):
        hits = inside[:, asked.group == group].sum(axis=1)
        assert hits.max() <= 1
        assert group % 2 or hits.min() == 1


SIZES = (7, 5, 2, 3)


def _part(seed: int = 3) -> ViewPart:
    mixture = random_mixture(SIZES, seed)
    tables = tables_of(mixture, seed)
    return ViewPart(mixture, prior_quality(mixture, tables), tables)


def _independent(sizes: tuple[int, ...], total: float) -> Components:
    bins = tuple(np.arange(size, dtype=np.int32) for size in sizes)
    even = tuple(np.full((size, 1), 1.0 / size) for size in sizes)
    return Components(
        np.array([total]), bins, tuple(np.ones(size) for size in sizes), even, np.zeros(1, np.int32)
    )


def _measured(part: ViewPart, rows: NDArray[np.int64], epsilon: Fraction, key: bytes = b"q") -> Quality:
    counts = counts_of(tensor_of(rows, part.components.sizes))
    return quality.measure_quality(part, counts, Mechanism(epsilon, Randomness.from_test_key(key)))


def test_dependence_that_a_view_does_not_know_is_measured():
    """A view that takes attributes for independent finds a larger factor on a table where they are not, and a
    smaller one where they are."""
    rng = np.random.default_rng(1)
    mixture = _independent(SIZES, 50_000.0)
    part = ViewPart(mixture, prior_quality(mixture), tables_of(mixture, 1)[: len(SIZES)])
    independent = rng.integers(0, SIZES, (50_000, len(SIZES)))
    dependent = independent.copy()
    dependent[:, 2] = dependent[:, 0] % 2
    found = [_measured(part, rows, Fraction(1)).factors[1] for rows in (independent, dependent)]
    assert found[0] < 0.03
    assert found[1] > 0.1


def test_groups_of_small_errors_do_not_hide_what_large_ones_show():
    """Of three attributes with many values, single cells hold next to nothing, and ranges show that a view
    which is right knows all: the factor falls well below what other tables suggest."""
    sizes, n = (40, 30, 20), 30_000
    mixture = _independent(sizes, float(n))
    part = ViewPart(mixture, prior_quality(mixture), tables_of(mixture, 1))
    rows = np.random.default_rng(2).integers(0, sizes, (n, len(sizes)))
    drawn = [_measured(part, rows, Fraction(1, 25), b"%d" % i).factors[2] for i in range(20)]
    assert np.median(drawn) < 0.25 * part.quality.factors[2]


def test_a_draw_counts_as_much_as_it_means():
    part = _part()
    prior = part.quality.factors
    asked = questions_about(part, 2)
    little, much = (quality.choice_of(asked, prior, 2, Fraction(epsilon)) for epsilon in ("1e-6", "1e3"))
    assert np.ptp(np.log2(little.factors / prior[1])) < 0.01
    middle = slice(16, 28)  # beyond these, expected errors are those of noise, or of a few candidates only
    assert much.factors[middle] == pytest.approx(prior[1] * 2.0 ** quality.EXPONENTS[middle], rel=0.2)
    assert (np.diff(much.factors) >= 0).all()
