"""Keep outcomes of draws on disk, so that an interrupted build can be finished without paying again.

The file lies beside the ledger and holds only released numbers: noisy tables, choices, public seeds. It
begins with an order: the public facts that determine what is drawn. A later build with the same order reads
these outcomes and draws only what is missing. The file is removed once the result has been written.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpview._version import __version__
from hdpview.errors import BudgetError
from hdpview.privacy.mechanism import Outcomes


class Checkpoint(Outcomes):
    """The outcomes of one charge. If the file cannot be opened, nothing is charged and nothing is drawn
    twice. A draw that cannot be kept ends the build, before anybody has seen it; a later one draws anew.
    """

    def __init__(self, path: Path, order: dict[str, Any], *, resume: bool = False) -> None:
        super().__init__()
        self.path, first = path, _first_line(order)
        self._file: int | None = None
        try:
            if not resume:
                # Left over from a charge with this number that was never recorded.
                path.unlink(missing_ok=True)
            self._file = os.open(path, os.O_RDWR | (0 if resume else os.O_CREAT | os.O_EXCL), 0o600)
            _lock(self._file)
            if resume:
                self._read(len(first))
            else:
                self._append(first)
        except OSError as problem:
            self.close(remove=False)
            if isinstance(problem, BlockingIOError):
                raise BudgetError("That is still running. Wait for it to end.") from None
            raise BudgetError(
                f"Cannot use {str(path)!r}, which stores draws until the view is written: "
                f"{problem.strerror or problem}. Nothing more was spent."
            ) from None

    def keep(self, purpose: str, terms: str, arrays: list[NDArray[Any]]) -> None:
        record = io.BytesIO()
        record.write(_line({"purpose": purpose, "terms": terms, "n_arrays": len(arrays)}))
        for array in arrays:
            np.save(record, array, allow_pickle=False)
        try:
            self._append(record.getvalue())
        except OSError as problem:
            raise BudgetError(
                f"Cannot write {str(self.path)!r} ({problem.strerror}), which stores the draws. Free some "
                "space, and finish with --resume (resume=True)."
            ) from None
        super().keep(purpose, terms, arrays)

    def sync(self) -> None:
        """Return when everything is on disk."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.fsync(self._file)

    def close(self, *, remove: bool) -> None:
        """Close the file; remove it if nothing is left to resume."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if remove:
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)

    def _append(self, data: bytes) -> None:
        if self._file is not None and os.write(self._file, data) < len(data):
            raise OSError(28, "no space left on the disk")

    def _read(self, at: int) -> None:
        """Read all complete records. A last record that a killed process left incomplete is cut off."""
        assert self._file is not None
        with self.path.open("rb") as file, contextlib.suppress(ValueError, EOFError):
            file.seek(at)
            while True:
                record = json.loads(file.readline())
                arrays = [np.load(file, allow_pickle=False) for _ in range(record["n_arrays"])]
                super().keep(record["purpose"], record["terms"], arrays)
                at = file.tell()
        self._unread = set(self._known)
        os.ftruncate(self._file, at)
        os.lseek(self._file, at, os.SEEK_SET)


def is_of(path: Path, order: dict[str, Any]) -> bool:
    """Whether a file holds outcomes for this order."""
    first = _first_line(order)
    with contextlib.suppress(OSError), path.open("rb") as file:
        return file.read(len(first)) == first
    return False


def _lock(file: int) -> None:
    """Lock a file until it is closed or the process ends. Raises an OSError if another process holds it."""
    # Windows has no such locks: nothing stops two processes from resuming one build.
    with contextlib.suppress(ImportError):
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _first_line(order: dict[str, Any]) -> bytes:
    """The paid order, and the version of hdpview, because another version might draw differently."""
    return _line({"order": order, "version": __version__})


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True).encode() + b"\n"
