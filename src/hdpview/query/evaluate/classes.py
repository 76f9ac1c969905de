"""Expressions of a scan, evaluated by DuckDB over points.

The largest parts of expressions about one attribute are atoms; points of an attribute with equal atoms form a
class; expressions about several attributes are evaluated over the cross join of classes, never of points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sqlglot import exp

from hdpview.domain import Category, Ordered
from hdpview.errors import QueryError
from hdpview.query.estimate.estimates import MAX_GROUPS
from hdpview.query.evaluate.clusters import Cluster
from hdpview.query.evaluate.database import SECRET, point_type
from hdpview.query.evaluate.expressions import UNDECLARED, far_beyond, key_name, over_points, text_of

if TYPE_CHECKING:
    from hdpview.query.evaluate.scan import Scan

Ints = NDArray[np.int64]

# Maximum combinations of classes in one expression, which are rows of a cross join.
MAX_COMBINATIONS = 1_000_000
# Maximum size of an array of keys × functions × classes: 400 MB.
MAX_NUMBERS = 50_000_000
# A summand that changes its value inside a bin at most this often is treated as a condition.
MAX_STEPS = 2
# Points per bin to evaluate if an expression combines attributes with many values.
COARSER = (12, 4, 1)
_NEVER_ATOMS = (exp.Tuple, exp.Interval, exp.If, exp.Ordered, exp.Distinct, exp.DataType, exp.Var)


class Compiler:
    """Evaluates the expressions of one scan."""

    def __init__(self, scan: Scan, cursor: object, where: list[exp.Expr]) -> None:
        self.scan, self.database, self.cursor, self.where = scan, scan.database, cursor, where

    def arrow(self, sql: str) -> pa.Table:
        return self.cursor.sql(sql).to_arrow_table()  # type: ignore[attr-defined]

    def constants(self, conditions: list[exp.Expr], keys: list[int], with_bases: bool) -> Cluster:
        """The cluster of expressions without attributes. with_bases: base sums have none either."""
        test = " AND ".join(f"({text_of(condition)})" for condition in conditions) or "TRUE"
        columns = [f"{text_of(self.scan.keys[i])} AS {key_name(i)}" for i in keys]
        functions = [
            _value_of(list(map(text_of, base.conditions)), list(map(text_of, base.factors)))
            for base in (self.scan.bases if with_bases else ())
        ] or ["1.0"]
        values = [f"CASE WHEN {test} THEN {value} END AS v{j}" for j, value in enumerate(functions)]
        table = self.arrow(f"SELECT {', '.join([*columns, *values])}")
        adds = [float(table.column(f"v{j}")[0].as_py() or 0.0) for j in range(len(values))]
        key_table = table.select(list(map(key_name, keys))) if keys else None
        function = list(range(len(self.scan.bases))) if with_bases else []
        return Cluster((), keys, key_table, np.array([adds]), function=function)

    def cluster(self, chosen: frozenset[int], is_first: bool) -> Cluster:
        """Classes of every attribute, then functions over the cross join of classes."""
        scan, attributes = self.scan, tuple(sorted(chosen))

        def mine(node: exp.Expr) -> bool:
            about = scan.attributes_of(node)
            return bool(about & chosen) if about else is_first

        atoms = _Atoms(scan, attributes)
        keys = [i for i, key in enumerate(scan.keys) if scan.attributes_of(key) & chosen]
        columns = [f"{atoms.text(scan.keys[i], 'key')} AS {key_name(i)}" for i in keys]
        own_where = [condition for condition in self.where if scan.attributes_of(condition) & chosen]
        single = {a: [c for c in own_where if scan.attributes_of(c) == {a}] for a in attributes}
        several = [c for c in own_where if len(scan.attributes_of(c)) > 1]
        test = " AND ".join(
            [f"c{a}.w" for a in attributes if single[a]] + [f"({atoms.text(c, 'test')})" for c in several]
        )
        functions: dict[str, int] = {}
        function = []
        for base in scan.bases:
            tests = [atoms.text(c, "test") for c in base.conditions if mine(c)]
            factors = [atoms.text(f, "sum") for f in base.factors if mine(f)]
            function.append(functions.setdefault(_value_of(tests, factors), len(functions)))
        columns += [f"{value} AS v{j}" for value, j in functions.items()]
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

        per_bin: evaluate only this many points of each bin.
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
                f"SELECT *, CASE WHEN code = {other} THEN '{UNDECLARED}' ELSE x END AS u, 0 AS extra "
                f"FROM {table_of_points}"
            )
        kinds = self._kinds(a, own) if other is not None or isinstance(attribute, Ordered) else {}
        unknown = {name for name in kinds if name in atoms.inexact and kinds[name] == "BOOLEAN"}
        unknown = unknown if other is not None else set()
        exact = [c for c in single if other is None or _is_exact(c)]
        inexact = [c for c in single if other is not None and not _is_exact(c)]
        where, guess = _conjunction(self.scan, exact, "x"), _conjunction(self.scan, inexact, "u")
        # An attribute that appears only in conditions: they may hold beyond its bounds.
        if isinstance(attribute, Ordered) and (kinds or single) and set(kinds.values()) <= {"BOOLEAN"}:
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

    def _beyond(self, a: int) -> str:
        """Rows for values beyond the bounds of the schema, which are counted in the first and last bins."""
        attribute = self.database.schema.attributes[a]
        kind = point_type(attribute, a in self.scan.fine)
        assert isinstance(attribute, Ordered)
        far = far_beyond(attribute)
        if kind in ("DATE", "TIMESTAMP"):
            values = [f"CAST(make_timestamp({place}::BIGINT) AS {kind})" for place in far]
        else:
            values = [f"CAST({place} AS {kind})" for place in far]
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
        """Record the bins that conditions or keys cut, for the notes."""
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
    """Code → class of values without a point.

    For conditions on values beyond the schema's bounds: only if one holds there and at no point of the bin.
    A condition that some values of a bin satisfy applies to the whole bin, as in Python.
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
        a = min(about)
        # Conditions on undeclared values are atoms of their own, because such values may satisfy them or not.
        attribute = self.scan.database.schema.attributes[a]
        is_open = isinstance(node, exp.Case) and isinstance(attribute, Category) and bool(attribute.other)
        if len(about) == 1 and not is_open and not isinstance(node, _NEVER_ATOMS):
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


def _value_of(tests: list[str], factors: list[str]) -> str:
    """SQL of what a record adds to a base sum."""
    value = " * ".join(f"CAST({factor} AS DOUBLE)" for factor in factors) or "1.0"
    test = " AND ".join(f"({test})" for test in sorted(tests))
    return f"CASE WHEN {test} THEN {value} END" if test else value


def _rows(source: str, holds: str, columns: str) -> str:
    return (
        f"SELECT i, code, share, extra, w{columns} FROM "
        f"(SELECT *, COALESCE({holds}, FALSE) AS w FROM ({source}))"
    )


def _conjunction(scan: Scan, conditions: Sequence[exp.Expr], value: str) -> str:
    return " AND ".join(f"COALESCE(({over_points(scan, c, value)}), FALSE)" for c in conditions) or "TRUE"


def _is_exact(node: exp.Expr) -> bool:
    """True if a condition on a category depends on declared values only, not on those in `other`."""
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
