"""Functions of sums: values as a database and NumPy have them, limits, and intervals that do not depend on
spelling."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from cells import mixture_view, noiseless_view, noisy_view
from hdpview.domain import Boolean, Category, Integer, Schema
from hdpview.pview import PView
from hdpview.query.sql import run

SCHEMA = Schema(
    [
        Integer(name="age", min=0, max=9),
        Integer(name="stay", min=1, max=6),
        Category(name="region", values=("N", "S", "E")),
        Boolean(name="ill"),
        Boolean(name="smoker"),
    ]
)
N = 600
EXPRESSIONS = [
    "CASE WHEN COUNT(*) > 100 THEN 1.5 ELSE COUNT(*) END",
    "CASE WHEN AVG(age) > 4 THEN AVG(stay) END",
    "POWER(COUNT(*), 0.5)",
    "POWER(AVG(age), 2) - AVG(stay)",
    "GREATEST(SUM(age), 10 * SUM(stay))",
    "LEAST(AVG(age), AVG(stay), 3)",
    "LN(COUNT(*))",
    "EXP(AVG(stay))",
    "SQRT(SUM(age))",
    "LOG10(1 + COUNT(*))",
    "ABS(AVG(age) - 5)",
    "STDDEV(age)",
    "STDDEV_POP(stay)",
    "VARIANCE(age)",
    "VAR_POP(age)",
    "CORR(age, stay)",
    "COVAR_POP(age, stay)",
    "COVAR_SAMP(age, stay)",
    "100.0 * COUNT(*) FILTER (WHERE ill) / COUNT(*)",
    "ROUND(AVG(age), 1)",
    "COALESCE(AVG(age), 0)",
    "COUNT(*) / NULLIF(SUM(stay), 0)",
]


@pytest.fixture(scope="module")
def codes() -> np.ndarray:
    rng = np.random.default_rng(3)
    columns = [rng.integers(0, size, N) for size in SCHEMA.sizes]
    columns[1] = np.clip(columns[0] // 2 + rng.integers(-1, 2, N), 0, 5)
    columns[3] = (rng.random(N) < 0.2 + 0.4 * columns[4]).astype(int)
    return np.stack(columns, axis=1)


@pytest.fixture(scope="module")
def view(codes: np.ndarray) -> PView:
    return noiseless_view(SCHEMA, codes)


@pytest.fixture(scope="module")
def database(codes: np.ndarray) -> duckdb.DuckDBPyConnection:
    values = [list(range(10)), list(range(1, 7)), ["N", "S", "E"], [False, True], [False, True]]
    columns = {name: [values[a][code] for code in codes[:, a]] for a, name in enumerate(SCHEMA.names)}
    connection = duckdb.connect()
    connection.register("view", pa.table(columns))
    return connection


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_functions_have_the_values_of_a_database(
    view: PView, database: duckdb.DuckDBPyConnection, expression: str
) -> None:
    """Over a view that knows every cell, in all and by group, with an interval around each."""
    for sql in (
        f"SELECT {expression} AS x FROM view",
        f"SELECT region, {expression} AS x FROM view WHERE age > 1 GROUP BY region ORDER BY region",
    ):
        expected = [row[-1] for row in database.execute(sql).fetchall()]
        found = view.sql(sql, as_="pyarrow").to_pylist()
        assert [row["x"] for row in found] == pytest.approx(expected, rel=1e-6, abs=1e-9)
        for row in found:
            assert row["x_lower"] <= row["x"] + 1e-9
            assert row["x_upper"] >= row["x"] - 1e-9


def test_statistics_in_python_are_those_of_numpy(view: PView, codes: np.ndarray) -> None:
    """Standard deviation, correlation, rates and associations of the table itself."""
    age, stay, ill, smoker = codes[:, 0], codes[:, 1] + 1, codes[:, 3] == 1, codes[:, 4] == 1
    a, b, c, d = (float((one & other).sum()) for other in (smoker, ~smoker) for one in (ill, ~ill))
    expected = {
        view.mean("age"): age.mean(),
        view.sum("stay", "smoker"): stay[smoker].sum(),
        view.stddev("age"): age.std(ddof=1),
        view.correlation("age", "stay"): np.corrcoef(age, stay)[0, 1],
        view.rate("ill", "smoker"): ill[smoker].mean(),
        view.odds_ratio("ill", "smoker"): a * d / (b * c),
        view.risk_ratio("ill", "smoker"): a / (a + b) / (c / (c + d)),
        view.risk_difference("ill", "smoker"): a / (a + b) - c / (c + d),
        view.quantile("age", 0.5): np.median(age),
        view.quantile("stay", 0.9): np.quantile(stay, 0.9),
    }
    for found, value in expected.items():
        assert found.estimate == pytest.approx(value, rel=1e-6), value
        assert found.lower <= found.estimate <= found.upper


RATES = [
    "AVG(CASE WHEN ill THEN 1 ELSE 0 END)",
    "COUNT(*) FILTER (WHERE ill) / COUNT(*)",
    "SUM(CASE WHEN ill THEN 1.0 ELSE 0.0 END) / COUNT(*)",
    "1.0 * COUNT(*) FILTER (WHERE ill) / COUNT(*)",
    "COUNT(CASE WHEN ill THEN 1 END) / COUNT(*)",
]


@pytest.mark.parametrize("make", [noisy_view, mixture_view])
@pytest.mark.parametrize("where", ["", " WHERE age < 4", " WHERE smoker OR region = 'N'"])
def test_a_rate_has_one_interval_however_it_is_written(make: Any, where: str) -> None:
    """As a mean of 0 and 1, as a share of counts, as a share of sums: the same estimate, lower and upper
    end."""
    view = make(SCHEMA, 5)
    found = [view.sql(f"SELECT {rate} AS x FROM view{where}", as_="pyarrow").to_pylist()[0] for rate in RATES]
    for row in found[1:]:
        assert list(row.values()) == pytest.approx(list(found[0].values()), rel=1e-6)
    python = view.rate("ill", where.removeprefix(" WHERE ") or None)
    ends = [python.estimate, python.lower, python.upper]
    assert ends == pytest.approx(list(found[0].values()), rel=1e-6)


@pytest.mark.parametrize("make", [noisy_view, mixture_view])
def test_shares_end_at_their_limits_and_ratios_do_not(make: Any) -> None:
    """Shares of a whole are cut at 0 and 1, percentages at 100; a ratio of unrelated counts may exceed 1."""
    view = make(SCHEMA, 6)
    for seed_where in ("", " WHERE age = 3 AND stay = 2"):
        row = view.sql(
            "SELECT COUNT(*) FILTER (WHERE age < 9) / COUNT(*) AS share, "
            "100.0 * COUNT(*) FILTER (WHERE age < 9) / COUNT(*) AS percent, "
            "COUNT(*) FILTER (WHERE smoker) / COUNT(*) FILTER (WHERE ill) AS ratio, "
            f"AVG(age) AS mean FROM view{seed_where}",
            as_="pyarrow",
        ).to_pylist()[0]
        if row["share"] is not None:
            assert 0 <= row["share_lower"] <= row["share_upper"] <= 1
            assert 0 <= row["percent_lower"] <= row["percent_upper"] <= 100
            assert row["percent_upper"] == pytest.approx(100 * row["share_upper"])
        if row["mean"] is not None:
            assert 0 <= row["mean_lower"] <= row["mean_upper"] <= 9
    wide = view.sql(
        "SELECT COUNT(*) FILTER (WHERE age < 9) / COUNT(*) FILTER (WHERE age = 9) AS r FROM view",
        as_="pyarrow",
    ).to_pylist()[0]
    assert wide["r_upper"] is None or wide["r_upper"] > 1


@pytest.mark.parametrize(
    ("asked", "pairs"),
    [
        ("SELECT age, stay, COUNT(*) FROM view GROUP BY ALL", []),
        ("SELECT age, AVG(stay) FROM view GROUP BY age", []),
        ("SELECT stay, MEDIAN(age) FROM view WHERE age > 2 GROUP BY stay", []),
        ("SELECT region, AVG(age) FROM view GROUP BY region", ["age with region"]),
        ("SELECT region, MEDIAN(age) FROM view GROUP BY region", ["age with region"]),
        ("SELECT ill, COUNT(*) FROM view WHERE smoker GROUP BY ill", ["ill with smoker"]),
        ("SELECT age, stay, ill, COUNT(*) FROM view GROUP BY ALL", ["age with ill", "stay with ill"]),
        ("SELECT COUNT(*) FROM view WHERE smoker AND ill", []),
    ],
)
def test_groups_by_what_was_not_counted_together_are_marked(asked: str, pairs: list[str]) -> None:
    """Here age was counted with stay, and region with ill. Blocks count all attributes together."""
    marked = run(mixture_view(SCHEMA, 7), asked).inferred
    assert [note.rpartition(": ")[2] for note in marked] == ([", ".join(pairs) + "."] if pairs else [])
    assert run(noisy_view(SCHEMA, 7), asked).inferred == ()


@pytest.mark.parametrize("make", [noisy_view, mixture_view])
def test_values_beyond_the_bounds_are_counted_in_the_outer_bins(make: Any) -> None:
    """`age > 9` and `age < 0` find nothing, say why, and their guaranteed interval reaches over the outer
    bin."""
    view = make(SCHEMA, 7)
    for beyond, inside in (("age > 9", "age = 9"), ("age < 0", "age = 0")):
        found = view.count(beyond)
        assert found.estimate == 0
        assert found.guaranteed.lower == 0
        assert found.guaranteed.upper >= view.count(inside).guaranteed.upper - 1e-6
        assert any("beyond the schema's bounds" in note for note in found.notes)
        assert "beyond the schema's bounds" in str(found)
    for whole in ("age >= 0", "age <= 9", "age BETWEEN -5 AND 50"):
        assert view.count(whole).notes == ()
    # Records clamped into the last bin may be far beyond: nobody can tell that `age = 9` holds for them.
    assert view.count("age = 9").guaranteed.lower == 0
