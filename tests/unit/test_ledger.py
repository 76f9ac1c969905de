"""The ledger: exact fractions, nothing left, nothing too much."""

import math
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdpview.errors import BudgetError
from hdpview.methods import Hdpview
from hdpview.partition.parameters import PartitionParameters
from hdpview.privacy.budget import exact_epsilon
from hdpview.privacy.exact import Exact
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.randomness import Randomness

EXACT = Exact(np.arange(3))


def mechanism(epsilon: Fraction = Fraction(1)) -> Mechanism:
    return Mechanism(epsilon, Randomness.from_test_key(b"ledger"))


def test_one_charge_too_many_raises_and_draws_nothing(monkeypatch):
    budget = mechanism()
    budget.noisy("all", EXACT, Fraction(1))
    monkeypatch.setattr("hdpview.privacy.mechanism._sampled", None)
    with pytest.raises(BudgetError, match=r"'more' needs .*only 0 of 1 is left"):
        budget.noisy("more", EXACT, Fraction(1, 10**30))
    assert budget.close()


def test_a_purpose_is_drawn_for_once():
    budget = mechanism()
    budget.noisy("a", EXACT, Fraction(1, 2))
    with pytest.raises(BudgetError, match="'a' was already drawn"):
        budget.noisy("a", EXACT, Fraction(1, 2))
    with pytest.raises(BudgetError, match="'a' was already drawn"):
        budget.choose("a", EXACT, Fraction(1, 2), np.ones(3))


def test_no_mechanism_is_used_where_its_argument_does_not_hold():
    tiny = Fraction(1, 10**6)
    with pytest.raises(BudgetError, match="Choices cost epsilon"):
        Mechanism(Fraction(1), Randomness.fresh(), delta=tiny).choose("a", EXACT, tiny, np.ones(3))
    with pytest.raises(BudgetError, match="counts more than once"):
        mechanism().noisy("a", Exact(np.arange(3), in_all=3), Fraction(1))
    for epsilon in (Fraction(-1), Fraction(0)):
        with pytest.raises(BudgetError, match="charges must be positive"):
            mechanism().noisy("refund", EXACT, epsilon)


@given(st.decimals(min_value="0.001", max_value=100, places=3), st.integers(1, 10**300))
def test_the_method_spends_any_budget_exactly(epsilon, n_cells):
    budget = exact_epsilon(str(epsilon))
    parameters = PartitionParameters.choose(Hdpview(), budget, n_cells)
    cuts = parameters.epsilon_cut * parameters.n_private_cut_levels
    assert cuts + parameters.epsilon_converge + parameters.epsilon_counts == budget
    assert parameters.converge_loss() <= parameters.epsilon_converge


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0.1, Fraction(1, 10)), ("0.1", Fraction(1, 10)), (1, Fraction(1)), ("1/3", Fraction(1, 3)),
        ("1e-3", Fraction(1, 1000)), (Fraction(2, 7), Fraction(2, 7)), (Decimal("0.30"), Fraction(3, 10)),
        (np.float64(0.7), Fraction(7, 10)), (np.int64(2), Fraction(2)),
    ],
)  # fmt: skip
def test_epsilon_is_the_fraction_a_person_meant(written, meant):
    assert exact_epsilon(written) == meant


BAD = [0, -1, -0.1, 0.0, math.nan, math.inf, -math.inf, "abc", "", None, True, "1/0", [1]]
BAD += [10**400, Fraction(0), 1e7, "1e-10", 10**5000, "1" * 60]


@pytest.mark.parametrize("epsilon", BAD, ids=range(len(BAD)))
def test_bad_budgets_are_refused_in_words(epsilon):
    with pytest.raises(BudgetError, match=r"epsilon must be a positive number such as 1\.0"):
        exact_epsilon(epsilon)


def test_a_gigantic_exponent_is_refused_at_once():
    """In a process of its own, because the computation cannot be interrupted."""
    program = "from hdpview.privacy.budget import exact_epsilon\nexact_epsilon('1e999999999')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=300, text=True)
    assert "BudgetError" in done.stderr


def test_a_finished_build_leaves_exactly_zero_and_a_remainder_is_an_error():
    budget = mechanism(Fraction(1, 10))
    budget.noisy("a: 1", EXACT, Fraction(1, 70))
    budget.noisy("b", EXACT, Fraction(4, 70))
    with pytest.raises(BudgetError, match="1/35"):
        budget.close()
    budget.noisy("a: 2", EXACT, Fraction(2, 70))
    assert budget.remaining == 0
    charged = [(charge.purpose, charge.epsilon * charge.times) for charge in budget.close()]
    assert charged == [("a", Fraction(3, 70)), ("b", Fraction(4, 70))]
