"""PostgreSQL's types: their names and numbers, and the types of DuckDB that hold their values."""

from __future__ import annotations

from importlib import resources
from typing import NamedTuple


class PgType(NamedTuple):
    """A type of PostgreSQL. size: bytes in binary, −1 if it varies."""

    oid: int
    name: str
    size: int


class OutputColumn(NamedTuple):
    """A column of a result. is_estimate: it has an interval."""

    name: str
    kind: PgType
    is_estimate: bool = False


def lines_of(name: str) -> list[str]:
    """The lines of a file of data about PostgreSQL, in the folder `catalog`."""
    text = (resources.files("hdpview.explore.postgres.catalog") / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line]


# The rows of pg_type in PostgreSQL 15: number, name, size and other facts of each type.
CATALOGUED = [line.split(" ") for line in lines_of("types.txt")]

# Types in which values are sent, and the types of DuckDB that hold them; all other values are sent as texts.
_IN_DUCKDB = {
    "bool": "BOOLEAN",
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "oid": "UINTEGER",
    "xid": "UINTEGER",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "numeric": "DOUBLE",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "int2vector": "SMALLINT[]",
    "oidvector": "UINTEGER[]",
    **{name: name.upper() for name in ("date", "time", "timestamp", "interval", "json", "uuid")},
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "char", "unknown", "bytea", "jsonb"), "VARCHAR"),
    **dict.fromkeys(("regproc", "regclass", "regtype", "regnamespace", "regrole", "void"), "VARCHAR"),
}
BY_NAME = {
    name: PgType(int(oid), name, int(size))
    for oid, name, size, *_ in CATALOGUED
    if name.removeprefix("_") in _IN_DUCKDB
}
BY_OID = {kind.oid: kind for kind in BY_NAME.values()}
ELEMENT_OF = {kind: BY_NAME[name[1:]] for name, kind in BY_NAME.items() if name.startswith("_")}

BOOL, INT2, INT4, INT8 = (BY_NAME[name] for name in ("bool", "int2", "int4", "int8"))
OID, XID, FLOAT4, FLOAT8 = (BY_NAME[name] for name in ("oid", "xid", "float4", "float8"))
NUMERIC, TEXT, UNKNOWN, JSONB = (BY_NAME[name] for name in ("numeric", "text", "unknown", "jsonb"))
DATE, TIMESTAMP, TIMESTAMPTZ = (BY_NAME[name] for name in ("date", "timestamp", "timestamptz"))
REGPROC = BY_NAME["regproc"]
REG_TYPES = frozenset(kind for kind in BY_NAME.values() if kind.name.startswith("reg"))
INTEGERS = frozenset({INT2, INT4, INT8, OID, XID})
MOMENTS = frozenset({DATE, TIMESTAMP, TIMESTAMPTZ})
TEXTS = frozenset(BY_NAME[name] for name in ("text", "varchar", "bpchar", "name", "char", "unknown"))

# Names of types as sqlglot writes them, where they are not those of the catalogue.
_IN_SQL = {
    "boolean": "bool",
    "smallint": "int2",
    "int": "int4",
    "bigint": "int8",
    "real": "float4",
    "double precision": "float8",
    "decimal": "numeric",
}
# DuckDB types, as DESCRIBE names them, without a counterpart in PostgreSQL.
_SENT_AS = {
    "TINYINT": INT2,
    "UTINYINT": INT2,
    "USMALLINT": INT4,
    "UBIGINT": FLOAT8,
    "HUGEINT": FLOAT8,
    "UHUGEINT": FLOAT8,
    **{title: BY_NAME[name] for name, title in reversed(_IN_DUCKDB.items())},
    "VARCHAR": TEXT,
}


def array_of(element: PgType) -> PgType:
    """The type of arrays of a type; of text if it has none."""
    return BY_NAME.get(f"_{element.name}", BY_NAME["_text"])


def named(name: str) -> PgType:
    """A type as sqlglot writes it, such as INT, VARCHAR(20) or pg_catalog.text[]; text if it is unknown."""
    plain = name.lower().removeprefix("pg_catalog.").partition("(")[0].strip('"')
    if plain.endswith("[]"):
        return array_of(named(plain[:-2]))
    return BY_NAME.get(_IN_SQL.get(plain, plain), TEXT)


def duckdb_type(kind: PgType) -> str:
    """The type of DuckDB that holds values of a type."""
    return duckdb_type(ELEMENT_OF[kind]) + "[]" if kind in ELEMENT_OF else _IN_DUCKDB[kind.name]


def of_duckdb(name: str) -> PgType:
    """The type in which clients receive values of a DuckDB type, named as by DESCRIBE."""
    if name.endswith("[]"):
        return array_of(of_duckdb(name[:-2]))
    return FLOAT8 if name.startswith("DECIMAL") else _SENT_AS.get(name, TEXT)
