"""Rows of the catalogue: the views as tables, their attributes as columns, types, schemas and settings.

The layout of the tables, `relations.txt` and `types.txt`, lists what PostgreSQL 15 itself answers about its
own catalogue: a relation per line with its number, its kind and its columns; a type per line. `defaults.txt`
has the values that are the same in all rows of a table, and `derived.sql` the tables that follow from others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from hdpview.domain import Attribute, Datetime, Integer, Ordered, calendar
from hdpview.explore.postgres import types as t
from hdpview.explore.postgres.types import PgType
from hdpview.pview import PView
from hdpview.query.evaluate.database import sql_type

NAMESPACES = {11: "pg_catalog", 2200: "public", 13000: "information_schema"}
FIRST_VIEW = 16_384  # the first number that PostgreSQL gives to what users make
_NAMESPACE_OF = {name: oid for oid, name in NAMESPACES.items()}
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
def system_relations() -> tuple[Relation, ...]:
    """All tables of the catalogue."""
    found = []
    for line in t.lines_of("relations.txt"):
        title, oid, kind, *columns = line.split(" ")
        schema, name = title.split(".")
        pairs = tuple((column, of) for column, of in (each.split(":") for each in columns))
        found.append(Relation(schema, name, int(oid), kind, pairs))
    return tuple(found)


@cache
def defaults() -> dict[str, Row]:
    """Of each table the values that are the same in all its rows."""
    found: dict[str, Row] = {}
    for line in t.lines_of("defaults.txt"):
        key, *pairs = line.split(" ")
        values = (pair.partition("=")[::2] for pair in pairs)
        found[key] = {name: int(text) if text.lstrip("-").isdigit() else text for name, text in values}
    return found


@cache
def type_rows() -> tuple[Row, ...]:
    """pg_type."""
    names = (
        "oid typname typlen typbyval typtype typcategory typispreferred typrelid typelem typarray "
        "typalign typstorage "
        "typinput typoutput typreceive typsend"
    )
    rows: list[Row] = []
    for values in t.catalogued():
        row: Row = dict(zip(names.split(), values, strict=True))
        for key in ("oid", "typlen", "typrelid", "typelem", "typarray"):
            row[key] = int(row[key])
        for key in ("typbyval", "typispreferred"):
            row[key] = int(row[key] == "t")
        row |= {"typcollation": 100 if row["typcategory"] == "S" else 0}
        rows.append(row)
    return tuple(rows)


def column_type(attribute: Attribute) -> PgType:
    """The type of an attribute's column: the one that DuckDB evaluates it with, small numbers as integers."""
    if isinstance(attribute, Integer) and attribute.min >= -(2**31) and attribute.max < 2**31:
        return t.INT4
    return t.of_duckdb(sql_type(attribute))


def view_comment(view: PView) -> str:
    """What is protected and how to read answers."""
    manifest = view.manifest
    warning = "" if manifest.is_private else "NOT PRIVATE: " + "; ".join(manifest.not_private_because) + ". "
    return (
        f"{warning}Differentially private view: {manifest.budget} for one {manifest.privacy_unit} "
        f"({manifest.change}). Aggregates are estimates; SET hdpview.intervals = on adds their intervals. "
        "SELECT * gives synthetic records."
    )


def column_comment(attribute: Attribute) -> str:
    """What the column holds, how its bins lie, and where other values went."""
    bins = ""
    if isinstance(attribute, Ordered) and not (isinstance(attribute, Integer) and attribute.every == 1):
        first = attribute.edges[0].item()
        shown = calendar.moment(first).date() if isinstance(attribute, Datetime) else f"{first:g}"
        bins = f" In {attribute.n_values:,} bins from {shown} on; a group is named by the start of its bin."
    return f"{attribute.span()}.{bins} In the table before: {attribute.describe_fallbacks()}."


class Catalog:
    """The rows of all tables for these views."""

    def __init__(self, views: Mapping[str, PView]) -> None:
        self.views = views
        self.oids = {name: FIRST_VIEW + i for i, name in enumerate(views)}
        self._type_oids = {row["typname"]: row["oid"] for row in type_rows()}

    def rows(self) -> dict[str, list[Row]]:
        """Rows of the tables that say what there is, by table. They leave out what `defaults` says, and all
        rows of a table say the same columns.
        """
        return {
            "pg_catalog.pg_namespace": list(self._namespaces()),
            "pg_catalog.pg_class": list(self._classes()),
            "pg_catalog.pg_attribute": list(self._attributes()),
            "pg_catalog.pg_type": [dict(row) for row in type_rows()],
            "pg_catalog.pg_description": list(self._descriptions()),
        }

    def columns(self) -> Iterator[tuple[str, int, int, Attribute]]:
        """Name and number of each view, and number of each attribute with it."""
        for name, oid in self.oids.items():
            for number, attribute in enumerate(self.views[name].schema, 1):
                yield name, oid, number, attribute

    def _descriptions(self) -> Iterator[Row]:
        for name, oid in self.oids.items():
            yield {"objoid": oid, "objsubid": 0, "description": view_comment(self.views[name])}
        for _, oid, number, attribute in self.columns():
            yield {"objoid": oid, "objsubid": number, "description": column_comment(attribute)}

    def _namespaces(self) -> Iterator[Row]:
        for oid, name in NAMESPACES.items():
            yield {"oid": oid, "nspname": name}

    def _classes(self) -> Iterator[Row]:
        for relation in system_relations():
            yield self._class(
                relation.oid, relation.name, relation.schema, relation.kind, len(relation.columns), -1.0
            )
        for name, oid in self.oids.items():
            view = self.views[name]
            n = max(0.0, round(view.count(None).estimate))
            yield self._class(oid, name, "public", "r", len(view.schema), n)

    def _class(self, oid: int, name: str, schema: str, kind: str, n_columns: int, n: float) -> Row:
        return {
            "oid": oid,
            "relname": name,
            "relnamespace": _NAMESPACE_OF[schema],
            "relam": 2 if kind == "r" else 0,
            "reltuples": n,
            "relkind": kind,
            "relnatts": n_columns,
        }

    def _attributes(self) -> Iterator[Row]:
        for relation in system_relations():
            for number, (column, kind) in enumerate(relation.columns, 1):
                yield self._attribute(relation.oid, column, number, self._type_oids.get(kind, 25), False)
        for _, oid, number, attribute in self.columns():
            yield self._attribute(
                oid, attribute.name, number, column_type(attribute).oid, not attribute.nullable
            )

    def _attribute(self, relation: int, name: str, number: int, kind: int, not_null: bool) -> Row:
        size = t.BY_OID[kind].size if kind in t.BY_OID else -1
        return {
            "attrelid": relation,
            "attname": name,
            "atttypid": kind,
            "attlen": size,
            "attnum": number,
            "attstorage": "p" if size > 0 else "x",
            "attnotnull": int(not_null),
            "attcollation": 100 if t.BY_OID.get(kind) in t.TEXTS else 0,
        }
