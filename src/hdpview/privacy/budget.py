"""Budgets as people write them, as exact fractions."""

from __future__ import annotations

import re
from fractions import Fraction

from hdpview.errors import BudgetError, quoted

# A smaller ε would drown any table in noise; view files refuse an ε far above the largest.
_LEAST_EPSILON = 1e-9
_MOST_EPSILON = 1e6
# With a larger δ, a build could occasionally reveal a whole record.
_MOST_DELTA = Fraction(1, 1000)
# Maximum characters and powers of ten of a number; longer ones would take minutes to print.
_LONGEST_NUMBER = 50
_LARGEST_EXPONENT = 300


def exact_epsilon(epsilon: float | str | Fraction) -> Fraction:
    """Read ε as the exact fraction that was meant: 0.1 is one tenth."""
    exact = _exact(epsilon)
    if exact is None or not _LEAST_EPSILON <= exact <= _MOST_EPSILON:
        usual = f"0.1 to 2 is usual, {_LEAST_EPSILON:g} to {_MOST_EPSILON:g} valid"
        wrong = f"epsilon must be a positive number such as 1.0, not {quoted(epsilon)}"
        raise BudgetError(f"{wrong}. Smaller values protect more; {usual}.")
    return exact


def exact_delta(delta: float | str | Fraction) -> Fraction:
    """Read δ as the exact fraction that was meant; 0 for pure differential privacy."""
    exact = _exact(delta)
    if exact is None or not 0 <= exact <= _MOST_DELTA:
        small = "a small number such as 1e-9, far below one over the number of records"
        raise BudgetError(
            f"delta must be 0, or {small}, not {quoted(delta)}. {float(_MOST_DELTA):g} is the most."
        )
    return exact


def _exact(number: float | str | Fraction) -> Fraction | None:
    """Read a number; None for other texts, and for numbers too long to print."""
    if isinstance(number, Fraction):
        return number
    try:
        text = str(number)
        exponent = re.search(r"[eE]\s*([+-]?[\d_]+)", text)
        is_long = exponent is not None and abs(int(exponent.group(1))) > _LARGEST_EXPONENT
        return None if is_long or len(text) > _LONGEST_NUMBER else Fraction(text)
    except (ValueError, ZeroDivisionError, OverflowError):
        return None
