"""A private directory for data that does not fit in memory, deleted when the work is done.

A killed process cannot clean up. So each directory holds a lock that the system releases when its process
ends, and later processes remove unlocked directories.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a Unix system: nothing is swept there
    fcntl = None  # type: ignore[assignment]

_PREFIX = "hdpview-"
_LOCK = "in-use"


@contextmanager
def private_directory() -> Iterator[Path]:
    """A new directory with mode 0700, removed at the end."""
    _sweep()
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))  # mode 0700
    try:
        with _locked(directory / _LOCK):
            yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    unseen = path.with_suffix(".new")  # renamed once locked, so that no process sees it unlocked
    handle = os.open(unseen, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX)
        unseen.rename(path)
        yield
    finally:
        os.close(handle)


def _sweep() -> None:
    """Remove directories of this user's killed processes, because they may hold rows of a table."""
    if fcntl is None:
        return
    for lock in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_LOCK}"):
        directory = lock.parent
        # It belongs to another user, is in use, or is already gone.
        with contextlib.suppress(OSError):
            if directory.stat().st_uid == os.getuid() and not directory.is_symlink():
                with lock.open("r+b") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(directory, ignore_errors=True)
