"""Counts of groups: of the cells of a grid of values, or of the values of several attributes one by one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpview.errors import QueryError
from hdpview.query.bounds.guaranteed import guaranteed
from hdpview.query.bounds.noise import check_confidence
from hdpview.query.errors.closed import evaluate
from hdpview.query.errors.ends import Estimates
from hdpview.query.estimate.estimates import check_number_of_groups, estimates
from hdpview.query.interval.answers import CountKind, IntervalKind, check_kinds, noise_ends, typical_ends
from hdpview.query.question.axes import attribute_axis
from hdpview.query.question.batch import Batch, Grids, pack, pack_grids
from hdpview.query.question.boxes import Box, intersect, reaching
from hdpview.query.question.conditions import reach
from hdpview.query.question.quantities import count_of
from hdpview.view.data import ViewData

_MAX_LISTED = 20_000


class Groups:
    """Groups by the values of attributes that a filter leaves possible; one group without attributes.

    apart: groups by the values of each attribute alone, one attribute after another.
    cells: places of the groups in the grid of all values, or in all grids. rows: shape (n_attributes,
    n_groups): the index of a group's key on each axis; apart, shape (1, n_groups), of all axes in turn.
    """

    def __init__(
        self, view: ViewData, where: Sequence[Box], attributes: Sequence[int] = (), apart: bool = False
    ) -> None:
        self.view, self.where = view, where
        self.axes = [attribute_axis(view.schema, a) for a in attributes]
        self.grids = [[a] for a in attributes] if apart else [list(attributes)]
        shapes = [tuple(view.schema.sizes[a] for a in grid) for grid in self.grids]
        self.shape = (sum(map(math.prod, shapes)),) if apart else shapes[0]
        check_number_of_groups(math.prod(self.shape))
        possible = [np.full(shape, not attributes) for shape in shapes]
        for codes in self._possible_codes():
            for flags, grid in zip(possible, self.grids, strict=True):
                flags |= reduce(np.logical_and.outer, (codes[a] for a in grid), np.array(True))
        self.cells = np.flatnonzero(np.concatenate([flags.reshape(-1) for flags in possible]))
        places = np.unravel_index(self.cells, self.shape) if attributes else ()
        self.rows = np.array(places, np.int64).reshape(len(self.shape), len(self.cells))

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
        every = [boxes for axis in self.axes for boxes in axis.boxes]
        first = np.cumsum([0, *(len(axis.keys) for axis in self.axes)])[: len(self.rows), None]
        places = (self.rows + first).T.tolist()
        return [reduce(intersect, (every[i] for i in own), self.where) for own in places]

    def counts(
        self,
        confidence: float = 0.95,
        counts: CountKind = "consistent",
        interval: IntervalKind | None = "typical",
    ) -> Estimates:
        """The count of every group. interval: None for estimates alone; the ends are NaN then."""
        check_confidence(confidence)
        check_kinds(counts, interval or "typical")
        floor = 0.0 if counts == "consistent" else -np.inf
        if interval is None and counts == "consistent":
            estimate = estimates(self.view, self._asked(self.where))[self.cells]
            return Estimates(estimate, *np.full((2, len(self)), np.nan))
        of = evaluate(self.view, self._asked(self.where)).only(self.cells)
        estimate = of.raw if counts == "raw" else of.estimate
        if interval is None:
            return Estimates(estimate, *np.full((2, len(self)), np.nan))
        if interval == "noise":
            lower, upper = noise_ends(of, confidence)
        elif interval == "guaranteed":
            lower, upper = guaranteed(self.view, self.boxes, confidence).T
        else:
            lower, upper = typical_ends(of, confidence, counts)
            # If conditions are open, ends include all records that may satisfy them.
            least, most = (reaching(self.where, self.view.schema, upper) for upper in (False, True))
            if least is not None and most is not None:
                low, high = (
                    evaluate(self.view, self._asked(each)).only(self.cells) for each in (least, most)
                )
                lower = typical_ends(low, confidence, counts)[0]
                upper = typical_ends(high, confidence, counts)[1]
        return Estimates(estimate, lower, upper).within(floor, np.inf)

    def _asked(self, where: Sequence[Box]) -> Batch | Grids:
        """The records of a filter: all of them, or in every cell of the grids whose cells are groups."""
        if not self.axes:
            return pack([count_of(where)], self.view.schema)
        return pack_grids(count_of(where), self.grids, self.view.schema)

    def _possible_codes(self) -> Iterator[dict[int, NDArray[np.bool_]]]:
        """Per box of the filter that holds any values: the codes that its records may have, per attribute."""
        attributes = self.view.schema.attributes
        for box in self.where:
            possible = {a: reach(attributes[a], condition).possible for a, condition in box.items()}
            if all(own.any() for own in possible.values()):
                every = {axis.attribute: np.ones(len(axis.keys), dtype=bool) for axis in self.axes}
                yield every | possible
