"""The mixture's tables, bins and budgets follow from public and released numbers only."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from hdpview.domain import Category, Integer, Schema
from hdpview.domain.table_shapes import TableShape
from hdpview.errors import MethodError
from hdpview.methods.mixture import Mixture
from hdpview.methods.mixture.bins import Axis, Cuts, axes_of, refinement
from hdpview.methods.mixture.measure import Measured
from hdpview.methods.mixture.plan import MOST_TOGETHER, Plan, Planner, split
from hdpview.privacy.noise import Noise
from hdpview.view.released_tables import Table

EVEN = 0.5


def even_shares(axes: Sequence[Axis]) -> list[np.ndarray]:
    return [np.full(axis.size, 1 / axis.size) for axis in axes]


def planner_for(
    axes: Sequence[Axis], total: float, epsilon: float = 1.0, shares: list[np.ndarray] | None = None
) -> Planner:
    whole = Noise("laplace", Fraction(epsilon))
    return Planner(axes, shares or even_shares(axes), total, whole, [np.zeros(a.size) for a in axes])


def plan_of(sizes: Sequence[int], total: float, focus: Sequence[tuple[int, ...]] = ()) -> Plan:
    return planner_for([Axis(size, size) for size in sizes], total).groups(Fraction(EVEN), focus)


def pairs_in(plan: Plan) -> set[tuple[int, int]]:
    return {pair for shape in plan.shapes for pair in combinations(shape.attributes, 2)}


@pytest.mark.parametrize("n_attributes", [2, 4, 9, 30, 80])
@pytest.mark.parametrize("total", [-50.0, 0.0, 900.0, 5e4, 1e8])
def test_amounts_add_up(n_attributes, total):
    plan = plan_of([10] * n_attributes, total)
    assert sum(plan.amounts) + plan.for_fine == Fraction(EVEN)
    assert min(plan.amounts) > 0
    assert plan.for_fine >= 0
    assert max(len(shape.attributes) for shape in plan.shapes) <= MOST_TOGETHER


def test_all_pairs_are_in_a_group():
    plan = plan_of([2] * 12 + [8, 30, 100, 5, 5, 3], 3e5)
    assert len(pairs_in(plan)) == 18 * 17 // 2
    assert len(plan.shapes) < 60


def test_more_records_give_finer_bins_and_smaller_groups():
    shapes = [plan_of([40] * 8, n).shapes for n in (256, 1_000, 10_000, 1e6)]
    mean = [np.mean([len(shape.attributes) for shape in some]) for some in shapes]
    assert mean == sorted(mean, reverse=True)
    assert (mean[0], mean[-1]) == (8, 2)
    finest = [max(max(shape.shape) for shape in some) for some in shapes]
    assert finest == sorted(finest)
    assert (finest[0], finest[-1]) == (2, 40)


def test_attributes_that_hardly_vary_are_left_out():
    axes, constant = [Axis(10, 10) for _ in range(6)], np.array([1 - 9e-6] + [1e-6] * 9)
    shares = [*even_shares(axes)[:5], constant]
    plan = planner_for(axes, 5_000.0, shares=shares).groups(Fraction(EVEN))
    assert pairs_in(plan) == set(combinations(range(5), 2))


def test_focus_has_more_budget_and_finer_bins():
    plan = plan_of([40] * 10, 2e4, focus=[(3, 7)])
    assert plan.shapes[0].attributes == (3, 7)
    assert plan.amounts[0] > 3 * max(plan.amounts[1:])
    assert np.prod(plan.shapes[0].shape) > np.mean([np.prod(shape.shape) for shape in plan.shapes[1:]])


def test_fine_tables_are_of_the_pairs_that_depend():
    axes = [Axis(40, 40) for _ in range(4)]
    planner = planner_for(axes, 1e5)
    halves = np.repeat(np.arange(2, dtype=np.int32), 20)
    counts = np.full((2, 2, 2, 2), 6_250)
    counts[0, :, :, 0] += 4_000
    counts[1, :, :, 1] += 4_000
    counts[0, :, :, 1] -= 4_000
    counts[1, :, :, 0] -= 4_000
    table = Table(TableShape((0, 1, 2, 3), (halves,) * 4), counts.astype(np.int64), "laplace", 10.0)
    shapes = planner.fine_pairs([Measured(table, 200.0)], even_shares(axes), Fraction(1, 10))
    assert [shape.attributes for shape in shapes] == [(0, 3)]
    assert min(shapes[0].shape) > 2


def test_split_is_exact():
    parts = split(Fraction(1, 3), [1.0, 1e-30, 7.5, 1e5])
    assert sum(parts) == Fraction(1, 3)
    assert min(parts) > 0


def test_codes_without_order_are_gathered_by_rarity():
    shares = np.array([0.001, 0.4, 0.002, 0.3, 0.297])
    bins = Cuts(Axis(5, 0), shares, np.zeros(5)).bins(4)
    assert bins[0] == bins[2]
    assert len(set(bins.tolist())) == 4


def test_permuted_categories_have_permuted_bins():
    """Bins of categories follow from shares and random tie-breakers alone, not from the order of codes."""
    rng = np.random.default_rng(2)
    shares, tie_breakers = rng.dirichlet(np.full(60, 0.3)), rng.random(60)
    order = rng.permutation(60)
    bins = Cuts(Axis(60, 0), shares, tie_breakers).bins(9)
    permuted = Cuts(Axis(60, 0), shares[order], tie_breakers[order]).bins(9)
    assert (permuted == bins[order]).all()


def test_missing_values_are_cut_off_first_if_there_are_many():
    (axis,) = axes_of(Schema([Integer(name="age", min=0, max=49, nullable=True)]))
    many, few = np.full(51, 0.5 / 50), np.full(51, 1 / 50)
    many[-1], few[-1] = 0.5, 1e-6
    assert (np.diff(Cuts(axis, many, np.zeros(51)).bins(2)) != 0).nonzero()[0].tolist() == [49]
    assert (np.diff(Cuts(axis, few, np.zeros(51)).bins(2)) != 0).nonzero()[0].tolist() == [24]


@pytest.mark.parametrize("n_ordered", [0, 40, 39])
def test_bins_of_an_attribute_nest(n_ordered):
    shares = np.random.default_rng(3).dirichlet(np.full(40, 0.5))
    cuts = Cuts(Axis(40, n_ordered), shares, np.zeros(40))
    for n in range(2, 40):
        coarse, fine = cuts.bins(n), cuts.bins(n + 1)
        assert len(set(fine.tolist())) == n + 1
        assert (refinement(40, [coarse, fine]) == refinement(40, [fine])).all()
    assert (np.diff(cuts.lost) <= 1e-12).all()
    assert cuts.lost[0] == pytest.approx(1.0)
    assert cuts.lost[-1] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("n_ordered", [0, 30, 29])
def test_what_bins_hide_is_what_questions_miss(n_ordered):
    """As said in `Cuts`, question by question."""
    shares = np.random.default_rng(1).dirichlet(np.full(30, 0.3))
    cuts = Cuts(Axis(30, n_ordered), shares, np.zeros(30))
    for n in (1, 2, 5, 12):
        bins, hidden = cuts.bins(n), 0.0
        for code in range(30):
            own = bins == bins[code]
            if n_ordered and code:
                often = (1 / 30 + (shares[code] + shares[code - 1]) / 2) / 2
                left = shares[own & (np.arange(30) < code)].sum()
                hidden += often * left * (shares[own].sum() - left)
                if code >= n_ordered:  # missing values: a question includes or excludes them
                    hidden += left * shares[code]
            elif not n_ordered:
                hidden += shares[code] ** 2 * (1 - shares[code] / shares[own].sum())
        assert cuts.lost[n - 1] * cuts.hidden == pytest.approx(6 * hidden)


def test_refinement_tells_apart_what_any_table_does():
    first, second = np.array([0, 0, 0, 1, 1], np.int32), np.array([0, 1, 1, 1, 0], np.int32)
    fine = refinement(5, [first, second])
    for i in range(5):
        for j in range(5):
            assert (fine[i] == fine[j]) == (first[i] == first[j] and second[i] == second[j])


@pytest.mark.parametrize("focus", [["ab"], [("a",)], [("a", "a")], [("a", "b", "c", "d")], [(1, 2)], 5])
def test_bad_focus_is_refused_in_words(focus):
    with pytest.raises(MethodError, match="focus"):
        Mixture(focus=focus)


def test_focus_on_unknown_attributes_is_refused_in_words():
    schema = Schema([Integer(name="age", min=0, max=9), Category(name="sex", values=("f", "m"))])
    reason = Mixture(focus=(("agee", "sex"),)).why_infeasible(schema, 1.0)
    assert "'age'" in reason


def test_a_delta_that_only_adds_noise_is_refused():
    schema = Schema([Integer(name="a", min=0, max=9), Integer(name="b", min=0, max=9)])
    reason = Mixture(delta="1e-9").why_infeasible(schema, 1.0)
    assert "Omit delta" in reason
