"""One client from its first message to its last: login, then statements, simple or prepared."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from pygwire import messages
from pygwire.constants import TransactionStatus
from pygwire.messages import PGMessage

from hdpview.errors import HdpviewError
from hdpview.explore.postgres import login, statements, types, wire
from hdpview.explore.postgres.answerer import Description
from hdpview.explore.postgres.commands import ENDS, IDLE, Commands, Outcome
from hdpview.explore.postgres.copying import Copy
from hdpview.explore.postgres.login import ClosedError
from hdpview.explore.postgres.settings import AnswerOptions
from hdpview.explore.postgres.sqlstates import PgError, SqlState, as_pg_error
from hdpview.explore.postgres.statements import REPORTED, Statement, plain_name
from hdpview.explore.postgres.types import OutputColumn, PgType
from hdpview.explore.postgres.values import decode
from hdpview.explore.postgres.wire import Wire

if TYPE_CHECKING:
    from hdpview.explore.postgres.listener import PostgresServer

logger = logging.getLogger("hdpview.postgres")
LOGIN_SECONDS = 10.0
IDLE_SECONDS = 3_600.0
# Seconds from a question to its answer, including the wait for an idle child process, but not for its start.
ANSWER_SECONDS = 20.0
# Limits of one session, so that no client fills the memory.
_MOST_PREPARED = 1_000
_MOST_PORTALS = 100
_WITHOUT_NOTICES = ("warning", "error", "fatal", "panic")
_STATUS = {status.value: status for status in TransactionStatus}


@dataclass(frozen=True)
class _Prepared:
    statement: Statement
    description: Description | None
    parameters: tuple[PgType, ...]
    options: AnswerOptions


@dataclass
class _Portal:
    """A statement with its values, and its outcome once it is executed. SQL calls a declared one a cursor."""

    prepared: _Prepared
    values: Sequence[Any] = ()
    formats: Sequence[int] = ()
    is_cursor: bool = False
    outcome: Outcome | None = None


class Session:
    """A connection of one client."""

    def __init__(self, client: Wire, server: PostgresServer, pid: int) -> None:
        self._wire, self._server, self.pid = client, server, pid
        self.secret = secrets.token_bytes(4)
        self._commands: Commands
        self._prepared: dict[str, _Prepared] = {}
        self._portals: dict[str, _Portal] = {}
        self._work: asyncio.Future[Any] | None = None
        self._skipping = False

    def cancel(self, secret: bytes) -> None:
        """Cancel the current question if the secret matches."""
        if hmac.compare_digest(secret, self.secret) and self._work is not None:
            self._work.cancel()

    async def run(self) -> None:
        """Serve the client until it leaves."""
        try:
            await asyncio.wait_for(self._login(), LOGIN_SECONDS)
            while True:
                message = await asyncio.wait_for(self._wire.receive(), IDLE_SECONDS)
                if message is None:
                    break
                await self._handle(message)
        except ClosedError:
            pass
        except TimeoutError:
            text = "terminating connection due to idle timeout"
            self._wire.refuse(PgError(SqlState.IDLE_TIMEOUT, text), "FATAL")
        except PgError as problem:
            self._wire.refuse(problem, "FATAL")
        except (ConnectionError, OSError):
            pass
        finally:
            await self._wire.close()

    async def _login(self) -> None:
        user, settings = await login.admitted(self._wire, self._server)
        self._wire.send(messages.AuthenticationOk())
        self._commands = Commands(self._asked, user[:63], self.pid)
        self._commands.start_with(settings)
        for name, title in REPORTED.items():
            self._wire.send(messages.ParameterStatus(title, self._commands.settings[name]))
        self._wire.send(messages.BackendKeyData(self.pid, self.secret))
        self._wire.phase = wire.IN_SESSION
        await self._ready()

    async def _handle(self, message: PGMessage) -> None:
        if isinstance(message, messages.Terminate):
            raise ClosedError
        if isinstance(message, messages.Query):
            await self._guarded(self._simple(message.query_string))
            self._skipping = False
            await self._ready()
        elif isinstance(message, messages.Sync):
            self._skipping = False
            if self._commands.transaction == IDLE:
                self._portals = {name: each for name, each in self._portals.items() if each.is_cursor}
            await self._ready()
        elif isinstance(message, messages.Flush):
            await self._wire.flush()
        elif not self._skipping:
            self._skipping = not await self._guarded(self._extended(message))

    async def _ready(self) -> None:
        self._wire.send(messages.ReadyForQuery(_STATUS[self._commands.transaction]))
        await self._wire.flush()

    async def _guarded(self, work: Awaitable[None]) -> bool:
        """True if the work succeeded; otherwise the client has received the error."""
        try:
            await work
        except HdpviewError as problem:
            self._fail(as_pg_error(problem, self._server.table))
        except (ClosedError, ConnectionError, OSError):
            raise
        except Exception as problem:  # our own errors must not end the server, nor log the statement
            logger.error("session %d: %s while answering", self.pid, type(problem).__name__)
            text = "The server failed on this statement."
            self._fail(PgError(SqlState.INTERNAL_ERROR, text, "Please report it."))
        else:
            return True
        return False

    def _fail(self, problem: PgError) -> None:
        self._commands.fail()
        self._wire.refuse(problem)

    async def _asked(self, method: str, *arguments: Any) -> Any:
        """The answer of an `Answerer`, unless it takes too long or is cancelled."""
        await self._server.started()
        self._work = self._server.ask(method, *arguments)
        self._work.add_done_callback(lambda work: work.cancelled() or work.exception())
        try:
            return await asyncio.wait_for(asyncio.shield(self._work), ANSWER_SECONDS)
        except TimeoutError:
            raise PgError(
                SqlState.QUERY_CANCELED,
                "canceling statement due to statement timeout",
                f"Answers may take {ANSWER_SECONDS:g} seconds. Split the question into several.",
            ) from None
        except asyncio.CancelledError:
            if not self._work.cancelled():  # the server ends
                raise
            raise PgError(SqlState.QUERY_CANCELED, "canceling statement due to user request") from None
        finally:
            self._work = None

    def _log(self, statement: Statement) -> None:
        if self._server.log_statements:
            logger.info("session %d: %s", self.pid, statement.text)

    async def _simple(self, text: str) -> None:
        asked = statements.split(text)
        if not asked:
            self._wire.send(messages.EmptyQueryResponse())
        for statement in asked:
            self._log(statement)
            outcome = await self._done(statement)
            self._send_news(outcome)
            if outcome.columns is not None and outcome.copy is None:
                self._wire.describe(outcome.columns, wire.result_formats([], len(outcome.columns)))
            await self._send(outcome)

    async def _done(self, statement: Statement, values: Sequence[Any] = ()) -> Outcome:
        """Execute a statement; prepared statements and cursors belong to the session."""
        self._commands.refuse_after_failure(statement)
        if statement.word == "DECLARE":
            return await self._declare(statement.parts())
        if statement.word in _ON_SESSION:
            return _ON_SESSION[statement.word](self, statement.parts())
        outcome = await self._commands.execute(statement, values)
        if statement.word in (*ENDS, "DISCARD") and self._commands.transaction == IDLE:
            self._portals.clear()
        return outcome

    async def _send(self, outcome: Outcome, asked: Sequence[int] = (), most: int | None = None) -> None:
        """Send the next rows, up to a limit, in the requested formats, and the end after the last row."""
        if outcome.copy is not None:
            await self._send_copy(outcome.copy, outcome)
        elif outcome.columns is not None:
            formats = wire.result_formats(asked, len(outcome.columns))
            await self._wire.send_rows(outcome.take(most), outcome.columns, formats)
            if outcome.sent < len(outcome.rows):
                self._wire.send(messages.PortalSuspended())
                return
        self._wire.send(messages.CommandComplete(outcome.tag))

    def _send_news(self, outcome: Outcome) -> None:
        if self._commands.settings["client_min_messages"].lower() not in _WITHOUT_NOTICES:
            for text in outcome.notices:
                self._wire.notice(text)
        for name, value in outcome.reported.items():
            self._wire.send(messages.ParameterStatus(name, value))

    async def _send_copy(self, copy: Copy, outcome: Outcome) -> None:
        columns = outcome.columns or ()
        self._wire.send(messages.CopyOutResponse(copy.format_code, [copy.format_code] * len(columns)))
        for number, piece in enumerate(copy.pieces(columns, outcome.rows)):
            self._wire.send(messages.CopyData(piece))
            if number % 1_000 == 0:
                await self._wire.flush()
        self._wire.send(messages.CopyDone())

    async def _extended(self, message: PGMessage) -> None:
        if isinstance(message, messages.Parse):
            await self._parse(message)
        elif isinstance(message, messages.Bind):
            self._bind(message)
        elif isinstance(message, messages.Describe):
            self._describe(message)
        elif isinstance(message, messages.Execute):
            await self._execute(message)
        elif isinstance(message, messages.Close):
            (self._prepared if message.kind == "S" else self._portals).pop(message.name, None)
            self._wire.send(messages.CloseComplete())
        else:
            raise PgError(SqlState.FEATURE_NOT_SUPPORTED, "Functions are called with SELECT here.")

    async def _parse(self, message: messages.Parse) -> None:
        statement, name = statements.one(message.query), message.statement
        self._log(statement)
        if name and name in self._prepared:
            raise PgError(SqlState.DUPLICATE_STATEMENT, f'prepared statement "{name[:60]}" already exists')
        _check_number_of("prepared statements", self._prepared, _MOST_PREPARED)
        description = await self._commands.describe(statement)
        inferred = description.parameters if description is not None else ()
        parameters = _declared(message.param_types, inferred)
        self._prepared[name] = _Prepared(statement, description, parameters, self._commands.options)
        self._wire.send(messages.ParseComplete())

    def _bind(self, message: messages.Bind) -> None:
        prepared = self._statement(message.statement)
        given, needed = len(message.param_values), len(prepared.parameters)
        if given != needed:
            raise PgError(
                SqlState.PROTOCOL_VIOLATION,
                f"bind message supplies {given} parameters, but prepared statement requires {needed}",
            )
        formats = wire.result_formats(message.param_formats, needed)
        values = map(decode, message.param_values, prepared.parameters, formats)
        _check_number_of("portals", self._portals, _MOST_PORTALS)
        self._portals[message.portal] = _Portal(prepared, list(values), message.result_formats)
        self._wire.send(messages.BindComplete())

    def _describe(self, message: messages.Describe) -> None:
        formats: Sequence[int] = ()
        if message.kind == "S":
            prepared = self._statement(message.name)
            self._wire.send(messages.ParameterDescription([kind.oid for kind in prepared.parameters]))
            columns = self._columns(prepared)
        else:
            portal = self._portal(message.name)
            formats = portal.formats
            columns = portal.outcome.columns if portal.outcome else self._columns(portal.prepared)
        if columns is None:
            self._wire.send(messages.NoData())
        else:
            self._wire.describe(columns, wire.result_formats(formats, len(columns)))

    def _columns(self, prepared: _Prepared) -> Sequence[OutputColumn] | None:
        if prepared.description is not None:
            return prepared.description.columns
        statement = prepared.statement
        return self._cursor(statement.parts()).columns if statement.word == "FETCH" else None

    async def _execute(self, message: messages.Execute) -> None:
        portal = self._portal(message.portal)
        statement = portal.prepared.statement
        if not statement.word:
            self._wire.send(messages.EmptyQueryResponse())
            return
        if portal.outcome is None:
            portal.outcome = await self._executed(portal)
            self._send_news(portal.outcome)
        await self._send(portal.outcome, portal.formats, message.max_rows or None)

    async def _executed(self, portal: _Portal) -> Outcome:
        prepared = portal.prepared
        if prepared.description and prepared.options.intervals != self._commands.options.intervals:
            raise PgError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "cached plan must not change result type",
                "hdpview.intervals changed after this statement was prepared. Prepare it again (DEALLOCATE "
                "ALL), or set it right after connecting.",
            )
        outcome = await self._done(prepared.statement, portal.values)
        # Values travel in the types that were announced.
        outcome.columns = self._columns(prepared) or outcome.columns
        return outcome

    async def _declare(self, parts: re.Match[str]) -> Outcome:
        _check_number_of("cursors", self._portals, _MOST_PORTALS)
        statement = statements.one(parts["question"])
        outcome = await self._commands.execute(statement)
        prepared = _Prepared(statement, None, (), self._commands.options)
        self._portals[plain_name(parts["name"])] = _Portal(prepared, is_cursor=True, outcome=outcome)
        return Outcome("DECLARE CURSOR", notices=outcome.notices)

    def _fetch(self, parts: re.Match[str]) -> Outcome:
        cursor = self._cursor(parts)
        count = (parts["count"] or "1").upper().split()[-1]
        rows = cursor.take(None if count == "ALL" else int(count) if count.isdecimal() else 1)
        return Outcome(f"FETCH {len(rows)}", cursor.columns, rows)

    def _cursor(self, parts: re.Match[str]) -> Outcome:
        return self._portal(plain_name(parts["name"])).outcome or Outcome("")

    def _close(self, parts: re.Match[str]) -> Outcome:
        name = plain_name(parts["name"])
        if name == "all":
            self._portals.clear()
        else:
            self._portal(name)
            del self._portals[name]
        return Outcome("CLOSE CURSOR")

    def _deallocate(self, parts: re.Match[str]) -> Outcome:
        name = plain_name(parts["name"])
        if name == "all":
            self._prepared.clear()
            return Outcome("DEALLOCATE ALL")
        self._statement(name)
        del self._prepared[name]
        return Outcome("DEALLOCATE")

    def _statement(self, name: str) -> _Prepared:
        if name not in self._prepared:
            raise PgError(SqlState.INVALID_STATEMENT, f'prepared statement "{name[:60]}" does not exist')
        return self._prepared[name]

    def _portal(self, name: str) -> _Portal:
        if name not in self._portals:
            raise PgError(SqlState.INVALID_CURSOR, f'cursor "{name[:60]}" does not exist')
        return self._portals[name]


_ON_SESSION: dict[str, Callable[[Session, re.Match[str]], Outcome]] = {
    "FETCH": Session._fetch,
    "CLOSE": Session._close,
    "DEALLOCATE": Session._deallocate,
}


def _check_number_of(things: str, held: Mapping[str, object], most: int) -> None:
    if len(held) >= most:
        raise PgError(SqlState.TOO_COMPLEX, f"A session can have at most {most:,} {things}.", "Close some.")


def _declared(oids: Sequence[int], inferred: Sequence[PgType]) -> tuple[PgType, ...]:
    """Types of parameters: declared by the client, else inferred from the statement."""
    known = [None if oid == types.UNKNOWN.oid else types.BY_OID.get(oid) for oid in oids]
    return tuple(declared or guess or types.TEXT for declared, guess in zip_longest(known, inferred))
