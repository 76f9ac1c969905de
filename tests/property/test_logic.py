"""Conditions follow SQL's logic of three values: as DuckDB counts them."""

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from people_views import PEOPLE, VALUES, cell_view, predicates

from dense import tensor_of
from hdpview.pview import PView

N_PEOPLE = 700


@pytest.fixture(scope="module")
def people() -> tuple[PView, duckdb.DuckDBPyConnection]:
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
def test_half_known_conditions_hold_for_what_they_do_in_sql(people):
    for ends in ("NULL AND 3", "3 AND NULL", "NULL AND NULL"):
        for form in ("age BETWEEN {}", "age NOT BETWEEN {}", "NOT (age BETWEEN {})"):
            assert same_in_duckdb(people, form.format(ends)), (form, ends)
