"""Statements that ask for rows, over records: the rows are those that DuckDB gives over the same records."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from hdpview.domain import Boolean, Category, Datetime, Integer, Real, Schema
from hdpview.errors import QueryError
from hdpview.query.question.where import parse
from hdpview.query.sql.rows import asks_for_rows, rows_of

SCHEMA = Schema(
    [
        Integer(name="age", min=0, max=99),
        Real(name="weight", min=0.0, max=100.0, bins=10, nullable=True),
        Category(name="region", values=("North", "South", "O'Hara"), nullable=True),
        Boolean(name="smoker", nullable=True),
        Datetime(name="day", min="2024-01-01", max="2024-12-31", every="1d"),
    ]
)


@pytest.fixture(scope="module")
def records() -> pa.Table:
    rng = np.random.default_rng(3)
    n = 300

    def some(values: list[Any]) -> list[Any]:
        return [values[i] for i in rng.integers(0, len(values), n)]

    return pa.table(
        {
            "age": rng.integers(0, 100, n),
            "weight": pa.array(some([None, 0.5, 10.0, 33.25, 99.5])),
            "region": some(["North", "South", "O'Hara", None]),
            "smoker": some([True, False, None]),
            "day": [date(2024, 1, 1) + timedelta(days=int(i)) for i in rng.integers(0, 366, n)],
        }
    )


STATEMENTS = [
    "SELECT * FROM view",
    "SELECT * FROM view LIMIT 7 OFFSET 3",
    "SELECT age, region FROM view WHERE age >= 50 AND region = 'North'",
    "SELECT age FROM view WHERE region IS NULL OR smoker IS NOT NULL",
    "SELECT age FROM view WHERE NOT (region LIKE '%o%') AND weight BETWEEN 1 AND 50",
    "SELECT age FROM view WHERE region IN ('O''Hara', 'South') AND NOT smoker",
    "SELECT day, age FROM view WHERE day >= DATE '2024-06-01' AND month(day) < 8 ORDER BY day, age",
    "SELECT age * 2 + 1 AS twice, upper(region) AS big, weight / 2 AS half FROM view WHERE age % 7 = 0",
    "SELECT CASE WHEN age < 18 THEN 'child' ELSE 'adult' END AS who, coalesce(region, '?') AS r FROM view",
    "SELECT date_trunc('month', day) AS m, year(day) AS y FROM view WHERE weight > 10",
    "SELECT age, weight FROM view ORDER BY weight DESC NULLS LAST, age, region, day LIMIT 20",
    "SELECT region AS r FROM (SELECT region, age + 1 AS a FROM view WHERE age > 20) AS t WHERE a < 60",
    (
        "WITH t AS (SELECT age AS years, smoker FROM view) SELECT years FROM t WHERE smoker ORDER BY years "
        "LIMIT 5"
    ),
    "SELECT * FROM (SELECT age FROM view ORDER BY age LIMIT 10) AS t LIMIT 4",
    "SELECT age FROM view WHERE 1 = 0",
    "SELECT 1 AS one, age > 50 AS old FROM view WHERE TRUE",
]


def _plain(value: Any) -> Any:
    return value.date() if isinstance(value, datetime) else value


@pytest.mark.parametrize("sql", STATEMENTS)
def test_rows_are_those_of_duckdb(records: pa.Table, sql: str) -> None:
    """Filters, expressions, orders, limits and subqueries, row by row; rows in order where one is asked
    for."""
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.register("records", records)
        theirs = connection.execute(sql.replace("FROM view", "FROM records")).fetchall()
    assert asks_for_rows(parse(sql))
    ours = [tuple(map(_plain, row)) for row in rows_of(parse(sql), SCHEMA, records)]
    assert ours == [tuple(map(_plain, row)) for row in theirs]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM view",
        "SELECT age FROM view GROUP BY age",
        "SELECT DISTINCT age FROM view",
        "SELECT age, rank() OVER (ORDER BY age) FROM view",
        "SELECT age FROM view UNION ALL SELECT age FROM view",
        "SELECT * FROM (SELECT region, count(*) AS n FROM view GROUP BY region) AS t",
    ],
)
def test_statements_with_summaries_do_not_ask_for_rows(sql: str) -> None:
    """Nothing that counts or compares rows is answered from synthetic ones."""
    assert not asks_for_rows(parse(sql))


def test_a_limit_inside_cannot_be_filtered_again(records: pa.Table) -> None:
    """A filter over the first ten rows is not a filter of all rows."""
    with pytest.raises(QueryError, match="LIMIT inside a subquery"):
        rows_of(parse("SELECT * FROM (SELECT age FROM view LIMIT 10) AS t WHERE age > 50"), SCHEMA, records)
