"""The judge of SQL: a view without noise answers every statement as DuckDB does on the table."""

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

# A fault in one statement of a hundred shows with probability 95%.
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
Both = tuple[PView, duckdb.DuckDBPyConnection]


@pytest.fixture(autouse=True)
def _time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch off time limits, because these tests judge the meaning of statements."""
    monkeypatch.setattr("hdpview.query.evaluate.deadline.CPU_SECONDS", 60.0)


def values_of(attribute: Any) -> list[Any]:
    if isinstance(attribute, Date):
        start = date.fromisoformat(str(attribute.min)[:10])
        values: list[Any] = [start + timedelta(days=i) for i in range(attribute.n_values)]
    elif isinstance(attribute, Integer):
        values = list(range(attribute.min, attribute.max + 1))
    else:
        values = [False, True] if isinstance(attribute, Boolean) else list(attribute.values)
    return values + [None] * attribute.nullable


@pytest.fixture(scope="module")
def both() -> Both:
    """One table of 300 people, as a noiseless view and in DuckDB. Values lean to the low codes, so that
    groups differ in size."""
    rng = np.random.default_rng(11)
    codes = np.stack([(rng.beta(1.0, 1.5, 300) * size).astype(np.int64) for size in PEOPLE.sizes], axis=1)
    values = [values_of(attribute) for attribute in PEOPLE.attributes]
    columns = {name: [values[a][code] for code in codes[:, a]] for a, name in enumerate(PEOPLE.names)}
    # One thread: rows that tie come in the same order each time.
    connection = duckdb.connect(config={"threads": 1})
    connection.register("people", pa.table(columns))
    connection.execute('CREATE VIEW "view" AS SELECT * FROM people')
    return noiseless_view(PEOPLE, codes), connection


def answers_of_view(view: PView, sql: str, **options: Any) -> list[list[Any]]:
    result = run(view, sql, with_intervals=False, **options)
    ends = {f"{name}{end}" for name in result.aggregates for end in ("_lower", "_upper")}
    return [[value for name, value in row.items() if name not in ends] for row in result.to_rows()]


def alike(ours: Any, theirs: Any) -> bool:
    is_number = isinstance(ours, (int, float, Decimal)) and not isinstance(ours, bool)
    if is_number and isinstance(theirs, (int, float, Decimal)) and not isinstance(theirs, bool):
        return float(ours) == pytest.approx(float(theirs), rel=1e-9, abs=1e-6)
    return type(ours) is type(theirs) and ours == theirs


def assert_same(both: Both, sql: str, dialect: str = "duckdb", truth: str | None = None) -> None:
    view, connection = both
    theirs = connection.execute((truth or sql).replace("FROM view", 'FROM "view"')).fetchall()
    ours = answers_of_view(view, sql, dialect=dialect)
    assert len(ours) == len(theirs), (sql, ours, theirs)
    for own, other in zip(ours, theirs, strict=True):
        assert len(own) == len(other), sql
        assert all(map(alike, own, other)), (sql, own, other)


@pytest.mark.parametrize("part", range(N_PARTS))
def test_random_statements_are_answered_as_duckdb_does(both, part):
    source = Statements(part)
    for _ in range(N_STATEMENTS // N_PARTS):
        assert_same(both, source.statement())


# Forms that the random statements do not have.
WRITTEN = """
SELECT COUNT(*) AS n FROM (SELECT * FROM view WHERE age > 3 ORDER BY age) AS t;
SELECT sex, age, DENSE_RANK() OVER (PARTITION BY sex ORDER BY COUNT(*)) AS r, NTILE(3) OVER (ORDER BY sex,
    age) AS t, LAG(sex) OVER (ORDER BY age, sex) AS s FROM view GROUP BY 1, 2 ORDER BY 1, 2;
SELECT age, PERCENT_RANK() OVER (ORDER BY COUNT(*)) AS p, CUME_DIST() OVER (ORDER BY COUNT(*)) AS c,
    LEAD(COUNT(*), 2, 0) OVER (ORDER BY age) AS l FROM view GROUP BY age ORDER BY age;
