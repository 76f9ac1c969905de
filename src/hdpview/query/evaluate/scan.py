"""A scan: one SELECT … FROM view WHERE … GROUP BY …, as sums over records for every group.

DuckDB evaluates keys, conditions and summands over points. The largest parts of expressions about one
attribute are atoms; points of an attribute with equal atoms form a class; expressions about several
attributes are evaluated over the cross join of classes, never of points.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from hdpview.domain import Attribute, Category, Ordered
from hdpview.errors import QueryError, shortened
from hdpview.query.estimate.estimates import MAX_GROUPS, check_number_of_groups
from hdpview.query.evaluate.database import SECRET, Points, ViewDatabase, point_type, points_table
from hdpview.view.blocks import Blocks
from hdpview.view.components import Components

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Groups up to which those that exist are counted, as far as noise allows.
MAX_COUNTED_GROUPS = 500
# Combinations of classes of attributes that one expression ties together: rows of a cross join.
MAX_COMBINATIONS = 600_000
# Numbers of an array of keys × functions × classes: 400 MB.
MAX_NUMBERS = 50_000_000
# Numbers of a matrix of classes by codes that errors are computed with: 160 MB.
MAX_SHARES = 20_000_000
# Combinations of classes of attributes tied together that errors are drawn for: 64 MB for 200 draws.
MAX_FIELD = 40_000
# Numbers of an array of terms × components at a time: 32 MB.
NUMBERS_AT_ONCE = 4_000_000
# How far beyond the bounds of moments a value is looked at: 1,000 years.
FAR_MICROSECONDS = 1_000 * 365 * 86_400_000_000
# Times that a summand may change its value inside a bin and still be taken for a condition.
MAX_STEPS = 2
# Points per bin to look at where expressions tie attributes with many values together.
COARSER = (12, 4, 1)
# A value that no text pattern matches: what is in `other` is unknown.
_UNDECLARED = "\ue000"
# What an expression holds that asks for hours, minutes or times of day.
_INSIDE_DAYS = r"hour|minute|second|epoch_us|%-?[HIMSpfTX]|\btime\b|\d:\d\d|current_timestamp|now\("
_NEVER_ATOMS = (exp.Tuple, exp.Interval, exp.If, exp.Ordered, exp.Distinct, exp.DataType, exp.Var)


@dataclass(frozen=True, eq=False)
class Base:
    """A base sum: over records that satisfy conditions, of a summand; None counts records."""

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


@dataclass(eq=False)
class Cluster:
    """Attributes that expressions tie together.

    keys: numbers of the group keys that live here; key_table: their distinct values, one row per key.
    values: shape (n_keys, n_functions, *n_classes): what a record of these classes adds.
    points: per attribute; class_of_point: per attribute, shape (n_points,).
    extras: per attribute, code → class of values that the points do not show: beyond the schema's bounds,
        or in `other`.
    function: base sum → which of the functions.
    """

    attributes: tuple[int, ...]
    keys: list[int]
    key_table: pa.Table | None
    values: Floats
    points: tuple[Points, ...] = ()
    class_of_point: tuple[Ints, ...] = ()
    extras: tuple[dict[int, int], ...] = ()
    function: list[int] = field(default_factory=list)

    def of(self, j: int) -> int:
        """The function of base sum j."""
        return self.function[j] if self.attributes else 0

    def shares(self, axis: int) -> Floats:
        """Share of each code in each class, shape (n_classes, n_codes)."""
        points, cls, n = self.points[axis], self.class_of_point[axis], self.values.shape[2 + axis]
        size = int(points.code[-1]) + 1
        return _class_shares(cls, points, n, size)

    def over_codes(self, values: Floats, axis: int) -> Floats:
        """Functions of the classes of an attribute as functions of its codes: n_classes → n_codes."""
        points, cls, n = self.points[axis], self.class_of_point[axis], values.shape[-1]
        size = int(points.code[-1]) + 1
        if n * size <= NUMBERS_AT_ONCE:
            return values @ self.shares(axis)
        rows, starts = values.reshape(-1, n), points.starts
        means = np.empty((len(rows), size))
        step = max(1, NUMBERS_AT_ONCE // len(cls))
        for first in range(0, len(rows), step):
            piece = rows[first : first + step, cls] * points.share
            means[first : first + step] = np.add.reduceat(piece, starts, axis=1)
        return means.reshape(*values.shape[:-1], size)


@dataclass(frozen=True, eq=False)
class ErrorCluster:
    """A cluster as the error model reads it.

    functions: shape (n_keys, n_functions, *n_classes). classes: per attribute, shape (n_classes, n_codes).
    """

    attributes: tuple[int, ...]
    functions: Floats
    classes: tuple[Floats, ...]
    spec: Sequence[int]


def _class_shares(cls: Ints, points: Points, n: int, size: int) -> Floats:
    shares: Floats = np.bincount(cls * size + points.code, points.share, n * size).astype(np.float64)
    return shares.reshape(n, size)


def for_errors(cluster: Cluster, margins: Callable[[int], Floats]) -> ErrorCluster:
    """A cluster with so few classes that a matrix of classes by codes can be held.

    Classes beyond are merged, neighbours in what they add; errors then see their means.
    """
    functions, classes = cluster.values, []
    sizes = [min(len(p.starts), n) for p, n in zip(cluster.points, functions.shape[2:], strict=True)]
    is_large = math.prod(sizes) > MAX_FIELD
    share_of_field = int(MAX_FIELD ** (1 / len(sizes))) if is_large else MAX_FIELD
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
            rows = np.moveaxis(functions, 2 + axis, -1).reshape(-1, n)
            rank = np.empty(n, np.int64)
            rank[np.lexsort(rows[:4][::-1])] = np.arange(n)
            bucket = rank * most // n
            weight = np.bincount(cls, points.share * (margins(a)[points.code] + 1e-9), n) + 1e-12
            total = np.bincount(bucket, weight, most)
            merged = np.zeros((len(rows), most))
            for i, row in enumerate(rows):
                merged[i] = np.bincount(bucket, row * weight, most) / np.maximum(total, 1e-300)
            shape = [*functions.shape[:2], *np.delete(functions.shape[2:], axis), most]
            functions = np.moveaxis(merged.reshape(shape), -1, 2 + axis)
            cls, n = bucket[cls], most
        classes.append(_class_shares(cls, points, n, size))
    return ErrorCluster(cluster.attributes, functions, tuple(classes), cluster.function)


@dataclass
class Cuts:
    """What conditions and keys leave open: bins that they cut, and undeclared values, per attribute."""

    bins: dict[int, set[int]] = field(default_factory=dict)
    beyond: set[int] = field(default_factory=set)
    other: set[int] = field(default_factory=set)

    def codes(self, a: int) -> set[int]:
        return self.bins.get(a, set())


class Scan:
    """Keys, filter and base sums of one SELECT over the view."""

    def __init__(
        self, database: ViewDatabase, number: int, keys: Sequence[exp.Expr], where: Sequence[exp.Expr]
    ) -> None:
        self.database, self.number, self.keys, self.where = database, number, list(keys), list(where)
        # Attributes counted by days that an expression looks inside of.
        self.fine = {a for node in [*keys, *where] for a in looked_inside(node, database)}
        self.bases: list[Base] = []
        self._known: dict[tuple[object, ...], int] = {}
        # Further scans with one more key, for quantiles and modes: (argument, scan, column, how).
        self.ordered: list[OrderedColumn] = []
        self.clusters: list[Cluster] = []
        self.cuts = Cuts()
        self.estimate: Floats = np.zeros((0, 0))
        # True if nothing but the existence of groups is asked for, by a statement around this one.
        self.counts_groups = False
        # Base sums whose least and greatest summands are wanted.
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
        """Attributes that an expression is about."""
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
        compiler = _Compiler(self, cursor, where)
        self.clusters = [compiler.cluster(own, is_first=i == 0) for i, own in enumerate(united)]
        constants = [condition for condition in where if not self.attributes_of(condition)]
        constant_keys = [i for i, key in enumerate(self.keys) if not self.attributes_of(key)]
        if constants or constant_keys or not united:
            self.clusters.append(compiler.constants(constants, constant_keys))
        check_number_of_groups(self.n_groups)
        if self.counts_groups and self.n_groups > MAX_COUNTED_GROUPS:
            raise QueryError(
                f"Which of {self.n_groups:,} possible groups exist is not known: like COUNT(DISTINCT …), "
                "that is not supported, since noise hides rare values. Ask for groups of fewer attributes."
            )
        self.estimate = self._estimates(raw)

    def _estimates(self, raw: bool) -> Floats:
        """Shape (n_bases, n_groups): products over components, summed over parts."""
        total = np.zeros((len(self.bases), self.n_groups))
        for part in self.database.view.parts:
            components = part.components
            weight = components.weight
            if raw and isinstance(components, Blocks):
                weight = components.noisy_counts.astype(np.float64)
            means = [component_means(components, cluster) for cluster in self.clusters]
            for j in range(len(self.bases)):
                own = [mean[:, cluster.of(j)] for cluster, mean in zip(self.clusters, means, strict=True)]
                total[j] += grid_product(own, weight)
        # Sums of shares are exact but for rounding: a count of 5 is 5.
        return np.round(total, 9)

    def limits(self, j: int) -> tuple[Floats, Floats]:
        """The least and greatest that a record adds to a base sum, shape (n_groups,) each; a class to which
        the base sum does not apply adds 0 and does not count, unless all do.
        """
        low, high = np.ones(self.grid), np.ones(self.grid)
        for axis, cluster in enumerate(self.clusters):
            flat = len(cluster.values), math.prod(cluster.values.shape[2:])
            values = cluster.values[:, cluster.of(j)].reshape(flat)
            counted = self._counted(cluster, j).reshape(flat) != 0
            least = np.where(counted, values, np.inf).min(axis=1, initial=np.inf)
            greatest = np.where(counted, values, -np.inf).max(axis=1, initial=-np.inf)
            shape = [1] * len(self.clusters)
            shape[axis] = len(values)
            least, greatest = least.reshape(shape), greatest.reshape(shape)
            with np.errstate(invalid="ignore"):
                ends = np.stack([low * least, low * greatest, high * least, high * greatest])
            low, high = np.fmin.reduce(ends, axis=0), np.fmax.reduce(ends, axis=0)
        return low.reshape(-1), high.reshape(-1)

    def _counted(self, cluster: Cluster, j: int) -> Floats:
        """The function of a cluster that counts the records of a base sum."""
        own = self.bases[j]
        known = self._known.get(Base(own.conditions).key)
        return cluster.values[:, cluster.of(j if known is None else known)]

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
    argument: where the key is the bin of one attribute, the expression of it whose quantile is asked for.
    """

    scan: Scan
    column: str
    kind: str
    q: float = 0.5
    discrete: bool = False
    argument: exp.Expr | None = None

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


