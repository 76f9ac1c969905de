"""The budget of one build, in exact fractions: each mechanism is charged first, nothing is left over."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction

from hdpview.errors import BudgetError, quoted

_LEAST_EPSILON, _MOST_EPSILON = 1e-9, 1e6  # files of views refuse what lies far beyond
_MOST_DELTA = Fraction(1, 1000)  # more would lay whole records open now and then
_LONGEST_NUMBER, _LARGEST_EXPONENT = 50, 300  # characters; powers of ten


@dataclass(frozen=True)
class Charge:
    """Budget spent on one purpose: `times` uses of a mechanism of `epsilon` each on the records of any one
    path, `delta` for all.
    """

    purpose: str
    epsilon: Fraction
    times: int = 1
    delta: Fraction = Fraction(0)

    @property
    def total(self) -> Fraction:
        return self.epsilon * self.times


@dataclass
class Budget:
    """A budget and the charges against it. One charge too many raises before anything is drawn."""

    epsilon: Fraction
    charges: list[Charge] = field(default_factory=list)
    delta: Fraction = Fraction(0)

    @property
    def remaining(self) -> Fraction:
        return self.epsilon - sum((charge.total for charge in self.charges), Fraction(0))

    @property
    def remaining_delta(self) -> Fraction:
        return self.delta - sum((charge.delta for charge in self.charges), Fraction(0))

    def charge(
        self, purpose: str, epsilon: Fraction, times: int = 1, delta: Fraction = Fraction(0)
    ) -> Fraction:
        """Spend `times · epsilon`, and `delta` once, on a purpose; return `epsilon`, that of one use."""
        charge = Charge(purpose, epsilon, times, delta)
        if epsilon < 0 or times < 0 or delta < 0:
            raise BudgetError(f"Cannot charge a negative budget for {purpose!r}.")
        if charge.total > self.remaining:
            raise BudgetError(
                f"{purpose!r} needs a budget of {float(charge.total):g}; only "
                f"{float(self.remaining):g} of {float(self.epsilon):g} is left."
            )
        if delta > self.remaining_delta:
            raise BudgetError(
                f"{purpose!r} needs a delta of {float(delta):g}; only {float(self.remaining_delta):g} "
                f"of {float(self.delta):g} is left."
            )
        self.charges.append(charge)  # [P1]
        return epsilon

    def close(self) -> tuple[Charge, ...]:
        """The charges of a finished build. A remainder is an error: it would be accuracy thrown away."""
        for what, left in (("budget", self.remaining), ("delta", self.remaining_delta)):
            if left != 0:
                raise BudgetError(f"The build left {left} of its {what} unspent: a mistake in the method.")
        return tuple(self.charges)


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