SELECT age % 3 AS m, age, SUM(COUNT(*)) OVER (ORDER BY age % 3) AS peers, MAX(COUNT(*)) OVER (ORDER BY age
    ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS x FROM view GROUP BY 1, 2 ORDER BY 2;
SELECT region, COUNT(*) AS n, SUM(COUNT(*)) OVER w AS s FROM view GROUP BY 1 WINDOW w AS (ORDER BY region)
    ORDER BY 1;
SELECT joined, COUNT(*) AS n, AVG(COUNT(*)) OVER (ORDER BY joined RANGE BETWEEN INTERVAL 6 DAY PRECEDING AND
    CURRENT ROW) AS a FROM view GROUP BY joined HAVING COUNT(*) > 0 ORDER BY joined;
SELECT * FROM (SELECT sex, age, COUNT(*) AS n, ROW_NUMBER() OVER (PARTITION BY sex ORDER BY COUNT(*) DESC,
    age) AS r FROM view GROUP BY sex, age) AS t WHERE r <= 2 ORDER BY sex, r;
SELECT age, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share FROM view GROUP BY age QUALIFY share > 0.1 ORDER
    BY age;
WITH t AS (SELECT age, COUNT(*) AS n FROM view GROUP BY age) SELECT age, n * 1.0 / SUM(n) OVER () AS s FROM
    t WHERE n > 10 ORDER BY age;
SELECT sex, MAX(n) - MIN(n) AS d, COUNT(n) AS k, MEDIAN(n) AS m, COUNT(*) FILTER (WHERE n > 5) AS f FROM
    (SELECT sex, age, COUNT(*) AS n FROM view GROUP BY 1, 2) AS t WHERE n > 2 GROUP BY sex HAVING COUNT(*) >
    1 ORDER BY sex;
SELECT half, AVG(n) AS a FROM (SELECT age, age // 5 AS half, COUNT(*) AS n FROM view GROUP BY 1, 2) AS t
    GROUP BY 1 ORDER BY a DESC LIMIT 1;
SELECT DISTINCT age % 2 AS odd FROM (SELECT age, COUNT(*) AS n FROM view GROUP BY age) AS t ORDER BY odd;
SELECT sex FROM view GROUP BY sex UNION SELECT sex FROM view GROUP BY sex ORDER BY 1 LIMIT 1 OFFSET 1;
SELECT SUM(n) AS s FROM (SELECT COUNT(*) AS n FROM view UNION ALL SELECT SUM(age) FROM view) AS t;
WITH t AS (SELECT * FROM view WHERE urban) SELECT 1 AS k, AVG(age) AS a FROM t UNION ALL (SELECT 2,
    AVG(children) FROM t) UNION ALL SELECT 3, NULL FROM t GROUP BY 1 ORDER BY k;
SELECT sex, urban, AVG(age) AS a FROM view GROUP BY CUBE (sex, urban) HAVING COUNT(*) > 10 ORDER BY a, sex
    LIMIT 3;
SELECT age % 2 AS odd, sex, COUNT(sex) AS n FROM view GROUP BY sex, ROLLUP (age % 2) ORDER BY 3, 2, 1;
SELECT COUNT(*) AS n FROM view GROUP BY ();
SELECT sex, urban, COUNT(*) FROM view GROUP BY CUBE (1, 2) ORDER BY 1 NULLS LAST, 2 NULLS LAST;
SELECT region, n FROM (SELECT region, COUNT(*) AS n FROM view GROUP BY ROLLUP (region)) AS t ORDER BY n, 1;
SELECT sex, REGR_SXX(age, children), REGR_SXY(age, income), SKEWNESS(age), KURTOSIS(age), CORR(age, income)
    FROM view GROUP BY sex ORDER BY 1;
SELECT AVG(ABS(income - 30)) AS d, SUM(income * 2 - children) AS s, SUM(income * month(joined)) AS p FROM
    view;
WITH names(code, label) AS (VALUES ('F', 'women'), ('M', 'men')) SELECT label, COUNT(*) AS n FROM view JOIN
    names ON sex = code GROUP BY label ORDER BY label;
SELECT v.r, COALESCE(n, 0) AS n FROM (VALUES ('Nort'), ('North'), ('x')) AS v(r) LEFT JOIN (SELECT region,
    COUNT(*) AS n FROM view GROUP BY 1) AS c ON c.region = v.r ORDER BY 1;
SELECT age // 3 AS b, COUNT(*) || ' people' AS t, (COUNT(*) * 2)::VARCHAR AS d FROM view GROUP BY 1 ORDER BY
    1;
SELECT sex, COUNT(*) AS n FROM view WHERE region IN (SELECT region FROM view WHERE region IS NOT NULL GROUP
    BY region ORDER BY COUNT(*) DESC LIMIT 2) AND age > (SELECT AVG(age) FROM view) GROUP BY sex ORDER BY
    sex;
WITH t AS (SELECT region, COUNT(*) AS n FROM view GROUP BY region) SELECT COUNT(*) FROM view WHERE region IN
    (SELECT region FROM t WHERE n > 40);
SELECT COUNT(*) * 1.0 / (SELECT COUNT(*) FROM view) AS share, (SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM
    view GROUP BY age) AS t) AS top FROM view WHERE smoker;
SELECT COUNT(*) FROM view WHERE (sex, urban) IN (SELECT sex, urban FROM view GROUP BY 1, 2 ORDER BY COUNT(*)
    LIMIT 2);
SELECT region, COUNT(*) AS n FROM view JOIN (SELECT region AS r, COUNT(*) AS c FROM view GROUP BY region
    ORDER BY c DESC LIMIT 2) AS t ON region = r GROUP BY region ORDER BY n;
SELECT count(*) AS n, count(income) AS i, sum(income), avg(age), median(age) FROM view WHERE age < 0;
SELECT COUNT(1) AS a, COUNT('x') AS b, COUNT(NULL) AS c, SUM(2.5) AS d, COUNT(*) FILTER (WHERE 1 = 0) AS e
    FROM view;
SELECT sex, SUM(CASE WHEN 1 = 1 THEN 2 ELSE 0 END) AS a, COUNT(*) FILTER (WHERE FALSE) AS b FROM view GROUP
    BY sex ORDER BY sex;
SELECT region AS r, COUNT(*) FROM view GROUP BY r HAVING COUNT(*) > 0 ORDER BY r NULLS FIRST;
SELECT sex, COUNT(*) AS n FROM view GROUP BY sex ORDER BY COUNT(*), 1 OFFSET 1;
SELECT age, COUNT(*) AS n FROM view GROUP BY age ORDER BY age FETCH FIRST 3 ROWS ONLY;
WITH a(x, y) AS (SELECT age, sex FROM view) SELECT y, SUM(x) FROM a GROUP BY y ORDER BY y;
SELECT v.sex, COUNT(*) FROM view AS v WHERE v.age > 2 GROUP BY v.sex ORDER BY v.sex;
SELECT "Group"."sex" AS "Sex of person", COUNT(*) AS "# of rows" FROM (SELECT * FROM view WHERE age > 2) AS
    "Group" GROUP BY "Group"."sex" ORDER BY "# of rows" DESC;
SELECT PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY age) FROM view;
SELECT AVG(joined) AS a, MEDIAN(joined) AS m FROM view WHERE joined < '2024-01-20';
SELECT age * 10 AS ten, COUNT(*) AS n FROM view GROUP BY age HAVING COUNT(*) > (3 + 4) * 2 ORDER BY ten;
SELECT COUNT(*) FROM view WHERE 1 = 1 AND 2 > 3;
SELECT COUNT(*) FROM view WHERE (region, age) IN (('North', 1), ('South', 2)) OR region IS DISTINCT FROM
    'North';
