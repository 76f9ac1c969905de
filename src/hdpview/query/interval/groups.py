"""The groups of a question, and quantities in all of them at once.

Groups by plain attributes form a grid and are evaluated together. Any other groups are listed, each with its
boxes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
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


class Groups:
    """Groups by the values of attributes that a filter leaves possible; one group without attributes.

    cells: their places in the grid of all values. rows: shape (n_axes, n_groups): which key of each axis a
    group has.
    """

    def __init__(self, view: ViewData, where: Sequence[Box], axes: Sequence[Axis] = ()) -> None:
        self.view, self.where, self.axes = view, where, axes
        self.attributes = [axis.attribute for axis in axes]
        self.shape = tuple(len(axis.keys) for axis in axes)
        check_number_of_groups(math.prod(self.shape))
        self.cells, self.rows = np.zeros(1, np.int64), np.zeros((0, 1), np.int64)
        if axes:
            self.cells = np.flatnonzero(self._possible_cells())
            self.rows = np.array(np.unravel_index(self.cells, self.shape), dtype=np.int64)

    def reaching_bins(self) -> Groups | None:
        """The same groups with the bins that hold values beyond the bounds; None if none is asked for."""
        where = reaching_bins(self.where, self.view.schema)
        if where == list(self.where):
            return None
        clamped = copy(self)
        clamped.__dict__.pop("boxes", None)
        clamped.where = where
        return clamped

    def __len__(self) -> int:
        return len(self.cells)

    def keys(self, axis: int) -> list[Any]:
        """The key of every group along one axis."""
        keys = self.axes[axis].keys
        return [keys[row] for row in self.rows[axis].tolist()]

    @cached_property
    def boxes(self) -> list[Sequence[Box]]:
        """The boxes of every group."""
        if len(self) > _MAX_LISTED:
            raise QueryError(
                f"That takes {len(self):,} groups one by one; the limit is {_MAX_LISTED:,}. Group by "
                "fewer attributes."
            )
        places = self.rows.T.tolist()
        own = ([axis.boxes[row] for axis, row in zip(self.axes, place, strict=True)] for place in places)
        return [reduce(intersect, boxes, self.where) for boxes in own]

    def evaluation(self, quantity: Quantity) -> Evaluation:
        """A quantity in every group, with its errors."""
        evaluation = evaluate(self.view, self._asked(quantity))
        return evaluation.only(self.cells) if self._grids else evaluation

    def estimates(self, quantity: Quantity) -> Floats:
        """The consistent estimate of a quantity in every group, without its errors."""
        estimated = estimates(self.view, self._asked(quantity))
        return estimated[self.cells] if self._grids else estimated

    def covariances(self, quantities: Sequence[Quantity]) -> Floats:
        """Expected products of the errors of quantities in every group, shape (m, m, n_groups)."""
        blocks = any(isinstance(part.components, Blocks) for part in self.view.parts)
        if blocks or not self._grids:
            listed = [self.quantities(quantity) for quantity in quantities]
            return covariances(self.view, [pack(own, self.view.schema) for own in listed], listed)
        return covariances(self.view, list(map(self._asked, quantities)))[..., self.cells]

    def _asked(self, quantity: Quantity) -> Batch | Grids:
        """The quantity in every group, or in every cell of the grid whose cells are groups."""
        if not self._grids:
            return pack(self.quantities(quantity), self.view.schema)
        return pack_grids(cut(quantity, self.where), self._grids, self.view.schema)

    @property
    def _grids(self) -> Sequence[Sequence[int]]:
        """The attributes of each grid of cells."""
        return [self.attributes] if self.attributes else []

    def quantities(self, quantity: Quantity) -> list[Quantity]:
        """The quantity cut to every group."""
        return [cut(quantity, own) for own in self.boxes]

    def guaranteed(self, quantity: Quantity, confidence: float) -> Floats:
        """Ends of the interval that holds whatever the data, shape (n_groups, 2)."""
        return guaranteed(self.view, self.quantities(quantity), confidence)

    def _possible_cells(self) -> NDArray[np.bool_]:
        """Cells of the grid that any box of the filter meets, flat."""
        schema, possible = self.view.schema, np.zeros(self.shape, dtype=bool)
        for box in self.where:
            if self._is_possible(box):
                possible |= reduce(np.logical_and.outer, [_possible(schema, box, a) for a in self.attributes])
        return possible.reshape(-1)

    def _is_possible(self, box: Box) -> bool:
        attributes = self.view.schema.attributes
        return all(bool(reach(attributes[a], condition).possible.any()) for a, condition in box.items())


class Histograms(Groups):
    """The codes of several attributes, one attribute after another: each attribute's own histogram."""

    def __init__(self, view: ViewData, where: Sequence[Box], attributes: Sequence[int]) -> None:
        self.view, self.where, self.attributes = view, where, list(attributes)
        self.axes = [attribute_axis(view.schema, a) for a in attributes]
        self.shape = (sum(len(axis.keys) for axis in self.axes),)
        check_number_of_groups(self.shape[0])
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
        possible = [np.zeros(schema.sizes[a], dtype=bool) for a in self.attributes]
        for box in boxes:
            for a, own in zip(self.attributes, possible, strict=True):
                own |= _possible(schema, box, a)
        return np.concatenate([np.zeros(0, dtype=bool), *possible])


def _possible(schema: Schema, box: Box, a: int) -> NDArray[np.bool_]:
    """Codes of an attribute that records of a box may have, shape (size,)."""
    if a not in box:
        return np.ones(schema.sizes[a], dtype=bool)
    return reach(schema.attributes[a], box[a]).possible
