"""The groups of a question, and quantities in all of them at once.

Groups by plain attributes form a grid and are evaluated together. Any other groups are listed, each with its
boxes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import copy
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Schema
from hdpview.errors import QueryError
from hdpview.query.bounds.guaranteed import guaranteed
from hdpview.query.errors.closed import Evaluation, covariances, evaluate
from hdpview.query.estimate.estimates import check_number_of_groups, estimates
from hdpview.query.question.axes import Axis, attribute_axis
from hdpview.query.question.batch import Batch, Grids, pack, pack_grids
from hdpview.query.question.boxes import Box, intersect, reaching_bins
from hdpview.query.question.conditions import reach
from hdpview.query.question.quantities import Quantity, cut
from hdpview.view.blocks import Blocks
from hdpview.view.data import ViewData

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_MAX_LISTED = 20_000
_MAX_LISTED_BOXES = 100_000


class Groups:
    """Groups that a filter leaves possible, in the order of their keys' axes, the last running fastest.

    rows: shape (n_axes, n_groups): which key of each axis a group has.
    """

    def __init__(
        self, view: ViewData, where: Sequence[Box], axes: Sequence[Axis] = (), keep_empty: bool = True
    ) -> None:
        self.view, self.where, self.axes = view, where, axes
        numbers = [axis.attribute for axis in axes]
        self.attributes = [a for a in numbers if a is not None]
        self.shape = tuple(len(axis.keys) for axis in axes)
        check_number_of_groups(math.prod(self.shape))
        self._listed: list[tuple[tuple[int, ...], Sequence[Box]]] | None = None
        if axes and len(set(numbers)) == len(axes) and None not in numbers:
            self.cells = np.flatnonzero(self._possible_cells())
            self.rows = np.array(np.unravel_index(self.cells, self.shape), dtype=np.int64)
            return
        self._listed = [
            (place, boxes)
            for place, boxes in self._list()
            if keep_empty or any(map(self._is_possible, boxes))
        ]
        places = [place for place, _ in self._listed]
        self.rows = np.array(places, dtype=np.int64).reshape(len(places), len(axes)).T

    def reaching_bins(self) -> Groups | None:
        """The same groups of all records that may be asked for, where the filter lies beyond the schema's
        bounds.

        None where it does not.
        """
        where = reaching_bins(self.where, self.view.schema)
        if where == list(self.where):
            return None
        found = copy(self)
        found.__dict__.pop("boxes", None)
        found.where = where
        if self._listed is not None:
            found._listed = [(place, reaching_bins(own, self.view.schema)) for place, own in self._listed]
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
        return self.boxes_of_axes(range(len(self.axes)))

    def boxes_of_axes(self, chosen: Sequence[int]) -> list[Sequence[Box]]:
        """The filter's boxes with the keys that every group has on some of the axes."""
        if len(self) > _MAX_LISTED:
            raise QueryError(
                f"That takes {len(self):,} groups one by one; the limit is {_MAX_LISTED:,}. Group by "
                "fewer attributes."
            )
        known: dict[tuple[int, ...], Sequence[Box]] = {}
        found = []
        for place in (
            zip(*(self.rows[axis].tolist() for axis in chosen), strict=True) if chosen else [()] * len(self)
        ):
            if place not in known:
                boxes = [self.axes[axis].boxes[row] for axis, row in zip(chosen, place, strict=True)]
                known[place] = reduce(intersect, boxes, self.where)
            found.append(known[place])
        return found

    def evaluation(self, quantity: Quantity) -> Evaluation:
        """A quantity in every group, with its errors."""
        found = evaluate(self.view, self._asked(quantity))
        return found if self._listed is not None else found.only(self.cells)

    def estimates(self, quantity: Quantity) -> Floats:
        """The consistent estimate of a quantity in every group, without its errors."""
        found = estimates(self.view, self._asked(quantity))
        return found if self._listed is not None else found[self.cells]

    def covariances(self, quantities: Sequence[Quantity]) -> Floats:
        """Expected products of the errors of quantities in every group, shape (m, m, n_groups)."""
        blocks = any(isinstance(part.components, Blocks) for part in self.view.parts)
        if self._listed is not None or blocks:
            listed = [self.quantities(quantity) for quantity in quantities]
            return covariances(self.view, [pack(own, self.view.schema) for own in listed], listed)
        return covariances(self.view, list(map(self._asked, quantities)))[..., self.cells]

    def _asked(self, quantity: Quantity) -> Batch | Grids:
        """The quantity in every group, or in every cell of the grid whose cells are groups."""
        if self._listed is not None:
            return pack(self.quantities(quantity), self.view.schema)
        return pack_grids(cut(quantity, self.where), self._grids, self.view.schema)

    @property
    def _grids(self) -> Sequence[Sequence[int]]:
        """The attributes of each grid of cells."""
        return [self.attributes]

    def quantities(self, quantity: Quantity) -> list[Quantity]:
        """The quantity cut to every group."""
        return [cut(quantity, own) for own in self.boxes]

    def guaranteed(self, quantity: Quantity, confidence: float) -> Floats:
        """Ends of the interval that holds whatever the data, shape (n_groups, 2)."""
        return guaranteed(self.view, self.quantities(quantity), confidence)

    def _possible_cells(self) -> NDArray[np.bool_]:
        """Cells of the grid that any box of the filter meets, flat."""
        schema, found = self.view.schema, np.zeros(self.shape, dtype=bool)
        for box in self.where:
            if self._is_possible(box):
                found |= reduce(np.logical_and.outer, [_possible(schema, box, a) for a in self.attributes])
        return found.reshape(-1)

    def _is_possible(self, box: Box) -> bool:
        attributes = self.view.schema.attributes
        return all(bool(reach(attributes[a], condition).possible.any()) for a, condition in box.items())

    def _list(self) -> Iterator[tuple[tuple[int, ...], Sequence[Box]]]:
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


class Histograms(Groups):
    """The codes of several attributes, one attribute after another, as groups: each attribute's own
    histogram.
    """

    def __init__(self, view: ViewData, where: Sequence[Box], attributes: Sequence[int]) -> None:
        self.view, self.where, self.attributes = view, where, list(attributes)
        self.axes = [attribute_axis(view.schema, a) for a in attributes]
        self.shape = (sum(len(axis.keys) for axis in self.axes),)
        check_number_of_groups(self.shape[0])
        self._listed = None
        self.cells = np.flatnonzero(self._possible_cells())
        self.rows = np.zeros((0, len(self.cells)), dtype=np.int64)

    @cached_property
    def boxes(self) -> list[Sequence[Box]]:
        every = [intersect(self.where, own) for axis in self.axes for own in axis.boxes]
        return [every[cell] for cell in self.cells.tolist()]

    @property
    def _grids(self) -> Sequence[Sequence[int]]:
        return [[a] for a in self.attributes]

    def _possible_cells(self) -> NDArray[np.bool_]:
        schema, boxes = self.view.schema, [box for box in self.where if self._is_possible(box)]
        found = [np.zeros(schema.sizes[a], dtype=bool) for a in self.attributes]
        for box in boxes:
            for a, own in zip(self.attributes, found, strict=True):
                own |= _possible(schema, box, a)
        return np.concatenate([np.zeros(0, dtype=bool), *found])


def _possible(schema: Schema, box: Box, a: int) -> NDArray[np.bool_]:
    """Codes of an attribute that records of a box may have, shape (size,)."""
    if a not in box:
        return np.ones(schema.sizes[a], dtype=bool)
    return reach(schema.attributes[a], box[a]).possible
