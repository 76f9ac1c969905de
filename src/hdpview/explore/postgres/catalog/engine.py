"""The catalogue in an SQLite database in memory: it answers whatever a client asks about tables and settings.

Nothing can be written, attached or read from elsewhere: SQLite asks an authorizer before each step, and a
statement that runs too long is stopped.
"""

from __future__ import annotations

import functools
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from hdpview.errors import HdpviewError, QueryError
from hdpview.explore.postgres import types as t
from hdpview.explore.postgres.catalog.tables import Catalog, column_type, defaults, system_relations
from hdpview.explore.postgres.catalog.translate import to_sqlite
from hdpview.explore.postgres.columns import Describer, OutputColumn
from hdpview.explore.postgres.functions import FUNCTIONS, MOST_ITEMS, Context
from hdpview.explore.postgres.settings import first_settings
from hdpview.pview import PView
from hdpview.query.sql.constants import literal


class ArrayAggregate:
    """array_agg: values as one JSON text."""

    def __init__(self) -> None:
        self._values: list[Any] = []

    def step(self, *values: Any) -> None:
        if len(self._values) < MOST_ITEMS:
            self._values.append(values[0])

    def finalize(self) -> str | None:
        return json.dumps(self._values) if self._values else None


class TextAggregate:
    """string_agg: values put together with a separator."""

    def __init__(self) -> None:
        self._values: list[str] = []
        self._separator = ","

    def step(self, value: Any, separator: Any = ",") -> None:
        self._separator = str(separator)
        if value is not None and len(self._values) < MOST_ITEMS:
            self._values.append(str(value))

    def finalize(self) -> str | None:
        return self._separator.join(self._values) if self._values else None


AGGREGATES: Sequence[tuple[str, type[Any]]] = (
    ("array_agg", ArrayAggregate),
    ("json_agg", ArrayAggregate),
    ("jsonb_agg", ArrayAggregate),
    ("string_agg", TextAggregate),
)
_SECONDS = 5.0
_STEPS_BETWEEN_LOOKS = 10_000
_MOST_ROWS = 100_000
_LONGEST_TEXT = 1_000_000
_ALLOWED = {sqlite3.SQLITE_READ, sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE}
# SQLite's own functions that may be called; all others are ours.
_SQLITE_FUNCTIONS = (
    "abs avg coalesce count dense_rank first_value group_concat ifnull iif json_array json_each lag "
    "last_value lead length lower ltrim max min nth_value ntile nullif rank replace round row_number "
    "rtrim substr substring sum total trim upper"
)
_FUNCTIONS = frozenset(_SQLITE_FUNCTIONS.split()) | frozenset(FUNCTIONS) | {name for name, _ in AGGREGATES}


