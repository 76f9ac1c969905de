"""The manifest: the facts a reader needs to use a view and judge its privacy. All of them are public."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from hdpview.domain import Schema
from hdpview.view.facts import FROM_DICT, Delta, Epsilon, Exact, Numbers, Text, Whole

MAX_PARTS = 1_000  # views in a merged view, and purposes of spending


@dataclass(frozen=True)
class Spending:
    """Budget spent on one purpose: `times` uses of `epsilon` each, and `delta` for all of them."""

    __pydantic_config__ = FROM_DICT
    purpose: Text
    epsilon: Exact
    times: Whole
    delta: Delta = Fraction(0)


class _Facts:
    """Immutable facts: mappings become read-only, and can still be pickled."""

    __pydantic_config__ = FROM_DICT

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if isinstance(value, Mapping):
                object.__setattr__(self, name, MappingProxyType(dict(value)))

    def __reduce__(self) -> tuple[Any, ...]:
        values = vars(self).values()
        return type(self), tuple(dict(value) if isinstance(value, Mapping) else value for value in values)


@dataclass(frozen=True)
class Part(_Facts):
    """Facts about one of the views in a merged view."""

    method: Text
    epsilon: Epsilon
    settings: Numbers
    parameters: Numbers
    library_version: Text
    delta: Delta = Fraction(0)
    table: Text | None = None


@dataclass(frozen=True)
class Manifest(_Facts):
    """Facts about a view.

    epsilon, delta: the whole budget, exactly the sum of `spending`. delta is 0 for pure differential privacy.
    settings: the curator's choices for the method; parameters: values derived from them and the domain.
    privacy_unit: "row", or the name of the column that identifies the protected person or unit.
    max_rows: the most records counted per person.
    count_column: the column that gives the number of records per row, if rows stand for several.
    not_private_because: empty for a private view.
    created: the day of the build, such as 2026-01-31; empty if unknown.
    table: the name of the table in the curator's ledger. spent_on_table: the ε of all charges to it so far,
        including this view's. None if no ledger was kept.
    focus: sets of attributes that the curator asked to count together.
    choice: fingerprint of the random choice of each person's rows; None without a choice.
    parts: the views in a merged view, in the order of their blocks. overlapping: True if a person may be in
        several of them, so their budgets add up.
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
    choice: str | None = None

    @property
    def is_private(self) -> bool:
        return not self.not_private_because

    @property
    def is_merged(self) -> bool:
        return bool(self.parts)

    def as_parts(self) -> tuple[Part, ...]:
        """The parts of a merged view, or this view as its only part."""
        own = {fact.name: getattr(self, fact.name) for fact in fields(Part)}
        return self.parts or (Part(**own),)

    @property
    def learning(self) -> Spending | None:
        """The cost of learning the schema's bounds and categories before this view; None if nothing."""
        epsilon, delta = (
            Fraction(cost or 0) for cost in (self.schema.learnt_epsilon, self.schema.learnt_delta)
        )
        return Spending("learning the schema", epsilon, 1, delta) if epsilon or delta else None

    @property
    def total(self) -> tuple[Fraction, Fraction]:
        """Epsilon and delta of the view and of learning its schema."""
        learning = self.learning or Spending("", Fraction(0), 1)
        return self.epsilon + learning.epsilon, self.delta + learning.delta

    @property
    def budget(self) -> str:
        """The total in words: epsilon, and delta if it is not 0."""
        epsilon, delta = map(float, self.total)
        return f"epsilon {epsilon:g}" + (f" and delta {delta:g}" if delta else "")

    @property
    def neighbours(self) -> str:
        """In words: the pairs of tables that the view can hardly distinguish."""
        return f"tables that differ by adding or removing {self._protected}"

    @property
    def change(self) -> str:
        """In a few words: the change that is hidden."""
        most = "" if self.privacy_unit == "row" else f" (at most {self.max_rows} count)"
        return f"add or remove {self._protected}{most}"

    @property
    def _protected(self) -> str:
        if self.privacy_unit != "row":
            return f"all records of one {self.privacy_unit}"
        return "one record" if self.max_rows == 1 else f"up to {self.max_rows} records"

    @property
    def estimand(self) -> str:
        """In words: the records that the view counts."""
        if self.privacy_unit == "row":
            return "all records of the table"
        rows = "one row" if self.max_rows == 1 else f"up to {self.max_rows:,} rows"
        return f"{rows} of each {self.privacy_unit}, chosen at random; other rows are not counted"

    def describe_merge(self) -> dict[str, Any]:
        """The parts of a merged view as plain data."""
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
