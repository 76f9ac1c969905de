"""Possible positions of records inside the cells of a table, for expressions that combine attributes, such as
`shipped - ordered > 5`.

The view has one count for every cell of the table that counted both. In half of the draws the records of a
cell lie at one point of it: either both attributes rise together through the cells of a bin, or one falls. In
the other draws a random share of the records of every cell lies where the sum is largest, or smallest, among
these points. Intervals then cover what the cells allow; counts of either attribute alone do not change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from hdpview.query.errors.kernels import error_model
from hdpview.query.evaluate.heaps import Heaps
from hdpview.query.evaluate.scan import Scan
from hdpview.view.data import ViewPart
from hdpview.view.mixture import Mixture

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# Maximum size of classes × classes × keys; above it, nothing is moved: 0.5 s.
MAX_NUMBERS = 50_000_000
# Maximum draws × cells (50 ms), above which draws are reused; and the minimum number of draws.
MAX_PLACES, MIN_DRAWS = 1_000_000, 16
# Maximum number of sums whose largest and smallest values are computed.
MAX_REFERENCES = 4
# Records added to every code, so that empty bins have positions, too.
FEW = 1e-9


def errors_in_cells(heaps: Heaps, scan: Scan) -> Floats | None:
    """Errors of a scan's base sums, shape (n_draws, n_bases, n_groups); None if nothing is tied."""
    total: Floats | None = None
    for one, other, bases in _tied(scan):
        for part in heaps.view.parts:
            sides = _sides(heaps, part, scan, (one, other))
            if any((np.count_nonzero(side.shares, axis=0) > 1).any() for side in sides):
                cells = _Cells(heaps, part, sides)
                total = np.zeros((heaps.n_draws, len(scan.bases), *scan.grid)) if total is None else total
                for j, errors in zip(bases, cells.errors(heaps, scan, bases), strict=True):
                    total[:, j] += errors
    return None if total is None else total.reshape(heaps.n_draws, len(scan.bases), scan.n_groups)


def _tied(scan: Scan) -> Iterator[tuple[tuple[int, int], tuple[int, int], list[int]]]:
    """Pairs of attributes, as positions of cluster and axis, and the base sums whose expressions combine
    them.
    """
    every = list(range(len(scan.bases)))
    for place, cluster in enumerate(scan.clusters):
        for x, y in combinations(range(len(cluster.attributes)), 2):
            yield (place, x), (place, y), every
    factors = [{a for f in base.factors for a in scan.attributes_of(f)} for base in scan.bases]
    places = [(i, x) for i, cluster in enumerate(scan.clusters) for x in range(len(cluster.attributes))]
    for one, other in combinations(places, 2):
        pair = {scan.clusters[i].attributes[x] for i, x in (one, other)}
        bases = [j for j in every if pair <= factors[j]]
        if one[0] != other[0] and bases:
            yield one, other, bases


class _Side:
    """An attribute of a pair, the classes of its points, and its bins in the table that counted both.

    shares: of the classes among the records of each bin, shape (n_classes, n_bins).
    """

    def __init__(self, scan: Scan, place: int, axis: int, bins: Ints, margin: Floats) -> None:
        self.place, self.axis, self.bins = place, axis, bins
        self.cluster = scan.clusters[place]
        points, n_bins = self.cluster.points[axis], int(bins.max()) + 1
        self.a, self.cls = self.cluster.attributes[axis], self.cluster.class_of_point[axis]
        bin_of_point, records = bins[points.code], points.share * (margin + FEW)[points.code]
        weight = records / np.bincount(bin_of_point, records)[bin_of_point]
        n_classes = self.cluster.values.shape[2 + axis]
        shares = np.bincount(self.cls * n_bins + bin_of_point, weight, n_classes * n_bins)
        self.shares = shares.astype(np.float64).reshape(n_classes, n_bins)
        self._order = np.argsort(bin_of_point, kind="stable")
        self._reached = np.cumsum(weight[self._order])

    def at(self, place: Floats) -> Ints:
        """Classes of records at positions in bins, from 0 to 1. place: shape (n_draws, n_bins, n)."""
        reached = np.searchsorted(self._reached, np.arange(place.shape[1])[:, None] + place)
        classes: Ints = self.cls[self._order[np.minimum(reached, len(self._order) - 1)]]
        return classes


def _sides(heaps: Heaps, part: ViewPart, scan: Scan, places: Sequence[tuple[int, int]]) -> list[_Side]:
    """Both attributes with their bins in the table that counted them together; nothing if there is none."""
    attributes = [scan.clusters[place].attributes[axis] for place, axis in places]
    if not isinstance(part.components, Mixture):
        return []
    model = error_model(part)
    piece = model.pieces.get(tuple(sorted(attributes)))
    if piece is None:
        return []
    number = dict(zip(sorted(attributes), piece.binnings, strict=True))
    return [
        _Side(scan, *place, model.binnings[a][number[a] - 1].astype(np.int64), heaps.margin(a))
        for place, a in zip(places, attributes, strict=True)
    ]


