"""Answers add up, lie inside their intervals, and keep the guarantee despite rounding."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from people_views import cell_view, predicates, random_view

from cells import view_of
from hdpview.domain import Datetime, Integer, Real, Schema
from hdpview.pview import PView
from hdpview.view.blocks import Blocks

KINDS = ("typical", "guaranteed", "noise")
FAST = settings(max_examples=120, deadline=None)


@FAST
@given(
    st.integers(0, 2**32 - 1), predicates, st.sampled_from([0.5, 0.9, 0.95, 0.9999]),
    st.sampled_from(["raw", "consistent"]),
)  # fmt: skip
def test_intervals_hold_the_estimate(seed, predicate, confidence, reading):
    view = random_view(seed)
    for kind in KINDS:
        answer = view.count(predicate, confidence=confidence, counts=reading, interval=kind)
        interval = getattr(answer, kind)
        assert interval.lower <= answer.estimate <= interval.upper
        assert (answer.lower, answer.upper) == interval
        if reading == "consistent":
            assert min(answer.estimate, interval.lower) >= 0


@FAST
@given(st.integers(0, 2**32 - 1), predicates)
def test_more_confidence_never_narrows_an_interval(seed, predicate):
    view = random_view(seed)
    wide, narrow = (view.count(predicate, confidence=level, counts="raw") for level in (0.99, 0.9))
    for kind in KINDS:
        assert getattr(wide, kind).lower <= getattr(narrow, kind).lower + 1e-9
        assert getattr(wide, kind).upper >= getattr(narrow, kind).upper - 1e-9


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(predicates, min_size=1, max_size=4))
def test_one_by_one_or_all_at_once_makes_no_difference(seed, asked):
    view = random_view(seed)
    for reading in ("raw", "consistent"):
        batch = view.count_many([*asked, *["sex = 'F'"] * 200], counts=reading)
        for i, predicate in enumerate(asked):
            alone = view.count(predicate, counts=reading)
            for kind in KINDS:
                assert tuple(getattr(batch[i], kind)) == pytest.approx(tuple(getattr(alone, kind)), abs=1e-6)
            assert batch[i].estimate == pytest.approx(alone.estimate, abs=1e-6)


def test_bins_cut_through_take_their_share():
    schema = Schema(
        [
            Integer(name="age", min=0, max=29, every=10),
            Real(name="income", min=0.0, max=4.0, bins=2),
            Datetime(name="day", min="2024-01-01", max="2024-01-20", every="10d"),
        ]
    )
    view = cell_view(schema, np.arange(1, 13).reshape(3, 2, 2) * 100)
    counts = {
        "age < 25": 1000 + 2600 + 0.5 * 4200,
        "age BETWEEN 5 AND 14": 0.5 * 1000 + 0.5 * 2600,
        "age = 7": 0.1 * 1000,
        "age = 7 OR age = 8 OR age = 7": 0.2 * 1000,
        "age >= -50 AND age <= 500": 7800,
        "age > 29": 0,
        "income < 0.5": 0.25 * 3300,
        "income BETWEEN 1 AND 3": 0.5 * 7800,
        "day < DATE '2024-01-06'": 0.5 * 3600,
        "day >= TIMESTAMP '2024-01-11 12:00:00'": 0.95 * 4200,
    }
    estimates = view.count_many(list(counts), counts="raw").estimate
    # A real number at an end that belongs to the range takes a sliver of its bin.
    assert estimates == pytest.approx(list(counts.values()), rel=2e-6, abs=1e-6)


def test_a_dictionary_means_what_its_sql_means():
    view = random_view(3)
    for mapping, text in (
        ({"age": (3, 5)}, "age BETWEEN 3 AND 5"),
        ({"region": ["North", "West"]}, "region IN ('North', 'West')"),
        ({"age": None, "sex": "F"}, "age IS NULL AND sex = 'F'"),
        ({"smoker": True, "children": -1}, "smoker AND children = -1"),
        ({}, "TRUE"),
    ):
        assert view.count(mapping) == view.count(text)


MOMENTS = Datetime(name="a", min="1700-01-01", max="2199-12-31", every="1mo")


def one_block_view(schema: Schema, n_records: int) -> PView:
    lower, upper = np.zeros((1, len(schema)), np.int32), np.array([schema.sizes], np.int32)
    return view_of(schema, Blocks(lower, upper, np.array([n_records]), np.ones(1, np.int32), 1.0))


def test_the_guarantee_holds_where_one_cell_is_less_than_rounding():
    schema = Schema([Integer(name=name, min=0, max=9_999) for name in "abcdef"])
    view = one_block_view(schema, 1_000)
    nearly_all = "NOT (" + " AND ".join(f"{name} = 1" for name in schema.names) + ")"
    for questions in ([nearly_all], [nearly_all] * 40):
        assert view.count_many(questions).guaranteed[:, 0].max() < 10
    for questions in (["a < 5000 OR a >= 5000"], ["a < 5000 OR a >= 5000"] * 40):
        assert view.count_many(questions).guaranteed[:, 0].min() > 990


def test_sums_of_huge_counts_do_not_overflow():
    schema = Schema([Integer(name="a", min=0, max=1_999)])
    view = cell_view(schema, np.full(2_000, 2**53))
    for reading in ("raw", "consistent"):
        for n in (1, 40):
            found = view.count_many([None] * n, counts=reading)
            assert found.estimate == pytest.approx(np.full(n, 2_000 * 2.0**53))
            assert found.guaranteed[0] == pytest.approx(np.full(2, 2_000 * 2.0**53))


@pytest.mark.parametrize(
    ("attribute", "condition", "side"),
    [
        (Integer(name="a", min=0, max=10**18 - 1, every=10**17), f"a = {5 * 10**17 + 12345}", 1),
        (MOMENTS, "a = TIMESTAMP '2150-05-03 12:00:00.000007'", 1),
        (Integer(name="a", min=0, max=65_000), "NOT (a = 1 AND b = 2)", 0),
    ],
    ids=["a very wide bin", "one moment of a long axis", "one cell of billions is left out"],
)
def test_all_records_of_a_block_may_lie_in_a_tiny_part(attribute, condition, side):
    schema = Schema([attribute, Integer(name="b", min=0, max=65_000)])
    end = one_block_view(schema, 1_000).count(condition).guaranteed[side]
    assert end >= 1_000 if side else end < 10
