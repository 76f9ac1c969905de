"""A view that was paid for is not lost: a place before anything is spent, another where that fails."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hdpview.errors import ViewFileError
from hdpview.view.file import check_place

LEAST_FREE_BYTES = 8_000_000  # more than the views of most tables take
SAVED_ELSEWHERE = 3  # exit code


class Saver:
    """Writes the view of one build to its place, and remembers the charge that paid for it."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.receipt: Any = None

    def keep(self, receipt: Any) -> None:
        """Remember the receipt of the charge that pays for the view (`privacy.ledger.Receipt`)."""
        self.receipt = receipt

    def check(self, force: bool) -> None:
        """Refuse a place that a view cannot be written to, before anything is spent."""
        check_place(self.target)
        if self.target.exists() and not force:
            raise ViewFileError(
                f"{str(self.target)!r} is there already, and budget was paid for it. Name another "
                "file, or add --force to write over it."
            )
        if shutil.disk_usage(self.target.resolve().parent).free < LEAST_FREE_BYTES:
            raise ViewFileError(
                f"Less than {LEAST_FREE_BYTES // 1_000_000} MB are free where {str(self.target)!r} is to go. "
                "Nothing was spent. Free some space, or name a file on another disk."
            )

    def save(self, view: Any) -> str | None:
        """Write the view and name it in its charge; Ctrl-C waits until it is written. Where that fails, write
        it elsewhere, and return a sentence that says where.
        """
        with _interrupts_wait():
            try:
                view.save(self.target)
            except ViewFileError as problem:
                return self._save_elsewhere(view, problem)
            if self.receipt is not None:
                self.receipt.name_view(str(self.target))
        return None

    def _save_elsewhere(self, view: Any, problem: ViewFileError) -> str:
        for folder in (Path(tempfile.gettempdir()), Path.home(), Path.cwd()):
            try:
                handle, name = tempfile.mkstemp(".pview", f"{self.target.stem}-", folder)
                os.close(handle)
                view.save(name)
            except OSError:
                continue
            except ViewFileError:
                Path(name).unlink(missing_ok=True)
                continue
            if self.receipt is not None:
                self.receipt.name_view(name)
            return f"{problem} The view is safe in {name}: move it. {self._spent()}"
        if self.receipt is not None:
            self.receipt.lose_view()
        raise ViewFileError(
            f"{problem} Nor could it be written anywhere else: the view is lost. {self._spent()}"
        )

    def _spent(self) -> str:
        if self.receipt is None:
            return "Its budget is spent."
        paid = self.receipt
        return f"Epsilon {float(paid.epsilon):g} is spent on {paid.table!r}, as {paid.ledger.path} says."


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Hold Ctrl-C back until the work is done. It reaches the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
