"""Release a count again with less noise, for the difference of the two budgets. [P17]

Discrete Laplace noise of rate ε₁ is discrete Laplace noise of a larger rate ε₂ plus an independent
variable w, which is 0 with probability A and otherwise discrete Laplace of rate ε₁:

    a = e^−ε,  P_a(k) = (1 − a)/(1 + a) · a^|k|,  P_a₁ = P_a₂ ∗ (A·δ₀ + (1 − A)·P_a₁)
    A = a₂(1 − a₁)² / (a₁(1 − a₂)²)

So the old release could have been made from the new one by adding w, and both together cost ε₂. The table
gives the old noise z₁, and the new noise z₂ is drawn from its law given z₁. With z = |z₁| that law has four
pieces: a point at z, and geometric tails on either side of a truncated geometric middle.

         0             z
    ◀────┼─────────────┼────▶
    left │    middle   │ right        z₂ is found by inverting the distribution function

As in `choice`, doubles decide where they can, and exact rationals where they cannot.
"""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hdpview.privacy.choice import exp_bounds, is_below
from hdpview.privacy.randomness import Bounds, Uniform, draw_many

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
# Rounding errors of one value of the distribution function, in units of the last place: about thirty
# operations, and per unit of an exponent one more.
_ROUNDING_UNITS = 64
_UNIT = 2.0**-53
_WHOLE_NUMBERS = range(-(2**61), 2**61)  # far beyond any noise


def finer_noise(coarse: Integers, rate: Fraction, finer_rate: Fraction, key: NDArray[np.uint32]) -> Integers:
    """Draw noise of rate `finer_rate`, exactly, given that the noise of rate `rate` was `coarse`. [P17]

    Args:
        coarse: the noise of the old release, shape (n,).
        rate: 1/scale of that noise.
        finer_rate: 1/scale of the new noise, larger.
        key: of a stream that is used for nothing else; draw i decides entry i.

    Returns:
        The noise of the new release, shape (n,).
    """
    if not 0 < rate < finer_rate:
        raise ValueError("the finer noise needs the larger rate")
    law = _Law(float(rate), float(finer_rate - rate), float(finer_rate + rate))
    uniform = np.empty(len(coarse))
    draw_many(key, 0, uniform)
    distance = np.abs(coarse).astype(np.float64)
    near = law.inverse(distance, uniform)
    noise = near.astype(np.int64)
    for i in np.flatnonzero(~law.is_certain(distance, near, uniform)).tolist():
        noise[i] = _exact_inverse(int(distance[i]), rate, finer_rate, Uniform(key, i))
    return np.where(coarse < 0, -noise, noise)


