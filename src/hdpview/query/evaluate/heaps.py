"""What bins may hold on either side of a cut: records that heap at one value, such as 0.

A condition such as `amount > 0` splits a bin of which the view knows one count. In every draw a random share
of a bin's records lies at one point: at the bin's edge in half of the draws, anywhere else in the others.
Semideviations times the tail then reach over the whole bin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hdpview.query.evaluate.database import Points
from hdpview.query.evaluate.scan import Cluster, Scan, outer
from hdpview.view.data import ViewData

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
# Share of draws in which records heap at the edge of a bin, or among values that no point shows.
AT_THE_EDGE = 0.5
# Share of a bin's records that lie at one value where no condition tells them apart: values may be rounded.
UNEVEN = 0.5
# Numbers of an array of keys × draws × bins: 160 MB.
MAX_NUMBERS = 20_000_000
# How many times more records than under independence a group may be taken to have.
MAX_LIFT = 100.0


@dataclass(frozen=True, eq=False)
class _Drawn:
    """Heaps in the bins of an attribute, shape (n_draws, size) each.

    height: share of a bin's records in the heap. place: where in the bin it lies, from 0 to 1. is_edge:
        whether it lies at the edge instead; is_beyond: or among values that no point shows.
    common_place: where in all bins records lie that no condition tells apart, shape (n_draws,).
    """

    height: Floats
    place: Floats
    is_edge: NDArray[np.bool_]
    is_beyond: NDArray[np.bool_]
    common_place: Floats


class Heaps:
    """Random heaps inside bins, the same for all scans of a statement."""

    def __init__(self, view: ViewData, n_draws: int, seed: int) -> None:
        self.view, self.n_draws, self.seed = view, n_draws, seed
        self._known: dict[int, _Drawn] = {}
        self._margins: dict[int, Floats] = {}

    def errors(self, scan: Scan) -> Floats | None:
        """Errors of a scan's base sums, shape (n_draws, n_bases, n_groups); None where no bin is cut."""
        total: Floats | None = None
        for place, cluster in enumerate(scan.clusters):
            for axis, a in enumerate(cluster.attributes):
                codes = self._cut_codes(scan, cluster, axis)
                if len(codes):
                    total = np.zeros((self.n_draws, len(scan.bases), *scan.grid)) if total is None else total
                    self._add(total, scan, place, axis, a, codes)
        return None if total is None else total.reshape(self.n_draws, len(scan.bases), scan.n_groups)

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

    def _add(self, errors: Floats, scan: Scan, place: int, axis: int, a: int, codes: Ints) -> None:
        cluster, n_draws = scan.clusters[place], self.n_draws
        points, cls = scan.points(a), cluster.class_of_point[axis]
        start = np.searchsorted(points.code, codes)
        stop = np.searchsorted(points.code, codes, side="right")
        # Points without a share are edges: records anywhere else lie at the others.
        skip = (points.share[start] == 0).astype(np.int64)
        drawn = self._drawn(a, scan.database.schema.sizes[a])
        tested = np.array(
            [code in scan.cuts.codes(a) or code in cluster.extras[axis] for code in codes.tolist()]
        )
        # Where no condition tells records apart, all bins have their heaps at one place in every fourth draw.
        alone = tested | (np.arange(n_draws)[:, None] % 4 > 0)
        where = np.where(alone, drawn.place[:, codes], drawn.common_place[:, None])
        height = np.where(alone, drawn.height[:, codes], UNEVEN)
        inside = start + skip + np.floor(where * (stop - start - skip)).astype(np.int64)
        edge = np.broadcast_to(cls[start], (n_draws, len(codes))).copy()
        for k, code in enumerate(codes.tolist()):
            if code in cluster.extras[axis]:
                beyond = drawn.is_beyond[:, code] | (skip[k] + start[k] + 1 >= stop[k])
                edge[beyond, k] = cluster.extras[axis][code]
        at = np.where(drawn.is_edge[:, codes] & alone, edge, cls[inside])
        weight = height * self.margin(a)[codes]
        values = self._averaged(cluster, axis)
        expected = cluster.over_codes(values, axis)[..., codes]
        others = [i for i in range(len(scan.clusters)) if i != place]
        lift = self._lift(scan)
        for j in range(len(scan.bases)):
            own, mean = values[:, cluster.of(j)], expected[:, cluster.of(j)]
            step = max(1, MAX_NUMBERS // max(len(own) * len(codes), 1))
            error = np.empty((n_draws, len(own)))
            for first in range(0, n_draws, step):
                rows = slice(first, first + step)
                moved = own[:, at[rows]] - mean[:, None, :]
                error[rows] = np.einsum("kdc,dc->dk", moved, weight[rows])
            shape = [n_draws] + [1] * len(scan.clusters)
            shape[1 + place] = len(own)
            term: Floats = error.reshape(shape)
            for i in others:
                share = self._averaged(scan.clusters[i])[:, scan.clusters[i].of(j)]
                own_shape = [1] * (1 + len(scan.clusters))
                own_shape[1 + i] = len(share)
                term = term * share.reshape(own_shape)
            errors[:, j] += term * lift[j]

    def _drawn(self, a: int, size: int) -> _Drawn:
        if a not in self._known:
            rng = np.random.default_rng([self.seed & 0xFFFFFFFF, a])
            shape, n = (self.n_draws, size), self.n_draws
            even = (np.arange(n) + 0.5) / n  # evenly spread, so that widths vary little between seeds
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
        skip = (points.share[points.starts] == 0).astype(np.int64)
        heap = points.starts + skip + np.floor(drawn.place * (count - skip)).astype(np.int64)
        shares = np.broadcast_to((1 - UNEVEN) * points.share, (self.n_draws, len(points.code))).copy()
        np.add.at(shares, (np.arange(self.n_draws)[:, None], heap), UNEVEN)
        return shares

    def margin(self, a: int) -> Floats:
        """Records at each code, shape (size,)."""
        if a not in self._margins:
            grids = [part.components.grid([a], part.components.weight) for part in self.view.parts]
            self._margins[a] = np.maximum(np.sum(grids, axis=0), 0.0)
        return self._margins[a]

    def _averaged(self, cluster: Cluster, kept: int = -1) -> Floats:
        """Functions averaged over the records' values of all attributes, or of all but one."""
        values = cluster.values
        for axis in range(len(cluster.attributes) - 1, -1, -1):
            if axis != kept:
                values = self._mean_over(cluster, values, axis)
        return values

    def _mean_over(self, cluster: Cluster, values: Floats, axis: int) -> Floats:
        """Functions averaged over the records' values of one attribute."""
        margin, points = self.margin(cluster.attributes[axis]), cluster.points[axis]
        weights = points.share * (margin / max(margin.sum(), 1.0))[points.code]
        per_class = np.bincount(cluster.class_of_point[axis], weights, cluster.values.shape[2 + axis])
        means: Floats = np.moveaxis(values, 2 + axis, -1) @ per_class
        return means

    def _lift(self, scan: Scan) -> Floats:
        """How many times more a group has than under independence, shape (n_bases, *grid)."""
        total = sum(float(part.components.weight.sum()) for part in self.view.parts)
        shares = [self._averaged(cluster) for cluster in scan.clusters]
        lift = np.ones((len(scan.bases), *scan.grid))
        for j in range(len(scan.bases)):
            own = [share[:, cluster.of(j)] for share, cluster in zip(shares, scan.clusters, strict=True)]
            independent = total * outer(own)
            estimate = scan.estimate[j].reshape(scan.grid)
            ratio = np.divide(estimate, independent, out=np.ones(scan.grid), where=independent > 1e-9)
            lift[j] = np.clip(ratio, 0.0, MAX_LIFT)
        return lift
