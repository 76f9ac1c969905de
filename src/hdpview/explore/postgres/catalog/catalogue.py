"""The catalogue and synthetic records, in an in-memory DuckDB that answers statements without counts.

Statements are parsed twice: by sqlglot to find the tables of the catalogue, and by DuckDB to list the
functions, of which only those on a list may be called. The database reads no file, loads no extension
and cannot be changed; a statement that runs too long is interrupted.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from hdpview.errors import QueryError
from hdpview.explore.child import cpu_limit
from hdpview.explore.postgres import types as t
from hdpview.explore.postgres.catalog.layout import fill
from hdpview.explore.postgres.catalog.translate import Translator, written_names
from hdpview.explore.postgres.names import parameter_types
from hdpview.explore.postgres.settings import first_values
from hdpview.explore.postgres.sqlstates import PgError, SqlState
from hdpview.explore.postgres.types import OutputColumn, PgType
from hdpview.pview import PView
from hdpview.query.evaluate.database import lock, quote, sandboxed_connection

if TYPE_CHECKING:
    import duckdb

# Time limit of a question about the catalogue, in seconds; the slowest of 135 asked by tools takes 0.2.
MAX_SECONDS = 1.5
# Seconds of processor time until a child process ends: DuckDB cannot be interrupted inside one function.
MAX_CPU_SECONDS = 2.0
# Maximum characters of a question about the catalogue; tools use up to 3,000, and 20,000 take 2 s to parse.
MAX_CHARACTERS = 20_000
MAX_ROWS = 100_000
_BATCH_ROWS = 10_000
# Maximum number of synthetic records of a view.
MAX_RECORDS = 50_000
_SEED = 0
# Settings of the database, in addition to those of every sandbox.
_CONFIG = """
SET GLOBAL memory_limit = '256MB'; SET GLOBAL integer_division = true;
SET GLOBAL python_enable_replacements = false; SET GLOBAL TimeZone = 'UTC'
"""
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


class CatalogEngine:
    """Answers SELECT statements that read no view, one at a time."""

    def __init__(self, views: Mapping[str, PView]) -> None:
        self._views = {f"public.{name}": view for name, view in views.items()}
        self._sampled: dict[str, int] = {}
        self._translator = Translator(self.key)
        self._database = sandboxed_connection()
        self._database.execute(_CONFIG)
        self._columns = fill(self._database, views)
        macros = self._database.execute("SELECT function_name FROM duckdb_functions() WHERE NOT internal")
        self._functions = {name for (name,) in macros.fetchall()} | set(_DUCKDB_FUNCTIONS.split())
        lock(self._database)

    def key(self, table: exp.Table) -> str | None:
        """The name of a table in the database; None if it does not belong to the catalogue."""
        if table.db == "public":
            return f"public.{table.name}"
        key = f"{table.db.lower() or 'pg_catalog'}.{table.name.lower()}"
        return key if key in self._columns and key not in self._views else None

    def describe(self, tree: exp.Expr) -> list[OutputColumn]:
        """Columns of a statement's result."""
        return self._run(tree, first_values(), None)[0]

    def answer(
        self, tree: exp.Expr, session: Mapping[str, str]
    ) -> tuple[list[OutputColumn], list[Sequence[Any]]]:
        """Columns and rows of the answer to a statement without parameters."""
        columns, rows = self._run(tree, session, MAX_ROWS + 1)
        if len(rows) > MAX_ROWS:
            raise QueryError(f"The answer has more than {MAX_ROWS:,} rows. Add a LIMIT.")
        return columns, rows

    def parameters(self, tree: exp.Expr) -> tuple[PgType, ...]:
        """Types of the parameters $1, $2, …"""
        columns: dict[str, PgType] = {}
        for table in tree.find_all(exp.Table):
            columns |= self._columns.get(self.key(table) or "", {})
        return parameter_types(tree, columns)

    def notice(self, view: str) -> str:
        """A note for people who query rows of a view."""
        return (
            f"These are synthetic records drawn from the view {view!r}, not rows of the table; "
            f"there are {self._sampled[f'public.{view}']:,} of them. Ask for counts, sums and means instead: "
            "they are more accurate."
        )

    def _sample(self, key: str) -> None:
        """Draw synthetic records at their first use, with a fixed seed, so that equal statements have equal
        answers, and a condition always selects the same records.
        """
        if key in self._sampled:
            return
        view = self._views[key]
        n = min(MAX_RECORDS, max(0, round(view.count(None).estimate)))
        with self._database.cursor() as cursor:
            cursor.register("incoming", view.sample(n, seed=_SEED, as_="pyarrow"))
            cursor.execute(f"INSERT INTO {quote(key)} SELECT * FROM incoming")
        self._sampled[key] = n

    def _run(
        self, tree: exp.Expr, session: Mapping[str, str], n_rows: int | None
    ) -> tuple[list[OutputColumn], list[Sequence[Any]]]:
        """Columns, and at most the requested number of rows."""
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
        """Refuse functions that are not on the allow-list, by name in DuckDB's own syntax tree."""
        (text,) = cursor.execute("SELECT json_serialize_sql(?)", [statement]).fetchall()[0]
        tree = json.loads(text)
        if tree["error"]:
            raise QueryError("The catalogue cannot answer this statement.")
        for node in _nodes(tree):
            name = node.get("function_name")
            if name is not None and not node.get("is_operator") and name.lower() not in self._functions:
                raise PgError(SqlState.UNDEFINED_FUNCTION, f"function {name[:60].lower()} does not exist")

    @contextmanager
    def _cursor(self, session: Mapping[str, str]) -> Iterator[duckdb.DuckDBPyConnection]:
        """A connection for one statement, whose functions can read the session."""
        cursor = self._database.cursor()
        try:
            settings = [{"k": name, "v": value} for name, value in session.items()]
            cursor.execute("SET VARIABLE settings = map_from_entries(?)", [settings])
            yield cursor
        finally:
            cursor.close()


def _rows(relation: duckdb.DuckDBPyRelation) -> Iterator[Sequence[Any]]:
    """Rows through Arrow: DuckDB itself needs another package for timestamps with a time zone."""
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


def _in_words(problem: Exception) -> QueryError:
    text = str(problem)
    own = text.partition("hdpview: ")[2]  # raised by a macro
    if own:
        return QueryError(own.splitlines()[0][:200])
    if text.startswith("INTERRUPT"):
        return QueryError("This question about the catalogue took too long.")
    column = text.partition('Referenced column "')[2].partition('"')[0]
    if column:
        return PgError(SqlState.UNDEFINED_COLUMN, f'column "{column[:60]}" does not exist')
    return QueryError("The catalogue cannot answer this statement. Simplify the statement, or leave it out.")
