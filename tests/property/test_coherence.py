"""Answers do not contradict each other: parts and wholes, shares and complements, Python and SQL."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from people_views import PEOPLE, block_view, predicates, random_view

from cells import mixture_view
from hdpview.query.evaluate import run
from hdpview.query.interval.statistics import histograms

SOME = settings(max_examples=60, deadline=None)
FEW = settings(max_examples=30, deadline=None)  # of several statements each
seeds = st.integers(0, 2**32 - 1)
names = st.sampled_from(PEOPLE.names)
keys = st.sampled_from(
    ["age", "region", "age, region", "floor(age / 4)", "CASE WHEN smoker THEN region END", "age % 3, smoker"]
)


def rows_of(seed: int, sql: str, **options: Any) -> list[dict[str, Any]]:
    # SQL corrects estimates where released counts contradict the model; here they agree with it.
    view = mixture_view(PEOPLE, seed, fitted=True) if seed % 2 else block_view(seed)
    return run(view, sql, **options).to_rows()


@SOME
@given(
    seeds, st.lists(predicates, min_size=1, max_size=5), st.sampled_from(["typical", "guaranteed", "noise"])
)
def test_a_superset_is_nowhere_below_its_part(seed, asked, interval):
    """Each condition adds to the one before: estimates and both ends rise along the chain."""
    chain = [" OR ".join(f"({own})" for own in asked[: i + 1]) for i in range(len(asked))] + [None]
    answers = random_view(seed).count_many(chain, interval=interval)
    for column in (answers.estimate, answers.lower, answers.upper):
        assert (np.diff(column) >= -1e-6).all()


@SOME
@given(seeds, predicates, predicates)
def test_a_share_and_its_complement_add_to_one(seed, outcome, where):
    view = random_view(seed)
    among = f"(({outcome}) OR NOT ({outcome})) AND ({where})"
    shares = [view.rate(own, among) for own in (outcome, f"NOT ({outcome})")]
    if shares[0].estimate is not None:
        assert shares[0].estimate + shares[1].estimate == pytest.approx(1.0, abs=1e-9)


@SOME
@given(seeds, predicates, names)
def test_python_sql_and_charts_give_one_estimate(seed, where, name):
    view = random_view(seed)
    count = view.count(where)
    row = view.sql(f"SELECT COUNT(*) AS n FROM view WHERE {where}", as_="pyarrow").to_pylist()[0]
    assert row["n"] == pytest.approx(count.estimate, abs=1e-6)
    rows = view.sql(f"SELECT {name} AS k, COUNT(*) AS n FROM view WHERE {where} GROUP BY 1", as_="pyarrow")
    by_value = {row["k"]: row["n"] for row in rows.to_pylist()}
    (histogram,) = histograms(view, where, [name])
    for key, estimate in zip(histogram.keys, histogram.estimate.tolist(), strict=True):
        assert by_value.get(key, 0.0) == pytest.approx(estimate, abs=1e-6)


@FEW
@given(seeds, predicates, keys, st.sampled_from(["raw", "consistent"]))
def test_groups_add_up_to_the_whole(seed, where, key, reading):
    sql = f"COUNT(*) AS n, SUM(children) AS c, SUM(age) AS a, COUNT(age) AS k FROM view WHERE {where}"
    groups = rows_of(seed, f"SELECT {key}, {sql} GROUP BY {key}", counts=reading)
    (whole,) = rows_of(seed, f"SELECT {sql}", counts=reading)
    # A sum over no records is NULL, and consistent counts may be none where raw ones are some.
    for name in ("n", "k") if reading == "raw" else ("n", "k", "a", "c"):
        assert sum(row[name] or 0.0 for row in groups) == pytest.approx(whole[name] or 0.0, abs=1e-5)


@FEW
@given(seeds, predicates, st.sampled_from(["typical", "guaranteed", "noise"]), st.sampled_from([0.8, 0.95]))
def test_intervals_hold_their_estimates(seed, where, interval, confidence):
    sql = (
        "SELECT region, COUNT(*) AS n, SUM(age) AS s, AVG(children) AS a, MEDIAN(age) AS m, COUNT(*) / "
        f"SUM(COUNT(*)) OVER () AS p, SUM(age) - 3 * COUNT(*) AS d FROM view WHERE {where} GROUP BY region"
    )
    for row in rows_of(seed, sql, interval=interval, confidence=confidence):
        for name in ("n", "s", "a", "m", "p", "d"):
            if row[name] is not None:
                assert row[f"{name}_lower"] <= row[name] + 1e-9
                assert row[f"{name}_upper"] >= row[name] - 1e-9
        assert row["n_lower"] >= 0
