"""Logging in: encryption if there is a certificate, and a password if one is set."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pygwire import messages

from hdpview.explore.postgres import wire
from hdpview.explore.postgres.scram import MECHANISM, Exchange, ScramError, Verifier
from hdpview.explore.postgres.sqlstates import PgError, SqlState
from hdpview.explore.postgres.wire import Wire

if TYPE_CHECKING:
    from hdpview.explore.postgres.listener import PostgresServer

DATABASE = "hdpview"
_AFTER_WRONG_PASSWORD = 0.5  # seconds
_MOST_REQUESTS = 4  # requests for two kinds of encryption come before the connection parameters


class ClosedError(Exception):
    """The client closed the connection."""


async def admitted(client: Wire, server: PostgresServer) -> tuple[str, dict[str, str]]:
    """Let a client in. Returns the user's name and the settings that came with the connection."""
    start = await _startup(client, server)
    if server.is_full:
        raise PgError(SqlState.TOO_MANY_CONNECTIONS, "sorry, too many clients already")
    user = start.get("user", "")
    if not user:
        raise PgError(SqlState.INVALID_AUTHORIZATION, "no PostgreSQL user name specified in startup packet")
    if server.verifier is not None:
        await _authenticate(client, user, server.verifier)
    database = start.get("database") or user
    if database not in (DATABASE, "postgres", user):
        text = f'database "{database[:60]}" does not exist'
        raise PgError(SqlState.INVALID_DATABASE, text, f"Connect to {DATABASE}.")
    return user, _settings(start)


async def _startup(client: Wire, server: PostgresServer) -> dict[str, str]:
    """The parameters of the connection, after TLS if the client asks for it."""
    is_encrypted = False
    for _ in range(_MOST_REQUESTS):
        message = await client.receive()
        if isinstance(message, messages.SSLRequest) and server.tls is not None and not is_encrypted:
            if client.has_more:  # sent unencrypted by somebody in between
                raise PgError(SqlState.PROTOCOL_VIOLATION, "received unencrypted data after SSL request")
            client.send_byte(b"S")
            await client.flush()
            await client.start_tls(server.tls)
            is_encrypted = True
        elif isinstance(message, (messages.SSLRequest, messages.GSSEncRequest)):
            client.send_byte(b"N")
            await client.flush()
        elif isinstance(message, messages.StartupMessage):
            if server.tls is not None and not is_encrypted:
                text = "this server only takes encrypted connections"
                raise PgError(SqlState.INVALID_AUTHORIZATION, text, "Use sslmode=require.")
            return dict(message.params)
        else:
            if isinstance(message, messages.CancelRequest):
                server.cancel(message.process_id, message.secret_key)
            break
    raise ClosedError


async def _authenticate(client: Wire, user: str, verifier: Verifier) -> None:
    exchange = Exchange(verifier)
    client.send(messages.AuthenticationSASL([MECHANISM]))
    await client.flush()
    client.phase = wire.IN_FIRST_SASL
    first = await client.receive()
    if first is None:
        raise ClosedError
    try:
        if not isinstance(first, messages.SASLInitialResponse) or first.mechanism != MECHANISM:
            raise ScramError
        client.send(messages.AuthenticationSASLContinue(exchange.first(bytes(first.data))))
        await client.flush()
        client.phase = wire.IN_SASL
        second = await client.receive()
        if not isinstance(second, messages.SASLResponse):
            raise ScramError
        client.send(messages.AuthenticationSASLFinal(exchange.final(bytes(second.data))))
    except ScramError:
        await asyncio.sleep(_AFTER_WRONG_PASSWORD)
        text = f'password authentication failed for user "{user[:60]}"'
        raise PgError(SqlState.INVALID_PASSWORD, text) from None


def _settings(start: dict[str, str]) -> dict[str, str]:
    """Settings among the parameters of a connection, those in `options` (-c name=value) included."""
    settings = {
        name: value
        for name, value in start.items()
        if name not in ("user", "database", "options", "replication")
    }
    words = start.get("options", "").replace("\\ ", "\x00").split()
    for word in words:
        name, sign, value = word.removeprefix("-c").removeprefix("--").partition("=")
        if sign:
            settings[name.replace("-", "_")] = value.replace("\x00", " ")
    return {name: value for name, value in settings.items() if not name.startswith("_pq_.")}
