"""Attributes: public statements of the values that a column may take, and the code of each value.

Codes run from 0. An ordered attribute has a code per bin; a category has one per declared value and one for
`other`; `nullable` adds the last code, for missing values. A rule about the value alone gives every possible
value exactly one code: nothing is null after encoding, and no value raises an error, which would reveal it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hdpview.errors import SchemaError, quoted

Cycles = tuple[NDArray[np.int32], ...]
MAX_CODES = 65_536  # codes fit 16 bits: half the memory of 32, and a one-way histogram stays in cache
_CODES_PER_CLASS = 8  # codes per class of a cycle, on average; sums over fewer codes are as noisy as ranges
MAX_TEXT = 1_000  # characters of a label
_COMMON = ("nullable", "missing", "label", "unit")  # fields that all types have, besides the name


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """Base of all attributes. `size` counts all codes, those for `other` and for missing values
    included.

    nullable: whether missing values have a code of their own.
    missing: the value that they count as if they have no code; None stands for the first value.
    label, unit: for display, such as "Age at admission" and "years". Equality ignores them.
    """

    name: str
    nullable: bool = False
    missing: Any = None
    label: str | None = field(default=None, compare=False)
    unit: str | None = field(default=None, compare=False)
    kind: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for key, value in vars(self).items():  # NumPy's numbers and arrays as Python's
            if isinstance(value, (np.generic, np.ndarray)):
                plain = value.tolist()
                object.__setattr__(self, key, tuple(plain) if isinstance(plain, list) else plain)
        if not isinstance(self.name, str) or not self.name or len(self.name) > 200:
            raise SchemaError(f"Attribute names must be texts of 1 to 200 characters, not {self.name!r}.")
        self._require(
            isinstance(self.nullable, bool), f"nullable must be true or false, not {self.nullable!r}"
        )
        for key in ("label", "unit"):
            text = getattr(self, key)
            is_text = text is None or (isinstance(text, str) and 1 <= len(text) <= MAX_TEXT)
            self._require(is_text, f"{key} must be a text of 1 to {MAX_TEXT} characters, not {quoted(text)}")
        self._check()
        if self.missing is not None:
            own = "with `nullable = true`, missing values have a code of their own"
            self._require(not self.nullable, f"{own}. Remove `nullable` or `missing`")
            known = f"missing must be the value that missing values count as, one of {self.span()}"
            is_known = self.code_of_literal(self.missing) is not None
            self._require(is_known, f"{known}, not {quoted(self.missing)}")
        too_many = f"{self.size:,} values are more than the limit of {MAX_CODES:,}"
        way_out = "Use wider bins (`every`, `bins`), or fewer categories with `other`"
        self._require(self.size <= MAX_CODES, f"{too_many}. {way_out}")

    def _check(self) -> None:
        """Further checks of a type."""

    def _require(self, is_met: bool, otherwise: str) -> None:
        """Raise a SchemaError unless a condition is met."""
        if not is_met:
            raise SchemaError(f"Attribute {self.name!r}: {otherwise}.")

    @classmethod
    def keys(cls) -> dict[str, Field[Any]]:
        """The fields by their keys in a schema file, those of the type first."""
        own = [each for each in fields(cls) if each.name not in _COMMON and each.init and each.name != "name"]
        common = [each for each in fields(cls) if each.name in _COMMON]
        in_order = [*sorted(own, key=lambda each: each.name == "explicit_edges"), *common]
        return {each.name.removeprefix("explicit_"): each for each in in_order}

    def code_of_literal(self, value: Any) -> int | None:
        """The code of a value as written in a schema; None if the attribute has no such value."""
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
        """Number of codes, without the one for missing values."""
        raise NotImplementedError

    @property
    def size(self) -> int:
        return self.n_values + self.nullable

    @property
    def null_code(self) -> int | None:
        """The code of missing values, if they have one of their own."""
        return self.n_values if self.nullable else None

    @property
    def missing_code(self) -> int:
        """The code that missing values count as: their own, else that of `missing`, else the first."""
        if self.nullable:
            return self.n_values
        stated = None if self.missing is None else self.code_of_literal(self.missing)
        return 0 if stated is None else stated

    @property
    def states_missing(self) -> bool:
        """True if the schema states how missing values are counted."""
        return self.nullable or self.missing is not None

    def value_labels(self) -> list[str]:
        raise NotImplementedError

    def labels(self) -> list[str]:
        """A readable name per code, in code order."""
        return self.value_labels() + (["(missing)"] if self.nullable else [])

    def span(self) -> str:
        """Describe the first and last value, and whether missing values have a code of their own."""
        labels = self.value_labels()
        ends = f"{labels[0]} … {labels[-1]}" if len(labels) > 1 else labels[0]
        return f"{ends}, or missing" if self.nullable else ends

    def describe_fallbacks(self) -> str:
        """Describe how values outside the schema are counted."""
        return f"missing or unreadable → {self.labels()[self.missing_code]}"

    def to_dict(self) -> dict[str, Any]:
        """The attribute as in a schema file, without its name. Values are plain JSON types."""
        stated = {key: _plain(getattr(self, each.name)) for key, each in self.keys().items()}
        defaults = {key: each.default for key, each in self.keys().items()}
        return {"type": self.kind, **{k: v for k, v in stated.items() if v != defaults[k] and v != {}}}


def _plain(value: Any) -> Any:
    """A field as plain JSON types."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return list(value) if isinstance(value, tuple) else value


@dataclass(frozen=True, kw_only=True)
class Ordered(Attribute):
    """An attribute whose codes are bins on an axis: bin `i` is from `edges[i]` to below `edges[i + 1]`."""

    whole: ClassVar[bool] = True  # whether all values are whole numbers

    @cached_property
    def edges(self) -> NDArray[np.int64] | NDArray[np.float64]:
        """Shape (n_values + 1,), strictly rising; int64 on a whole axis, float64 on a real one."""
        raise NotImplementedError

    def position(self, value: Any) -> int | float:
        """The position of a literal on the axis. Raises TypeError for a literal without one."""
        raise NotImplementedError

    @cached_property
    def _edge_list(self) -> list[float]:
        edges: list[float] = self.edges.tolist()  # of a whole axis, whole numbers
        return edges

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The first and last point of the axis."""
        return self._edge_list[0], self._edge_list[-1]

    def _classes(self, longest: int, class_of: Callable[[Any], Any]) -> Cycles:
        """The class of each bin; nothing if a bin lies in two classes, or classes have few codes.
        longest: most positions in a class.
        """
        first, last = self.edges[:-1].astype(np.int64), self.edges[1:].astype(np.int64) - 1
        classes = class_of(first)
        is_long = len(classes) >= _CODES_PER_CLASS * (classes.max() + 1) and (last - first < longest).all()
        return (classes.astype(np.int32),) if is_long and (classes == class_of(last)).all() else ()

    def bin_of(self, position: float) -> tuple[int, float, bool]:
        """The bin of a position, the fraction of the bin below it, and whether the position cuts the bin.

        A cut is a cut even if it is so near to an edge that the fraction rounds to 0 or 1.
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
        """Width of the bin of a position, or of the nearest bin."""
        i = min(self.bin_of(position)[0], self.n_values - 1)
        return self._edge_list[i + 1] - self._edge_list[i]

    @property
    def n_values(self) -> int:
        return len(self.edges) - 1
