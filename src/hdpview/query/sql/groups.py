"""The groups of a statement, and aggregates in all of them at once.

Groups by plain attributes form a grid and are painted. Any other groups are listed, each with its boxes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpview.errors import QueryError
from hdpview.query.boxes import Box, intersect, pack
from hdpview.query.grouped import check_number_of_groups, summarise_groups
from hdpview.query.sql.axes import Axis
from hdpview.query.sum_summary import SumSummary, scaled, take
from hdpview.query.summary import Summary, summarise
from hdpview.query.sums import Part, summarise_group_sums, summarise_sums
from hdpview.view.data import ViewData

_MAX_LISTED = 20_000
_MAX_LISTED_BOXES = 100_000
EVERYTHING: Sequence[Box] = ({},)


class Groups:
    """Groups that a filter leaves, in the order of their keys' axes, the last running fastest.

    rows: shape (n_axes, n_groups): which key of each axis a group has.
    """

    def __init__(self, view: ViewData, where: Sequence[Box], axes: Sequence[Axis], keep_empty: bool) -> None:
        self.view, self.where, self.axes = view, where, axes
        numbers = [axis.attribute for axis in axes]
        self.attributes = [a for a in numbers if a is not None]
        self.shape = tuple(len(axis.keys) for axis in axes)
        on_grid = bool(axes) and len(set(numbers)) == len(axes) and None not in numbers
        self._grid = summarise_groups(view.blocks, view.schema, where, self.attributes) if on_grid else None
        if self._grid is not None:
            self.cells = np.flatnonzero(self._grid.n_touched)
            self.rows = np.array(np.unravel_index(self.cells, self.shape), dtype=np.int64)
            self._listed: list[tuple[tuple[int, ...], Sequence[Box]]] | None = None
            return
        self._listed = list(self._list())
        if not keep_empty:
            kept = np.flatnonzero(self.counts(EVERYTHING).n_touched)
            self._listed = [self._listed[i] for i in kept]
            self.__dict__.pop("boxes", None)
        self.rows = (
            np.array([place for place, _ in self._listed], dtype=np.int64)
            .reshape(len(self._listed), len(axes))
            .T
        )

    def only(self, kept: NDArray[np.int64]) -> Groups:
        """Some of the groups, by their numbers."""
        found = copy(self)
        found.__dict__.pop("boxes", None)
        found.rows = self.rows[:, kept]
        if self._listed is not None:
            found._listed = [self._listed[i] for i in kept.tolist()]
        else:
            found.cells = self.cells[kept]
        return found

    def __len__(self) -> int:
        return len(self._listed) if self._listed is not None else len(self.cells)

    def keys(self, axis: int) -> list[Any]:
        """The key of every group along one axis."""
        keys = self.axes[axis].keys
        return [keys[row] for row in self.rows[axis].tolist()]

    @cached_property
    def boxes(self) -> list[Sequence[Box]]:
        """The boxes of every group."""
        if self._listed is not None:
            return [boxes for _, boxes in self._listed]
        if len(self) > _MAX_LISTED:
            raise QueryError(
                f"That takes {len(self):,} groups one by one; the limit is {_MAX_LISTED:,}. Group by fewer attributes."
            )
        of_axes = [
            [axis.boxes[row] for row in rows]
            for axis, rows in zip(self.axes, self.rows.tolist(), strict=True)
        ]
        return [list(_all_of(self.where, boxes)) for boxes in zip(*of_axes, strict=True)]

    def _list(self) -> Iterator[tuple[tuple[int, ...], Sequence[Box]]]:
        check_number_of_groups(math.prod(self.shape))
        n_groups = n_boxes = 0
        partial: list[tuple[tuple[int, ...], Sequence[Box]]] = [((), self.where)]
        for axis in self.axes:
            wider = ((place, boxes, key) for place, boxes in partial for key in range(len(axis.keys)))
            partial = []
            for place, boxes, key in wider:
                inside = intersect(boxes, axis.boxes[key])
                n_groups, n_boxes = n_groups + 1, n_boxes + len(inside)
                if n_groups > _MAX_LISTED * 5 or n_boxes > _MAX_LISTED_BOXES or len(partial) > _MAX_LISTED:
                    raise QueryError(
                        "The groups fall apart into too many boxes. Group by plain attributes, or by fewer."
                    )
                if inside:
                    partial.append(((*place, key), inside))
        yield from partial

    def counts(self, boxes: Sequence[Box]) -> Summary:
        """Count of the records of every group that lie in `boxes` too."""
        if self._listed is None:
            grid = self._grid if boxes is EVERYTHING or list(boxes) == [{}] else self._on_grid(boxes)
            if grid is not None:
                return take(grid, self.cells)
        return summarise(
            self.view.blocks, pack([intersect(own, boxes) for own in self.boxes], self.view.schema)
        )

    def _on_grid(self, boxes: Sequence[Box]) -> Summary | None:
        return summarise_groups(
            self.view.blocks, self.view.schema, intersect(self.where, boxes), self.attributes
        )

    def sums(self, parts: Sequence[Part]) -> SumSummary:
        """Sum of the values of the records of every group that lie in one of the parts."""
        blocks, schema = self.view.blocks, self.view.schema
        if self._listed is None:
            if len(parts) == 1 and parts[0].values.attribute in self.attributes:
                axis = self.attributes.index(parts[0].values.attribute)
                return scaled(self.counts([parts[0].box]), parts[0].values.mean[self.rows[axis]])
            whole = [Part(box, part.values) for part in parts for box in intersect(self.where, [part.box])]
            found = summarise_group_sums(blocks, schema, whole, self.attributes)
            if found is not None:
                taken = take(found, self.cells)
                assert isinstance(taken, SumSummary)
                return taken
        return summarise_sums(blocks, schema, self.parts(parts))

    def parts(self, parts: Sequence[Part]) -> list[list[Part]]:
        """The parts, cut to every group."""
        return [
            [Part(box, part.values) for part in parts for box in intersect(own, [part.box])]
            for own in self.boxes
        ]


def _all_of(where: Sequence[Box], boxes: Sequence[Sequence[Box]]) -> Sequence[Box]:
    for each in boxes:
        where = intersect(where, each)
    return where


def same_key_totals(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of the set of groups with equal keys that each group belongs to. rows: shape (n_axes,
    n_groups).
    """
    if not len(rows):
        return np.zeros(rows.shape[1], dtype=np.int64)
    return np.unique(rows, axis=1, return_inverse=True)[1].reshape(-1)
