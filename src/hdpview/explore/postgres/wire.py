"""Messages to and from a socket. pygwire encodes and decodes them; this module limits their length and
refuses broken ones.

Frames are read whole before they are decoded: the length is checked before the first byte is awaited, and
the worst outcome of any message is a refusal.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import Iterable, Sequence

from pygwire import FrontendMessageDecoder, messages
from pygwire.constants import ConnectionPhase
from pygwire.messages import PGMessage

from hdpview.explore.postgres.sqlstates import PgError, SqlState
from hdpview.explore.postgres.types import OutputColumn
from hdpview.explore.postgres.values import BINARY_FORMAT, TEXT_FORMAT, encode

MOST_BYTES = 1_000_000  # of one message
_MOST_BYTES_BEFORE_LOGIN = 10_000
_FLUSH_BYTES = 65_536

IN_STARTUP = ConnectionPhase.STARTUP
IN_FIRST_SASL = ConnectionPhase.AUTHENTICATING_SASL_INITIAL
IN_SASL = ConnectionPhase.AUTHENTICATING_SASL_CONTINUE
IN_SESSION = ConnectionPhase.READY


class Wire:
    """A socket as messages.

    Messages are buffered until `flush`, because each system call yields to other threads, which may take
    longer than everything else.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._waiting = bytearray()
        self.phase = IN_STARTUP

    async def receive(self) -> PGMessage | None:
        """The next message; None if the client is gone. PgError if it is malformed."""
        if self.phase is not IN_SESSION:  # in a session, flushing waits for Sync or Flush
            self._write()
        has_kind = self.phase is not IN_STARTUP
        most = MOST_BYTES if self.phase is IN_SESSION else _MOST_BYTES_BEFORE_LOGIN
        try:
            head = await self._reader.readexactly(5 if has_kind else 4)
            (length,) = struct.unpack("!I", head[-4:])
            if not 4 <= length <= most:
                raise PgError(SqlState.PROTOCOL_VIOLATION, f"A message is at most {most:,} bytes long.")
            body = await self._reader.readexactly(length - 4)
        except (asyncio.IncompleteReadError, ConnectionError, OSError):
            return None
        decoder = FrontendMessageDecoder()
        decoder.phase = self.phase
        decoder.feed(head + body)
        try:
            return next(decoder)
        except Exception:  # for a broken message, the decoder may raise any exception
            raise PgError(SqlState.PROTOCOL_VIOLATION, "A message violates the protocol.") from None

    def send(self, *content: PGMessage) -> None:
        """Put messages into the buffer; `flush` waits until they are on their way."""
        for message in content:
            self._waiting += message.to_wire()

    def send_byte(self, byte: bytes) -> None:
        """The answer to a request for TLS or GSS, which is one byte."""
        self._writer.write(byte)

    async def flush(self) -> None:
        self._write()
        await self._writer.drain()

    def _write(self) -> None:
        if self._waiting:
            self._writer.write(bytes(self._waiting))
            self._waiting.clear()

    async def start_tls(self, context: ssl.SSLContext) -> None:
        await self._writer.start_tls(context)

    @property
    def has_more(self) -> bool:
        """True if unread bytes have arrived; before TLS there must be none."""
        return bool(getattr(self._reader, "_buffer", b""))

    async def close(self) -> None:
        """Send all buffered messages and end the connection."""
        try:
            self._write()
            await asyncio.wait_for(self._writer.drain(), 1.0)
            self._writer.close()
            await asyncio.wait_for(self._writer.wait_closed(), 1.0)
        except (TimeoutError, OSError):
            self._writer.transport.abort()

    def refuse(self, problem: PgError, severity: str = "ERROR") -> None:
        """Send an error; FATAL if the connection ends with it."""
        self.send(messages.ErrorResponse(_fields(severity, problem.code, str(problem), problem.hint)))

    def notice(self, text: str) -> None:
        """Send a notice."""
        self.send(messages.NoticeResponse(_fields("NOTICE", "00000", text, "")))

    def describe(self, columns: Sequence[OutputColumn], formats: Sequence[int]) -> None:
        """Send the description of rows."""
        self.send(
            messages.RowDescription(
                [
                    messages.FieldDescription(
                        name=column.name.replace("\x00", "")[:1_000],
                        table_oid=0,
                        column_attr=0,
                        type_oid=column.kind.oid,
                        type_size=column.kind.size,
                        type_modifier=-1,
                        format_code=format_code,
                    )
                    for column, format_code in zip(columns, formats, strict=True)
                ]
            )
        )

    async def send_rows(
        self, rows: Iterable[Sequence[object]], columns: Sequence[OutputColumn], formats: Sequence[int]
    ) -> int:
        """Send rows in batches. Returns their number."""
        n, kinds = 0, [column.kind for column in columns]
        for row in rows:
            values = [encode(*each) for each in zip(row, kinds, formats, strict=True)]
            self.send(messages.DataRow(values))
            n += 1
            if len(self._waiting) > _FLUSH_BYTES:
                await self.flush()
        return n


def result_formats(asked: Sequence[int], n_columns: int) -> list[int]:
    """The format of each column: one for all, or one each, or text."""
    if any(code not in (TEXT_FORMAT, BINARY_FORMAT) for code in asked):
        raise PgError(SqlState.PROTOCOL_VIOLATION, "Formats are 0 for text and 1 for binary.")
    if len(asked) <= 1:
        return list(asked or [TEXT_FORMAT]) * n_columns
    if len(asked) != n_columns:
        raise PgError(SqlState.PROTOCOL_VIOLATION, f"The result has {n_columns} columns, not {len(asked)}.")
    return list(asked)


def _fields(severity: str, code: str, text: str, hint: str) -> dict[str, str]:
    fields = {"S": severity, "V": severity, "C": code, "M": text.replace("\x00", "")}
    return {**fields, "H": hint.replace("\x00", "")} if hint else fields
