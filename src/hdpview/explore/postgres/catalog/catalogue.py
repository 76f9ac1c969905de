"""The catalogue and synthetic records in a DuckDB database in memory, which answers what needs no counts.

Statements are read twice: sqlglot knows which names are tables of the catalogue, and DuckDB's own parser
lists the functions, of which only known ones may be called. The database reads no file, loads no extension
and cannot be changed; a statement that runs too long is interrupted.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlglot import exp

from hdpview._version import __version__
from hdpview.errors import QueryError
from hdpview.explore.child import cpu_limit
from hdpview.explore.postgres import types as t
from hdpview.explore.postgres.catalog import layout
from hdpview.explore.postgres.catalog.layout import column_type, defaults, system_relations
from hdpview.explore.postgres.catalog.translate import Translator, written_names
from hdpview.explore.postgres.names import parameter_types
from hdpview.explore.postgres.settings import first_settings
from hdpview.explore.postgres.sqlstates import PgError, SqlState
from hdpview.explore.postgres.statements import checked_setting
from hdpview.explore.postgres.types import OutputColumn, PgType
from hdpview.pview import PView

if TYPE_CHECKING:
    import duckdb

# Seconds that a question about the catalogue may take; of 135 that tools ask, the slowest takes 0.2.
MAX_SECONDS = 1.5
# Of processor time, after which a child process ends: DuckDB cannot be interrupted inside one function.
MAX_CPU_SECONDS = 2.0
# Of a question about the catalogue; the longest that tools ask has 3,000, and 20,000 take 2 seconds to read.
MAX_CHARACTERS = 20_000
MAX_ROWS = 100_000
_BATCH_ROWS = 10_000
# Synthetic records of a view.
MAX_RECORDS = 50_000
_SEED = 0
# Arguments of the functions in functions.txt, which give the same whatever they are called with.
_MAX_ARGUMENTS = 5
_CONFIG = {
    "threads": 1,
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
    "memory_limit": "256MB",
    "integer_division": "true",
    "temp_directory": "",  # nothing spills to disk
}
_SERVER = f"hdpview {__version__}: a differentially private view, read-only"
# DuckDB's own functions that may be called, operators aside; all others are macros.
_DUCKDB_FUNCTIONS = """
    abs array_agg array_to_string avg bool_and bool_or ceil concat concat_ws contains count count_star
    current_timestamp date_diff date_part date_trunc day dayname dayofweek dayofyear dense_rank epoch exp
    first_value floor generate_series hour isodow ln log minute month monthname pow power quarter random
    second sign sqrt week year
    get_current_timestamp greatest json_array json_group_array json_object lag last_value lead least left
    length list_concat list_contains list_value listagg lower ltrim max md5 min mod now nth_value ntile nullif
    rank regexp_extract regexp_matches regexp_replace replace reverse right round row row_number rtrim
    split_part starts_with strftime string_agg strpos substr substring sum to_days to_hours to_json to_minutes
    to_months to_seconds to_weeks to_years today translate trim trunc unnest upper
