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

from cells import mixture_view, noiseless_view, noisy_view
from hdpview.domain import Boolean, Category, Datetime, Integer, Real, Schema
from hdpview.errors import HdpviewError, InternalError, QueryError
from hdpview.pview import PView
from hdpview.query.evaluate import run
from hdpview.query.question.where import boxes_of, name_in_sql

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
    "SELECT * FROM view": "A view holds no rows",
    "SELECT age FROM view WHERE age > 3": "SELECT x, COUNT(*) FROM view GROUP BY x",
    "SELECT MIN(age) FROM view": "QUANTILE_CONT(age, 0.01)",
    "SELECT MAX(age) FROM view": "QUANTILE_CONT(age, 0.99)",
    "SELECT COUNT(DISTINCT region) FROM view": "COUNT(*) … GROUP BY region",
    "SELECT SUM(region) FROM view": "sum(VARCHAR)",
    "SELECT SUM(day) FROM view": "sum(DATE)",
    "SELECT MEDIAN(region) FROM view": "Quantiles are taken of numbers and dates",
    "SELECT quantile_cont(age, 2) FROM view": "in the range",
    "SELECT COUNT(*) FROM view JOIN view AS v ON view.age = v.age": "one table",
    "SELECT COUNT(*) FROM view, view AS v": "one table",
    "SELECT COUNT(*) FROM people": "one table",
    "SELECT ROW_NUMBER() OVER (ORDER BY age) FROM view": "Windows over rows",
    "SELECT age, SUM(age) OVER () FROM view": "Windows over rows",
    "SELECT COUNT(*) FROM view v WHERE age > (SELECT AVG(age) FROM view i WHERE i.region = v.region)": (
        "names columns of the statement around"
    ),
    "SELECT COUNT(*) FROM view WHERE EXISTS (SELECT 1 FROM view)": "EXISTS",
    "SELECT region, COUNT(*) FROM view": "GROUP BY",
    "SELECT COUNT(*) FROM view GROUP BY 3": "GROUP BY",
    "SELECT regin, COUNT(*) FROM view GROUP BY regin": "Did you mean 'region'?",
    "SELECT COUNT(*) FROM view WHERE region = 'Nort'": "Did you mean 'North'?",
    "SELECT size + 1 AS s, COUNT(*) FROM view GROUP BY size": "counted in bins",
    "SELECT COUNT(*) FROM view WHERE age = ?": "not supported",
    "WITH RECURSIVE t AS (SELECT * FROM view) SELECT COUNT(*) FROM t": "RECURSIVE",
    "INSERT INTO view VALUES (1)": "not supported",
    "SELECT STRING_AGG(region, ',') FROM view": "COUNT(*) … GROUP BY region",
    "SELECT nosuchfunction(COUNT(*)) FROM view": "NOSUCHFUNCTION is not supported",
    "SELECT COUNT(*) FROM (SELECT DISTINCT age, size, pressure FROM view) AS t": "COUNT(DISTINCT",
    "DESCRIBE view": "view.info()",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_cannot_be_answered_is_refused_with_the_reason_and_a_way_out(view: PView, sql: str) -> None:
    """Each refusal says why, and names the nearest thing that can be answered."""
    with pytest.raises(QueryError) as refusal:
        run(view, sql)
    assert REFUSED[sql] in str(refusal.value)
    assert len(str(refusal.value)) < 500


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
    assert quarters[1]["q"] == datetime(2023, 4, 1)
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
        assert 0 <= row["share_lower"] <= row["share_upper"]


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


def test_columns_have_duckdbs_names_and_none_twice(view: PView) -> None:
    """Unnamed outputs are called as in DuckDB, and equal names are numbered."""
    result = run(
        view, "SELECT COUNT(*), COUNT(*), SUM(age), AVG(age), region AS count_lower FROM view GROUP BY region"
    )
    assert len(set(result.names)) == len(result.names)
    assert {"count_star()", "count_star()_2", "sum(age)", "avg(age)"} <= set(result.names)


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
        assert rows(noiseless_view(schema, np.array([[1, 0], [3, 1]])), sql)[1]["m"] == 1.0, name
    assert name_in_sql("age") == "age"


