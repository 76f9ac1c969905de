"""Exact values: counts of a table that have not been released.

An `Exact` holds how much one record can change it, and reveals its value to a `Mechanism` only. It cannot
become an array, a number, a text or a truth value; each attempt raises a TypeError. Before noise is drawn,
methods can only transform it into another `Exact`. Transforms use whole numbers, because rounded doubles
could let one record move a score by more than stated.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Records. Larger sums of counts are clipped. Far beyond any table, and exact as a double, so clipping never
# increases the distance of two tables.
MOST_RECORDS = 2**52


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise TypeError(
        "This value is exact: it was counted in the table and no noise has been added. "
        "Only a Mechanism can release it, and charges for it."
    )


class Exact:
    """Whole numbers counted in the table. One record changes each by at most one, and all of them together by
    at most `in_all`: by one in a table of counts, by more if entries overlap.
    """

    __slots__ = ("_exact_value", "in_all")
    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None

    def __init__(self, value: Integers | dict[str, int], *, in_all: int = 1) -> None:
        self._exact_value: Any = value
        self.in_all = in_all

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, which is public, because tables, boxes and blocks are chosen without exact values."""
        return self._numbers.shape

    def total(self) -> Exact:
        """The sum of all entries of a table of counts, shape (1,)."""
        if self.in_all != 1:
            _refuse()
        return Exact(np.array([min(sum(self._numbers.reshape(-1).tolist()), MOST_RECORDS)]))

    def apart(self) -> Exact:
        """The same entries. The caller guarantees that a record counts in at most one of them."""
        return Exact(self._exact_value)

    def errors(self, answers: Floats, group: Integers) -> Exact:
        """Σ |answer − count| per group, in whole records, shape (n_groups,). [P16]

        group: number of each entry's group. The caller guarantees at most one entry of a group per record.
        """
        sums = np.zeros(int(group[-1]) + 1, np.int64)
        rounded = np.rint(np.clip(answers, -MOST_RECORDS, MOST_RECORDS)).astype(np.int64)
        np.add.at(sums, group, np.abs(rounded - self._numbers))
        return Exact(sums, in_all=len(sums))

    def nearness(self, expected: Integers, place: int, among: NDArray[np.bool_]) -> Exact:
        """Minus the distance from 0 of the `place`-th least of (entries − expected), per row of `expected`.
        [P16]

        expected: shape (n, entries). among: the entries that count. An order statistic changes by no more
            than the entries do.
        """
        ordered = np.sort((self._numbers - expected)[:, among], axis=1)
        scores = -np.abs(ordered[:, place])
        return Exact(scores, in_all=len(scores))

    @property
    def _numbers(self) -> Integers:
        if isinstance(self._exact_value, dict):
            _refuse()
        numbers: Integers = self._exact_value
        return numbers

    def __repr__(self) -> str:
        return "Exact(not released)"

    __array__ = __float__ = __int__ = __complex__ = __index__ = __bool__ = __str__ = __format__ = _refuse
    __iter__ = __len__ = __getitem__ = __contains__ = __reversed__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = __round__ = __abs__ = __neg__ = _refuse


def unprotected(exact: Exact) -> NDArray[Any]:
    """The value itself, for tables without personal data: invented ones and benchmarks.

    A test of the architecture allows this name only in `forecast` and outside the package.
    """
    return exact._numbers