SELECT ROUND(AVG(age), 1) AS a, CAST(AVG(age) AS INTEGER) AS b FROM view;
SELECT last_day(joined) AS d, COUNT(*) AS n FROM view GROUP BY 1 ORDER BY 1;
SELECT a.region, a.n - b.n AS d FROM (SELECT region, COUNT(*) AS n FROM view GROUP BY 1) AS a JOIN (SELECT
    region, COUNT(*) AS n FROM view WHERE smoker GROUP BY 1) AS b ON a.region = b.region ORDER BY 1;
WITH t AS (SELECT COUNT(*) AS total, AVG(age) AS mean FROM view) SELECT v.sex, COUNT(*) * 100.0 / MAX(t.total)
    AS pct FROM view AS v CROSS JOIN t WHERE v.age > t.mean GROUP BY v.sex ORDER BY 1;
WITH p AS (SELECT 3 AS low) SELECT COUNT(*) / p.low AS n FROM view, p WHERE age >= p.low GROUP BY p.low;
SELECT region, SUM(CASE WHEN sex = 'F' THEN age ELSE 0 END) AS a, AVG(CASE WHEN smoker THEN 1.0 ELSE 0 END)
    AS b, AVG(CASE WHEN sex = 'F' THEN income END) AS c, SUM(CASE WHEN urban THEN income ELSE 0 END) AS d,
    COUNT(CASE WHEN age > 3 THEN 1 END) AS e, MEDIAN(CASE WHEN urban THEN age END) AS f, SUM(CASE WHEN
    age > 99 THEN age END) AS g, AVG(CASE WHEN urban THEN -age ELSE 0 END) AS h FROM view GROUP BY region
    ORDER BY 1;
