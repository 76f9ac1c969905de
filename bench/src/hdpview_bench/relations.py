"""Measure how well a release preserves relations: differences of means of one attribute by another.

A relation is an ordered pair of attributes (a, b) where the code of a explains at least 1% of the variance of
the code of b. Groups are the codes of a with at least 100 records. Regressing the release's group means on
the true ones gives slope 1 if all differences are preserved, and 0 if the release is flat.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Attribute, Ordered
from hdpview.methods.protocol import Release

LEAST_EXPLAINED = 0.01
LEAST_RECORDS = 100

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Relation:
    """The true means of attribute `value` in each group of records with the same code of attribute `group`.
    codes: of the groups, shape (n,). exact_records: their records. exact_means: of the codes of `value`.
    """

    group: int
    value: int
    codes: NDArray[np.int64]
    exact_records: Floats
    exact_means: Floats


@dataclass(frozen=True)
class RelationErrors:
    """Errors of one release, over all relations of a table.

    slope_median: of the slopes of its group means on the true ones, groups weighted by their records.
    slopes_above_half: share of the slopes above one half. variance_recovered_median: of 1 − Σ n (mean − true
    mean)² / Σ n (true mean − overall mean)², n the records of a group; negative if a flat line would be
    closer to the truth.
    """

    slope_median: float
    slopes_above_half: float
    variance_recovered_median: float


def exact_relations(counts: SparseCounts) -> list[Relation]:
    """All relations of a table."""
    codes = [np.ascontiguousarray(column).astype(np.int64) for column in counts.exact_codes.T]
    relations = []
    for a, b in permutations(range(len(codes)), 2):
        if not has_mean(counts.schema.attributes[b]):
            continue
        sizes = counts.schema.sizes[a], counts.schema.sizes[b]
        place = codes[a] * sizes[1] + codes[b]
        table = np.bincount(place, counts.exact_counts.astype(np.float64), sizes[0] * sizes[1])
        relation = _relation(a, b, table.astype(np.float64).reshape(sizes))
        if relation is not None:
            relations.append(relation)
    return relations


def has_mean(attribute: Attribute) -> bool:
    """Whether a mean of its codes is meaningful: they have an order, or there are two of them."""
    return isinstance(attribute, Ordered) or attribute.size == 2


def _relation(group: int, value: int, exact_table: Floats) -> Relation | None:
    """The relation in a table of records, groups down and values across; None if there is none."""
    records = exact_table.sum(axis=1)
    chosen = np.flatnonzero(records >= LEAST_RECORDS)
    if len(chosen) < 2:
        return None
    kept, values = exact_table[chosen], np.arange(exact_table.shape[1])
    means = kept @ values / records[chosen]
    centre = np.average(means, weights=records[chosen])
    between = (records[chosen] * (means - centre) ** 2).sum()
    whole = (kept * (values - centre) ** 2).sum()
    if between <= 0 or between < LEAST_EXPLAINED * whole:
        return None
    return Relation(group, value, chosen, records[chosen], means)


def relation_errors(release: Release, relations: Sequence[Relation]) -> RelationErrors | None:
    """Errors of a release in the relations; None if there are none."""
    slopes, recovered = [], []
    for relation in relations:
        slope, share = _slope_and_share(_group_means(release, relation), relation)
        slopes.append(slope)
        recovered.append(share)
    if not slopes:
        return None
    above = sum(slope > 0.5 for slope in slopes) / len(slopes)
    return RelationErrors(statistics.median(slopes), above, statistics.median(recovered))


def _group_means(release: Release, relation: Relation) -> Floats:
    """The release's group means, shape (n,). Negative counts count as 0; a group without records gets the
    overall mean.
    """
    table = np.maximum(release.marginal((relation.group, relation.value)), 0.0)
    values = np.arange(table.shape[1])
    total = table.sum()
    overall = float((table @ values).sum() / total) if total > 0 else float(values.mean())
    kept = table[relation.codes]
    records = kept.sum(axis=1)
    means: Floats = np.where(records > 0, kept @ values / np.where(records > 0, records, 1.0), overall)
    return means


def _slope_and_share(means: Floats, relation: Relation) -> tuple[float, float]:
    weights, truth = relation.exact_records, relation.exact_means
    centred = truth - np.average(truth, weights=weights)
    between = (weights * centred**2).sum()
    slope = (weights * centred * means).sum() / between
    share = 1.0 - (weights * (means - truth) ** 2).sum() / between
    return float(slope), float(share)