"""


@dataclass
class SessionFacts:
    """What functions know of a session. settings: changed by set_config."""

    user: str
    pid: int
    settings: dict[str, str]
    database: str = "hdpview"
    started: datetime = field(default_factory=lambda: datetime.now(UTC).replace(tzinfo=None))


class CatalogEngine:
    """Answers SELECT statements that read no view. Called from several threads."""

    def __init__(self, views: Mapping[str, PView]) -> None:
        import duckdb

        self._columns = {
            key: [(name, t.BY_NAME.get(kind, t.TEXT)) for name, kind in relation.columns]
            for key, relation in system_relations().items()
        }
        self._views = {f"public.{name}": view for name, view in views.items()}
        self._sampled: dict[str, int] = {}
        self._lock = threading.Lock()
        for key, view in self._views.items():
            self._columns[key] = [(attribute.name, column_type(attribute)) for attribute in view.schema]
        self._any_session = SessionFacts(
            "hdpview", 0, {name: value for name, (value, _) in first_settings().items()}
        )
        self._translator = Translator(self.key)
        self._database = duckdb.connect(":memory:", config=_CONFIG)
        self._fill(views)
        macros = self._database.execute("SELECT function_name FROM duckdb_functions() WHERE NOT internal")
        self._functions = {name for (name,) in macros.fetchall()} | set(_DUCKDB_FUNCTIONS.split())
        self._database.execute("SET TimeZone = 'UTC'")
        self._database.execute("SET lock_configuration = true")

    def close(self) -> None:
        """Give the database's memory back."""
        self._database.close()

    def key(self, table: exp.Table) -> str | None:
        """The name of a table in the database; None where it is not of the catalogue."""
        if table.db == "public":
            return f"public.{table.name}"
        key = f"{table.db.lower() or 'pg_catalog'}.{table.name.lower()}"
        return key if key in self._columns and key not in self._views else None

    def describe(self, tree: exp.Expr) -> list[OutputColumn]:
        """Columns of a statement's result."""
        return self._run(tree, self._any_session, None)[0]

    def answer(self, tree: exp.Expr, session: SessionFacts) -> tuple[list[OutputColumn], list[Sequence[Any]]]:
        """Columns and rows of the answer to a statement without parameters."""
        for call in tree.find_all(exp.Anonymous):
            _set_config(call, session)
        columns, rows = self._run(tree, session, MAX_ROWS + 1)
        if len(rows) > MAX_ROWS:
            raise QueryError(f"The answer has more than {MAX_ROWS:,} rows. Add a LIMIT.")
        return columns, rows

    def parameters(self, tree: exp.Expr) -> tuple[PgType, ...]:
        """Types of the parameters $1, $2, …"""
        tables = [
            self.key(table) for table in tree.find_all(exp.Table) if isinstance(table.this, exp.Identifier)
        ]
        columns = {name: kind for key in tables if key is not None for name, kind in self._columns[key]}
        return parameter_types(tree, columns)

    def notice(self, view: str) -> str:
        """What people are told who see rows of a view."""
        return (
            f"These are synthetic records drawn from the view {view!r}, not rows of the table; "
            f"there are {self._sampled[f'public.{view}']:,} of them. Ask for counts, sums and means instead: "
            "they are more accurate."
        )

    def _sample(self, key: str) -> None:
        """Draw synthetic records when they are first asked for, with a fixed seed: the same statement has the
        same answer for everybody, and a condition finds the same records whatever else is asked.
        """
        with self._lock:
            if key not in self._sampled:
                view = self._views[key]
                n = min(MAX_RECORDS, max(0, round(view.count(None).estimate)))
                with self._database.cursor() as cursor:
                    cursor.register("incoming", view.sample(n, seed=_SEED, as_="pyarrow"))
                    cursor.execute(f"INSERT INTO {_quoted(key)} SELECT * FROM incoming")
                self._sampled[key] = n

    def _run(
        self, tree: exp.Expr, session: SessionFacts, n_rows: int | None
    ) -> tuple[list[OutputColumn], list[Sequence[Any]]]:
        """Columns, and so many rows; none where they are not wanted."""
        import duckdb

        for table in tree.find_all(exp.Table):
            if table.db == "public":
                self._sample(f"public.{table.name}")
        statement = self._translator.translate(tree)
        with self._cursor(session) as cursor:
            watch = threading.Timer(MAX_SECONDS, cursor.interrupt)
            watch.start()
            try:
                with cpu_limit(MAX_CPU_SECONDS):
                    self._check_functions(cursor, statement)
                    relation = cursor.sql(statement)
                    names = written_names(tree) or relation.columns
                    kinds = [t.of_duckdb(str(kind)) for kind in relation.types]
                    rows = [] if n_rows is None else list(islice(_rows(relation), n_rows))
            except duckdb.Error as problem:
                raise _in_words(problem) from None
            finally:
                watch.cancel()
        return [OutputColumn(name, kind) for name, kind in zip(names, kinds, strict=True)], rows

    def _check_functions(self, cursor: duckdb.DuckDBPyConnection, statement: str) -> None:
        """Refuse functions that are not known to be harmless, by name in DuckDB's own syntax tree."""
        (text,) = cursor.execute("SELECT json_serialize_sql(?)", [statement]).fetchall()[0]
        tree = json.loads(text)
        if tree["error"]:
            raise QueryError("The catalogue cannot answer this statement.")
        for node in _nodes(tree):
            name = node.get("function_name")
            if name is not None and not node.get("is_operator") and name.lower() not in self._functions:
                raise PgError(SqlState.UNDEFINED_FUNCTION, f"function {name[:60].lower()} does not exist")

    @contextmanager
    def _cursor(self, session: SessionFacts) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection of one statement's own to the database, where functions know the session."""
        version = f"PostgreSQL {session.settings['server_version']} ({_SERVER})"
        cursor = self._database.cursor()
        try:
            cursor.execute(
                "SET VARIABLE session = {'version': $version, 'database': $database, 'username': $user, "
                "'pid': $pid::INTEGER, 'started': $started::TIMESTAMP, "
                "'settings': map_from_entries($settings)}",
                {
                    "version": version,
                    "database": session.database,
                    "user": session.user,
                    "pid": session.pid,
                    "started": session.started,
                    "settings": [{"k": name, "v": value} for name, value in session.settings.items()],
                },
            )
            yield cursor
        finally:
            cursor.close()

    def _fill(self, views: Mapping[str, PView]) -> None:
        for key, columns in self._columns.items():
            usual = defaults().get(key, {})
            parts = ", ".join(_definition(name, kind, usual.get(name)) for name, kind in columns)
            self._database.execute(f"CREATE TABLE {_quoted(key)} ({parts})")
        self._database.execute("\n".join(t.lines_of("macros.sql")))
        for line in t.lines_of("functions.txt"):
            value, *names = line.split()
            calls = ", ".join(
                f"({', '.join(f'a{i}' for i in range(n))}) AS {value}" for n in range(_MAX_ARGUMENTS)
            )
            self._database.execute("".join(f"CREATE MACRO {name}{calls};" for name in names))
        settings = [
            {"name": name, "setting": value, "short_desc": meaning}
            for name, (value, meaning) in first_settings().items()
        ]
        for key, rows in {**layout.rows(views), "pg_catalog.pg_settings": settings}.items():
            self._database.register("incoming", pa.Table.from_pylist(rows))
            made = f"INSERT INTO {_quoted(key)} BY NAME" if key in self._columns else f"CREATE TABLE {key} AS"
            self._database.execute(f"{made} SELECT * FROM incoming")
            self._database.unregister("incoming")
        self._database.execute("\n".join(t.lines_of("derived.sql")))


