"""Report the progress of work, and stop it on Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

Result = TypeVar("Result")

_POLL_SECONDS = 0.1  # between two reports

# Called with the fraction done, from 0 to 1 or None if unknown, and the name of the stage.
Progress = Callable[[float | None, str], None]


def silent(fraction: float | None, text: str) -> None:
    """Report nothing."""


def in_background(work: Callable[[], Result], report: Callable[[], None], stop: Callable[[], None]) -> Result:
    """Run `work` on a thread while this one calls `report` and handles Ctrl-C. `stop` asks it to end."""
    with ThreadPoolExecutor(1, "hdpview-background") as worker:
        running = worker.submit(work)
        try:
            report()  # at least once, so that a step that ends at once is named, too
            while not wait([running], _POLL_SECONDS).done:
                report()
            return running.result()
        finally:
            while not running.done():  # repeated, because work that has not begun ignores a stop
                stop()
                wait([running], _POLL_SECONDS)
