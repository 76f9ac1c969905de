"""Uncertainty on either side of a cut through a bin: many records may have one value, such as 0.

A condition such as `amount > 0` splits a bin that has a single count in the view. In every draw, a random
share of the bin's records lies at one point: in half of the draws at the edge, otherwise anywhere else.
Intervals then cover the whole bin. The share may depend on any other attribute of the statement, because the
view does not show how records of different groups lie inside a bin.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from hdpview.domain import Datetime
from hdpview.query.evaluate.clusters import Cluster, component_means, grid_product
from hdpview.query.evaluate.database import Points
from hdpview.query.evaluate.scan import Scan
from hdpview.view.data import ViewData

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# Share of draws in which records heap at the edge of a bin, or at values without a point.
AT_THE_EDGE = 0.5
# Share of a bin's records at one value if no condition distinguishes them, because values may be rounded.
UNEVEN = 0.5
# Most half waves over all records in the dependence of heaps on another attribute; the fewest are 1.
MAX_WAVES = 32.0
# Maximum size of an array of keys × draws × bins: 160 MB.
MAX_NUMBERS = 20_000_000
# Records below this are none.
EMPTY = 1e-9


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Heaps in the bins of an attribute, shape (n_draws, size) each.

    height: share of a bin's records in the heap. place: its position in the bin, from 0 to 1. is_edge:
        whether it lies at the edge instead; is_beyond: or at values without a point.
    common_place: position in all bins of records that no condition distinguishes, shape (n_draws,).
    """

    height: Floats
    place: Floats
    is_edge: NDArray[np.bool_]
    is_beyond: NDArray[np.bool_]
    common_place: Floats


