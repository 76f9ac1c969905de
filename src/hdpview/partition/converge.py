"""Random converge: whether a block is cut further, decided with noise whose scale does not depend on the
depth.
"""

from __future__ import annotations

import math

from hdpview.partition.kernels import unmanaged


@unmanaged
def converges(deviation, depth, noise_scale, bias_per_level, threshold, floor, uniform):  # type: ignore[no-untyped-def]
    """Whether biased deviation + Laplace noise ≤ threshold. [P4]

    One uniform draw below the Laplace distribution's value at (threshold − biased deviation) is that same
    event.
    """
    biased = max(floor, deviation - depth * bias_per_level)
    distance = (threshold - biased) / noise_scale
    chance = 1.0 - 0.5 * math.exp(-distance) if distance >= 0 else 0.5 * math.exp(distance)
    return uniform < chance
