"""Random converge: whether a block is cut further, with noise whose scale does not grow with depth."""

from __future__ import annotations

import math

from hdpview.partition.kernels import unmanaged

_ROUNDING = 2.0**-48  # relative, of all that is computed here: some tens of units in the last place


@unmanaged
def converges(deviation, depth, noise_scale, bias_per_level, threshold, floor, uniform, error):  # type: ignore[no-untyped-def]
    """Whether biased deviation + Laplace noise ≤ threshold: 1 or 0; −1 where doubles cannot tell. [P4]

    A uniform number below the Laplace distribution's value at (threshold − biased deviation) is that same
    event. `uniform` holds its first 53 bits; `error` bounds how far off the deviation may be.
    """
    biased = max(floor, deviation - depth * bias_per_level)
    distance = (threshold - biased) / noise_scale
    size = abs(deviation) + depth * bias_per_level + abs(floor) + threshold
    slack = (error + _ROUNDING * size) / noise_scale
    if uniform + 2.0**-53 <= laplace_cdf(distance - slack) * (1.0 - _ROUNDING):  # [P15]
        return 1
    # the least double is for chances too small for any
    return 0 if uniform >= laplace_cdf(distance + slack) * (1.0 + _ROUNDING) + 1e-300 else -1  # [P15]


@unmanaged
def laplace_cdf(distance):  # type: ignore[no-untyped-def]
    """Of the Laplace distribution with scale 1."""
    return 1.0 - 0.5 * math.exp(-distance) if distance >= 0 else 0.5 * math.exp(distance)
