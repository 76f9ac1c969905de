"""The listening socket, a thread for each client, and the child processes that answer."""

from __future__ import annotations

import itertools
import logging
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from hdpview.errors import HdpviewError
from hdpview.explore.child import Pool
from hdpview.explore.listening import bound_socket
from hdpview.explore.postgres.client_session import Session
from hdpview.explore.postgres.login import Verifier
from hdpview.explore.postgres.names import quote_ident
from hdpview.explore.postgres.wire import Wire
from hdpview.machine import LOOPBACK_ADDRESSES
from hdpview.pview import PView

logger = logging.getLogger("hdpview.postgres")
_MOST_CONNECTIONS = 200
_PAUSE_SECONDS = 0.1
_MOST_REFUSED = 200  # connections beyond, which are told so; others are closed without a word
# Child processes, and therefore simultaneous answers; other questions wait their turn.
_PROCESSES = 2
ANSWERER = ("hdpview.explore.postgres.answerer", "Answerer")


@dataclass(frozen=True)
class ServerSettings:
    """The address to listen on. password: if None, everybody on this machine may connect without one."""

    host: str = "127.0.0.1"
    port: int = 5433
    password: str | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    log_statements: bool = False

    def __post_init__(self) -> None:
        if self.host not in LOOPBACK_ADDRESSES and not self.password:
            raise HdpviewError(
                "Listening beyond this machine needs a password. Write one into a file and give "
                "--password-file."
            )
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise HdpviewError("TLS needs both a certificate and its key: --tls-cert and --tls-key.")


class PostgresServer:
    """A server of views; as a context manager it listens, in a thread of its own.

    >>> with PostgresServer({"adult": view}, ServerSettings(port=0)) as server: ...   # doctest: +SKIP
    """

    def __init__(self, views: Mapping[str, PView], settings: ServerSettings | None = None) -> None:
        self.settings = settings or ServerSettings()
        self.tls = _tls(self.settings)
        self.verifier = None if self.settings.password is None else Verifier.of(self.settings.password)
        # The name that hints use for a view.
        self.table = quote_ident(next(iter(views), "view"))
        self.port = self.settings.port
        self._pool = Pool(ANSWERER, views, _PROCESSES)
        self._sessions: dict[int, Session] = {}
        self._is_closed = False
        self._threads = ThreadPoolExecutor(_PROCESSES, "hdpview-postgres")

    def warm_up(self) -> None:
        """Start the child processes, which answer a question of each kind in advance."""
        self._pool.start()

    def __enter__(self) -> Self:
        try:
            self._listener = bound_socket(self.settings.host, self.settings.port)
        except HdpviewError:
            self._pool.close()
            raise
        self._listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # for accepted sockets too
        self._listener.listen(256)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._listen, name="hdpview-postgres", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close all connections and end the child processes."""
        self._is_closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # ends `accept`
        self._listener.close()
        for session in list(self._sessions.values()):
            session.abort()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._pool.close()

    def _listen(self) -> None:
        for pid in itertools.count(1):
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._is_closed:
                    return
                time.sleep(_PAUSE_SECONDS)  # too many open files
                continue
            if len(self._sessions) >= _MOST_CONNECTIONS + _MOST_REFUSED:
                connection.close()
                continue
            self._sessions[pid] = session = Session(Wire(connection), self, pid)
            threading.Thread(target=self._serve, args=(session,), daemon=True).start()

    def _serve(self, session: Session) -> None:
        logger.info("session %d: connected", session.pid)
        try:
            session.run()
        finally:
            del self._sessions[session.pid]
            logger.info("session %d: closed", session.pid)

    @property
    def is_full(self) -> bool:
        return len(self._sessions) > _MOST_CONNECTIONS

    def cancel(self, pid: int, secret: bytes) -> None:
        """Cancel the running statement of a session."""
        session = self._sessions.get(pid)
        if session is not None:
            session.cancel(bytes(secret))

    def ask(self, method: str, *arguments: Any) -> Future[Any]:
        """Call a method of an `Answerer` in a child process, when its turn comes."""
        return self._threads.submit(self._pool.ask, method, *arguments)


def _tls(settings: ServerSettings) -> ssl.SSLContext | None:
    if settings.tls_certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.tls_certificate, settings.tls_key)
    except (OSError, ssl.SSLError):
        raise HdpviewError(
            "The certificate or its key cannot be read. Give PEM files that belong together, the key "
            "without a passphrase."
        ) from None
    return context
