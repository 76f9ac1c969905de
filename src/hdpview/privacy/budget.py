"""Budgets as people write them, as exact fractions."""

from __future__ import annotations

import re
from fractions import Fraction

from hdpview.errors import BudgetError, quoted

# ε below would drown any table in noise; files of views refuse an ε far above.
_LEAST_EPSILON = 1e-9
_MOST_EPSILON = 1e6
# A larger δ would lay whole records open now and then.
_MOST_DELTA = Fraction(1, 1000)
# Characters of a number, and powers of ten: more would take an age to write out.
_LONGEST_NUMBER = 50
_LARGEST_EXPONENT = 300


def exact_epsilon(epsilon: float | str | Fraction) -> Fraction:
    """The budget a person wrote, as the exact fraction they meant: 0.1 is one tenth."""
    exact = _exact(epsilon)
    if exact is None or not _LEAST_EPSILON <= exact <= _MOST_EPSILON:
        raise BudgetError(
            f"epsilon must be a positive number such as 1.0, not {quoted(epsilon)}. "
            f"Smaller protects more; 0.1 to 2 is usual, {_LEAST_EPSILON:g} to {_MOST_EPSILON:g} possible."
        )
    return exact


def exact_delta(delta: float | str | Fraction) -> Fraction:
    """The δ a person wrote, as the exact fraction they meant; 0 for pure differential privacy."""
    exact = _exact(delta)
    if exact is None or not 0 <= exact <= _MOST_DELTA:
        raise BudgetError(
            "delta must be 0, or a small number such as 1e-9, far below one over the number of records, not "
            f"{quoted(delta)}. {float(_MOST_DELTA):g} is the most."
        )
    return exact


def _exact(number: float | str | Fraction) -> Fraction | None:
    """A number as people write it; None for other texts, and for what would take an age to write out."""
    if isinstance(number, Fraction):
        return number
    try:
        text = str(number)
        exponent = re.search(r"[eE]\s*([+-]?[\d_]+)", text)
        is_long = exponent is not None and abs(int(exponent.group(1))) > _LARGEST_EXPONENT
        return None if is_long or len(text) > _LONGEST_NUMBER else Fraction(text)
    except (ValueError, ZeroDivisionError, OverflowError):
        return None
