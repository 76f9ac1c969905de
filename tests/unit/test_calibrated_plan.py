"""The calibrated method: how it divides a budget, what it refuses, and releases of tables that are small or
odd.
"""

from __future__ import annotations

import dataclasses
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import hdpview as hv
from hdpview.counts.sparse import SparseCounts, code_type
from hdpview.domain import Integer, Schema
from hdpview.engine import local
from hdpview.engine.local import LocalEngine
from hdpview.errors import MethodError
from hdpview.methods.calibrated import Calibrated
from hdpview.methods.calibrated.plan import CalibratedSettings, Plan
from hdpview.methods.protocol import BlockRelease, release_with
from hdpview.privacy.budget import Charge
from hdpview.privacy.randomness import Randomness
from hdpview.view.blocks import fault_in_tiling

Ints = NDArray[np.int64]
SHARES = ("histogram_share", "choice_share", "pair_share", "cut_share")
shares = st.integers(1, 400).map(lambda thousandths: thousandths / 1000)
budgets = st.fractions(Fraction(1, 10**6), 10**6).filter(lambda epsilon: epsilon > 0)
FEW = settings(max_examples=60, deadline=None)


def counts_of(dense: Ints) -> SparseCounts:
    schema = Schema([Integer(name=f"a{i}", min=0, max=size - 1) for i, size in enumerate(dense.shape)])
    cells = np.argwhere(dense > 0)
    return SparseCounts(schema, np.ascontiguousarray(cells, dtype=code_type(schema)), dense[tuple(cells.T)])


def released(
    dense: Ints, epsilon: str = "1", key: bytes = b"k", **chosen: Any
) -> tuple[BlockRelease, dict[str, Charge]]:
    """A release whose blocks tile the domain, whose charges add up to the budget, and whose counts are
    numbers of 0 or more.
    """
    found, charges = release_with(
        Calibrated(**chosen),
        counts_of(dense),
        Fraction(epsilon),
        Randomness.from_test_key(key),
        LocalEngine(1),
    )
    assert isinstance(found, BlockRelease)
    blocks = found.blocks
    assert fault_in_tiling(blocks.lower, blocks.upper, blocks.depth, dense.shape) is None
    assert sum((charge.total for charge in charges), Fraction(0)) == Fraction(epsilon)
    assert blocks.fitted is not None
    assert np.isfinite(blocks.fitted).all()
    assert (blocks.fitted >= 0).all()
    return found, {charge.purpose: charge for charge in charges}


@FEW
@given(
    st.tuples(shares, shares, shares, shares),
    budgets,
    st.integers(1, 60),
    st.floats(1, 1e12),
    st.floats(0.01, 1e4),
)
def test_parts_of_a_budget_add_up_exactly(
    parts: tuple[float, ...], epsilon: Fraction, n_attributes: int, noisy_total: float, least: float
) -> None:
    """For any settings, budget, number of attributes and of records: with pairs and without, the parts are
    positive and sum to ε.
    """
    assume(sum(Fraction(str(part)) for part in parts[1:]) < 1)
    plan = Plan(
        CalibratedSettings(**dict(zip(SHARES, parts, strict=True)), least_records=least),
        epsilon,
        n_attributes,
    )
    for with_pairs in (False, True) if n_attributes > 1 else (False,):
        counts = plan.epsilon_counts(with_pairs)
        n_levels = plan.n_cut_levels(noisy_total, counts)
        spent = [plan.epsilon_histogram * n_attributes, plan.epsilon_cut(n_levels) * n_levels, counts]
        if with_pairs:
            spent += [plan.epsilon_choice * (n_attributes - 1), plan.epsilon_pair * (n_attributes - 1)]
        assert sum(spent) == epsilon
        assert min(spent) > 0
        assert 1 <= n_levels <= 64
        assert plan.n_cut_levels(2 * noisy_total, counts) >= n_levels
        assert plan.least_records(counts) >= 1


@FEW
@given(budgets, st.integers(1, 60), st.floats(1, 1e9))
def test_pairs_are_taken_where_records_are_many(
    epsilon: Fraction, n_attributes: int, noisy_total: float
) -> None:
    """Never for one attribute; once taken, more records or a larger budget do not change that; for records
    without end they are.
    """
    plan = Plan(CalibratedSettings(), epsilon, n_attributes)
    richer = Plan(CalibratedSettings(), 2 * epsilon, n_attributes)
    if n_attributes == 1:
        assert not plan.takes_pairs(noisy_total)
        return
    assert plan.takes_pairs(1e30)
    assert not plan.takes_pairs(0.0)
    if plan.takes_pairs(noisy_total):
        assert plan.takes_pairs(2 * noisy_total)
        assert richer.takes_pairs(noisy_total)


