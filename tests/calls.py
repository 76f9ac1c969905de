"""Work counted in calls of functions: the same on any machine, however busy it is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def n_calls(work: Callable[[], object]) -> int:
    """How many calls, of functions in Python or C, it takes."""
    found = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return found
