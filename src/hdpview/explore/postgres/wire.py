"""Messages to and from a socket. pygwire encodes and decodes them; this module limits their length and time,
and refuses broken ones: the worst outcome of any message is a refusal.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

from pygwire import FrontendMessageDecoder, messages
from pygwire.constants import ConnectionPhase
from pygwire.messages import PGMessage

from hdpview.explore.postgres.sqlstates import PgError, SqlState
from hdpview.explore.postgres.types import OutputColumn
from hdpview.explore.postgres.values import BINARY_FORMAT, TEXT_FORMAT, encode

MOST_BYTES = 1_000_000  # of one message
_MOST_BYTES_BEFORE_LOGIN = 10_000
_BUFFER_BYTES = 65_536
_CLOSE_SECONDS = 1.0


class ClosedError(Exception):
    """The client closed the connection."""


class Wire:
    """A socket as messages.

    Messages are buffered until `flush`, because each system call yields to other threads, which may take
    longer than everything else. until: the deadline of the client's next messages (`time.monotonic`).
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._arrived, self._waiting = bytearray(), bytearray()
        self.phase = ConnectionPhase.STARTUP
        self.until = 0.0

    def receive(self) -> PGMessage:
        """The next message. PgError if it is malformed."""
        is_in_session = self.phase is ConnectionPhase.READY
        if not is_in_session:  # in a session, flushing waits for Sync or Flush
            self.flush()
        head = self._read(4 if self.phase is ConnectionPhase.STARTUP else 5)
        (length,) = struct.unpack("!I", head[-4:])
        most = MOST_BYTES if is_in_session else _MOST_BYTES_BEFORE_LOGIN
        if not 4 <= length <= most:  # checked before the first byte is awaited
            raise PgError(SqlState.PROTOCOL_VIOLATION, f"A message is at most {most:,} bytes long.")
        decoder = FrontendMessageDecoder()
        decoder.phase = self.phase
        decoder.feed(head + self._read(length - 4))
        try:
            return next(decoder)
        except Exception:  # for a broken message, the decoder may raise any exception
            raise PgError(SqlState.PROTOCOL_VIOLATION, "A message violates the protocol.") from None

    def _read(self, n: int) -> bytes:
        while len(self._arrived) < n:
            self._socket.settimeout(max(0.001, self.until - time.monotonic()))
            part = self._socket.recv(_BUFFER_BYTES)
            if not part:
                raise ClosedError
            self._arrived += part
        content = bytes(self._arrived[:n])
        del self._arrived[:n]
        return content

    def send(self, *content: PGMessage) -> None:
        """Put messages into the buffer."""
        for message in content:
            self._waiting += message.to_wire()

    def flush(self) -> None:
        """Send all buffered messages."""
        if self._waiting:
            self._socket.sendall(self._waiting)
            self._waiting.clear()

    def start_tls(self, context: ssl.SSLContext) -> None:
        """Encrypt the connection, as the client has asked."""
        if self._arrived:  # sent unencrypted by somebody in between
            raise PgError(SqlState.PROTOCOL_VIOLATION, "received unencrypted data after SSL request")
        self._socket.sendall(b"S")
        self._socket = context.wrap_socket(self._socket, server_side=True)

    def refuse_encryption(self) -> None:
        """Answer a request for TLS or GSS by a no, which is one byte."""
        self._socket.sendall(b"N")

    def abort(self) -> None:
        """End the connection from another thread, which then finds it closed."""
        with suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Send all buffered messages and end the connection."""
        with suppress(OSError, ValueError):
            self._socket.settimeout(_CLOSE_SECONDS)
            self.flush()
            if isinstance(self._socket, ssl.SSLSocket):
                self._socket.unwrap()
        self._socket.close()

    def refuse(self, problem: PgError, severity: str = "ERROR") -> None:
        """Send an error; FATAL if the connection ends with it."""
        self.send(messages.ErrorResponse(_fields(severity, problem.code, str(problem), problem.hint)))

    def notice(self, text: str) -> None:
        """Send a notice."""
        self.send(messages.NoticeResponse(_fields("NOTICE", "00000", text)))

    def describe(self, columns: Sequence[OutputColumn] | None, formats: Sequence[int] = ()) -> None:
        """Send the description of rows, if there are any."""
        if columns is None:
            self.send(messages.NoData())
            return
        fields = [
            messages.FieldDescription(
                name=column.name.replace("\x00", "")[:1_000],
                table_oid=0,
                column_attr=0,
                type_oid=column.kind.oid,
                type_size=column.kind.size,
                type_modifier=-1,
                format_code=format_code,
            )
            for column, format_code in zip(columns, result_formats(formats, len(columns)), strict=True)
        ]
        self.send(messages.RowDescription(fields))

    def send_rows(
        self, rows: Iterable[Sequence[object]], columns: Sequence[OutputColumn], formats: Sequence[int]
    ) -> None:
        """Send rows in batches."""
        kinds, formats = [column.kind for column in columns], result_formats(formats, len(columns))
        for row in rows:
            self.send(messages.DataRow([encode(*each) for each in zip(row, kinds, formats, strict=True)]))
            if len(self._waiting) > _BUFFER_BYTES:
                self.flush()

    def send_copy(self, pieces: Iterable[bytes], format_code: int, n_columns: int) -> None:
        """Send the content of COPY … TO STDOUT."""
        self.send(messages.CopyOutResponse(format_code, [format_code] * n_columns))
        for piece in pieces:
            self.send(messages.CopyData(piece))
            if len(self._waiting) > _BUFFER_BYTES:
                self.flush()
        self.send(messages.CopyDone())


def result_formats(asked: Sequence[int], n_columns: int) -> list[int]:
    """The format of each column: one for all, or one each, or text."""
    if any(code not in (TEXT_FORMAT, BINARY_FORMAT) for code in asked):
        raise PgError(SqlState.PROTOCOL_VIOLATION, "Formats are 0 for text and 1 for binary.")
    if len(asked) <= 1:
        return list(asked or [TEXT_FORMAT]) * n_columns
    if len(asked) != n_columns:
        raise PgError(SqlState.PROTOCOL_VIOLATION, f"The result has {n_columns} columns, not {len(asked)}.")
    return list(asked)


def _fields(severity: str, code: str, text: str, hint: str = "") -> dict[str, str]:
    fields = {"S": severity, "V": severity, "C": code, "M": text, "H": hint}
    return {key: value.replace("\x00", "") for key, value in fields.items() if value}
