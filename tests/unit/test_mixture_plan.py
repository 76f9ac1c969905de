"""What the mixture measures, how finely, and what it pays: from public and released numbers alone."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from hdpview.domain import Category, Integer, Schema
from hdpview.errors import MethodError
from hdpview.methods.mixture import Mixture
from hdpview.methods.mixture.accounting import Accounting, delta_helps, split
from hdpview.methods.mixture.bins import Axis, Gathering, axes_of, bins_of, membership, refinement
from hdpview.methods.mixture.plan import effort_for, nearly_constant, plan_for, shape_for

NO_LOTS = np.zeros(200)


def plan_of(
    n_attributes: int, noisy_total: float, epsilon: str = "1", focus: tuple[tuple[int, ...], ...] = ()
):  # type: ignore[no-untyped-def]
    axes = tuple(Axis(10, 10) for _ in range(n_attributes))
    return plan_for(axes, focus, noisy_total, Accounting("laplace", Fraction(epsilon)))


@pytest.mark.parametrize("n_attributes", [1, 2, 4, 9, 30])
@pytest.mark.parametrize("noisy_total", [-50.0, 0.0, 900.0, 5e4, 1e8])
def test_shares_add_up(n_attributes: int, noisy_total: float) -> None:
    """Whatever is planned, the shares of all steps add up to the budget, and none is negative."""
    plan = plan_of(n_attributes, noisy_total)
    assert sum(plan.shares()) == Fraction(99, 100)
    assert min(plan.shares()) >= 0
    assert plan.n_choices <= len(plan.candidates)


def test_more_records_or_budget_give_more_tables() -> None:
    """The number of tables grows with N·ε, from none until all pairs are in one."""
    plans = [plan_of(20, noisy_total) for noisy_total in (300, 1e4, 1e5, 1e6, 1e7)]
    counts = [plan.n_choices for plan in plans]
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert not plans[-1].chooses
    assert len({pair for table in plans[-1].candidates for pair in combinations(table, 2)}) == 190
    assert plan_of(20, 1e4, "10").n_choices == plan_of(20, 1e5, "1").n_choices


def test_few_records_leave_everything_to_histograms() -> None:
    """Where not even two tables can be afforded none is measured, and nothing is kept for one."""
    plan = plan_of(22, 500)
    assert plan.n_choices == 0
    assert plan.shares() == (Fraction(99, 100), 0, 0)


def test_too_few_tables_to_connect_all_attributes_get_a_fifth() -> None:
    """Some tables are measured, and most of the budget goes to histograms; not where a focus wants it."""
    plan = plan_of(22, 10_000)
    assert plan.n_choices == 7
    assert plan.shares()[0] == Fraction(8, 10)
    assert plan_of(22, 10_000, focus=((0, 1),)).shares()[0] < Fraction(1, 2)


def plan_with_sizes(sizes: Sequence[int], noisy_total: float):  # type: ignore[no-untyped-def]
    axes = tuple(Axis(size, size) for size in sizes)
    return plan_for(axes, (), noisy_total, Accounting("laplace", Fraction(1)))


def test_few_attributes_and_many_records_have_all_tables_of_three() -> None:
    """They hold all pairs, so no pair is measured beside them."""
    plan = plan_of(4, 50_000)
    assert plan.candidates == ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3))
    assert not plan.chooses


@pytest.mark.parametrize("sizes", [(10, 10, 10, 10, 10, 2), (2,) * 9, (100, 2, 44, 4, 15)])
def test_tables_of_three_hold_all_pairs_where_codes_are_few(sizes: tuple[int, ...]) -> None:
    """Fewer tables than pairs, all of three attributes, and every pair is in one of them."""
    plan = plan_with_sizes(sizes, 5_400 if 10 in sizes else 60_000)
    pairs = set(combinations(range(len(sizes)), 2))
    assert {len(table) for table in plan.candidates} == {3}
    assert {pair for table in plan.candidates for pair in combinations(table, 2)} == pairs
    assert plan.n_choices == len(plan.candidates) < len(pairs) / 2


def test_pairs_of_many_codes_have_tables_of_their_own() -> None:
    """Summed over a third attribute of many codes a table would be too coarse, or too noisy."""
    plan = plan_with_sizes((100,) * 8, 48_000)
    assert plan.candidates == tuple(combinations(range(8), 2))


def test_where_nearly_all_pairs_can_be_had_all_are() -> None:
    """Choosing costs budget, so nothing is chosen where next to nothing would be left out."""
    plan = plan_with_sizes((100,) * 6, 20_000)
    assert not plan.chooses
    assert plan.n_choices == 15
    assert plan_with_sizes((100,) * 6, 3_500).chooses


def test_attributes_that_are_nearly_constant_have_no_tables() -> None:
    """What nearly all records have in common cannot depend on anything by more than noise; a focus is
    kept."""
    shares = [np.array([0.999, 0.001]), np.array([0.5, 0.5]), np.array([0.9, 0.1]), np.array([0.7, 0.3])]
    left_out = nearly_constant(shares, 4_000.0, 20.0)
    assert left_out == {0}
    axes = tuple(Axis(2, 0) for _ in shares)
    plan = plan_for(axes, ((0, 1),), 4_000.0, Accounting("laplace", Fraction(1)), left_out)
    assert plan.focus == ((0, 1),)
    assert {a for table in plan.candidates for a in table} == {1, 2, 3}


def test_histograms_of_many_codes_get_more() -> None:
    """Tables gather the codes of an attribute that has many, so its histogram matters more; tables keep
    something."""
    shares = []
    for size in (2, 10, 100, 10_000, 60_000):
        axes = tuple(Axis(size, size) for _ in range(6))
        shares.append(plan_for(axes, (), 1e6, Accounting("laplace", Fraction(1))).shares()[0])
    assert shares == sorted(set(shares[:3])) + shares[3:]
    assert shares[-1] == Fraction(6, 10)


def test_focus_is_measured_in_any_case() -> None:
    """A table in focus is no candidate, is taken even where no other is, and has budget."""
    plan = plan_of(22, 1_000, focus=((0, 3), (1, 2, 5)))
    assert plan.focus == ((0, 3), (1, 2, 5))
    assert (0, 3) not in plan.candidates
    assert plan.n_choices == 0
    assert plan.shares()[2] > 0


def test_split_is_exact() -> None:
    """Parts of an amount are positive and add up to it to the last digit, however small their weights."""
    parts = split(Fraction(1, 3), [1.0, 1e-30, 7.5, 1e5])
    assert sum(parts) == Fraction(1, 3)
    assert min(parts) > 0


def test_delta_pays_for_many_tables_only() -> None:
    """With ε = 1 and δ = 10⁻⁹ a hundred tables have less Gaussian than Laplace noise, and two have more."""
    assert delta_helps(Fraction(1), Fraction(1, 10**9), 100)
    assert not delta_helps(Fraction(1), Fraction(1, 10**9), 2)


def test_codes_without_order_are_gathered_by_rarity() -> None:
    """Frequent categories have bins of their own, wherever they stand; only rare ones share one."""
    shares = np.array([0.001, 0.4, 0.002, 0.3, 0.297])
    bins = bins_of(Axis(5, 0), shares, 2, 0.01, NO_LOTS[:5])
    assert bins[0] == bins[2]
    assert len({bins[1], bins[3], bins[4], bins[0]}) == 4


def test_permuted_categories_have_permuted_bins() -> None:
    """Bins of categories follow from shares and lots alone, not from the order of codes."""
    rng = np.random.default_rng(2)
    shares, lots = rng.dirichlet(np.full(60, 0.3)), rng.random(60)
    order = rng.permutation(60)
    bins = bins_of(Axis(60, 0), shares, 8, 0.02, lots)
    permuted = bins_of(Axis(60, 0), shares[order], 8, 0.02, lots[order])
    assert (permuted == bins[order]).all()


def test_missing_values_have_a_bin_of_their_own() -> None:
    """The code for missing values of an ordered attribute never shares a bin with its last values."""
    (axis,) = axes_of(Schema([Integer(name="age", min=0, max=49, nullable=True)]))
    bins = bins_of(axis, np.full(51, 1 / 51), 4, 0.5, NO_LOTS[:51])
    assert (bins == bins[-1]).sum() == 1
    assert (np.diff(bins) >= 0).all()


def test_refinement_tells_apart_what_any_table_does() -> None:
    """Codes share a fine bin if and only if they share a bin in every table."""
    first, second = np.array([0, 0, 0, 1, 1], np.int32), np.array([0, 1, 1, 1, 0], np.int32)
    fine = refinement(5, [first, second])
    for i in range(5):
        for j in range(5):
            assert (fine[i] == fine[j]) == (first[i] == first[j] and second[i] == second[j])


def test_gathering_adds_up_as_a_matrix_of_membership_does() -> None:
    """Sums over the fine bins of each coarse one, and back, equal products with the matrix of 0 and 1."""
    rng = np.random.default_rng(2)
    coarse = np.concatenate([np.arange(7), rng.integers(0, 7, 60)]).astype(np.int32)
    fine = refinement(67, [coarse, rng.integers(0, 4, 67).astype(np.int32)])
    gathering, inside = Gathering(coarse, fine), membership(coarse, fine)
    of_fine = rng.random((inside.shape[1], 5)).astype(np.float32)
    of_coarse = rng.random((7, 5)).astype(np.float32)
    assert gathering.sums(of_fine) == pytest.approx(inside @ of_fine, rel=1e-5)
    assert gathering.sums_of_one(of_fine[:, 0]) == pytest.approx(inside @ of_fine[:, 0], rel=1e-5)
    added = of_fine.copy()
    gathering.add_to_fine(of_coarse, added)
    assert added == pytest.approx(of_fine + inside.T @ of_coarse, rel=1e-5)


def test_less_noise_gives_finer_tables() -> None:
    """Bins of a table grow in number as its noise falls, up to a bin per code."""
    axes = (Axis(40, 40), Axis(30, 0))
    shares = [np.full(40, 1 / 40), np.full(30, 1 / 30)]
    lots = [NO_LOTS[:40], NO_LOTS[:30]]
    shapes = [
        shape_for((0, 1), axes, shares, 1e5, deviation, lots).shape for deviation in (1000.0, 50.0, 0.5)
    ]
    assert shapes[0] < shapes[1] < shapes[2] == (40, 30)


def test_effort_grows_with_cells() -> None:
    """Larger measurements get more components and passes, until the work of a fit reaches its bound."""
    efforts = [effort_for(n) for n in (10, 1_000, 30_000, 10**7)]
    assert [effort.n_components for effort in efforts[:3]] == sorted(
        effort.n_components for effort in efforts[:3]
    )
    assert [effort.passes for effort in efforts[:3]] == sorted(effort.passes for effort in efforts[:3])
    assert efforts[-1].n_components <= 512
    assert efforts[-1].passes < efforts[2].passes


@pytest.mark.parametrize("focus", [["ab"], [("a",)], [("a", "a")], [("a", "b", "c", "d")], [(1, 2)], 5])
def test_bad_focus_is_refused_in_words(focus: object) -> None:
    """Focus that is no list of groups of two or three names is refused before anything is read."""
    with pytest.raises(MethodError, match="focus"):
        Mixture(focus=focus)  # type: ignore[arg-type]


def test_focus_on_unknown_attributes_is_refused_in_words() -> None:
    """A name in focus that the schema does not have is named, with the nearest that it has."""
    schema = Schema([Integer(name="age", min=0, max=9), Category(name="sex", values=("f", "m"))])
    reason = Mixture(focus=(("agee", "sex"),)).why_infeasible(schema, 1.0)
    assert reason is not None
    assert "'age'" in reason


def test_a_delta_that_only_adds_noise_is_refused() -> None:
    """On two attributes a delta would add noise; the reason says what to do."""
    schema = Schema([Integer(name="a", min=0, max=9), Integer(name="b", min=0, max=9)])
    reason = Mixture(delta="1e-9").why_infeasible(schema, 1.0)
    assert reason is not None
    assert "Leave delta out" in reason
