"""Conditions follow SQL's logic of three values: as DuckDB counts them, and by its laws."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from people_views import PEOPLE, REGIONS, cell_view, predicates, random_view

from hdpview.pview import PView

N_PEOPLE = 700


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
    connection = duckdb.connect(config={"threads": 1})
    connection.register("people", pa.table(columns))
    return cell_view(PEOPLE, tensor), connection


@settings(max_examples=300, deadline=None)
@given(predicates)
def test_a_view_of_single_cells_answers_as_a_database_does(
    people: tuple[PView, duckdb.DuckDBPyConnection], predicate: str
) -> None:
    """Where every cell is a block and there is no noise, any condition counts exactly the rows that DuckDB
    counts.
    """
    view, connection = people
    found = connection.execute(f"SELECT count(*) FROM people WHERE {predicate}").fetchone()
    assert found is not None
    assert view.count(predicate, counts="raw").estimate == pytest.approx(found[0], abs=1e-6)


@pytest.mark.parametrize("ends", ["NULL AND 3", "3 AND NULL", "NULL AND NULL"])
@pytest.mark.parametrize("form", ["age BETWEEN {}", "age NOT BETWEEN {}", "NOT (age BETWEEN {})"])
def test_between_null_is_half_known_as_in_sql(
    people: tuple[PView, duckdb.DuckDBPyConnection], form: str, ends: str
) -> None:
    """x BETWEEN NULL AND 3 is x >= NULL AND x <= 3: false, not unknown, where x > 3, so its negation finds
    those rows.
    """
    view, connection = people
    found = connection.execute(f"SELECT count(*) FROM people WHERE {form.format(ends)}").fetchone()
    assert found is not None
    assert view.count(form.format(ends), counts="raw").estimate == pytest.approx(found[0], abs=1e-6)


@pytest.mark.parametrize(
    "condition", ["region NOT LIKE 'N%'", "region NOT ILIKE '%TH'", "NOT (region NOT LIKE '_est')"]
)
def test_not_like_is_the_negation_of_like(
    people: tuple[PView, duckdb.DuckDBPyConnection], condition: str
) -> None:
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
            answer.estimate
            for answer in view.count_many([predicate, f"NOT ({predicate})", neither, None], counts=reading)
        )
        assert found + negated == pytest.approx(either, abs=1e-6)
        if not any(name in predicate.lower() for name in ("age", "region", "smoker", "null")):
            assert found + negated == pytest.approx(all_records, abs=1e-6)


@pytest.mark.parametrize(
    ("condition", "attribute"),
    [("age < 4", "age"), ("region LIKE '%th'", "region"), ("smoker", "smoker"), ("age NOT IN (1, 5)", "age")],
)
def test_of_a_nullable_attribute_the_rest_is_missing(condition: str, attribute: str) -> None:
    """count(p) + count(NOT p) + count(IS NULL) is the total."""
    view = random_view(1)
    parts = view.count_many([condition, f"NOT ({condition})", f"{attribute} IS NULL"], counts="raw")
    assert parts.estimate.sum() == pytest.approx(view.count(counts="raw").estimate, abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), predicates, predicates)
def test_de_morgan(seed: int, p: str, q: str) -> None:
    """NOT (p AND q) counts as NOT p OR NOT q, and NOT (p OR q) as NOT p AND NOT q, in SQL's three-valued
    logic.
    """
    view = random_view(seed)
    pairs = [
        f"NOT (({p}) AND ({q}))",
        f"(NOT ({p})) OR (NOT ({q}))",
        f"NOT (({p}) OR ({q}))",
        f"(NOT ({p})) AND (NOT ({q}))",
    ]
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
