"""How many expected errors an interval reaches to either side."""

from __future__ import annotations

import math
from functools import lru_cache

# Of a Student distribution with 5 degrees of freedom: 2.13 at 95 %, with room for surprises beyond.
_TAIL_SCALE = 0.83


@lru_cache(maxsize=64)
def typical_tail(confidence: float) -> float:
    """How many expected errors the typical interval reaches to either side."""
    low, high = 0.0, 1e3
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (middle, high) if _student_5(middle) < confidence else (low, middle)
    return _TAIL_SCALE * high


def _student_5(t: float) -> float:
    """P(|T| ≤ t) for Student's distribution with 5 degrees of freedom."""
    angle = math.atan(t / math.sqrt(5))
    return 2 / math.pi * (angle + math.sin(angle) * math.cos(angle) * (1 + 2 / 3 * math.cos(angle) ** 2))
