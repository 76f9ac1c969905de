"""The paper's parameters and their names here. Elsewhere Greek letters occur only in formulas and comments.

paper          code                      unit
ε_b, ε_r, ε_p  epsilon, epsilon_partition, epsilon_counts
ratio          partition_share           ε_r / ε_b
γ              converge_share            share of ε_r for random converge
ε_cut          epsilon_cut               budget of one private cut
β, κ           cut_levels_factor, n_private_cut_levels     κ = ⌊β · log₂ |dom|⌋ levels
α              bias_ratio                ln α = δ / λ
λ              converge_noise_scale      records
δ              converge_bias_per_level   records
θ              converge_threshold        records, 1 / ε_p
AE(B)          absolute_deviation        records, summed over the cells of a block
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from hdpview.errors import MethodError
from hdpview.privacy.choice import exp_bounds

# Decimal digits of the bounds of e^{−δ/λ}; doubles have 16.
_DIGITS = 40


@dataclass(frozen=True)
class PartitionSettings:
    """Settings of the curator, with the paper's defaults."""

    partition_share: float = 0.9
    converge_share: float = 0.9
    cut_levels_factor: float = 1.2
    bias_ratio: float = 1.6

    def __post_init__(self) -> None:
        for name in ("partition_share", "converge_share"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not 0 < value < 1:
                raise MethodError(f"{name} must lie between 0 and 1, not {value!r}.")
        levels, ratio = self.cut_levels_factor, self.bias_ratio
        if not isinstance(levels, (int, float)) or not 0 < levels <= 100:
            raise MethodError(f"cut_levels_factor must lie between 0 and 100, not {levels!r}.")
        if not isinstance(ratio, (int, float)) or not 1 < ratio <= 1e6:
            raise MethodError(f"bias_ratio must be greater than 1, not {ratio!r}.")


@dataclass(frozen=True)
class PartitionParameters:
    """All parameters of growing a partition, from public quantities. Budgets are exact fractions."""

    epsilon_counts: Fraction
    epsilon_converge: Fraction
    epsilon_cut: Fraction
    n_private_cut_levels: int
    converge_noise_scale: float
    converge_bias_per_level: float
    converge_threshold: float

    @classmethod
    def choose(cls, settings: PartitionSettings, epsilon: Fraction, n_cells: int) -> PartitionParameters:
        """Split a budget over a domain of `n_cells` cells as the paper does."""
        epsilon_partition = Fraction(str(settings.partition_share)) * epsilon
        epsilon_converge = Fraction(str(settings.converge_share)) * epsilon_partition
        n_levels = max(1, math.floor(settings.cut_levels_factor * math.log2(n_cells)))
        noise_scale, bias = _converge_numbers(settings.bias_ratio, epsilon_converge)
        return cls(
            epsilon_counts=epsilon - epsilon_partition,
            epsilon_converge=epsilon_converge,
            epsilon_cut=(epsilon_partition - epsilon_converge) / n_levels,  # [P3]
            n_private_cut_levels=n_levels,
            converge_noise_scale=noise_scale,
            converge_bias_per_level=bias,
            converge_threshold=float(1 / (epsilon - epsilon_partition)),
        )

    @property
    def numbers(self) -> tuple[float, int, float, float, float, float]:
        """The parameters in the order in which the loop takes them."""
        return (
            float(self.epsilon_cut),
            self.n_private_cut_levels,
            self.converge_noise_scale,
            self.converge_bias_per_level,
            self.converge_threshold,
            self.converge_floor,
        )

    @property
    def converge_floor(self) -> float:
        """The least biased deviation of a block: θ + 2 − δ, rounded up. [P4]"""
        exact = Fraction(self.converge_threshold) + 2 - Fraction(self.converge_bias_per_level)
        floor = self.converge_threshold + 2 - self.converge_bias_per_level
        while Fraction(floor) < exact:
            floor = math.nextafter(floor, math.inf)
        return floor

    def converge_loss(self) -> Fraction:
        """Privacy loss of random converge with exactly these numbers, rounded up. [P4]"""
        return _converge_loss(self.converge_noise_scale, self.converge_bias_per_level)

    @property
    def chance_to_stop_when_empty(self) -> float:
        """Probability that a block at the floor converges. At ½ or below, empty blocks split forever."""
        distance = (self.converge_threshold - self.converge_floor) / self.converge_noise_scale
        return 1 - math.exp(-distance) / 2 if distance >= 0 else math.exp(distance) / 2


def _converge_numbers(ratio: float, epsilon: Fraction) -> tuple[float, float]:
    """λ and δ = λ·ln α as doubles, rounded up until their loss is at most ε. [P4]"""
    scale = (3 * ratio - 2) / (ratio - 1) * 2 / float(epsilon)
    bias = scale * math.log(ratio)
    while _converge_loss(scale, bias) > epsilon:
        scale, bias = math.nextafter(scale, math.inf), math.nextafter(bias, math.inf)
    return scale, bias


def _converge_loss(scale: float, bias: float) -> Fraction:
    """(2/λ)·(1/(1 − e^{−δ/λ}) + 2), rounded up. [P4]"""
    _, exp_at_most = exp_bounds(Fraction(bias) / Fraction(scale), _DIGITS)
    return 2 / Fraction(scale) * (1 / (1 - exp_at_most) + 2)
