"""The sandboxed DuckDB of a view: an empty typed table for names and types, and the points of each attribute.

Points are values inside codes. DuckDB evaluates expressions over them and so defines the meaning of SQL.
"""

from __future__ import annotations

import atexit
import re
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hdpview.domain import Attribute, Boolean, Category, Datetime, Integer, Ordered
from hdpview.domain.calendar import MICROSECONDS_PER_DAY
from hdpview.query.question.axes import code_keys
from hdpview.view.data import ViewData
from hdpview.view.file import checksum_of

if TYPE_CHECKING:
    import duckdb

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Prefix of internal tables, so that no statement can name them by accident or by guessing.
SECRET = "_" + secrets.token_hex(6)
# Points per bin of reals and datetimes: halves, thirds, quarters, fifths and tenths of a bin are exact.
POINTS_PER_BIN = 60
# The same for days if their hours are needed: three in each hour.
POINTS_PER_DAY = 72
# Up to this many whole numbers of a bin are points of their own; wider bins have this many, evenly spread.
MAX_WHOLE_POINTS = 64
# Maximum points of an attribute; with more bins, each has fewer. 100,000 points cost 10 ms per atom.
MAX_POINTS = 100_000
# Memory limit of one connection, which attributes and draws share.
MEMORY_LIMIT = "1GB"

_CONFIG = {
    "threads": 1,
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "memory_limit": MEMORY_LIMIT,
    "temp_directory": "",  # nothing spills to disk
}


def sandboxed_connection() -> duckdb.DuckDBPyConnection:
    """An in-memory DuckDB that reads no file, loads no extension and uses no network."""
    import duckdb

    return duckdb.connect(config=_CONFIG)


def lock(connection: duckdb.DuckDBPyConnection) -> None:
    """Lock all settings against later statements."""
    connection.execute("SET lock_configuration=true")


