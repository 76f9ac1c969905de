"""Parameters of prepared statements, as they come in: as text or in binary."""

from __future__ import annotations

import math
import re
import struct
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from hdpview.errors import QueryError
from hdpview.explore.postgres import types as t
from hdpview.explore.postgres.types import PgType

# An item of an array as text, in quotes or plain, with the comma behind it.
_ITEM = re.compile(r'(?:"((?:[^"\\]|\\.)*)"|([^",]*))(?:,|$)', re.DOTALL)


def decode(data: bytes | None, kind: PgType, format_code: int) -> Any:
    """A parameter as a Python value: text, number, truth, date, moment or a list of these."""
    if data is None:
        return None
    try:
        if kind.oid in t.ELEMENT_OF:
            element = t.ELEMENT_OF[kind.oid]
            if format_code:
                return _array_from_binary(data)
            return [
                None if item is None else _from_text(item, element) for item in array_items(data.decode())
            ]
        return _from_binary(data, kind) if format_code else _from_text(data.decode(), kind)
    except (ValueError, struct.error, IndexError, OverflowError, InvalidOperation):
        raise QueryError(f"A parameter is not a valid {t.SQL_NAMES.get(kind.name, kind.name)}.") from None


def _from_text(text: str, kind: PgType) -> Any:
    if "\x00" in text:
        raise ValueError
    if kind in t.INTEGERS:
        return int(text)
    if kind in t.FLOATS or kind is t.NUMERIC:
        number = float(text)
        return (
            int(text) if kind is t.NUMERIC and number.is_integer() and text.lstrip("-").isdigit() else number
        )
    if kind is t.BOOL:
        truths = {"t": True, "true": True, "1": True, "on": True, "y": True, "yes": True}
        lies = {"f": False, "false": False, "0": False, "off": False, "n": False, "no": False}
        return {**truths, **lies}.get(text.strip().lower(), text)
    if kind is t.DATE:
        return date.fromisoformat(text.strip()[:10])
    if kind in t.MOMENTS:
        # JDBC sends days as 2024-01-31 +00.
        return t.moment_of(datetime.fromisoformat(re.sub(r"\s+[+-]\d\d$", "", text.strip())))
    return text


def _from_binary(data: bytes, kind: PgType) -> Any:
    if kind is t.BOOL:
        return struct.unpack("!?", data)[0]
    if kind in (t.OID, t.XID) or kind in t.REG_TYPES:
        return struct.unpack("!I", data)[0]
    if kind in t.INTEGERS:
        return int.from_bytes(data, "big", signed=True)
    if kind in t.FLOATS:
        return struct.unpack("!f" if kind is t.FLOAT4 else "!d", data)[0]
    if kind is t.DATE:
        return (t.EPOCH + timedelta(days=struct.unpack("!i", data)[0])).date()
    if kind in t.MOMENTS:
        return t.EPOCH + timedelta(microseconds=struct.unpack("!q", data)[0])
    if kind is t.NUMERIC:
        return _numeric_from_binary(data)
    return _from_text(data.decode(), t.TEXT)


def _numeric_from_binary(data: bytes) -> float | int:
    n, weight, sign, _ = struct.unpack_from("!hhHh", data)
    if sign not in (0, 0x4000):
        return math.nan if sign == 0xC000 else math.inf if sign == 0xD000 else -math.inf
    groups = struct.unpack_from(f"!{n}H", data, 8)
    total = sum((Decimal(group).scaleb(4 * (weight - i)) for i, group in enumerate(groups)), Decimal(0)) * (
        -1 if sign else 1
    )
    return int(total) if total == total.to_integral_value() else float(total)


def _array_from_binary(data: bytes) -> list[Any]:
    dimensions, _, oid = struct.unpack_from("!iii", data)
    if dimensions == 0:
        return []
    length, _ = struct.unpack_from("!ii", data, 12)
    if dimensions != 1 or not 0 <= length <= len(data):
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
