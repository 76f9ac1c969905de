"""Answers: they add up, lie inside their intervals, and keep the guarantee at the edges of arithmetic."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from people_views import PEOPLE, block_view, cell_view, predicates, random_view

from cells import view_of
from hdpview.domain import Datetime, Integer, Real, Schema
from hdpview.pview import PView
from hdpview.view.blocks import Blocks

KINDS = ("typical", "guaranteed", "noise")
FAST = settings(max_examples=120, deadline=None)


@FAST
@given(st.integers(0, 2**32 - 1), st.sampled_from(["raw", "consistent"]))
def test_answers_of_disjoint_boxes_add_up(seed: int, reading: str) -> None:
    """The cells of a marginal add up to the marginal of fewer attributes, and to the total."""
    view = random_view(seed)
    cells = [{"children": c, "sex": s} for c in range(-2, 3) for s in ("F", "M")]
    by_cell = view.count_many(cells, counts=reading).estimate.reshape(5, 2)
    by_children = view.count_many([{"children": c} for c in range(-2, 3)], counts=reading).estimate
    assert by_cell.sum(axis=1) == pytest.approx(by_children, abs=1e-6)
    assert by_cell.sum() == pytest.approx(view.count(counts=reading).estimate, abs=1e-6)


@FAST
@given(st.integers(0, 2**32 - 1))
def test_raw_answers_are_sums_of_block_counts(seed: int) -> None:
    """A raw answer over whole blocks is exactly the sum of their noisy counts; the raw total is the sum of
    all.
    """
    view = block_view(seed)
    assert view.count(counts="raw").estimate == view.blocks.noisy_counts.sum()
    split = view.count("age IS NULL OR age IS NOT NULL", counts="raw").estimate
    assert split == pytest.approx(int(view.blocks.noisy_counts.sum()), abs=1e-9)
    b = seed % len(view.blocks)
    ends = zip(view.blocks.lower[b], view.blocks.upper[b] - 1, strict=True)
    parts = []
    for attribute, (low, high) in zip(PEOPLE, ends, strict=True):
        if isinstance(attribute, Integer):
            shown = [
                str(edge)
                for edge in range(attribute.min + low, attribute.min + high + 1)
                if edge <= attribute.max
            ]
        else:
            shown = [
                "'" + label.replace("'", "''") + "'" for label in attribute.value_labels()[low : high + 1]
            ]
        has_null = bool(attribute.nullable and high == attribute.size - 1)
        terms = [f"{attribute.name} IN ({', '.join(shown)})"] * bool(shown) + [
            f"{attribute.name} IS NULL"
        ] * has_null
        parts.append("(" + " OR ".join(terms) + ")")
    assert view.count(" AND ".join(parts), counts="raw").estimate == pytest.approx(
        int(view.blocks.noisy_counts[b]), abs=1e-9
    )


@FAST
@given(
    st.integers(0, 2**32 - 1),
    predicates,
    st.sampled_from([0.5, 0.9, 0.95, 0.9999]),
    st.sampled_from(["raw", "consistent"]),
)
def test_intervals_hold_the_estimate(seed: int, predicate: str, confidence: float, reading: str) -> None:
    """Every interval contains the estimate, in the consistent reading none reaches below 0, and `lower`,
    `upper` are the one asked for.
    """
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
def test_more_confidence_never_narrows_an_interval(seed: int, predicate: str) -> None:
    """The interval at 0.99 contains the one at 0.9."""
    view = random_view(seed)
    wide, narrow = (view.count(predicate, confidence=level, counts="raw") for level in (0.99, 0.9))
    for kind in KINDS:
        assert getattr(wide, kind).lower <= getattr(narrow, kind).lower + 1e-9
        assert getattr(wide, kind).upper >= getattr(narrow, kind).upper - 1e-9


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(predicates, min_size=1, max_size=4))
def test_one_by_one_or_all_at_once_makes_no_difference(seed: int, asked: list[str]) -> None:
    """An answer alone is the same as in a batch that is too large for parts and wholes to be compared."""
    view = random_view(seed)
    for reading in ("raw", "consistent"):
        batch = view.count_many([*asked, *["sex = 'F'"] * 200], counts=reading)
        for i, predicate in enumerate(asked):
            alone = view.count(predicate, counts=reading)
            for kind in KINDS:
                assert tuple(getattr(batch[i], kind)) == pytest.approx(tuple(getattr(alone, kind)), abs=1e-6)
            assert batch[i].estimate == pytest.approx(alone.estimate, abs=1e-6)


def test_bins_cut_through_take_their_share() -> None:
    """A range that ends inside a bin takes the fraction of the bin's values that lie in it, on every kind of
    axis.
    """
    schema = Schema(
        [
            Integer(name="age", min=0, max=29, every=10),
            Real(name="income", min=0.0, max=4.0, bins=2),
            Datetime(name="day", min="2024-01-01", max="2024-01-20", every="10d"),
        ]
    )
    view = cell_view(schema, np.arange(1, 13).reshape(3, 2, 2) * 100)
    by_age, by_income, by_day = [1000, 2600, 4200], [3300, 4500], [3600, 4200]
    counts = {
        "age < 25": by_age[0] + by_age[1] + 0.5 * by_age[2],
        "age BETWEEN 5 AND 14": 0.5 * by_age[0] + 0.5 * by_age[1],
        "age = 7": 0.1 * by_age[0],
        "age = 7 OR age = 8 OR age = 7": 0.2 * by_age[0],
        "age >= -50 AND age <= 500": sum(by_age),
        "age > 29": 0,
        "income < 0.5": 0.25 * by_income[0],
        "income BETWEEN 1 AND 3": 0.5 * sum(by_income),
        "day < DATE '2024-01-06'": 0.5 * by_day[0],
        "day >= TIMESTAMP '2024-01-11 12:00:00'": 0.95 * by_day[1],
    }
    assert view.count_many(list(counts), counts="raw").estimate == pytest.approx(
        list(counts.values()), abs=1e-6
    )


def test_a_dictionary_means_what_its_sql_means() -> None:
    """Pairs are ranges with both ends, lists are alternatives, None is missing, several keys hold
    together.
    """
    view = random_view(3)
    pairs = [
        ({"age": (3, 5)}, "age BETWEEN 3 AND 5"),
        ({"region": ["North", "West"]}, "region IN ('North', 'West')"),
        ({"age": None, "sex": "F"}, "age IS NULL AND sex = 'F'"),
        ({"smoker": True, "children": -1}, "smoker AND children = -1"),
        ({}, "TRUE"),
    ]
    for mapping, text in pairs:
        assert view.count(mapping) == view.count(text)


def one_block_view(schema: Schema, n_records: int) -> PView:
    lower, upper = np.zeros((1, len(schema)), np.int32), np.array([schema.sizes], np.int32)
    return view_of(schema, Blocks(lower, upper, np.array([n_records]), np.ones(1, np.int32), 1.0))


def test_the_guarantee_holds_where_one_cell_of_billions_is_left_out() -> None:
    """A block with a single cell outside the question is not fully inside it: all its records may lie in that
    cell.
    """
    schema = Schema([Integer(name=name, min=0, max=65_000) for name in ("a", "b")])
    assert one_block_view(schema, 1_000).count("NOT (a = 1 AND b = 2)").guaranteed.lower < 10


def test_the_guarantee_holds_where_one_cell_is_less_than_rounding() -> None:
    """One cell of 10^24 vanishes in a sum of weights, alone or in a batch; what a single box covers is
    covered all the same.
    """
    schema = Schema([Integer(name=name, min=0, max=9_999) for name in "abcdef"])
    view = one_block_view(schema, 1_000)
    nearly_all = "NOT (" + " AND ".join(f"{name} = 1" for name in schema.names) + ")"
    for questions in ([nearly_all], [nearly_all] * 40):
        assert view.count_many(questions).guaranteed[:, 0].max() < 10
    for questions in (["a < 5000 OR a >= 5000"], ["a < 5000 OR a >= 5000"] * 40):
        assert view.count_many(questions).guaranteed[:, 0].min() > 990


def test_sums_of_huge_counts_do_not_overflow() -> None:
    """Counts of 2^53 in 2,000 blocks add up to their sum in both readings, alone and in a batch."""
    schema = Schema([Integer(name="a", min=0, max=1_999)])
    view = cell_view(schema, np.full(2_000, 2**53))
    for reading in ("raw", "consistent"):
        for n in (1, 40):
            found = view.count_many([None] * n, counts=reading)
            assert found.estimate == pytest.approx(np.full(n, 2_000 * 2.0**53))
            assert found.guaranteed[0] == pytest.approx(np.full(2, 2_000 * 2.0**53))


def test_the_guarantee_holds_for_one_value_of_a_very_wide_bin() -> None:
    """A question about a single value of a huge bin still touches the block: all its records may have that
    value.
    """
    schema = Schema([Integer(name="a", min=0, max=10**18 - 1, every=10**17)])
    assert one_block_view(schema, 1_000).count(f"a = {5 * 10**17 + 12345}").guaranteed.upper >= 1_000


def test_the_guarantee_holds_for_one_moment_of_a_long_axis() -> None:
    """A question about one microsecond of a month, thousands of bins from the start, still touches the
    block.
    """
    schema = Schema([Datetime(name="at", min="1700-01-01", max="2199-12-31", every="1mo")])
    moments = [datetime(2150, 5, 3, 12, 0, 0, microsecond) for microsecond in range(20)]
    assert (
        one_block_view(schema, 1_000)
        .count_many([{"at": moment} for moment in moments])
        .guaranteed[:, 1]
        .min()
        >= 1_000
    )