class _Cells:
    """Cells of the table of two attributes.

    records: in every cell, shape (n_bins, n_bins). dependent: their share that may depend on both attributes
        inside cells: the larger, the higher the largest correlation of any functions of both.
    at: per attribute, classes where the records of each cell lie, shape (n_draws, n_bins, n_bins).
    """

    def __init__(self, heaps: Heaps, part: ViewPart, sides: Sequence[_Side]) -> None:
        self.one, self.other = sides
        components, eyes = part.components, [np.eye(side.shares.shape[1])[:, side.bins] for side in sides]
        factors = [components.factors(side.a, eye) for side, eye in zip(sides, eyes, strict=True)]
        records = np.maximum((factors[0] * components.weight) @ factors[1].T, 0.0) + FEW
        rows, columns = records.sum(axis=1, keepdims=True), records.sum(axis=0, keepdims=True)
        correlations = np.linalg.svd(records / np.sqrt(rows * columns), compute_uv=False)
        self.records, self.dependent = records, min(float(correlations[1:2].sum()), 1.0)
        n_draws = int(np.clip(MAX_PLACES // records.size, MIN_DRAWS, heaps.n_draws))
        self.places = [heaps.common_place(side.a)[:n_draws, None, None] for side in sides]
        one, other = records / rows, (records / columns).T
        is_falling = np.arange(n_draws)[:, None, None] % 2 == 1
        at_other = np.cumsum(other, axis=1) - other + other * self.places[1]
        at_other = self.other.at(np.where(is_falling, 1.0 - at_other, at_other)).transpose(0, 2, 1)
        self.at = self.one.at(np.cumsum(one, axis=1) - one + one * self.places[0]), at_other

    def moved(self, tables: Sequence[Floats]) -> Iterator[Floats]:
        """The change of each sum if records lie like this in cells, apart from the effect of the counts of
        either attribute alone, shape (n_draws,). tables: shape (n_classes, n_classes) each.

        All sums see the same places, so that parts add up to their whole. The largest and smallest values are
        those of the first few sums, in turn.
        """
        first = [left for left in map(self._interaction, tables[:MAX_REFERENCES]) if left.any()]
        places = [place for left in first for place in (left.argmax(axis=0), left.argmin(axis=0))]
        n_draws = len(self.places[0])
        draw, share = np.arange(n_draws), np.minimum(2.0 * self.places[1].reshape(-1), 1.0)
        for table in tables:
            left = self._interaction(table)
            moved: Floats = left.sum(axis=(1, 2))
            ends = np.array([np.take_along_axis(left, place[None], axis=0).sum() for place in places])
            if places:
                end = ends[(draw // 4 * 2 + draw % 2) % len(places)]
                moved = np.where(draw % 4 < 2, moved, share * end)
            yield moved

    def _interaction(self, table: Floats) -> Floats:
        """The change of a sum in each cell, shape (n_draws, n_bins, n_bins)."""
        one, other, (at, at_other), records = self.one.shares, self.other.shares, self.at, self.records
        over_other, over_one = table @ other, one.T @ table
        of_one = over_other @ records.T / records.sum(axis=1)
        of_other = over_one.T @ records / records.sum(axis=0)
        rows, columns = np.arange(len(records))[:, None], np.arange(records.shape[1])
        left = table[at, at_other] - of_one[at, rows] - of_other[at_other, columns] + one.T @ over_other
        interaction: Floats = left * (self.dependent * records)
        return interaction

    def moved_product(self, left: Floats, right: Floats) -> Floats:
        """The same for a product of functions of both, within their standard deviations."""
        records, means, deviations = self.records, [], []
        for side, values in ((self.one, left), (self.other, right)):
            means.append(values @ side.shares)
            deviations.append(np.sqrt(np.maximum(values**2 @ side.shares - means[-1] ** 2, 0.0)))
        limit = deviations[0] @ records @ deviations[1]
        for cells, own, others in ((records, deviations[0], means[1]), (records.T, deviations[1], means[0])):
            sizes = cells.sum(axis=1)
            between = cells @ others**2 / sizes - (cells @ others / sizes) ** 2
            limit += (sizes * own) @ np.sqrt(np.maximum(between, 0.0))
        moved: Floats = (2.0 * self.places[0].reshape(-1) - 1.0) * limit * self.dependent
        return moved

    def errors(self, heaps: Heaps, scan: Scan, bases: Sequence[int]) -> Iterator[Floats | float]:
        """Errors of base sums, shape (n_draws, *grid) each."""
        one, other = self.one, self.other
        kept = {one.place: [one.axis]}
        kept.setdefault(other.place, []).append(other.axis)
        clusters = [(scan.clusters[place], axes) for place, axes in kept.items()]
        averaged = [heaps.averaged(cluster, axes) for cluster, axes in clusters]
        keys = list(np.ndindex(*map(len, averaged)))
        if len(keys) * len(one.shares) * len(other.shares) > MAX_NUMBERS:
            yield from [0.0] * len(bases)
            return
        factors = [
            [
                values[k, cluster.of(j)]
                for values, k, (cluster, _) in zip(averaged, key, clusters, strict=True)
            ]
            for j in bases
            for key in keys
        ]
        if len(clusters) == 1:
            changes = self.moved([table for (table,) in factors])
        else:
            changes = (self.moved_product(left, right) for left, right in factors)
        shape = [n if i in kept else 1 for i, n in enumerate(scan.grid)]
        for j in bases:
            moved = [np.resize(next(changes), heaps.n_draws) for _ in keys]
            of_keys = np.stack(moved, axis=1).reshape(heaps.n_draws, *shape)
            yield of_keys if len(scan.attributes) == 2 else heaps.spread(scan, j, of_keys, kept)