class CatalogEngine:
    """Answers SELECT statements that read no view."""

    def __init__(self, views: Mapping[str, PView]) -> None:
        self.catalog = Catalog(views)
        self._columns = {
            f"{each.schema}.{each.name}": [
                OutputColumn(name, t.BY_NAME.get(kind, t.TEXT)) for name, kind in each.columns
            ]
            for each in system_relations()
        }
        self._numbers = {f"{each.schema}.{each.name}": each.oid for each in system_relations()}
        self._lock = threading.Lock()
        self._context, self._deadline = self.catalog.context, 0.0
        self._problem: HdpviewError | None = None
        self._database = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        self._fill()
        self._close_off()

    def context(self, database: str, user: str, pid: int, values: dict[str, str]) -> Context:
        """The context of a session."""
        return replace(self.catalog.context, database=database, user=user, pid=pid, settings=values)

    def key(self, table: exp.Table) -> str | None:
        """What a table is called in here; None where it is not of the catalogue."""
        schemas = [table.db.lower()] if table.db else ["pg_catalog"]
        return next(
            (key for schema in schemas if (key := f"{schema}.{table.name.lower()}") in self._columns), None
        )

    def describer(self) -> Describer:
        """Describes statements over the catalogue."""
        return Describer(self._table_columns, t.INT8)

    def _table_columns(self, table: exp.Table) -> Sequence[OutputColumn] | None:
        key = self.key(table)
        return None if key is None else self._columns[key]

    def rows(self, tree: exp.Expr, context: Context) -> list[Any]:
        """Rows of the answer to a statement without parameters."""
        tree, describer = tree.copy(), self.describer()
        statement = to_sqlite(tree, describer, lambda table: self.key(table) or table.name, self._numbers)
        with self._lock:
            return self._run(statement, context)

    def described(self, tree: exp.Expr) -> list[OutputColumn]:
        """Columns of a statement's result."""
        columns = self.describer().columns(tree)
        return [replace(each, kind=t.TEXT) if each.kind in t.REG_TYPES else each for each in columns]

    def _run(self, statement: str, context: Context) -> list[Any]:
        self._context, self._deadline, self._problem = context, time.monotonic() + _SECONDS, None
        try:
            found = self._database.execute(statement).fetchmany(_MOST_ROWS + 1)
        except (sqlite3.Error, sqlite3.Warning, OverflowError) as problem:
            raise self._problem or _in_words(problem) from None
        if len(found) > _MOST_ROWS:
            raise QueryError(f"The answer has more than {_MOST_ROWS:,} rows. Add a LIMIT.")
        return found

    def _fill(self) -> None:
        for name, function in FUNCTIONS.items():
            self._database.create_function(name, -1, functools.partial(self._called, function))
        for name, aggregate in AGGREGATES:
            self._database.create_aggregate(name, -1, aggregate)
        for key, columns in self._columns.items():
            usual = defaults().get(key, {})
            # Numbers are compared with texts as numbers: clients write c.oid = '16384'.
            parts = ", ".join(_definition(column, usual.get(column.name)) for column in columns)
            self._database.execute(f"CREATE TABLE {_quoted(key)} ({parts})")
        settings = [
            {"name": name, "setting": value, "short_desc": meaning}
            for name, (value, meaning) in first_settings().items()
        ]
        for key, rows in {**self.catalog.rows(), "pg_catalog.pg_settings": settings}.items():
            names = list(rows[0])
            marks = ", ".join("?" for _ in names)
            self._database.executemany(
                f"INSERT INTO {_quoted(key)} ({', '.join(names)}) VALUES ({marks})",
                [list(row.values()) for row in rows],
            )
        self._database.executescript("\n".join(t.lines_of("derived.sql")))
        for key, column in (("pg_class", "oid"), ("pg_attribute", "attrelid"), ("pg_type", "oid")):
            self._database.execute(
                f"CREATE INDEX {key}_{column} ON {_quoted(f'pg_catalog.{key}')} ({column})"
            )
        # SQLite makes the table of this function at its first use, which must come before nothing can be
        # made.
        self._database.execute("SELECT * FROM json_each('[]')").fetchall()

    def _close_off(self) -> None:
        self._database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_TEXT)
        self._database.set_authorizer(_authorized)
        self._database.set_progress_handler(lambda: time.monotonic() > self._deadline, _STEPS_BETWEEN_LOOKS)

    def _called(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """A function's value; its reasons for refusing are kept, since SQLite would lose them."""
        try:
            return function(self._context, *arguments)
        except HdpviewError as problem:
            self._problem = problem
            raise
        except (TypeError, ValueError, LookupError, ArithmeticError):
            self._problem = QueryError("A function was called with arguments that do not fit it.")
            raise


def view_columns(view: PView) -> list[OutputColumn]:
    """The columns of a view as a table."""
    return [OutputColumn(attribute.name, column_type(attribute)) for attribute in view.schema]


def _authorized(action: int, _: str | None, name: str | None, *__: str | None) -> int:
    """Only reading, and only functions that are known to be harmless."""
    if action == sqlite3.SQLITE_FUNCTION:
        return sqlite3.SQLITE_OK if str(name).lower() in _FUNCTIONS else sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY


def _definition(column: OutputColumn, usual: Any) -> str:
    """A column as CREATE TABLE takes it. usual: what it holds where a row says nothing; None for NULL."""
    if column.kind in t.INTEGERS or column.kind is t.BOOL:
        affinity = "INTEGER"
    else:
        affinity = "REAL" if column.kind in t.FLOATS else "TEXT" if column.kind in t.TEXTS else ""
    default = "" if usual is None else f" DEFAULT {literal(usual).sql()}"
    return f"{_quoted(column.name)} {affinity}{default}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _in_words(problem: Exception) -> QueryError:
    text = str(problem)
    if text.startswith("not authorized to use function: "):
        return QueryError(f"function {text.rpartition(' ')[2].lower()[:60]!r} does not exist")
    if "interrupted" in text:
        return QueryError("This question about the catalogue took too long.")
    for start in ("no such column: ", "no such function: ", "no such table: "):
        if text.startswith(start):
            kind = start.split()[2].rstrip(":")
            return QueryError(f"{kind} {text.removeprefix(start)[:60]!r} does not exist")
    return QueryError("The catalogue cannot answer this statement. Ask it in simpler words, or leave it out.")
