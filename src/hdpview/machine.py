"""What this machine offers."""

from __future__ import annotations

import os

LOOPBACK_ADDRESSES = ("127.0.0.1", "localhost", "::1")  # that nobody beyond this machine can reach


def available_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
