"""Answers: they add up, follow SQL's logic, and lie inside their intervals."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import datetime
from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cells import random_base
from hdpview.domain import Boolean, Category, Datetime, Integer, Real, Schema
from hdpview.pview import PView
from hdpview.view.blocks import Blocks
from hdpview.view.manifest import Manifest, Spending

KINDS = ("typical", "guaranteed", "noise")
FAST = settings(max_examples=250, deadline=None)
REGIONS = ("North", "South", "East", "West", "O'Hara.*")
PEOPLE = Schema(
    [
        Integer(name="age", min=0, max=9, nullable=True),
        Category(name="region", values=REGIONS, nullable=True),
        Boolean(name="smoker", nullable=True),
        Integer(name="children", min=-2, max=2),
        Boolean(name="urban"),
        Category(name="sex", values=("F", "M")),
    ]
)
N_PEOPLE = 700
Bounds = tuple[int, ...]


def view_of(schema: Schema, blocks: Blocks, noise_scale: float = 10.0) -> PView:
    manifest = Manifest(
        schema=schema,
        method="hdpview",
        epsilon=Fraction(1),
        spending=(Spending("noise on counts", Fraction(1), 1),),
        noise_scale=noise_scale,
        settings={},
        parameters={},
        library_version="0",
    )
    return PView(manifest, blocks)


Cut = Callable[[Bounds, Bounds], tuple[int, int] | None]


def tree(lower: Bounds, upper: Bounds, cut: Cut, depth: int = 1) -> list[tuple[Bounds, Bounds, int]]:
    """Leaves, in depth-first order, of the tree of cuts that `cut` chooses: attribute and cut point, or None for a leaf."""
    chosen = cut(lower, upper)
    if chosen is None:
        return [(lower, upper, depth)]
    a, at = chosen
    left, right = (*upper[:a], at, *upper[a + 1 :]), (*lower[:a], at, *lower[a + 1 :])
    return tree(lower, left, cut, depth + 1) + tree(right, upper, cut, depth + 1)


def blocks_of(leaves: list[tuple[Bounds, Bounds, int]], counts: NDArray[np.int64]) -> Blocks:
    lower, upper, depth = (np.array(column, np.int32) for column in zip(*leaves, strict=True))
    return Blocks(lower, upper, counts.astype(np.int64), depth)


def halve(lower: Bounds, upper: Bounds) -> tuple[int, int] | None:
    """Cut the widest attribute in the middle, until there are only single cells."""
    widths = [high - low for low, high in zip(lower, upper, strict=True)]
    a = int(np.argmax(widths))
    return (a, lower[a] + widths[a] // 2) if widths[a] > 1 else None


def cell_view(schema: Schema, tensor: NDArray[np.int64], noise_scale: float = 10.0) -> PView:
    """A view with a block per cell that holds its exact count."""
    leaves = tree((0,) * len(schema), schema.sizes, halve)
    return view_of(schema, blocks_of(leaves, np.array([tensor[lower] for lower, _, _ in leaves])), noise_scale)


def random_view(seed: int) -> PView:
    """A view over the people's schema: a few dozen random cuts, random counts, negative ones too; every second one with a base."""
    rng = np.random.default_rng(seed)

    def cut(lower: Bounds, upper: Bounds) -> tuple[int, int] | None:
        a = int(rng.integers(len(lower)))
        share = np.prod(np.subtract(upper, lower) / PEOPLE.sizes)
        if upper[a] - lower[a] < 2 or rng.random() > 20 * share + 0.3:
            return None
        return a, int(rng.integers(lower[a] + 1, upper[a]))

    leaves = tree((0,) * len(PEOPLE), PEOPLE.sizes, cut)
    blocks = blocks_of(leaves, rng.integers(-40, 80, len(leaves)) * rng.integers(0, 2, len(leaves)))
    base = random_base(PEOPLE.sizes, rng) if seed % 2 else None
    fitted = rng.random(len(leaves)) * 60 if seed % 4 == 1 else None
    return view_of(PEOPLE, dataclasses.replace(blocks, base=base, fitted=fitted))


