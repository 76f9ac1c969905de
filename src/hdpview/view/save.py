"""Save a view that was paid for: check the path before spending, and use another if writing fails."""

from __future__ import annotations

import secrets
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

LEAST_FREE_BYTES = 8_000_000  # most views are smaller
SAVED_ELSEWHERE = 3  # exit code


class Saver:
    """Writes the view of one build to `target`, or elsewhere, and links it to the charge that paid for it."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.receipt: Any = None
        self._replaces = False

    def keep(self, receipt: Any) -> None:
        """Remember the receipt of the charge that pays for the view (`privacy.ledger.Receipt`)."""
        self.receipt = receipt

    def check(self, force: bool) -> None:
        """Refuse an unwritable path before anything is spent."""
        check_place(self.target)
        self._replaces = force
        if self.target.exists() and not force:
            raise ViewFileError(
                f"{str(self.target)!r} already exists, and budget was paid for it. Name another "
                "file, or add --force to overwrite it."
            )
        if shutil.disk_usage(self.target.resolve().parent).free < LEAST_FREE_BYTES:
            raise ViewFileError(
                f"Less than {LEAST_FREE_BYTES // 1_000_000} MB are free on the disk of {str(self.target)!r}. "
                "Nothing was spent. Free some space, or name a file on another disk."
            )

    def save(self, view: Any) -> str | None:
        """Write the view and record its path in its charge; Ctrl-C waits until it is written. If that fails,
        write it elsewhere, and return a sentence with the new path.
        """
        moved = None
        with _interrupts_wait():
            try:
                if self.target.exists() and not self._replaces:
                    raise ViewFileError(f"Another build wrote {str(self.target)!r} in the meantime.")
                view.save(self.target)
            except ViewFileError as problem:
                moved = self._save_elsewhere(view, problem)
            if self.receipt is not None:
                self.receipt.name_view(str(self.target))
        return moved

    def _save_elsewhere(self, view: Any, problem: ViewFileError) -> str:
        for folder in (Path(tempfile.gettempdir()), Path.home(), Path.cwd()):
            name = str(folder / f"{self.target.stem}-{secrets.token_hex(4)}.pview")
            try:
                view.save(name)
            except (OSError, ViewFileError):
                continue
            self.target = Path(name)
            return f"{problem} The view was saved as {name}: move it. {self._spent()}"
        if self.receipt is not None:
            self.receipt.lose_view()
        raise ViewFileError(
            f"{problem} It could not be written anywhere else either. {self._spent()} Free some space, and "
            "finish with --resume (resume=True), which charges nothing more."
        )

    def _spent(self) -> str:
        if self.receipt is None:
            return "Its budget is spent."
        paid = self.receipt
        return f"Epsilon {float(paid.epsilon):g} is spent on {paid.table!r} (ledger {paid.ledger.path})."


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Delay Ctrl-C until the work is done. Only the main thread receives it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
