"""One client from its first message to its last: login, then statements, simple or prepared."""

from __future__ import annotations

import hmac
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, InvalidStateError, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pygwire import messages
from pygwire.constants import ConnectionPhase, TransactionStatus
from pygwire.messages import PGMessage

from hdpview.errors import HdpviewError
from hdpview.explore.postgres import login, statements, types
from hdpview.explore.postgres.commands import IDLE, Commands, Outcome, Portal, named
from hdpview.explore.postgres.sqlstates import PgError, SqlState, as_pg_error
from hdpview.explore.postgres.statements import REPORTED, Statement
from hdpview.explore.postgres.values import decode
from hdpview.explore.postgres.wire import ClosedError, Wire, result_formats

if TYPE_CHECKING:
    from hdpview.explore.postgres.listener import PostgresServer

logger = logging.getLogger("hdpview.postgres")
LOGIN_SECONDS = 10.0
IDLE_SECONDS = 3_600.0
# Seconds from a question to its answer, including the wait for an idle child process, but not for its start.
ANSWER_SECONDS = 20.0
_WITHOUT_NOTICES = ("warning", "error", "fatal", "panic")


class Session:
    """A connection of one client."""

    def __init__(self, client: Wire, server: PostgresServer, pid: int) -> None:
        self._wire, self._server, self.pid = client, server, pid
        self.abort = client.abort
        self.secret = secrets.token_bytes(4)
        self._commands: Commands
        self._cancelled = Future[None]()
        self._skipping = False

    def cancel(self, secret: bytes) -> None:
        """Cancel the current question if the secret matches."""
        if hmac.compare_digest(secret, self.secret):
            with suppress(InvalidStateError):  # cancelled already
                self._cancelled.set_result(None)

    def run(self) -> None:
        """Serve the client until it leaves."""
        try:
            self._wire.until = time.monotonic() + LOGIN_SECONDS
            self._login()
            while True:
                self._wire.until = time.monotonic() + IDLE_SECONDS
                self._handle(self._wire.receive())
        except TimeoutError:
            text = "terminating connection due to idle timeout"
            self._wire.refuse(PgError(SqlState.IDLE_TIMEOUT, text), "FATAL")
        except PgError as problem:
            self._wire.refuse(problem, "FATAL")
        except (ClosedError, OSError):
            pass
        finally:
            self._wire.close()

    def _login(self) -> None:
        user, settings = login.admitted(self._wire, self._server)
        self._wire.send(messages.AuthenticationOk())
        self._commands = Commands(self._asked, user[:63], self.pid, settings)
        for name, title in REPORTED.items():
            self._wire.send(messages.ParameterStatus(title, self._commands.settings[name]))
        self._wire.send(messages.BackendKeyData(self.pid, self.secret))
        self._wire.phase = ConnectionPhase.READY
        self._ready()

    def _handle(self, message: PGMessage) -> None:
        if isinstance(message, messages.Terminate):
            raise ClosedError
        if isinstance(message, messages.Query):
            self._succeeds(self._simple, message.query_string)
            self._ready()
        elif isinstance(message, messages.Sync):
            if self._commands.transaction == IDLE:
                self._commands.portals.clear()
            self._ready()
        elif isinstance(message, messages.Flush):
            self._wire.flush()
        elif not self._skipping:
            self._skipping = not self._succeeds(_EXTENDED.get(type(message), Session._refuse), self, message)

    def _ready(self) -> None:
        self._skipping = False
        self._wire.send(messages.ReadyForQuery(TransactionStatus(self._commands.transaction)))
        self._wire.flush()

    def _succeeds(self, work: Callable[..., None], *arguments: Any) -> bool:
        """Handle a message. Returns False if that failed; the client has then received the error."""
        try:
            work(*arguments)
        except HdpviewError as problem:
            self._wire.refuse(as_pg_error(problem, self._server.table))
        except (ClosedError, OSError):
            raise
        except Exception as problem:  # our own errors must not end the server, nor log the statement
            logger.error("session %d: %s while answering", self.pid, type(problem).__name__)
            text = "The server failed on this statement."
            self._wire.refuse(PgError(SqlState.INTERNAL_ERROR, text, "Please report it."))
        else:
            return True
        self._commands.fail()
        return False

    def _asked(self, method: str, *arguments: Any) -> Any:
        """The answer of an `Answerer`, unless it takes too long or is cancelled."""
        self._server.warm_up()
        self._cancelled = Future()
        work = self._server.ask(method, *arguments)
        wait((work, self._cancelled), ANSWER_SECONDS, FIRST_COMPLETED)
        if work.done():
            return work.result()
        work.cancel()
        if self._cancelled.done():
            raise PgError(SqlState.QUERY_CANCELED, "canceling statement due to user request")
        raise PgError(
            SqlState.QUERY_CANCELED,
            "canceling statement due to statement timeout",
            f"Answers may take {ANSWER_SECONDS:g} seconds. Split the question into several.",
        )

    def _log(self, statement: Statement) -> None:
        if self._server.settings.log_statements:
            logger.info("session %d: %s", self.pid, statement.text)

    def _simple(self, text: str) -> None:
        asked = statements.split(text)
        if not asked:
            self._wire.send(messages.EmptyQueryResponse())
        for statement in asked:
            self._log(statement)
            outcome = self._commands.execute(statement)
            self._send_news(outcome)
            if outcome.columns is not None and outcome.copy is None:
                self._wire.describe(outcome.columns)
            self._send(outcome)

    def _send_news(self, outcome: Outcome) -> None:
        if self._commands.settings["client_min_messages"].lower() not in _WITHOUT_NOTICES:
            for text in outcome.notices:
                self._wire.notice(text)
        for name, value in outcome.reported.items():
            self._wire.send(messages.ParameterStatus(name, value))

    def _send(self, outcome: Outcome, formats: Sequence[int] = (), most: int | None = None) -> None:
        """Send the next rows, up to a limit, in the requested formats, and the end after the last row."""
        copy, columns = outcome.copy, outcome.columns
        if copy is not None and columns is not None:
            self._wire.send_copy(copy.pieces(columns, outcome.rows), copy.format_code, len(columns))
        elif columns is not None:
            self._wire.send_rows(outcome.take(most), columns, formats)
            if outcome.sent < len(outcome.rows):
                self._wire.send(messages.PortalSuspended())
                return
        self._wire.send(messages.CommandComplete(outcome.tag))

    def _refuse(self, _: PGMessage) -> None:
        raise PgError(SqlState.FEATURE_NOT_SUPPORTED, "Functions are called with SELECT here.")

    def _parse(self, message: messages.Parse) -> None:
        statement = statements.one(message.query)
        self._log(statement)
        oids = message.param_types
        declared = [None if oid == types.UNKNOWN.oid else types.BY_OID.get(oid) for oid in oids]
        self._commands.prepare(message.statement, statement, declared)
        self._wire.send(messages.ParseComplete())

    def _bind(self, message: messages.Bind) -> None:
        prepared = named("prepared statement", message.statement, self._commands.prepared)
        given, needed = len(message.param_values), len(prepared.parameters)
        if given != needed:
            raise PgError(
                SqlState.PROTOCOL_VIOLATION,
                f"bind message supplies {given} parameters, but prepared statement requires {needed}",
            )
        formats = result_formats(message.param_formats, needed)
        values = list(map(decode, message.param_values, prepared.parameters, formats))
        self._commands.add_portal(message.portal, Portal(prepared, values, message.result_formats))
        self._wire.send(messages.BindComplete())

    def _describe(self, message: messages.Describe) -> None:
        if message.kind == "S":
            prepared = named("prepared statement", message.name, self._commands.prepared)
            self._wire.send(messages.ParameterDescription([kind.oid for kind in prepared.parameters]))
            self._wire.describe(self._commands.describe(prepared))
        elif message.name in self._commands.cursors:
            self._wire.describe(self._commands.cursors[message.name].columns)
        else:
            portal = named("portal", message.name, self._commands.portals)
            prepared = portal.prepared
            if prepared.statement.question is not None:  # all values are known: the answer describes itself
                prepared.columns, prepared.options = self._outcome(portal).columns, self._commands.options
            self._wire.describe(self._commands.describe(prepared), portal.formats)

    def _outcome(self, portal: Portal) -> Outcome:
        is_new = portal.outcome is None
        outcome = self._commands.outcome_of(portal)
        if is_new:
            self._send_news(outcome)
        return outcome

    def _execute(self, message: messages.Execute) -> None:
        portal = named("portal", message.portal, self._commands.portals)
        if not portal.prepared.statement.word:
            self._wire.send(messages.EmptyQueryResponse())
            return
        self._send(self._outcome(portal), portal.formats, message.max_rows or None)

    def _close(self, message: messages.Close) -> None:
        (self._commands.prepared if message.kind == "S" else self._commands.portals).pop(message.name, None)
        self._wire.send(messages.CloseComplete())


_EXTENDED: dict[type[PGMessage], Callable[..., None]] = {
    messages.Parse: Session._parse,
    messages.Bind: Session._bind,
    messages.Describe: Session._describe,
    messages.Execute: Session._execute,
    messages.Close: Session._close,
}
