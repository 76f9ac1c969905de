"""Exact values reveal nothing, and their transforms change by no more than stated."""

import copy
import operator
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdpview.privacy.exact import MOST_RECORDS, Exact, unprotected

EXACT = Exact(np.array([3, 1, 2]))


@pytest.mark.parametrize(
    "use",
    [
        np.asarray, np.sum, float, int, complex, bool, str, format, list, len, hash, abs, round, operator.neg,
        pickle.dumps, copy.copy, copy.deepcopy, iter, reversed, operator.index, "{}".format,
        lambda exact: exact[0], lambda exact: exact == exact, lambda exact: exact > 0,
        lambda exact: 1 in exact,
        lambda exact: exact + 1, lambda exact: np.ones(3) * exact, lambda exact: np.ones(3) - exact,
        lambda exact: f"{exact}", lambda exact: np.array([exact, exact], dtype=float),
    ],
)  # fmt: skip
def test_an_exact_value_becomes_nothing_else(use):
    with pytest.raises(TypeError):
        use(EXACT)


def test_an_exact_value_shows_its_shape_alone():
    assert repr(EXACT) == "Exact(not released)"
    assert EXACT.shape == (3,)


COUNTS = st.lists(st.integers(0, 2**53), min_size=1, max_size=20)


@given(COUNTS, st.integers(0, 19), st.floats(0, 1e16))
def test_one_record_moves_each_transform_by_what_it_says(counts, place, expected):
    before = np.array(counts, np.int64)
    after = before.copy()
    after[place % len(counts)] += 1
    group = np.arange(len(counts)) // 3
    near = np.zeros((2, group[-1] + 1), np.int64)

    def transforms(exact: Exact) -> list[Exact]:
        errors = exact.errors(np.full(len(counts), expected), group)
        return [exact.total(), errors, errors.nearness(near, 0, np.ones(group[-1] + 1, bool))]

    for one, two in zip(transforms(Exact(before)), transforms(Exact(after)), strict=True):
        moved = np.abs(unprotected(two).astype(object) - unprotected(one).astype(object))
        assert np.max(moved) <= 1
        assert np.sum(moved) <= one.in_all


def test_totals_do_not_wrap():
    many = Exact(np.full(5_000, MOST_RECORDS))
    assert unprotected(many.total()).tolist() == [MOST_RECORDS]
