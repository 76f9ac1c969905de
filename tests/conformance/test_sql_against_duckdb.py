"""The judge of the SQL layer: on a view without noise, every statement is answered as DuckDB answers it on
the table.
"""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
import sqlglot

from cells import noiseless_view
from hdpview.domain import Boolean, Category, Date, Integer, Schema
from hdpview.pview import PView
from hdpview.query.evaluate import run
from statements import Statements

# What goes wrong in one statement of a hundred is met with a chance of 95 %.
N_STATEMENTS, N_PARTS = 300, 3
PEOPLE = Schema(
    [
        Integer(name="age", min=0, max=9),
        Integer(name="income", min=0, max=59, nullable=True),
        Integer(name="children", min=-1, max=3),
        Category(name="region", values=("North", "South", "East", "West", "O'Hara"), nullable=True),
        Category(name="sex", values=("F", "M")),
        Boolean(name="smoker", nullable=True),
        Boolean(name="urban"),
        Date(name="joined", min="2023-12-20", max="2024-02-10"),
    ]
)
VALUES: list[list[Any]] = [
    [*range(10)],
    [*range(60), None],
    [*range(-1, 4)],
    ["North", "South", "East", "West", "O'Hara", None],
    ["F", "M"],
    [False, True, None],
    [False, True],
    [date(2023, 12, 20) + timedelta(days=i) for i in range(53)],
]


