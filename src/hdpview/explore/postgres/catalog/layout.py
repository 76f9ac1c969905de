"""What the catalogue says: the views as tables, their attributes as columns, types and comments.

The layout of the tables, `relations.txt` and `types.txt`, lists what PostgreSQL 15 itself answers about its
own catalogue: a relation per line with its number, its kind and its columns; a type per line. `defaults.txt`
has the values that are the same in all rows of a table; `derived.sql` fills the tables from the rows here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from hdpview.domain import Attribute, Datetime, Integer, Ordered, calendar
from hdpview.explore.postgres import types as t
from hdpview.explore.postgres.types import PgType
from hdpview.pview import PView
from hdpview.query.evaluate.database import sql_type

# The first number that PostgreSQL gives to what users make.
FIRST_VIEW = 16_384
_TYPE_COLUMNS = (
    "oid typname typlen typbyval typtype typcategory typispreferred typrelid typelem typarray typalign "
    "typstorage typinput typoutput typreceive typsend"
)
Row = dict[str, Any]


@dataclass(frozen=True)
class Relation:
    """A table of the catalogue. columns: names and names of types, in order."""

    schema: str
    name: str
    oid: int
    kind: str
    columns: tuple[tuple[str, str], ...]


@cache
def system_relations() -> dict[str, Relation]:
    """All tables of the catalogue, by name with the schema."""
    relations = {}
    for line in t.lines_of("relations.txt"):
        key, oid, kind, *columns = line.split(" ")
        pairs = tuple((column, of) for column, of in (each.split(":") for each in columns))
        schema, name = key.split(".")
        relations[key] = Relation(schema, name, int(oid), kind, pairs)
    return relations


@cache
def defaults() -> dict[str, dict[str, str]]:
    """Of each table the values that are the same in all its rows."""
    lines = (line.split(" ") for line in t.lines_of("defaults.txt"))
    return {key: dict(pair.split("=") for pair in pairs) for key, *pairs in lines}


def rows(views: Mapping[str, PView]) -> dict[str, list[Row]]:
    """Rows of pg_type and pg_description, and of the tables from which derived.sql makes the others."""
    relations, attributes, comments = [], [], []
    for each in system_relations().values():
        relations.append(
            {"oid": each.oid, "name": each.name, "schema": each.schema, "kind": each.kind, "n": -1.0}
        )
        attributes += [
            {"oid": each.oid, "number": i, "name": name, "type": kind, "is_not_null": False}
            for i, (name, kind) in enumerate(each.columns, 1)
        ]
    for oid, (name, view) in enumerate(views.items(), FIRST_VIEW):
        n = max(0.0, round(view.count(None).estimate))
        relations.append({"oid": oid, "name": name, "schema": "public", "kind": "r", "n": n})
        comments.append({"objoid": oid, "objsubid": 0, "description": _view_comment(view)})
        for i, attribute in enumerate(view.schema, 1):
            row = {"oid": oid, "number": i, "name": attribute.name, "type": column_type(attribute).name}
            attributes.append({**row, "is_not_null": not attribute.nullable})
            comments.append({"objoid": oid, "objsubid": i, "description": _column_comment(attribute)})
    return {
        "pg_catalog.pg_type": [
            dict(zip(_TYPE_COLUMNS.split(), values, strict=True)) for values in t.catalogued()
        ],
        "pg_catalog.pg_description": comments,
        "relations": relations,
        "attributes": attributes,
    }


def column_type(attribute: Attribute) -> PgType:
    """The type of an attribute's column: the one that DuckDB evaluates it with, small numbers as integers."""
    if isinstance(attribute, Integer) and attribute.min >= -(2**31) and attribute.max < 2**31:
        return t.INT4
    return t.of_duckdb(sql_type(attribute))


def _view_comment(view: PView) -> str:
    """What is protected and how to read answers."""
    manifest = view.manifest
    warning = "" if manifest.is_private else "NOT PRIVATE: " + "; ".join(manifest.not_private_because) + ". "
    return (
        f"{warning}Differentially private view: {manifest.budget} for one {manifest.privacy_unit} "
        f"({manifest.change}). Aggregates are estimates; SET hdpview.intervals = on adds their intervals. "
        "SELECT * gives synthetic records."
    )


def _column_comment(attribute: Attribute) -> str:
    """What the column holds, how its bins lie, and where other values went."""
    bins = ""
    if isinstance(attribute, Ordered) and not (isinstance(attribute, Integer) and attribute.every == 1):
        first = attribute.edges[0].item()
        shown = calendar.moment(first).date() if isinstance(attribute, Datetime) else f"{first:g}"
        bins = f" In {attribute.n_values:,} bins from {shown} on; a group is named by the start of its bin."
    return f"{attribute.span()}.{bins} In the table before: {attribute.describe_fallbacks()}."
