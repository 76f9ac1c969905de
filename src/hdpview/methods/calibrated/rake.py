"""The base moved until the view's own histograms say what the released ones say, as far as that is more than
noise.

Blocks tell more of some values than of others, so the histograms that follow from blocks and base drift off
those that the base was made from. Each value gets a factor; factors change how records lie inside blocks, and
leave the counts of blocks as they are. Nothing here sees
a record: it costs no budget.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from hdpview.methods.calibrated.smooth import LEAST_SHARE, certain_departures
from hdpview.partition.guide import Guide, new_guide_work, share_of_block, spread_over_bins
from hdpview.partition.kernels import compiled
from hdpview.view.base import Base
from hdpview.view.blocks import Blocks

Floats = NDArray[np.float64]
_ROUNDS = 3
_MOST = 4.0  # of a factor, up or down, in one round
_LEAST_COUNT = 1e-9  # of a value: below, nothing is divided by it


def raked(
    base: Base,
    blocks: Blocks,
    counts: Floats,
    noisy_histograms: Sequence[Floats],
    variance: float,
    guide_of: Callable[[Base], Guide],
) -> Base:
    """The base under which counts of blocks tell the released histograms, but for their noise.

    counts: shape (n_blocks,). noisy_histograms: per attribute, shape (size,); variance: of the noise on each
        of their counts.
    """
    told = told_by_blocks(blocks, counts, guide_of(base), base.sizes)
    departures = [
        certain_departures(noisy - of_view, variance)
        for noisy, of_view in zip(noisy_histograms, told, strict=True)
    ]
    if not any(departure.any() for departure in departures):
        return base
    wanted = [
        np.maximum(of_view + departure, LEAST_SHARE * of_view.sum())
        for of_view, departure in zip(told, departures, strict=True)
    ]
    step = 1.0
    for _ in range(_ROUNDS):
        moved = _multiplied(base, [_factors(*of) ** step for of in zip(wanted, told, strict=True)])
        told_then = told_by_blocks(blocks, counts, guide_of(moved), moved.sizes)
        if _gap(wanted, told_then) < _gap(wanted, told):
            base, told = moved, told_then
        else:
            step /= 2  # attributes that say the same moved together, and too far
    return base


def told_by_blocks(blocks: Blocks, counts: Floats, guide: Guide, sizes: Sequence[int]) -> list[Floats]:
    """The histograms that follow from counts of blocks and a base, shape (size,) per attribute."""
    told = np.zeros(sum(sizes))
    _add_up(blocks.lower, blocks.upper, counts, guide, told)
    return np.split(told, np.cumsum(sizes)[:-1])


def _gap(wanted: Sequence[Floats], told: Sequence[Floats]) -> float:
    return sum(float(((x - y) ** 2).sum()) for x, y in zip(wanted, told, strict=True))


def _factors(wanted: Floats, told: Floats) -> Floats:
    factors: Floats = np.clip(wanted / np.maximum(told, _LEAST_COUNT), 1 / _MOST, _MOST)
    return factors


def _multiplied(base: Base, factors: Sequence[Floats]) -> Base:
    """The base with P(cell) multiplied by a factor for each of its codes, and made to sum to 1 again."""
    shape, table, message = [], list(base.table), [np.ones(1)] * len(factors)
    of_bins: list[Floats] = []
    for bins, of_codes, factor in zip(base.bin_of_code, base.shape, factors, strict=True):
        of_bins.append(np.bincount(bins, of_codes * factor).astype(np.float64))
        shape.append(of_codes * factor / of_bins[-1][bins])
    for a in base.upward:
        for child in base.children[a]:
            of_bins[a] = of_bins[a] * message[child]
        rows = base.table[a] * of_bins[a]
        message[a] = rows.sum(axis=1)
        table[a] = rows / message[a][:, None]
    return dataclasses.replace(base, shape=tuple(shape), table=tuple(table))


@compiled
def _add_up(lower, upper, counts, guide, out):  # type: ignore[no-untyped-def]
    """Add every block's count to the values of all attributes, as the base spreads it, into out
    (n_values,).
    """
    room = new_guide_work(guide)
    for i in range(len(lower)):
        share_of_block(lower[i], upper[i], guide, room)
        spread_over_bins(guide, room)
        for a in range(lower.shape[1]):
            for at in range(guide.offsets[a] + lower[i, a], guide.offsets[a] + upper[i, a]):
                c = guide.bin_of_code[at]
                if room.spread[a, c] > 0.0:
                    out[at] += counts[i] * room.spread[a, c] * guide.shape[at] / room.held[a, c]
