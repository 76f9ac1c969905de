"""The SQL layer piece by piece: what it refuses and in which words, bins and dates, intervals, names, and
hostile text.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sqlglot

from calls import n_calls
from cells import mixture_view, noiseless_view, noisy_view
from hdpview.domain import Boolean, Category, Datetime, Integer, Real, Schema
from hdpview.errors import HdpviewError, InternalError, QueryError
from hdpview.pview import PView
from hdpview.query.question.where import boxes_of, name_in_sql, parse
from hdpview.query.evaluate import run

SCHEMA = Schema(
    [
        Integer(name="age", min=0, max=9),
        Integer(name="size", min=0, max=99, every=10),
        Real(name="pressure", min=0.0, max=50.0, bins=10, nullable=True),
        Datetime(name="day", min="2023-01-01", max="2024-12-31", every="1mo"),
        Category(name="region", values=("North", "South"), other="elsewhere"),
        Boolean(name="smoker", nullable=True),
    ]
)
N_ROWS = 400


@pytest.fixture(scope="module")
def codes() -> np.ndarray:
    rng = np.random.default_rng(5)
    return np.stack([(rng.beta(1, 1.4, N_ROWS) * size).astype(np.int64) for size in SCHEMA.sizes], axis=1)


@pytest.fixture(scope="module")
def view(codes: np.ndarray) -> PView:
    """A view that knows the table cell by cell."""
    return noiseless_view(SCHEMA, codes)


def rows(view: PView, sql: str, **options: Any) -> list[dict[str, Any]]:
    return run(view, sql, **options).to_rows()


REFUSED = {
    "SELECT * FROM view": "holds counts, not rows. Count instead: SELECT age, size, pressure, COUNT",
    "SELECT age FROM view WHERE age > 3": "SELECT age, COUNT(*) AS n FROM view GROUP BY age",
    "SELECT MIN(age) FROM view": "quantile_cont(age, 0.01)",
    "SELECT MAX(age) FROM view": "quantile_cont(age, 0.99)",
    "SELECT COUNT(DISTINCT region) FROM view": "GROUP BY x",
    "SELECT SKEWNESS(age) FROM view": "What can: COUNT, SUM, AVG",
    "SELECT SUM(region) FROM view": "no numbers to add up",
    "SELECT SUM(day) FROM view": "Ask for their mean, AVG(day)",
    "SELECT MEDIAN(region) FROM view": "numeric or datetime attribute",
    "SELECT quantile_cont(age, 2) FROM view": "from 0 to 1",
    "SELECT COUNT(*) FROM view JOIN view AS v ON view.age = v.age": "one table",
    "SELECT COUNT(*) FROM view, view AS v": "one table",
    "SELECT COUNT(*) FROM people": "called view",
    "SELECT COUNT(*) FROM read_csv('/etc/passwd')": "called view",
    "SELECT COUNT(*) FROM view EXCEPT SELECT COUNT(*) FROM view": "ask each by itself",
    "SELECT COUNT(*) FROM view UNION ALL SELECT age, COUNT(*) FROM view GROUP BY age": "number of columns",
    "SELECT COUNT(*) AS n FROM view UNION ALL SELECT SUM(1) FROM view ORDER BY n + 1": "names or positions",
    "SELECT ROW_NUMBER() OVER (ORDER BY age) FROM view": "Windows work over groups",
    "SELECT age, SUM(age) OVER () FROM view": "Windows work over groups",
    "SELECT age, NTH_VALUE(COUNT(*), 2) OVER () FROM view GROUP BY age": "Windows work over groups",
    "SELECT SUM(COUNT(*)) OVER (ORDER BY age RANGE 3 PRECEDING) FROM view GROUP BY age": "ROWS BETWEEN",
    "SELECT SUM(COUNT(*)) OVER w FROM view GROUP BY age WINDOW w AS ()": "where it is used",
    "SELECT AVG(n) FROM (SELECT COUNT(*) AS n FROM view GROUP BY age ORDER BY n LIMIT 3)": "of a LIMIT",
    "SELECT n / SUM(n) OVER () FROM (SELECT RANK() OVER (ORDER BY age) AS n FROM view GROUP BY age)": (
        "result of other windows"
    ),
    "SELECT COUNT(*) FROM view WHERE age = (SELECT age FROM view GROUP BY age)": "more than one value",
    "SELECT COUNT(*) FROM view WHERE pressure IN (SELECT pressure FROM view GROUP BY 1)": "gives bins",
    "SELECT COUNT(*) FROM view v WHERE age > (SELECT AVG(age) FROM view i WHERE i.region = v.region)": (
        "belongs to the outer statement"
    ),
    "SELECT COUNT(*) FROM view WHERE EXISTS (SELECT 1 FROM view)": "ask it by itself",
    "SELECT COUNT(*) FROM view WHERE age > ALL (SELECT age FROM view GROUP BY age)": "ask it by itself",
    "SELECT n FROM view JOIN (SELECT age AS a, SUM(1) AS n FROM view GROUP BY age) t ON age = a": "one table",
    "SELECT COUNT(*) FROM view WHERE COUNT(*) > 3": "go into HAVING",
    "SELECT region, COUNT(*) FROM view": "add it to GROUP BY",
    "SELECT COUNT(*) FROM view GROUP BY COUNT(*)": "not aggregates",
    "SELECT COUNT(*) FROM view GROUP BY 3": "not one of the 1 selected columns",
    "SELECT regin, COUNT(*) FROM view GROUP BY regin": "Did you mean 'region'?",
    "SELECT n FROM (SELECT COUNT(*) AS n FROM view GROUP BY ROLLUP (age)) t": "ask each GROUP BY by itself",
    "SELECT COUNT(*) FROM view LIMIT -1": "whole number",
    "SELECT COUNT(*) FROM view USING SAMPLE 10": "sample",
    "SELECT pressure * 2 AS p, COUNT(*) FROM view GROUP BY p": "counted in bins",
    "SELECT COUNT(*) FROM view WHERE age = ?": "parameters",
    "SELECT COUNT(*) AS n FROM view HAVING n": "HAVING takes a condition",
    "SELECT date_trunc('century', day), COUNT(*) FROM view GROUP BY 1": "not by 'century'",
    "WITH RECURSIVE t AS (SELECT * FROM view) SELECT COUNT(*) FROM t": "plain WITH",
    "INSERT INTO view VALUES (1)": "Only SELECT",
    "SELECT DP_INTERVAL_LOW(region), COUNT(*) FROM view GROUP BY region": "takes an aggregate",
    "SELECT COUNT(*) + 'a' FROM view": "types do not fit",
    "SELECT nosuchfunction(COUNT(*)) FROM view": "cannot be computed here",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_cannot_be_answered_is_refused_with_the_reason_and_a_way_out(view: PView, sql: str) -> None:
    """Each refusal says why, and names the nearest thing that can be answered."""
    with pytest.raises(QueryError) as refusal:
        run(view, sql)
    assert REFUSED[sql] in str(refusal.value)
    assert len(str(refusal.value)) < 500


def test_limits_inside_and_outside_make_one(view: PView) -> None:
    """Tools put a LIMIT around a LIMIT: the smaller one counts, after what both skip."""
    inner = "SELECT region, COUNT(*) AS n FROM view GROUP BY region ORDER BY n DESC, region"
    whole = rows(view, inner)
    assert rows(view, f"SELECT * FROM ({inner} LIMIT 3) AS t LIMIT 1000") == whole[:3]
    assert rows(view, f"SELECT * FROM ({inner} LIMIT 3 OFFSET 1) AS t LIMIT 2 OFFSET 1") == whole[2:4]
    assert rows(view, f"SELECT * FROM ({inner} OFFSET 1) AS t LIMIT 1") == whole[1:2]
    with pytest.raises(QueryError, match="move it to the outer statement"):
        run(view, f"SELECT * FROM ({inner} LIMIT 3) AS t WHERE n > 1")
    with pytest.raises(QueryError, match="not on rows"):
        run(view, "SELECT COUNT(*) FROM (SELECT * FROM view LIMIT 3) AS t")


def test_an_order_inside_a_subquery_changes_no_count(view: PView) -> None:
    """Tools leave ORDER BY in subqueries; over groups of them it has no meaning."""
    plain = rows(view, "SELECT COUNT(*) AS n FROM view WHERE age > 3")
    assert (
        rows(view, "SELECT COUNT(*) AS n FROM (SELECT * FROM view WHERE age > 3 ORDER BY age) AS t") == plain
    )


def test_is_not_null_is_read_alike_in_all_dialects(view: PView) -> None:
    """The parser has two trees for IS NOT NULL; both mean the records with a value."""
    found = {
        dialect: rows(view, "SELECT COUNT(*) AS n FROM view WHERE pressure IS NOT NULL", dialect=dialect)[0][
            "n"
        ]
        for dialect in ("duckdb", "postgres", "snowflake", "spark", "mysql", "bigquery", "tsql", "oracle")
    }
    assert len(set(found.values())) == 1
    assert (
        found["duckdb"]
        == view.count("pressure IS NOT NULL").estimate
        > view.count("pressure IS NULL").estimate
    )


def test_unknown_dialects_are_refused_by_name(view: PView) -> None:
    """A dialect that does not exist gets a suggestion."""
    with pytest.raises(QueryError, match="Did you mean 'postgres'"):
        run(view, "SELECT COUNT(*) FROM view", dialect="postgress")


def test_bins_are_groups_in_their_own_units_and_order(view: PView, codes: np.ndarray) -> None:
    """Grouping by a binned attribute names its bins, and sorts them along the axis, not by their letters."""
    found = rows(view, "SELECT size, COUNT(*) AS n FROM view GROUP BY size ORDER BY size DESC")
    assert [row["size"] for row in found][:2] == ["90–99", "80–89"]
    assert [row["n"] for row in found][::-1] == np.bincount(codes[:, 1], minlength=10).tolist()
    pressures = rows(view, "SELECT pressure, COUNT(*) AS n FROM view GROUP BY pressure ORDER BY pressure")
    assert [row["pressure"] for row in pressures] == [
        f"[{5 * i}, {5 * i + 5}{']' if i == 9 else ')'}" for i in range(10)
    ] + [None]


def test_steps_cut_bins_where_they_have_to(view: PView, codes: np.ndarray) -> None:
    """floor, round and width_bucket of a binned attribute make groups; a step inside a bin takes its share of
    the bin.
    """
    by_bin = np.bincount(codes[:, 2], minlength=11)
    tens = rows(
        view,
        "SELECT floor(pressure / 10) * 10 AS p, COUNT(*) AS n FROM view WHERE pressure IS NOT NULL "
        "GROUP BY p ORDER BY p",
    )
    assert [(row["p"], row["n"]) for row in tens] == [
        (10 * i, by_bin[2 * i] + by_bin[2 * i + 1]) for i in range(5)
    ]
    halves = rows(
        view, "SELECT floor(pressure / 2.5) AS p, COUNT(*) AS n FROM view GROUP BY p ORDER BY p NULLS FIRST"
    )
    assert [row["n"] for row in halves] == pytest.approx(
        [by_bin[10], *(by_bin[i // 2] / 2 for i in range(20))]
    )
    buckets = rows(
        view,
        "SELECT width_bucket(pressure, 10, 40, 3) AS b, COUNT(*) AS n FROM view WHERE pressure >= 0 "
        "GROUP BY b ORDER BY b",
    )
    assert [(row["b"], row["n"]) for row in buckets] == [
        (i, by_bin[2 * i] + by_bin[2 * i + 1]) for i in range(5)
    ]


def test_dates_are_grouped_by_the_calendar(view: PView, codes: np.ndarray) -> None:
    """date_trunc, year, quarter and extract follow months, quarters and years; plain datetimes are named by
    the start of their bin.
    """
    by_month = np.bincount(codes[:, 3], minlength=24)
    years = rows(view, "SELECT year(day) AS y, COUNT(*) AS n FROM view GROUP BY y ORDER BY y")
    assert [(row["y"], row["n"]) for row in years] == [
        (2023, by_month[:12].sum()),
        (2024, by_month[12:].sum()),
    ]
    quarters = rows(
        view, "SELECT date_trunc('quarter', day) AS q, COUNT(*) AS n FROM view GROUP BY q ORDER BY q"
    )
    assert [row["n"] for row in quarters] == by_month.reshape(8, 3).sum(axis=1).tolist()
    assert quarters[1]["q"] == date(2023, 4, 1)
    seasons = rows(view, "SELECT extract(month FROM day) AS m, COUNT(*) AS n FROM view GROUP BY m ORDER BY m")
    assert [row["n"] for row in seasons] == (by_month[:12] + by_month[12:]).tolist()
    assert rows(view, "SELECT COUNT(*) AS n FROM view WHERE year(day) = 2024")[0]["n"] == by_month[12:].sum()
    plain = rows(view, "SELECT day, COUNT(*) AS n FROM view GROUP BY day ORDER BY day LIMIT 1")
    assert plain[0]["day"] == date(2023, 1, 1)


def test_means_of_bins_use_their_middle(view: PView, codes: np.ndarray) -> None:
    """A bin of whole numbers counts as their mean, a bin of reals as its middle; the mean of datetimes is a
    datetime.
    """
    mean = rows(view, "SELECT AVG(size) AS s, SUM(pressure) AS p, AVG(day) AS d FROM view")[0]
    assert mean["s"] == pytest.approx((codes[:, 1] * 10 + 4.5).mean())
    known = codes[codes[:, 2] < 10, 2]
    assert mean["p"] == pytest.approx((known * 5 + 2.5).sum())
    assert isinstance(mean["d"], datetime)
    assert date(2023, 1, 1) < mean["d"].date() < date(2024, 12, 31)


def test_every_aggregate_has_its_interval(view: PView) -> None:
    """`n` is followed by `n_lower` and `n_upper`, which hold it; keys and texts have none; DP_INTERVAL names
    the same ends.
    """
    sql = (
        "SELECT region, COUNT(*) AS n, AVG(age) AS a, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share, "
        "DP_INTERVAL_LOW(COUNT(*)) AS low, DP_INTERVAL_HIGH(COUNT(*)) AS high, CASE WHEN COUNT(*) > 5 "
        "THEN 'many' END AS word "
        "FROM view GROUP BY region"
    )
    result = run(view, sql)
    assert result.aggregates == ("n", "a", "share")
    columns = [
        "region",
        *(f"{name}{end}" for name in ("n", "a", "share") for end in ("", "_lower", "_upper")),
        "low",
        "high",
        "word",
    ]
    assert result.names == columns
    for row in result.to_rows():
        for name in result.aggregates:
            assert row[f"{name}_lower"] <= row[name] <= row[f"{name}_upper"]
        assert (row["low"], row["high"]) == (row["n_lower"], row["n_upper"])
        assert 0 <= row["share_lower"] <= row["share_upper"] <= 1


def test_groups_have_the_intervals_that_single_questions_have() -> None:
    """A group's count and interval are those of the same count asked alone, or the interval is wider where
    a filter is made of several boxes.
    """
    for seed in range(8):
        noisy = mixture_view(SCHEMA, seed) if seed % 2 else noisy_view(SCHEMA, seed)
        # Not guaranteed ones: a group of an outer bin holds the values beyond it, the question `age = 0` does
        # not.
        for kind in ("typical", "noise"):
            found = rows(
                noisy,
                "SELECT age, region, COUNT(*) AS n FROM view WHERE age < 5 OR smoker GROUP BY 1, 2",
                interval=kind,
            )
            asked = [
                f"age = {row['age']} AND region = '{row['region']}' AND (age < 5 OR smoker)" for row in found
            ]
            alone = noisy.count_many(asked, interval=kind)
            assert [row["n"] for row in found] == pytest.approx(alone.estimate.tolist(), abs=1e-6)
            lower, upper = (np.array([row[end] for row in found]) for end in ("n_lower", "n_upper"))
            assert (lower <= alone.lower + 1e-3).all()
            assert (upper >= alone.upper - 1e-3).all()


def test_columns_have_plain_names_and_none_twice(view: PView) -> None:
    """Unnamed aggregates are called by what they do, and equal names are numbered."""
    result = run(
        view, "SELECT COUNT(*), COUNT(*), SUM(age), AVG(age), region AS count_lower FROM view GROUP BY region"
    )
    assert len(set(result.names)) == len(result.names)
    assert {"count", "count_2", "sum_age", "avg_age"} <= set(result.names)


def test_results_are_arrow_of_the_datas_own_types(view: PView) -> None:
    """Whole numbers, texts, truths, dates and missing values keep their types."""
    table = run(
        view, "SELECT age, region, smoker, day, COUNT(*) AS n FROM view GROUP BY ALL LIMIT 5"
    ).to_arrow()
    assert [field.type for field in table.schema] == [
        pa.int64(),
        pa.string(),
        pa.bool_(),
        pa.date32(),
        *[pa.float64()] * 3,
    ]


def test_too_many_groups_are_refused(view: PView) -> None:
    """A grouping beyond the limit says how many groups it makes, at once."""
    wide = Schema([Integer(name=f"a{i}", min=0, max=99) for i in range(4)])
    big = noiseless_view(wide, np.zeros((1, 4), np.int64))
    with pytest.raises(QueryError, match="100,000,000 groups"):
        run(big, "SELECT a0, a1, a2, a3, COUNT(*) FROM view GROUP BY ALL")


WORDS = re.findall(
    r"\S+",
    """
    SELECT COUNT ( * ) FROM view WHERE GROUP BY HAVING ORDER LIMIT age size region smoker day pressure
    AND OR NOT IN BETWEEN LIKE IS NULL = <> < > + - * / % , . ; ' " 1 2.5 'North' CASE WHEN THEN ELSE END
    SUM AVG MEDIAN FILTER OVER PARTITION
    WITH t AS DISTINCT UNION ALL JOIN ON RANK LAG ROLLUP SETS GROUPING ROWS PRECEDING QUALIFY INTERVAL DAY
    DATE '2024-01-01' floor date_trunc 'month' CAST :: INT [ ] { } ? $1 -- /* */ \\ \0 é 🙂 1e999
    9999999999999999999999 VALUES PIVOT
    """,
)
STATEMENTS = """
    SELECT region , COUNT ( * ) AS n FROM view WHERE age > 3 AND smoker
    GROUP BY region HAVING COUNT ( * ) > 2 ORDER BY n LIMIT 3 ;
    SELECT region , LAG ( AVG ( age ) , 1 , 0 ) OVER ( PARTITION BY smoker ORDER BY region
    ROWS BETWEEN 1 PRECEDING AND CURRENT ROW ) AS l FROM view GROUP BY region , smoker QUALIFY l > 3 ;
    SELECT region , smoker , COUNT ( * ) FROM view GROUP BY ROLLUP ( region , smoker )
    UNION ALL SELECT 'x' , TRUE , SUM ( age ) FROM view WHERE day > DATE '2024-01-01' - INTERVAL 1 DAY
    ORDER BY 3 ;
    WITH t AS ( SELECT region , COUNT ( * ) AS n FROM view GROUP BY region )
    SELECT MAX ( n ) FROM t WHERE n > ( SELECT AVG ( n ) FROM t )
