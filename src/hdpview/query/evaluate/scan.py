"""A scan: one SELECT … FROM view WHERE … GROUP BY …, as sums over records for every group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from hdpview.errors import QueryError
from hdpview.query.estimate.estimates import check_number_of_groups
from hdpview.query.evaluate.classes import Compiler
from hdpview.query.evaluate.clusters import Base, Cluster, component_means, grid_weights
from hdpview.query.evaluate.database import SECRET, Points, ViewDatabase, points_table
from hdpview.query.evaluate.expressions import BIN, conjuncts, looked_inside, over_points, text_of

Floats = NDArray[np.float64]

# Maximum number of possible groups among which existing ones are counted, as far as noise allows.
MAX_COUNTED_GROUPS = 500


@dataclass
class Cuts:
    """The uncertainty of conditions and keys: bins that they cut, and undeclared values, per attribute."""

    bins: dict[int, set[int]] = field(default_factory=dict)
    beyond: set[int] = field(default_factory=set)
    other: set[int] = field(default_factory=set)


class Scan:
    """Keys, filter and base sums of one SELECT over the view."""

    def __init__(
        self, database: ViewDatabase, number: int, keys: Sequence[exp.Expr], where: Sequence[exp.Expr]
    ) -> None:
        self.database, self.number, self.keys, self.where = database, number, list(keys), list(where)
        # Attributes counted by days whose time of day an expression needs.
        self.fine = {a for node in [*keys, *where] for a in looked_inside(node, database)}
        self.bases: list[Base] = []
        self._known: dict[tuple[object, ...], int] = {}
        # Further scans with one more key, for quantiles and modes: (argument, scan, column, how).
        self.ordered: list[OrderedColumn] = []
        self.clusters: list[Cluster] = []
        self.cuts = Cuts()
        self.estimate: Floats = np.zeros((0, 0))
        # True if the surrounding statement needs only the existence of groups.
        self.counts_groups = False
        # Base sums whose least and greatest summands are needed.
        self.limited: set[int] = set()

    def base(self, conditions: Sequence[exp.Expr], summand: exp.Expr | None = None) -> int:
        """The number of a base sum; equal ones are computed once."""
        own = Base(tuple(conditions), summand)
        if own.key not in self._known:
            self._known[own.key] = len(self.bases)
            self.bases.append(own)
            for node in [*own.conditions, *own.factors]:
                self.fine |= looked_inside(node, self.database)
        return self._known[own.key]

    def column(self, conditions: Sequence[exp.Expr], summand: exp.Expr | None = None) -> str:
        """The name of a base sum in the scan's table."""
        return f"{SECRET}b{self.base(conditions, summand)}"

    @property
    def signature(self) -> str:
        """Keys and filter as text: scans with the same one are about the same groups."""
        return " ".join(map(text_of, [*self.keys, *self.where]))

    @property
    def grid(self) -> tuple[int, ...]:
        return tuple(len(cluster.values) for cluster in self.clusters)

    @property
    def n_groups(self) -> int:
        return math.prod(self.grid)

    def points(self, a: int) -> Points:
        """The points of an attribute."""
        return self.database.points(a, a in self.fine)

    def points_table(self, a: int) -> str:
        """Their table."""
        return points_table(a, a in self.fine)

    @property
    def attributes(self) -> set[int]:
        return {a for cluster in self.clusters for a in cluster.attributes}

    def attributes_of(self, node: exp.Expr) -> frozenset[int]:
        """Attributes in an expression."""
        number = self.database.number
        names = (column.name.removesuffix(BIN) for column in node.find_all(exp.Column))
        return frozenset(number[name.lower()] for name in names)

    # Compiling.

    def compile(self, cursor: object, raw: bool = False) -> None:
        """Evaluate all expressions over points, and the base sums of every group.

        raw: from noisy counts of blocks as they are.
        """
        where = [part for whole in self.where for part in conjuncts(whole)]
        factors = [factor for base in self.bases for factor in base.factors]
        conditions = [condition for base in self.bases for condition in base.conditions]
        sets = [self.attributes_of(node) for node in [*self.keys, *where, *conditions, *factors]]
        united = _united([own for own in sets if own])
        compiler = Compiler(self, cursor, where)
        self.clusters = [compiler.cluster(own, is_first=i == 0) for i, own in enumerate(united)]
        if not united or not all(map(self.attributes_of, [*self.keys, *where])):
            self.clusters.append(compiler.cluster(frozenset(), is_first=not united))
        self.clusters.sort(key=lambda cluster: cluster.pairs is not None)
        if sum(cluster.pairs is not None for cluster in self.clusters) > 1:
            raise QueryError("Groups by two differences of attributes are not supported. Ask one at a time.")
        check_number_of_groups(self.n_groups)
        if self.counts_groups and self.n_groups > MAX_COUNTED_GROUPS:
            raise QueryError(
                f"Noise hides which of {self.n_groups:,} possible groups exist, so they cannot be counted, "
                "as with COUNT(DISTINCT …). Ask for groups of fewer attributes."
            )
        self.estimate = self._estimates(raw)

    def _estimates(self, raw: bool) -> Floats:
        """Shape (n_bases, n_groups): products over components, summed over parts."""
        total = np.zeros((len(self.bases), self.n_groups))
        *others, last = self.clusters
        for part in self.database.view.parts:
            components = part.components
            weight = components.raw_weight if raw else components.weight
            means = [component_means(components, cluster) for cluster in others]
            of_last = component_means(components, last)
            for j in range(len(self.bases)):
                own = [mean[:, cluster.of(j)] for cluster, mean in zip(others, means, strict=True)]
                weights = grid_weights(own, weight)
                if last.pairs is None:
                    total[j] += (weights @ of_last[:, last.of(j)].T).reshape(-1)
                else:
                    total[j] += last.pairs.sums(components, last, last.of(j), weights)
        # Sums of shares are exact up to rounding: a count of 5 is 5.
        return np.round(total, 9)

    def limits(self, j: int) -> tuple[Floats, Floats]:
        """The least and greatest contribution of a record to a base sum, shape (n_groups,) each. Classes to
        which the base sum does not apply are ignored, unless there are no others.
        """
        low, high = np.ones(self.grid), np.ones(self.grid)
        for axis, cluster in enumerate(self.clusters):
            every = cluster.values if cluster.pairs is None else cluster.pairs.values[None]
            flat = len(every), math.prod(every.shape[2:])
            values = every[:, cluster.of(j)].reshape(flat)
            counted = every[:, cluster.of(self.count_of(j))].reshape(flat) != 0
            least = np.where(counted, values, np.inf).min(axis=1, initial=np.inf)
            greatest = np.where(counted, values, -np.inf).max(axis=1, initial=-np.inf)
            shape = [1] * len(self.clusters)
            shape[axis] = len(values)
            least, greatest = least.reshape(shape), greatest.reshape(shape)
            with np.errstate(invalid="ignore"):
                ends = np.stack([low * least, low * greatest, high * least, high * greatest])
            low, high = np.fmin.reduce(ends, axis=0), np.fmax.reduce(ends, axis=0)
        return low.reshape(-1), high.reshape(-1)

    def count_of(self, j: int) -> int:
        """The base sum that counts the records of a base sum; itself if there is none."""
        return self._known.get(Base(self.bases[j].conditions).key, j)

    def key_table(self) -> pa.Table:
        """The keys of every group: g, k0, k1, …"""
        index = np.indices(self.grid).reshape(len(self.grid), -1)
        columns = {f"{SECRET}g": pa.array(np.arange(self.n_groups, dtype=np.int32))}
        for cluster, place in zip(self.clusters, index, strict=True):
            if cluster.key_table is not None:
                for name in cluster.key_table.column_names:
                    column = cluster.key_table.column(name).take(pa.array(place))
                    columns[name] = column.combine_chunks()
        return pa.table(columns)


