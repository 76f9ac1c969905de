"""Clusters of attributes that expressions combine, and their contributions to base sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from hdpview.query.errors.fields import ErrorCluster
from hdpview.query.evaluate.database import Points
from hdpview.query.evaluate.expressions import text_of
from hdpview.view.data import Components

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Maximum size of a matrix of classes × codes for errors: 160 MB.
MAX_SHARES = 20_000_000
# Maximum combinations of classes of a cluster for which errors are drawn: 4 MB for 200 draws.
MAX_FIELD = 2_500
# Maximum size of an array of terms × components: 32 MB.
NUMBERS_AT_ONCE = 4_000_000


@dataclass(frozen=True, eq=False)
class Base:
    """The sum of `summand` over the records that satisfy all conditions; their number if it is None."""

    conditions: tuple[exp.Expr, ...]
    summand: exp.Expr | None = None

    @property
    def is_count(self) -> bool:
        return self.summand is None

    @property
    def factors(self) -> list[exp.Expr]:
        """The summand as a product: factors about different attributes stay in clusters of their own."""
        if self.summand is None:
            return []
        whole = self.summand.unnest()
        return [part.unnest() for part in whole.flatten()] if isinstance(whole, exp.Mul) else [self.summand]

    @property
    def key(self) -> tuple[object, ...]:
        summand = None if self.summand is None else text_of(self.summand)
        return tuple(sorted(map(text_of, self.conditions))), summand


@dataclass(frozen=True, eq=False)
class Pairs:
    """Functions of two attributes, and a key for each pair of many classes, such as the days between dates.

    key: shape (n_classes, n_classes), −1 for none; values: shape (n_functions, n_classes, n_classes).
    """

    key: Ints
    values: Floats
    class_of_point: tuple[Ints, ...]
    n_keys: int

    def by_key(self, function: int, weights: Floats) -> Floats:
        """Sums of a function over the pairs of each key. weights: of pairs."""
        weights = (weights * self.values[function]).reshape(-1)
        return np.bincount(self.key.reshape(-1) + 1, weights, self.n_keys + 1)[1:].astype(np.float64)

    def sums(self, components: Components, cluster: Cluster, function: int, weights: Floats) -> Floats:
        """Sums over records of every key, (n · n_keys,). weights: of components, in n groups, each a row."""
        classes = zip(cluster.attributes, self.class_of_point, cluster.points, self.key.shape, strict=True)
        one, other = (components.factors(a, _class_shares(*own)) for a, *own in classes)
        return np.concatenate([self.by_key(function, (one * row) @ other.T) for row in weights])


@dataclass(eq=False)
class Cluster:
    """Attributes that expressions combine.

    keys: numbers of the group keys in this cluster; key_table: their distinct values, one row per key.
    values: shape (n_keys, n_functions, *n_classes): the contribution of a record of these classes.
    points: per attribute; class_of_point: per attribute, shape (n_points,).
    extras: per attribute, code → class of the values without a point: beyond the schema's bounds,
        or in `other`.
    function: base sum → index of its function.
    pairs: of two attributes with too many classes; `values` are means over all of them then.
    """

    attributes: tuple[int, ...]
    keys: list[int]
    key_table: pa.Table | None
    values: Floats
    points: tuple[Points, ...] = ()
    class_of_point: tuple[Ints, ...] = ()
    extras: tuple[dict[int, int], ...] = ()
    function: list[int] = field(default_factory=list)
    pairs: Pairs | None = None

    def of(self, j: int) -> int:
        """The function of base sum j."""
        return self.function[j] if self.function else 0

    def shares(self, axis: int) -> Floats:
        """Share of each code in each class, shape (n_classes, n_codes)."""
        return _class_shares(self.class_of_point[axis], self.points[axis], self.values.shape[2 + axis])

    def over_codes(self, values: Floats, axis: int) -> Floats:
        """Functions of the classes of an attribute as functions of its codes: n_classes → n_codes."""
        points, cls = self.points[axis], self.class_of_point[axis]
        rows = values.reshape(-1, values.shape[-1])
        is_square = rows.shape[1] == len(rows) == np.count_nonzero(rows)
        if is_square and (rows.diagonal() == 1.0).all():  # keys are classes, such as days
            return self.shares(axis).reshape(*values.shape[:-1], -1)
        means = np.empty((len(rows), len(points.starts)))
        step = max(1, NUMBERS_AT_ONCE // len(cls))
        for first in range(0, len(rows), step):
            piece = rows[first : first + step, cls] * points.share
            means[first : first + step] = np.add.reduceat(piece, points.starts, axis=1)
        return means.reshape(*values.shape[:-1], len(points.starts))


def _class_shares(cls: Ints, points: Points, n: int) -> Floats:
    size = len(points.starts)
    shares: Floats = np.bincount(cls * size + points.code, points.share, n * size).astype(np.float64)
    return shares.reshape(n, size)


def for_errors(cluster: Cluster, margins: Callable[[int], Floats]) -> ErrorCluster:
    """A cluster reduced until a matrix of classes by codes fits into memory.

    Further classes are merged with their neighbours; errors then use their means.
    """
    functions, classes = cluster.values, []
    sizes = [min(len(p.starts), n) for p, n in zip(cluster.points, functions.shape[2:], strict=True)]
    is_large = len(sizes) > 1 and math.prod(sizes) > MAX_FIELD
    share_of_field = int(MAX_FIELD ** (1 / len(sizes))) if is_large else max(sizes, default=1)
    for axis, a in enumerate(cluster.attributes):
        n, size = functions.shape[2 + axis], int(cluster.points[axis].code[-1]) + 1
        cls, points = cluster.class_of_point[axis], cluster.points[axis]
        most = max(min(MAX_SHARES // size, share_of_field), 16)
        if n > size and size * size <= MAX_SHARES and size <= most:
            moved = cluster.over_codes(np.moveaxis(functions, 2 + axis, -1), axis)
            functions = np.moveaxis(moved, -1, 2 + axis)
            classes.append(np.eye(size))
            continue
        if n > most:
            # Classes are numbered by their values, so neighbours are similar.
            bucket = np.arange(n) * most // n
            starts = np.searchsorted(bucket, np.arange(most))
            weight = np.bincount(cls, points.share * (margins(a)[points.code] + 1e-9), n) + 1e-12
            moved = np.add.reduceat(np.moveaxis(functions, 2 + axis, -1) * weight, starts, axis=-1)
            functions = np.moveaxis(moved / np.add.reduceat(weight, starts), -1, 2 + axis)
            cls, n = bucket[cls], most
        classes.append(_class_shares(cls, points, n))
    return ErrorCluster(cluster.attributes, functions, tuple(classes), cluster.function)


def component_means(components: Components, cluster: Cluster) -> Floats:
    """Means of a cluster's functions in components, shape (n_keys, n_functions, n_components).

    Contracted attribute by attribute; equal rows are computed once.
    """
    n_keys, n_functions = cluster.values.shape[:2]
    n = len(components)
    if not cluster.attributes:
        return np.repeat(cluster.values[:, :, None], n, axis=2)
    last = len(cluster.attributes) - 1
    rows = cluster.values.reshape(-1, cluster.values.shape[-1])
    which: NDArray[np.intp] = np.arange(len(rows))
    if last:
        number: dict[bytes, int] = {}  # far faster than np.unique of long rows
        which = np.array([number.setdefault(row.tobytes(), len(number)) for row in rows], dtype=np.intp)
        rows = rows[np.unique(which, return_index=True)[1]]
    means: Floats = components.factors(cluster.attributes[last], cluster.over_codes(rows, last))
    table = which.reshape(-1)
    for axis in range(last - 1, -1, -1):
        per_class = components.factors(cluster.attributes[axis], cluster.shares(axis))
        places, which = np.unique(table.reshape(-1, len(per_class)), axis=0, return_inverse=True)
        step = max(1, NUMBERS_AT_ONCE // (len(per_class) * n))
        pieces = [
            np.einsum("rcz,cz->rz", means[places[i : i + step]], per_class)
            for i in range(0, len(places), step)
        ]
        means = np.concatenate(pieces or [np.zeros((0, n))])
        table = which.reshape(-1)
    return means[table].reshape(n_keys, n_functions, n)


def grid_weights(means: Sequence[Floats], weight: Floats) -> Floats:
    """weight_z Π means over the grid of keys, shape (n, n_components). means: (n_keys, n_components) each."""
    table = weight[None]
    for mean in means:
        table = (table[:, None, :] * mean[None]).reshape(-1, len(weight))
    return table


def grid_product(means: Sequence[Floats], weight: Floats) -> Floats:
    """Σ_z weight_z Π means over the grid of keys, flat. means: shape (n_keys, n_components) each."""
    product: Floats = grid_weights(means[:-1], weight) @ means[-1].T
    return product.reshape(-1)
