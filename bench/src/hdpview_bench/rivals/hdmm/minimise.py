"""A small quasi-Newton minimiser (L-BFGS) for smooth functions of many variables without bounds."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_MEMORY, _SUFFICIENT_DECREASE, _MOST_HALVINGS = 10, 1e-4, 30
_LONGEST_STEP = 1.0  # in any one variable


def minimise(
    value_and_slope: Callable[[Floats], tuple[float, Floats]],
    start: Floats,
    most_steps: int,
    tolerance: float = 1e-7,
) -> Floats:
    """A point with a lower value than the start, near a minimum. Stops when a step gains less than
    `tolerance` of the value.

    Where the function has no value it returns infinity: no step goes there.
    """
    point = start
    value, slope = value_and_slope(point)
    steps: deque[tuple[Floats, Floats]] = deque(maxlen=_MEMORY)
    for _ in range(most_steps):
        direction = -_newton(slope, steps)
        descent = float(direction @ slope)
        if descent >= 0:  # the memory misleads: begin anew
            steps.clear()
            direction, descent = -slope, -float(slope @ slope)
        length = 1.0 if steps else min(1.0, 1.0 / max(1e-300, float(np.abs(slope).sum())))
        length = min(length, _LONGEST_STEP / max(1e-300, float(np.abs(direction).max(initial=0.0))))
        for _halving in range(_MOST_HALVINGS):
            candidate = point + length * direction
            new_value, new_slope = value_and_slope(candidate)
            if new_value <= value + _SUFFICIENT_DECREASE * length * descent:
                break
            length /= 2
        else:
            return point
        step, change = candidate - point, new_slope - slope
        if step @ change > 1e-12 * np.linalg.norm(step) * np.linalg.norm(change):
            steps.append((step, change))
        gain, scale = value - new_value, max(abs(value), abs(new_value), 1e-12)
        point, value, slope = candidate, new_value, new_slope
        if gain < tolerance * scale:
            return point
    return point


def _newton(slope: Floats, steps: deque[tuple[Floats, Floats]]) -> Floats:
    """The slope times an estimated inverse second derivative from past steps (two-loop recursion)."""
    found, kept = slope.copy(), []
    for step, change in reversed(steps):
        share = (step @ found) / (step @ change)
        kept.append(share)
        found -= share * change
    if steps:
        step, change = steps[-1]
        found *= (step @ change) / (change @ change)
    for (step, change), share in zip(steps, reversed(kept), strict=True):
        found += (share - (change @ found) / (step @ change)) * step
    return found
