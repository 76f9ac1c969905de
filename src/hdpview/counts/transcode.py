"""Text files as clean UTF-8, so that the database skips no line.

CSV readers skip lines that are invalid UTF-8 or too long, and their rows would not be counted. This module
replaces invalid bytes and cuts long lines, each by a rule for that line alone.
"""

from __future__ import annotations

import codecs
import gzip
import secrets
from pathlib import Path
from typing import IO, Any

from hdpview.domain.text_format import TextFormat

LONGEST_LINE = 1_000_000  # characters
_CHUNK = 1 << 19  # bytes; less than the longest line, so that few chunks are processed line by line


def utf8_copy(file: Path, text: TextFormat, room: Path) -> Path | None:
    """A copy of a file as clean UTF-8 in a private folder; None if the file is clean already."""
    if text.is_utf8 and _is_clean(file):
        return None
    target = room / f"{secrets.token_hex(8)}.csv"
    decoder = codecs.getincrementaldecoder("utf-8-sig" if text.is_utf8 else text.encoding)("replace")
    cut = _LineCutter(text.quote)
    with _opened(file) as source, target.open("w", encoding="utf-8", errors="replace", newline="") as copy:
        while chunk := source.read(_CHUNK):
            copy.write(cut(decoder.decode(chunk)))
        copy.write(cut(decoder.decode(b"", final=True)))
    return target


def _opened(file: Path) -> IO[bytes]:
    opened: Any = gzip.open if file.name.lower().endswith(".gz") else open
    stream: IO[bytes] = opened(file, "rb")
    return stream


def _is_clean(file: Path) -> bool:
    """Whether a file is entirely UTF-8 and has no overlong line."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    length = 0
    try:
        with _opened(file) as source:
            while chunk := source.read(_CHUNK):
                decoder.decode(chunk)
                first_end, last_end = chunk.find(b"\n"), chunk.rfind(b"\n")
                if first_end < 0:
                    length += len(chunk)
                    first_end = 0
                elif length + first_end > LONGEST_LINE:
                    return False
                else:
                    length = len(chunk) - last_end - 1
                if length > LONGEST_LINE:
                    return False
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


class _LineCutter:
    """Keeps the first characters of each line, and closes a quotation that is cut."""

    def __init__(self, quote: str) -> None:
        self.quote = quote
        self.length = self.n_quotes = 0

    def __call__(self, text: str) -> str:
        if self.length + len(text) <= LONGEST_LINE:
            end = max(text.rfind("\n"), text.rfind("\r"))
            if end >= 0:
                self.length = self.n_quotes = 0
            self.length += len(text) - end - 1
            self.n_quotes += text.count(self.quote, end + 1) if self.quote else 0
            return text
        return self._cut(text)

    def _cut(self, text: str) -> str:
        kept = []
        for line in text.splitlines(keepends=True) if "\n" in text or "\r" in text else [text]:
            ends = line.endswith(("\n", "\r"))
            body = line.rstrip("\r\n") if ends else line
            part = body[: max(0, LONGEST_LINE - self.length)]
            self.n_quotes += part.count(self.quote) if self.quote else 0
            # A cut value is marked as unreadable, because it may equal the beginning of another.
            mark = "\ufffd" if self.length <= LONGEST_LINE < self.length + len(body) else ""
            self.length += len(body)
            is_open = ends and self.length > LONGEST_LINE and self.n_quotes % 2
            kept.append(part + mark + (self.quote if is_open else "") + line[len(body) :])
            if ends:
                self.length = self.n_quotes = 0
        return "".join(kept)