class _Law:
    """The distribution of the finer noise given a coarser one at z ≥ 0, in doubles.

    Masses are divided by e^(−rate·z), so that none underflows: `left`, `middle(k)` for 0 … k, `stay` at z,
    `right`.
    """

    def __init__(self, rate: float, gap: float, both: float) -> None:
        self.rate, self.gap, self.both = rate, gap, both
        self.ratio = -np.expm1(-both)  # 1 − a₁a₂
        self.tail = np.exp(-both) / self.ratio
        # A·(1 + a₁)/((1 − A)·(1 − a₁)), with A/(1 − A) = a₂(1 − a₁)²/((a₁ − a₂)(1 − a₁a₂)).
        self.point = np.exp(-gap) * np.expm1(-2 * rate) / (np.expm1(-gap) * self.ratio)

    def total(self, z: Floats) -> Floats:
        return np.asarray(self.tail + self._middle(z, z) + np.exp(-self.gap * z) * (self.point + self.tail))

    def _middle(self, k: Floats, z: Floats) -> Floats:
        """Mass of 0 … k for k ≤ z, without the point at z."""
        return np.asarray(np.expm1(-self.gap * (np.minimum(k, z) + 1)) / np.expm1(-self.gap))

    def upto(self, k: Floats, z: Floats) -> Floats:
        """P(finer noise ≤ k)."""
        below = self.tail * np.exp(self.both * np.minimum(k + 1, 0))
        within = self.tail + self._middle(np.maximum(k, 0), z)
        end = np.exp(-self.gap * z)
        beyond = self.total(z) - end * self.tail * np.exp(-self.both * np.maximum(k - z, 0))
        mass = np.where(k < 0, below, np.where(k < z, within, beyond))
        return np.asarray(mass / self.total(z))

    def inverse(self, z: Floats, uniform: Floats) -> Floats:
        """The least k with P(finer noise ≤ k) > uniform, up to rounding, from the piece that contains it."""
        mass = uniform * self.total(z)
        with np.errstate(all="ignore"):
            left = np.floor(np.log(mass / self.tail) / self.both)
            middle = np.floor(np.log1p((mass - self.tail) * np.expm1(-self.gap)) / -self.gap)
            over = self.total(z) - mass
            right = z + np.floor(-np.log(over / (np.exp(-self.gap * z) * self.tail)) / self.both) + 1
        end = self.tail + self._middle(z, z) + np.exp(-self.gap * z) * self.point
        solution = np.where(
            mass < self.tail,
            np.minimum(left, -1.0),
            np.where(mass < end, np.clip(middle, 0, z), np.maximum(right, z + 1)),
        )
        return np.asarray(np.nan_to_num(solution, nan=0.0, posinf=2.0**62, neginf=-(2.0**62)))

    def is_certain(self, z: Floats, k: Floats, uniform: Floats) -> NDArray[np.bool_]:
        """Whether k is certainly the inverse: no boundary lies within the rounding errors of doubles and the
        unknown bits of U.
        """
        size = (self.gap + self.both) * (z + np.abs(k) + 2)
        error = _UNIT * (_ROUNDING_UNITS + 4 * size)
        above = self.upto(k, z) - error > uniform + _UNIT
        below = self.upto(k - 1, z) + error <= uniform
        return np.asarray(above & below)


def _exact_inverse(z: int, rate: Fraction, finer_rate: Fraction, uniform: Uniform) -> int:
    """The least k with P(finer noise ≤ k) > U, by bisection with exact numbers."""

    def exceeds(k: int) -> bool:
        return is_below(uniform, lambda digits: _exact_upto(k, z, rate, finer_rate, digits))

    return _WHOLE_NUMBERS[bisect_left(_WHOLE_NUMBERS, True, key=exceeds)]


def _exact_upto(k: int, z: int, rate: Fraction, finer_rate: Fraction, digits: int) -> Bounds:
    """Lower and upper bounds of P(finer noise ≤ k), given the coarser noise z."""
    gap, both = finer_rate - rate, finer_rate + rate
    r, q = exp_bounds(gap, digits), exp_bounds(both, digits)
    end = exp_bounds(gap * z, digits)
    not_q, not_r, not_a1_squared = (_minus(_ONE, x) for x in (q, r, exp_bounds(2 * rate, digits)))
    tail = _over(q, not_q)
    whole_middle = _over(_minus(_ONE, exp_bounds(gap * (z + 1), digits)), not_r)
    point = _over(_times(r, not_a1_squared), _times(not_r, not_q))
    total = _plus(tail, whole_middle, _times(end, _plus(point, tail)))
    if k < 0:
        mass = _times(tail, exp_bounds(both * -(k + 1), digits))
    elif k < z:
        mass = _plus(tail, _over(_minus(_ONE, exp_bounds(gap * (k + 1), digits)), not_r))
    else:
        mass = _minus(total, _times(end, _times(tail, exp_bounds(both * (k - z), digits))))
    return _over(mass, total)


_ONE: Bounds = (Fraction(1), Fraction(1))


def _plus(*terms: Bounds) -> Bounds:
    return sum((low for low, _ in terms), Fraction(0)), sum((high for _, high in terms), Fraction(0))


def _minus(x: Bounds, y: Bounds) -> Bounds:
    return max(x[0] - y[1], Fraction(0)), x[1] - y[0]


def _times(x: Bounds, y: Bounds) -> Bounds:
    return x[0] * y[0], x[1] * y[1]


def _over(x: Bounds, y: Bounds) -> Bounds:
    """Bounds of x/y for positive numbers; the upper one is infinite if the lower bound of y is 0."""
    return x[0] / y[1], x[1] / y[0] if y[0] else Fraction(10**30)
