"""The audit stays below ε for what is right, and goes above it for every planted bug."""

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

import command_line
from hdpview.build import release
from hdpview.errors import BudgetError, MethodError
from hdpview.methods import Hdpview, Mixture
from hdpview.privacy.randomness import Randomness
from hdpview_bench.audit import planted
from hdpview_bench.audit.bound import epsilon_lower_bound, lower_end, rho_lower_bound, upper_end
from hdpview_bench.audit.builds import builds
from hdpview_bench.audit.evidence import NUMBER_OF_RECORDS, cuts_to, features_of
from hdpview_bench.audit.run import Claim, audit, audit_builds
from hdpview_bench.audit.tables import neighbours, pair, table_neighbours

CROWD = pair("crowd", np.full(4, 1_000), (1,))


@pytest.mark.parametrize(
    ("hits", "runs"), [(0, 10), (1, 10), (7, 10), (10, 10), (3, 5_000), (2_600, 5_000), (40_000, 80_000)]
)
def test_ends_of_intervals_are_those_of_clopper_and_pearson(hits, runs):
    low, high = stats.binomtest(hits, runs).proportion_ci(0.99, method="exact")
    assert lower_end(hits, runs, 0.005) == pytest.approx(low, rel=1e-9, abs=1e-12)
    assert upper_end(hits, runs, 0.005) == pytest.approx(high, rel=1e-9, abs=1e-12)


def test_the_bound_is_wrong_no_more_often_than_it_says():
    """For an event of odds e^ε, the bound exceeds ε at most as often as stated, and comes near it."""
    rng = np.random.default_rng(5)
    runs, chance = 2_000, 0.2
    hits, others = rng.binomial(runs, chance * np.e, 500), rng.binomial(runs, chance, 500)
    bounds = [
        epsilon_lower_bound(a, b, runs, 0.9) for a, b in zip(hits.tolist(), others.tolist(), strict=True)
    ]
    assert np.mean(np.array(bounds) > 1) < 0.1
    assert np.median(bounds) > 0.7


def test_a_bound_with_delta_allows_for_it():
    assert epsilon_lower_bound(100, 0, 1_000_000, 0.999, delta=1e-3) == 0.0
    assert 0.9 < epsilon_lower_bound(272_828, 100_000, 1_000_000, 0.999, delta=1e-3) <= 1


def test_a_bound_on_rho_is_near_what_gaussian_noise_has():
    """For a shift of μ standard deviations ρ is μ²/2; an event keeps about two thirds of it."""
    shift, runs = 1.2, 1_000_000
    hits, others = (round(runs * stats.norm.cdf(z)) for z in (shift / 2, -shift / 2))
    assert 0.5 * shift**2 / 2 < rho_lower_bound(hits, others, runs, 0.999) <= shift**2 / 2
    assert rho_lower_bound(others, hits, runs, 0.999) == 0.0


def test_the_way_to_a_leaf_is_read_off_the_view():
    neighbour = next(p for p in neighbours("hdpview", 1.0) if "corner" in p.name)
    for _ in range(50):
        blocks = release(neighbour.exact_without, Fraction(3), Hdpview(), Randomness.fresh(), 1).blocks
        for leaf in range(len(blocks)):
            lower, upper = np.zeros(2, int), np.array([3, 6])
            cuts = cuts_to(blocks, leaf)
            assert len(cuts) == blocks.depth[leaf] - 1
            for attribute, point in cuts:
                (lower if blocks.lower[leaf, attribute] >= point else upper)[attribute] = point
            assert (lower == blocks.lower[leaf]).all()
            assert (upper == blocks.upper[leaf]).all()


def test_the_measured_number_of_records_is_read_off_the_view():
    for tables in table_neighbours(1.0):
        drawn = []

        def note(exact: Any, add: Any, drawn: list[int] = drawn) -> Any:
            drawn.append(int(add(exact)[0]))
            return np.array(drawn[-1:])

        with planted.noise_replaced(planted.is_total, note)():
            view = planted.honest(Mixture(), Fraction(1))(tables.without)
        exact_total = int(tables.exact_without.exact_counts.sum())
        assert features_of(view, tables)[NUMBER_OF_RECORDS] == drawn[0] - exact_total


def test_builds_without_fits_release_the_same_numbers():
    views = []
    for fits in (True, False):
        build = builds(
            Mixture(), Fraction(1), fits=fits, quality=False, keys=lambda: Randomness.from_test_key(b"k")
        )
        views.append(build(pair("crowd", np.full((2, 3), 1_000), (0, 0)).without))
    one, other = (view.parts[0] for view in views)
    assert len(one.components) > len(other.components)
    for table, same in zip(one.tables, other.tables, strict=True):
        assert table.counts.tolist() == same.counts.tolist()


def test_the_default_method_shows_no_more_than_it_claims():
    """False alarms: at most one in a million. With a delta, the build without its planted bug is audited."""
    result = audit("mixture", 1, runs=100, confidence=1 - 1e-6)
    assert result.passed
    assert result.claimed_rho is None


def test_nearly_all_of_a_budget_is_found_where_it_is_spent_on_one_thing():
    """With one attribute, nearly all of ε is spent on its histogram, so the audit should come near ε."""
    build = planted.honest(Mixture(), Fraction(1))
    result = audit_builds("honest", Claim(1.0), build, [CROWD], 500)
    assert 0.5 < result.lower_bound <= 1


@pytest.mark.parametrize(
    "bug", [pytest.param(bug, marks=pytest.mark.xdist_group(f"audit, {bug}")) for bug in planted.PLANTED]
)
def test_planted_bugs_are_caught_and_the_same_build_without_them_is_not(bug):
    """At most 1,000 builds per table (1,400 for the keys of halves), bounds of 99.9%; keys are fixed."""
    assert planted.PLANTED[bug].audit(is_wrong=False).passed
    assert not planted.PLANTED[bug].audit(is_wrong=True).passed


def test_the_papers_method_shows_no_more_than_it_claims_and_the_command_prints_it():
    words = ["audit", "--method", "hdpview", "--epsilon", "1", "--runs", "100", "--format", "json"]
    # One false alarm in a million.
    done = command_line.run(*words, "--confidence", "0.999999")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert {"method", "claimed", "lower_bound", "runs"} <= set(printed)
    assert printed["method"] == "hdpview"
    assert printed["claimed"] == 1.0
    assert printed["runs"] == 100
    assert printed["lower_bound"] <= 1
    assert printed["passed"]
    assert "a number or a choice without noise" in printed["kinds_seen"]


def test_bad_audits_are_refused_in_words():
    with pytest.raises(BudgetError, match="100 runs or more"):
        audit(runs=5)
    with pytest.raises(BudgetError, match="between"):
        audit(runs=100, confidence=1.0)
    with pytest.raises(MethodError, match="Did you mean"):
        audit("hdpviw", runs=100)
