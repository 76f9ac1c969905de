"""Attributes: public statements of what values a column may take, and the code each value is counted under.

Codes run from 0. An ordered attribute has a code per bin; a category has one per declared value and one for
`other`; `nullable` adds the last one, for missing values. Every possible value of a column has exactly one
code, by a rule that looks at that value alone: nothing is null after encoding, and no value can raise an
error that would tell about a row.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hdpview.errors import SchemaError, quoted

Cycles = tuple[NDArray[np.int32], ...]
MAX_CODES = 65_536  # codes fit 16 bits: half the memory of 32, and a one-way histogram stays in cache
_CODES_PER_CLASS = 8  # of a cycle, on average at least: sums over fewer have no less noise than ranges
MAX_TEXT = 1_000  # characters of a label


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """What all attributes share. `size` counts all codes, those for `other` and for missing values
    included.

    nullable: whether missing values have a code of their own.
    missing: where they have none, the value they are counted as; the first one where it is None.
    label, unit: for people, such as "Age at admission" and "years". Attributes that differ in them alone are
        equal.
    """

    name: str
    nullable: bool = False
    missing: Any = None
    label: str | None = field(default=None, compare=False)
    unit: str | None = field(default=None, compare=False)
    kind: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or len(self.name) > 200:
            raise SchemaError(f"Attribute names are texts of 1 to 200 characters, not {self.name!r}.")
        if not isinstance(self.nullable, bool):
            raise SchemaError(f"Attribute {self.name!r}: nullable is true or false, not {self.nullable!r}.")
        for key in ("label", "unit"):
            text = getattr(self, key)
            if text is not None and (not isinstance(text, str) or not 1 <= len(text) <= MAX_TEXT):
                raise self._fail(f"{key} is a text of 1 to {MAX_TEXT} characters, not {quoted(text)}.")
        self._check()
        self._check_missing()
        if self.size > MAX_CODES:
            raise SchemaError(
                f"Attribute {self.name!r} has {self.size:,} values; the limit is {MAX_CODES:,}. "
                "Use wider bins (`every`, `bins`), or fewer categories with `other`."
            )

    def _check(self) -> None:
        """Whatever a type checks beyond this."""

    def _check_missing(self) -> None:
        if self.missing is None:
            return
        if self.nullable:
            raise self._fail(
                "missing values have a code of their own where `nullable = true`. "
                "Remove `nullable`, or `missing`, which says where they are counted otherwise."
            )
        if self.code_of_literal(self.missing) is None:
            raise self._fail(
                f"missing names the value that missing ones are counted as: one of {self.span()}, "
                f"not {quoted(self.missing)}."
            )

    def code_of_literal(self, value: Any) -> int | None:
        """The code of a value as a schema states it; None where the attribute has no such value."""
        raise NotImplementedError

    @property
    def has_order(self) -> bool:
        """True if neighbouring codes are neighbouring values, so that ranges have a meaning."""
        return False

    @property
    def cycles(self) -> Cycles:
        """Classes of values that recur, such as weekdays, shape (n_values,) each."""
        return ()

    @property
    def n_values(self) -> int:
        """Number of codes for values: all but the one for missing."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        return self.n_values + self.nullable

    @property
    def null_code(self) -> int | None:
        """The code of missing values where they have one of their own."""
        return self.n_values if self.nullable else None

    @property
    def missing_code(self) -> int:
        """The code a missing value gets: its own where nullable, else that of `missing`, else the first."""
        if self.nullable:
            return self.n_values
        stated = None if self.missing is None else self.code_of_literal(self.missing)
        return 0 if stated is None else stated

    @property
    def states_missing(self) -> bool:
        """True if the schema says where missing values go."""
        return self.nullable or self.missing is not None

    def value_labels(self) -> list[str]:
        raise NotImplementedError

    def labels(self) -> list[str]:
        """A readable name per code, in code order."""
        return self.value_labels() + (["(missing)"] if self.nullable else [])

    def span(self) -> str:
        """In words: from the first value to the last, and whether missing ones are told apart."""
        labels = self.value_labels()
        ends = f"{labels[0]} … {labels[-1]}" if len(labels) > 1 else labels[0]
        return f"{ends}, or missing" if self.nullable else ends

    def describe_fallbacks(self) -> str:
        """In words: where values go that the schema did not foresee."""
        return f"missing or unreadable → {self.labels()[self.missing_code]}"

    def to_dict(self) -> dict[str, Any]:
        """The attribute as it stands in a schema file, without its name. Values are plain JSON types."""
        for_people = {key: text for key in ("label", "unit") if (text := getattr(self, key)) is not None}
        null = {"nullable": True} if self.nullable else {}
        stated = {} if self.missing is None else {"missing": self.missing}
        return {"type": self.kind, **for_people, **self._own_dict(), **null, **stated}

    def _own_dict(self) -> dict[str, Any]:
        """What stands in a schema file for attributes of this type alone."""
        return {}

    def _fail(self, reason: str) -> SchemaError:
        return SchemaError(f"Attribute {self.name!r}: {reason}")


