"""Exact values: what was counted in a table and has not been released.

An `Exact` knows how much one record can change it, and gives its value to nobody but a `Mechanism`. It
cannot become an array, a number, a text or a truth value; each attempt raises a TypeError. What methods
need of it before noise is drawn are transforms that are `Exact` again, each of which moves by no more than
its argument does, to the last bit.

Where doubles round, a score could move by more than its sensitivity. So `distance` works on a grid, on
which doubles add and subtract without rounding: public numbers are rounded down to it, and counts are held
at its bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Records; sums of counts stop here. Far beyond any table, exact as a double, and no two tables get further
# apart.
MOST_RECORDS = 2**52
# Bits that a sum on a grid takes, of a double's 53: a sum of two numbers below the bound still fits.
_GRID_BITS = 52
# Records beyond four times the released number, so that small tables, whose released number is mostly
# noise, fit.
_SPARE_RECORDS = 2.0**16
# Bits that counts take on a grid at most: then ten bits of every score are behind the point.
_MOST_COUNT_BITS = 42


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise TypeError(
        "This value is exact: it was counted in the table and no noise has been added. "
        "It can be released by a Mechanism, which charges for it, and in no other way."
    )


class Grid(NamedTuple):
    """steps: to one record, a power of two; public numbers are multiples of 1/steps. most: where counts are
    held.
    """

    steps: float
    most: float


def grid_for(noisy_total: float, n_terms: int = 1) -> Grid:
    """The finest grid for sums of `n_terms` counts in a table of about so many records: most · n_terms ·
    steps ≤ 2⁵².

    Privacy does not rest on the released number of records: counts above the bound are held there. [P9]
    """
    bits = min(_MOST_COUNT_BITS, math.ceil(math.log2(4 * max(1.0, noisy_total) + _SPARE_RECORDS)))
    term_bits = math.ceil(math.log2(max(1, n_terms)))
    return Grid(
        steps=2.0 ** max(0, _GRID_BITS - term_bits - bits), most=2.0 ** min(bits, _GRID_BITS - term_bits)
    )


class Exact:
    """A value of the table and its sensitivity: one record changes each entry by at most `per_entry`, and all
    entries together by at most `in_all`.
    """

    __slots__ = ("_exact_value", "in_all", "per_entry")
    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None

    def __init__(self, value: NDArray[Any] | dict[str, int], *, per_entry: int = 1, in_all: int = 1) -> None:
        self._exact_value: Any = value
        self.per_entry, self.in_all = per_entry, in_all

    @property
    def shape(self) -> tuple[int, ...]:
        """Public: tables, boxes and blocks are chosen without looking at the table."""
        return self._numbers.shape

    def total(self) -> Exact:
        """The sum of all entries, shape (1,)."""
        total = min(sum(self._numbers.reshape(-1).tolist()), MOST_RECORDS)
        return Exact(np.array([total], np.int64), per_entry=self.in_all, in_all=self.in_all)

    def apart(self) -> Exact:
        """The same entries, of which the caller vouches that a record counts in one at most."""
        return Exact(self._exact_value, per_entry=self.per_entry, in_all=self.per_entry)

    def distance(self, expected: Floats, grid: Grid) -> Exact:
        """Σ |count − expected| over all entries, shape (). expected and grid: released or public. [P9]"""
        on_grid = np.floor(np.clip(expected, 0, grid.most) * grid.steps) / grid.steps
        distance = np.abs(np.minimum(self._numbers, grid.most) - on_grid).sum()
        return Exact(np.array(distance), per_entry=self.in_all, in_all=self.in_all)

    def errors(self, answers: Floats, group: Integers) -> Exact:
        """Σ |answer − count| per group, in whole records, shape (n_groups,). [P16]

        group: of each entry. The caller vouches that a record counts in one entry of a group at most.
        """
        sums = np.zeros(int(group[-1]) + 1, np.int64)
        whole = np.rint(np.clip(answers, -MOST_RECORDS, MOST_RECORDS)).astype(np.int64)
        np.add.at(sums, group, np.abs(whole - self._numbers))
        return Exact(sums, per_entry=self.per_entry, in_all=self.per_entry * len(sums))

    def nearness(self, expected: Integers, place: int, among: NDArray[np.bool_]) -> Exact:
        """Minus the distance from 0 of the `place`-th least of (entries − expected), per row of `expected`.
        [P16]

        expected: shape (n, entries). among: the entries that count. An order statistic moves by no more
            than the entries do.
        """
        ordered = np.sort((self._numbers - expected)[:, among], axis=1)
        scores = -np.abs(ordered[:, place])
        return Exact(scores, per_entry=self.per_entry, in_all=self.per_entry * len(scores))

    @staticmethod
    def stack(values: Sequence[Exact]) -> Exact:
        """Single numbers as one vector, shape (n,)."""
        numbers = np.array([value._numbers.item() for value in values], np.float64)
        return Exact(
            numbers,
            per_entry=max((value.per_entry for value in values), default=1),
            in_all=sum(value.in_all for value in values),
        )

    @property
    def _numbers(self) -> NDArray[Any]:
        if isinstance(self._exact_value, dict):
            _refuse()
        numbers: NDArray[Any] = self._exact_value
        return numbers

    def __repr__(self) -> str:
        return "Exact(not released)"

    __array__ = __float__ = __int__ = __complex__ = __index__ = __bool__ = __str__ = __format__ = _refuse
    __iter__ = __len__ = __getitem__ = __contains__ = __reversed__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = __round__ = __abs__ = __neg__ = _refuse


def unprotected(exact: Exact) -> NDArray[Any]:
    """The value itself, for tables in which nobody's data are: invented ones and benchmarks.

    A test of the architecture allows this name in `forecast` and outside the package alone.
    """
    return exact._numbers