def _set_config(call: exp.Anonymous, session: SessionFacts) -> None:
    """SELECT set_config('search_path', '', false) changes a setting as SET does."""
    if call.name.lower() == "set_config" and all(
        isinstance(each, exp.Literal) for each in call.expressions[:2]
    ):
        name, value = (each.name for each in call.expressions[:2])
        session.settings[name.lower()] = checked_setting(name.lower(), value)


def _rows(relation: duckdb.DuckDBPyRelation) -> Iterator[Sequence[Any]]:
    """Rows through Arrow: DuckDB itself needs another package for moments with a time zone."""
    for batch in relation.to_arrow_reader(_BATCH_ROWS):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        for value in tree.values():
            yield from _nodes(value)
    elif isinstance(tree, list):
        for item in tree:
            yield from _nodes(item)


def _definition(name: str, kind: PgType, usual: Any) -> str:
    """A column as CREATE TABLE takes it. usual: its value in rows that leave it out; None for NULL."""
    default = "" if usual is None else f" DEFAULT '{usual}'"
    return f"{_quoted(name)} {t.duckdb_type(kind)}{default}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _in_words(problem: Exception) -> QueryError:
    text = str(problem)
    if "unrecognized configuration parameter: " in text:
        name = text.partition("parameter: ")[2].splitlines()[0]
        return QueryError(f"Unknown setting {name[:60]!r}. SHOW ALL lists the settings.")
    if text.startswith("INTERRUPT"):
        return QueryError("This question about the catalogue took too long.")
    column = text.partition('Referenced column "')[2].partition('"')[0]
    if column:
        return PgError(SqlState.UNDEFINED_COLUMN, f'column "{column[:60]}" does not exist')
    return QueryError("The catalogue cannot answer this statement. Ask it in simpler words, or leave it out.")