@dataclass
class OrderedColumn:
    """A quantile or mode of every group, found in a scan with one more key.

    kind: `quantile` or `mode`; discrete: the quantile is one of the values.
    argument: if the key is the bin of one attribute, the expression of it whose quantile is needed.
    range: the least and the greatest value of that expression.
    """

    scan: Scan
    column: str
    kind: str
    q: float = 0.5
    discrete: bool = False
    argument: exp.Expr | None = None
    range: tuple[float, float] = (-math.inf, math.inf)

    def values_of_points(self, cursor: object) -> tuple[int, Floats]:
        """The attribute, and the argument at each of its points, NaN for NULL."""
        assert self.argument is not None
        (a,) = self.scan.attributes_of(self.argument)
        self.scan.points(a)
        table = cursor.sql(  # type: ignore[attr-defined]
            f"SELECT CAST({over_points(self.scan, self.argument)} AS DOUBLE) AS v "
            f"FROM {self.scan.points_table(a)} ORDER BY i"
        ).to_arrow_table()
        return a, np.array(table.column("v").to_numpy(zero_copy_only=False), dtype=np.float64)


def _united(sets: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """Unions of sets that share elements, so that the results are disjoint."""
    groups: list[frozenset[int]] = []
    for own in sets:
        touching = [other for other in groups if other & own]
        groups = [other for other in groups if not other & own] + [frozenset().union(own, *touching)]
    return groups
