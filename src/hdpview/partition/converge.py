"""Random converge: stop cutting a block or go on, with noise whose scale does not grow with depth."""

from __future__ import annotations

import math

from hdpview.partition.jitted import unmanaged

# Relative rounding error of the arithmetic below, rounded up: a few tens of units in the last place.
_ROUNDING = 2.0**-48
# Smallest probability distinguished from 0; below it, products of doubles underflow.
_LEAST_PROBABILITY = 1e-300


@unmanaged
def converges(deviation, depth, noise_scale, bias_per_level, threshold, floor, uniform, error):  # type: ignore[no-untyped-def]
    """1 if biased deviation + Laplace noise ≤ threshold, else 0; −1 if doubles cannot settle it. [P4]

    Decides whether a uniform number lies below the Laplace distribution function at (threshold − biased
    deviation). `uniform` holds its first 53 bits; `error` bounds the error of the deviation.
    """
    biased = max(floor, deviation - depth * bias_per_level)
    distance = (threshold - biased) / noise_scale
    size = abs(deviation) + depth * bias_per_level + abs(floor) + threshold
    slack = (error + _ROUNDING * size) / noise_scale
    if uniform + 2.0**-53 <= laplace_cdf(distance - slack) * (1.0 - _ROUNDING):  # [P15]
        return 1
    above = laplace_cdf(distance + slack) * (1.0 + _ROUNDING) + _LEAST_PROBABILITY
    return 0 if uniform >= above else -1  # [P15]


@unmanaged
def laplace_cdf(distance):  # type: ignore[no-untyped-def]
    """Distribution function of the Laplace distribution with scale 1."""
    return 1.0 - 0.5 * math.exp(-distance) if distance >= 0 else 0.5 * math.exp(distance)
