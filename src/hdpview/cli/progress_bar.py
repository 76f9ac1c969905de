"""A progress bar for work that takes over a second, on standard error and only in a terminal."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self

import typer

_DELAY = 1.0  # seconds before the bar appears


class ProgressBar:
    """Call it with the fraction done (None if unknown) and the name of the stage."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._bar: Any = None
        self._task: Any = None
        self._stage = ""
        self._enabled = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __call__(self, fraction: float | None, text: str) -> None:
        if not self._enabled or (self._bar is None and time.monotonic() - self._started < _DELAY):
            return
        if self._bar is None:
            self._bar = _rich_bar()
            self._bar.start()
        text = text[:1].upper() + text[1:]
        # Each stage has its own bar and its own remaining time.
        if text != self._stage:
            if self._task is not None:
                self._bar.update(self._task, completed=1.0, total=1.0)
            self._stage = text
            self._task = self._bar.add_task(text, total=1.0)
        self._bar.update(self._task, completed=fraction or 0.0, total=None if fraction is None else 1.0)

    def stop(self) -> None:
        """Remove the bar, so that a question can be asked. The next stage shows a new one."""
        if self._bar is not None:
            self._bar.stop()
        self._bar = self._task = None

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if kind is not None and issubclass(kind, KeyboardInterrupt):
            typer.echo("Interrupted. Nothing was written; any spending is stated above.", err=True)


def _rich_bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description:<18}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