@dataclass(frozen=True, eq=False)
class Points:
    """Values inside the codes of an attribute.

    code, share: of each point; the shares of a code sum to 1. A point of share 0 stands for possible values
        without expected records: the edge of a bin.
    value: of each point, as Arrow.
    """

    code: Ints
    share: Floats
    value: pa.Array

    @cached_property
    def starts(self) -> Ints:
        """The first point of each code."""
        return np.searchsorted(self.code, np.arange(self.code[-1] + 1))

    @cached_property
    def n_edges(self) -> Ints:
        """The number of edges of each code: its first point and, in the last bin of reals, its last one."""
        return np.add.reduceat(self.share == 0, self.starts)

    def representatives(self, per_bin: int) -> Ints:
        """The representative of each point if codes keep at most this many points, shape (n_points,)."""
        place = np.arange(len(self.code)) - self.starts[self.code]
        count = np.diff(np.append(self.starts, len(self.code)))[self.code]
        step = np.maximum(-(-count // per_bin), 1)
        kept = np.minimum(place // step * step + step // 2, count - 1)
        points: Ints = self.starts[self.code] + kept
        return points


def sql_type(attribute: Attribute) -> str:
    """DuckDB's type of an attribute, as clients see it."""
    if isinstance(attribute, Datetime):
        return "DATE" if attribute.kind == "date" else "TIMESTAMP"
    if isinstance(attribute, Ordered):
        return "BIGINT" if isinstance(attribute, Integer) else "DOUBLE"
    return "BOOLEAN" if isinstance(attribute, Boolean) else "VARCHAR"


def point_type(attribute: Attribute, fine: bool = False) -> str:
    """DuckDB's type of the points of an attribute.

    Datetimes that are counted by days are dates, unless a statement needs the time of day (fine).
    """
    if isinstance(attribute, Datetime) and attribute.counts_days and not fine:
        return "DATE"
    return sql_type(attribute)


def points_of(attribute: Attribute, fine: bool = False) -> Points:
    """The points of an attribute, codes in order."""
    null = attribute.nullable
    if not isinstance(attribute, Ordered):
        values: list[Any] = [False, True] if isinstance(attribute, Boolean) else attribute.value_labels()
        every = np.arange(attribute.size)
        return Points(every, np.ones(len(every)), pa.array([*values, *[None] * null]))
    edges, n_bins = attribute.edges, attribute.n_values
    is_day = isinstance(attribute, Datetime) and attribute.counts_days
    per_bin = int(np.clip(MAX_POINTS // n_bins, 4, POINTS_PER_DAY if is_day else POINTS_PER_BIN))
    runs: list[NDArray[Any]] = []
    shares: list[Floats] = []
    step = MICROSECONDS_PER_DAY if point_type(attribute, fine) == "DATE" else 1
    for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        if isinstance(attribute, Integer) or step > 1:
            n = -(-(high - low) // step)
            count = min(n, MAX_WHOLE_POINTS if n_bins <= MAX_POINTS // MAX_WHOLE_POINTS else per_bin)
            places = np.arange(n) if n == count else np.unique(np.linspace(0, n - 1, count).astype(np.int64))
            runs.append(low + step * places)
            shares.append(np.full(len(places), 1.0 / len(places)))
        else:
            middle = (np.arange(per_bin) + 0.5) / per_bin
            # The upper end belongs to the last bin of reals.
            ends = [[low], [high] if high == edges[-1] and not attribute.whole else []]
            runs.append(np.concatenate([ends[0], low + (high - low) * middle, ends[1]]))
            shares.append(np.concatenate([[0.0], np.full(per_bin, 1.0 / per_bin), np.zeros(len(ends[1]))]))
    code = np.repeat(np.arange(n_bins), list(map(len, runs)))
    value = pa.array(np.concatenate(runs).astype(np.int64 if attribute.whole else np.float64))
    if isinstance(attribute, Datetime):
        value = value.cast(pa.timestamp("us"))
    share = np.concatenate(shares)
    if null:
        code, share = np.append(code, n_bins), np.append(share, 1.0)
        value = pa.concat_arrays([value, pa.nulls(1, value.type)])
    return Points(code, share, value)


class ViewDatabase:
    """DuckDB with the tables that evaluation needs of one view. Thread-safe: every statement has its own
    cursor.
    """

    def __init__(self, view: ViewData) -> None:
        self.view, self.schema = view, view.schema
        self._connection = sandboxed_connection()
        _open.add(self)
        self._lock = threading.Lock()
        self._points: dict[tuple[int, bool], Points] = {}
        self.is_warm = False  # whether a statement was answered
        # Names in lower case, because DuckDB ignores case.
        self.names: list[str] = []
        for name in self.schema.names:
            own = name
            while own.lower() in {known.lower() for known in self.names}:
                own += "_"
            self.names.append(own)
        self.number = {name.lower(): a for a, name in enumerate(self.names)}
        self.types = {
            name.lower(): point_type(attribute)
            for name, attribute in zip(self.names, self.schema.attributes, strict=True)
        }
        columns = ", ".join(f"{quote(name)} {self.types[name.lower()]}" for name in self.names)
        self._connection.execute(f'CREATE TABLE "view" ({columns})')
        for macro in _MACROS:
            self._connection.execute(macro)
        for a, attribute in enumerate(self.schema.attributes):
            if self.has_ordered_labels(a):
                labels = ", ".join("'" + label.replace("'", "''") + "'" for label in attribute.value_labels())
                self._connection.execute(f"CREATE TYPE {SECRET}_labels{a} AS ENUM ({labels})")
        lock(self._connection)

    @cached_property
    def checksum(self) -> str:
        """Checksum of the view's file, so that the same view gives the same answer to the same statement."""
        return checksum_of(self.view)

    def has_ordered_labels(self, a: int) -> bool:
        """True if groups by the attribute show labels that do not sort as texts."""
        attribute = self.schema.attributes[a]
        if isinstance(attribute, Category):
            return attribute.ordered
        return (
            isinstance(attribute, Ordered)
            and not isinstance(attribute, Datetime)
            and bool((np.diff(attribute.edges) > 1).any() or not attribute.whole)
        )

    def is_binned(self, a: int, fine: bool = False) -> bool:
        """True if a group by the plain attribute is a bin, not a value."""
        attribute = self.schema.attributes[a]
        if not isinstance(attribute, Ordered):
            return False
        step = MICROSECONDS_PER_DAY if point_type(attribute, fine) == "DATE" else 1
        return not attribute.whole or bool((np.diff(attribute.edges) > step).any())

    def points(self, a: int, fine: bool = False) -> Points:
        """The points of an attribute; their table (i, code, share, x, bin) exists then."""
        with self._lock:
            if (a, fine) not in self._points:
                self._points[a, fine] = self._create_points(a, fine)
            return self._points[a, fine]

    def bin_labels(self, a: int) -> list[Any]:
        """The label of each code when grouping by the plain attribute."""
        attribute = self.schema.attributes[a]
        keys = code_keys(attribute)
        return (
            keys if isinstance(attribute, Datetime) else [None if key is None else str(key) for key in keys]
        )

    def _create_points(self, a: int, fine: bool) -> Points:
        attribute, points = self.schema.attributes[a], points_of(self.schema.attributes[a], fine)
        labels = self.bin_labels(a)
        table = pa.table(
            {
                "i": np.arange(len(points.code), dtype=np.int32),
                "code": points.code.astype(np.int32),
                "share": points.share,
                "x": points.value,
                "bin": pa.array(labels).take(pa.array(points.code)),
            }
        )
        kind = point_type(attribute, fine)
        label = "VARCHAR"
        if isinstance(attribute, Datetime):
            label = "DATE" if attribute.counts_days else "TIMESTAMP"
        with self.cursor() as cursor:
            cursor.register(f"{SECRET}_arrow", table)
            cursor.execute(
                f"CREATE TABLE {points_table(a, fine)} AS SELECT i, code, share, "
                f"CAST(x AS {kind}) AS x, CAST(bin AS {label}) AS bin FROM {SECRET}_arrow"
            )
            cursor.unregister(f"{SECRET}_arrow")
        return points

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def cursor(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A new connection to the same database, for one statement."""
        cursor = self._connection.cursor()
        try:
            yield cursor
        finally:
            cursor.close()


_open: WeakSet[ViewDatabase] = WeakSet()


@lru_cache(maxsize=8)
def database_of(view: ViewData) -> ViewDatabase:
    """The database of a view, created once."""
    return ViewDatabase(view)


@atexit.register
def _close() -> None:
    """Close the connection, because connections that outlive the interpreter raise warnings."""
    for database in list(_open):
        database.close()
    database_of.cache_clear()


def complaint(problem: Exception) -> str:
    """The first line of DuckDB's message, without internal names, in at most 240 characters."""
    first = (str(problem).replace(SECRET, "").strip().splitlines() or ["unreadable"])[0]
    text = re.sub(r"^[\w ]+ Error:\s*", "", first)
    return text if len(text) <= 240 else text[:239] + "…"


def points_table(a: int, fine: bool) -> str:
    """The table of the points of an attribute."""
    return f"{SECRET}_points{a}{'_fine' if fine else ''}"


def quote(name: str) -> str:
    """An identifier in double quotes."""
    return '"' + name.replace('"', '""') + '"'


# Aggregates of our own, so that DuckDB can name and type statements that use them, and a function it lacks.
_MACROS = (
    *(
        f"CREATE MACRO {name}(outcome, exposure) AS "
        "CAST(COUNT(CASE WHEN outcome AND exposure THEN 1 END) AS DOUBLE)"
        for name in ("odds_ratio", "risk_ratio", "risk_difference")
    ),
    (
        "CREATE MACRO width_bucket(x, low, high, n) AS CASE WHEN x < low THEN 0 WHEN x >= high THEN n + 1 "
        "ELSE CAST(FLOOR((x - low) * CAST(n AS DOUBLE) / (high - low)) AS BIGINT) + 1 END"
    ),
)
