"""Facts about this machine."""

from __future__ import annotations

import os

LOOPBACK_ADDRESSES = ("127.0.0.1", "localhost", "::1")  # reachable from this machine only


def available_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
