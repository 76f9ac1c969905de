"""Forecasts of accuracy from public quantities."""

import numpy as np
import pyarrow as pa
import pytest

import hdpview as hv
from hdpview.demo import hospital_schema

SMALL = hv.Schema(
    [
        hv.Integer(name="a", min=0, max=19),
        hv.Integer(name="b", min=0, max=9),
        hv.Category(name="c", values=("x", "y", "z")),
    ]
)


def test_errors_are_ordered_and_larger_budgets_buy_smaller_ones():
    cheap, dear = (hv.estimate(SMALL, 5_000, epsilon) for epsilon in (0.1, 1.0))
    for kind, error in dear.errors.items():
        assert 0 <= error.low <= error.expected <= error.high
        assert error.expected < cheap.errors[kind].expected


def test_the_budget_for_a_wanted_error_reaches_it():
    kind, fractions = "range of two attributes", []
    wanted = hv.estimate(SMALL, 5_000, 0.5).errors[kind].expected
    note = lambda share, _: fractions.append(share or 0.0)  # noqa: E731
    forecast = hv.estimate(SMALL, 5_000, error=wanted, progress=note)
    assert forecast.errors[kind].expected <= wanted
    assert 0.4 <= forecast.epsilon <= 0.7
    # One bar from 0 to 1, and a few budgets tried, on five tables each.
    assert fractions == sorted(fractions)
    assert fractions[-1] <= 1
    assert len(fractions) <= 4 * 5


def test_a_table_of_one_attribute_is_judged_by_ranges_of_one():
    alone = hv.Schema([hv.Integer(name="a", min=0, max=99)])
    dear = hv.estimate(alone, 1_000, 1.0, method="hdpview")
    assert set(dear.errors) == {"range of one attribute"}
    assert "two attributes" not in str(dear)
    wanted = dear.errors["range of one attribute"].expected
    forecast = hv.estimate(alone, 1_000, error=wanted, method="hdpview")
    assert 0 < forecast.errors["range of one attribute"].expected <= wanted * 1.1
    assert forecast.epsilon > 0.3


def test_a_delta_is_part_of_the_budget_as_in_build():
    wide, kind = (
        hv.Schema([hv.Integer(name=f"a{i}", min=0, max=9) for i in range(24)]),
        "range of one attribute",
    )
    pure, with_delta = (hv.estimate(wide, 2_000, 0.5, delta=delta) for delta in (None, "1e-6"))
    assert with_delta.errors[kind].expected < pure.errors[kind].expected
    assert (pure.delta, with_delta.delta) == (0.0, 1e-6)
    assert "epsilon 0.5 and delta 1e-06" in str(with_delta)
    with pytest.raises(hv.MethodError, match="cannot use a delta"):
        hv.estimate(SMALL, 1_000, 1.0, delta=1e-6, method="hdpview")
    # At no budget worth looking at does it pay, so the search ends too.
    with pytest.raises(hv.MethodError, match="Omit delta"):
        hv.estimate(SMALL, 1_000, error=10.0, delta="1e-12")


def test_large_tables_are_extrapolated():
    small, large = (hv.estimate(SMALL, n, 0.1) for n in (50_000, 5_000_000))
    for kind, error in large.errors.items():
        assert small.errors[kind].expected * 0.5 <= error.expected <= small.errors[kind].expected * 100
    assert small.memory_bytes < large.memory_bytes < 1e9


def test_the_size_of_the_file_is_about_right(tmp_path):
    schema = hv.Schema([hv.Integer(name="code", min=0, max=2_999), hv.Integer(name="age", min=0, max=99)])
    rng = np.random.default_rng(0)
    table = pa.table({"code": rng.integers(0, 3_000, 1_000), "age": rng.integers(0, 100, 1_000)})
    hv.build(table, schema, 1.0, method="hdpview", test_key=b"size").save(tmp_path / "v.pview")
    actual = (tmp_path / "v.pview").stat().st_size
    assert 0.6 * actual < hv.estimate(schema, 1_000, 1.0, method="hdpview").file_bytes < 1.7 * actual


def test_a_wide_schema_is_forecast_by_parts_of_it():
    wide = hv.Schema([hv.Integer(name=f"a{i}", min=0, max=9) for i in range(40)])
    few, kind = hv.Schema(wide.attributes[:6]), "range of one attribute"
    expected = hv.estimate(wide, 5_000, 1.0).errors[kind].expected
    assert expected > 2 * hv.estimate(few, 5_000, 1.0).errors[kind].expected
    rng = np.random.default_rng(0)
    columns = {f"a{i}": rng.binomial(9, 0.3, 5_000) for i in range(40)}
    view = hv.build(pa.table(columns), wide, 1.0, test_key=b"wide")
    asked = [(name, low) for name in columns for low in (0, 2, 5)]
    truth = [((columns[name] >= low) & (columns[name] <= low + 3)).sum() for name, low in asked]
    counts = [view.count({name: (low, low + 3)}).estimate for name, low in asked]
    error = float(np.sqrt(np.square(np.subtract(counts, truth)).mean()))
    assert error / 3 < expected < 3 * error


def test_what_cannot_be_estimated_is_refused_before_building():
    for arguments in ({}, {"epsilon": 1.0, "error": 5.0}, {"epsilon": 0}, {"epsilon": 1.0, "n_rows": 0}):
        with pytest.raises(hv.HdpviewError):
            hv.estimate(SMALL, **{"n_rows": 1_000, **arguments})
    with pytest.raises(hv.SchemaError, match="load one with"):
        hv.estimate("people.toml", 1_000, 1.0)
    with pytest.raises(hv.MethodError, match="epsilon below"):
        hv.estimate(hospital_schema(), 1_000, 5.0, method="hdpview")
    with pytest.raises(hv.BudgetError, match="the smallest expected error is"):
        hv.estimate(SMALL, 5_000, error=1e-6)


def test_relations_are_forecast_and_several_rows_of_a_person_cost_accuracy():
    one, four = (hv.estimate(SMALL, 5_000, 1.0, max_rows=k, method="hdpview") for k in (1, 4))
    assert set(one.relations) == {"mean within a group", "rate within a group"}
    for error in one.relations.values():
        assert 0 <= error.low <= error.expected <= error.high <= 1
    kind = "range of one attribute"
    assert four.errors[kind].expected > one.errors[kind].expected
    assert (one.max_rows, four.max_rows) == (1, 4)
    assert "percentage points" in str(one)
    assert "at most 4 per person" in str(four)


def test_a_plan_names_the_groups_and_draws_them(tmp_path):
    from hdpview.forecast import estimate_plan

    plan = estimate_plan(SMALL, 100_000, 1.0)
    d = len(SMALL)
    assert plan.n_pairs == d * (d - 1) // 2
    assert plan.svg().count("<polygon") == len(plan.groups)
    assert str(plan).count(" cells, noise ") == len(plan.groups)
    with pytest.raises(hv.MethodError, match="does not plan tables"):
        estimate_plan(SMALL, 100, 1.0, method="hdpview")