@pytest.fixture(autouse=True)
def _time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What statements mean is judged here, not how long they take."""
    monkeypatch.setattr("hdpview.query.evaluate.deadline.CPU_SECONDS", 60.0)


Both = tuple[PView, duckdb.DuckDBPyConnection]


@pytest.fixture(scope="module")
def both() -> Both:
    """One table of 300 people, as a noiseless view and in DuckDB. Values lean to the low codes, so that
    groups differ in size.
    """
    rng = np.random.default_rng(11)
    codes = np.stack([(rng.beta(1.0, 1.5, 300) * size).astype(np.int64) for size in PEOPLE.sizes], axis=1)
    columns = {name: [VALUES[a][code] for code in codes[:, a]] for a, name in enumerate(PEOPLE.names)}
    # One thread: rows that tie come in the same order each time.
    connection = duckdb.connect(config={"threads": 1})
    connection.register("people", pa.table(columns))
    connection.execute('CREATE VIEW "view" AS SELECT * FROM people')
    return noiseless_view(PEOPLE, codes), connection


def answers_of_view(view: PView, sql: str, **options: Any) -> list[list[Any]]:
    """Rows without the ends of intervals."""
    result = run(view, sql, with_intervals=False, **options)
    ends = {f"{name}{end}" for name in result.aggregates for end in ("_lower", "_upper")}
    return [[value for name, value in row.items() if name not in ends] for row in result.to_rows()]


def alike(ours: Any, theirs: Any) -> bool:
    if (
        isinstance(ours, (int, float))
        and not isinstance(ours, bool)
        and theirs is not None
        and not isinstance(theirs, (bool, str))
    ):
        return float(ours) == pytest.approx(float(theirs), rel=1e-9, abs=1e-6)
    if isinstance(ours, Decimal) and theirs is not None:
        return float(ours) == pytest.approx(float(theirs))
    return type(ours) is type(theirs) and ours == theirs


def assert_same(both: Both, sql: str) -> None:
    view, connection = both
    theirs = connection.execute(sql.replace("FROM view", 'FROM "view"')).fetchall()
    ours = answers_of_view(view, sql)
    assert len(ours) == len(theirs), (sql, ours, theirs)
    for own, other in zip(ours, theirs, strict=True):
        assert len(own) == len(other), sql
        assert all(map(alike, own, other)), (sql, own, other)


@pytest.mark.parametrize("part", range(N_PARTS))
def test_random_statements_are_answered_as_duckdb_does(both: Both, part: int) -> None:
    """Groups, filters, sums, means, quantiles, shares, CASE, HAVING, WITH, ORDER BY and LIMIT: row by row,
    value by value.
    """
    source = Statements(part)
    for _ in range(N_STATEMENTS // N_PARTS):
        assert_same(both, source.statement())


WRITTEN = [
    # Windows over groups
    (
        "SELECT age, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS r FROM view GROUP BY age "
        "ORDER BY n DESC, age"
    ),
    (
        "SELECT sex, age, DENSE_RANK() OVER (PARTITION BY sex ORDER BY COUNT(*)) AS r, ROW_NUMBER() OVER "
        "(PARTITION BY sex ORDER BY age DESC) AS i, NTILE(3) OVER (ORDER BY sex, age) AS t FROM view "
        "GROUP BY 1, 2 ORDER BY 1, 2"
    ),
    (
        "SELECT age, PERCENT_RANK() OVER (ORDER BY COUNT(*)) AS p, CUME_DIST() OVER (ORDER BY COUNT(*)) "
        "AS c FROM view GROUP BY age ORDER BY age"
    ),
    (
        "SELECT age, COUNT(*) AS n, LAG(COUNT(*)) OVER (ORDER BY age) AS b, LEAD(COUNT(*), 2, 0) OVER "
        "(ORDER BY age) AS l, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY age) AS d FROM view GROUP BY age "
        "ORDER BY age"
    ),
    (
        "SELECT age, SUM(COUNT(*)) OVER (ORDER BY age) AS s, AVG(COUNT(*)) OVER (ORDER BY age ROWS "
        "BETWEEN 2 PRECEDING AND CURRENT ROW) AS a, MAX(COUNT(*)) OVER () AS m, MIN(COUNT(*)) OVER (ORDER"
        " BY age ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS k FROM view GROUP BY age ORDER BY age"
    ),
    (
        "SELECT age % 3 AS m, age, SUM(COUNT(*)) OVER (ORDER BY age % 3) AS peers, MAX(COUNT(*)) OVER "
        "(ORDER BY age ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS x, COUNT(*) OVER (PARTITION "
        "BY age % 3) AS k FROM view GROUP BY 1, 2 ORDER BY 2"
    ),
    (
        "SELECT age, FIRST_VALUE(age) OVER (ORDER BY COUNT(*) DESC, age) AS top, LAST_VALUE(COUNT(*)) "
        "OVER (ORDER BY age) AS l, LAG(sex) OVER (ORDER BY age, sex) AS s FROM view GROUP BY age, sex "
        "ORDER BY age, sex"
    ),
    (
        "SELECT * FROM (SELECT sex, age, COUNT(*) AS n, ROW_NUMBER() OVER (PARTITION BY sex ORDER BY "
        "COUNT(*) DESC, age) AS r FROM view GROUP BY sex, age) AS t WHERE r <= 2 ORDER BY sex, r"
    ),
    (
        "SELECT age, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share FROM view GROUP BY age QUALIFY share"
        " > 0.1 ORDER BY age"
    ),
    (
        "WITH t AS (SELECT age, COUNT(*) AS n FROM view GROUP BY age) SELECT age, n * 1.0 / SUM(n) OVER "
        "() AS s FROM t WHERE n > 10 ORDER BY age"
    ),
    (
        "SELECT * FROM (SELECT age, COUNT(*) AS n, SUM(COUNT(*)) OVER () AS s FROM view GROUP BY age) AS "
        "t WHERE n > 20 ORDER BY age"
    ),
    # Aggregates over groups
    (
        "SELECT AVG(n) AS a, MAX(n) AS x, MIN(n) AS i, SUM(n) AS s, COUNT(*) AS c FROM (SELECT age, "
        "COUNT(*) AS n FROM view GROUP BY age) AS t"
    ),
    (
        "SELECT sex, MAX(n) - MIN(n) AS d, COUNT(n) AS k FROM (SELECT sex, age, COUNT(*) AS n FROM view "
        "GROUP BY 1, 2) AS t WHERE n > 2 GROUP BY sex HAVING COUNT(*) > 1 ORDER BY sex"
    ),
    (
        "SELECT half, AVG(n) AS a FROM (SELECT age, age // 5 AS half, COUNT(*) AS n FROM view GROUP BY 1,"
        " 2) AS t GROUP BY 1 ORDER BY a DESC LIMIT 1"
    ),
    (
        "SELECT DISTINCT age % 2 AS odd FROM (SELECT age, COUNT(*) AS n FROM view GROUP BY age) AS t "
        "ORDER BY odd"
    ),
    # Several questions in one
    (
        "SELECT 'young' AS who, COUNT(*) AS n FROM view WHERE age < 3 UNION ALL SELECT 'old', COUNT(*) "
        "FROM view WHERE age >= 3 ORDER BY n DESC"
    ),
    ("SELECT sex FROM view GROUP BY sex UNION SELECT sex FROM view GROUP BY sex ORDER BY 1 LIMIT 1 OFFSET 1"),
    (
        "WITH t AS (SELECT * FROM view WHERE urban) SELECT 1 AS k, AVG(age) AS a FROM t UNION ALL (SELECT"
        " 2, AVG(children) FROM t) UNION ALL SELECT 3, NULL FROM t GROUP BY 1 ORDER BY k"
    ),
    "SELECT sex, urban, COUNT(*) AS n FROM view GROUP BY ROLLUP (sex, urban) ORDER BY sex, urban, n",
    (
        "SELECT sex, urban, COUNT(*) AS n, GROUPING(sex) AS g FROM view GROUP BY GROUPING SETS ((sex), "
        "(urban), ()) ORDER BY n, 1"
    ),
    (
        "SELECT sex, urban, AVG(age) AS a FROM view GROUP BY CUBE (sex, urban) HAVING COUNT(*) > 10 ORDER"
        " BY a, sex LIMIT 3"
    ),
    ("SELECT age % 2 AS odd, sex, COUNT(sex) AS n FROM view GROUP BY sex, ROLLUP (age % 2) ORDER BY 3, 2, 1"),
    "SELECT COUNT(*) AS n FROM view GROUP BY ()",
    # Subqueries that give values
    "SELECT COUNT(*) FROM view WHERE age > (SELECT AVG(age) FROM view)",
    (
        "SELECT sex, COUNT(*) AS n FROM view WHERE region IN (SELECT region FROM view WHERE region IS NOT"
        " NULL GROUP BY region ORDER BY COUNT(*) DESC LIMIT 2) GROUP BY sex ORDER BY sex"
    ),
    (
        "WITH t AS (SELECT region, COUNT(*) AS n FROM view GROUP BY region) SELECT COUNT(*) FROM view "
        "WHERE region IN (SELECT region FROM t WHERE n > 40)"
    ),
    (
        "SELECT COUNT(*) * 1.0 / (SELECT COUNT(*) FROM view) AS share, (SELECT MAX(n) FROM (SELECT "
        "COUNT(*) AS n FROM view GROUP BY age) AS t) AS top FROM view WHERE smoker"
    ),
    (
        "SELECT COUNT(*) FROM view WHERE (sex, urban) IN (SELECT sex, urban FROM view GROUP BY 1, 2 ORDER"
        " BY COUNT(*) LIMIT 2)"
    ),
    (
        "SELECT region, COUNT(*) AS n FROM view JOIN (SELECT region AS r, COUNT(*) AS c FROM view GROUP "
        "BY region ORDER BY c DESC LIMIT 2) AS t ON region = r GROUP BY region ORDER BY n"
    ),
    "SELECT COUNT(*) FROM view",
    "SELECT count(*) AS n, count(income) AS i, sum(income), avg(age) FROM view WHERE region IS NULL",
    "SELECT sum(age), avg(age), count(*), median(age) FROM view WHERE age < 0",
    "SELECT region, COUNT(*) AS n FROM view GROUP BY ALL HAVING n > 0 ORDER BY ALL",
    "SELECT region AS r, COUNT(*) FROM view GROUP BY r HAVING COUNT(*) > 0 ORDER BY r NULLS FIRST",
    (
        "SELECT COUNT(*) FILTER (WHERE smoker) * 1.0 / COUNT(*) AS share, sex FROM view GROUP BY sex ORDER "
        "BY sex"
    ),
    (
        "SELECT sex, urban, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER (PARTITION BY sex) AS share FROM view "
        "GROUP BY 1, 2 ORDER BY 1, 2"
    ),
    "SELECT sex, COUNT(*) AS n FROM view GROUP BY sex ORDER BY n DESC LIMIT 1",
    "SELECT sex, COUNT(*) AS n FROM view GROUP BY sex ORDER BY COUNT(*), 1 OFFSET 1",
    "SELECT DISTINCT sex FROM view ORDER BY sex",
    (
        "WITH adults AS (SELECT age AS years, sex AS s FROM view WHERE age >= 3) SELECT s, AVG(years) FROM "
        "adults GROUP BY s ORDER BY s"
    ),
    "WITH a(x, y) AS (SELECT age, sex FROM view) SELECT y, SUM(x) FROM a GROUP BY y ORDER BY y",
    (
        "SELECT * FROM (SELECT region AS r, COUNT(*) AS n FROM view GROUP BY region) AS g WHERE n > 10 AND "
        "r IS NOT NULL ORDER BY r"
    ),
    (
        "SELECT age, n * 2 AS twice FROM (SELECT age, COUNT(*) AS n FROM view GROUP BY age) AS g WHERE n > "
        "0 ORDER BY age"
    ),
    "SELECT view.sex, COUNT(*) FROM view GROUP BY view.sex ORDER BY view.sex",
    "SELECT v.sex, COUNT(*) FROM view AS v WHERE v.age > 2 GROUP BY v.sex ORDER BY v.sex",
    (
        "SELECT COUNT(*) FROM view WHERE age IN (1, 2) AND (region = 'North' OR NOT urban) AND income IS "
        "NOT NULL"
    ),
    "SELECT COUNT(*) FROM view WHERE (age < 3 AND sex = 'F') OR (income > 20 AND urban) OR smoker IS NULL",
    "SELECT SUM(income * age) AS s, SUM(income + age) AS t, AVG(income - age) AS u FROM view",
    "SELECT PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY age) FROM view",
    "SELECT sex, COUNT(*) AS n FROM view GROUP BY sex HAVING COUNT(*) > (3 + 4) * 2 ORDER BY sex",
    "SELECT age + 1 AS next, COUNT(*) AS n FROM view GROUP BY age + 1 HAVING COUNT(*) > 0 ORDER BY next DESC",
    "SELECT age * 10 AS ten, COUNT(*) AS n FROM view GROUP BY age HAVING COUNT(*) > 0 ORDER BY ten",
    "SELECT SUM(urban::INT) AS u, COUNT(*) FROM view WHERE TRUE",
    "SELECT COUNT(*) FROM view WHERE 1 = 1 AND 2 > 3",
    "SELECT if(urban, 'town', 'country') AS place, COUNT(*) FROM view GROUP BY place ORDER BY place",
    "SELECT countif(urban) AS u FROM view",
]


@pytest.mark.parametrize("sql", WRITTEN)
def test_statements_of_every_kind_are_answered_as_duckdb_does(both: Both, sql: str) -> None:
    """Each form that the language knows, in the words a person would use."""
    assert_same(both, sql)


@pytest.mark.parametrize("sql", [sql for sql in WRITTEN if "ALL" not in sql])
def test_statements_in_the_words_of_postgresql_mean_the_same(both: Both, sql: str) -> None:
    """The parser builds other trees for other dialects (IS NOT NULL is one node there); answers stay the
    same."""
    written = sqlglot.transpile(sql, read="duckdb", write="postgres")[0]
    view, connection = both
    theirs = connection.execute(sql.replace("FROM view", 'FROM "view"')).fetchall()
    ours = answers_of_view(view, written, dialect="postgres")
    assert len(ours) == len(theirs), written
    for own, other in zip(ours, theirs, strict=True):
        assert all(map(alike, own, other)), (written, own, other)


def test_other_dialects_are_read_by_name(both: Both) -> None:
    """The same question in PostgreSQL's, Snowflake's and Spark's words has the same answer."""
    view, _ = both
    expected = answers_of_view(
        view, "SELECT sex, COUNT(*) FROM view WHERE region LIKE 'N%' GROUP BY sex ORDER BY sex"
    )
    for dialect, sql in {
        "postgres": "SELECT sex, COUNT(*) FROM view WHERE region ~~ 'N%' GROUP BY sex ORDER BY sex",
        "snowflake": "SELECT sex, COUNT(*) FROM view WHERE region LIKE 'N%' GROUP BY sex ORDER BY sex",
        "spark": "SELECT `sex`, COUNT(*) FROM view WHERE `region` LIKE 'N%' GROUP BY `sex` ORDER BY `sex`",
    }.items():
        assert answers_of_view(view, sql, dialect=dialect) == expected


