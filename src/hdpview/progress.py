"""How work under way is told: a callable that anyone may pass to what takes long."""

from __future__ import annotations

from collections.abc import Callable

# fraction done from 0 to 1 where known, and what is being done
Progress = Callable[[float | None, str], None]


def silent(fraction: float | None, text: str) -> None:
    """No one listens."""