@pytest.mark.parametrize("make", [mixture_view, noisy_view])
def test_medians_of_nobody_are_null(make: Any) -> None:
    """A filter that no value satisfies leaves groups without a median, in views of both kinds."""
    found = rows(make(SCHEMA, 3), "SELECT region, MEDIAN(age) AS m FROM view WHERE age > 200 GROUP BY region")
    assert [row["region"] for row in found] == ["North", "South", "elsewhere"]
    assert all(row["m"] is None or np.isnan(row["m"]) for row in found)


@pytest.mark.parametrize(
    ("asked", "name"), [("AVG(smoker)", "avg(smoker)"), ("AVG(age > 5)", "avg(age > 5)")]
)
def test_the_mean_of_a_truth_value_is_a_rate(view: PView, asked: str, name: str) -> None:
    """It has an interval, lies between 0 and 1, and is named as it was asked."""
    (row,) = rows(view, f"SELECT {asked} FROM view")
    assert list(row) == [name, f"{name}_lower", f"{name}_upper"]
    assert 0 <= row[f"{name}_lower"] <= row[name] <= row[f"{name}_upper"] <= 1


def test_ranks_say_who_else_may_belong(view: PView) -> None:
    """Rows get their presence and the range of their rank, and the note names the row that is left out."""
    noisy = mixture_view(SCHEMA, 3)
    statement = "SELECT age, COUNT(*) AS n FROM view GROUP BY age ORDER BY n DESC LIMIT 3"
    result = run(noisy, statement, ranks=True)
    assert result.names == ["age", "n", "n_lower", "n_upper", "presence", "rank_lower", "rank_upper"]
    for place, row in enumerate(result.to_rows(), start=1):
        assert 0 < row["presence"] <= 1
        assert row["rank_lower"] <= place <= row["rank_upper"]
    assert any("is left out" in note for note in result.notes)
    assert any("is left out" in note for note in run(noisy, statement).notes)
    certain = run(view, "SELECT region FROM view GROUP BY region ORDER BY region LIMIT 2", ranks=True)
    assert [row["presence"] for row in certain.to_rows()] == [1.0, 1.0]


def test_a_condition_on_aggregates_has_a_probability(view: PView) -> None:
    """It is between 0 and 1, and that of a comparison with its opposite adds up to 1."""
    more, less = "AVG(age) > 5.2", "AVG(age) <= 5.2"
    (row,) = rows(
        mixture_view(SCHEMA, 3), f"SELECT DP_PROBABILITY({more}) AS p, DP_PROBABILITY({less}) AS q FROM view"
    )
    assert list(row) == ["p", "q"]
    assert row["p"] + row["q"] == pytest.approx(1.0)
    with pytest.raises(QueryError, match="stand alone"):
        run(view, "SELECT 1 + DP_PROBABILITY(COUNT(*) > 1) FROM view")


def test_a_part_is_never_above_its_whole() -> None:
    """Neither the estimate nor an end of the interval, in SQL and among counts asked together."""
    noisy = mixture_view(SCHEMA, 3)
    nested = ["region = 'North'", "region = 'North' AND age < 3", "region = 'North' AND age < 3 AND smoker"]
    counts = noisy.count_many([None, *nested])
    filters = ", ".join(f"COUNT(*) FILTER (WHERE {where}) AS c{i}" for i, where in enumerate(nested))
    (row,) = rows(noisy, f"SELECT {filters} FROM view")
    in_sql = np.array([[row[f"c{i}{end}"] for end in ("", "_lower", "_upper")] for i in range(3)])
    for ends in (np.column_stack([counts.estimate, counts.typical]), in_sql):
        assert (np.diff(ends, axis=0) <= 1e-9).all()