@dataclass(frozen=True, kw_only=True)
class Ordered(Attribute):
    """An attribute whose codes are bins on an axis: bin `i` is from `edges[i]` to below `edges[i + 1]`."""

    whole: ClassVar[bool] = True  # whether the axis has only whole numbers on it

    @cached_property
    def edges(self) -> NDArray[np.int64] | NDArray[np.float64]:
        """Shape (n_values + 1,), strictly rising; int64 on a whole axis, float64 on a real one."""
        raise NotImplementedError

    def position(self, value: Any) -> int | float:
        """Where a literal written by a person stands on the axis. TypeError for what has no place there."""
        raise NotImplementedError

    @cached_property
    def _edge_list(self) -> list[float]:
        edges: list[float] = self.edges.tolist()  # of a whole axis, whole numbers
        return edges

    @cached_property
    def ends(self) -> tuple[float, float]:
        """Where the axis begins and ends."""
        return self._edge_list[0], self._edge_list[-1]

    def _classes(self, longest: int, class_of: Callable[[Any], Any]) -> Cycles:
        """Of each bin its class, unless one lies in two of them, or classes have few codes: then nothing.
        longest: how long a class may last.
        """
        first, last = self.edges[:-1].astype(np.int64), self.edges[1:].astype(np.int64) - 1
        own = class_of(first)
        is_long = len(own) >= _CODES_PER_CLASS * (own.max() + 1) and (last - first < longest).all()
        return (own.astype(np.int32),) if is_long and (own == class_of(last)).all() else ()

    def bin_of(self, position: float) -> tuple[int, float, bool]:
        """The bin that a place falls into, the fraction of it that lies below the place, and whether the
        place cuts through it.

        A cut so near to an edge that the fraction rounds to 0 or 1 is still a cut. Beyond the last bin there
        is nothing to cut.
        """
        edges = self._edge_list
        i = bisect_right(edges, position) - 1
        if i < 0 or i >= self.n_values:
            return max(i, 0), 0.0, False
        return i, (position - edges[i]) / (edges[i + 1] - edges[i]), position > edges[i]

    def describe_fallbacks(self) -> str:
        return f"beyond the bounds → nearest bin; {super().describe_fallbacks()}"

    @property
    def has_order(self) -> bool:
        return True

    def code_of_literal(self, value: Any) -> int | None:
        try:
            place = self.position(value)
        except TypeError:
            return None
        edges = self._edge_list
        if not edges[0] <= place <= edges[-1] or (self.whole and place == edges[-1]):
            return None
        return min(self.bin_of(place)[0], self.n_values - 1)

    def width_at(self, position: float) -> float:
        """Width of the bin that a place on the axis falls into, or of the nearest one."""
        i = min(self.bin_of(position)[0], self.n_values - 1)
        return self._edge_list[i + 1] - self._edge_list[i]

    @property
    def n_values(self) -> int:
        return len(self.edges) - 1