BIN = "__bin"  # a column that stands for the bin of an attribute instead of its value


class _Compiler:
    """Evaluates the expressions of one scan."""

    def __init__(self, scan: Scan, cursor: object, where: list[exp.Expr]) -> None:
        self.scan, self.database, self.cursor, self.where = scan, scan.database, cursor, where

    def arrow(self, sql: str) -> pa.Table:
        return self.cursor.sql(sql).to_arrow_table()  # type: ignore[attr-defined]

    def constants(self, conditions: list[exp.Expr], keys: list[int]) -> Cluster:
        """The cluster of expressions about no attribute."""
        test = " AND ".join(f"({text_of(condition)})" for condition in conditions) or "TRUE"
        columns = "".join(f", {text_of(self.scan.keys[i])} AS {key_name(i)}" for i in keys)
        table = self.arrow(f"SELECT ({test}) AS h{columns}")
        holds = 1.0 if table.column("h")[0].as_py() else 0.0
        key_table = table.drop_columns(["h"]) if keys else None
        return Cluster((), keys, key_table, np.full((1, 1), holds))

    def cluster(self, chosen: frozenset[int], is_first: bool) -> Cluster:
        """Classes of every attribute, then functions over the cross join of classes."""
        scan, attributes = self.scan, tuple(sorted(chosen))

        def mine(node: exp.Expr) -> bool:
            return bool(scan.attributes_of(node) & chosen)

        atoms = _Atoms(scan, attributes)
        keys = [i for i, key in enumerate(scan.keys) if mine(key)]
        columns = [f"{atoms.text(scan.keys[i], 'key')} AS {key_name(i)}" for i in keys]
        own_where = [condition for condition in self.where if mine(condition)]
        single = {a: [c for c in own_where if scan.attributes_of(c) == {a}] for a in attributes}
        several = [c for c in own_where if len(scan.attributes_of(c)) > 1]
        test = " AND ".join(
            [f"c{a}.w" for a in attributes if single[a]] + [f"({atoms.text(c, 'test')})" for c in several]
        )
        functions: dict[tuple[tuple[str, ...], str], int] = {}
        function = []
        for base in scan.bases:
            tests = tuple(sorted(atoms.text(c, "test") for c in base.conditions if mine(c)))
            factors = [f for f in base.factors if mine(f) or (is_first and not scan.attributes_of(f))]
            summand = " * ".join(f"CAST({atoms.text(f, 'sum')} AS DOUBLE)" for f in factors)
            function.append(functions.setdefault((tests, summand), len(functions)))
        for (tests, summand), j in functions.items():
            value, when = summand or "1.0", " AND ".join(f"({one})" for one in tests)
            columns.append(f"{f'CASE WHEN {when} THEN {value} END' if when else value} AS v{j}")
        parts = [self._classes(a, atoms, single[a]) for a in attributes]
        for per_bin in COARSER if len(attributes) > 1 else ():
            if math.prod(part.n for part in parts) > MAX_COMBINATIONS:
                parts = [self._classes(a, atoms, single[a], per_bin) for a in attributes]
        n_classes = [part.n for part in parts]
        if math.prod(n_classes) > MAX_COMBINATIONS:
            names = " and ".join(repr(self.database.schema.names[a]) for a in attributes)
            raise QueryError(
                f"An expression ties {names} together, which have too many different values between them. "
                "Compare wider bins of them."
            )
        places = ", ".join([*(f"c{a}.cls AS p{a}" for a in attributes), *columns])
        source = ", ".join(f"{SECRET}_classes{a} AS c{a}" for a in attributes)
        sql = f"SELECT {places} FROM {source}{f' WHERE {test}' if test else ''}"
        if keys:
            listed = ", ".join(map(key_name, keys))
            sql = f"SELECT *, dense_rank() OVER (ORDER BY {listed}) - 1 AS kk FROM ({sql})"
        table = self.arrow(sql)
        flat = np.zeros(len(table), np.int64)
        for a, n in zip(attributes, n_classes, strict=True):
            flat = flat * n + table.column(f"p{a}").to_numpy()
        key = table.column("kk").to_numpy().astype(np.int64) if keys else np.zeros(len(table), np.int64)
        n_keys = int(key.max(initial=-1)) + 1 if keys else 1
        if n_keys > MAX_GROUPS or n_keys * max(len(functions), 1) * math.prod(n_classes) > MAX_NUMBERS:
            raise QueryError(
                f"That makes {n_keys:,} groups of attributes with many values. Narrow them with WHERE, or "
                "group by wider bins, such as date_trunc('day', …)."
            )
        values = np.zeros((n_keys, max(len(functions), 1), math.prod(n_classes)))
        for j in range(len(functions)):
            column = table.column(f"v{j}").to_numpy(zero_copy_only=False).astype(np.float64)
            values[key, j, flat] = np.nan_to_num(column, nan=0.0, posinf=0.0, neginf=0.0)
        key_table = None
        if keys:
            first = np.zeros(n_keys, np.int64)
            first[key[::-1]] = np.arange(len(key))[::-1]
            key_table = table.select([key_name(i) for i in keys]).take(pa.array(first))
        return Cluster(
            attributes,
            keys,
            key_table,
            values.reshape(n_keys, max(len(functions), 1), *n_classes),
            tuple(self.scan.points(a) for a in attributes),
            tuple(part.cls for part in parts),
            tuple(part.extras for part in parts),
            function,
        )

    def _classes(self, a: int, atoms: _Atoms, single: list[exp.Expr], per_bin: int | None = None) -> _Classes:
        """Classes of the points of an attribute; their atoms become a table.

        per_bin: so many points of each bin stand for all of them.
        """
        attribute = self.database.schema.attributes[a]
        points, own = self.scan.points(a), atoms.of[a]
        used = np.arange(len(points.code)) if per_bin is None else points.representatives(per_bin)
        kept = np.unique(used)
        table_of_points = self.scan.points_table(a)
        if len(kept) < len(used):
            self.cursor.register(f"{SECRET}_some{a}", pa.table({"j": kept.astype(np.int32)}))  # type: ignore[attr-defined]
            table_of_points = f"(SELECT * FROM {table_of_points} WHERE i IN (SELECT j FROM {SECRET}_some{a}))"
        source = f"SELECT *, x AS u, 0 AS extra FROM {table_of_points}"
        other = attribute.unknown_code if isinstance(attribute, Category) and attribute.other else None
        if other is not None:
            source = (
                f"SELECT *, CASE WHEN code = {other} THEN '{_UNDECLARED}' ELSE x END AS u, 0 AS extra "
                f"FROM {table_of_points}"
            )
        kinds = self._kinds(a, own) if other is not None or isinstance(attribute, Ordered) else {}
        unknown = {name for name in kinds if name in atoms.inexact and kinds[name] == "BOOLEAN"}
        unknown = unknown if other is not None else set()
        exact = [c for c in single if other is None or _is_exact(c)]
        inexact = [c for c in single if other is not None and not _is_exact(c)]
        where, guess = _conjunction(self.scan, exact, "x"), _conjunction(self.scan, inexact, "u")
        if self._asks_beyond(attribute, kinds, single):
            source += f" UNION ALL {self._beyond(a)}"
        rows = _rows(source, f"({where}) AND ({guess})", atoms.columns(a, unknown, "u"))
        if unknown or inexact:
            self.scan.cuts.other.add(a)
            one = f"SELECT * REPLACE (0.0 AS share, 1 AS extra) FROM ({source}) WHERE code = {other}"
            holds = f"({where}) AND NOT ({guess})" if inexact else where
            rows += f" UNION ALL {_rows(one, holds, atoms.columns(a, unknown, 'u', negated=True))}"
        listed = ", ".join(["w", *own.values()])
        table = self.arrow(
            f"SELECT *, dense_rank() OVER (ORDER BY {listed}) - 1 AS cls FROM ({rows}) ORDER BY extra, i"
        )
        cls = table.column("cls").to_numpy().astype(np.int64)
        n = int(cls.max()) + 1
        first = np.zeros(n, np.int64)
        first[cls[::-1]] = np.arange(len(cls))[::-1]
        distinct = table.drop_columns(["i", "code", "share", "extra"]).take(pa.array(first))
        self.cursor.register(f"{SECRET}_classes{a}", distinct)  # type: ignore[attr-defined]
        n_points = len(kept)
        conditions = ["w", *kinds] if isinstance(attribute, Ordered) else []
        extras = _extras(table, n_points, conditions)
        cls = cls[:n_points]
        if per_bin is None:
            self._note_cuts(a, table, cls, kinds, atoms.used, extras)
        cls = cls[np.searchsorted(kept, used)]
        return _Classes(cls, n, extras)

    def _kinds(self, a: int, own: dict[str, str]) -> dict[str, str]:
        """DuckDB's type of each atom."""
        if not own:
            return {}
        listed = ", ".join(f"{sql} AS {name}" for sql, name in own.items())
        rows = self.cursor.execute(  # type: ignore[attr-defined]
            f"DESCRIBE SELECT {listed} FROM {self.scan.points_table(a)}"
        ).fetchall()
        return {name: kind for name, kind, *_ in rows}

    def _asks_beyond(self, attribute: Attribute, kinds: dict[str, str], single: list[exp.Expr]) -> bool:
        """True if only conditions are asked of an ordered attribute: they may hold beyond its bounds."""
        is_tested = bool(kinds) or bool(single)
        return isinstance(attribute, Ordered) and is_tested and all(k == "BOOLEAN" for k in kinds.values())

    def _beyond(self, a: int) -> str:
        """Rows for values beyond the bounds of the schema, which are counted in the first and last bins."""
        attribute = self.database.schema.attributes[a]
        kind = point_type(attribute, a in self.scan.fine)
        assert isinstance(attribute, Ordered)
        low, high = attribute.ends
        if kind in ("DATE", "TIMESTAMP"):
            far = [int(low) - FAR_MICROSECONDS, int(high) + FAR_MICROSECONDS]
            values = [f"CAST(make_timestamp({place}::BIGINT) AS {kind})" for place in far]
        else:
            width = min(1000 * max(abs(low), abs(high), high - low), 2.0**62)
            values = [f"CAST({place:.0f} AS {kind})" for place in (-width, width)]
        codes = (0, attribute.n_values - 1)
        rows = ", ".join(f"({code}, {value})" for code, value in zip(codes, values, strict=True))
        return (
            "SELECT 0 AS i, code, 0.0 AS share, x, NULL AS bin, x AS u, 1 AS extra "
            f"FROM (VALUES {rows}) AS v(code, x)"
        )

    def _note_cuts(
        self,
        a: int,
        table: pa.Table,
        cls: Ints,
        kinds: dict[str, str],
        used: dict[str, set[str]],
        extras: dict[int, int],
    ) -> None:
        """Remember bins that conditions or keys cut, for the notes."""
        codes, attribute = self.scan.points(a).code, self.database.schema.attributes[a]
        if not isinstance(attribute, Ordered):
            return
        cuts = self.scan.cuts.bins.setdefault(a, set())
        same = codes[1:] == codes[:-1]
        for name in ["w", *kinds]:
            column = table.column(name).slice(0, len(codes)).combine_chunks().dictionary_encode()
            index = column.indices.fill_null(-1).to_numpy()
            is_step = same & (index[1:] != index[:-1])
            if name == "w" or used.get(name, set()) & {"key", "test"}:
                cuts |= set(codes[1:][is_step].tolist())
            else:  # a summand with few values inside a bin, such as CASE WHEN x = 0 THEN 1 ELSE 0 END
                n_steps, n_same = (
                    np.bincount(codes[1:][each], minlength=attribute.size) for each in (is_step, same)
                )
                cuts |= set(
                    np.flatnonzero((n_steps > 0) & (n_steps <= MAX_STEPS) & (n_steps < n_same)).tolist()
                )
        for code, own in extras.items():
            if not (cls[codes == code] == own).any():
                self.scan.cuts.beyond.add(a)


