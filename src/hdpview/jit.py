"""Numba, with a cache of compiled kernels that notices every change of what they may call.

Numba keeps a compiled kernel until the file of that kernel changes. It does not see changes of the functions
that the kernel calls: a correction in one file would not run where another file's kernel was compiled before.
So the age of each of our kernels is that of all rooms that may hold kernels: a hash of their sources. Where
caches are kept stays Numba's own choice, NUMBA_CACHE_DIR included; kernels of other packages are not touched.

Every module with kernels writes `from hdpview.jit import numba as nb`.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import CacheImpl

_PACKAGE = Path(__file__).parent
# Rooms that no kernel lies in or calls: a change there leaves compiled kernels as they are.
WITHOUT_KERNELS = frozenset({"audit", "cli", "curate", "demo", "explore", "query"})
_LOCATORS = tuple(CacheImpl._locator_classes)


@cache
def state_of_sources(package: Path = _PACKAGE) -> str:
    """A hash of all sources that kernels may lie in, their names included."""
    digest = hashlib.blake2b(digest_size=16)
    for file in sorted(package.rglob("*.py")):
        name = file.relative_to(package)
        if name.parts[0] in WITHOUT_KERNELS:
            continue
        digest.update(f"{name}\0{file.stat().st_size}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


class PackageLocator:
    """Where Numba would keep a kernel of this package, with the state of its sources for its age."""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        """Numba asks each locator in turn; None leaves the function to the next one."""
        # A package in a zip file is one file, whose age Numba looks at itself.
        if not (_PACKAGE.is_dir() and Path(py_file).is_relative_to(_PACKAGE)):
            return None
        found = next(filter(None, (each.from_function(py_func, py_file) for each in _LOCATORS)), None)
        if found is not None:
            found.get_source_stamp = state_of_sources
        return found


CacheImpl._locator_classes = [PackageLocator, *_LOCATORS]

__all__ = ["numba"]
