"""Outcomes on the disk, so that work that was paid for and breaks off is finished without paying again.

The file lies beside the ledger and holds released numbers alone: noisy tables, choices, public seeds. It
begins with an order, the public facts that decide what is drawn. Work of the same order finds its outcomes
there and draws only what is missing. The file goes when what was paid for has been written.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpview.errors import BudgetError
from hdpview.privacy.mechanism import Outcomes

_log = logging.getLogger("hdpview")


class Checkpoint(Outcomes):
    """The outcomes of one charge. A file that cannot be written costs the chance to resume, nothing else."""

    def __init__(self, path: Path, order: dict[str, Any], *, resume: bool = False) -> None:
        super().__init__()
        self.path, first = path, _line({"order": order})
        self._file: int | None = None
        try:
            self._file = os.open(path, os.O_RDWR | (0 if resume else os.O_CREAT | os.O_EXCL), 0o600)
            _lock(self._file)
            if resume:
                self._read(path.read_bytes(), len(first))
            else:
                self._append(first)
        except BlockingIOError:
            self.close(remove=False)
            raise BudgetError("That is still running. Wait for it to end.") from None
        except OSError as problem:
            self._give_up(problem)

    def keep(self, purpose: str, terms: str, arrays: list[NDArray[Any]]) -> None:
        super().keep(purpose, terms, arrays)
        kinds = [(array.dtype.str, array.shape) for array in arrays]
        record = _line({"purpose": purpose, "terms": terms, "arrays": kinds})
        try:
            self._append(record + b"".join(array.tobytes() for array in arrays))
        except OSError as problem:
            self._give_up(problem)

    def sync(self) -> None:
        """Return when all of it is on the disk."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                os.fsync(self._file)

    def close(self, *, remove: bool) -> None:
        """Let go of the file; remove it when nothing is left to be resumed."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if remove:
            with contextlib.suppress(OSError):
                self.path.unlink(missing_ok=True)

    def _append(self, data: bytes) -> None:
        if self._file is not None and os.write(self._file, data) < len(data):
            raise OSError(28, "no space left on the disk")

    def _give_up(self, problem: OSError) -> None:
        _log.warning("Cannot write %s (%s): if this breaks off, it cannot be resumed.", self.path, problem)
        self.close(remove=False)

    def _read(self, data: bytes, at: int) -> None:
        """Take in all whole records. What a dying process wrote of its last one is cut off."""
        while (end := data.find(b"\n", at)) >= 0:
            record = json.loads(data[at:end])
            arrays, start = [], end + 1
            for kind, shape in record["arrays"]:
                dtype = np.dtype(kind)
                stop = start + dtype.itemsize * int(np.prod(shape, dtype=np.int64))
                if stop > len(data) or dtype.hasobject:
                    break
                arrays.append(np.frombuffer(data[start:stop], dtype).reshape(shape).copy())
                start = stop
            if len(arrays) < len(record["arrays"]):
                break
            super().keep(record["purpose"], record["terms"], arrays)
            at = start
        if self._file is not None:
            os.ftruncate(self._file, at)
            os.lseek(self._file, at, os.SEEK_SET)


def is_of(path: Path, order: dict[str, Any]) -> bool:
    """Whether a file holds outcomes of this order."""
    first = _line({"order": order})
    try:
        with path.open("rb") as file:
            return file.read(len(first)) == first
    except OSError:
        return False


def _lock(file: int) -> None:
    """Hold a file until it is closed or the process ends; OSError where another process holds it."""
    try:
        import fcntl
    except ImportError:  # Windows has other locks; two processes then need a person who takes care
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True).encode() + b"\n"
