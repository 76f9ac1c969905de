"""A limit of time for one statement, in DuckDB and in Python."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hdpview.errors import QueryError

# Limits of one statement: CPU time, twice that of the slowest of 435 everyday statements; and elapsed time.
CPU_SECONDS = 2.0
CLOCK_SECONDS = 30.0
TOO_LONG = "The statement takes longer than it may. Ask for fewer groups, or for less at once."


class Expired(BaseException):
    """Raised in the thread of a statement whose time is over. No `except Exception` stops it."""


@contextmanager
def deadline(cursor: Any, is_first: bool = False) -> Iterator[None]:
    """Stop whatever this thread does for a statement, in DuckDB or between two lines of Python. The first
    of a view may take five times as long, since kernels are compiled and tables made then.
    """
    import duckdb

    thread, lock, is_done = threading.get_ident(), threading.Lock(), threading.Event()
    used, start = _cpu_clock(thread), time.monotonic()
    first, most = used(), CPU_SECONDS * (5 if is_first else 1)

    def left() -> float:
        return min(most - (used() - first), start + CLOCK_SECONDS - time.monotonic())

    def watch() -> None:
        while not is_done.wait(max(left(), 0.01)):
            if left() <= 0:
                with lock:
                    if not is_done.is_set():
                        cursor.interrupt()
                        _raise_in(thread, Expired)
                return

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    except duckdb.InterruptException:
        raise QueryError(TOO_LONG) from None
    except duckdb.OutOfMemoryException:
        raise QueryError("The statement needs more memory than it may use. Ask for fewer groups.") from None
    finally:
        with lock:
            is_done.set()
        _raise_in(thread, None)


def _cpu_clock(thread: int) -> Callable[[], float]:
    """Processor time of a thread, or of the process where threads have no clock."""
    if hasattr(time, "pthread_getcpuclockid"):
        clock = time.pthread_getcpuclockid(thread)
        return lambda: time.clock_gettime(clock)
    return time.process_time


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """Raise an exception in a thread before its next line; None takes back one that is not raised yet."""
    error = ctypes.py_object(kind) if kind is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)