"""
DEEP = {
    "parentheses": "SELECT COUNT(*) FROM view WHERE " + "(" * 5_000 + "age = 1" + ")" * 5_000,
    "subqueries": "SELECT COUNT(*) FROM " + "(SELECT * FROM " * 300 + "view" + ")" * 300,
    "sums": "SELECT " + " + ".join(["COUNT(*)"] * 5_000) + " FROM view",
    "cases": "SELECT "
    + "CASE WHEN age = 1 THEN " * 500
    + "1"
    + " END" * 500
    + " AS c, COUNT(*) FROM view GROUP BY c",
    "doubling": "WITH "
    + ", ".join(
        f"t{i} AS (SELECT x + x AS x FROM {'t' + str(i - 1) if i else '(SELECT age AS x FROM view)'})"
        for i in range(40)
    )
    + " SELECT SUM(x) FROM t39",
    "in list": f"SELECT COUNT(*) FROM view WHERE age IN ({', '.join(map(str, range(20_000)))})",
    "megabyte": "SELECT COUNT(*) FROM view WHERE region = '" + "x" * 1_000_000 + "'",
    "product": "SELECT age * size * age AS p, COUNT(*) FROM view GROUP BY p",
    "power": "SELECT COUNT(*) FROM view WHERE age = 9 ** 9 ** 9 ** 9",
    "digits": f"SELECT {'9' * 90} * {'9' * 90} * {'9' * 90} + COUNT(*) FROM view",
    "surrogate": "SELECT COUNT(*) FROM view WHERE region = '\udcff'",
    "steps": "SELECT floor(pressure * 1e9) AS p, COUNT(*) FROM view GROUP BY p",
    "minutes": "SELECT date_trunc('minute', day) AS m, COUNT(*) FROM view GROUP BY m",
}


@pytest.mark.parametrize("name", DEEP)
def test_large_and_deep_statements_end_soon_in_an_answer_or_a_sentence(view: PView, name: str) -> None:
    """Nesting, doubling, long lists, megabytes and huge numbers: an answer or an HdpviewError, after some
    millions of calls at most.
    """
    messages = []

    def asked() -> None:
        try:
            run(view, DEEP[name])
        except HdpviewError as problem:
            messages.append(str(problem))

    assert n_calls(asked) < 20_000_000
    assert all(len(message) < 1_000 for message in messages)


def test_many_columns_cost_what_each_of_them_costs(view: PView) -> None:
    """400 filtered counts take four times the calls of 100, not sixteen times."""

    def asked(n: int) -> None:
        counts = ", ".join(f"COUNT(*) FILTER (WHERE age = {i})" for i in range(n))
        assert len(run(view, f"SELECT {counts} FROM view").names) == 3 * n

    asked(10)  # what is loaded once
    assert n_calls(lambda: asked(400)) < 6 * n_calls(lambda: asked(100))


@pytest.mark.parametrize("seed", range(4))
def test_random_words_are_answered_or_refused(view: PView, seed: int) -> None:
    """Statements of random words, and real statements with random words thrown in, are answered or refused,
    and none meets a mistake of ours.
    """
    random = Random(seed)
    good = STATEMENTS.split(";")[seed].split()
    for _ in range(250):
        words = list(good) if random.random() < 0.7 else random.choices(WORDS, k=random.randint(1, 20))
        for _ in range(random.randint(1, 4)):
            place = random.randrange(len(words) + 1)
            words[place : place + random.randint(0, 2)] = random.choices(WORDS, k=random.randint(0, 2))
        try:
            run(view, " ".join(words))
        except InternalError:
            raise
        except HdpviewError:
            continue


def test_readings_and_intervals_are_named_by_known_words(view: PView) -> None:
    """Sums refuse a reading or an interval that there is not, as counts do."""
    for options in ({"counts": "exact"}, {"interval": "wide"}):
        for aggregate in ("COUNT(*)", "SUM(age)", "AVG(age)", "MEDIAN(age)"):
            with pytest.raises(QueryError, match=r"counts is|interval is"):
                run(view, f"SELECT {aggregate} FROM view", **options)


def test_numbers_too_large_to_add_up_are_refused_in_words() -> None:
    """Fourth powers of values have to stay within doubles; quantiles need none."""
    schema = Schema([Real(name="x", min=0.0, max=1e100, bins=4)])
    huge = noiseless_view(schema, np.array([[0], [2], [2]]))
    for aggregate in ("SUM(x)", "AVG(x)"):
        with pytest.raises(QueryError, match="cannot be added up"):
            run(huge, f"SELECT {aggregate} FROM view")
    assert rows(huge, "SELECT MEDIAN(x) AS m FROM view")[0]["m"] > 5e99


@pytest.mark.parametrize("unit", ["year", "quarter", "month", "week"])
def test_periods_reach_the_end_of_the_calendar(unit: str) -> None:
    """Databases write 9999-12-31 for `never`: the last period of an axis that ends there holds its
    records.
    """
    schema = Schema([Datetime(name="until", min="9990-01-01", max="9999-12-31", every="1y")])
    statement = f"SELECT date_trunc('{unit}', until) AS p, COUNT(*) AS n FROM view GROUP BY p"
    found = rows(noiseless_view(schema, np.array([[9], [9], [0]])), statement)
    assert sum(row["n"] for row in found) == pytest.approx(3.0)
    assert max(row["p"] for row in found).year == 9999


def test_what_has_no_value_after_counting_is_refused_or_infinite(view: PView) -> None:
    """A negative power of 0 is infinite, as in DuckDB; a text that is no truth is refused in words, also
    where only a row can tell.
    """
    assert rows(view, "SELECT COUNT(*) + power(0, -1) AS n FROM view")[0]["n"] == float("inf")
    with pytest.raises(QueryError, match="has no value"):
        run(view, "SELECT CAST(CAST(COUNT(*) AS VARCHAR) AS BOOLEAN) AS n FROM view")


def test_any_name_can_be_written_in_sql() -> None:
    """Words of the language, quotes and spaces among them: the name in a condition, and in a group, finds its
    attribute.
    """
    keywords = {
        word.lower()
        for word in sqlglot.Dialect.get_or_raise("duckdb").tokenizer_class.KEYWORDS
        if word.isidentifier()
    }
    for name in sorted({*keywords, "age", "Age", 'say "no"', "two words", "über", "3d", "a;b"}):
        schema = Schema([Integer(name=name, min=0, max=9), Boolean(name="other_one")])
        written = name_in_sql(name)
        assert boxes_of(f"{written} >= 3 AND {written} IS NOT NULL OR {written} IN (1)", schema), name
        sql = f"SELECT {written}, AVG({written}) AS m FROM view GROUP BY {written} ORDER BY {written}"
        assert rows(noiseless_view(schema, np.array([[1, 0], [3, 1]])), sql)[0]["m"] == 1.0, name
    assert name_in_sql("age") == "age"
