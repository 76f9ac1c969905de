"""One client from its first message to its last: login, then statements, simple or prepared."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pygwire import messages
from pygwire.constants import TransactionStatus
from pygwire.messages import PGMessage

from hdpview.errors import HdpviewError
from hdpview.explore.postgres import copying, login, parameter_values, statements, types, wire
from hdpview.explore.postgres.answerer import AnswerOptions, Description
from hdpview.explore.postgres.commands import REPORTED, Commands, Outcome
from hdpview.explore.postgres.login import ClosedError, LoginServer
from hdpview.explore.postgres.sqlstates import PgError, SqlState, as_pg_error
from hdpview.explore.postgres.statements import Statement
from hdpview.explore.postgres.types import OutputColumn, PgType
from hdpview.explore.postgres.wire import Wire

logger = logging.getLogger("hdpview.postgres")
LOGIN_SECONDS = 10.0
IDLE_SECONDS = 3_600.0
# Seconds from a question to its answer, waiting for a child process included.
ANSWER_SECONDS = 20.0
_MOST_PREPARED = 1_000
_WITHOUT_NOTICES = ("warning", "error", "fatal", "panic")
_STATUS = {status.value: status for status in TransactionStatus}


class Backend(LoginServer, Protocol):
    """What sessions share."""

    table: str
    log_statements: bool

    def ask(self, method: str, *arguments: Any) -> asyncio.Future[Any]:
        """Call a method of an `Answerer` in a child process, when its turn comes."""


@dataclass(frozen=True)
class _Prepared:
    statement: Statement
    description: Description | None
    parameters: tuple[PgType, ...]
    options: AnswerOptions


@dataclass
class _Portal:
    prepared: _Prepared
    values: Sequence[Any]
    formats: Sequence[int]
    outcome: Outcome | None = None
    sent: int = 0


class Session:
    """A connection of one client."""

    def __init__(self, client: Wire, backend: Backend, pid: int) -> None:
        self._wire, self._backend, self.pid = client, backend, pid
        self.secret = secrets.token_bytes(4)
        self._commands: Commands
        self._prepared: dict[str, _Prepared] = {}
        self._portals: dict[str, _Portal] = {}
        self._work: asyncio.Future[Any] | None = None
        self._skipping = False

    def cancel(self, secret: bytes) -> None:
        """Stop waiting for the answer under way, if the secret is right."""
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
            self._wire.refuse(
                PgError(SqlState.IDLE_TIMEOUT, "terminating connection due to idle timeout", fatal=True)
            )
        except PgError as problem:
            self._wire.refuse(problem)
        except (ConnectionError, OSError):
            pass
        finally:
            await self._wire.close()

    async def _login(self) -> None:
        user, settings = await login.admitted(self._wire, self._backend)
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
            if self._commands.transaction == "I":
                self._portals.clear()
            await self._ready()
        elif isinstance(message, messages.Flush):
            await self._wire.flush()
        elif not self._skipping:
            self._skipping = not await self._guarded(self._extended(message))

    async def _ready(self) -> None:
        self._wire.send(messages.ReadyForQuery(_STATUS[self._commands.transaction]))
        await self._wire.flush()

    async def _guarded(self, work: Awaitable[None]) -> bool:
        """Whether some work went well; where not, the client has been told why."""
        try:
            await work
        except PgError as problem:
            if problem.fatal:
                raise
            self._fail(problem)
        except HdpviewError as problem:
            self._fail(as_pg_error(problem, self._backend.table))
        except (ClosedError, ConnectionError, OSError):
            raise
        except Exception as problem:  # a fault of ours must not end the server, nor tell what was asked
            logger.error("session %d: %s while answering", self.pid, type(problem).__name__)
            self._fail(
                PgError(SqlState.INTERNAL_ERROR, "The server failed on this statement.", "Please report it.")
            )
        else:
            return True
        return False

    def _fail(self, problem: PgError) -> None:
        self._commands.fail()
        self._wire.refuse(problem)

    async def _asked(self, method: str, *arguments: Any) -> Any:
        """What an `Answerer` says, unless it takes too long or is cancelled."""
        self._work = self._backend.ask(method, *arguments)
        self._work.add_done_callback(lambda work: work.cancelled() or work.exception())
        try:
            return await asyncio.wait_for(asyncio.shield(self._work), ANSWER_SECONDS)
        except TimeoutError:
            raise PgError(
                SqlState.QUERY_CANCELED,
                "canceling statement due to statement timeout",
                f"Answers may take {ANSWER_SECONDS:g} seconds. Ask for less at once.",
            ) from None
        except asyncio.CancelledError:
            if not self._work.cancelled():  # the server ends
                raise
            raise PgError(SqlState.QUERY_CANCELED, "canceling statement due to user request") from None
        finally:
            self._work = None

    def _log(self, statement: Statement) -> None:
        if self._backend.log_statements:
            logger.info("session %d: %s", self.pid, statement.text)

    async def _simple(self, text: str) -> None:
        asked = statements.split(text)
        if not asked:
            self._wire.send(messages.EmptyQueryResponse())
        for statement in asked:
            self._log(statement)
            await self._send_outcome(await self._done(statement))

    async def _done(self, statement: Statement) -> Outcome:
        """What a statement does; those on prepared statements are the session's own."""
        if statement.word == "DEALLOCATE":
            return self._deallocate(statement)
        if statement.word == "PREPARE":
            name, kinds, inner = statements.prepared(statement)
            await self._prepare(name, inner, [(types.named(kind) or types.UNKNOWN).oid for kind in kinds])
            return Outcome("PREPARE")
        if statement.word == "EXECUTE":
            name, values = statements.executed(statement)
            prepared = self._statement(name)
            _check_number(len(values), len(prepared.parameters))
            return await self._commands.execute(prepared.statement, values)
        return await self._commands.execute(statement)

    async def _send_outcome(self, outcome: Outcome) -> None:
        self._tell(outcome)
        if outcome.copy is not None:
            await self._send_copy(outcome)
        elif outcome.columns is not None:
            formats = [int(outcome.is_binary)] * len(outcome.columns)
            self._wire.describe(outcome.columns, formats)
            await self._wire.send_rows(outcome.rows, outcome.columns, formats)
        self._wire.send(messages.CommandComplete(outcome.tag))

    def _tell(self, outcome: Outcome) -> None:
        if self._commands.settings["client_min_messages"].lower() not in _WITHOUT_NOTICES:
            for text in outcome.notices:
                self._wire.notice(text)
        for name, value in outcome.reported.items():
            self._wire.send(messages.ParameterStatus(name, value))

    async def _send_copy(self, outcome: Outcome) -> None:
        assert outcome.copy is not None
        assert outcome.columns is not None
        code = int(outcome.copy.format == "binary")
        self._wire.send(messages.CopyOutResponse(code, [code] * len(outcome.columns)))
        for number, piece in enumerate(copying.pieces(outcome.copy, outcome.columns, outcome.rows)):
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
        statement = statements.one(message.query)
        self._log(statement)
        await self._prepare(message.statement, statement, message.param_types)
        self._wire.send(messages.ParseComplete())

    async def _prepare(self, name: str, statement: Statement, oids: Sequence[int]) -> None:
        if name and name in self._prepared:
            raise PgError(SqlState.DUPLICATE_STATEMENT, f'prepared statement "{name[:60]}" already exists')
        if len(self._prepared) >= _MOST_PREPARED:
            raise PgError(
                SqlState.TOO_COMPLEX,
                f"A session has at most {_MOST_PREPARED:,} prepared statements.",
                "Close some.",
            )
        description = await self._commands.describe(statement)
        inferred = description.parameters if description is not None else ()
        self._prepared[name] = _Prepared(
            statement, description, _declared(oids, inferred), self._commands.options
        )

    def _bind(self, message: messages.Bind) -> None:
        prepared = self._statement(message.statement)
        _check_number(len(message.param_values), len(prepared.parameters))
        formats = wire.result_formats(message.param_formats, len(prepared.parameters))
        values = [
            parameter_values.decode(*each)
            for each in zip(message.param_values, prepared.parameters, formats, strict=True)
        ]
        if len(self._portals) >= _MOST_PREPARED:
            raise PgError(
                SqlState.TOO_COMPLEX, f"A session has at most {_MOST_PREPARED:,} portals.", "Close some."
            )
        self._portals[message.portal] = _Portal(prepared, values, message.result_formats)
        self._wire.send(messages.BindComplete())

    def _describe(self, message: messages.Describe) -> None:
        cursor = self._commands.declared(message.name)
        if message.kind == "P" and message.name not in self._portals and cursor is not None:
            self._wire.describe(cursor, [types.TEXT_FORMAT] * len(cursor))
            return
        if message.kind == "S":
            prepared, formats = self._statement(message.name), []
            self._wire.send(messages.ParameterDescription([kind.oid for kind in prepared.parameters]))
        else:
            portal = self._portal(message.name)
            prepared, formats = portal.prepared, list(portal.formats)
        columns = self._columns(prepared)
        if columns is None:
            self._wire.send(messages.NoData())
        else:
            self._wire.describe(columns, wire.result_formats(formats, len(columns)))

    def _columns(self, prepared: _Prepared) -> Sequence[OutputColumn] | None:
        if prepared.description is not None:
            return prepared.description.with_ends(prepared.options)
        if prepared.statement.word == "EXECUTE":
            return self._columns(self._statement(statements.executed(prepared.statement)[0]))
        return self._commands.cursor_columns(prepared.statement)

    async def _execute(self, message: messages.Execute) -> None:
        portal = self._portal(message.portal)
        prepared = portal.prepared
        if portal.outcome is None:
            if not prepared.statement.word:
                self._wire.send(messages.EmptyQueryResponse())
                return
            if prepared.statement.word in ("DEALLOCATE", "PREPARE", "EXECUTE"):
                portal.outcome = await self._done(prepared.statement)
            else:
                self._check_shape(prepared)
                portal.outcome = await self._commands.execute(prepared.statement, portal.values)
                # Values travel in the types that were announced.
                portal.outcome.columns = self._columns(prepared) or portal.outcome.columns
            self._tell(portal.outcome)
        outcome = portal.outcome
        if outcome.copy is not None:
            await self._send_copy(outcome)
        elif outcome.columns is not None:
            end = portal.sent + message.max_rows if message.max_rows else len(outcome.rows)
            formats = wire.result_formats(portal.formats, len(outcome.columns))
            await self._wire.send_rows(outcome.rows[portal.sent : end], outcome.columns, formats)
            portal.sent = min(end, len(outcome.rows))
            if end < len(outcome.rows):
                self._wire.send(messages.PortalSuspended())
                return
        self._wire.send(messages.CommandComplete(outcome.tag))

    def _check_shape(self, prepared: _Prepared) -> None:
        if (
            prepared.description is not None
            and prepared.options.intervals != self._commands.options.intervals
        ):
            raise PgError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "cached plan must not change result type",
                "hdpview.intervals changed after this statement was prepared. Prepare it again (DEALLOCATE "
                "ALL), or set it right after connecting.",
            )

    def _deallocate(self, statement: Statement) -> Outcome:
        name = statements.closed_name(statement)
        if name == "all":
            self._prepared.clear()
        elif self._prepared.pop(name, None) is None:
            raise PgError(SqlState.INVALID_STATEMENT, f'prepared statement "{name[:60]}" does not exist')
        return Outcome("DEALLOCATE ALL" if name == "all" else "DEALLOCATE")

    def _statement(self, name: str) -> _Prepared:
        if name not in self._prepared:
            raise PgError(SqlState.INVALID_STATEMENT, f'prepared statement "{name[:60]}" does not exist')
        return self._prepared[name]

    def _portal(self, name: str) -> _Portal:
        if name not in self._portals:
            raise PgError(SqlState.INVALID_CURSOR, f'portal "{name[:60]}" does not exist')
        return self._portals[name]


def _check_number(given: int, needed: int) -> None:
    if given != needed:
        raise PgError(
            SqlState.PROTOCOL_VIOLATION,
            f"bind message supplies {given} parameters, but prepared statement requires {needed}",
        )


def _declared(oids: Sequence[int], inferred: Sequence[PgType]) -> tuple[PgType, ...]:
    """Types of parameters: what the client says, else what the statement says."""
    n = max(len(oids), len(inferred))
    kinds = []
    for i in range(n):
        said = types.BY_OID.get(oids[i]) if i < len(oids) and oids[i] else None
        guess = inferred[i] if i < len(inferred) else types.TEXT
        kinds.append(guess if said is None or said is types.UNKNOWN else said)
    return tuple(kinds)