@pytest.fixture(scope="module")
def people() -> tuple[PView, duckdb.DuckDBPyConnection]:
    """The same random table as a noiseless view with a block per cell, and as a table in DuckDB."""
    rng = np.random.default_rng(7)
    codes = np.stack([rng.integers(0, size, N_PEOPLE) for size in PEOPLE.sizes], axis=1)
    tensor = np.zeros(PEOPLE.sizes, np.int64)
    np.add.at(tensor, tuple(codes.T), 1)
    values = [
        [*range(10), None],
        [*REGIONS, None],
        [False, True, None],
        [*range(-2, 3)],
        [False, True],
        ["F", "M"],
    ]
    columns = {name: [values[a][code] for code in codes[:, a]] for a, name in enumerate(PEOPLE.names)}
    connection = duckdb.connect()
    connection.register("people", pa.table(columns))
    return cell_view(PEOPLE, tensor), connection


numbers = st.one_of(st.integers(-3, 12).map(str), st.sampled_from(["2.5", "-0.5", "1 + 2", "7 / 2", "(3 - 5)", "2 * 3.5", "1e2", "-1e300"]))
number_or_null = st.one_of(numbers, numbers, numbers, numbers, st.just("NULL"))
ordered_names = st.sampled_from(["age", "children", '"age"', "AGE"])
comparisons = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])
negations = st.sampled_from(["", "", "NOT "])
texts = st.sampled_from([*("'" + region.replace("'", "''") + "'" for region in REGIONS)])
patterns = st.sampled_from(["'N%'", "'%th'", "'_est'", "'%'", "''", "'%o%t%'", "'north'", "'%''%'", "'%.*'", "'____'", "'W.st'"])

leaves = st.one_of(
    st.builds(lambda name, sign, value: f"{name} {sign} {value}", ordered_names, comparisons, number_or_null),
    st.builds(lambda name, sign, value: f"{value} {sign} {name}", ordered_names, comparisons, numbers),
    st.builds(lambda n, neg, low, high: f"{n} {neg}BETWEEN {low} AND {high}", ordered_names, negations, numbers, numbers),
    st.builds(
        lambda n, neg, values: f"{n} {neg}IN ({', '.join(values)})",
        ordered_names,
        negations,
        st.lists(number_or_null, min_size=1, max_size=4),
    ),
    st.builds(lambda sign, value: f"region {sign} {value}", st.sampled_from(["=", "<>"]), st.one_of(texts, st.just("NULL"))),
    st.builds(lambda neg, values: f"region {neg}IN ({', '.join(values)})", negations, st.lists(texts, min_size=1, max_size=3)),
    st.builds(lambda neg, how, p: f"{neg}region {how} {p}", negations, st.sampled_from(["LIKE", "ILIKE"]), patterns),
    st.builds(lambda name, neg: f"{name} IS {neg}NULL", st.sampled_from([*PEOPLE.names]), negations),
    st.builds(
        lambda n, neg, what: f"{n} IS {neg}{what}", st.sampled_from(["smoker", "urban"]), negations, st.sampled_from(["TRUE", "FALSE"])
    ),
    st.sampled_from(
        ["smoker", "urban", "NOT smoker", "urban = FALSE", "smoker <> true", "sex = 'F'", "sex != 'M'", "TRUE", "FALSE", "NULL"]
    ),
)
predicates = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda a, b: f"({a}) AND ({b})", inner, inner),
        st.builds(lambda a, b: f"({a}) OR ({b})", inner, inner),
        st.builds(lambda a: f"NOT ({a})", inner),
        st.builds(lambda a, b, c: f"{a} AND {b} OR {c}", leaves, leaves, inner),
    ),
    max_leaves=6,
)


@settings(max_examples=600, deadline=None)
@given(predicates)
def test_a_view_of_single_cells_answers_as_a_database_does(people: tuple[PView, duckdb.DuckDBPyConnection], predicate: str) -> None:
    """Where every cell is a block and there is no noise, any condition counts exactly the rows that DuckDB counts."""
    view, connection = people
    found = connection.execute(f"SELECT count(*) FROM people WHERE {predicate}").fetchone()
    assert found is not None
    assert view.count(predicate, counts="raw").estimate == pytest.approx(found[0], abs=1e-6)


