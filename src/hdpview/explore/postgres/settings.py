"""Settings of a session as it starts, and what they mean: `catalog/settings.txt`."""

from __future__ import annotations

from functools import cache

from hdpview.explore.postgres.types import lines_of


@cache
def first_settings() -> dict[str, tuple[str, str]]:
    """Settings of a session: value at the start and what it means."""
    rows = ([part.strip() for part in line.split("|")] for line in lines_of("settings.txt"))
    return {name: (value, meaning) for name, value, meaning in rows}
