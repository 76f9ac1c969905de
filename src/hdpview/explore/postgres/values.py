"""Values on their way to clients and back, as text and in binary."""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Any

from hdpview.errors import QueryError
from hdpview.explore.postgres import types as t
from hdpview.explore.postgres.types import PgType

TEXT_FORMAT = 0
BINARY_FORMAT = 1
_EPOCH = datetime(2000, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
# An item of an array as text, in quotes or plain, with the comma behind it.
_ITEM = re.compile(r'(?:"((?:[^"\\]|\\.)*)"|([^",]*))(?:,|$)', re.DOTALL)
_TRUTHS = dict.fromkeys(("t", "true", "1", "on", "y", "yes"), True)
_TRUTHS |= dict.fromkeys(("f", "false", "0", "off", "n", "no"), False)
_NULL = -1  # the length of a missing item of an array in binary


def _moment(value: Any) -> datetime:
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return value.replace(tzinfo=None) if value.tzinfo is None else value.astimezone().replace(tzinfo=None)
    return datetime(value.year, value.month, value.day)


# Types of one size: how a value is packed, and its number to pack and back.
_FIXED: dict[PgType, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    t.BOOL: ("!?", bool, bool),
    t.INT2: ("!h", int, int),
    t.INT4: ("!i", int, int),
    t.INT8: ("!q", int, int),
    t.FLOAT4: ("!f", float, float),
    t.FLOAT8: ("!d", float, float),
    **dict.fromkeys((t.OID, t.XID, *t.REG_TYPES), ("!I", int, int)),
    t.DATE: (
        "!i",
        lambda value: (_moment(value) - _EPOCH).days,
        lambda days: (_EPOCH + timedelta(days=days)).date(),
    ),
    **dict.fromkeys(
        (t.TIMESTAMP, t.TIMESTAMPTZ),
        (
            "!q",
            lambda value: (_moment(value) - _EPOCH) // _MICROSECOND,
            lambda microseconds: _EPOCH + timedelta(microseconds=microseconds),
        ),
    ),
}


def encode(value: Any, kind: PgType, format_code: int) -> bytes | None:
    """A value as it is sent. In binary, a value that does not fit the announced type is NULL."""
    if value is None:
        return None
    if kind in t.ELEMENT_OF:
        pack = _binary_array if format_code == BINARY_FORMAT else _text_array
        return pack(value, t.ELEMENT_OF[kind])
    if format_code == TEXT_FORMAT:
        return _text_of(value, kind).encode()
    try:
        return _binary_of(value, kind)
    except (TypeError, ValueError, struct.error, OverflowError):
        return None


def _text_of(value: Any, kind: PgType) -> str:
    """A value in PostgreSQL's text format."""
    if isinstance(value, bool):
        return str(value).lower()[: 1 if kind == t.BOOL else None]
    if isinstance(value, float):
        if not math.isfinite(value):
            return json.dumps(value)  # NaN, Infinity, -Infinity
        is_whole = kind in t.INTEGERS and value.is_integer()
        return str(int(value)) if is_whole else str(value).removesuffix(".0")
    if isinstance(value, date) and kind in t.MOMENTS:
        moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
        if kind == t.DATE:
            return moment.date().isoformat()
        return moment.isoformat(" ") + ("+00" if kind == t.TIMESTAMPTZ else "")
    return str(value)


def _text_array(items: Sequence[Any], element: PgType) -> bytes:
    parts = ["NULL" if item is None else _quoted_item(_text_of(item, element)) for item in items]
    return ("{" + ",".join(parts) + "}").encode()


def _quoted_item(text: str) -> str:
    plain = text and text.upper() != "NULL" and not any(c in '{},"\\ ' or c.isspace() for c in text)
    return text if plain else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _binary_of(value: Any, kind: PgType) -> bytes:
    if kind in _FIXED:
        layout, number_of, _ = _FIXED[kind]
        return struct.pack(layout, number_of(value))
    return (b"\x01" if kind == t.JSONB else b"") + _text_of(value, t.TEXT).encode()


def _binary_array(items: Sequence[Any], element: PgType) -> bytes:
    encoded = [encode(item, element, BINARY_FORMAT) for item in items]
    head = (1, None in encoded, element.oid, len(encoded), 1) if encoded else (0, 0, element.oid)
    return struct.pack(f"!{len(head)}i", *head) + b"".join(map(with_length, encoded))


def with_length(content: bytes | None) -> bytes:
    """A value in binary with its length in front."""
    return struct.pack("!i", _NULL) if content is None else struct.pack("!i", len(content)) + content


def decode(data: bytes | None, kind: PgType, format_code: int) -> Any:
    """A parameter as a Python value: text, number, truth value, date, timestamp or a list of these."""
    if data is None:
        return None
    try:
        if kind not in t.ELEMENT_OF:
            return _from_binary(data, kind) if format_code else _from_text(data.decode(), kind)
        if format_code == BINARY_FORMAT:
            return _array_from_binary(data)
        element = t.ELEMENT_OF[kind]
        return [None if item is None else _from_text(item, element) for item in array_items(data.decode())]
    except (ValueError, struct.error, IndexError, OverflowError):
        raise QueryError(f"A parameter is not a valid {kind.name}.") from None


def _from_text(text: str, kind: PgType) -> Any:
    if "\x00" in text:
        raise ValueError
    plain = text.strip()
    if kind in t.INTEGERS or (kind == t.NUMERIC and plain.lstrip("-").isdecimal()):
        return int(plain)
    if kind in (t.FLOAT4, t.FLOAT8, t.NUMERIC):
        return float(plain)
    if kind == t.BOOL:
        return _TRUTHS.get(plain.lower(), text)
    if kind == t.DATE:
        return date.fromisoformat(plain[:10])
    if kind in t.MOMENTS:
        # JDBC sends days as 2024-01-31 +00.
        return _moment(re.sub(r"\s+[+-]\d\d$", "", plain))
    return text


def _from_binary(data: bytes, kind: PgType) -> Any:
    if kind in _FIXED:
        layout, _, value_of = _FIXED[kind]
        return value_of(*struct.unpack(layout, data))
    if kind == t.NUMERIC:
        raise ValueError  # no parameter is announced as one, so clients send those in text
    return _from_text(data.decode(), t.TEXT)


def _array_from_binary(data: bytes) -> list[Any]:
    n_dimensions, _, oid = struct.unpack_from("!iii", data)
    if n_dimensions == 0:
        return []
    length, _ = struct.unpack_from("!ii", data, 12)
    if n_dimensions != 1 or not 0 <= length <= len(data):
        raise ValueError
    element, at, items = t.BY_OID.get(oid, t.TEXT), 20, []
    for _ in range(length):
        (size,) = struct.unpack_from("!i", data, at)
        at += 4
        items.append(None if size < 0 else _from_binary(data[at : at + size], element))
        at += max(size, 0)
    return items


def array_items(text: str) -> list[str | None]:
    """The items of a one-dimensional array as text: {a,"b c",NULL}."""
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError
    items: list[str | None] = []
    at, end = 1, len(text) - 1
    while at < end:
        item = _ITEM.match(text, at, end)
        if item is None:
            raise ValueError
        quoted, plain = item[1], item[2]
        if quoted is not None:
            items.append(re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL))
        else:
            items.append(None if plain.strip().upper() == "NULL" else plain.strip())
        at = item.end()
    return items
