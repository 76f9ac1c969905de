"""What all suites share: where compiled kernels are kept, and how properties are tried."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from hypothesis import settings

# Numba caches a kernel by its own file's age and misses changes in the kernels it calls: one cache per state
# of the sources.
_ROOT = Path(__file__).parent
_SOURCES = sorted(path for folder in ("src", "bench/src") for path in (_ROOT / folder).rglob("*.py"))
_STATE = hashlib.blake2b(b"".join(path.read_bytes() for path in _SOURCES), digest_size=8).hexdigest()
os.environ.setdefault("NUMBA_CACHE_DIR", str(_ROOT / ".cache" / f"numba-{_STATE}"))

# Properties are checked on the same examples each time, so that a change is judged by what it changed; `make
# hunt` looks for new ones.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("hunt", derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