@pytest.mark.parametrize("ends", ["NULL AND 3", "3 AND NULL", "NULL AND NULL"])
@pytest.mark.parametrize("form", ["age BETWEEN {}", "age NOT BETWEEN {}", "NOT (age BETWEEN {})"])
def test_between_null_is_half_known_as_in_sql(people: tuple[PView, duckdb.DuckDBPyConnection], form: str, ends: str) -> None:
    """x BETWEEN NULL AND 3 is x >= NULL AND x <= 3: false, not unknown, where x > 3, so its negation finds those rows."""
    view, connection = people
    found = connection.execute(f"SELECT count(*) FROM people WHERE {form.format(ends)}").fetchone()
    assert found is not None
    assert view.count(form.format(ends), counts="raw").estimate == pytest.approx(found[0], abs=1e-6)


@pytest.mark.parametrize("condition", ["region NOT LIKE 'N%'", "region NOT ILIKE '%TH'", "NOT (region NOT LIKE '_est')"])
def test_not_like_is_the_negation_of_like(people: tuple[PView, duckdb.DuckDBPyConnection], condition: str) -> None:
    """NOT LIKE finds the rows that LIKE does not find, save those with a missing value."""
    view, connection = people
    found = connection.execute(f"SELECT count(*) FROM people WHERE {condition}").fetchone()
    assert found is not None
    assert view.count(condition, counts="raw").estimate == pytest.approx(found[0], abs=1e-6)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), predicates)
def test_a_condition_its_negation_and_the_rest_make_the_total(seed: int, predicate: str) -> None:
    """count(p) + count(NOT p) + count(p is neither) is the total, in both readings and for any blocks."""
    view = random_view(seed)
    neither = f"(NOT ({predicate}) OR ({predicate}))"
    for reading in ("raw", "consistent"):
        found, negated, either, all_records = (
            answer.estimate for answer in view.count_many([predicate, f"NOT ({predicate})", neither, None], counts=reading)
        )
        assert found + negated == pytest.approx(either, abs=1e-6)
        if not any(name in predicate.lower() for name in ("age", "region", "smoker", "null")):
            assert found + negated == pytest.approx(all_records, abs=1e-6)


@pytest.mark.parametrize(
    ("condition", "attribute"), [("age < 4", "age"), ("region LIKE '%th'", "region"), ("smoker", "smoker"), ("age NOT IN (1, 5)", "age")]
)
def test_of_a_nullable_attribute_the_rest_is_missing(condition: str, attribute: str) -> None:
    """count(p) + count(NOT p) + count(IS NULL) is the total."""
    view = random_view(1)
    parts = view.count_many([condition, f"NOT ({condition})", f"{attribute} IS NULL"], counts="raw")
    assert parts.estimate.sum() == pytest.approx(view.count(counts="raw").estimate, abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), predicates, predicates)
def test_de_morgan(seed: int, p: str, q: str) -> None:
    """NOT (p AND q) counts as NOT p OR NOT q, and NOT (p OR q) as NOT p AND NOT q, in SQL's three-valued logic."""
    view = random_view(seed)
    pairs = [f"NOT (({p}) AND ({q}))", f"(NOT ({p})) OR (NOT ({q}))", f"NOT (({p}) OR ({q}))", f"(NOT ({p})) AND (NOT ({q}))"]
    estimate = view.count_many(pairs, counts="raw").estimate
    assert estimate[0] == pytest.approx(estimate[1], abs=1e-6)
    assert estimate[2] == pytest.approx(estimate[3], abs=1e-6)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), predicates, predicates)
