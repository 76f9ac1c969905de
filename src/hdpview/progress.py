"""Work under way: how it is reported, and how it is stopped."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

Result = TypeVar("Result")

_POLL_SECONDS = 0.1

# fraction done from 0 to 1 where known, and what is being done
Progress = Callable[[float | None, str], None]


def silent(fraction: float | None, text: str) -> None:
    """No one listens."""


def in_background(work: Callable[[], Result], report: Callable[[], None], stop: Callable[[], None]) -> Result:
    """Do work on a thread, while this one reports on it and listens for Ctrl-C.

    stop: asks the work to end early, when this thread is interrupted.
    """
    with ThreadPoolExecutor(1, "hdpview-background") as worker:
        running = worker.submit(work)
        try:
            while not wait([running], _POLL_SECONDS).done:
                report()
            return running.result()
        finally:
            while not running.done():  # again and again: work that had not begun forgets that it was stopped
                stop()
                wait([running], _POLL_SECONDS)