def _extras(table: pa.Table, n_points: int, conditions: Sequence[str]) -> dict[int, int]:
    """Code → class of values that no point shows.

    Of conditions on values beyond the schema's bounds: only where one holds there and at no point of the bin.
    What some values of a bin satisfy is asked of the whole bin, as in Python.
    """
    codes, cls = (table.column(name).to_numpy() for name in ("code", "cls"))
    extras = dict(zip(codes[n_points:].tolist(), cls[n_points:].tolist(), strict=True))
    if not conditions or not extras:
        return extras
    holds = np.stack([table.column(name).fill_null(False).to_numpy() for name in conditions]).astype(bool)
    beyond = {code: i for i, code in enumerate(codes[n_points:].tolist(), n_points)}
    inside = {code: holds[:, :n_points][:, codes[:n_points] == code].any(axis=1) for code in extras}
    return {code: own for code, own in extras.items() if (holds[:, beyond[code]] & ~inside[code]).any()}


@dataclass(frozen=True, eq=False)
class _Classes:
    cls: Ints
    n: int
    extras: dict[int, int]


class _Atoms:
    """The largest parts of expressions about one attribute, per attribute: their SQL → a column's name."""

    def __init__(self, scan: Scan, attributes: tuple[int, ...]) -> None:
        self.scan = scan
        self.of: dict[int, dict[str, str]] = {a: {} for a in attributes}
        self.used: dict[str, set[str]] = {}
        self.inexact: set[str] = set()
        self._nodes: dict[str, exp.Expr] = {}

    def text(self, node: exp.Expr, role: str) -> str:
        """SQL of an expression over the columns of atoms."""
        return text_of(self._visit(node.copy(), role))

    def columns(self, a: int, unknown: set[str], value: str, negated: bool = False) -> str:
        """Atoms of an attribute as columns; those that are unknown for undeclared values look at `value`."""
        listed = ""
        for sql, name in self.of[a].items():
            text = over_points(self.scan, self._nodes[name], value) if name in unknown else sql
            text = f"NOT ({text})" if negated and name in unknown else text
            listed += f", CASE WHEN w THEN {text} END AS {name}"
        return listed

    def _visit(self, node: exp.Expr, role: str) -> exp.Expr:
        about = self.scan.attributes_of(node)
        if not about:
            return node
        if len(about) == 1 and not isinstance(node, _NEVER_ATOMS):
            (a,) = about
            own = self.of[a]
            name = own.setdefault(over_points(self.scan, node), f"x{a}_{len(own)}")
            self.used.setdefault(name, set()).add(role)
            self._nodes[name] = node
            if not _is_exact(node):
                self.inexact.add(name)
            return exp.column(name)
        for child in list(node.iter_expressions()):
            new = self._visit(child, role)
            if new is not child:
                child.replace(new)
        return node


