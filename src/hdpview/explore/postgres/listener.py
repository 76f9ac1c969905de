"""The listening socket: TLS, the number of clients, and the child processes that answer."""

from __future__ import annotations

import asyncio
import itertools
import logging
import ssl
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from hdpview.errors import HdpviewError, ViewFileError
from hdpview.explore.child import Pool
from hdpview.explore.postgres.client_session import Session
from hdpview.explore.postgres.names import quote_ident
from hdpview.explore.postgres.scram import Verifier
from hdpview.explore.postgres.wire import Wire
from hdpview.machine import LOOPBACK_ADDRESSES
from hdpview.pview import PView

logger = logging.getLogger("hdpview.postgres")
_MOST_CONNECTIONS = 200
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
        self.log_statements = self.settings.log_statements
        self.port = self.settings.port
        self._pool = Pool(ANSWERER, views, _PROCESSES)
        self._sessions: dict[int, Session] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._pids = itertools.count(1)
        self._threads = ThreadPoolExecutor(_PROCESSES, "hdpview-postgres")
        self._starting: asyncio.Future[None] | None = None
        self._listener: asyncio.Server | None = None

    def warm_up(self) -> None:
        """Start the child processes, which answer a question of each kind in advance."""
        self._pool.start()

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="hdpview-postgres", daemon=True)
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    async def _listen(self) -> None:
        host, port = self.settings.host, self.settings.port
        try:
            self._listener = await asyncio.start_server(self._connected, host, port, limit=2**17, backlog=256)
        except OSError as problem:
            raise ViewFileError(
                f"Cannot listen on {host}:{port}: {problem.strerror}. Try another --port, or 0 for a free "
                "one."
            ) from None
        self.port = self._listener.sockets[0].getsockname()[1]

    def _end(self) -> None:
        """Close all connections and end the thread and the child processes."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._pool.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        session = Session(Wire(reader, writer), self, next(self._pids))
        self._sessions[session.pid] = session
        logger.info("session %d: connected", session.pid)
        try:
            await session.run()
        except asyncio.CancelledError:  # the server ends
            pass
        finally:
            del self._sessions[session.pid]
            logger.info("session %d: closed", session.pid)

    @property
    def is_full(self) -> bool:
        return len(self._sessions) > _MOST_CONNECTIONS

    def cancel(self, pid: int, secret: bytes) -> None:
        """Stop what a session waits for."""
        session = self._sessions.get(pid)
        if session is not None:
            session.cancel(bytes(secret))

    async def started(self) -> None:
        """Wait for the child processes, which the first question starts."""
        if self._starting is None:
            self._starting = asyncio.get_running_loop().run_in_executor(None, self._pool.start)
        await asyncio.shield(self._starting)

    def ask(self, method: str, *arguments: Any) -> asyncio.Future[Any]:
        """Call a method of an `Answerer` in a child process, when its turn comes."""
        return asyncio.get_running_loop().run_in_executor(self._threads, self._pool.ask, method, *arguments)


def _tls(settings: ServerSettings) -> ssl.SSLContext | None:
    if settings.tls_certificate is None or settings.tls_key is None:
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
