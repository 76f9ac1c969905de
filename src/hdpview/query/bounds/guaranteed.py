"""Intervals that hold for any data: noise, and the worst case of everything that was not counted.

Blocks: a question counts all records of blocks inside it, and between none and all of those that it cuts.
Released tables: a question counts at most the records in the cells that it touches, in the table where they
are fewest (Fréchet), and at least as many as inclusion–exclusion implies. Noisy bounds are combined and share
the allowed probability of failure.
All questions to a view share its noise, so these intervals use only a fiftieth of the requested probability
of failure: at 95%, they hold 99.9% of the true values.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Schema
from hdpview.query.bounds.noise import NoiseLaw, confidence_of_each, half_width
from hdpview.query.question.boxes import Box
from hdpview.query.question.conditions import reach
from hdpview.view.blocks import Blocks
from hdpview.view.data import ViewData, ViewPart
from hdpview.view.released_tables import Table

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
_CHANCE_USED = 0.02  # share of the requested probability of failure


def guaranteed(view: ViewData, counts: Sequence[Sequence[Box]], confidence: float) -> Floats:
    """Lower and upper ends of the numbers of records in lists of disjoint boxes, shape (n, 2)."""
    each = confidence_of_each(len(view.parts), 1.0 - _CHANCE_USED * (1.0 - confidence))
    ends = np.zeros((len(counts), 2))
    reached = [[_Reached.of(box, view.schema) for box in boxes] for boxes in counts]
    for part in view.parts:
        bounds = _from_blocks if isinstance(part.components, Blocks) else _from_tables
        ends += bounds(part, reached, each)
    return ends


class _Reached(NamedTuple):
    """Codes whose records certainly lie in a box, and those whose records may, attribute → shape (size,)."""

    certain: dict[int, Flags]
    possible: dict[int, Flags]

    @classmethod
    def of(cls, box: Box, schema: Schema) -> _Reached:
        codes = {a: reach(schema.attributes[a], condition) for a, condition in box.items()}
        return cls(
            {a: own.certain for a, own in codes.items()}, {a: own.possible for a, own in codes.items()}
        )


# From blocks


def _from_blocks(part: ViewPart, counts: Sequence[Sequence[_Reached]], confidence: float) -> Floats:
    """A block that some box covers counts all of its records; one that any box touches may."""
    blocks = part.components
    assert isinstance(blocks, Blocks)
    law, ends = NoiseLaw(blocks.noise_scale), np.empty((len(counts), 2))
    for q, boxes in enumerate(counts):
        covered, touched = np.zeros((2, len(blocks)))
        for box in boxes:
            covered = np.maximum(covered, _share(blocks, box.certain) == 1.0)
            touched = np.maximum(touched, _share(blocks, box.possible) > 0.0)
        for side, weight in enumerate((covered, touched)):
            width = _weighted_width(weight, law, confidence)
            ends[q, side] = weight @ blocks.raw_weight + (2 * side - 1) * width
    return ends


def _share(blocks: Blocks, codes: dict[int, Flags]) -> Floats:
    """Share of each block whose codes are among these: exactly 1 or 0 if all or none are."""
    share = np.ones(len(blocks))
    for a, chosen in codes.items():
        share *= blocks.factors(a, chosen[None].astype(np.float64))[0]
    return share


def _weighted_width(weight: Floats, law: NoiseLaw, confidence: float) -> float:
    """Half the width of the interval that holds the sum of noises with these weights."""
    largest = float(np.abs(weight).max(initial=0.0))
    squares = (weight / (largest or 1.0)) ** 2
    variance, fourth = np.array([law.variance, law.excess_kurtosis * law.variance**2])[:, None]
    width = half_width(variance * squares.sum(), fourth * (squares**2).sum(), np.ones(1), law, confidence)
    return largest * float(width[0])


# From tables


def _from_tables(part: ViewPart, counts: Sequence[Sequence[_Reached]], confidence: float) -> Floats:
    tables = _table_bounds(part)
    return np.array([tables.of(boxes, confidence) for boxes in counts]).reshape(-1, 2)


class _Sum(NamedTuple):
    """A sum of cells of a table with weights, and the law of the noise of each."""

    value: float
    weight: Floats
    law: NoiseLaw

    def end(self, side: int, confidence: float) -> float:
        """The lower (0) or upper (1) bound of the sum without noise."""
        return self.value + (2 * side - 1) * _weighted_width(self.weight, self.law, confidence)


class _TableBounds:
    """Bounds on quantities from the released tables of one part."""

    def __init__(self, part: ViewPart) -> None:
        self.tables = part.tables
        single = (table for table in self.tables if len(table.attributes) == 1)
        self.of_attribute = {table.attributes[0]: table for table in single}
        self.measured = {frozenset(table.attributes) for table in self.tables}
        # the last of equally precise tables
        self.of_total = min(reversed(self.tables), key=lambda table: table.counts.size * table.variance)

    def of(self, boxes: Sequence[_Reached], confidence: float) -> tuple[float, float]:
        """Boxes are disjoint, so their bounds add up; each gets its part of the probability of failure."""
        each = confidence_of_each(len(boxes), confidence)
        ends = [self._of_box(box, each) for box in boxes]
        return sum(low for low, _ in ends), sum(high for _, high in ends)

    def _of_box(self, box: _Reached, confidence: float) -> tuple[float, float]:
        uppers, lowers = self._uppers(box.possible), self._lowers(box.certain)
        level = confidence_of_each(len(uppers) + sum(map(len, lowers)), confidence)
        most = max(0.0, min(sums.end(1, level) for sums in uppers))
        # Each chain: the minimum of the first sum, minus the maximum of all others.
        least = max(
            0.0,
            *(
                chain[0].end(0, level) - sum(max(0.0, sums.end(1, level)) for sums in chain[1:])
                for chain in lowers
            ),
        )
        return min(least, most), most

    def _uppers(self, possible: dict[int, Flags]) -> list[_Sum]:
        """Sums that include every record that satisfies all conditions."""
        if not possible:
            return [self._sum(self.of_total, {})]
        return [
            self._sum(table, possible, touched=True)
            for table in self.tables
            if self._tells(table, set(possible))
        ] or [self._sum(self.of_total, {})]

    def _tells(self, table: Table, asked: set[int]) -> bool:
        """Whether the question restricts all attributes of a table, or two that only larger tables count
        together.
        """
        inside = asked.intersection(table.attributes)
        return len(inside) == len(table.attributes) or (
            len(inside) == 2 and frozenset(inside) not in self.measured
        )

    def _lowers(self, certain: dict[int, Flags]) -> list[list[_Sum]]:
        """Chains of sums: the first minus the others counts only records that satisfy all conditions."""
        if not certain:
            return [[self._sum(self.of_total, {})]]
        chains = []
        for table in self.tables:
            if self._tells(table, set(certain)):
                inside = set(table.attributes) & set(certain)
                others = [a for a in certain if a not in inside]
                chains.append(
                    [
                        self._sum(table, certain),
                        *(self._sum(self.of_attribute[a], {a: ~certain[a]}, touched=True) for a in others),
                    ]
                )
        return chains

    def _sum(self, table: Table, codes: dict[int, Flags], touched: bool = False) -> _Sum:
        """The cells of a table all of whose codes are chosen; with `touched`, all with any chosen code."""
        weight = np.ones(())
        for a, bins in zip(table.attributes, table.shape.bin_of_code, strict=True):
            hits, sizes = np.bincount(bins, codes.get(a, np.ones(len(bins)))), np.bincount(bins)
            inside = (hits > 0 if touched else hits == sizes).astype(np.float64)
            weight = np.multiply.outer(weight, inside)
        flat = weight.reshape(-1)
        return _Sum(float(flat @ table.counts.reshape(-1)), flat, NoiseLaw(table.scale, table.noise))


_table_bounds = lru_cache(maxsize=64)(_TableBounds)
