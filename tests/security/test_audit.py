"""The audit stays below ε for what is right, and goes above it for every planted bug."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction

import mutants
import numpy as np
import pytest
from scipy import stats

from hdpview.audit.bound import at_least, epsilon_lower_bound, lower_end, upper_end
from hdpview.audit.evidence import cuts_to
from hdpview.audit.run import audit, audit_builds
from hdpview.audit.tables import neighbours, pair
from hdpview.build import release
from hdpview.errors import BudgetError, MethodError
from hdpview.methods import METHODS, Hdpview
from hdpview.privacy.randomness import Randomness

EMPTY = [pair("nobody or one person", np.zeros(4, np.int64), (1,))]


@pytest.mark.parametrize(
    ("hits", "runs"), [(0, 10), (1, 10), (7, 10), (10, 10), (3, 5_000), (2_600, 5_000), (40_000, 80_000)]
)
def test_ends_of_intervals_are_those_of_clopper_and_pearson(hits: int, runs: int) -> None:
    """Both ends agree with an independent implementation of the beta distribution."""
    low, high = stats.binomtest(hits, runs).proportion_ci(0.99, method="exact")
    assert lower_end(hits, runs, 0.005) == pytest.approx(low, rel=1e-9, abs=1e-12)
    assert upper_end(hits, runs, 0.005) == pytest.approx(high, rel=1e-9, abs=1e-12)
    assert at_least(hits, runs, 0.3) == pytest.approx(
        stats.binom.sf(hits - 1, runs, 0.3), rel=1e-9, abs=1e-300
    )


def test_the_bound_is_wrong_no_more_often_than_it_says() -> None:
    """For an event of exactly e^ε the bound exceeds ε in about the stated share of repetitions or less, and
    it gets near.
    """
    rng = np.random.default_rng(5)
    runs, chance = 2_000, 0.2
    hits, others = rng.binomial(runs, chance * np.e, 500), rng.binomial(runs, chance, 500)
    bounds = [
        epsilon_lower_bound(a, b, runs, 0.9) for a, b in zip(hits.tolist(), others.tolist(), strict=True)
    ]
    assert np.mean(np.array(bounds) > 1) < 0.1
    assert np.median(bounds) > 0.7


def test_the_way_to_a_leaf_is_read_off_the_view() -> None:
    """The cuts found from the released blocks lead to the leaf they are asked for, box by box."""
    found = next(p for p in neighbours(1.0) if "corner" in p.name)
    for _ in range(50):
        blocks = release(found.without, Fraction(3), Hdpview(), Randomness.fresh(), 1).blocks
        for leaf in range(len(blocks)):
            lower, upper = np.zeros(2, int), np.array([3, 6])
            cuts = cuts_to(blocks, leaf)
            assert len(cuts) == blocks.depth[leaf] - 1
            for attribute, point in cuts:
                (lower if blocks.lower[leaf, attribute] >= point else upper)[attribute] = point
            assert (lower == blocks.lower[leaf]).all()
            assert (upper == blocks.upper[leaf]).all()


@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if method().makes_views])
def test_no_method_shows_more_than_it_claims(method: str) -> None:
    """The lower bound on ε stays at or below the ε that was charged."""
    found = audit(method, 1, runs=400)
    assert found.lower_bound <= found.claimed


def test_nearly_all_of_a_budget_is_found_where_it_is_spent_on_one_thing() -> None:
    """With the budget on the noise of counts alone, the audit comes near ε from below: it has the power that
    planted bugs need.
    """
    found = audit_builds("honest", 1.0, mutants.honest(mutants.MOSTLY_COUNTS, mutants.ONE), EMPTY, 2_000)
    assert 0.5 < found.lower_bound <= 1


@pytest.mark.parametrize("bug", mutants.PLANTED)
def test_planted_bugs_are_caught_and_the_same_build_without_them_is_not(bug: str) -> None:
    """The lower bound exceeds the claimed ε with the bug and stays below it without."""
    planted = mutants.PLANTED[bug]
    assert planted.audit(is_wrong=False).passed
    assert not planted.audit(is_wrong=True).passed


def test_the_command_prints_what_a_program_reads() -> None:
    """hdpview audit --format json has the documented keys."""
    words = ["audit", "--method", "hdpview", "--epsilon", "1", "--runs", "100", "--format", "json"]
    done = subprocess.run([sys.executable, "-m", "hdpview", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {"method", "claimed", "lower_bound", "runs"} <= set(found)
    assert found["method"] == "hdpview"
    assert found["claimed"] == 1.0
    assert found["runs"] == 100
    assert found["lower_bound"] <= 1


def test_bad_audits_are_refused_in_words() -> None:
    """Too few runs, an impossible confidence, an unknown method."""
    with pytest.raises(BudgetError, match="100 runs or more"):
        audit(runs=5)
    with pytest.raises(BudgetError, match="between"):
        audit(runs=100, confidence=1.0)
    with pytest.raises(MethodError, match="Did you mean"):
        audit("hdpviw", runs=100)