def over_points(scan: Scan, node: exp.Expr, value: str = "x") -> str:
    """SQL of an expression about one attribute over its table of points."""
    number = scan.database.number
    days = scan.fine - looked_inside(node, scan.database) if scan.fine else set()

    def to_point(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Column):
            point = exp.column("bin" if part.name.endswith(BIN) else value)
            return exp.cast(point, "DATE") if number.get(part.name.lower()) in days else point
        return part

    return text_of(node.copy().transform(to_point))


def _rows(source: str, holds: str, columns: str) -> str:
    return (
        f"SELECT i, code, share, extra, w{columns} FROM "
        f"(SELECT *, COALESCE({holds}, FALSE) AS w FROM ({source}))"
    )


def _conjunction(scan: Scan, conditions: Sequence[exp.Expr], value: str) -> str:
    return " AND ".join(f"COALESCE(({over_points(scan, c, value)}), FALSE)" for c in conditions) or "TRUE"


def _is_exact(node: exp.Expr) -> bool:
    """True if a condition on a category is about declared values alone: what is in `other` plays no part."""
    whole = node.unnest()
    if isinstance(whole, (exp.And, exp.Or, exp.Not, exp.Coalesce)):
        return all(map(_is_exact, whole.iter_expressions()))
    if isinstance(whole, (exp.Column, exp.Boolean, exp.Null, exp.Literal)):
        return True
    if isinstance(whole, exp.In):
        return isinstance(whole.this.unnest(), exp.Column) and all(
            isinstance(value.unnest(), (exp.Literal, exp.Null)) for value in whole.expressions
        )
    if isinstance(whole, (exp.EQ, exp.NEQ, exp.Is, exp.NullSafeEQ, exp.NullSafeNEQ)):
        return all(
            isinstance(side.unnest(), (exp.Column, exp.Literal, exp.Null, exp.Boolean, exp.Coalesce, exp.Not))
            or _is_exact(side)
            for side in (whole.this, whole.expression)
        )
    return False


