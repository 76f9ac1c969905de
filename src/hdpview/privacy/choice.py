"""Choices and yes-or-no decisions with exactly the law that the proof speaks of. [P15]

A decision compares a uniform number U with boundaries that are real numbers, such as e^−x. Both are known to
some bits; where these do not tell on which side U lies, U gets further bits from its key and the boundaries
further digits, until no doubt is left. So the result is a function of the key and of exact numbers alone.
Whoever decides millions of times does so in doubles first, with a bound on all of their errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from itertools import accumulate

from hdpview.privacy.randomness import Bounds, Uniform

# To which boundaries are looked at first.
_FIRST_DIGITS = 40

# From a number of digits to (at least, at most) of each boundary.
Boundaries = Callable[[int], Sequence[Bounds]]


def choose(scores: Sequence[Fraction], rate: Fraction, prior: Sequence[Fraction], uniform: Uniform) -> int:
    """The exponential mechanism: i is drawn with probability ∝ prior_i · exp(rate · score_i). [P15]

    Args:
        scores: one record moves each by their sensitivity Δ at most.
        rate: ε/2Δ.
        prior: public and positive.
        uniform: decides.
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
    """How many of the rising `boundaries` are at most the uniform number: with more bits and digits until no
    doubt is left, which ends with probability 1.
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
    """e^−x for x ≥ 0, at least and at most, to so many digits behind the point.

    `decimal` rounds quotients and exponentials correctly. A quotient off by a relative 10^−p changes e^−x by
    a relative x·10^−p; twenty digits more than are asked for leave room for that.
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
