"""PostgreSQL's types, and how values travel: as text, in binary, and as parameters that come back."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

EPOCH = datetime(2000, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
TEXT_FORMAT, BINARY_FORMAT = 0, 1


@dataclass(frozen=True)
class PgType:
    """A type as clients know it. size: bytes of a value in binary, −1 where they vary."""

    oid: int
    name: str
    size: int = -1


BOOL, BYTEA, CHAR, NAME = (
    PgType(16, "bool", 1),
    PgType(17, "bytea"),
    PgType(18, "char", 1),
    PgType(19, "name", 64),
)
INT8, INT2, INT4 = PgType(20, "int8", 8), PgType(21, "int2", 2), PgType(23, "int4", 4)
TEXT, OID, JSON, XID = PgType(25, "text"), PgType(26, "oid", 4), PgType(114, "json"), PgType(28, "xid", 4)
FLOAT4, FLOAT8, UNKNOWN = PgType(700, "float4", 4), PgType(701, "float8", 8), PgType(705, "unknown", -2)
DATE, TIMESTAMP = PgType(1082, "date", 4), PgType(1114, "timestamp", 8)
TIMESTAMPTZ, INTERVAL = PgType(1184, "timestamptz", 8), PgType(1186, "interval", 16)
VARCHAR, BPCHAR, NUMERIC = PgType(1043, "varchar"), PgType(1042, "bpchar"), PgType(1700, "numeric")
REGPROC, REGCLASS, REGTYPE = PgType(24, "regproc", 4), PgType(2205, "regclass", 4), PgType(2206, "regtype", 4)
REGNAMESPACE, REGROLE = PgType(4089, "regnamespace", 4), PgType(4096, "regrole", 4)
VOID, TIME, UUID = PgType(2278, "void", 4), PgType(1083, "time", 8), PgType(2950, "uuid", 16)
JSONB, INT2VECTOR, OIDVECTOR = PgType(3802, "jsonb"), PgType(22, "int2vector"), PgType(30, "oidvector")

_SCALARS = (
    *(
        BOOL,
        BYTEA,
        CHAR,
        NAME,
        INT8,
        INT2,
        INT4,
        TEXT,
        OID,
        JSON,
        XID,
        FLOAT4,
        FLOAT8,
        UNKNOWN,
        DATE,
        TIMESTAMP,
    ),
    *(
        TIMESTAMPTZ,
        INTERVAL,
        VARCHAR,
        BPCHAR,
        NUMERIC,
        REGPROC,
        REGCLASS,
        REGTYPE,
        REGNAMESPACE,
        REGROLE,
        VOID,
    ),
    *(TIME, UUID, JSONB, INT2VECTOR, OIDVECTOR),
)
ELEMENT_OF = {
    1000: BOOL,
    1002: CHAR,
    1003: NAME,
    1005: INT2,
    1007: INT4,
    1009: TEXT,
    1015: VARCHAR,
    1016: INT8,
    1021: FLOAT4,
    1022: FLOAT8,
    1028: OID,
    1115: TIMESTAMP,
    1182: DATE,
    1185: TIMESTAMPTZ,
    1231: NUMERIC,
}
_ARRAYS = {element.oid: PgType(oid, f"_{element.name}") for oid, element in ELEMENT_OF.items()}
BY_NAME = {kind.name: kind for kind in (*_SCALARS, *_ARRAYS.values())}
BY_OID = {kind.oid: kind for kind in BY_NAME.values()}
REG_TYPES = frozenset({REGPROC, REGCLASS, REGTYPE, REGNAMESPACE, REGROLE})
INTEGERS, FLOATS = frozenset({INT2, INT4, INT8, OID, XID}), frozenset({FLOAT4, FLOAT8})
NUMBERS = INTEGERS | FLOATS | {NUMERIC}
MOMENTS = frozenset({DATE, TIMESTAMP, TIMESTAMPTZ})
TEXTS = frozenset({TEXT, VARCHAR, BPCHAR, NAME, CHAR, UNKNOWN})

# Names of types as statements write them, beside those that the catalogue knows.
_ALIASES = {
    "boolean": BOOL,
    "smallint": INT2,
    "int": INT4,
    "integer": INT4,
    "bigint": INT8,
    "real": FLOAT4,
    "double precision": FLOAT8,
    "double": FLOAT8,
    "float": FLOAT8,
    "decimal": NUMERIC,
    "character varying": VARCHAR,
    "character": BPCHAR,
    '"char"': CHAR,
    "timestamp without time zone": TIMESTAMP,
    "timestamp with time zone": TIMESTAMPTZ,
}
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


def array_of(element: PgType) -> PgType:
    """The type of arrays of a type; of text where there is none of its own."""
    return _ARRAYS.get(element.oid, _ARRAYS[TEXT.oid])


def named(name: str) -> PgType | None:
    """A type by any of its names: int4, integer, integer[], _int4, varchar(20)."""
    plain = name.strip().lower().partition("(")[0].strip() if not name.startswith('"') else name
    if plain.endswith("[]"):
        element = named(plain[:-2])
        return None if element is None else array_of(element)
    return _ALIASES.get(plain) or BY_NAME.get(plain.strip('"'))


def encode(value: Any, kind: PgType, format_code: int) -> bytes | None:
    """A value as it travels. A value that does not fit the type it was announced with travels as that type's
    NULL in binary, and as its text otherwise.
    """
    if value is None:
        return None
    if kind.oid in ELEMENT_OF:
        items = _items(value)
        return _binary_array(items, ELEMENT_OF[kind.oid]) if format_code else _text_array(items, kind)
    if not format_code:
        return text_of(value, kind).encode()
    try:
        return _BINARY.get(kind, _binary_text)(value)
    except (TypeError, ValueError, struct.error, OverflowError, InvalidOperation):
        return None


def text_of(value: Any, kind: PgType) -> str:
    """A value as PostgreSQL writes it."""
    if kind is BOOL:
        return "t" if value and value != "f" else "f"
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


def _items(value: Any) -> list[Any]:
    """Arrays come as lists, or as JSON text from the catalogue."""
    if isinstance(value, (list, tuple)):
        return list(value)
    try:
        found = json.loads(value)
    except (TypeError, ValueError):
        return [value]
    return found if isinstance(found, list) else [found]


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


def _truth(value: Any) -> bool:
    return value not in (0, "f", "false", "")


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
    BOOL: _packed("!?", _truth),
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
