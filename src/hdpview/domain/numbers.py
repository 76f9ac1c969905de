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
_NOT_GIVEN: Any = None  # a bound that follows from the edges; a number after the check


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
        if not is_alone:
            raise self._fail(f"give `edges` alone, or {self._without_edges}.")
        if not 2 <= len(edges) <= MAX_EXPLICIT_EDGES:
            raise self._fail(
                f"edges must list 2 to {MAX_EXPLICIT_EDGES:,} numbers; for more use {self._without_edges}."
            )
        numbers = tuple(self._number(edge, "edges") for edge in edges)
        if any(low >= high for low, high in itertools.pairwise(numbers)):
            raise self._fail("edges must rise strictly.")
        return numbers

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
        elif _NOT_GIVEN in given:
            raise self._fail("give `min` and `max`, or `edges`.")
        for key in ("min", "max", "every"):
            self._number(getattr(self, key), key)
        if not -self._far <= self.min <= self.max < self._far - 1 or self.max - self.min >= self._far - 1:
            raise self._fail(f"bounds must satisfy min ≤ max within 64 bits; got {self.min} and {self.max}.")
        if self.explicit_edges is not None:
            return
        if self.every < 1:
            raise self._fail(f"every must be at least 1, not {self.every}.")
        if (self.max - self.min) // self.every >= MAX_CODES:
            raise self._fail(
                f"{self.min} to {self.max} in steps of {self.every} makes more than {MAX_CODES:,} "
                "bins; raise `every`."
            )

    @cached_property
    def cycles(self) -> Cycles:
        """Last digits."""
        return self._classes(1, lambda x: x % 10)

    def _number(self, value: Any, key: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._fail(f"{key} must be a whole number, not {quoted(value)}.")
        return value

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        starts = (
            self.explicit_edges[:-1]
            if self.explicit_edges is not None
            else range(self.min, self.max + 1, self.every)
        )
        return np.array([*starts, self.max + 1], dtype=np.int64)

    def value_labels(self) -> list[str]:
        ends = zip(self.edges[:-1].tolist(), self.edges[1:].tolist(), strict=True)
        return [str(low) if high - low == 1 else f"{low}–{high - 1}" for low, high in ends]

    def _own_dict(self) -> dict[str, Any]:
        if self.explicit_edges is not None:
            return {"edges": list(self.explicit_edges)}
        step = {} if self.every == 1 else {"every": self.every}
        return {"min": self.min, "max": self.max, **step}


@dataclass(frozen=True, kw_only=True)
class Real(_Number):
    """Real numbers in `bins` equal bins from `min` to `max`, or in bins between explicit `edges`."""

    min: float | None = None
    max: float | None = None
    bins: int | None = None
    kind: ClassVar[str] = "real"
    whole: ClassVar[bool] = False
    _far: ClassVar[float] = 1e300  # sums and differences of bounds stay finite
    _without_edges: ClassVar[str] = "`min`, `max` and `bins`"

    def _check(self) -> None:
        given = self.min, self.max, self.bins
        if self.explicit_edges is not None:
            edges = self._checked_edges(self.explicit_edges, given == (None, None, None))
            object.__setattr__(self, "explicit_edges", edges)
            return
        if None in given:
            raise self._fail("give `min`, `max` and `bins`, or `edges`.")
        low, high = self._number(self.min, "min"), self._number(self.max, "max")
        object.__setattr__(self, "min", low)
        object.__setattr__(self, "max", high)
        if isinstance(self.bins, bool) or not isinstance(self.bins, int) or not 1 <= self.bins <= MAX_CODES:
            raise self._fail(f"bins must be a whole number from 1 to {MAX_CODES:,}, not {self.bins!r}.")
        if not low < high:
            raise self._fail(f"bounds must satisfy min < max; got {low} and {high}.")
        if not (np.diff(self.edges) > 0).all():
            raise self._fail(
                f"{self.bins:,} bins between {low} and {high} are finer than floating-point numbers; "
                "use fewer."
            )

    def _number(self, value: Any, key: str) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= self._far:
            raise self._fail(f"{key} must be a number within ±{self._far:g}, not {value!r}.")
        return float(value)

    @property
    def _equal_bins(self) -> tuple[float, float, int]:
        assert self.min is not None
        assert self.max is not None
        assert self.bins is not None
        return self.min, self.max, self.bins

    @property
    def width(self) -> float:
        """Width of equal bins. If there are many, the database computes edges from it as `edges` does."""
        low, high, n_bins = self._equal_bins
        return (high - low) / n_bins

    @cached_property
    def edges(self) -> NDArray[np.float64]:
        if self.explicit_edges is not None:
            return np.array(self.explicit_edges)
        low, high, n_bins = self._equal_bins
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

    def _own_dict(self) -> dict[str, Any]:
        if self.explicit_edges is not None:
            return {"edges": list(self.explicit_edges)}
        return {"min": self.min, "max": self.max, "bins": self.bins}
