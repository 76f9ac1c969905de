"""Parts of the SQL layer: refusals and their messages, bins and dates, intervals, names, and hostile text."""

import re
from datetime import date, datetime
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import sqlglot

from cells import mixture_view, noiseless_view, noisy_view
from hdpview.build import build
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


def row_of(view: PView, sql: str) -> dict[str, Any]:
    """The only row of an answer without groups, or the first of the columns of a SELECT over the view."""
    (row,) = rows(view, sql if sql.startswith("SELECT") else f"SELECT {sql} FROM view")
    return row


def counts_by(view: PView, key: str, rest: str = "GROUP BY k ORDER BY k") -> tuple[list[Any], list[float]]:
    groups = rows(view, f"SELECT {key} AS k, COUNT(*) AS n FROM view {rest}")
    return [row["k"] for row in groups], [row["n"] for row in groups]


REFUSED = {
    "SELECT * FROM view": "A view holds counts, not rows",
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
    "SELECT COUNT(*) FROM people": "the only table is view",
    "SELECT ROW_NUMBER() OVER (ORDER BY age) FROM view": "Windows over rows",
    "SELECT age, SUM(age) OVER () FROM view": "Windows over rows",
    "SELECT COUNT(*) FROM view v WHERE age > (SELECT AVG(age) FROM view i WHERE i.region = v.region)": (
        "depends on the statement around"
    ),
    "SELECT COUNT(*) FROM view WHERE EXISTS (SELECT 1 FROM view)": "EXISTS",
    "SELECT region, COUNT(*) FROM view": "GROUP BY",
    "SELECT COUNT(*) FROM view GROUP BY 3": "GROUP BY",
    "SELECT regin, COUNT(*) FROM view GROUP BY regin": "Did you mean 'region'?",
    "SELECT COUNT(*) FROM view WHERE region = 'Nort'": "Did you mean 'North'?",
    "SELECT size + 1 AS s, COUNT(*) FROM view GROUP BY size": "counted in bins",
    "SELECT COUNT(*) FROM view WHERE age = ?": "not supported",
    "WITH RECURSIVE t AS (SELECT * FROM view) SELECT COUNT(*) FROM t": "RECURSIVE",
    "SELECT COUNT(*) FROM view LIMIT -1": "cannot be negative",
    "INSERT INTO view VALUES (1)": "not supported",
    "SELECT STRING_AGG(region, ',') FROM view": "COUNT(*) … GROUP BY region",
    "SELECT nosuchfunction(COUNT(*)) FROM view": "NOSUCHFUNCTION is not supported",
    "SELECT COUNT(*) FROM (SELECT DISTINCT age, size, pressure FROM view) AS t": "COUNT(DISTINCT",
    "DESCRIBE view": "view.info()",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_cannot_be_answered_is_refused_with_the_reason_and_a_way_out(view, sql):
    with pytest.raises(QueryError) as refusal:
        run(view, sql)
    assert REFUSED[sql] in str(refusal.value)
    assert len(str(refusal.value)) < 500


def test_wrong_options_and_answers_without_end_are_refused(view):
    wrong = {"dialect": "postgress", "counts": "exact", "interval": "wide"}
    words = ("Did you mean 'postgres'", "counts must be", "interval must be")
    for (option, value), expected in zip(wrong.items(), words, strict=True):
        for aggregate in ("COUNT(*)", "SUM(age)", "AVG(age)", "MEDIAN(age)"):
            with pytest.raises(QueryError, match=expected):
                run(view, f"SELECT {aggregate} FROM view", **{option: value})
    wide = Schema([Integer(name=f"a{i}", min=0, max=99) for i in range(4)])
    with pytest.raises(QueryError, match="100,000,000 groups"):
        run(noiseless_view(wide, np.zeros((1, 4), np.int64)), "SELECT a0, a1, a2, a3 FROM view GROUP BY ALL")


def test_bins_are_groups_in_their_own_units_and_order(view, codes):
    names, counts = counts_by(view, "size", "GROUP BY size ORDER BY size DESC")
    assert names[:2] == ["90–99", "80–89"]
    assert counts[::-1] == np.bincount(codes[:, 1], minlength=10).tolist()
    names, _ = counts_by(view, "pressure")
    assert names == [f"[{5 * i}, {5 * i + 5}{']' if i == 9 else ')'}" for i in range(10)] + [None]


def test_steps_cut_bins_where_they_have_to(view, codes):
    by_bin = np.bincount(codes[:, 2], minlength=11)
    tens = [by_bin[2 * i] + by_bin[2 * i + 1] for i in range(5)]
    rest = "WHERE pressure IS NOT NULL GROUP BY k ORDER BY k"
    assert counts_by(view, "width_bucket(pressure, 10, 40, 3)", rest) == ([0, 1, 2, 3, 4], tens)
    # The last bin may hold 50 itself.
    by_ten = counts_by(view, "floor(pressure / 10) * 10", rest)
    assert by_ten == ([0, 10, 20, 30, 40, 50], [*tens, 0])
    halves = counts_by(view, "floor(pressure / 2.5)", "GROUP BY k ORDER BY k NULLS FIRST")[1]
    assert halves == pytest.approx([by_bin[10], *(by_bin[i // 2] / 2 for i in range(20)), 0])


def test_dates_are_grouped_by_the_calendar(view, codes):
    by_month = np.bincount(codes[:, 3], minlength=24)
    for key, first, counts in (
        ("year(day)", 2023, by_month.reshape(2, 12).sum(axis=1)),
        ("date_trunc('quarter', day)", datetime(2023, 1, 1), by_month.reshape(8, 3).sum(axis=1)),
        ("extract(month FROM day)", 1, by_month.reshape(2, 12).sum(axis=0)),
        ("day", date(2023, 1, 1), by_month),
    ):
        names, answered = counts_by(view, key)
        assert (names[0], answered) == (first, counts.tolist())


def test_means_of_bins_use_their_middle(view, codes):
    mean = row_of(view, "AVG(size) AS s, SUM(pressure) AS p, AVG(day) AS d")
    assert mean["s"] == pytest.approx((codes[:, 1] * 10 + 4.5).mean())
    assert mean["p"] == pytest.approx((codes[codes[:, 2] < 10, 2] * 5 + 2.5).sum())
    assert datetime(2023, 1, 2) < mean["d"] < datetime(2024, 12, 31)


def test_every_aggregate_has_its_interval(view):
    result = run(
        view,
        "SELECT region, COUNT(*) AS n, AVG(age) AS a, COUNT(*) * 1.0 / SUM(COUNT(*)) OVER () AS share, "
        "DP_INTERVAL_LOW(COUNT(*)) AS low, DP_INTERVAL_HIGH(COUNT(*)) AS high, "
        "CASE WHEN COUNT(*) > 5 THEN 'many' END AS word FROM view GROUP BY region",
    )
    assert result.aggregates == ("n", "a", "share")
    ends = [f"{name}{end}" for name in result.aggregates for end in ("", "_lower", "_upper")]
    assert result.names == ["region", *ends, "low", "high", "word"]
    for row in result.to_rows():
        assert all(row[f"{name}_lower"] <= row[name] <= row[f"{name}_upper"] for name in result.aggregates)
        assert (row["low"], row["high"]) == (row["n_lower"], row["n_upper"])
        assert row["share_lower"] >= 0


def test_groups_have_the_intervals_that_single_questions_have():
    """Not guaranteed ones: a group of an outer bin holds the values beyond it, `age = 0` does not."""
    where = "(age < 5 OR smoker)"
    sql = f"SELECT age, region, COUNT(*) AS n FROM view WHERE {where} GROUP BY 1, 2"
    for seed, kind in product(range(8), ("typical", "noise")):
        noisy = mixture_view(SCHEMA, seed) if seed % 2 else noisy_view(SCHEMA, seed)
        groups = rows(noisy, sql, interval=kind)
        asked = [f"age = {row['age']} AND region = '{row['region']}' AND {where}" for row in groups]
        alone = noisy.count_many(asked, interval=kind)
        n, lower, upper = np.array([[row[key] for key in ("n", "n_lower", "n_upper")] for row in groups]).T
        assert n == pytest.approx(alone.estimate, abs=1e-6)
        assert (lower <= alone.lower + 1e-3).all()
        assert (upper >= alone.upper - 1e-3).all()


def test_columns_have_duckdbs_names_and_none_twice_and_the_datas_own_types(view):
    aggregates = "COUNT(*), COUNT(*), SUM(age), AVG(age), region AS count_lower"
    result = run(view, f"SELECT {aggregates} FROM view GROUP BY region")
    assert len(set(result.names)) == len(result.names)
    assert {"count_star()", "count_star()_2", "sum(age)", "avg(age)"} <= set(result.names)
    table = run(view, "SELECT age, region, smoker, day, COUNT(*) FROM view GROUP BY ALL LIMIT 5").to_arrow()
    kinds = [pa.int64(), pa.string(), pa.bool_(), pa.date32(), *[pa.float64()] * 3]
    assert [field.type for field in table.schema] == kinds


WORDS = re.findall(
    r"\S+",
    """
    SELECT COUNT ( * ) FROM view WHERE GROUP BY HAVING ORDER LIMIT age size region smoker day pressure
    AND OR NOT IN BETWEEN LIKE IS NULL = <> < > + - * / % , . ; ' " 1 2.5 'North' CASE WHEN THEN ELSE END
    SUM AVG MEDIAN FILTER OVER PARTITION MIN MAX ROUND ABS LEFT SUBSTRING COALESCE NULLIF GREATEST YEAR IF MOD
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
    SELECT MAX ( n ) FROM t WHERE n > ( SELECT AVG ( n ) FROM t ) ;
    SELECT YEAR ( day ) AS g , COUNT ( * ) FROM view WHERE COALESCE ( age , 1 ) > 1 GROUP BY g
"""


@pytest.mark.parametrize("seed", range(5))
def test_random_words_are_answered_or_refused(view, seed):
    """An InternalError would be a mistake of ours."""
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


@pytest.mark.parametrize("unit", ["year", "quarter", "month", "week"])
def test_periods_reach_the_end_of_the_calendar(unit):
    """Databases write 9999-12-31 for `never`; the last period of such an axis holds its records."""
    schema = Schema([Datetime(name="until", min="9990-01-01", max="9999-12-31", every="1y")])
    view = noiseless_view(schema, np.array([[9], [9], [0]]))
    periods, counts = counts_by(view, f"date_trunc('{unit}', until)", "GROUP BY k")
    assert sum(counts) == pytest.approx(3.0)
    assert max(periods).year == 9999


def test_any_name_can_be_written_in_sql():
    keywords = sqlglot.Dialect.get_or_raise("duckdb").tokenizer_class.KEYWORDS
    odd = {"age", 'say "no"', "two words", "über", "3d", "a;b"}
    names = sorted({word.lower() for word in keywords if word.isidentifier()} | odd)
    # Views of many attributes and few statements, because each view opens a database.
    for part in (["Age"], *(names[i::10] for i in range(10))):
        schema = Schema([Integer(name=name, min=0, max=9) for name in part])
        view = noiseless_view(schema, np.array([[1], [3]]).repeat(len(part), axis=1))
        written = [name_in_sql(name) for name in part]
        for name in written:
            assert boxes_of(f"{name} >= 3 AND {name} IS NOT NULL OR {name} IN (1)", schema), name
        answer = row_of(view, ", ".join(f"AVG({name}) AS m{i}" for i, name in enumerate(written)))
        assert {answer[f"m{i}"] for i in range(len(part))} == {2.0}, part
        sql = f"SELECT {written[0]}, AVG({written[-1]}) AS m FROM view GROUP BY 1 ORDER BY {written[0]}"
        assert [row["m"] for row in rows(view, sql) if row["m"] is not None] == [1.0, 3.0], part
    assert name_in_sql("age") == "age"


@pytest.mark.parametrize("make", [mixture_view, noisy_view])
def test_medians_of_nobody_are_null(make):
    groups = rows(
        make(SCHEMA, 3), "SELECT region, MEDIAN(age) AS m FROM view WHERE age > 200 GROUP BY region"
    )
    assert [row["region"] for row in groups] == ["North", "South", "elsewhere"]
    assert all(row["m"] is None or np.isnan(row["m"]) for row in groups)


@pytest.mark.parametrize("name", ["avg(smoker)", "avg(age > 5)"])
def test_the_mean_of_a_truth_value_is_a_rate(view, name):
    row = row_of(view, name)
    assert list(row) == [name, f"{name}_lower", f"{name}_upper"]
    assert 0 <= row[f"{name}_lower"] <= row[name] <= row[f"{name}_upper"] <= 1


def test_ranks_say_who_else_may_belong(view):
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


def test_a_condition_on_aggregates_has_a_probability(view):
    row = row_of(
        mixture_view(SCHEMA, 3), "DP_PROBABILITY(AVG(age) > 5.2) AS p, DP_PROBABILITY(AVG(age) <= 5.2) AS q"
    )
    assert list(row) == ["p", "q"]
    assert row["p"] + row["q"] == pytest.approx(1.0)
    with pytest.raises(QueryError, match="must be whole outputs"):
        run(view, "SELECT 1 + DP_PROBABILITY(COUNT(*) > 1) FROM view")


def test_a_part_is_never_above_its_whole():
    noisy = mixture_view(SCHEMA, 3)
    nested = ["region = 'North'", "region = 'North' AND age < 3", "region = 'North' AND age < 3 AND smoker"]
    counts = noisy.count_many([None, *nested])
    row = row_of(
        noisy, ", ".join(f"COUNT(*) FILTER (WHERE {where}) AS c{i}" for i, where in enumerate(nested))
    )
    in_sql = np.array([[row[f"c{i}{end}"] for end in ("", "_lower", "_upper")] for i in range(3)])
    for ends in (np.column_stack([counts.estimate, counts.typical]), in_sql):
        assert (np.diff(ends, axis=0) <= 1e-9).all()


def test_conditions_on_two_attributes_cover_what_their_bins_allow():
    """The view counts tens; the second number is always one more than the first. Within 2% of the records."""
    early = np.random.default_rng(2).integers(0, 99, 5_000)
    schema = Schema([Integer(name=name, min=0, max=99, every=10) for name in ("early", "late")])
    built = build(pa.table({"early": early, "late": early + 1}), schema, epsilon=20.0, test_key=b"k" * 32)
    for where, truth in {"late > early": 5_000, "late - early = 1": 5_000, "early = late": 0}.items():
        row = row_of(built, f"COUNT(*) FILTER ({where}) AS n")
        assert row["n_lower"] - 100 <= truth <= row["n_upper"] + 100, where
    row = row_of(
        built, "COUNT(*) FILTER (late > early) AS a, COUNT(*) FILTER (late <= early) AS b, a + b AS whole"
    )
    assert row["whole_upper"] - row["whole_lower"] < 100 < row["a_upper"] - row["a_lower"]


def test_positions_in_bins_are_unknown_in_every_comparison(view):
    """Also where groups are compared, whose records may lie in other bins, and where two bins are cut."""
    means = "AVG(CASE WHEN smoker THEN size END) - AVG(CASE WHEN NOT smoker THEN size END)"
    row = row_of(view, f"{means} AS d, COUNT(*) FILTER (WHERE size = 0 AND pressure = 0) AS at_edges")
    assert row["d_lower"] < row["d"] < row["d_upper"]
    assert row["at_edges_upper"] > 1


def test_positions_in_bins_may_depend_on_the_group():
    """Values of one group may be lower in their tens than those of the other."""
    schema = Schema([Integer(name="x", min=0, max=99, every=10), Integer(name="k", min=0, max=1)])
    even = noiseless_view(schema, np.array([[i, k] for i in range(10) for k in range(2) for _ in range(50)]))
    means = "AVG(x) FILTER (k = 1) - AVG(x) FILTER (k = 0) AS d"
    row = row_of(even, f"{means}, REGR_SLOPE(x, k) AS s, COUNT(*) AS n")
    for name in ("d", "s"):
        assert row[name] == pytest.approx(0.0, abs=1e-9)
        assert row[f"{name}_lower"] < -1.5 < 1.5 < row[f"{name}_upper"], name
    assert (row["n_lower"], row["n_upper"]) == pytest.approx((1000, 1000), abs=1)


def test_undeclared_values_may_fall_into_either_branch_of_a_case(view, codes):
    """The third region is `elsewhere`, the texts that the schema does not list."""
    undeclared = int((codes[:, 4] == 2).sum())
    case = "CASE WHEN region LIKE 'N%' THEN 'N' ELSE 'rest' END"
    n, rest = rows(view, f"SELECT {case} AS k, COUNT(*) AS n FROM view GROUP BY 1 ORDER BY 1")
    assert n["n_upper"] >= n["n"] + 0.95 * undeclared
    assert rest["n_lower"] <= rest["n"] - 0.95 * undeclared


def test_parts_of_a_bin_that_recurs_may_hold_all_records_or_none(view):
    """Of tens the last digits, and of days the hours, which are alike."""
    schema = Schema([Datetime(name="at", min="2024-01-01", max="2024-12-31", every="1d")])
    days = noiseless_view(schema, np.arange(366)[:, None].repeat(40, axis=0))
    assert counts_by(days, "hour(at)")[1] == pytest.approx(np.full(24, 366 * 40 / 24))
    for of, key, low, high in ((view, "size % 10", 0.2, 5), (days, "hour(at)", 0.1, 3)):
        for row in rows(of, f"SELECT {key} AS k, COUNT(*) AS n FROM view GROUP BY 1"):
            assert row["n_lower"] < low * row["n"] < high * row["n"] < row["n_upper"]


def test_outputs_without_an_interval_say_so(view):
    sql = "SELECT COUNT(*) > 3 AS many, ROUND(AVG(age), 1) || ' years' AS t, AVG(age) AS a FROM view"
    result = run(view, sql)
    assert [name in " ".join(result.notes) for name in ("'many'", "'t'", "'a'")] == [True, True, False]


def test_quantiles_of_a_cut_bin_allow_for_records_at_its_edge():
    """Most values are 0, which the view cannot tell from others in the first bin."""
    schema = Schema([Real(name="x", min=0.0, max=100.0, bins=10), Category(name="k", values=("a", "b"))])
    codes = np.array([[0, 0]] * 60 + [[i, 0] for i in range(1, 10) for _ in range(5)] + [[3, 1]])
    sql = "SELECT k, quantile_cont(x, 0.5) AS q FROM view WHERE x > 0 GROUP BY k ORDER BY k"
    row, *_ = rows(noiseless_view(schema, codes), sql)
    assert row["q"] < 10 < row["q_upper"]
