"""Child processes evaluate untrusted statements, within limits of time and memory.

Messages are pickles over the child's standard input and output.
"""

from __future__ import annotations

import importlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from hdpview.errors import HdpviewError, QueryError

if TYPE_CHECKING:
    from hdpview.pview import PView

# Bytes that a child may use beyond those it uses when idle. The largest array of an answer takes 400 MB.
MEMORY_BYTES = 2 * 2**30
# Seconds that a child may take to start; three on an idle core.
START_SECONDS = 120.0
# Seconds of processor time for one call; of 435 everyday statements the slowest takes 1.
CPU_SECONDS = 3.0
# Seconds for one call if the machine is busy or cannot limit processor time.
SECONDS = 15.0
_TOO_LONG = "The statement exceeds the time limit. Split it into several."
_TOO_LARGE = "The statement exceeds the memory limit. Split it into several."

_is_child = False


class ChildError(Exception):
    """An unexpected error in a child. The message is the name of its type."""


class Pool:
    """Child processes with the same views open; each answers one question at a time.

    recipe: module and name of the function that creates the object to call, from files of views by name.
    """

    def __init__(self, recipe: tuple[str, str], views: Mapping[str, PView], n_processes: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="hdpview-")
        paths = {name: str(Path(self._folder.name, f"{i}.pview")) for i, name in enumerate(views)}
        for name, view in views.items():
            view.save(paths[name])
        self._children = [Child(*recipe, paths) for _ in range(n_processes)]
        self._idle = queue.SimpleQueue[Child]()
        for child in self._children:
            self._idle.put(child)

    def start(self) -> None:
        """Start all processes that do not run yet, side by side."""
        starts = [threading.Thread(target=child.start) for child in self._children if not child.is_running]
        for start in starts:
            start.start()
        for start in starts:
            start.join()

    def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of the object as soon as a process is free."""
        child = self._idle.get()
        try:
            return child.ask(method, *arguments)
        finally:
            self._idle.put(child)

    def close(self) -> None:
        """End all processes."""
        for child in self._children:
            child.close()
        self._folder.cleanup()


class Child:
    """An object in its own process. It is created at the first call, and again if its process ends.

    module, name: the class or function that creates it. arguments: of that function, picklable.
    """

    def __init__(self, module: str, name: str, *arguments: Any) -> None:
        self._recipe = (module, name, arguments)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        """Create the object before the first call."""
        with self._lock:
            if self._process is None:
                self._start()

    def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of the object. QueryError if it takes too much time or memory."""
        with self._lock:
            if self._process is None:
                self._start()
            return self._exchange((method, arguments), SECONDS)

    def close(self) -> None:
        """End the process, even during a call."""
        if self._process is not None:
            self._process.kill()
        with self._lock:
            self._end()

    def _start(self) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        # Answers are small; threads that wait for each other cost more than they gain.
        environment.setdefault("OPENBLAS_NUM_THREADS", "1")
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from hdpview.explore.child import main; main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self._exchange(self._recipe, START_SECONDS)

    def _exchange(self, message: Any, seconds: float) -> Any:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        watch = threading.Timer(seconds, process.kill)
        watch.daemon = True
        watch.start()
        try:
            _send(process.stdin, message)
            is_error, reply = _receive(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError):
            is_late = not watch.is_alive()
            exit_code = self._end()
            if is_late or exit_code == -getattr(signal, "SIGPROF", 0):
                raise QueryError(_TOO_LONG) from None
            raise QueryError(_TOO_LARGE) from None
        finally:
            watch.cancel()
        if is_error:
            raise reply
        return reply

    def _end(self) -> int | None:
        """End the process. Returns its exit code: the negative number of the signal that ended it."""
        process, self._process = self._process, None
        if process is None:
            return None
        try:
            process.wait(0.5)
        except subprocess.TimeoutExpired:
            process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        return process.wait()


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """In a child, end the process if a block uses more CPU time; elsewhere do nothing."""
    if not _is_child or not hasattr(signal, "setitimer"):
        yield
        return
    left, _ = signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, left)


def main() -> None:
    """Serve the parent until it closes the pipe."""
    global _is_child  # functions deep in the call stack enforce the limits
    _is_child = True
    source, target = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # other output must not get between messages
    try:
        module, name, arguments = _receive(source)
        served = _made(getattr(importlib.import_module(module), name), arguments, target)
        while served is not None:
            method, arguments = _receive(source)
            _send(target, _called(getattr(served, method), arguments))
    except (EOFError, OSError, KeyboardInterrupt):
        os._exit(0)


def _made(make: Any, arguments: tuple[Any, ...], target: Any) -> Any:
    """The object to serve; None if creating it fails, and then the parent receives the error."""
    try:
        served = make(*arguments)
    except HdpviewError as problem:
        _send(target, (True, problem))
        return None
    _limit_memory(MEMORY_BYTES)
    _send(target, (False, None))
    return served


def _called(method: Any, arguments: tuple[Any, ...]) -> tuple[bool, Any]:
    try:
        with cpu_limit(CPU_SECONDS):
            return False, method(*arguments)
    except HdpviewError as problem:
        return True, problem
    except MemoryError:
        return True, QueryError(_TOO_LARGE)
    except Exception as problem:
        return True, ChildError(type(problem).__name__)


def _limit_memory(n_bytes: int) -> None:
    """Limit memory to this many bytes beyond those in use, if the system supports it."""
    try:
        import resource

        in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (in_use + n_bytes, in_use + n_bytes))
    except (ImportError, OSError, ValueError):
        return


def _send(pipe: IO[bytes], message: Any) -> None:
    pipe.write(pickle.dumps(message))
    pipe.flush()


def _receive(pipe: IO[bytes]) -> Any:
    """The next message from the parent or child process. Raises EOFError if it has ended."""
    return pickle.load(pipe)  # noqa: S301
