"""What all suites share: where compiled kernels are kept, and how properties are tried."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import settings

# Beside the sources: a cache of the tests' own, that no other checkout writes to.
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parent / ".cache" / "numba"))

# Properties are checked on the same examples each time, so that a change is judged by what it changed; `make
# hunt` looks for new ones.
settings.register_profile("repeatable", derandomize=True)
settings.register_profile("hunt", derandomize=False, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