"""
ONLY_IN_DUCKDB = """
SELECT age, COUNT(*) AS n FROM view GROUP BY age ORDER BY age LIMIT 50%;
SELECT age, COUNT(*) AS n FROM view GROUP BY age ORDER BY age LIMIT ALL;
PIVOT "view" ON sex USING SUM(age) GROUP BY region ORDER BY region DESC LIMIT 3;
SELECT region, COUNT(*) AS n FROM view GROUP BY ALL HAVING n > 0 ORDER BY ALL;
SELECT if(urban, 'town', 'country') AS place, COUNT(*), countif(smoker) AS s FROM view GROUP BY place ORDER
    BY place;
SELECT COUNT(*) FROM view WHERE starts_with(region, 'N') OR contains(region, 'ou') OR COALESCE(smoker,
    FALSE);
SELECT AVG((age = 1)::INT) AS a, AVG(LEAST(age, 3)) AS b, AVG(NULLIF(age, 1)) AS c, COUNT(*) // 7 AS d FROM
    view;
SELECT format('{}-{}', region, sex) AS k, COUNT(*) AS n FROM view GROUP BY 1 HAVING n > 0 ORDER BY 1;
SELECT MODE(region) AS m, quantile_cont(age, [0.25, 0.75]) AS q FROM view;
SELECT s.k, COALESCE(n, 0) AS n FROM generate_series(1, 14) AS s(k) LEFT JOIN (SELECT age, COUNT(*) AS n
    FROM view GROUP BY 1) AS c ON c.age = s.k ORDER BY 1;
WITH weeks AS (SELECT unnest(generate_series(DATE '2023-12-18', DATE '2024-02-12', INTERVAL 7 DAY))::DATE AS
    w), c AS (SELECT date_trunc('week', joined)::DATE AS w, COUNT(*) AS n FROM view GROUP BY 1) SELECT
    weeks.w, COALESCE(n, 0) AS n FROM weeks LEFT JOIN c ON c.w = weeks.w ORDER BY 1;
