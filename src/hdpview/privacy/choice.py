"""Choices and yes-or-no decisions that follow exactly the distribution in the proof. [P15]

A decision compares a uniform number U with boundaries that are real numbers, such as e^−x. Both are known to
some bits. If these do not settle on which side U lies, U gets further bits from its key and the boundaries
further digits, until they do. So the result is a function of the key and of exact numbers alone.
Code that decides millions of times uses doubles first, with a bound on all of their errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from itertools import accumulate

from hdpview.privacy.randomness import Bounds, Uniform

# Digits of boundaries at the first try.
_FIRST_DIGITS = 40

# Returns a lower and an upper bound of each boundary, with a given number of digits.
Boundaries = Callable[[int], Sequence[Bounds]]


def choose(scores: Sequence[Fraction], rate: Fraction, prior: Sequence[Fraction], uniform: Uniform) -> int:
    """The exponential mechanism: i is drawn with probability ∝ prior_i · exp(rate · score_i). [P15]

    Args:
        scores: one record changes each by at most their sensitivity Δ.
        rate: ε/2Δ.
        prior: public and positive.
        uniform: the random number that decides.
    """
    best = max(scores)

    def boundaries(digits: int) -> list[Bounds]:
        bounds = [exp_bounds(rate * (best - score), digits) for score in scores]
        weights = [(weight * low, weight * high) for weight, (low, high) in zip(prior, bounds, strict=True)]
        lows, highs = (list(accumulate(side)) for side in zip(*weights, strict=True))
        return [
            (low / (low + highs[-1] - high), high / (high + lows[-1] - low))
            for low, high in zip(lows[:-1], highs[:-1], strict=True)
        ]

    return n_boundaries_up_to(uniform, boundaries)


def is_below(uniform: Uniform, boundary: Callable[[int], Bounds]) -> bool:
    """Whether a uniform number is below a real number that is known to any number of digits."""
    return n_boundaries_up_to(uniform, lambda digits: [boundary(digits)]) == 0


def n_boundaries_up_to(uniform: Uniform, boundaries: Boundaries) -> int:
    """Count the `boundaries`, in rising order, that are at most the uniform number. Uses more bits and digits
    until the count is certain, which happens with probability 1.
    """
    n_blocks, digits = 1, _FIRST_DIGITS
    while True:
        low, high = uniform.bounds(n_blocks)
        known = boundaries(digits)
        n_below = sum(most <= low for _, most in known)
        if all(least >= high for least, _ in known[n_below:]):
            return n_below
        n_blocks, digits = n_blocks + 1, 2 * digits


def exp_bounds(x: Fraction, digits: int) -> Bounds:
    """Lower and upper bounds of e^−x for x ≥ 0, with this many digits after the point.

    `decimal` rounds quotients and exponentials correctly. A quotient off by a relative 10^−p changes e^−x by
    a relative x·10^−p; computing twenty extra digits leaves room for that.
    """
    if x == 0:
        return Fraction(1), Fraction(1)
    if x > 3 * digits:
        return Fraction(0), Fraction(1, 10**digits)
    precise = Context(prec=digits + 20)
    quotient = precise.divide(Decimal(x.numerator), Decimal(x.denominator))
    near = Fraction(precise.exp(precise.minus(quotient)))
    error = near * Fraction(1, 10**digits)
    return near - error, near + error
