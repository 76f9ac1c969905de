"""Counts of blocks that agree with all that was measured: least squares, weighted by the known variances,
never negative.

A block's count is measured itself; and each block, spread by the base, says what it adds to the bins of every
histogram and table that was measured too. Nothing here sees a record: it costs no budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpview.partition.guide import Guide, new_guide_work, share_of_block, spread_over_bins
from hdpview.partition.kernels import compiled
from hdpview.view.blocks import Blocks

Floats = NDArray[np.float64]
_ROUNDS = 30
_LEAST = 1e-7  # smaller parts of a block are left out
_LEAST_VARIANCE = 1e-6  # noise that is all but gone: weights have to stay within doubles


@dataclass(frozen=True)
class Measured:
    """Noisy counts over bins, with the variance of each.

    histograms: per attribute, shapes (n_bins,). tables: per attribute with a parent, shapes (bins of the
        parent, own bins).
    """

    histograms: list[tuple[Floats, Floats]]
    tables: Mapping[int, tuple[Floats, Floats]]


def fitted_counts(blocks: Blocks, variance: float, guide: Guide, measured: Measured) -> Floats:
    """Counts of the blocks, shape (n_blocks,). variance: of the noise on each block's count."""
    parts = [*measured.histograms, *measured.tables.values()]
    values = np.concatenate([noisy.reshape(-1) for noisy, _ in parts])
    variances = np.concatenate(
        [np.broadcast_to(of_each, noisy.shape).reshape(-1) for noisy, of_each in parts]
    )
    weight, weights = 1.0 / max(variance, _LEAST_VARIANCE), 1.0 / np.maximum(variances, _LEAST_VARIANCE)
    starts = np.concatenate([[0], np.cumsum([noisy.size for noisy, _ in parts])])[:-1]
    n_attributes = len(guide.parent)
    table_start = np.full(n_attributes, -1, np.int64)
    for child, start in zip(measured.tables, starts[n_attributes:], strict=True):
        table_start[child] = start
    rows = _rows(blocks.lower, blocks.upper, guide, starts[:n_attributes].astype(np.int64), table_start)
    fitted: Floats = _least_squares(
        blocks.noisy_counts.astype(np.float64), weight, *rows, values, weights, _ROUNDS
    )
    return fitted


@compiled
def _rows(lower, upper, guide, histogram_start, table_start):  # type: ignore[no-untyped-def]
    """What one record of each block adds to each bin measured: sparse rows, as (start of each row, places,
    parts).
    """
    n, d, most = len(lower), lower.shape[1], guide.table.shape[2]
    room = new_guide_work(guide)
    capacity, used = max(1024, n * d * 4), 0
    row_start, place, part = np.zeros(n + 1, np.int64), np.empty(capacity, np.int32), np.empty(capacity)
    for i in range(n):
        if used + d * most * (most + 1) > capacity:
            capacity = 2 * capacity + d * most * (most + 1)
            more_place, more_part = np.empty(capacity, np.int32), np.empty(capacity)
            more_place[:used], more_part[:used] = place[:used], part[:used]
            place, part = more_place, more_part
        share_of_block(lower[i], upper[i], guide, room)
        spread_over_bins(guide, room)
        for a in range(d):
            for c in range(guide.n_bins[a]):
                if room.spread[a, c] > _LEAST:
                    place[used], part[used] = histogram_start[a] + c, room.spread[a, c]
                    used += 1
            if table_start[a] < 0:
                continue
            parent = guide.parent[a]
            for row in range(guide.n_bins[parent]):
                if room.spread[parent, row] <= _LEAST or room.message[a, row] <= 0.0:
                    continue
                given = room.spread[parent, row] / room.message[a, row]
                for c in range(guide.n_bins[a]):
                    both = given * guide.table[a, row, c] * room.inside[a, c]
                    if both > _LEAST:
                        place[used], part[used] = table_start[a] + row * guide.n_bins[a] + c, both
                        used += 1
        row_start[i + 1] = used
    return row_start, place[:used], part[:used]


@compiled
def _least_squares(counts, weight, row_start, place, part, values, weights, n_rounds):  # type: ignore[no-untyped-def]
    """Least Σ weight·(x − counts)² + Σ weights·(A x − values)² over x ≥ 0, by projected gradients with
    momentum.
    """
    step = 1.0 / (weight + 1.1 * _largest_eigenvalue(row_start, place, part, weights))
    found = np.maximum(counts, 0.0)
    ahead, gap, momentum = found.copy(), np.empty(len(values)), 1.0
    for _ in range(n_rounds):
        _totals(ahead, row_start, place, part, gap)
        for j in range(len(values)):
            gap[j] = weights[j] * (gap[j] - values[j])
        following = (1.0 + np.sqrt(1.0 + 4.0 * momentum * momentum)) / 2.0
        push = (momentum - 1.0) / following
        momentum = following
        for i in range(len(counts)):
            slope = weight * (ahead[i] - counts[i])
            for j in range(row_start[i], row_start[i + 1]):
                slope += part[j] * gap[place[j]]
            moved = max(0.0, ahead[i] - step * slope)
            ahead[i] = moved + push * (moved - found[i])
            found[i] = moved
    return found


@compiled
def _largest_eigenvalue(row_start, place, part, weights):  # type: ignore[no-untyped-def]
    """Of Aᵀ·weights·A, from below, by a few rounds of the power method."""
    direction, totals, length = np.ones(len(row_start) - 1), np.empty(len(weights)), 0.0
    for _ in range(12):
        _totals(direction, row_start, place, part, totals)
        totals *= weights
        for i in range(len(direction)):
            direction[i] = 0.0
            for j in range(row_start[i], row_start[i + 1]):
                direction[i] += part[j] * totals[place[j]]
        length = np.sqrt((direction**2).sum())
        direction /= length
    return length


@compiled
def _totals(counts, row_start, place, part, out):  # type: ignore[no-untyped-def]
    out[:] = 0.0
    for i in range(len(counts)):
        for j in range(row_start[i], row_start[i + 1]):
            out[place[j]] += part[j] * counts[i]
