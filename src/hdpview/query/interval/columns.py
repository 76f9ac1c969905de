"""Columns of results: numbers with NaN for NULL, or any values, as Arrow and as plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hdpview.domain import calendar
from hdpview.query.question.axes import BinLabel


class Column(NamedTuple):
    """A column of a result; `values` per row: numbers with NaN for NULL, or any objects with None."""

    name: str
    values: NDArray[np.float64] | list[Any]
    of_moments: bool = False

    def taken(self, order: NDArray[np.int64]) -> Column:
        """Some of the rows, in this order."""
        if isinstance(self.values, np.ndarray):
            return self._replace(values=self.values[order])
        return self._replace(values=[self.values[i] for i in order.tolist()])

    def objects(self) -> list[Any]:
        """Python values; None for NULL, bins as they are."""
        if isinstance(self.values, np.ndarray):
            return as_objects(self.values, self.of_moments)
        return list(self.values)

    def plain(self) -> list[Any]:
        """Plain Python values; None for NULL, bins as texts."""
        return [str(value) if isinstance(value, BinLabel) else value for value in self.objects()]

    def arrow(self) -> pa.Array:
        """The column as Arrow: NaN is null, bins are texts."""
        if isinstance(self.values, np.ndarray) and not self.of_moments:
            return pa.array(self.values, mask=np.isnan(self.values))
        values = self.plain()
        try:
            return pa.array(values)
        except (pa.ArrowException, OverflowError):  # a column of several types
            return pa.array([None if value is None else str(value) for value in values])


def as_objects(column: NDArray[np.float64], of_moments: bool) -> list[Any]:
    """Numbers as Python values, microseconds as datetimes where they stand for such; None for NaN."""
    show: Callable[[float], Any] = as_moment if of_moments else lambda x: x
    return [None if math.isnan(x) else show(x) for x in column.tolist()]


def as_moment(microseconds: float) -> Any:
    return calendar.moment(round(microseconds))


def arrow_table(columns: list[Column]) -> pa.Table:
    return pa.table([column.arrow() for column in columns], names=[column.name for column in columns])