"""


def listed(text: str) -> list[str]:
    return [" ".join(sql.split()) for sql in text.split(";\n") if sql.strip()]


@pytest.mark.parametrize("sql", [*listed(WRITTEN), *listed(ONLY_IN_DUCKDB)])
def test_statements_of_every_kind_are_answered_as_duckdb_does(both, sql):
    assert_same(both, sql)


@pytest.mark.parametrize("sql", [sql for sql in listed(WRITTEN) if "ALL" not in sql])
def test_statements_in_the_words_of_postgresql_mean_the_same(both, sql):
    """The parser builds other trees for other dialects: IS NOT NULL is one node there."""
    assert_same(both, sqlglot.transpile(sql, read="duckdb", write="postgres")[0], "postgres", truth=sql)


# What a dialect writes as an expression of `joined` or `region` → the same in DuckDB.
SPELLINGS = [
    ("mysql", "DAYOFWEEK(joined)", "dayofweek(joined) + 1"),
    ("mysql", "WEEKDAY(joined)", "isodow(joined) - 1"),
    ("bigquery", "EXTRACT(DAYOFWEEK FROM joined)", "dayofweek(joined) + 1"),
    ("tsql", "DATEPART(weekday, joined)", "dayofweek(joined) + 1"),
    ("snowflake", "DAYNAME(joined)", "strftime(joined, '%a')"),
    ("spark", "date_format(joined, 'yyyy-MM')", "strftime(joined, '%Y-%m')"),
    ("spark", "region LIKE 'N%'", "region LIKE 'N%'"),
    ("tsql", "CASE WHEN region IS NOT NULL THEN 1 ELSE 0 END", "(region IS NOT NULL)::INT"),
    ("oracle", "CASE WHEN region IS NOT NULL THEN 1 ELSE 0 END", "(region IS NOT NULL)::INT"),
    ("postgres", "region ~~ 'N%'", "region LIKE 'N%'"),
    ("postgres", "region <> ALL(ARRAY['North', 'South'])", "region NOT IN ('North', 'South')"),
    ("postgres", "to_char(joined, 'Dy, FMDD Mon YYYY')", "strftime(joined, '%a, %-d %b %Y')"),
    ("postgres", "to_char(joined, '\"Q\"Q')", "'Q' || quarter(joined)"),
    ("postgres", "to_char(joined, 'DAY')", "upper(rpad(dayname(joined), 9, ' '))"),
    ("postgres", "extract(day from joined) / 7", "day(joined) / 7"),
    ("postgres", "age / 2", "age // 2"),
    ("postgres", "joined>={d '2024-01-05'} AND joined < {ts '2024-01-09 00:00:00'}",
     "joined BETWEEN '2024-01-05' AND '2024-01-08'"),
    ("tsql", "age / 2", "age // 2"),
    ("postgres", "(joined - DATE '2023-12-01') / 7", "(joined - DATE '2023-12-01') // 7"),
    ("postgres", "FLOOR(age / 2.0) * 2.0", "FLOOR(age / 2.0) * 2.0"),
    ("postgres", "joined::varchar(7)", "strftime(joined, '%Y-%m')"),
    ("tsql", "CONVERT(varchar(7), joined, 120)", "strftime(joined, '%Y-%m')"),
    ("tsql", "DATEADD(month, DATEDIFF(month, 0, joined), 0)", "date_trunc('month', joined)::TIMESTAMP"),
    # 2023 begins on a Sunday, 2024 on a Monday.
    ("tsql", "DATEPART(week, joined)", "(dayofyear(joined) + year(joined) - 2024) // 7 + 1"),
    ("tsql", "CAST(YEAR(joined) AS VARCHAR(4)) + '-' + RIGHT('0' + CAST(MONTH(joined) AS VARCHAR(2)), 2)",
     "strftime(joined, '%Y-%m')"),
    ("spark", "isnull(region)", "region IS NULL"),
    ("mysql", "WEEK(joined)", "strftime(joined, '%U')::INT"),
    ("mysql", "WEEK(joined, 3)", "weekofyear(joined)"),
    ("mysql", "YEARWEEK(joined, 3)", "yearweek(joined)"),
    ("mysql", "EXTRACT(YEAR_MONTH FROM joined)", "year(joined) * 100 + month(joined)"),
    ("mysql", "FIELD(sex, 'M', 'F')", "CASE sex WHEN 'M' THEN 1 ELSE 2 END"),
    ("bigquery", "EXTRACT(WEEK FROM joined)", "strftime(joined, '%U')::INT"),
    ("bigquery", "EXTRACT(ISOWEEK FROM joined)", "weekofyear(joined)"),
    ("bigquery", "DATE_TRUNC(joined, WEEK)", "(joined - dayofweek(joined)::INT)::DATE"),
    ("bigquery", "joined = PARSE_DATE('%Y-%m-%d', '2024-01-05')", "joined = DATE '2024-01-05'"),
    ("snowflake", "DECODE(sex, 'M', 'm', 'f')", "lower(sex)"),
    ("spark", "trunc(joined, 'MM')", "date_trunc('month', joined)"),
]  # fmt: skip


@pytest.mark.parametrize(("dialect", "spelling", "meaning"), SPELLINGS)
def test_dialects_are_read_by_their_own_meaning(both, dialect, spelling, meaning):
    statement = "SELECT {} AS k, COUNT(*) AS n FROM view GROUP BY 1 HAVING COUNT(*) > 0 ORDER BY n, k"
    table = sqlglot.exp.to_identifier("view", quoted=True).sql(dialect)
    own = statement.format(spelling).replace("FROM view", f"FROM {table}")
    theirs = statement.format(meaning)
    if dialect in ("mysql", "spark", "bigquery", "tsql"):  # where NULL sorts first
        theirs += " NULLS FIRST"
    assert_same(both, own, dialect, truth=theirs)


def test_associations_leave_missing_outcomes_and_exposures_out(both):
    view, connection = both
    a, b, c, d = connection.execute(
        "SELECT COUNT(*) FILTER (urban AND smoker), COUNT(*) FILTER (NOT urban AND smoker), "
        "COUNT(*) FILTER (urban AND NOT smoker), COUNT(*) FILTER (NOT urban AND NOT smoker) FROM people"
    ).fetchall()[0]
    assert view.odds_ratio("urban", "smoker").estimate == pytest.approx(a * d / (b * c))
    assert view.odds_ratio("smoker", "urban").estimate == pytest.approx(a * d / (b * c))
    sql = "SELECT RISK_RATIO(urban, smoker) AS ratio, RISK_DIFFERENCE(urban, smoker) AS difference FROM view"
    risk, baseline = a / (a + b), c / (c + d)
    assert answers_of_view(view, sql)[0] == pytest.approx([risk / baseline, risk - baseline])


@pytest.mark.parametrize(("dialect", "how"), [("mysql", "WITH ROLLUP"), ("tsql", "WITH CUBE")])
def test_groups_are_rolled_up_in_older_words(both, dialect, how):
    table = sqlglot.exp.to_identifier("view", quoted=True).sql(dialect)
    asked = f"SELECT sex, urban, COUNT(*) AS n FROM {table} GROUP BY sex, urban {how} ORDER BY n"
    truth = f"SELECT sex, urban, COUNT(*) AS n FROM view GROUP BY {how[5:]} (sex, urban) ORDER BY n"
    assert_same(both, asked, dialect, truth)
