"""Bins of a table: codes of an attribute that are counted together, chosen from released numbers alone."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Schema

Floats = NDArray[np.float64]
Bins = NDArray[np.int32]
Ints = NDArray[np.int64]
# Numbers of bins that an attribute may have in a table.
LEVELS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 40, 48, 64, 96, 128, 192, 256, 384)
# Normalises the loss of an uncut row to 1 if records are spread evenly over many ordered codes.
_EVEN = 6.0
# Smallest part of a class's indicator orthogonal to earlier ones; less is rounding.
_NEW_DIRECTION = 1e-6


@dataclass(frozen=True)
class Axis:
    """Public facts about an attribute's codes. n_ordered: number of ordered codes, which come first; the
    others (categories and the code for missing values) have no neighbours. cycles: recurring classes of the
    ordered codes, such as weekdays, shape (n_ordered,) each.
    """

    size: int
    n_ordered: int
    cycles: tuple[Bins, ...] = ()

    @cached_property
    def cycle_basis(self) -> tuple[Floats, Ints]:
        """An orthonormal basis of differences between classes, (n, n_differences), and the cycle of each."""
        if not self.cycles:
            return np.zeros((0, 0)), np.zeros(0, np.int64)
        members = [(bins[:, None] == np.unique(bins)[1:]).astype(np.float64) for bins in self.cycles]
        basis, triangle = np.linalg.qr(np.concatenate([np.ones((self.n_ordered, 1)), *members], axis=1))
        new = np.abs(np.diag(triangle)) > _NEW_DIRECTION
        new[0] = False  # the sum of all codes
        group = np.repeat(np.arange(len(members)), [indicators.shape[1] for indicators in members])
        return basis[:, new], np.unique(group[new[1:]], return_inverse=True)[1]


def axes_of(schema: Schema) -> tuple[Axis, ...]:
    return tuple(
        Axis(attribute.size, attribute.n_values if attribute.has_order else 0, attribute.cycles)
        for attribute in schema.attributes
    )


class Cuts:
    """An attribute's codes in a row, and the best places to cut it, best first. A table with n bins uses the
    first n − 1 cuts, so the bins of all tables nest.

    Ordered codes keep their order; categories are sorted by falling share. A question cuts ordered codes at
    any code or at the code of a record; inside a bin its error is ∝ √(records to the left · records to the
    right). It includes or excludes each category and missing values, with an error ∝ their records. The loss
    of a bin is the mean square of this error, and the gain of a cut is the drop in the total loss.

    hidden: loss of the uncut row; 0 if all records have one code.
    lost: share of this loss that remains with n bins, at index n − 1.
    n_bins, lost_at_levels: number of bins at each of `LEVELS`, fewer in a row with few cuts; what they lose.
    """

    def __init__(self, axis: Axis, shares: Floats, tie_breakers: Floats) -> None:
        """shares: released share of the records at each code. tie_breakers: one random number per code."""
        self._axis, self._ordered = axis, axis.n_ordered > 1
        self._row = np.arange(axis.size) if self._ordered else np.lexsort((tie_breakers, -shares))
        share = shares[self._row]
        self._reach = np.concatenate([[0.0], np.cumsum(share)])
        if self._ordered:
            # Probability that a question cuts before each code: half uniform, half proportional to records.
            often = np.full(axis.size, 1 / axis.size) / 2
            often[1:] += (share[1:] + share[:-1]) / 4
            moments = [often * self._reach[:-1] ** power for power in range(3)]
        else:
            moments = [share, share**2, share**3]
        self._moments = [np.concatenate([[0.0], np.cumsum(moment)]) for moment in moments]
        self.hidden = float(self._inside(np.array([0]), np.array([axis.size]))[0])
        self._cut()

    def _inside(self, start: NDArray[np.int64], stop: NDArray[np.int64]) -> Floats:
        """The loss of bins that reach from `start` to `stop` in the row."""
        before, after = self._reach[start], self._reach[stop]
        first_cut = start + 1 if self._ordered else start
        cuts, first, second = (moment[stop] - moment[first_cut] for moment in self._moments)
        if self._ordered:
            hidden = first * (before + after) - second - before * after * cuts
            known = np.clip(self._reach[self._axis.n_ordered], before, after)
            hidden += (known - before) * (after - known)
        else:
            hidden = first - second / np.maximum(after - before, 1e-300)
        positive: Floats = np.maximum(_EVEN * hidden, 0.0)
        return positive

    def _cut(self) -> None:
        """Repeatedly cut the run that gains most."""
        self.cuts: list[int] = []
        runs = [self._best(0, self._axis.size)]
        left = [self.hidden]
        while runs and len(self.cuts) < LEVELS[-1] - 1:
            gain, start, cut, stop = heapq.heappop(runs)
            if cut < 0:
                continue
            self.cuts.append(cut)
            left.append(max(0.0, left[-1] + gain))
            heapq.heappush(runs, self._best(start, cut))
            heapq.heappush(runs, self._best(cut, stop))
        self.lost = np.array(left) / max(self.hidden, 1e-12)
        self.n_bins = np.minimum(LEVELS, len(self.cuts) + 1).astype(np.int64)
        self.lost_at_levels = self.lost[self.n_bins - 1]

    def _best(self, start: int, stop: int) -> tuple[float, int, int, int]:
        """The best cut of a run: minus its gain, the start of the run, the cut (-1 for none), and the end."""
        if stop - start < 2:
            return 0.0, start, -1, stop
        at = np.arange(start + 1, stop)
        uncut = self._inside(np.array([start]), np.array([stop]))[0]
        gain = uncut - self._inside(np.full_like(at, start), at) - self._inside(at, np.full_like(at, stop))
        best = int(gain.argmax())
        return -max(0.0, float(gain[best])), start, int(at[best]), stop

    def bins(self, n: int) -> Bins:
        """The bin of each code, int32, shape (size,): n bins, numbered along the row."""
        cuts = np.sort(self.cuts[: n - 1])
        bins = np.empty(self._axis.size, np.int32)
        bins[self._row] = np.searchsorted(cuts, np.arange(self._axis.size), side="right")
        return bins


def refinement(size: int, bins: Sequence[Bins]) -> Bins:
    """The coarsest common refinement of the tables' bins, shape (size,); one bin if there are no tables."""
    if not bins:
        return np.zeros(size, np.int32)
    labels = np.stack(bins, axis=1)
    return np.unique(labels, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int32)


def sums_over(bins: NDArray[np.integer[Any]], values: Floats) -> Floats:
    """Sums of values over the codes of each bin."""
    return np.bincount(bins, values).astype(np.float64)


def in_order(bins: NDArray[np.int32]) -> NDArray[np.int32]:
    """The same bins in the order of their first codes; single-code bins are numbered as the codes are."""
    _, first, which = np.unique(bins, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return rank[which.reshape(-1)]
