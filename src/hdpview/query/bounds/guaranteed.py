"""Intervals that hold whatever the data: noise, and the worst case of everything that was not counted.

From blocks: those that lie inside the question hold at least their records, those it touches at most all of
theirs.
From released tables: no more records than in the smallest table's cells that the question touches (Fréchet),
and no fewer than inclusion and exclusion force. Several noisy bounds are in play, so each gets a part of the
chance to fail.
People ask one view many questions, and all of them meet the same noise; so of the chance to fail that is
asked for, these intervals use a fiftieth: at 95 % they hold 99.9 % of the truths.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Schema
from hdpview.errors import QueryError
from hdpview.query.bounds.noise import NoiseLaw, bounded_quantile, confidence_of_each
from hdpview.query.question.conditions import reach
from hdpview.query.question.quantities import ONE, Quantity
from hdpview.view.blocks import Blocks
from hdpview.view.data import ViewData, ViewPart
from hdpview.view.tables import Table

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
_CHANCE_USED = 0.02  # of the chance to fail that is asked for


def guaranteed(view: ViewData, quantities: Sequence[Quantity], confidence: float) -> Floats:
    """Lower and upper ends for every quantity, shape (n, 2)."""
    each = confidence_of_each(len(view.parts), 1.0 - _CHANCE_USED * (1.0 - confidence))
    ends = np.zeros((len(quantities), 2))
    for part in view.parts:
        bounds = _from_blocks if isinstance(part.components, Blocks) else _from_tables
        ends += bounds(part, quantities, view.schema, each)
    return ends


class _Bounds(NamedTuple):
    """A part of a quantity: codes that are certainly asked for, codes that possibly are, and what a record
    may add.

    certain, possible: attribute → shape (size,). least, greatest: values per code of `attribute`, or of all
        records.
    """

    certain: dict[int, Flags]
    possible: dict[int, Flags]
    attribute: int | None
    least: Floats
    greatest: Floats


def _bounds(quantity: Quantity, schema: Schema) -> list[_Bounds]:
    bounds = []
    for box, values, times in quantity:
        if times is not ONE:
            raise QueryError("No interval of this is guaranteed; ask for the typical one.")
        reached = {a: reach(schema.attributes[a], condition) for a, condition in box.items()}
        certain = {a: codes.certain for a, codes in reached.items()}
        possible = {a: codes.possible for a, codes in reached.items()}
        bounds.append(_Bounds(certain, possible, values.attribute, values.least, values.greatest))
    return bounds


# From blocks


def _from_blocks(part: ViewPart, quantities: Sequence[Quantity], schema: Schema, confidence: float) -> Floats:
    blocks = part.components
    assert isinstance(blocks, Blocks)
    law, noisy = NoiseLaw(blocks.noise_scale), blocks.noisy_counts.astype(np.float64)
    ends = np.empty((len(quantities), 2))
    for q, quantity in enumerate(quantities):
        for side, weight in enumerate(_extreme_weights(blocks, _bounds(quantity, schema))):
            ends[q, side] = weight @ noisy + (2 * side - 1) * _weighted_width(weight, law, confidence)
    return ends


def _extreme_weights(blocks: Blocks, parts: Sequence[_Bounds]) -> tuple[Floats, Floats]:
    """The least and the greatest that a record of each block may add, shape (n_blocks,) each."""
    n = len(blocks)
    least, greatest = np.full(n, np.inf), np.full(n, -np.inf)
    touched, covered = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    for part in parts:
        here = _share(blocks, part.possible) > 0
        low, high = _values_in_blocks(blocks, part)
        least, greatest = (
            np.where(here, np.minimum(least, low), least),
            np.where(here, np.maximum(greatest, high), greatest),
        )
        touched |= here
        covered |= _share(blocks, part.certain) == 1.0
    least, greatest = np.where(touched, least, 0.0), np.where(touched, greatest, 0.0)
    return np.where(covered, least, np.minimum(least, 0.0)), np.where(
        covered, greatest, np.maximum(greatest, 0.0)
    )


def _share(blocks: Blocks, codes: dict[int, Flags]) -> Floats:
    """Share of each block whose codes are among these: exactly 1 or 0 where it is all or nothing."""
    share = np.ones(len(blocks))
    for a, chosen in codes.items():
        share *= blocks.factors(a, chosen[None].astype(np.float64))[0]
    return share


def _values_in_blocks(blocks: Blocks, part: _Bounds) -> tuple[Floats, Floats]:
    """Least and greatest value among the codes of each block that may be asked for."""
    a = part.attribute
    if a is None:
        return np.full(len(blocks), part.least[0]), np.full(len(blocks), part.greatest[0])
    asked = part.possible.get(a, np.ones(len(part.least), dtype=bool))
    ends = np.stack([blocks.lower[:, a], blocks.upper[:, a]], axis=1).reshape(-1)
    least = np.append(np.where(asked, part.least, np.inf), np.inf)
    greatest = np.append(np.where(asked, part.greatest, -np.inf), -np.inf)
    return np.minimum.reduceat(least, ends)[::2], np.maximum.reduceat(greatest, ends)[::2]


def _weighted_width(weight: Floats, law: NoiseLaw, confidence: float) -> float:
    """Half the width of the interval that holds the sum of noises with these weights."""
    size = np.abs(weight)
    largest = float(size.max(initial=0.0))
    if largest == 0.0:
        return 0.0
    squares, fourths = float((size**2 / largest**2).sum()), float((size**4 / largest**4).sum())
    kurtosis = np.array([law.excess_kurtosis * fourths / squares**2])
    width = float(bounded_quantile(kurtosis, confidence)[0]) * np.sqrt(law.variance * squares) + 0.5
    return float(largest * max(width, law.quantile_of_one(confidence)))


# From tables


def _from_tables(part: ViewPart, quantities: Sequence[Quantity], schema: Schema, confidence: float) -> Floats:
    tables = _table_bounds(part)
    return np.array([tables.of(_bounds(quantity, schema), confidence) for quantity in quantities]).reshape(
        -1, 2
    )


class _Sum(NamedTuple):
    """A sum of cells of a table with weights, and the law of the noise of each."""

    value: float
    weight: Floats
    law: NoiseLaw

    def end(self, side: int, confidence: float) -> float:
        """The lower (0) or upper (1) end of what it may be without noise."""
        return self.value + (2 * side - 1) * _weighted_width(self.weight, self.law, confidence)


class _TableBounds:
    """Bounds on quantities from the released tables of one part."""

    def __init__(self, part: ViewPart) -> None:
        self.sizes, self.tables = part.components.sizes, part.tables
        single = (table for table in self.tables if len(table.attributes) == 1)
        self.of_attribute = {table.attributes[0]: table for table in single}
        self.measured = {frozenset(table.attributes) for table in self.tables}
        # Of tables that are equally precise, the last.
        self.of_total = min(reversed(self.tables), key=lambda table: table.counts.size * table.variance)

    def of(self, parts: Sequence[_Bounds], confidence: float) -> tuple[float, float]:
        """Parts are disjoint, so their bounds add up; each may fail with its part of the chance."""
        each = confidence_of_each(len(parts), confidence)
        ends = [self._of_part(part, each) for part in parts]
        return sum(low for low, _ in ends), sum(high for _, high in ends)

    def _of_part(self, part: _Bounds, confidence: float) -> tuple[float, float]:
        if part.attribute is not None:
            return self._of_values(part, confidence)
        uppers, lowers = self._uppers(part.possible), self._lowers(part.certain)
        level = confidence_of_each(len(uppers) + sum(map(len, lowers)), confidence)
        most = max(0.0, min(sums.end(1, level) for sums in uppers))
        # Of each chain: what the first sum holds at least, less what the others may take away at most.
        least = max(
            0.0,
            *(
                chain[0].end(0, level) - sum(max(0.0, sums.end(1, level)) for sums in chain[1:])
                for chain in lowers
            ),
        )
        value_low, value_high = float(part.least[0]), float(part.greatest[0])
        ends = [value * count for value in (value_low, value_high) for count in (min(least, most), most)]
        return min(ends), max(ends)

    def _uppers(self, possible: dict[int, Flags]) -> list[_Sum]:
        """Sums that hold at least as many records as satisfy all conditions."""
        if not possible:
            return [self._sum(self.of_total, {})]
        return [
            self._sum(table, possible, touched=True)
            for table in self.tables
            if self._tells(table, set(possible))
        ] or [self._sum(self.of_total, {})]

    def _tells(self, table: Table, asked: set[int]) -> bool:
        """Whether all attributes of a table are asked for, or two that only larger tables hold."""
        inside = asked.intersection(table.attributes)
        return len(inside) == len(table.attributes) or (
            len(inside) == 2 and frozenset(inside) not in self.measured
        )

    def _lowers(self, certain: dict[int, Flags]) -> list[list[_Sum]]:
        """Chains of sums: records of the first that no other takes away satisfy all conditions."""
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

    def _of_values(self, part: _Bounds, confidence: float) -> tuple[float, float]:
        """Sums of values: every record that may be asked for adds at most its greatest value, from its own
        histogram.
        """
        a = part.attribute
        assert a is not None
        table, possible = self.of_attribute[a], part.possible.get(a, np.ones(self.sizes[a], dtype=bool))
        certain = part.certain.get(a, np.ones(self.sizes[a], dtype=bool))
        alone = not set(part.possible) - {a}
        ends = []
        for side, values, limit in ((0, part.least, np.minimum), (1, part.greatest, np.maximum)):
            sure = certain & alone
            weight = np.where(possible, np.where(sure, values, limit(values, 0.0)), 0.0)
            of_bin = _extreme_of_bins(weight, table.shape.bin_of_code[0], side)
            law = NoiseLaw(table.scale, table.noise)
            value = float(of_bin @ table.counts.reshape(-1))
            ends.append(value + (2 * side - 1) * _weighted_width(of_bin, law, confidence))
        return ends[0], ends[1]

    def _sum(self, table: Table, codes: dict[int, Flags], touched: bool = False) -> _Sum:
        """The cells of a table all of whose codes are chosen; with `touched`, all with any chosen code."""
        weight = np.ones(())
        for a, bins in zip(table.attributes, table.shape.bin_of_code, strict=True):
            chosen = codes.get(a)
            n_bins = int(bins.max()) + 1
            if chosen is None:
                inside = np.ones(n_bins)
            else:
                hits = np.bincount(bins, chosen, n_bins)
                inside = (hits > 0 if touched else hits == np.bincount(bins, minlength=n_bins)).astype(
                    np.float64
                )
            weight = np.multiply.outer(weight, inside)
        flat = weight.reshape(-1)
        return _Sum(float(flat @ table.counts.reshape(-1)), flat, NoiseLaw(table.scale, table.noise))


_table_bounds = lru_cache(maxsize=64)(_TableBounds)


def _extreme_of_bins(weight: Floats, bins: NDArray[np.int32], side: int) -> Floats:
    extremes = np.full(int(bins.max()) + 1, -np.inf if side else np.inf)
    (np.maximum if side else np.minimum).at(extremes, bins, weight)
    return extremes
