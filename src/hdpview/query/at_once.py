"""All histograms under one filter, and its count, at once: how much of each block the filter asks for is
found once for all. In Numba.

One column of sums per code of each attribute, one attribute after the other, and a last one for the count.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Schema
from hdpview.query import base_noise
from hdpview.query.boxes import Box, pack
from hdpview.query.grouped import Shares, code_shares, tidied
from hdpview.query.summary import FULL, N_COLUMNS, Summary, over_base
from hdpview.view.blocks import Level
from hdpview.view.data import ViewData

Floats = NDArray[np.float64]
_MOST_KEPT = 8_000_000  # numbers, 64 MB
_kept = threading.local()


def can_be_at_once(view: ViewData, boxes: Sequence[Box], a: int) -> bool:
    """Whether the filter leaves an attribute to its blocks: it does not speak of it, or there is a base, and
    one box.
    """
    return not any(a in box for box in boxes) or (len(boxes) == 1 and bool(view.blocks.bases))


def summarise_at_once(view: ViewData, boxes: Sequence[Box], numbers: Sequence[int]) -> Summary:
    """What the blocks say to every code of these attributes under a filter, attribute by attribute, and last
    to the filter itself.
    """
    finest, *coarser = view.blocks.levels
    n = sum(view.schema.sizes[a] for a in numbers) + 1
    columns, of_coarser = np.zeros((N_COLUMNS, n)), np.zeros((len(coarser), 2, n))
    filter_ = (_OverBases if view.blocks.bases else _Evenly)(view, boxes, numbers)
    filter_.add(finest, view.blocks.noisy_counts.astype(np.float64), columns)
    for level, out in zip(coarser, of_coarser, strict=True):
        filter_.add(level, np.zeros(0), out)
    named = tidied(dict(zip((field.name for field in fields(Summary)), columns, strict=False)))
    of_coarser = np.maximum(of_coarser, 0.0)
    coarse = {"coarser_estimates": of_coarser[:, 0], "coarser_spreads": of_coarser[:, 1]}
    return Summary(**named, **coarse, **_of_base(view, boxes, numbers)._asdict())


@dataclass(frozen=True, eq=False)
class _Evenly:
    """Where records spread evenly, each block has one weight for all attributes."""

    view: ViewData
    boxes: Sequence[Box]
    numbers: Sequence[int]

    def add(self, level: Level, noisy: Floats, out: Floats) -> None:
        """Add what the blocks of a level say. noisy: their counts, of no length for coarser ones. out: (10,
        n), of coarser ones (2, n).
        """
        from hdpview.query import kernels

        shares = Shares(level, self.view.schema)
        of_boxes = [shares.of_box(box) for box in self.boxes]
        weight: Floats = np.sum([np.zeros(len(level.counts)), *of_boxes], axis=0)
        full: NDArray[np.bool_] = np.any(
            [np.zeros(len(weight), dtype=bool), *(of_box > FULL for of_box in of_boxes)], axis=0
        )
        first, count = 0, np.zeros(len(out))
        for a in self.numbers:
            of_attribute, found = (
                (level.lower[a], level.upper[a], level.inverse_width[a], weight),
                np.zeros((len(out), self._size(a) + 1)),
            )
            if len(noisy):
                kernels.histogram(*of_attribute, full, level.counts, noisy, FULL, found)
            else:
                kernels.coarser_histogram(*of_attribute, level.counts, FULL, found)
            out[:, first : first + self._size(a)] = found[:, :-1]
            first += self._size(a)
        if len(noisy):
            kernels.add_up(weight, full, level.counts, noisy, FULL, count)
        else:
            kernels.add_up_coarser(weight, level.counts, FULL, count)
        out[:, -1] = count

    def _size(self, a: int) -> int:
        return self.view.schema.sizes[a]


class _OverBases:
    """Where bases say how records spread, each block has a weight in each bin; part by part, since each may
    have a base of its own.
    """

    def __init__(self, view: ViewData, boxes: Sequence[Box], numbers: Sequence[int]) -> None:
        sizes = view.schema.sizes
        self._questions = [over_base(pack([boxes], view.schema), base) for base in view.blocks.bases]
        self._wanted = np.full(len(sizes), -1)
        self._wanted[list(numbers)] = np.cumsum([0, *(sizes[a] for a in numbers)])[:-1]
        asked = (
            boxes[0] if len(boxes) == 1 else {}
        )  # of several boxes, none speaks of an attribute that is wanted
        self._share = np.concatenate([code_shares(view.schema, a, asked.get(a)) for a in range(len(sizes))])

    def add(self, level: Level, noisy: Floats, out: Floats) -> None:
        """As `_Evenly.add`."""
        from hdpview.query import base_histograms

        for questions, within in zip(self._questions, level.within, strict=True):
            here = slice(within.first, within.last)
            counts = level.counts[here], noisy[here] if len(noisy) else noisy
            store = _store(base_histograms.store_size(within.flat))
            base_histograms.all_histograms(
                questions, self._wanted, self._share, within.flat, within.by_range, *counts, FULL, store, out
            )


def _store(n: int) -> Floats:
    """Memory for n numbers and more, not cleared, that each thread keeps for its next question unless it is a
    lot.
    """
    if n > _MOST_KEPT:
        return np.empty(n)
    if len(getattr(_kept, "store", ())) < n:
        _kept.store = np.empty(n)
    kept: Floats = _kept.store
    return kept


def _of_base(view: ViewData, boxes: Sequence[Box], numbers: Sequence[int]) -> base_noise.OfBase:
    bases = base_noise.noisy_bases(view.blocks)
    functions = [_functions(view.schema, box) for box in boxes if bases]
    of_codes = base_noise.of_histograms(bases, functions, numbers, view.schema.sizes)
    of_filter = base_noise.of_functions(bases, functions, [None] * len(functions))
    return base_noise.OfBase(*map(np.append, of_codes, of_filter))


def _functions(schema: Schema, box: Box) -> dict[int, Floats]:
    return {a: code_shares(schema, a, condition) for a, condition in box.items()}
