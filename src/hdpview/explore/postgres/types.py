"""PostgreSQL's types, and how values travel: as text, in binary, and as parameters that come back."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import cache
from importlib import resources
from typing import Any

EPOCH = datetime(2000, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
TEXT_FORMAT, BINARY_FORMAT = 0, 1


@dataclass(frozen=True, eq=False)
class PgType:
    """A type as clients know it; there is one of each. size: bytes in binary, −1 where they vary."""

    oid: int
    name: str
    size: int = -1

    def __reduce__(self) -> tuple[Callable[[str], PgType], tuple[str]]:
        return _of_catalogue, (self.name,)


@dataclass(frozen=True)
class OutputColumn:
    """A column of a result. is_estimate: it has an interval."""

    name: str
    kind: PgType
    is_estimate: bool = False


def lines_of(name: str) -> list[str]:
    """The lines of a file of data about PostgreSQL, in the folder `catalog`."""
    text = (resources.files("hdpview.explore.postgres.catalog") / name).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line]


@cache
def catalogued() -> tuple[tuple[str, ...], ...]:
    """pg_type as PostgreSQL 15 has it: number, name, size and the rest of each type."""
    return tuple(tuple(line.split(" ")) for line in lines_of("types.txt"))


_CATALOGUED = {name: PgType(int(oid), name, int(size)) for oid, name, size, *_ in catalogued()}


def _of_catalogue(name: str) -> PgType:
    return _CATALOGUED[name]


BY_NAME: dict[str, PgType] = {}  # types that values are sent as; all others are sent as texts


def _known(names: str) -> list[PgType]:
    BY_NAME.update({name: _CATALOGUED[name] for name in names.split()})
    return [BY_NAME[name] for name in names.split()]


BOOL, BYTEA, CHAR, NAME, INT8, INT2, INT4, TEXT = _known("bool bytea char name int8 int2 int4 text")
OID, JSON, XID, FLOAT4, FLOAT8, UNKNOWN, DATE = _known("oid json xid float4 float8 unknown date")
TIMESTAMP, TIMESTAMPTZ, INTERVAL, VARCHAR, BPCHAR = _known("timestamp timestamptz interval varchar bpchar")
NUMERIC, REGPROC, REGCLASS, REGTYPE = _known("numeric regproc regclass regtype")
REGNAMESPACE, REGROLE, VOID, TIME, UUID, JSONB = _known("regnamespace regrole void time uuid jsonb")
INT2VECTOR, OIDVECTOR = _known("int2vector oidvector")
_ARRAYS = _known(
    "_bool _char _name _int2 _int4 _text _varchar _int8 _float4 _float8 _oid _timestamp _date _timestamptz "
    "_numeric"
)
ELEMENT_OF = {array.oid: BY_NAME[array.name[1:]] for array in _ARRAYS}
BY_OID = {kind.oid: kind for kind in BY_NAME.values()}
REG_TYPES = frozenset({REGPROC, REGCLASS, REGTYPE, REGNAMESPACE, REGROLE})
INTEGERS, FLOATS = frozenset({INT2, INT4, INT8, OID, XID}), frozenset({FLOAT4, FLOAT8})
NUMBERS = INTEGERS | FLOATS | {NUMERIC}
MOMENTS = frozenset({DATE, TIMESTAMP, TIMESTAMPTZ})
TEXTS = frozenset({TEXT, VARCHAR, BPCHAR, NAME, CHAR, UNKNOWN})

SQL_NAMES = {
    "bool": "boolean",
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "float4": "real",
    "float8": "double precision",
    "varchar": "character varying",
    "bpchar": "character",
    "char": '"char"',
    "timestamp": "timestamp without time zone",
    "timestamptz": "timestamp with time zone",
    "time": "time without time zone",
}
# Names of types as statements write them, beside those that the catalogue knows.
_ALIASES = {title: BY_NAME[name] for name, title in SQL_NAMES.items()}
_ALIASES |= {"int": INT4, "double": FLOAT8, "float": FLOAT8, "decimal": NUMERIC}


def array_of(element: PgType) -> PgType:
    """The type of arrays of a type; of text where there is none of its own."""
    return BY_NAME.get(f"_{element.name}", BY_NAME["_text"])


def named(name: str) -> PgType | None:
    """A type by any of its names: int4, integer, integer[], _int4, varchar(20)."""
    plain = name.strip().lower().partition("(")[0].strip() if not name.startswith('"') else name
    if plain.endswith("[]"):
        element = named(plain[:-2])
        return None if element is None else array_of(element)
    return _ALIASES.get(plain) or BY_NAME.get(plain.strip('"'))


# DuckDB's types and the ones that clients get their values in; all others are texts on both sides.
_FROM_DUCKDB = {
    title.strip(): BY_NAME[name]
    for name, titles in (
        ("bool", "BOOLEAN"),
        ("int2", "SMALLINT, TINYINT, UTINYINT"),
        ("int4", "INTEGER, USMALLINT"),
        ("int8", "BIGINT"),
        ("oid", "UINTEGER"),
        ("float4", "FLOAT"),
        ("float8", "DOUBLE"),
        ("numeric", "HUGEINT, UHUGEINT, UBIGINT"),
        ("date", "DATE"),
        ("time", "TIME"),
        ("timestamp", "TIMESTAMP"),
        ("timestamptz", "TIMESTAMP WITH TIME ZONE"),
        ("interval", "INTERVAL"),
        ("json", "JSON"),
        ("uuid", "UUID"),
    )
    for title in titles.split(",")
}
_TO_DUCKDB = {kind: title for title, kind in reversed(_FROM_DUCKDB.items())}
_TO_DUCKDB |= {NUMERIC: "DOUBLE", XID: "UINTEGER", INT2VECTOR: "SMALLINT[]", OIDVECTOR: "UINTEGER[]"}


def duckdb_type(kind: PgType) -> str:
    """The type of DuckDB that holds values of a type."""
    if kind.oid in ELEMENT_OF:
        return duckdb_type(ELEMENT_OF[kind.oid]) + "[]"
    return _TO_DUCKDB.get(kind, "VARCHAR")


def of_duckdb(name: str) -> PgType:
    """The type in which clients get values of a type of DuckDB, as DESCRIBE names it."""
    if name.endswith("[]"):
        return array_of(of_duckdb(name[:-2]))
    return NUMERIC if name.startswith("DECIMAL") else _FROM_DUCKDB.get(name, TEXT)


def encode(value: Any, kind: PgType, format_code: int) -> bytes | None:
    """A value as it travels. A value that does not fit the type it was announced with travels as that type's
    NULL in binary, and as its text otherwise.
    """
    if value is None:
        return None
    if kind.oid in ELEMENT_OF:
        return _binary_array(value, ELEMENT_OF[kind.oid]) if format_code else _text_array(value, kind)
    if not format_code:
        return text_of(value, kind).encode()
    try:
        return _BINARY.get(kind, _binary_text)(value)
    except (TypeError, ValueError, struct.error, OverflowError, InvalidOperation):
        return None


def text_of(value: Any, kind: PgType) -> str:
    """A value as PostgreSQL writes it."""
    if kind is BOOL:
        return "t" if value else "f"
    if isinstance(value, float):
        if kind in INTEGERS and value.is_integer():
            return str(int(value))
        return str(value).removesuffix(".0") if math.isfinite(value) else _special(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if kind is DATE and isinstance(value, datetime):
        return value.date().isoformat()
    if isinstance(value, date):
        moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
        text = moment.isoformat(" ")
        return text + "+00" if kind is TIMESTAMPTZ else value.isoformat() if kind is DATE else text
    return value if isinstance(value, str) else str(value)


def _special(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _text_array(items: Sequence[Any], kind: PgType) -> bytes:
    element = ELEMENT_OF[kind.oid]
    parts = ["NULL" if item is None else _quoted_item(text_of(item, element)) for item in items]
    return ("{" + ",".join(parts) + "}").encode()


def _quoted_item(text: str) -> str:
    plain = text and text.upper() != "NULL" and not any(c in '{},"\\ ' or c.isspace() for c in text)
    return text if plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _binary_array(items: Sequence[Any], element: PgType) -> bytes:
    encoded = [encode(item, element, BINARY_FORMAT) for item in items]
    if not encoded:
        return struct.pack("!iii", 0, 0, element.oid)
    head = struct.pack("!iiiii", 1, None in encoded, element.oid, len(encoded), 1)
    return head + b"".join(
        struct.pack("!i", -1) if item is None else struct.pack("!i", len(item)) + item for item in encoded
    )


def _packed(layout: str, convert: Callable[[Any], Any]) -> Callable[[Any], bytes]:
    return lambda value: struct.pack(layout, convert(value))


def _binary_text(value: Any) -> bytes:
    return text_of(value, TEXT).encode()


def moment_of(value: Any) -> datetime:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=None) if value.tzinfo is None else value.astimezone().replace(tzinfo=None)
    return datetime(value.year, value.month, value.day)


def _microseconds(value: Any) -> int:
    return (moment_of(value) - EPOCH) // _MICROSECOND


def _binary_numeric(value: Any) -> bytes:
    number = Decimal(str(value))
    if not number.is_finite():
        return struct.pack("!hhHh", 0, 0, 0xC000 if number.is_nan() else 0xD000 if number > 0 else 0xF000, 0)
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    whole = "".join(map(str, digits)) + "0" * max(0, exponent)
    whole, fraction = (
        (whole[:-scale].rjust(1, "0"), whole[-scale:].rjust(scale, "0")) if scale else (whole, "")
    )
    whole = whole.zfill(-(-len(whole) // 4) * 4)
    fraction = fraction.ljust(-(-len(fraction) // 4) * 4, "0")
    groups = [int((whole + fraction)[i : i + 4]) for i in range(0, len(whole + fraction), 4)]
    weight = len(whole) // 4 - 1
    while groups and groups[0] == 0:
        groups.pop(0)
        weight -= 1
    while groups and groups[-1] == 0:
        groups.pop()
    return struct.pack(
        f"!hhHh{len(groups)}H", len(groups), weight if groups else 0, 0x4000 if sign else 0, scale, *groups
    )


_BINARY: dict[PgType, Callable[[Any], bytes]] = {
    BOOL: _packed("!?", bool),
    INT2: _packed("!h", int),
    INT4: _packed("!i", int),
    INT8: _packed("!q", int),
    OID: _packed("!I", int),
    XID: _packed("!I", int),
    **{kind: _packed("!I", int) for kind in REG_TYPES},
    FLOAT4: _packed("!f", float),
    FLOAT8: _packed("!d", float),
    NUMERIC: _binary_numeric,
    DATE: _packed("!i", lambda value: (moment_of(value) - EPOCH).days),
    TIMESTAMP: _packed("!q", _microseconds),
    TIMESTAMPTZ: _packed("!q", _microseconds),
    JSONB: lambda value: b"\x01" + _binary_text(value),
}
