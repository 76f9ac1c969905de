"""Attributes: public statements of what values a column may take, and the code each value is counted under.

Codes run from 0. An ordered attribute has a code per bin; a category has one per declared value and one for `other`;
`nullable` adds the last one, for missing values. Every possible value of a column has exactly one code, by a rule that
looks at that value alone: nothing is null after encoding, and no value can raise an error that would tell about a row.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import calendar
from hdpview.errors import SchemaError

MAX_CODES = 65_536  # codes fit 16 bits: half the memory of 32, and a one-way histogram stays in cache
MAX_EXPLICIT_EDGES = 1_001  # explicit edges become a nested comparison inside the database
_INT64 = 2**63
_LARGEST_REAL = 1e300  # sums and differences of bounds stay finite in every database


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """What all attributes share. `size` counts all codes, those for `other` and for missing values included."""

    name: str
    nullable: bool = False
    kind: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or len(self.name) > 200:
            raise SchemaError(f"Attribute names are texts of 1 to 200 characters, not {self.name!r}.")
        if not isinstance(self.nullable, bool):
            raise SchemaError(f"Attribute {self.name!r}: nullable is true or false, not {self.nullable!r}.")
        self._check()
        if self.size > MAX_CODES:
            raise SchemaError(
                f"Attribute {self.name!r} has {self.size:,} values; the limit is {MAX_CODES:,}. "
                "Use wider bins (`every`, `bins`), or fewer categories with `other`."
            )

    def _check(self) -> None:
        raise NotImplementedError

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
        """The code a missing value gets: its own where nullable, else the first."""
        return self.n_values if self.nullable else 0

    def value_labels(self) -> list[str]:
        raise NotImplementedError

    def labels(self) -> list[str]:
        """A readable name per code, in code order."""
        return self.value_labels() + (["(missing)"] if self.nullable else [])

    def strays(self) -> str:
        """In words: where values go that the schema did not foresee."""
        return f"missing → {self.labels()[self.missing_code]}"

    def to_dict(self) -> dict[str, Any]:
        """The attribute as it stands in a schema file, without its name. Values are plain JSON types."""
        return {"type": self.kind, **({"nullable": True} if self.nullable else {})}

    def _fail(self, reason: str) -> SchemaError:
        return SchemaError(f"Attribute {self.name!r}: {reason}")


@dataclass(frozen=True, kw_only=True)
class Ordered(Attribute):
    """An attribute whose codes are bins on an axis: bin `i` is the half-open range from `edges[i]` to `edges[i + 1]`."""

    whole: ClassVar[bool] = True  # whether the axis has only whole numbers on it

    @cached_property
    def edges(self) -> NDArray[np.int64] | NDArray[np.float64]:
        """Shape (n_values + 1,), strictly rising; int64 on a whole axis, float64 on a real one."""
        raise NotImplementedError

    def position(self, value: Any) -> int | float:
        """Where a literal written by a person stands on the axis."""
        raise NotImplementedError

    @cached_property
    def _edge_list(self) -> list[float]:
        return [float(edge) if not self.whole else edge for edge in self.edges.tolist()]

    def bin_of(self, position: float) -> tuple[int, float, bool]:
        """The bin that a place falls into, the fraction of it that lies below the place, and whether the place cuts through it.

        A cut so near to an edge that the fraction rounds to 0 or 1 is still a cut. Beyond the last bin there is nothing to cut.
        """
        edges = self._edge_list
        i = bisect_right(edges, position) - 1
        if i < 0 or i >= self.n_values:
            return max(i, 0), 0.0, False
        return i, (position - edges[i]) / (edges[i + 1] - edges[i]), position > edges[i]

    def strays(self) -> str:
        return f"beyond the bounds → nearest bin; {super().strays()}"

    def width_at(self, position: float) -> float:
        """Width of the bin that a place on the axis falls into, or of the nearest one."""
        i = min(self.bin_of(position)[0], self.n_values - 1)
        return self._edge_list[i + 1] - self._edge_list[i]

    @property
    def n_values(self) -> int:
        return len(self.edges) - 1


@dataclass(frozen=True, kw_only=True)
class Integer(Ordered):
    """Whole numbers from `min` to `max`, both included, in bins of `every`."""

    min: int
    max: int
    every: int = 1
    kind: ClassVar[str] = "integer"

    def _check(self) -> None:
        for key in ("min", "max", "every"):
            value = getattr(self, key)
            if isinstance(value, bool) or not isinstance(value, int):
                raise self._fail(f"{key} must be a whole number, not {value!r}.")
        if not -_INT64 <= self.min <= self.max < _INT64 - 1 or self.max - self.min >= _INT64 - 1:
            raise self._fail(f"bounds must satisfy min ≤ max within 64 bits; got {self.min} and {self.max}.")
        if self.every < 1:
            raise self._fail(f"every must be at least 1, not {self.every}.")
        if (self.max - self.min) // self.every >= MAX_CODES:
            raise self._fail(f"{self.min} to {self.max} in steps of {self.every} makes more than {MAX_CODES:,} bins; raise `every`.")

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        starts = range(self.min, self.max + 1, self.every)
        return np.array([*starts, self.max + 1], dtype=np.int64)

    def position(self, value: Any) -> int | float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError
        return math.inf if value > _INT64 else -math.inf if value < -_INT64 else value

    def value_labels(self) -> list[str]:
        ends = zip(self.edges[:-1].tolist(), self.edges[1:].tolist(), strict=True)
        return [str(low) if high - low == 1 else f"{low}–{high - 1}" for low, high in ends]

    def to_dict(self) -> dict[str, Any]:
        step = {} if self.every == 1 else {"every": self.every}
        return {"type": self.kind, "min": self.min, "max": self.max, **step, **({"nullable": True} if self.nullable else {})}


@dataclass(frozen=True, kw_only=True)
class Real(Ordered):
    """Real numbers in `bins` equal bins from `min` to `max`, or in bins between explicit `edges`.

    A value on an edge belongs to the bin above it; the last bin includes its upper end.
    """

    min: float | None = None
    max: float | None = None
    bins: int | None = None
    explicit_edges: tuple[float, ...] | None = None
    kind: ClassVar[str] = "real"
    whole: ClassVar[bool] = False

    def _check(self) -> None:
        if self.explicit_edges is not None:
            self._check_edges(self.explicit_edges)
            return
        if self.min is None or self.max is None or self.bins is None:
            raise self._fail("give `min`, `max` and `bins`, or `edges`.")
        low, high = self._number(self.min, "min"), self._number(self.max, "max")
        object.__setattr__(self, "min", low)
        object.__setattr__(self, "max", high)
        if isinstance(self.bins, bool) or not isinstance(self.bins, int) or not 1 <= self.bins <= MAX_CODES:
            raise self._fail(f"bins must be a whole number from 1 to {MAX_CODES:,}, not {self.bins!r}.")
        if not low < high:
            raise self._fail(f"bounds must satisfy min < max; got {low} and {high}.")
        if not (np.diff(self.edges) > 0).all():
            raise self._fail(f"{self.bins:,} bins between {low} and {high} are finer than floating-point numbers; use fewer.")

    def _check_edges(self, edges: tuple[float, ...]) -> None:
        if self.min is not None or self.max is not None or self.bins is not None:
            raise self._fail("give `edges` alone, or `min`, `max` and `bins`.")
        if not 2 <= len(edges) <= MAX_EXPLICIT_EDGES:
            raise self._fail(f"edges must list 2 to {MAX_EXPLICIT_EDGES:,} numbers; for more use `min`, `max` and `bins`.")
        numbers = tuple(self._number(edge, "edges") for edge in edges)
        if any(low >= high for low, high in itertools.pairwise(numbers)):
            raise self._fail("edges must rise from each to the next.")
        object.__setattr__(self, "explicit_edges", numbers)

    def _number(self, value: Any, key: str) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= _LARGEST_REAL:
            raise self._fail(f"{key} must be a number within ±{_LARGEST_REAL:g}, not {value!r}.")
        return float(value)

    @property
    def width(self) -> float:
        """Width of a bin where they are equal. The database computes edges from it exactly as `edges` does."""
        assert self.min is not None
        assert self.max is not None
        assert self.bins is not None
        return (self.max - self.min) / self.bins

    @cached_property
    def edges(self) -> NDArray[np.float64]:
        if self.explicit_edges is not None:
            return np.array(self.explicit_edges)
        assert self.min is not None
        assert self.max is not None
        assert self.bins is not None
        edges: NDArray[np.float64] = self.min + np.arange(self.bins + 1, dtype=np.float64) * self.width
        edges[-1] = self.max
        return edges

    def position(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf

    def value_labels(self) -> list[str]:
        shown = [f"{edge:.10g}" for edge in self.edges]
        last = self.n_values - 1
        return [f"[{shown[i]}, {shown[i + 1]}{']' if i == last else ')'}" for i in range(self.n_values)]

    def to_dict(self) -> dict[str, Any]:
        null = {"nullable": True} if self.nullable else {}
        if self.explicit_edges is not None:
            return {"type": self.kind, "edges": list(self.explicit_edges), **null}
        return {"type": self.kind, "min": self.min, "max": self.max, "bins": self.bins, **null}


@dataclass(frozen=True, kw_only=True)
class Datetime(Ordered):
    """Moments from `min` to `max` in bins of `every` (`15min`, `1d`, `1mo`, …). A plain date as `max` covers that day.

    Bounds may be given as dates, datetimes or ISO text; they are kept as ISO text.
    """

    min: date | datetime | str
    max: date | datetime | str
    every: str
    kind: ClassVar[str] = "datetime"

    def _check(self) -> None:
        for key in ("min", "max"):
            if not isinstance(getattr(self, key), (date, str)):
                raise self._fail(f"{key} must be a date such as 2024-01-31, not {getattr(self, key)!r}.")
            object.__setattr__(self, key, calendar.iso_text(getattr(self, key)))
        if not isinstance(self.every, str):
            raise self._fail(f"every must be a step such as '1d' or '1mo', not {self.every!r}.")
        if self.first > self.last:
            raise self._fail(f"bounds must satisfy min ≤ max; got {self.min} and {self.max}.")
        span = (self.last - self.first) // (self.step.microseconds or self.step.months * 28 * calendar.MICROSECONDS_PER_DAY)
        if span >= MAX_CODES:
            raise self._fail(f"{self.min} to {self.max} in steps of {self.every} makes more than {MAX_CODES:,} bins; use a longer step.")

    @cached_property
    def step(self) -> calendar.Step:
        return calendar.parse_step(self.every)

    @cached_property
    def first(self) -> int:
        """The first microsecond of the axis."""
        return calendar.microseconds(self.min)

    @cached_property
    def last(self) -> int:
        """The last microsecond of the axis, included."""
        end_of_day = calendar.MICROSECONDS_PER_DAY - 1 if calendar.is_whole_day(self.max) else 0
        return calendar.microseconds(self.max) + end_of_day

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        if self.step.months:
            months = range(calendar.month_index(self.first), calendar.month_index(self.last) + 1, self.step.months)
            starts = [self.first, *(calendar.month_start(month) for month in months[1:])]
        else:
            starts = list(range(self.first, self.last + 1, self.step.microseconds))
        return np.array([*starts, self.last + 1], dtype=np.int64)

    def position(self, value: Any) -> int:
        if not isinstance(value, (str, date)):
            raise TypeError
        try:
            return calendar.microseconds(value)
        except SchemaError:
            raise TypeError from None

    def value_labels(self) -> list[str]:
        starts = [calendar.moment(edge) for edge in self.edges[:-1].tolist()]
        if self.step.months and self.step.months % 12 == 0 and calendar.month_index(self.first) % 12 == 0:
            return [f"{start:%Y}" for start in starts]
        if self.step.months:
            return [f"{start:%Y-%m}" for start in starts]
        if self.step.microseconds % calendar.MICROSECONDS_PER_DAY == 0 and self.first % calendar.MICROSECONDS_PER_DAY == 0:
            return [f"{start:%Y-%m-%d}" for start in starts]
        return [start.isoformat(sep=" ") for start in starts]

    def to_dict(self) -> dict[str, Any]:
        null = {"nullable": True} if self.nullable else {}
        return {"type": self.kind, "min": self.min, "max": self.max, "every": self.every, **null}


@dataclass(frozen=True, kw_only=True)
class Category(Attribute):
    """One of `values`, in the order given. `other` names where undeclared values go: a code of its own, or one of `values`.

    Without `other`, undeclared values count as missing where the attribute is nullable, else as the first value.
    """

    values: tuple[str, ...]
    other: str | None = None
    kind: ClassVar[str] = "category"
    _code_of: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def _check(self) -> None:
        if isinstance(self.values, str) or not self.values:
            raise self._fail("values must list the categories; at least one.")
        texts = tuple(self._text(value) for value in self.values)
        object.__setattr__(self, "values", texts)
        object.__setattr__(self, "_code_of", {text: code for code, text in enumerate(texts)})
        if len(self._code_of) < len(texts):
            twice = min(text for text in self._code_of if texts.count(text) > 1) if len(texts) < 5_000 else "a value"
            raise self._fail(f"values lists {twice!r} twice.")
        if self.other is not None and not isinstance(self.other, str):
            raise self._fail(f"other must be a text, not {self.other!r}.")

    def _text(self, value: Any) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, (str, int)):
            return str(value)
        raise self._fail(f"values must be texts or whole numbers, not {value!r}.")

    @property
    def n_values(self) -> int:
        return len(self.values) + (self.other is not None and self.other not in self._code_of)

    @property
    def unknown_code(self) -> int:
        """The code of a value that was not declared."""
        if self.other is not None:
            return self._code_of.get(self.other, len(self.values))
        return self.missing_code

    @property
    def missing_code(self) -> int:
        if self.nullable:
            return self.n_values
        return 0 if self.other is None else self.unknown_code

    def strays(self) -> str:
        return f"undeclared → {self.labels()[self.unknown_code]}; {super().strays()}"

    def code_of(self, value: str) -> int | None:
        """The code of a declared value or of the name of `other`; None for anything else."""
        return self.unknown_code if value == self.other else self._code_of.get(value)

    def value_labels(self) -> list[str]:
        own_code = self.other is not None and self.other not in self._code_of
        return [*self.values, *([self.other] if own_code and self.other is not None else [])]

    def to_dict(self) -> dict[str, Any]:
        other = {} if self.other is None else {"other": self.other}
        return {"type": self.kind, "values": list(self.values), **other, **({"nullable": True} if self.nullable else {})}


@dataclass(frozen=True, kw_only=True)
class Boolean(Attribute):
    """False and true, in this order."""

    kind: ClassVar[str] = "boolean"

    def _check(self) -> None:
        """Nothing beyond what all attributes check."""

    @property
    def n_values(self) -> int:
        return 2

    def value_labels(self) -> list[str]:
        return ["false", "true"]