ORDERS = Schema(
    [
        Date(name="day", min="2024-01-01", max="2024-03-31"),
        Category(name="region", values=("North", "South", "East"), nullable=True),
        Integer(name="items", min=1, max=6),
        Boolean(name="returned", nullable=True),
    ]
)


@pytest.fixture(scope="module")
def orders() -> Both:
    """200 orders, as a noiseless view and in DuckDB."""
    rng = np.random.default_rng(3)
    codes = np.stack([(rng.beta(1.2, 1.5, 200) * size).astype(np.int64) for size in ORDERS.sizes], axis=1)
    days = [date(2024, 1, 1) + timedelta(days=k) for k in range(91)]
    values: list[list[Any]] = [days, ["North", "South", "East", None], [*range(1, 7)], [False, True, None]]
    columns = {name: [values[a][code] for code in codes[:, a]] for a, name in enumerate(ORDERS.names)}
    connection = duckdb.connect(config={"threads": 1})
    connection.register("orders", pa.table(columns))
    connection.execute('CREATE VIEW "view" AS SELECT * FROM orders')
    return noiseless_view(ORDERS, codes), connection


OF_ORDERS = [
    "SELECT COUNT(*) FROM view WHERE day = '2024-01-19'",
    "SELECT COUNT(*) FROM view WHERE day BETWEEN '2024-01-10' AND DATE '2024-01-20'",
    "SELECT COUNT(*) FROM view WHERE day IN ('2024-01-02', '2024-01-03') OR day <> '2024-02-01'",
    "SELECT COUNT(*) FROM view WHERE day >= DATE '2024-02-01' - 7 AND day < DATE '2024-02-01'",
    "SELECT COUNT(*) FROM view WHERE dayofweek(day) IN (0, 6)",
    "SELECT COUNT(*) FROM view WHERE datediff('day', day, DATE '2024-03-31') <= 30",
    "SELECT COUNT(*) FROM view WHERE CAST(day AS VARCHAR) LIKE '2024-01%'",
    "SELECT dayname(day) AS d, COUNT(*) AS n FROM view GROUP BY 1 HAVING COUNT(*) > 0 ORDER BY n, d",
    "SELECT month(day) AS m, SUM(items) AS s, AVG(items) AS a FROM view GROUP BY 1 ORDER BY 1",
    "SELECT strftime(day, '%Y-%m') AS m, COUNT(*) AS n FROM view GROUP BY m ORDER BY m",
    "SELECT last_day(day) AS d, COUNT(*) AS n FROM view GROUP BY 1 ORDER BY 1",
    (
        "SELECT CASE region WHEN 'North' THEN 'N' ELSE 'x' END AS k, COUNT(*) AS n FROM view GROUP BY 1 "
        "ORDER BY 1"
    ),
    "SELECT COUNT(*) FROM view WHERE region IS DISTINCT FROM 'North'",
    "SELECT COUNT(*) FROM view WHERE COALESCE(returned, FALSE)",
    "SELECT COUNT(*) FROM view WHERE starts_with(region, 'N') OR contains(region, 'ou')",
    "SELECT COUNT(*) FROM view WHERE (region, items) IN (('North', 1), ('South', 2))",
    "SELECT COUNT(*) FROM view WHERE items * 2 >= 6 AND items % 2 = 0",
    "SELECT AVG((items = 1)::INT) AS a, AVG(LEAST(items, 3)) AS b, AVG(NULLIF(items, 1)) AS c FROM view",
    "SELECT SUM(items * month(day)) AS s, STDDEV(items) AS d, SKEWNESS(items) AS k FROM view",
    "SELECT region || '/' || items AS k, COUNT(*) AS n FROM view GROUP BY 1 HAVING n > 0 ORDER BY 1",
    "SELECT upper(region) AS r, COUNT(*) AS n FROM view GROUP BY 1 ORDER BY 1",
    (
        "SELECT region, COUNT(*) AS n, SUM(COUNT(*)) OVER w AS s FROM view GROUP BY 1 WINDOW w AS (ORDER "
        "BY region) ORDER BY 1"
    ),
    (
        "SELECT region, n FROM (SELECT region, COUNT(*) AS n FROM view GROUP BY ROLLUP (region)) AS t "
        "ORDER BY n, 1"
    ),
    "SELECT SUM(n) AS s FROM (SELECT COUNT(*) AS n FROM view UNION ALL SELECT SUM(items) FROM view) AS t",
    (
        "SELECT MEDIAN(n) AS m, COUNT(*) FILTER (n > 50) AS k FROM (SELECT region, COUNT(*) AS n FROM "
        "view GROUP BY 1)"
    ),
    (
        "SELECT v.region, m.name, COUNT(*) AS n FROM view AS v JOIN (VALUES ('North', 'Ann'), ('South', "
        "'Bob')) AS m(region, name) ON v.region = m.region GROUP BY 1, 2 ORDER BY 1"
    ),
    (
        "SELECT a.region, a.n - b.n AS d FROM (SELECT region, COUNT(*) AS n FROM view GROUP BY 1) AS a "
        "JOIN (SELECT region, COUNT(*) AS n FROM view WHERE returned GROUP BY 1) AS b ON a.region = "
        "b.region ORDER BY 1"
    ),
    "SELECT ROUND(AVG(items), 1) AS a, CAST(AVG(items) AS INTEGER) AS b, COUNT(*) // 7 AS c FROM view",
    "SELECT MODE(region) AS m FROM view",
    (
        "SELECT day, COUNT(*) AS n, AVG(COUNT(*)) OVER (ORDER BY day RANGE BETWEEN INTERVAL 6 DAY "
        "PRECEDING AND CURRENT ROW) AS a FROM view GROUP BY day HAVING COUNT(*) > 0 ORDER BY day"
    ),
]


@pytest.mark.parametrize("sql", OF_ORDERS)
def test_dates_texts_and_lookups_are_those_of_duckdb(orders: Both, sql: str) -> None:
    """What analysts and their tools write about orders."""
    assert_same(orders, sql)
