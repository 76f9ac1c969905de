"""Rows as COPY sends them: text, CSV or binary."""

from __future__ import annotations

import csv
import io
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from hdpview.explore.postgres import types as t
from hdpview.explore.postgres.statements import Copy
from hdpview.explore.postgres.types import OutputColumn

_SIGNATURE = b"PGCOPY\n\xff\r\n\x00" + struct.pack("!ii", 0, 0)
_ESCAPES = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def pieces(copy: Copy, columns: Sequence[OutputColumn], rows: Sequence[Sequence[Any]]) -> Iterator[bytes]:
    """The content, a row at a time."""
    kinds = [column.kind for column in columns]
    if copy.format == "binary":
        head = _SIGNATURE  # in one message with the first row, as clients expect
        for row in rows:
            values = [t.encode(value, kind, t.BINARY_FORMAT) for value, kind in zip(row, kinds, strict=True)]
            yield (
                head
                + struct.pack("!h", len(values))
                + b"".join(
                    struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value
                    for value in values
                )
            )
            head = b""
        yield head + struct.pack("!h", -1)
        return
    names = [column.name for column in columns]
    if copy.header:
        yield _line(names, copy)
    for row in rows:
        encoded = [t.encode(value, kind, t.TEXT_FORMAT) for value, kind in zip(row, kinds, strict=True)]
        yield _line([None if value is None else value.decode() for value in encoded], copy)


def _line(values: Sequence[str | None], copy: Copy) -> bytes:
    if copy.format == "csv":
        target = io.StringIO()
        csv.writer(target, delimiter=copy.delimiter, lineterminator="\n").writerow(
            copy.null if value is None else value for value in values
        )
        return target.getvalue().encode()
    shown = [copy.null if value is None else _escaped(value, copy.delimiter) for value in values]
    return (copy.delimiter.join(shown) + "\n").encode()


def _escaped(text: str, delimiter: str) -> str:
    return "".join(_ESCAPES.get(c, f"\\{c}" if c == delimiter else c) for c in text)
