"""Logging in: encryption if there is a certificate, and a password if one is set.

Passwords are checked by SCRAM-SHA-256 (RFC 5802 and 7677): client and server prove to each other that they
know the password, without sending it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import time
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pygwire import messages
from pygwire.constants import ConnectionPhase

from hdpview.explore.postgres.sqlstates import PgError, SqlState
from hdpview.explore.postgres.wire import ClosedError, Wire

if TYPE_CHECKING:
    from hdpview.explore.postgres.listener import PostgresServer

DATABASE = "hdpview"
_AFTER_WRONG_PASSWORD = 0.5  # seconds
_MOST_REQUESTS = 4  # requests for two kinds of encryption come before the connection parameters
MECHANISM = "SCRAM-SHA-256"
# PostgreSQL's default; passwords are long and random here.
_ITERATIONS = 4_096
_SALT_BYTES = 16
_NONCE_BYTES = 18


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


class ScramError(Exception):
    """The exchange failed: a wrong password or a broken message. Carries no details."""


@dataclass(frozen=True)
class Verifier:
    """The form in which a server stores a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes

    @classmethod
    def of(cls, password: str) -> Verifier:
        """A verifier of a new password, with a new salt."""
        salt, text = secrets.token_bytes(_SALT_BYTES), unicodedata.normalize("NFKC", password)
        salted = hashlib.pbkdf2_hmac("sha256", text.encode(), salt, _ITERATIONS)
        stored_key = hashlib.sha256(_mac(salted, b"Client Key")).digest()
        return cls(salt, stored_key, _mac(salted, b"Server Key"))


class Exchange:
    """One login. `first` answers the client's first message, `final` its second."""

    def __init__(self, verifier: Verifier) -> None:
        self._verifier = verifier
        self._signed, self._expected = "", ""

    def first(self, message: bytes) -> bytes:
        """The salt, the iterations and a nonce. ScramError if the message is malformed."""
        binding, _, rest = _text(message).partition(",")
        identity, _, bare = rest.partition(",")
        nonce = next((part[2:] for part in bare.split(",") if part.startswith("r=")), "")
        if binding not in ("n", "y") or not nonce:  # without channel binding
            raise ScramError
        nonce += secrets.token_urlsafe(_NONCE_BYTES)
        answer = f"r={nonce},s={_base64(self._verifier.salt)},i={_ITERATIONS}"
        self._signed = f"{bare},{answer}"
        self._expected = f"c={_base64(f'{binding},{identity},'.encode())},r={nonce}"
        return answer.encode()

    def final(self, message: bytes) -> bytes:
        """The server's own proof. ScramError if the client's is wrong."""
        without_proof, _, proof_text = _text(message).rpartition(",p=")
        signed = f"{self._signed},{without_proof}".encode()
        signature = _mac(self._verifier.stored_key, signed)
        try:
            proof = base64.b64decode(proof_text, validate=True)
        except ValueError:
            raise ScramError from None
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=False))
        is_known = hmac.compare_digest(hashlib.sha256(client_key).digest(), self._verifier.stored_key)
        if without_proof != self._expected or len(proof) != len(signature) or not is_known:
            raise ScramError
        return b"v=" + _base64(_mac(self._verifier.server_key, signed)).encode()


def _mac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _text(message: bytes) -> str:
    try:
        return message.decode()
    except UnicodeDecodeError:
        raise ScramError from None