def looked_inside(node: exp.Expr, database: ViewDatabase) -> set[int]:
    """Attributes counted by days of which an expression asks hours, minutes or times of day."""
    if not re.search(_INSIDE_DAYS, text_of(node).replace("00:00:00", ""), re.IGNORECASE):
        return set()
    numbers = (database.number.get(c.name.removesuffix(BIN).lower()) for c in node.find_all(exp.Column))
    attributes = database.schema.attributes
    return {
        a for a in numbers if a is not None and point_type(attributes[a]) != point_type(attributes[a], True)
    }


def conjuncts(node: exp.Expr) -> list[exp.Expr]:
    """Conditions that a condition is the conjunction of."""
    whole = node.unnest()
    if not isinstance(whole, exp.And):
        return [node]
    return [one for part in whole.flatten() for one in conjuncts(part)]


def shown(node: exp.Expr) -> str:
    """SQL of a tree as people wrote it."""
    plain = re.sub(rf"{SECRET}\w*\.", "", text_of(node))
    return shortened(re.sub(r'"([a-z_]\w*)"', r"\1", plain))


def text_of(node: exp.Expr) -> str:
    """DuckDB's SQL of a tree."""
    return node.sql("duckdb", copy=True)


def key_name(i: int) -> str:
    """The column of a group key."""
    return f"{SECRET}k{i}"


def _united(sets: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """Sets joined while any two have an element in common."""
    groups: list[frozenset[int]] = []
    for own in sets:
        touching = [other for other in groups if other & own]
        groups = [other for other in groups if not other & own] + [frozenset().union(own, *touching)]
    return groups


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
        rows, which = np.unique(rows, axis=0, return_inverse=True)
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


def grid_product(means: Sequence[Floats], weight: Floats) -> Floats:
    """Σ_z weight_z Π means over the grid of keys, flat. means: shape (n_keys, n_components) each."""
    table = weight[None]
    for mean in means[:-1]:
        table = (table[:, None, :] * mean[None]).reshape(-1, mean.shape[1])
    product: Floats = table @ means[-1].T
    return product.reshape(-1)


def outer(factors: Sequence[Floats]) -> Floats:
    """The outer product of vectors, one axis each."""
    return reduce(np.multiply.outer, factors)