WRONG: list[tuple[str, object]] = [
    *((name, value) for name in SHARES for value in (0, 1, -0.1, 1.5, float("nan"), True, "0.1")),
    *((name, None) for name in SHARES[1:]),
    *((name, value) for name in ("n_bins", "n_quantiles") for value in (1, 0, 65, 10.0, True, "10", None)),
    *(("least_records", value) for value in (0, -1.0, float("nan"), float("inf"), True, "3", None)),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_wrong_settings_are_refused_by_name(name: str, value: object) -> None:
    """Numbers out of range, texts, truth values and what is no number: the sentence says which setting and
    what it got.
    """
    with pytest.raises(MethodError, match=f"^{name} must .*{re.escape(repr(value))}"):
        Calibrated(**{name: value})  # type: ignore[arg-type]


def test_shares_must_leave_something_for_counts() -> None:
    """Shares that add up to 1 or more are refused, also where their doubles add up to a hair less; a hair
    less in truth will do.
    """
    with pytest.raises(MethodError, match="leave something for the counts"):
        Calibrated(choice_share=0.7, pair_share=0.1, cut_share=0.2)
    with pytest.raises(MethodError, match="leave something for the counts"):
        Calibrated(histogram_share=0.1, choice_share=0.75, pair_share=0.3)
    found, _ = released(
        np.full((3, 3), 50), "1", histogram_share=0.7, choice_share=0.7, pair_share=0.1, cut_share=0.1999
    )
    assert len(found.blocks) >= 1


def test_histograms_get_the_more_the_more_attributes_there_are() -> None:
    """From 0.315 of the budget for one attribute to 0.65 for two dozen and more; a share that the curator
    chose stays as it is.
    """
    growing = [
        Plan(CalibratedSettings(), Fraction(1), n).share("histogram_share") for n in (1, 4, 15, 23, 24, 200)
    ]
    assert growing == [Fraction(text) for text in ("0.315", "0.36", "0.525", "0.645", "0.65", "0.65")]
    assert {
        Plan(CalibratedSettings(histogram_share=0.4), Fraction(1), n).share("histogram_share")
        for n in (1, 200)
    } == {Fraction("0.4")}


def test_what_was_charged_is_what_the_parameters_say() -> None:
    """With many records tables of pairs are paid for, with few they are not, and counts get what this
    leaves.
    """
    rich, spent = released(np.full((5, 4, 3), 500), "2")
    assert set(spent) == {
        "histograms of attributes", "choose pairs of attributes", "tables of pairs", "choose cuts", "noise on counts",
    }  # fmt: skip
    assert (
        spent["histograms of attributes"].times,
        spent["tables of pairs"].times,
        spent["choose pairs of attributes"].times,
    ) == (3, 2, 2)
    for purpose, name in (
        ("histograms of attributes", "epsilon_histogram"), ("tables of pairs", "epsilon_pair"),
        ("choose cuts", "epsilon_cut"), ("noise on counts", "epsilon_counts"),
    ):  # fmt: skip
        assert rich.parameters[name] == float(spent[purpose].epsilon)
    assert rich.parameters["n_private_cut_levels"] == spent["choose cuts"].times
    assert rich.parameters["n_pairs"] == 2
    poor, of_poor = released(np.eye(4, dtype=np.int64), "1")
    assert set(of_poor) == {"histograms of attributes", "choose cuts", "noise on counts"}
    assert (poor.parameters["n_pairs"], poor.parameters["epsilon_pair"]) == (0, 0)
    assert set(poor.blocks.bases[0].parent) == {-1}
    assert sorted(rich.blocks.bases[0].parent).count(-1) == 1


ODD = {
    "one attribute": np.arange(40),
    "one attribute of two values": np.array([0, 70]),
    "two attributes": np.outer(np.arange(9), np.arange(7)),
    "one cell": np.array([[90]]),
    "one cell, nobody": np.array([[[0]]]),
    "nobody": np.zeros((6, 5, 4), np.int64),
    "one record": (np.arange(60) == 17).astype(np.int64).reshape(5, 4, 3),
    "one cell has all": (np.arange(60) == 17).astype(np.int64).reshape(5, 4, 3) * 100_000,
    "attributes of one value": np.arange(12).reshape(1, 4, 1, 3, 1) * 20,
    "many attributes": np.ones((2,) * 10, np.int64),
}


@pytest.mark.parametrize("epsilon", ["1/1000", "1", "500", "1000000"])
@pytest.mark.parametrize("name", ODD)
def test_odd_tables_have_releases_like_any_other(name: str, epsilon: str) -> None:
    """Blocks tile, budgets add up, counts are numbers; with budget enough the total and the largest cell are
    right.
    """
    found, _ = released(ODD[name], epsilon)
    if epsilon in ("500", "1000000"):
        marginal = found.marginal(range(ODD[name].ndim))
        assert marginal.sum() == pytest.approx(ODD[name].sum(), abs=2, rel=0.001)
        assert marginal.max() == pytest.approx(ODD[name].max(), abs=2, rel=0.05)


def test_a_key_decides_the_view_and_threads_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same test key gives the same view to the last bit with one thread and two, also where tasks are
    tiny; another key another.
    """
    rng = np.random.default_rng(3)
    table = {
        "a": rng.integers(0, 40, 3000),
        "b": rng.integers(0, 9, 3000) ** 2 // 8,
        "c": rng.integers(0, 3, 3000),
    }
    schema = Schema(
        [Integer(name="a", min=0, max=39), Integer(name="b", min=0, max=8), Integer(name="c", min=0, max=2)]
    )

    def view(threads: int, key: bytes, least_rows: int) -> list[list[float]]:
        import pyarrow as pa

        monkeypatch.setattr(local, "_ROWS_PER_TASK", least_rows)
        blocks = hv.build(
            pa.table(table), schema, 1, method="calibrated", test_key=key, threads=threads
        ).blocks
        assert blocks.fitted is not None
        (base,) = blocks.bases
        numbers = [
            blocks.lower,
            blocks.upper,
            blocks.depth,
            blocks.noisy_counts,
            blocks.fitted,
            *base.table,
            *base.shape,
        ]
        return [np.asarray(each).reshape(-1).tolist() for each in numbers]

    first = view(1, b"one", 20_000)
    assert first == view(2, b"one", 20_000) == view(2, b"one", 50) == view(1, b"one", 50)
    assert first != view(1, b"other", 20_000)


def test_large_budgets_make_no_blocks_without_end() -> None:
    """Blocks of less than one record by the base are not cut: on each level no more are cut than there are
    records, up to noise.
    """
    dense = np.zeros((40, 40, 40), np.int64)
    dense[np.random.default_rng(2).random(dense.shape) < 0.002] = 1
    found, spent = released(dense, "100000")
    assert len(found.blocks) <= 1 + spent["choose cuts"].times * (dense.sum() + 1)


def test_settings_are_told_and_make_the_same_method_again() -> None:
    """The settings in a manifest are all that were not left to the method, and changing any makes another
    method.
    """
    method, names = (
        Calibrated(n_bins=7, least_records=2.5),
        {field.name for field in dataclasses.fields(CalibratedSettings)},
    )
    assert Calibrated(**method.settings()) == method  # type: ignore[arg-type]
    assert set(method.settings()) == names - {"histogram_share"}
    assert set(Calibrated(histogram_share=0.5).settings()) == names
    assert Calibrated() != method


def test_any_domain_is_feasible() -> None:
    """A domain of 2^60 cells and 60 attributes has a release with a budget of a hundredth."""
    assert (
        Calibrated().why_infeasible(Schema([Integer(name=f"a{i}", min=0, max=1) for i in range(60)]), 0.01)
        is None
    )
    schema = Schema([Integer(name=f"a{i}", min=0, max=1) for i in range(60)])
    codes = np.unique(np.random.default_rng(1).integers(0, 2, (300, 60)), axis=0).astype(np.uint8)
    counts = SparseCounts(schema, codes, np.full(len(codes), 40))
    found, _ = release_with(
        Calibrated(), counts, Fraction(20), Randomness.from_test_key(b"60"), LocalEngine(1)
    )
    assert isinstance(found, BlockRelease)
    assert found.blocks.fitted is not None
    assert found.blocks.fitted.sum() == pytest.approx(12_000, rel=0.02)
