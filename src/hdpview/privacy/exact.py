"""Exact values: what was counted in a table and has not been released.

An `Exact` knows how much one record can change it, and gives its value to nobody but a `Mechanism`. It
cannot become an array, a number, a text or a truth value; each attempt raises a TypeError. What methods
need of it before noise is drawn are transforms that are `Exact` again. They compute in whole numbers, since
doubles round, and then one record could move a score by more than it says.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# Records; sums of counts stop here. Far beyond any table, exact as a double, and no two tables get further
# apart.
MOST_RECORDS = 2**52


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise TypeError(
        "This value is exact: it was counted in the table and no noise has been added. "
        "It can be released by a Mechanism, which charges for it, and in no other way."
    )


class Exact:
    """Whole numbers counted in the table. One record changes each by one at most, and all of them together by
    `in_all`: by one in a table of counts, by more where entries overlap.
    """

    __slots__ = ("_exact_value", "in_all")
    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None

    def __init__(self, value: Integers | dict[str, int], *, in_all: int = 1) -> None:
        self._exact_value: Any = value
        self.in_all = in_all

    @property
    def shape(self) -> tuple[int, ...]:
        """Public: tables, boxes and blocks are chosen without looking at the table."""
        return self._numbers.shape

    def total(self) -> Exact:
        """The sum of all entries of a table of counts, shape (1,)."""
        if self.in_all != 1:
            _refuse()
        return Exact(np.array([min(sum(self._numbers.reshape(-1).tolist()), MOST_RECORDS)]))

    def apart(self) -> Exact:
        """The same entries, of which the caller vouches that a record counts in one at most."""
        return Exact(self._exact_value)

    def errors(self, answers: Floats, group: Integers) -> Exact:
        """Σ |answer − count| per group, in whole records, shape (n_groups,). [P16]

        group: of each entry. The caller vouches that a record counts in one entry of a group at most.
        """
        sums = np.zeros(int(group[-1]) + 1, np.int64)
        whole = np.rint(np.clip(answers, -MOST_RECORDS, MOST_RECORDS)).astype(np.int64)
        np.add.at(sums, group, np.abs(whole - self._numbers))
        return Exact(sums, in_all=len(sums))

    def nearness(self, expected: Integers, place: int, among: NDArray[np.bool_]) -> Exact:
        """Minus the distance from 0 of the `place`-th least of (entries − expected), per row of `expected`.
        [P16]

        expected: shape (n, entries). among: the entries that count. An order statistic moves by no more
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
    """The value itself, for tables in which nobody's data are: invented ones and benchmarks.

    A test of the architecture allows this name in `forecast` and outside the package alone.
    """
    return exact._numbers
