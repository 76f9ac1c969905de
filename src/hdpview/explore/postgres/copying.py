"""Rows as COPY sends them: text, CSV or binary."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hdpview.explore.postgres.sqlstates import PgError, SqlState
from hdpview.explore.postgres.statements import NAME
from hdpview.explore.postgres.types import OutputColumn
from hdpview.explore.postgres.values import BINARY_FORMAT, TEXT_FORMAT, encode, with_length

_SIGNATURE = b"PGCOPY\n\xff\r\n\x00" + struct.pack("!ii", 0, 0)
_END = struct.pack("!h", -1)
_ESCAPES = {"\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
_OPTIONS = re.compile(
    r"\b(?:format|csv|binary|text|header|true|on|false|off|(?:delimiter|null)\s+(?:as\s+)?'[^']*'"
    r"|encoding\s+'utf-?8')(?!\w)",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Copy:
    """COPY … TO STDOUT. question: the SELECT whose rows are copied."""

    question: str
    format: str
    has_header: bool
    delimiter: str
    null: str

    @classmethod
    def of(cls, parts: re.Match[str]) -> Copy:
        """Parse a COPY statement from its parts."""
        source, options = parts["source"].strip(), parts["options"]
        columns = re.fullmatch(rf"((?:{NAME}\s*\.\s*)*{NAME})\s*\((.*)\)", source, re.DOTALL)
        if source.startswith("("):
            question = source[1:-1]
        else:
            question = f"SELECT {columns[2]} FROM {columns[1]}" if columns else f"SELECT * FROM {source}"

        def option(pattern: str, usual: str) -> str:
            match = re.search(pattern, options, re.IGNORECASE)
            return match[1] if match else usual

        if re.search(r"\w", _OPTIONS.sub("", options)):
            raise PgError(SqlState.FEATURE_NOT_SUPPORTED, "COPY takes FORMAT, HEADER, DELIMITER and NULL.")
        kind = option(r"\b(csv|binary|text)\b", "text").lower()
        header = option(r"\b(header)\b(?!\s*(?:false|off|0))", "")
        delimiter = option(r"delimiter\s+(?:as\s+)?'(.)'", "," if kind == "csv" else "\t")
        null = option(r"null\s+(?:as\s+)?'([^']*)'", "" if kind == "csv" else "\\N")
        return cls(question, kind, bool(header), delimiter, null)

    @property
    def format_code(self) -> int:
        return BINARY_FORMAT if self.format == "binary" else TEXT_FORMAT

    def pieces(self, columns: Sequence[OutputColumn], rows: Sequence[Sequence[Any]]) -> Iterator[bytes]:
        """The content, row by row."""
        # In one message with the first row, as clients expect.
        head = _SIGNATURE if self.format == "binary" else b""
        if self.has_header and self.format != "binary":
            yield self._line([column.name.encode() for column in columns])
        for row in rows:
            values = [
                encode(value, each.kind, self.format_code) for value, each in zip(row, columns, strict=True)
            ]
            if self.format == "binary":
                yield head + struct.pack("!h", len(values)) + b"".join(map(with_length, values))
            else:
                yield self._line(values)
            head = b""
        if self.format == "binary":
            yield head + _END

    def _line(self, values: Sequence[bytes | None]) -> bytes:
        texts = [None if value is None else value.decode() for value in values]
        written = self._quoted if self.format == "csv" else self._escaped
        fields = [self.null if text is None else written(text) for text in texts]
        return (self.delimiter.join(fields) + "\n").encode()

    def _quoted(self, text: str) -> str:
        """A CSV field. Quotes tell a text from NULL, such as "" from an empty field."""
        if text != self.null and not any(sign in text for sign in (self.delimiter, '"', "\n", "\r")):
            return text
        return '"' + text.replace('"', '""') + '"'

    def _escaped(self, text: str) -> str:
        escapes = {self.delimiter: f"\\{self.delimiter}", **_ESCAPES}
        return "".join(escapes.get(sign, sign) for sign in text)
