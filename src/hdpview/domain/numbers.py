"""Attributes that are numbers: whole ones and real ones."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hdpview.domain.attributes import MAX_CODES, Cycles, Ordered
from hdpview.errors import quoted

# Edges become a nested comparison in the database, which is ten levels deep with this many.
MAX_EXPLICIT_EDGES = 1_001
_NOT_GIVEN: Any = None  # a field that follows from the edges, or is not needed beside them


@dataclass(frozen=True, kw_only=True)
class _Number(Ordered):
    """Numbers in bins of one width, or between explicit `edges`. A number on an edge belongs to the bin above
    it; the last bin includes its upper end.
    """

    explicit_edges: tuple[Any, ...] | None = None
    _far: ClassVar[float]  # no bound lies beyond it
    _without_edges: ClassVar[str]  # what to give instead of edges

    def _number(self, value: Any, key: str) -> Any:
        """The value of a field as a number of this type; a SchemaError if it is none."""
        raise NotImplementedError

    def _checked_edges(self, edges: tuple[Any, ...], is_alone: bool) -> tuple[Any, ...]:
        self._require(is_alone, f"give `edges` alone, or {self._without_edges}")
        too_many = f"edges must list 2 to {MAX_EXPLICIT_EDGES:,} numbers; for more use {self._without_edges}"
        self._require(2 <= len(edges) <= MAX_EXPLICIT_EDGES, too_many)
        numbers = tuple(self._number(edge, "edges") for edge in edges)
        is_rising = all(low < high for low, high in itertools.pairwise(numbers))
        self._require(is_rising, "edges must rise strictly")
        return numbers

    def to_dict(self) -> dict[str, Any]:
        derived = () if self.explicit_edges is None else ("min", "max", "every")
        return {key: value for key, value in super().to_dict().items() if key not in derived}

    def position(self, value: Any) -> int | float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError
        return math.inf if value > self._far else -math.inf if value < -self._far else value


@dataclass(frozen=True, kw_only=True)
class Integer(_Number):
    """Whole numbers from `min` to `max`, both included, in bins of `every` or between explicit `edges`. With
    edges, `min` and `max` are the first and the last, and `every` is 0.
    """

    min: int = _NOT_GIVEN
    max: int = _NOT_GIVEN
    every: int = 1
    kind: ClassVar[str] = "integer"
    _far: ClassVar[float] = 2**63
    _without_edges: ClassVar[str] = "`min`, `max` and optionally `every`"

    def _check(self) -> None:
        given = self.min, self.max
        if self.explicit_edges is not None:
            ends = self.explicit_edges[:1] + self.explicit_edges[-1:]
            is_alone = self.every in (0, 1) and given in ((_NOT_GIVEN, _NOT_GIVEN), ends)
            self._checked_edges(self.explicit_edges, is_alone)
            for key, value in zip(("min", "max", "every"), (*ends, 0), strict=True):
                object.__setattr__(self, key, value)
        self._require(_NOT_GIVEN not in (self.min, self.max), "give `min` and `max`, or `edges`")
        low, high, every = (self._number(getattr(self, key), key) for key in ("min", "max", "every"))
        fits = -self._far <= low <= high < self._far - 1 and high - low < self._far - 1
        self._require(fits, f"bounds must satisfy min ≤ max within 64 bits; got {low} and {high}")
        if self.explicit_edges is None:
            self._require(every >= 1, f"every must be at least 1, not {every}")
            steps = f"{low} to {high} in steps of {every}"
            too_many = f"{steps} makes more than {MAX_CODES:,} bins; raise `every`"
            self._require((high - low) // every < MAX_CODES, too_many)

    @cached_property
    def cycles(self) -> Cycles:
        """Last digits."""
        return self._classes(1, lambda x: x % 10)

    def _number(self, value: Any, key: str) -> int:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        self._require(is_whole, f"{key} must be a whole number, not {quoted(value)}")
        return int(value)

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        explicit = self.explicit_edges
        starts = range(self.min, self.max + 1, self.every) if explicit is None else explicit[:-1]
        return np.array([*starts, self.max + 1], dtype=np.int64)

    def value_labels(self) -> list[str]:
        ends = zip(self.edges[:-1].tolist(), self.edges[1:].tolist(), strict=True)
        return [str(low) if high - low == 1 else f"{low}–{high - 1}" for low, high in ends]


@dataclass(frozen=True, kw_only=True)
class Real(_Number):
    """Real numbers in `bins` equal bins from `min` to `max`, or in bins between explicit `edges`."""

    min: float = _NOT_GIVEN
    max: float = _NOT_GIVEN
    bins: int = _NOT_GIVEN
    kind: ClassVar[str] = "real"
    whole: ClassVar[bool] = False
    _far: ClassVar[float] = 1e300  # sums and differences of bounds stay finite
    _without_edges: ClassVar[str] = "`min`, `max` and `bins`"

    def _check(self) -> None:
        given: Any = self.min, self.max, self.bins
        if self.explicit_edges is not None:
            edges = self._checked_edges(self.explicit_edges, set(given) == {_NOT_GIVEN})
            object.__setattr__(self, "explicit_edges", edges)
            return
        self._require(_NOT_GIVEN not in given, "give `min`, `max` and `bins`, or `edges`")
        low, high, bins = self._number(self.min, "min"), self._number(self.max, "max"), self.bins
        object.__setattr__(self, "min", low)
        object.__setattr__(self, "max", high)
        is_number = isinstance(bins, int) and not isinstance(bins, bool) and 1 <= bins <= MAX_CODES
        self._require(is_number, f"bins must be a whole number from 1 to {MAX_CODES:,}, not {bins!r}")
        self._require(low < high, f"bounds must satisfy min < max; got {low} and {high}")
        finer = f"{bins:,} bins between {low} and {high} are finer than floating-point numbers; use fewer"
        self._require(bool((np.diff(self.edges) > 0).all()), finer)

    def _number(self, value: Any, key: str) -> float:
        is_number = (
            isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= self._far
        )
        self._require(is_number, f"{key} must be a number within ±{self._far:g}, not {value!r}")
        return float(value)

    @property
    def width(self) -> float:
        """Width of equal bins. If there are many, the database computes edges from it as `edges` does."""
        return (self.max - self.min) / self.bins

    @cached_property
    def edges(self) -> NDArray[np.float64]:
        if self.explicit_edges is not None:
            return np.array(self.explicit_edges)
        low, high, n_bins = self.min, self.max, self.bins
        if n_bins < MAX_EXPLICIT_EDGES:
            # The doubles nearest to the decimals that people write: 0.3, not three times 0.1.
            first, last = Fraction(repr(low)), Fraction(repr(high))
            step = (last - first) / n_bins
            return np.array([float(first + k * step) for k in range(n_bins + 1)])
        edges: NDArray[np.float64] = low + np.arange(n_bins + 1, dtype=np.float64) * self.width
        edges[-1] = high
        return edges

    def value_labels(self) -> list[str]:
        texts = [f"{edge:.10g}" for edge in self.edges]
        last = self.n_values - 1
        return [f"[{texts[i]}, {texts[i + 1]}{']' if i == last else ')'}" for i in range(self.n_values)]
