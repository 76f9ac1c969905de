"""Logging in: encryption if there is a certificate, and a password if one is set."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pygwire import messages
from pygwire.constants import ConnectionPhase

from hdpview.explore.postgres.scram import MECHANISM, Exchange, ScramError, Verifier
from hdpview.explore.postgres.sqlstates import PgError, SqlState
from hdpview.explore.postgres.wire import ClosedError, Wire

if TYPE_CHECKING:
    from hdpview.explore.postgres.listener import PostgresServer

DATABASE = "hdpview"
_AFTER_WRONG_PASSWORD = 0.5  # seconds
_MOST_REQUESTS = 4  # requests for two kinds of encryption come before the connection parameters


def admitted(client: Wire, server: PostgresServer) -> tuple[str, dict[str, str]]:
    """Let a client in. Returns the user's name and the settings that came with the connection."""
    start = _startup(client, server)
    if server.is_full:
        raise PgError(SqlState.TOO_MANY_CONNECTIONS, "sorry, too many clients already")
    user = start.pop("user", "")
    if not user:
        raise PgError(SqlState.INVALID_AUTHORIZATION, "no PostgreSQL user name specified in startup packet")
    if server.verifier is not None:
        _authenticate(client, user, server.verifier)
    database = start.pop("database", user)
    if database not in (DATABASE, "postgres", user):
        text = f'database "{database[:60]}" does not exist'
        raise PgError(SqlState.INVALID_DATABASE, text, f"Connect to {DATABASE}.")
    return user, _settings(start)


def _startup(client: Wire, server: PostgresServer) -> dict[str, str]:
    """The parameters of the connection, after TLS if the client asks for it."""
    is_encrypted = False
    for _ in range(_MOST_REQUESTS):
        message = client.receive()
        if isinstance(message, messages.SSLRequest) and server.tls is not None and not is_encrypted:
            client.start_tls(server.tls)
            is_encrypted = True
        elif isinstance(message, (messages.SSLRequest, messages.GSSEncRequest)):
            client.refuse_encryption()
        elif isinstance(message, messages.StartupMessage):
            if server.tls is not None and not is_encrypted:
                text = "this server only takes encrypted connections"
                raise PgError(SqlState.INVALID_AUTHORIZATION, text, "Use sslmode=require.")
            return dict(message.params)
        elif isinstance(message, messages.CancelRequest):
            server.cancel(message.process_id, message.secret_key)
            break
    raise ClosedError


def _authenticate(client: Wire, user: str, verifier: Verifier) -> None:
    exchange = Exchange(verifier)
    client.send(messages.AuthenticationSASL([MECHANISM]))
    client.phase = ConnectionPhase.AUTHENTICATING_SASL_INITIAL
    first = client.receive()
    try:
        if not isinstance(first, messages.SASLInitialResponse) or first.mechanism != MECHANISM:
            raise ScramError
        client.send(messages.AuthenticationSASLContinue(exchange.first(bytes(first.data))))
        client.phase = ConnectionPhase.AUTHENTICATING_SASL_CONTINUE
        second = client.receive()
        if not isinstance(second, messages.SASLResponse):
            raise ScramError
        client.send(messages.AuthenticationSASLFinal(exchange.final(bytes(second.data))))
    except ScramError:
        time.sleep(_AFTER_WRONG_PASSWORD)
        text = f'password authentication failed for user "{user[:60]}"'
        raise PgError(SqlState.INVALID_PASSWORD, text) from None


def _settings(start: dict[str, str]) -> dict[str, str]:
    """Settings among the parameters of a connection, those in `options` (-c name=value) included."""
    words = start.pop("options", "").replace("\\ ", "\x00").split()
    start.pop("replication", None)
    for word in words:
        name, sign, value = word.removeprefix("-c").removeprefix("--").partition("=")
        if sign:
            start[name.replace("-", "_")] = value.replace("\x00", " ")
    return {name: value for name, value in start.items() if not name.startswith("_pq_.")}