@dataclass(frozen=True, eq=False)
class _Move:
    """Heaps in the cut bins of one attribute.

    values: functions of classes, (n_keys, n_functions, n_classes); expected: their means at codes.
    height, at: share of a bin's records in the heap, and its class, (n_draws, n_codes).
    """

    place: int
    a: int
    codes: Ints
    cluster: Cluster
    values: Floats
    expected: Floats
    height: Floats
    at: Ints

    def changes(self, j: int, rows: slice = slice(None)) -> Floats:
        """The change of a base sum's function at each code, shape (n_keys, n_draws, n_codes)."""
        own, mean = self.values[:, self.cluster.of(j)], self.expected[:, self.cluster.of(j)]
        changes: Floats = (own[:, self.at[rows]] - mean[:, None]) * self.height[rows]
        return changes

    def errors(self, j: int, records: Floats) -> Floats:
        """Errors of a base sum, shape (n_draws, *grid). records: at codes, along the axis of this cluster."""
        n_keys, others = len(self.values), np.delete(records.shape, self.place)
        flat = np.moveaxis(records, self.place, 0).reshape(len(self.codes), -1)
        step = max(1, MAX_NUMBERS // (n_keys * len(self.codes)))
        errors = np.empty((len(self.at), n_keys, flat.shape[1]))
        for first in range(0, len(self.at), step):
            rows = slice(first, first + step)
            errors[rows] = (self.changes(j, rows) @ flat).transpose(1, 0, 2)
        return np.moveaxis(errors.reshape(len(self.at), n_keys, *others), 1, 1 + self.place)

    def errors_with(self, other: _Move, j: int, records: Floats) -> Floats:
        """Errors of a base sum because the records of two cut bins heap together, shape (n_draws, *grid)."""
        cells = np.moveaxis(records, (self.place, other.place), (0, 1))
        inner = np.tensordot(self.changes(j), cells, axes=(2, 0))
        both = np.einsum("ldb,kdb...->dkl...", other.changes(j), inner)
        return np.moveaxis(both, (1, 2), (1 + self.place, 1 + other.place))


class _Wave(_Move):
    """A dependence of heaps on another attribute: heights are factors from -1 to 1 at each of its codes."""

    def changes(self, j: int, rows: slice = slice(None)) -> Floats:
        changes: Floats = self.expected[:, self.cluster.of(j), None] * self.height[rows]
        return changes


class Heaps:
    """Random heaps inside bins, the same for all scans of a statement."""

    def __init__(self, view: ViewData, n_draws: int, seed: int) -> None:
        self.view, self.n_draws, self.seed = view, n_draws, seed
        self._known: dict[int, _Drawn] = {}
        self._margins: dict[int, Floats] = {}
        self._means_of: dict[tuple[int, int, int], Floats] = {}

    def errors(self, scan: Scan) -> Floats | None:
        """Errors of a scan's base sums, shape (n_draws, n_bases, n_groups); None where no bin is cut."""
        axes = [(i, axis) for i, c in enumerate(scan.clusters) for axis in range(len(c.attributes))]
        cut = [(*own, self._cut_codes(scan, scan.clusters[own[0]], own[1])) for own in axes]
        moves = [self._move(scan, *own) for own in cut if len(own[2])]
        if not moves:
            return None
        total = np.zeros((self.n_draws, len(scan.bases), *scan.grid))
        pairs = [(one, other) for one, other in combinations(moves, 2) if one.place != other.place]
        for one in moves:  # a heap has at least none and at most all of a bin's records
            moved = replace(one, height=np.minimum(one.height, 1.0 - one.height))
            pairs += [(moved, self._wave(scan, one.a, *own)) for own in axes if own[0] != one.place]
        for j in range(len(scan.bases)):
            for one in moves:
                total[:, j] += one.errors(j, self._records(scan, j, [one]))
            for one, other in pairs:
                n_keys = scan.n_groups // scan.grid[other.place]
                if self.n_draws * len(one.codes) * len(other.codes) * n_keys <= MAX_NUMBERS:
                    total[:, j] += one.errors_with(other, j, self._records(scan, j, [one, other]))
        return total.reshape(self.n_draws, len(scan.bases), scan.n_groups)

    def _records(self, scan: Scan, j: int, moves: Sequence[_Move]) -> Floats:
        """What the records at the codes of cut bins add to a base sum: the grid of groups, with codes instead
        of keys along the axes of their clusters.
        """
        shape, codes = list(scan.grid), {move.place: move for move in moves}
        for place, move in codes.items():
            shape[place] = len(move.codes)
        total = np.zeros(math.prod(shape))
        for number, part in enumerate(self.view.parts):
            factors = []
            for place, cluster in enumerate(scan.clusters):
                if place in codes:
                    factors.append(self._shares(number, codes[place]))
                else:
                    factors.append(self._means(scan, number, place)[:, cluster.of(j)])
            total += grid_product(factors, part.components.weight)
        return total.reshape(shape)

    def _shares(self, number: int, move: _Move) -> Floats:
        """Share of each component at each of some codes, shape (n_codes, n_components)."""
        components, margin = self.view.parts[number].components, self.margin(move.a)
        if len(move.codes) * len(margin) > MAX_NUMBERS:  # as if all components were alike
            return np.repeat((margin / max(margin.sum(), 1.0))[move.codes, None], len(components), axis=1)
        one_each = np.zeros((len(move.codes), len(margin)))
        one_each[np.arange(len(move.codes)), move.codes] = 1.0
        return components.factors(move.a, one_each)

    def _means(self, scan: Scan, number: int, place: int) -> Floats:
        key = id(scan), number, place
        if key not in self._means_of:
            components = self.view.parts[number].components
            self._means_of[key] = component_means(components, scan.clusters[place])
        return self._means_of[key]

    def _cut_codes(self, scan: Scan, cluster: Cluster, axis: int) -> Ints:
        """Codes whose points are not all in one class."""
        points = scan.points(cluster.attributes[axis])
        cls, codes = cluster.class_of_point[axis], points.code
        same = codes[1:] == codes[:-1]
        cut = set(codes[1:][same & (cls[1:] != cls[:-1])].tolist())
        for code, own in cluster.extras[axis].items():
            if (cls[codes == code] != own).any():
                cut.add(code)
        return np.array(sorted(cut), dtype=np.int64)

    def _move(self, scan: Scan, place: int, axis: int, codes: Ints) -> _Move:
        """The change of a cluster's functions at codes whose records heap."""
        cluster, n_draws = scan.clusters[place], self.n_draws
        a = cluster.attributes[axis]
        points, cls = scan.points(a), cluster.class_of_point[axis]
        start = np.searchsorted(points.code, codes)
        stop = np.searchsorted(points.code, codes, side="right")
        # Points without a share are edges; all other records lie at the other points.
        n_edges = points.n_edges[codes]
        skip = np.minimum(n_edges, 1)
        drawn = self._drawn(a, scan.database.schema.sizes[a])
        tested = np.array(
            [code in scan.cuts.codes(a) or code in cluster.extras[axis] for code in codes.tolist()]
        )
        # If no condition distinguishes records, the heaps of all bins have the same position in every fourth
        # draw; if one cuts most bins into parts that recur, as hour() or x % 10 do, in all draws.
        draw, size = np.arange(n_draws)[:, None], len(self.margin(a))
        n_parts = len(np.unique(cls * size + points.code))
        is_periodic = 2 * tested.sum() > size and n_parts > 2 * cluster.values.shape[2 + axis]
        alone = (tested | (draw % 4 > 0)) & ~is_periodic
        where = np.where(alone, drawn.place[:, codes], drawn.common_place[:, None])
        height = np.where(alone, drawn.height[:, codes], drawn.height[:, :1] if is_periodic else UNEVEN)
        inside = start + skip + np.floor(where * (stop - start - n_edges)).astype(np.int64)
        edge = np.where(drawn.is_beyond[:, codes] & (n_edges > 1), cls[stop - 1], cls[start])
        for k, code in enumerate(codes.tolist()):
            if code in cluster.extras[axis]:
                beyond = drawn.is_beyond[:, code] | (skip[k] + start[k] + 1 >= stop[k])
                edge[beyond, k] = cluster.extras[axis][code]
        # Dates rarely heap at the edges of bins, unless a condition names one.
        may_heap = tested if isinstance(scan.database.schema.attributes[a], Datetime) else alone
        at_edge = drawn.is_edge[:, codes] & may_heap
        if is_periodic:
            at_edge = drawn.is_edge[:, :1] & (draw % 8 == 0)
        at = np.where(at_edge, edge, cls[inside])
        values = self.averaged(cluster, (axis,))
        expected = cluster.over_codes(values, axis)[..., codes]
        return _Move(place, a, codes, cluster, values, expected, height, at)

    def _wave(self, scan: Scan, a: int, place: int, axis: int) -> _Wave:
        """The dependence of the heaps of an attribute on another one."""
        cluster = scan.clusters[place]
        b = cluster.attributes[axis]
        share = self.margin(b) / max(self.margin(b).sum(), EMPTY)
        rng = np.random.default_rng([self.seed & 0xFFFFFFFF, a, b])
        n_waves, phase = rng.random((2, self.n_draws, 1))
        wave = np.cos(np.pi * (MAX_WAVES**n_waves * (np.cumsum(share) - share / 2) + 2 * phase))
        wave -= (wave @ share)[:, None]
        values, codes = self.averaged(cluster, (axis,)), np.arange(len(share))
        expected = cluster.over_codes(values, axis)
        return _Wave(place, b, codes, cluster, values, expected, wave, codes[None])

    def spread(self, scan: Scan, j: int, moved: Floats, places: Collection[int]) -> Floats:
        """Changes in some clusters, over the grid of all clusters' keys.

        moved: shape (n_draws, *n_keys), 1 for other clusters, which share them as they share these keys.
        """
        count, clusters = scan.count_of(j), list(enumerate(scan.clusters))
        both, alone = np.zeros((2, scan.n_groups))
        for number, part in enumerate(self.view.parts):
            means = [self._means(scan, number, i)[:, c.of(count if i in places else j)] for i, c in clusters]
            both += grid_product(means, part.components.weight)
            means = [mean if i in places else np.ones_like(mean) for i, mean in enumerate(means)]
            alone += grid_product(means, part.components.weight)
        share = np.divide(both, alone, out=np.zeros(scan.n_groups), where=alone > EMPTY)
        spread: Floats = moved * share.reshape(scan.grid)
        return spread

    def _drawn(self, a: int, size: int) -> _Drawn:
        if a not in self._known:
            rng = np.random.default_rng([self.seed & 0xFFFFFFFF, a])
            shape, n = (self.n_draws, size), self.n_draws
            even = (np.arange(n) + 0.5) / n  # evenly spaced, so that widths vary little between seeds
            height = np.sqrt(rng.permuted(np.broadcast_to(even[:, None], shape), axis=0))
            self._known[a] = _Drawn(
                height, rng.random(shape), rng.random(shape) < AT_THE_EDGE, rng.random(shape) < 0.5,
                rng.permutation(even),
            )  # fmt: skip
        return self._known[a]

    def point_shares(self, a: int, points: Points, size: int) -> Floats:
        """Shares of points in every draw, shape (n_draws, n_points): half of a bin's records lie at one."""
        drawn = self._drawn(a, size)
        count = np.diff(np.append(points.starts, len(points.code)))
        skip = np.minimum(points.n_edges, 1)
        heap = points.starts + skip + np.floor(drawn.place * (count - points.n_edges)).astype(np.int64)
        shares = np.broadcast_to((1 - UNEVEN) * points.share, (self.n_draws, len(points.code))).copy()
        np.add.at(shares, (np.arange(self.n_draws)[:, None], heap), UNEVEN)
        return shares

    def common_place(self, a: int) -> Floats:
        """Position of records in all bins of an attribute, shape (n_draws,)."""
        return self._drawn(a, len(self.margin(a))).common_place

    def margin(self, a: int) -> Floats:
        """Records at each code, shape (size,)."""
        if a not in self._margins:
            grids = [part.components.grid([a], part.components.weight) for part in self.view.parts]
            self._margins[a] = np.maximum(np.sum(grids, axis=0), 0.0)
        return self._margins[a]

    def averaged(self, cluster: Cluster, kept: Sequence[int] = ()) -> Floats:
        """Functions averaged over the records' values of all other attributes."""
        values = cluster.values
        for axis in range(len(cluster.attributes) - 1, -1, -1):
            if axis not in kept:
                values = self._mean_over(cluster, values, axis)
        return values

    def _mean_over(self, cluster: Cluster, values: Floats, axis: int) -> Floats:
        """Functions averaged over the records' values of one attribute."""
        margin, points = self.margin(cluster.attributes[axis]), cluster.points[axis]
        weights = points.share * (margin / max(margin.sum(), 1.0))[points.code]
        per_class = np.bincount(cluster.class_of_point[axis], weights, cluster.values.shape[2 + axis])
        means: Floats = np.moveaxis(values, 2 + axis, -1) @ per_class
        return means
