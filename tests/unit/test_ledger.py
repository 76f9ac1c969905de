"""The ledger: exact fractions, nothing left, nothing too much."""

from __future__ import annotations

import math
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdpview.errors import BudgetError
from hdpview.methods import Hdpview
from hdpview.partition.parameters import PartitionParameters
from hdpview.privacy.budget import Budget, exact_epsilon


def test_a_finished_build_leaves_exactly_zero() -> None:
    """Charges that add up to the budget leave 0 as a fraction, and close returns them in order."""
    ledger = Budget(Fraction(1, 10))
    assert ledger.charge("a", Fraction(1, 70), times=3) == Fraction(1, 70)
    ledger.charge("b", Fraction(4, 70))
    assert ledger.remaining == 0
    charges = ledger.close()
    assert [(charge.purpose, charge.total) for charge in charges] == [
        ("a", Fraction(3, 70)),
        ("b", Fraction(4, 70)),
    ]


def test_one_charge_too_many_raises_and_is_not_recorded() -> None:
    """A charge beyond the budget, by however little, raises before it is written down."""
    ledger = Budget(Fraction(1))
    ledger.charge("all", Fraction(1, 3), times=3)
    with pytest.raises(BudgetError, match=r"'more' needs .*only 0 of 1 is left"):
        ledger.charge("more", Fraction(1, 10**30))
    assert len(ledger.charges) == 1


def test_times_is_charged_for_every_use() -> None:
    """k uses of ε each cost k·ε: one use more than fits raises."""
    ledger = Budget(Fraction(1))
    with pytest.raises(BudgetError):
        ledger.charge("cuts", Fraction(1, 10), times=11)
    ledger.charge("cuts", Fraction(1, 10), times=10)
    assert ledger.remaining == 0


@pytest.mark.parametrize(("epsilon", "times"), [(Fraction(-1), 1), (Fraction(1), -1)])
def test_negative_charges_are_refused(epsilon: Fraction, times: int) -> None:
    """Nobody can win budget back by a negative charge."""
    with pytest.raises(BudgetError, match="negative"):
        Budget(Fraction(1)).charge("refund", epsilon, times)


def test_a_remainder_is_an_error() -> None:
    """Closing with budget left over raises."""
    ledger = Budget(Fraction(1))
    ledger.charge("some", Fraction(999, 1000))
    with pytest.raises(BudgetError, match="1/1000"):
        ledger.close()


@given(st.decimals(min_value="0.001", max_value=100, places=3), st.integers(1, 10**300))
def test_the_method_spends_any_budget_exactly(epsilon: Decimal, n_cells: int) -> None:
    """For any budget and domain the method's three charges add up to it with no remainder."""
    budget = exact_epsilon(str(epsilon))
    parameters = PartitionParameters.choose(Hdpview(), budget, n_cells)
    ledger = Budget(budget)
    ledger.charge("cuts", parameters.epsilon_cut, times=parameters.n_private_cut_levels)
    ledger.charge("converge", parameters.epsilon_converge)
    ledger.charge("counts", parameters.epsilon_counts)
    assert ledger.close()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0.1, Fraction(1, 10)),
        ("0.1", Fraction(1, 10)),
        (1, Fraction(1)),
        ("1/3", Fraction(1, 3)),
        ("1e-3", Fraction(1, 1000)),
        (Fraction(2, 7), Fraction(2, 7)),
        (Decimal("0.30"), Fraction(3, 10)),
        (np.float64(0.7), Fraction(7, 10)),
        (np.int64(2), Fraction(2)),
    ],
)
def test_epsilon_is_the_fraction_a_person_meant(written: Any, meant: Fraction) -> None:
    """0.1 is one tenth, not the nearest double to it."""
    assert exact_epsilon(written) == meant


@pytest.mark.parametrize(
    "epsilon",
    [
        0,
        -1,
        -0.1,
        0.0,
        math.nan,
        math.inf,
        -math.inf,
        "abc",
        "",
        None,
        True,
        "1/0",
        [1],
        pytest.param(10**400, id="401 digits"),
        Fraction(0),
        1e7,
        "1e-10",
        pytest.param(10**5000, id="5001 digits"),
        "1" * 60,
    ],
)
def test_bad_budgets_are_refused_in_words(epsilon: Any) -> None:
    """Anything but a positive finite number is refused with an example of what to write."""
    with pytest.raises(BudgetError, match=r"epsilon must be a positive number such as 1\.0"):
        exact_epsilon(epsilon)


def test_a_gigantic_exponent_is_refused_at_once() -> None:
    """A budget such as 1e999999999 is refused without first writing out a billion digits."""
    program = "from hdpview.privacy.budget import exact_epsilon\nexact_epsilon('1e999999999')"
    try:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=300, text=True)
    except subprocess.TimeoutExpired:
        pytest.fail("exact_epsilon('1e999999999') hangs")
    assert "BudgetError" in done.stderr
