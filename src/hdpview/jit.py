"""Numba, with a cache of compiled kernels that notices every change of the functions they call.

Numba recompiles a kernel when its own file changes, but not when a function that it calls in another file
does, so a fix would not take effect. Here the stamp of each kernel is a hash of all sources that hold
kernels. Numba still chooses where to keep the cache (NUMBA_CACHE_DIR), and other packages are not affected.
Modules with kernels import it as `from hdpview.jit import numba as nb`; the name of this module marks them.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CacheImpl

_PACKAGE = Path(__file__).parent
_LOCATORS = tuple(CacheImpl._locator_classes)


def holds_kernels(source: bytes) -> bool:
    """True for sources that mention this module, or `partition/jitted.py`, which wraps it."""
    return b"jit" in source


@cache
def state_of_sources(package: Path = _PACKAGE) -> str:
    """A hash of the names and contents of all sources that hold kernels."""
    digest = hashlib.blake2b(digest_size=16)
    for file in sorted(package.rglob("*.py")):
        source = file.read_bytes()
        if holds_kernels(source):
            digest.update(f"{file.relative_to(package)}\0{len(source)}\0".encode() + source)
    return digest.hexdigest()


class PackageLocator:
    """Numba's locator for kernels of this package, stamped with the state of their sources."""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """Called by Numba; None leaves the function to the next locator."""
        # A package in a zip file is one file, which Numba checks itself.
        if not (_PACKAGE.is_dir() and Path(py_file).is_relative_to(_PACKAGE)):
            return None
        locator = next(filter(None, (each.from_function(py_func, py_file) for each in _LOCATORS)), None)
        if locator is not None:
            locator.get_source_stamp = state_of_sources
        return locator


CacheImpl._locator_classes = [PackageLocator, *_LOCATORS]

__all__ = ["numba"]
