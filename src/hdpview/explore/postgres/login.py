"""How a client gets in: encryption where there is a certificate, the password where there is one."""

from __future__ import annotations

import asyncio
import ssl
from typing import Protocol

from pygwire import messages

from hdpview.explore.postgres import wire
from hdpview.explore.postgres.scram import MECHANISM, Exchange, ScramError, Verifier
from hdpview.explore.postgres.sqlstates import PgError, SqlState
from hdpview.explore.postgres.wire import Wire

DATABASE = "hdpview"
_AFTER_WRONG_PASSWORD = 0.5  # seconds
_MOST_REQUESTS = 4  # before the parameters of the connection: for encryption of two kinds


class LoginServer(Protocol):
    """What a login needs to know of the server."""

    verifier: Verifier | None
    tls: ssl.SSLContext | None

    @property
    def is_full(self) -> bool:
        """Whether there are too many clients."""

    def cancel(self, pid: int, secret: bytes) -> None:
        """Stop what another session waits for."""


class ClosedError(Exception):
    """The connection is over, and nothing is left to say."""


async def admitted(client: Wire, server: LoginServer) -> tuple[str, dict[str, str]]:
    """The name of a user who was let in, and the settings that came with the connection."""
    start = await _startup(client, server)
    if server.is_full:
        raise PgError(SqlState.TOO_MANY_CONNECTIONS, "sorry, too many clients already", fatal=True)
    user = start.get("user", "")
    if not user:
        raise PgError(
            SqlState.INVALID_AUTHORIZATION, "no PostgreSQL user name specified in startup packet", fatal=True
        )
    if server.verifier is not None:
        await _authenticate(client, user, server.verifier)
    database = start.get("database") or user
    if database not in (DATABASE, "postgres", user):
        raise PgError(
            SqlState.INVALID_DATABASE,
            f'database "{database[:60]}" does not exist',
            f"Connect to {DATABASE}.",
            fatal=True,
        )
    return user, _settings(start)


async def _startup(client: Wire, server: LoginServer) -> dict[str, str]:
    """The parameters of the connection, after TLS where the client asks for it."""
    is_encrypted = False
    for _ in range(_MOST_REQUESTS):
        message = await client.receive()
        if isinstance(message, messages.SSLRequest) and server.tls is not None and not is_encrypted:
            if client.has_more:  # sent in the clear by somebody in between
                raise PgError(
                    SqlState.PROTOCOL_VIOLATION, "received unencrypted data after SSL request", fatal=True
                )
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
                raise PgError(SqlState.INVALID_AUTHORIZATION, text, "Use sslmode=require.", fatal=True)
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
        raise PgError(SqlState.INVALID_PASSWORD, text, fatal=True) from None


def _settings(start: dict[str, str]) -> dict[str, str]:
    """Settings among the parameters of a connection, those in `options` (-c name=value) included."""
    settings = {
        name: value
        for name, value in start.items()
        if name not in ("user", "database", "options", "replication")
    }
    words = start.get("options", "").replace("\\ ", "\x00").split()
    for i, word in enumerate(words):
        pair = (
            words[i + 1]
            if word == "-c" and i + 1 < len(words)
            else word.removeprefix("-c").removeprefix("--")
        )
        name, sign, value = pair.partition("=")
        if sign:
            settings[name.replace("-", "_")] = value.replace("\x00", " ")
    return {name: value for name, value in settings.items() if not name.startswith("_pq_.")}
