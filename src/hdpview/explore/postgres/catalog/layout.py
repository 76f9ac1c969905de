"""Contents of the catalogue: views as tables, attributes as columns, types and comments.

`relations.txt` and `types.txt` hold what PostgreSQL 15 answers about its own catalogue. The first has one
relation per line: its number, kind and columns, each with its value if that is the same in all rows. The
second has one type per line. `derived.sql` makes all other tables from those that are filled here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hdpview.domain import Attribute, Datetime, Integer, Ordered, calendar
from hdpview.explore.postgres import types as t
from hdpview.explore.postgres.settings import first_settings
from hdpview.explore.postgres.types import PgType
from hdpview.pview import PView
from hdpview.query.evaluate.database import quote, sql_type

if TYPE_CHECKING:
    import duckdb

# The first number that PostgreSQL gives to objects of users.
FIRST_VIEW = 16_384
# Maximum number of arguments of the functions in functions.txt, whose results do not depend on arguments.
_MAX_ARGUMENTS = 5
_TYPE_COLUMNS = (
    "oid typname typlen typbyval typtype typcategory typispreferred typrelid typelem typarray typalign "
    "typstorage typinput typoutput typreceive typsend"
)
Columns = dict[str, dict[str, PgType]]


def fill(database: duckdb.DuckDBPyConnection, views: Mapping[str, PView]) -> Columns:
    """Create the catalogue, and for each view an empty table of records. Returns columns by table."""
    relations, attributes, comments = [], [], []
    columns: Columns = {}
    for line in t.lines_of("relations.txt"):
        key, written_oid, kind, *parts = line.split(" ")
        oid = int(written_oid)
        schema, name = key.split(".")
        relations.append({"oid": oid, "name": name, "schema": schema, "kind": kind, "n": -1.0})
        definitions, columns[key] = [], {}
        for number, part in enumerate(parts, 1):
            column, is_fixed, value = part.partition("=")
            column, _, type_name = column.partition(":")
            columns[key][column] = t.BY_NAME.get(type_name, t.TEXT)
            default = f" DEFAULT '{value}'" if is_fixed else ""
            definitions.append(f"{quote(column)} {t.duckdb_type(columns[key][column])}{default}")
            row = {"oid": oid, "number": number, "name": column, "type": type_name, "is_not_null": False}
            attributes.append(row)
        database.execute(f"CREATE TABLE {quote(key)} ({', '.join(definitions)})")
    for oid, (name, view) in enumerate(views.items(), FIRST_VIEW):
        n = max(0.0, round(view.count(None).estimate))
        relations.append({"oid": oid, "name": name, "schema": "public", "kind": "r", "n": n})
        comments.append({"objoid": oid, "objsubid": 0, "description": _view_comment(view)})
        kinds = columns[f"public.{name}"] = {each.name: column_type(each) for each in view.schema}
        for number, attribute in enumerate(view.schema, 1):
            row = {"oid": oid, "number": number, "name": attribute.name, "type": kinds[attribute.name].name}
            attributes.append({**row, "is_not_null": not attribute.nullable})
            comments.append({"objoid": oid, "objsubid": number, "description": _column_comment(attribute)})
        parts = [f"{quote(column)} {t.duckdb_type(kind)}" for column, kind in kinds.items()]
        database.execute(f"CREATE TABLE {quote(f'public.{name}')} ({', '.join(parts)})")
    types = [dict(zip(_TYPE_COLUMNS.split(), values, strict=True)) for values in t.CATALOGUED]
    settings = [
        {"name": name, "setting": value, "short_desc": meaning}
        for name, (value, meaning) in first_settings().items()
    ]
    database.execute("\n".join(t.lines_of("macros.sql")))
    for line in t.lines_of("functions.txt"):
        value, *names = line.split()
        calls = ", ".join(
            f"({', '.join(f'a{i}' for i in range(n))}) AS {value}" for n in range(_MAX_ARGUMENTS)
        )
        database.execute("".join(f"CREATE MACRO {name}{calls};" for name in names))
    _insert(database, "relations", relations)
    _insert(database, "attributes", attributes)
    _insert(database, "pg_catalog.pg_type", types)
    _insert(database, "pg_catalog.pg_description", comments)
    _insert(database, "pg_catalog.pg_settings", settings)
    database.execute("\n".join(t.lines_of("derived.sql")))
    return columns


def _insert(database: duckdb.DuckDBPyConnection, table: str, rows: list[dict[str, Any]]) -> None:
    database.register("incoming", pa.Table.from_pylist(rows))
    database.execute(f"INSERT INTO {quote(table)} BY NAME SELECT * FROM incoming")
    database.unregister("incoming")


def column_type(attribute: Attribute) -> PgType:
    """The type of an attribute's column: the one that DuckDB evaluates it with, small numbers as integers."""
    if isinstance(attribute, Integer) and attribute.min >= -(2**31) and attribute.max < 2**31:
        return t.INT4
    return t.of_duckdb(sql_type(attribute))


def _view_comment(view: PView) -> str:
    """A comment on a view: what is protected and how to read answers."""
    manifest = view.manifest
    warning = "" if manifest.is_private else "NOT PRIVATE: " + "; ".join(manifest.not_private_because) + ". "
    return (
        f"{warning}Differentially private view: {manifest.budget} for one {manifest.privacy_unit} "
        f"({manifest.change}). Aggregates are estimates; SET hdpview.intervals = on adds their intervals. "
        "SELECT * gives synthetic records."
    )


def _column_comment(attribute: Attribute) -> str:
    """The contents of a column, its bins, and the code of all other values."""
    bins = ""
    if isinstance(attribute, Ordered) and not (isinstance(attribute, Integer) and attribute.every == 1):
        first = attribute.edges[0].item()
        start = calendar.moment(first).date() if isinstance(attribute, Datetime) else f"{first:g}"
        bins = f" In {attribute.n_values:,} bins from {start} on; a group is named by the start of its bin."
    return f"{attribute.span()}.{bins} In the table before: {attribute.describe_fallbacks()}."
