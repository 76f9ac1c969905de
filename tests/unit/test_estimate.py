"""What a budget will buy, told from public quantities."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import hdpview as hv
from hdpview.demo import hospital_schema
from hdpview.view.risk import risk_sentence

SMALL = hv.Schema(
    [
        hv.Integer(name="a", min=0, max=19),
        hv.Integer(name="b", min=0, max=9),
        hv.Category(name="c", values=("x", "y", "z")),
    ]
)


def test_errors_are_ordered_and_larger_budgets_buy_smaller_ones() -> None:
    """low ≤ expected ≤ high for every kind, and ten times the budget lowers what to expect."""
    cheap, dear = (hv.estimate(SMALL, 5_000, epsilon) for epsilon in (0.1, 1.0))
    for kind, found in dear.errors.items():
        assert 0 <= found.low <= found.expected <= found.high
        assert found.expected < cheap.errors[kind].expected


def test_the_budget_for_a_wanted_error_reaches_it() -> None:
    """The inverse: building with the budget found is expected to give the error asked for, and a little less
    would not.
    """
    wanted = hv.estimate(SMALL, 5_000, 0.5).errors["range of two attributes"].expected
    fractions: list[float] = []
    found = hv.estimate(
        SMALL, 5_000, error=wanted, progress=lambda fraction, _: fractions.append(fraction or 0.0)
    )
    assert found.errors["range of two attributes"].expected <= wanted
    assert 0.4 <= found.epsilon <= 0.7
    # One bar from 0 to 1, and a few budgets tried, on five tables each.
    assert fractions == sorted(fractions)
    assert fractions[-1] <= 1
    assert len(fractions) <= 4 * 5


def test_a_table_of_one_attribute_is_judged_by_ranges_of_one() -> None:
    """No error is told of questions that cannot be asked, and the budget for a wanted error is that of a
    range of one attribute.
    """
    alone = hv.Schema([hv.Integer(name="a", min=0, max=99)])
    dear = hv.estimate(alone, 1_000, 1.0, method="hdpview")
    assert set(dear.errors) == {"range of one attribute"}
    assert "two attributes" not in str(dear)
    wanted = dear.errors["range of one attribute"].expected
    found = hv.estimate(alone, 1_000, error=wanted, method="hdpview")
    assert 0 < found.errors["range of one attribute"].expected <= wanted * 1.1
    assert found.epsilon > 0.3


def test_an_error_out_of_reach_is_refused_with_the_least_there_is() -> None:
    """Asking for the impossible says what is possible."""
    with pytest.raises(hv.BudgetError, match="the smallest expected error is"):
        hv.estimate(SMALL, 5_000, error=1e-6)


def test_a_delta_is_part_of_the_budget_as_in_build() -> None:
    """With many attributes a delta lowers what to expect of ranges of one, and the text names it; methods
    without a use refuse it.
    """
    wide = hv.Schema([hv.Integer(name=f"a{i}", min=0, max=9) for i in range(24)])
    pure, with_delta = (hv.estimate(wide, 2_000, 0.5, delta=delta) for delta in (None, "1e-6"))
    assert (
        with_delta.errors["range of one attribute"].expected < pure.errors["range of one attribute"].expected
    )
    assert (pure.delta, with_delta.delta) == (0.0, 1e-6)
    assert "epsilon 0.5 and delta 1e-06" in str(with_delta)
    with pytest.raises(hv.MethodError, match="cannot use a delta"):
        hv.estimate(SMALL, 1_000, 1.0, delta=1e-6, method="hdpview")
    with pytest.raises(
        hv.MethodError, match="Omit delta"
    ):  # at no budget worth looking at does it pay, so the search ends too
        hv.estimate(SMALL, 1_000, error=10.0, delta="1e-12")


def test_large_tables_are_extrapolated() -> None:
    """A hundred times the rows: more blocks, larger errors in records, smaller ones in share, and no longer
    wait.
    """
    small, large = (hv.estimate(SMALL, n, 0.1) for n in (50_000, 5_000_000))
    for kind, found in large.errors.items():
        assert small.errors[kind].expected * 0.5 <= found.expected <= small.errors[kind].expected * 100
    assert large.memory_bytes == 100 * small.memory_bytes


@pytest.mark.parametrize("method", ["hdpview"])
def test_the_size_of_the_file_is_about_right(tmp_path: Path, method: str) -> None:
    """What a view releases beside its blocks counts too: an attribute with many values has a long
    histogram.
    """
    schema = hv.Schema([hv.Integer(name="code", min=0, max=2_999), hv.Integer(name="age", min=0, max=99)])
    rng = np.random.default_rng(0)
    table = pa.table({"code": rng.integers(0, 3_000, 1_000), "age": rng.integers(0, 100, 1_000)})
    hv.build(table, schema, 1.0, method=method, test_key=b"size").save(tmp_path / "v.pview")
    actual = (tmp_path / "v.pview").stat().st_size
    assert 0.6 * actual < hv.estimate(schema, 1_000, 1.0, method=method).file_bytes < 1.7 * actual


def test_the_size_of_the_file_grows_with_the_blocks() -> None:
    """A table too large to invent has many more blocks than the one invented in its place, and each takes its
    bytes.
    """
    invented, large = (hv.estimate(SMALL, n, 0.02, method="hdpview") for n in (50_000, 50_000_000))
    assert large.n_blocks > 2 * invented.n_blocks
    assert large.file_bytes - invented.file_bytes > 4 * (large.n_blocks - invented.n_blocks)


def test_a_wide_schema_is_forecast_by_parts_of_it() -> None:
    """Forty attributes divide a budget as six with their share of it do: what to expect is of the same size
    as from a build of all of them, and far above what six attributes alone would get for the whole budget.
    """
    wide = hv.Schema([hv.Integer(name=f"a{i}", min=0, max=9) for i in range(40)])
    few = hv.Schema(wide.attributes[:6])
    kind = "range of one attribute"
    expected = hv.estimate(wide, 5_000, 1.0).errors[kind].expected
    assert expected > 2 * hv.estimate(few, 5_000, 1.0).errors[kind].expected
    rng = np.random.default_rng(0)
    columns = {f"a{i}": rng.binomial(9, 0.3, 5_000) for i in range(40)}
    view = hv.build(pa.table(columns), wide, 1.0, test_key=b"wide")
    wheres = [{f"a{i}": (low, low + 3)} for i in range(40) for low in (0, 2, 5)]
    truth = [
        ((columns[f"a{i}"] >= low) & (columns[f"a{i}"] <= low + 3)).sum()
        for i in range(40)
        for low in (0, 2, 5)
    ]
    found = np.array([view.count(where).estimate for where in wheres])
    error = float(np.sqrt(((found - np.array(truth)) ** 2).mean()))
    assert error / 3 < expected < 3 * error


def test_one_sentence_tells_the_risk() -> None:
    """People get a sentence, not a letter: at ε = 1 a suspicion of 50 % grows to 73.1 % at most."""
    text = str(hv.estimate(SMALL, 1_000, 1.0))
    assert "at most 73.1% sure" in text
    assert "range of two attributes" in text
    assert "can become virtually certain of it" in risk_sentence(100)


@pytest.mark.parametrize(
    "arguments", [{}, {"epsilon": 1.0, "error": 5.0}, {"epsilon": 0}, {"epsilon": 1.0, "n_rows": 0}]
)
def test_bad_arguments_are_refused(arguments: dict[str, float]) -> None:
    """Neither or both of budget and error, a budget of 0, and a table without rows."""
    with pytest.raises(hv.HdpviewError):
        hv.estimate(SMALL, **{"n_rows": 1_000, **arguments})  # type: ignore[arg-type]


def test_a_budget_the_method_cannot_use_is_refused_before_building() -> None:
    """The same refusal as from build."""
    with pytest.raises(hv.MethodError, match="epsilon below"):
        hv.estimate(hospital_schema(), 1_000, 5.0, method="hdpview")


def test_relations_are_forecast_and_several_rows_of_a_person_cost_accuracy() -> None:
    """Means and rates within groups are told in shares, ordered, and worse where a person may have more
    rows."""
    one, four = (hv.estimate(SMALL, 5_000, 1.0, max_rows=k, method="hdpview") for k in (1, 4))
    assert set(one.relations) == {"mean within a group", "rate within a group"}
    for found in one.relations.values():
        assert 0 <= found.low <= found.expected <= found.high < 1
    kind = "range of one attribute"
    assert four.errors[kind].expected > one.errors[kind].expected
    assert (one.max_rows, four.max_rows) == (1, 4)
    assert "percentage points" in str(one)
    assert "4 of a person" in str(four)


def test_a_plan_names_the_groups_and_draws_them(tmp_path: Path) -> None:
    """All pairs are counted together on a table with records enough; each group has a panel and a line."""
    from hdpview.forecast import estimate_plan

    plan = estimate_plan(SMALL, 100_000, 1.0)
    d = len(SMALL)
    assert plan.n_pairs == d * (d - 1) // 2
    assert plan.svg().count("<polygon") == len(plan.groups)
    assert str(plan).count(" cells, noise ") == len(plan.groups)
    with pytest.raises(hv.MethodError, match="does not plan tables"):
        estimate_plan(SMALL, 100, 1.0, method="hdpview")
