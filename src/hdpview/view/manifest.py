"""The manifest: what a reader must know of a view to use it and judge its privacy. All public."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from hdpview.domain import Schema

MAX_PARTS = 1_000
NEIGHBOURS = "tables that differ by adding or removing one record"


@dataclass(frozen=True)
class Spending:
    """Budget spent on one purpose: `times` uses of `epsilon` each, and `delta` for all of them."""

    purpose: str
    epsilon: Fraction
    times: int
    delta: Fraction = Fraction(0)


class _Facts:
    """Facts that nobody can change: mappings become read-only, and can be pickled all the same."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, Mapping):
                object.__setattr__(self, name, MappingProxyType(dict(value)))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(
            dict(value) if isinstance(value, Mapping) else value for value in vars(self).values()
        )


@dataclass(frozen=True)
class Part(_Facts):
    """Facts about one of the views that a merged view was made from."""

    method: str
    epsilon: Fraction
    settings: Mapping[str, float]
    parameters: Mapping[str, float]
    library_version: str
    delta: Fraction = Fraction(0)
    table: str | None = None


@dataclass(frozen=True)
class Manifest(_Facts):
    """Facts about a view.

    epsilon, delta: the whole budget; `spending` adds up to it exactly. delta is 0 for pure differential
        privacy.
    settings: what the curator chose for the method; parameters: what followed from it and from the domain.
    privacy_unit: whose presence is hidden: a row's, or that of whoever a column of this name stands for;
        max_rows: of their records in the counts, at most; count_column: where rows of the table stood for
        several records, the column that said how many.
    not_private_because: empty for a private view.
    created: the day it was built, as 2026-01-31; empty where that is not known.
    table: the name of the table in the curator's ledger. spent_on_table: the ε of all charges to it so far,
        this view's among them. None where no ledger was kept.
    focus: sets of attributes whose tables the curator asked for.
    parts: of a merged view, the views it was made from, in the order of their blocks; overlapping: whether
        somebody may be in several of them, so that their budgets were added up.
    """

    schema: Schema
    method: str
    epsilon: Fraction
    spending: tuple[Spending, ...]
    settings: Mapping[str, float]
    parameters: Mapping[str, float]
    library_version: str
    privacy_unit: str = "row"
    not_private_because: tuple[str, ...] = ()
    max_rows: int = 1
    count_column: str | None = None
    parts: tuple[Part, ...] = ()
    overlapping: bool = False
    delta: Fraction = Fraction(0)
    created: str = ""
    table: str | None = None
    spent_on_table: Fraction | None = None
    focus: tuple[tuple[str, ...], ...] = ()

    @property
    def is_private(self) -> bool:
        return not self.not_private_because

    @property
    def is_merged(self) -> bool:
        return bool(self.parts)

    def as_parts(self) -> tuple[Part, ...]:
        """The parts of a merged view, or this view as the one part of itself."""
        own = Part(
            self.method,
            self.epsilon,
            self.settings,
            self.parameters,
            self.library_version,
            self.delta,
            self.table,
        )
        return self.parts or (own,)

    @property
    def budget(self) -> str:
        """In words: epsilon, and delta where there is one."""
        return f"epsilon {float(self.epsilon):g}" + (
            f" and delta {float(self.delta):g}" if self.delta else ""
        )

    @property
    def neighbours(self) -> str:
        """In words: the tables that the view hardly tells apart."""
        if self.privacy_unit != "row":
            return f"tables that differ by adding or removing all records of one {self.privacy_unit}"
        return (
            NEIGHBOURS
            if self.max_rows == 1
            else f"tables that differ by adding or removing up to {self.max_rows} records"
        )

    @property
    def change(self) -> str:
        """In a few words: what hardly changes the view."""
        if self.privacy_unit != "row":
            return (
                f"add or remove all records of one {self.privacy_unit}, of which {self.max_rows} at most "
                "are counted"
            )
        return (
            "add or remove one record"
            if self.max_rows == 1
            else f"add or remove up to {self.max_rows} records"
        )

    @property
    def estimand(self) -> str:
        """In words: what the view's numbers are about."""
        if self.privacy_unit == "row":
            return "all records of the table"
        rows = "one row" if self.max_rows == 1 else f"up to {self.max_rows:,} rows"
        return f"{rows} of each {self.privacy_unit}, chosen by lot; counts are of these rows, not of all"

    def describe_merge(self) -> dict[str, Any]:
        """What a merged view was made from, as plain data."""
        parts = [
            {
                **{name: value for name, value in vars(part).items() if name != "delta"},
                "epsilon": str(part.epsilon),
                **({"delta": str(part.delta)} if part.delta else {}),
                "settings": dict(part.settings),
                "parameters": dict(part.parameters),
            }
            for part in self.parts
        ]
        return {"populations": "overlapping" if self.overlapping else "disjoint", "parts": parts}
