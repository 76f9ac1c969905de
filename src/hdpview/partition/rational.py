"""Decisions about a block in exact rational arithmetic, for the few that doubles cannot settle. [P15]

Statistics of a block are whole numbers, so deviations and rates are fractions. A uniform number is compared
with a probability that is computed to as many digits as needed. Slow, but needed about once in many million
decisions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hdpview.partition.parameters import PartitionParameters
from hdpview.privacy.choice import choose, exp_bounds, is_below, n_boundaries_up_to
from hdpview.privacy.randomness import Bounds, Uniform


@dataclass(frozen=True, eq=False, repr=False)
class ExactSides:
    """Both sides of one cut.

    n_cells, exact_sums: cells and records of the left and of the right side.
    exact_n_above: per side, the cells with a count above its mean. exact_sum_above: the records in all of
        them.
    """

    n_cells: tuple[int, int]
    exact_sums: tuple[int, int]
    exact_n_above: tuple[int, int]
    exact_sum_above: int

    @property
    def exact_deviation(self) -> Fraction:
        """AE_L + AE_R."""
        sides = zip(self.exact_n_above, self.exact_sums, self.n_cells, strict=True)
        means = sum((n * Fraction(total, cells) for n, total, cells in sides), Fraction(0))
        return 2 * (self.exact_sum_above - means)


def n_cells_of(lower: NDArray[np.int32], upper: NDArray[np.int32]) -> int:
    """Number of cells of a block, exactly."""
    return math.prod((upper - lower).tolist())


def deviation(exact_total: int, exact_n_above: int, exact_sum_above: int, n_cells: int) -> Fraction:
    """AE of a block from the number and the sum of the cells above its mean."""
    return 2 * (exact_sum_above - exact_n_above * Fraction(exact_total, n_cells))


def converges(
    exact_deviation: Fraction, depth: int, parameters: PartitionParameters, uniform: Uniform
) -> bool:
    """`converge.converges` without rounding. [P4]"""
    bias, scale = Fraction(parameters.converge_bias_per_level), Fraction(parameters.converge_noise_scale)
    biased = max(Fraction(parameters.converge_floor), exact_deviation - depth * bias)
    distance = (Fraction(parameters.converge_threshold) - biased) / scale

    def probability(digits: int) -> Bounds:
        low, high = exp_bounds(abs(distance), digits)
        return (1 - high / 2, 1 - low / 2) if distance >= 0 else (low / 2, high / 2)

    return is_below(uniform, probability)


def rate_of_cuts(parameters: PartitionParameters, n_cells: int) -> Fraction:
    """ε_cut / 2Δ with Δ = 4(1 − 1/|B|). [P3]"""
    return parameters.epsilon_cut * Fraction(n_cells, 8 * (n_cells - 1))


def cut_by_inversion(exact_sides: Sequence[ExactSides], rate: Fraction, uniform: Uniform) -> int:
    """`cut.by_inversion` without rounding: the number of the cut. [P3]"""
    scores = [-sides.exact_deviation for sides in exact_sides]
    return choose(scores, rate, [Fraction(1)] * len(scores), uniform)


def proposed(n_cuts: int, uniform: Uniform) -> int:
    """The number of a cut drawn uniformly, as in `cut.propose`."""
    boundaries = [(Fraction(i, n_cuts), Fraction(i, n_cuts)) for i in range(1, n_cuts)]
    return n_boundaries_up_to(uniform, lambda _: boundaries)


def accepts(exact_sides: ExactSides, exact_most_gain: Fraction, rate: Fraction, uniform: Uniform) -> bool:
    """`cut.accepts` without rounding. [P3]"""
    gain = 2 * sum(exact_sides.exact_sums) - exact_sides.exact_deviation
    return is_below(uniform, lambda digits: exp_bounds(rate * (exact_most_gain - gain), digits))
