"""Choices and yes-or-no decisions with exactly the law that the proof speaks of. [P15]

A decision compares a uniform number U with boundaries that are real numbers, such as e^−x. Doubles know both
only nearly. So each decision is taken in doubles with a bound on all of their errors, and where U lies nearer
to a boundary than that, it is taken again without them: U gets as many further bits from its key, and the
boundaries as many digits, as it takes to see on which side U lies.

    U's first 53 bits, boundaries in doubles ─ further apart than any error? ─▶ decided
                                             └ no: one in many million ─▶ more bits, more digits ─▶ decided

The result is a function of the key and of the exact numbers alone, so it does not matter where doubles gave
up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from hdpview.privacy.randomness import Bounds, Uniform

_FIRST_DIGITS = 40  # to which boundaries are looked at when doubles do not tell
_FAR = 1_000_000  # beyond, e^−x is less than any number of digits in use can show

# from a number of digits to (at least, at most) of each boundary
Boundaries = Callable[[int], Sequence[Bounds]]


def choose(scores: NDArray[np.float64], rate: Fraction, uniform: Uniform, prior: NDArray[np.float64]) -> int:
    """The exponential mechanism: i is drawn with probability ∝ prior_i · exp(rate · score_i), exactly. [P15]

    Args:
        scores: shape (n,), each taken for the dyadic rational that a double is. They are what one record may
            move by their sensitivity at most, as they stand: see `privacy/exact.py`.
        rate: ε/2Δ, for a sensitivity of Δ.
        uniform: decides.
        prior: shape (n,), public and positive.
    """
    chosen = _choose_in_doubles(scores, float(rate), prior, uniform.first)
    if chosen is not None:
        return chosen
    exact = [Fraction(score) for score in scores.tolist()]
    return choose_exactly(exact, rate, [Fraction(weight) for weight in prior.tolist()], uniform)


def choose_exactly(
    scores: Sequence[Fraction], rate: Fraction, prior: Sequence[Fraction], uniform: Uniform
) -> int:
    """As `choose`, by as many digits as it takes."""
    most = max(scores)

    def boundaries(digits: int) -> list[Bounds]:
        weights = [
            (weight * low, weight * high)
            for weight, (low, high) in zip(
                prior, (exp_bounds(rate * (most - score), digits) for score in scores), strict=True
            )
        ]
        lows, highs = (list(accumulate(side)) for side in zip(*weights, strict=True))
        return [
            (low / (low + highs[-1] - high), high / (high + lows[-1] - low))
            for low, high in zip(lows[:-1], highs[:-1], strict=True)
        ]

    return n_boundaries_up_to(uniform, boundaries)


def _choose_in_doubles(
    scores: NDArray[np.float64], rate: float, prior: NDArray[np.float64], uniform: float
) -> int | None:
    """The choice where doubles can tell, else None."""
    exponents = rate * (scores - scores.max())
    weights = prior * np.exp(exponents)
    running = np.cumsum(weights)
    # A rounded exponent x changes its weight by a few |x| units in the last place, exp, product and sum by a
    # few more; and the number itself lies up to 2⁻⁵³ above its first bits.
    error = 2.0**-53 * (16 * (weights * (1 - exponents)).sum() + 4 * len(scores) * running[-1])
    near = int(np.searchsorted(running[:-1], uniform * running[-1] - error, side="right"))
    is_last = near == len(scores) - 1
    return near if is_last or running[near] > uniform * running[-1] + error else None


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
    """e^−x for x ≥ 0, at least and at most: about so many digits of it are known.

    `decimal` rounds quotients and exponentials correctly. A quotient off by a relative 10^−p changes e^−x by
    a relative x·10^−p; twenty digits more than are asked for leave room for that.
    """
    if x == 0:
        return Fraction(1), Fraction(1)
    if x > _FAR:
        return Fraction(0), Fraction(1, 10**digits)
    precise = Context(prec=digits + 20)
    quotient = precise.divide(Decimal(x.numerator), Decimal(x.denominator))
    near = Fraction(precise.exp(precise.minus(quotient)))
    error = near * Fraction(1, 10**digits)
    return near - error, near + error
