"""The listening socket: who may connect, how many at once, and how long answers may take."""

from __future__ import annotations

import asyncio
import itertools
import logging
import ssl
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
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
# Child processes, and so answers computed at the same time; other questions wait their turn.
_PROCESSES = 2
ANSWERER = ("hdpview.explore.postgres.answerer", "answerer_of")


@dataclass(frozen=True)
class ServerSettings:
    """Where to listen, and for whom. password: None for everybody on this machine, who need none."""

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
    """A server of views. `serve` runs it in an event loop; as a context manager it runs in a thread.

    >>> with PostgresServer({"adult": view}, ServerSettings(port=0)) as server: ...   # doctest: +SKIP
    """

    def __init__(self, views: Mapping[str, PView], settings: ServerSettings | None = None) -> None:
        self.settings = settings or ServerSettings()
        self.tls = _tls(self.settings)
        self.verifier = None if self.settings.password is None else Verifier.of(self.settings.password)
        # The name that hints use for a view.
        self.table = quote_ident(next(iter(views), "view"))
        self._pool = Pool(ANSWERER, views, _PROCESSES)
        self.log_statements = self.settings.log_statements
        self.port = self.settings.port
        self._sessions: dict[int, Session] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._pids = itertools.count(1)
        self._threads = ThreadPoolExecutor(_PROCESSES, "hdpview-postgres")
        self._listening = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self._problem: BaseException | None = None
        self._thread: threading.Thread | None = None

    def warm_up(self) -> None:
        """Start the child processes, which answer a question of each kind before anyone asks."""
        self._pool.start()

    async def serve(self, when_listening: Callable[[], None] | None = None) -> None:
        """Serve until `stop`."""
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        try:
            await self._serve(when_listening)
        finally:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._pool.close()

    async def _serve(self, when_listening: Callable[[], None] | None) -> None:
        assert self._stopped is not None
        try:
            server = await asyncio.start_server(
                self._connected, self.settings.host, self.settings.port, limit=2**17, backlog=256
            )
        except OSError as problem:
            place = f"{self.settings.host}:{self.settings.port}"
            raise ViewFileError(
                f"Cannot listen on {place}: {problem.strerror}. Try another --port, or 0 for a free one."
            ) from None
        self.port = server.sockets[0].getsockname()[1]
        self._listening.set()
        if when_listening is not None:
            when_listening()
        async with server:
            await self._stopped.wait()
            server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def stop(self) -> None:
        """End `serve`, from any thread."""
        if self._loop is not None and self._stopped is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stopped.set)

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

    def ask(self, method: str, *arguments: Any) -> asyncio.Future[Any]:
        """Call a method of an `Answerer` in a child process, when its turn comes."""
        return asyncio.get_running_loop().run_in_executor(self._threads, self._pool.ask, method, *arguments)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._run, name="hdpview-postgres-server", daemon=True)
        self._thread.start()
        self._listening.wait()
        if self._problem is not None:
            raise self._problem
        return self

    def _run(self) -> None:
        try:
            asyncio.run(self.serve())
        except BaseException as problem:
            self._problem = problem
            self._listening.set()

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._thread is not None:
            self._thread.join()


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
