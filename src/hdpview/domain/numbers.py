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

MAX_EXPLICIT_EDGES = 1_001  # explicit edges become a nested comparison inside the database
_INT64 = 2**63
_LARGEST_REAL = 1e300  # sums and differences of bounds stay finite in every database
_NOT_GIVEN: Any = None  # of a bound that follows from the edges: typed, since it is a number once checked


@dataclass(frozen=True, kw_only=True)
class Integer(Ordered):
    """Whole numbers from `min` to `max`, both included, in bins of `every`; or in bins between explicit
    `edges`.

    A number on an edge belongs to the bin above it; the last bin includes its upper end. With edges, `min`
    and `max` are their ends and `every` is 0: bins have no common width.
    """

    min: int = _NOT_GIVEN
    max: int = _NOT_GIVEN
    every: int = 1
    explicit_edges: tuple[int, ...] | None = None
    kind: ClassVar[str] = "integer"

    def _check(self) -> None:
        if self.explicit_edges is not None:
            self._check_edges(self.explicit_edges)
            return
        if self.min is _NOT_GIVEN or self.max is _NOT_GIVEN:
            raise self._fail("give `min` and `max`, or `edges`.")
        for key in ("min", "max", "every"):
            self._whole(getattr(self, key), key)
        if not -_INT64 <= self.min <= self.max < _INT64 - 1 or self.max - self.min >= _INT64 - 1:
            raise self._fail(f"bounds must satisfy min ≤ max within 64 bits; got {self.min} and {self.max}.")
        if self.every < 1:
            raise self._fail(f"every must be at least 1, not {self.every}.")
        if (self.max - self.min) // self.every >= MAX_CODES:
            raise self._fail(
                f"{self.min} to {self.max} in steps of {self.every} makes more than {MAX_CODES:,} "
                "bins; raise `every`."
            )

    def _check_edges(self, edges: tuple[int, ...]) -> None:
        ends = (edges[0], edges[-1]) if edges else (None, None)
        given = (self.min, self.max)
        if self.every not in (0, 1) or given not in ((_NOT_GIVEN, _NOT_GIVEN), ends):
            raise self._fail("give `edges` alone, or `min`, `max` and perhaps `every`.")
        if not 2 <= len(edges) <= MAX_EXPLICIT_EDGES:
            raise self._fail(
                f"edges must list 2 to {MAX_EXPLICIT_EDGES:,} numbers; for more use `min`, `max` and `every`."
            )
        for edge in edges:
            self._whole(edge, "edges")
        if any(low >= high for low, high in itertools.pairwise(edges)):
            raise self._fail("edges must rise from each to the next.")
        if not -_INT64 <= edges[0] <= edges[-1] < _INT64 - 1 or edges[-1] - edges[0] >= _INT64 - 1:
            raise self._fail("edges must lie within 64 bits.")
        object.__setattr__(self, "min", edges[0])
        object.__setattr__(self, "max", edges[-1])
        object.__setattr__(self, "every", 0)

    @cached_property
    def cycles(self) -> Cycles:
        """Last digits."""
        return self._classes(1, lambda x: x % 10)

    def _whole(self, value: Any, key: str) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._fail(f"{key} must be a whole number, not {quoted(value)}.")

    @cached_property
    def edges(self) -> NDArray[np.int64]:
        starts = (
            self.explicit_edges[:-1]
            if self.explicit_edges is not None
            else range(self.min, self.max + 1, self.every)
        )
        return np.array([*starts, self.max + 1], dtype=np.int64)

    def position(self, value: Any) -> int | float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError
        return math.inf if value > _INT64 else -math.inf if value < -_INT64 else value

    def value_labels(self) -> list[str]:
        ends = zip(self.edges[:-1].tolist(), self.edges[1:].tolist(), strict=True)
        return [str(low) if high - low == 1 else f"{low}–{high - 1}" for low, high in ends]

    def _own_dict(self) -> dict[str, Any]:
        if self.explicit_edges is not None:
            return {"edges": list(self.explicit_edges)}
        step = {} if self.every == 1 else {"every": self.every}
        return {"min": self.min, "max": self.max, **step}


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
            raise self._fail(
                f"{self.bins:,} bins between {low} and {high} are finer than floating-point numbers; "
                "use fewer."
            )

    def _check_edges(self, edges: tuple[float, ...]) -> None:
        if self.min is not None or self.max is not None or self.bins is not None:
            raise self._fail("give `edges` alone, or `min`, `max` and `bins`.")
        if not 2 <= len(edges) <= MAX_EXPLICIT_EDGES:
            raise self._fail(
                f"edges must list 2 to {MAX_EXPLICIT_EDGES:,} numbers; for more use `min`, `max` and `bins`."
            )
        numbers = tuple(self._number(edge, "edges") for edge in edges)
        if any(low >= high for low, high in itertools.pairwise(numbers)):
            raise self._fail("edges must rise from each to the next.")
        object.__setattr__(self, "explicit_edges", numbers)

    def _number(self, value: Any, key: str) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= _LARGEST_REAL:
            raise self._fail(f"{key} must be a number within ±{_LARGEST_REAL:g}, not {value!r}.")
        return float(value)

    @property
    def _equal_bins(self) -> tuple[float, float, int]:
        assert self.min is not None
        assert self.max is not None
        assert self.bins is not None
        return self.min, self.max, self.bins

    @property
    def width(self) -> float:
        """Width of equal bins. Where there are many, the database computes edges from it as `edges` does."""
        low, high, n_bins = self._equal_bins
        return (high - low) / n_bins

    @cached_property
    def edges(self) -> NDArray[np.float64]:
        if self.explicit_edges is not None:
            return np.array(self.explicit_edges)
        low, high, n_bins = self._equal_bins
        if n_bins < MAX_EXPLICIT_EDGES:
            # 0.3, not 0.1 three times: the doubles nearest to the decimals that people write.
            first, last = Fraction(repr(low)), Fraction(repr(high))
            step = (last - first) / n_bins
            return np.array([float(first + k * step) for k in range(n_bins + 1)])
        edges: NDArray[np.float64] = low + np.arange(n_bins + 1, dtype=np.float64) * self.width
        edges[-1] = high
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

    def _own_dict(self) -> dict[str, Any]:
        if self.explicit_edges is not None:
            return {"edges": list(self.explicit_edges)}
        return {"min": self.min, "max": self.max, "bins": self.bins}
