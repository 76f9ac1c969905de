"""The language holds together: groups add up, sums and means agree with histograms, whatever the blocks and
the filter.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cells import mixture_view, noisy_view
from hdpview.domain import Boolean, Category, Integer, Real, Schema
from hdpview.pview import PView
from hdpview.query.evaluate import run
from hdpview.query.interval.statistics import histograms
from hdpview.view.rectangles import Rectangles

SCHEMA = Schema(
    [
        Integer(name="age", min=0, max=12),
        Integer(name="income", min=-5, max=14, nullable=True),
        Category(name="region", values=("North", "South", "East"), nullable=True),
        Boolean(name="smoker", nullable=True),
        Real(name="pressure", min=0.0, max=8.0, bins=4),
    ]
)
WHERES = [
    None,
    "age < 7",
    "smoker",
    "region = 'North' OR age BETWEEN 3 AND 8",
    "NOT (income > 2 AND smoker) OR region IS NULL",
    "pressure < 3.5 AND (income IS NULL OR age IN (1, 5, 9))",
    "(age < 4 AND smoker) OR (age >= 4 AND NOT smoker) OR pressure >= 6",
]
KEYS = [
    "age",
    "region",
    "smoker",
    "age, region",
    "income",
    "floor(age / 4)",
    "CASE WHEN smoker THEN region ELSE 'no' END",
    "age % 3, smoker",
]
seeds, wheres, keys = st.integers(0, 2**32 - 1), st.sampled_from(WHERES), st.sampled_from(KEYS)
readings = st.sampled_from(["raw", "consistent"])
SOME = settings(max_examples=60, deadline=None)


def view_of_seed(seed: int) -> PView:
    """Blocks for even seeds, a mixture for odd ones."""
    # SQL corrects estimates where released counts contradict the model; here they agree with it.
    return mixture_view(SCHEMA, seed, fitted=True) if seed % 2 else noisy_view(SCHEMA, seed)


def table(seed: int, sql: str, where: str | None, **options: Any) -> list[dict[str, Any]]:
    condition = "" if where is None else f" WHERE {where}"
    return run(view_of_seed(seed), sql.replace(" FROM view", f" FROM view{condition}"), **options).to_rows()


@SOME
@given(seeds, wheres, keys, readings)
def test_groups_add_up_to_the_whole(seed: int, where: str | None, key: str, reading: str) -> None:
    """Counts and sums over all groups are those without groups, in both readings and for groups of every
    kind.
    """
    sql = "SELECT {}COUNT(*) AS n, SUM(age) AS a, SUM(income) AS i, COUNT(income) AS k FROM view"
    groups = table(seed, sql.format(f"{key}, ") + f" GROUP BY {key}", where, counts=reading)
    whole = table(seed, sql.format(""), where, counts=reading)[0]
    for name in ("n", "k"):
        assert sum(row[name] for row in groups) == pytest.approx(whole[name], abs=1e-6)
    if (
        reading == "raw"
    ):  # a sum over no records is NULL, and consistent counts may be none where raw ones are some
        return
    for name in ("a", "i"):
        assert sum(row[name] or 0.0 for row in groups) == pytest.approx(whole[name] or 0.0, abs=1e-5)


@SOME
@given(seeds, wheres)
def test_sums_and_means_are_those_of_histograms(seed: int, where: str | None) -> None:
    """SUM(x) is the histogram of x times its values, AVG(x) that by the count of known values."""
    view = view_of_seed(seed)
    (age, income) = histograms(view, where, ["age", "income"])
    found = table(
        seed, "SELECT SUM(age) AS s, AVG(age) AS a, SUM(income) AS i, AVG(income) AS m FROM view", where
    )[0]
    for name, mean, histogram, values in (
        ("s", "a", age, np.arange(13)),
        ("i", "m", income, np.arange(-5, 15)),
    ):
        counts = histogram.estimate[: len(values)]
        if counts.sum() > 1e-6:
            assert found[name] == pytest.approx(float(counts @ values), abs=1e-6)
            assert found[mean] == pytest.approx(float(counts @ values / counts.sum()), abs=1e-6)


@SOME
@given(seeds, wheres, st.sampled_from(["typical", "guaranteed", "noise"]), st.sampled_from([0.8, 0.95]))
def test_intervals_hold_their_estimates(
    seed: int, where: str | None, interval: str, confidence: float
) -> None:
    """Every aggregate of every group lies inside its interval, and counts and shares are never negative."""
    sql = (
        "SELECT region, COUNT(*) AS n, SUM(income) AS s, AVG(age) AS a, MEDIAN(age) AS m, COUNT(*) / "
        "SUM(COUNT(*)) OVER () AS p, "
        "SUM(age) - 3 * COUNT(*) AS d FROM view GROUP BY region"
    )
    for row in table(seed, sql, where, interval=interval, confidence=confidence):
        for name in ("n", "s", "a", "m", "p", "d"):
            if row[name] is not None:
                assert row[f"{name}_lower"] <= row[name] + 1e-9
                assert row[f"{name}_upper"] >= row[name] - 1e-9
        assert row["n_lower"] >= 0


@SOME
@given(seeds, st.sampled_from(WHERES[1:]))
def test_a_filter_and_its_negation_share_the_known(seed: int, where: str) -> None:
    """COUNT(*) FILTER of a condition, of its negation and of neither make the count of all."""
    known = f"COUNT(CASE WHEN {where} THEN 1 WHEN NOT ({where}) THEN 2 END) AS k"
    sql = (
        f"SELECT COUNT(*) FILTER (WHERE {where}) AS p, COUNT(*) FILTER (WHERE NOT ({where})) AS q, "
        f"COUNT(*) AS n, {known} FROM view"
    )
    row = table(seed, sql, None)[0]
    assert row["p"] + row["q"] == pytest.approx(row["k"], abs=1e-6)
    assert row["k"] <= row["n"] + 1e-6


@SOME
@given(seeds, st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_painting_is_adding_rectangle_by_rectangle(seed: int, shape: list[int]) -> None:
    """Sums and maxima over rectangles, from corners and powers of two, are those of painting each one cell by
    cell.
    """
    rng, n = np.random.default_rng(seed), 12
    lower = np.stack([rng.integers(0, size, n) for size in shape])
    upper = np.stack([rng.integers(low + 1, size + 1) for low, size in zip(lower, shape, strict=True)])
    values, plain, most = rng.random(n), np.zeros(shape), np.zeros(shape)
    for i in range(n):
        cells = tuple(slice(*ends) for ends in zip(lower[:, i], upper[:, i], strict=True))
        plain[cells] += values[i]
        most[cells] = np.maximum(most[cells], values[i])
    grid = Rectangles(lower, upper, tuple(shape))
    assert grid.sums(values[None])[0] == pytest.approx(plain.reshape(-1), abs=1e-12)
    assert (grid.maxima(values) == most.reshape(-1)).all()


def test_order_of_groups_does_not_change_their_counts() -> None:
    """GROUP BY a, b and GROUP BY b, a are the same groups."""
    random = Random(3)
    for _ in range(5):
        seed = random.randrange(2**32)
        one = {
            (row["age"], row["region"]): row["n"]
            for row in table(seed, "SELECT age, region, COUNT(*) AS n FROM view GROUP BY 1, 2", None)
        }
        other = {
            (row["age"], row["region"]): row["n"]
            for row in table(seed, "SELECT region, age, COUNT(*) AS n FROM view GROUP BY 1, 2", None)
        }
        assert one.keys() == other.keys()
        assert all(one[key] == pytest.approx(other[key], abs=1e-9) for key in one)
