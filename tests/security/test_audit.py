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
from hdpview.audit.tables import CONTRAST, neighbours, pair
from hdpview.counts.contributions import Contributions
from hdpview.door import release
from hdpview.errors import BudgetError, MethodError
from hdpview.methods import METHODS, Hdpview
from hdpview.privacy.randomness import Randomness

ONE = Fraction(1)
EMPTY = [pair("nobody or one person", np.zeros(4, np.int64), (1,))]
THREE_ROWS = [pair("nobody or one person with three rows", np.zeros(4, np.int64), (1,), 3)]
CORNER = [pair("corner", np.array(CONTRAST, np.int64), (1, 1))]


@pytest.mark.parametrize(("hits", "runs"), [(0, 10), (1, 10), (7, 10), (10, 10), (3, 5_000), (2_600, 5_000), (40_000, 80_000)])
def test_ends_of_intervals_are_those_of_clopper_and_pearson(hits: int, runs: int) -> None:
    """Both ends agree with an independent implementation of the beta distribution."""
    low, high = stats.binomtest(hits, runs).proportion_ci(0.99, method="exact")
    assert lower_end(hits, runs, 0.005) == pytest.approx(low, rel=1e-9, abs=1e-12)
    assert upper_end(hits, runs, 0.005) == pytest.approx(high, rel=1e-9, abs=1e-12)
    assert at_least(hits, runs, 0.3) == pytest.approx(stats.binom.sf(hits - 1, runs, 0.3), rel=1e-9, abs=1e-300)


def test_the_bound_is_wrong_no_more_often_than_it_says() -> None:
    """For an event of exactly e^ε the bound exceeds ε in about the stated share of repetitions or less, and it gets near."""
    rng = np.random.default_rng(5)
    runs, chance = 2_000, 0.2
    hits, others = rng.binomial(runs, chance * np.e, 500), rng.binomial(runs, chance, 500)
    bounds = [epsilon_lower_bound(a, b, runs, 0.9) for a, b in zip(hits.tolist(), others.tolist(), strict=True)]
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


@pytest.mark.parametrize("method", METHODS)
def test_no_method_shows_more_than_it_claims(method: str) -> None:
    """The lower bound on ε stays at or below the ε that was charged."""
    found = audit(method, 1, runs=400)
    assert found.lower_bound <= found.claimed


def test_persons_with_three_rows_are_protected_as_claimed() -> None:
    """Where a person has three rows and the bound is stated, the lower bound stays below ε."""
    build = mutants.honest(mutants.MOSTLY_COUNTS, ONE, Contributions("person", 3))
    found = audit_builds("three rows", 1.0, build, THREE_ROWS, 1_500, max_rows=3)
    assert 0.2 < found.lower_bound <= 1


def test_nearly_all_of_a_budget_is_found_where_it_is_spent_on_one_thing() -> None:
    """With the budget on the noise of counts alone, the audit comes near ε from below: it has the power that the mutants need."""
    found = audit_builds("honest", 1.0, mutants.honest(mutants.MOSTLY_COUNTS, ONE), EMPTY, 3_000)
    assert 0.5 < found.lower_bound <= 1


def test_half_the_noise_is_caught() -> None:
    """Noise of half the scale shows as more than ε."""
    assert audit_builds("half", 1.0, mutants.half_the_noise(ONE), EMPTY, 1_500).lower_bound > 1


def test_a_fixed_key_is_caught() -> None:
    """The same key for every build shows as far more than ε."""
    assert audit_builds("key", 1.0, mutants.one_key_for_all(Hdpview(), ONE), EMPTY, 400).lower_bound > 2


def test_a_bound_on_rows_that_the_noise_ignores_is_caught() -> None:
    """Three rows of a person under noise for one show as more than ε."""
    assert audit_builds("rows", 1.0, mutants.unscaled_bound(mutants.MOSTLY_COUNTS, ONE), THREE_ROWS, 1_500).lower_bound > 1


def test_a_missing_bias_is_caught() -> None:
    """Without the bias that grows with depth, every level of a path tells anew: more than ε, where the right build shows less."""
    cells = np.zeros((2,) * 10, np.int64)
    cells[(1,) * 10] = 5  # with one more, the deviation lies on the threshold: each level is a toss-up
    tables = [pair("a path", cells, (1,) * 10)]
    right = mutants.with_parameters(mutants.MOSTLY_CONVERGE, Fraction(2), lambda _: {})
    assert audit_builds("right", 2.0, right, tables, 4_000).lower_bound <= 2
    wrong = mutants.with_parameters(mutants.MOSTLY_CONVERGE, Fraction(2), lambda _: {"converge_bias_per_level": 0.0})
    assert audit_builds("no bias", 2.0, wrong, tables, 12_000).lower_bound > 2


def test_one_cut_too_many_is_caught() -> None:
    """κ + 1 private cuts charged as κ show as more than ε, where κ cuts show less.

    The paper's Δ is twice what is needed, which would hide an extra cut from any audit (κ + 1 cuts of half the leak). So cuts
    are drawn at the rate of the tight Δ here, which is as private by [P3], and the extra cut then is not.
    """
    epsilon = Fraction(3)
    tight = mutants.with_parameters(mutants.MOSTLY_CUTS, epsilon, lambda p: {"epsilon_cut": 2 * p.epsilon_cut})
    assert audit_builds("tight", 3.0, tight, CORNER, 10_000).lower_bound <= 3
    more = mutants.with_parameters(mutants.MOSTLY_CUTS, epsilon, lambda p: {"epsilon_cut": 2 * p.epsilon_cut, "n_private_cut_levels": 2})
    assert audit_builds("one more", 3.0, more, CORNER, 40_000, confidence=0.99).lower_bound > 3


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
