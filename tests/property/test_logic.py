"""Conditions follow SQL's logic of three values: as DuckDB counts them, and by its laws."""

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from people_views import PEOPLE, VALUES, cell_view, predicates, random_view

from dense import tensor_of
from hdpview.pview import PView

N_PEOPLE = 700


@pytest.fixture(scope="module")
def people() -> tuple[PView, duckdb.DuckDBPyConnection]:
    """The same random table as a noiseless view with a block per cell, and as a table in DuckDB."""
    rng = np.random.default_rng(7)
    codes = np.stack([rng.integers(0, size, N_PEOPLE) for size in PEOPLE.sizes], axis=1)
    columns = {name: [VALUES[name][code] for code in codes[:, a]] for a, name in enumerate(PEOPLE.names)}
    connection = duckdb.connect(config={"threads": 1})
    connection.register("people", pa.table(columns))
    return cell_view(PEOPLE, tensor_of(codes, PEOPLE.sizes)), connection


def same_in_duckdb(people: tuple[PView, duckdb.DuckDBPyConnection], condition: str) -> bool:
    view, connection = people
    (counted,) = connection.execute(f"SELECT count(*) FROM people WHERE {condition}").fetchone() or (None,)
    return bool(view.count(condition, counts="raw").estimate == pytest.approx(counted, abs=1e-6))


@settings(max_examples=300, deadline=None)
@given(predicates)
def test_a_view_of_single_cells_answers_as_a_database_does(people, predicate):
    assert same_in_duckdb(people, predicate)


# x BETWEEN NULL AND 3 is false, not unknown, where x > 3, so its negation matches those rows.
@pytest.mark.parametrize(
    "condition",
    [
        form.format(ends)
        for form in ("age BETWEEN {}", "age NOT BETWEEN {}", "NOT (age BETWEEN {})")
        for ends in ("NULL AND 3", "3 AND NULL", "NULL AND NULL")
    ]
    + ["region NOT LIKE 'N%'", "region NOT ILIKE '%TH'", "NOT (region NOT LIKE '_est')"],
)
def test_half_known_conditions_hold_for_what_they_do_in_sql(people, condition):
    assert same_in_duckdb(people, condition)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), predicates, st.sampled_from(["raw", "consistent"]))
def test_a_condition_and_its_negation_make_what_is_known(seed, predicate, reading):
    asked = [predicate, f"NOT ({predicate})", f"(NOT ({predicate}) OR ({predicate}))", None]
    holds, fails, known, every = random_view(seed).count_many(asked, counts=reading).estimate
    assert holds + fails == pytest.approx(known, abs=1e-6)
    if not any(name in predicate.lower() for name in ("age", "region", "smoker", "null")):
        assert known == pytest.approx(every, abs=1e-6)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), predicates, predicates)
def test_de_morgan_and_inclusion_and_exclusion(seed, p, q):
    asked = [p, q, f"({p}) AND ({q})", f"({p}) OR ({q})", f"NOT (({p}) AND ({q}))", f"NOT (({p}) OR ({q}))"]
    asked += [f"(NOT ({p})) OR (NOT ({q}))", f"(NOT ({p})) AND (NOT ({q}))"]
    one, other, both, either, *negated = random_view(seed).count_many(asked, counts="raw").estimate
    assert either == pytest.approx(one + other - both, abs=1e-6)
    assert negated[:2] == pytest.approx(negated[2:], abs=1e-6)