def test_inclusion_and_exclusion(seed: int, p: str, q: str) -> None:
    """count(p OR q) = count(p) + count(q) − count(p AND q): unions are cut into boxes that do not overlap."""
    view = random_view(seed)
    a, b, both, either = view.count_many([p, q, f"({p}) AND ({q})", f"({p}) OR ({q})"], counts="raw").estimate
    assert either == pytest.approx(a + b - both, abs=1e-6)


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
    """A raw answer over whole blocks is exactly the sum of their noisy counts; the raw total is the sum of all."""
    view = random_view(seed)
    assert view.count(counts="raw").estimate == view.blocks.noisy_counts.sum()
    split = view.count("age IS NULL OR age IS NOT NULL", counts="raw").estimate
    assert split == pytest.approx(int(view.blocks.noisy_counts.sum()), abs=1e-9)
    b = seed % len(view.blocks)
    ends = zip(view.blocks.lower[b], view.blocks.upper[b] - 1, strict=True)
    parts = []
    for attribute, (low, high) in zip(PEOPLE, ends, strict=True):
        if isinstance(attribute, Integer):
            shown = [str(edge) for edge in range(attribute.min + low, attribute.min + high + 1) if edge <= attribute.max]
        else:
            shown = ["'" + label.replace("'", "''") + "'" for label in attribute.value_labels()[low : high + 1]]
        has_null = bool(attribute.nullable and high == attribute.size - 1)
        terms = [f"{attribute.name} IN ({', '.join(shown)})"] * bool(shown) + [f"{attribute.name} IS NULL"] * has_null
        parts.append("(" + " OR ".join(terms) + ")")
    assert view.count(" AND ".join(parts), counts="raw").estimate == pytest.approx(int(view.blocks.noisy_counts[b]), abs=1e-9)


@FAST
@given(st.integers(0, 2**32 - 1), predicates, st.sampled_from([0.5, 0.9, 0.95, 0.9999]), st.sampled_from(["raw", "consistent"]))
def test_intervals_hold_the_estimate(seed: int, predicate: str, confidence: float, reading: str) -> None:
    """Every interval contains the estimate, in the consistent reading none reaches below 0, and `lower`, `upper` are the one asked for."""
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
@example(307, ["age <> 0"])  # here the coarser estimates differ by rounding alone
def test_one_by_one_or_all_at_once_makes_no_difference(seed: int, asked: list[str]) -> None:
    """An answer alone is the same as in a large batch, which takes another way through the code."""
    view = random_view(seed)
    for reading in ("raw", "consistent"):
        batch = view.count_many([*asked, *["sex = 'F'"] * 40], counts=reading)
        for i, predicate in enumerate(asked):
            alone = view.count(predicate, counts=reading)
            for kind in KINDS:
                assert tuple(getattr(batch[i], kind)) == pytest.approx(tuple(getattr(alone, kind)), abs=1e-6)
            assert batch[i].estimate == pytest.approx(alone.estimate, abs=1e-6)


def test_bins_cut_through_take_their_share() -> None:
    """A range that ends inside a bin takes the fraction of the bin's values that lie in it, on every kind of axis."""
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
    assert view.count_many(list(counts), counts="raw").estimate == pytest.approx(list(counts.values()), abs=1e-6)


def test_a_dictionary_means_what_its_sql_means() -> None:
    """Pairs are ranges with both ends, lists are alternatives, None is missing, several keys hold together."""
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
    return view_of(schema, Blocks(lower, upper, np.array([n_records]), np.ones(1, np.int32)), noise_scale=1.0)


def test_the_guarantee_holds_where_one_cell_of_billions_is_left_out() -> None:
    """A block with a single cell outside the question is not fully inside it: all its records may lie in that cell."""
    schema = Schema([Integer(name=name, min=0, max=65_000) for name in ("a", "b")])
    assert one_block_view(schema, 1_000).count("NOT (a = 1 AND b = 2)").guaranteed.lower < 10


def test_the_guarantee_holds_where_one_cell_is_less_than_rounding() -> None:
    """One cell of 10^24 vanishes in a sum of weights, alone or in a batch; what a single box covers is covered all the same."""
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
    """A question about a single value of a huge bin still touches the block: all its records may have that value."""
    schema = Schema([Integer(name="a", min=0, max=10**18 - 1, every=10**17)])
    assert one_block_view(schema, 1_000).count(f"a = {5 * 10**17 + 12345}").guaranteed.upper >= 1_000


def test_the_guarantee_holds_for_one_moment_of_a_long_axis() -> None:
    """A question about one microsecond of a month, thousands of bins from the start, still touches the block."""
    schema = Schema([Datetime(name="at", min="1700-01-01", max="2199-12-31", every="1mo")])
    moments = [datetime(2150, 5, 3, 12, 0, 0, microsecond) for microsecond in range(20)]
    assert one_block_view(schema, 1_000).count_many([{"at": moment} for moment in moments]).guaranteed[:, 1].min() >= 1_000
