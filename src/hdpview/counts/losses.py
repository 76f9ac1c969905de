"""Warnings about losses before anything is spent: sentences with bands instead of counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# Smallest share and number of values whose loss is reported: warnings should not depend on single rows.
FEW_SHARE = 0.001
FEW_RECORDS = 5
# Share of values above which a loss must be accepted before a build.
MANY_SHARE = 0.2
NEARLY_ALL_SHARE = 0.9


@dataclass(frozen=True)
class SchemaWarning:
    """Something that a build would silently change.

    attribute: its name; empty for the whole table.
    sentence: the problem and its remedy, with bands and masked shapes, never a value.
    is_blocking: whether the loss is so large that the curator must confirm the build.
    """

    attribute: str
    sentence: str
    is_blocking: bool

    def __str__(self) -> str:
        return f"{self.attribute}: {self.sentence}" if self.attribute else self.sentence

    @property
    def is_grave(self) -> bool:
        """The name of `is_blocking` up to version 0.2."""
        return self.is_blocking


Concern = SchemaWarning  # its name up to version 0.2


def band(number: int, total: int) -> str | None:
    """A share of a total in words; None if it is 0, or so small that it may depend on single rows."""
    if number < min(FEW_RECORDS, total) or number < FEW_SHARE * total or not number:
        return None
    share = number / total
    return "nearly all" if share >= NEARLY_ALL_SHARE else "many" if share >= MANY_SHARE else "few"


def blocking_first(warnings: Iterable[SchemaWarning]) -> list[SchemaWarning]:
    """Blocking warnings before others, and those about the whole table before those about columns."""
    return sorted(warnings, key=lambda each: (not each.is_blocking, bool(each.attribute)))
