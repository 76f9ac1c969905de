"""Released counts where they know better than the model that was fitted to them.

A fit smooths: sums over Sundays or over one cell of a table may be off by more than the noise of the released
counts. The difference between the released table of a scan's attributes, or else their histograms, and the
fitted one is looked at in every group; the part of it that noise does not explain is added to the estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hdpview.view.data import ViewData, ViewPart
from hdpview.view.mixture import Mixture
from hdpview.view.tables import Table, pairs_inside

if TYPE_CHECKING:
    from hdpview.query.evaluate.scan import Cluster, Scan

Floats = NDArray[np.float64]
# Differences whose mean square is below this multiple of the noise's variance are taken for noise.
MIN_EXCESS = 2.0
# Cells of a table that is compared with the fit.
MAX_CELLS = 1_000_000
# Numbers of an array of keys × functions × bins: 160 MB.
MAX_NUMBERS = 20_000_000


@dataclass(frozen=True, eq=False)
class Residual:
    """A released table less the fitted one. shares: per attribute, of each code in its bin, shape (size,)."""

    table: Table
    difference: Floats
    shares: tuple[Floats, ...]

    @property
    def is_material(self) -> bool:
        """True if the fit is further from the table than its noise explains."""
        return float(np.mean(self.difference**2)) > MIN_EXCESS * self.table.variance


@lru_cache(maxsize=256)
def residual(part: ViewPart, attributes: tuple[int, ...]) -> Residual | None:
    """Of the most precise released table of exactly these attributes; None where there is none."""
    components = part.components
    if not isinstance(components, Mixture):
        return None
    tables = [t for t in (*part.tables, *pairs_inside(part.tables)) if t.attributes == attributes]
    tables = [t for t in tables if t.counts.size <= MAX_CELLS]
    if not tables:
        return None
    table = min(tables, key=lambda t: t.variance * t.counts.size)
    shares = []
    for a, bins in zip(table.attributes, table.shape.bin_of_code, strict=True):
        margin = components.grid([a], components.weight)
        of_bin = np.bincount(bins, margin)[bins]
        even = 1.0 / np.bincount(bins)[bins]
        shares.append(np.where(of_bin > 0, margin / np.where(of_bin > 0, of_bin, 1.0), even))
    return Residual(table, table.counts - components.table(table.shape), tuple(shares))


def is_material(view: ViewData, attributes: Sequence[int]) -> bool:
    """True if released counts of these attributes are to be used beside the model."""
    found = (residual(part, tuple(sorted(attributes))) for part in view.parts)
    return any(each is not None and each.is_material for each in found)


def corrections(part: ViewPart, scan: Scan) -> tuple[Floats, Floats] | None:
    """What to add to a scan's estimates, and its variance, shape (n_bases, n_groups) each.

    From the table of all the scan's attributes; where there is none, from the histogram of each.
    """
    own = tuple(sorted(scan.attributes))
    whole = residual(part, own) if own else None
    known = [whole] if whole is not None else [residual(part, (a,)) for a in own]
    added, noise = np.zeros((2, len(scan.bases), scan.n_groups))
    for each in known:
        if each is not None:
            _correct(part, scan, each, added, noise)
    return (added, noise) if added.any() else None


def _correct(part: ViewPart, scan: Scan, known: Residual, added: Floats, noise: Floats) -> None:
    """Add the part of a table's difference from the fit that noise does not explain."""
    functions = [_over_bins(part, cluster, known) for cluster in scan.clusters]
    if any(each is None for each in functions):
        return
    for j in range(len(scan.bases)):
        own = [
            f[:, cluster.of(j)] for f, cluster in zip(functions, scan.clusters, strict=True) if f is not None
        ]
        difference = _contracted(known, scan.clusters, own, known.difference)
        variance = _contracted(known, scan.clusters, [f**2 for f in own], np.ones_like(known.difference))
        variance *= known.table.variance
        squares, expected = float((difference**2).sum()), float(variance.sum())
        if squares <= MIN_EXCESS * expected:
            continue
        kept = 1.0 - expected / squares
        added[j] += kept * difference
        noise[j] += kept**2 * variance + (1.0 - kept) ** 2 * np.maximum(difference**2 - variance, 0.0)


def _over_bins(part: ViewPart, cluster: Cluster, known: Residual) -> Floats | None:
    """Functions of a cluster averaged over the bins of a table, shape (n_keys, n_functions, *n_bins).

    Attributes that the table does not count are averaged over all records.
    """
    values = cluster.values
    for axis in range(len(cluster.attributes) - 1, -1, -1):
        a = cluster.attributes[axis]
        if values.size // values.shape[2 + axis] * len(cluster.points[axis].starts) > MAX_NUMBERS:
            return None
        over_codes = cluster.over_codes(np.moveaxis(values, 2 + axis, -1), axis)
        if a not in known.table.attributes:
            margin = part.components.grid([a], part.components.weight)
            values = over_codes @ (margin / max(float(margin.sum()), 1.0))
            continue
        place = known.table.attributes.index(a)
        bins, n_bins = known.table.shape.bin_of_code[place], known.table.counts.shape[place]
        flat = (over_codes * known.shares[place]).reshape(-1, len(bins))
        order = np.argsort(bins, kind="stable")
        starts = np.searchsorted(bins[order], np.arange(n_bins))
        averaged = np.add.reduceat(flat[:, order], starts, axis=1)
        values = np.moveaxis(averaged.reshape(*over_codes.shape[:-1], n_bins), -1, 2 + axis)
    return values


def _contracted(
    known: Residual, clusters: Sequence[Cluster], functions: Sequence[Floats], cells: Floats
) -> Floats:
    """Sums of products of functions over the cells of a table, for every group, flat."""
    found, left = cells, list(known.table.attributes)
    for cluster, function in zip(clusters, functions, strict=True):
        axes = [left.index(a) for a in cluster.attributes if a in left]
        found = np.tensordot(found, function, (axes, list(range(1, 1 + len(axes)))))
        left = [a for a in left if a not in cluster.attributes]
    return found.reshape(-1)
