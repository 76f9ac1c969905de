"""A limit of time for one statement, in DuckDB and in Python."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
    """Stop whatever this thread does for a statement. A view's first may take five times as long."""
    import duckdb

    thread, lock, is_done = threading.get_ident(), threading.Lock(), threading.Event()
    used, start, error = _cpu_clock(thread), time.monotonic(), ctypes.py_object(Expired)
    first, most, sent = used(), CPU_SECONDS * (5 if is_first else 1), threading.Event()

    def left() -> float:
        return min(most - (used() - first), start + CLOCK_SECONDS - time.monotonic())

    def watch() -> None:
        while not is_done.wait(max(left(), 0.01)):
            if left() <= 0:
                with lock:
                    if not is_done.is_set():
                        cursor.interrupt()
                        sent.set()
                        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)
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
        if sent.is_set() and not isinstance(sys.exception(), Expired):
            with suppress(Expired):  # still on its way; taking it back would leave CPython's signal set
                for _ in range(100):
                    time.sleep(0)


def _cpu_clock(thread: int) -> Callable[[], float]:
    """Processor time of a thread, or of the process where threads have no clock."""
    if hasattr(time, "pthread_getcpuclockid"):
        clock = time.pthread_getcpuclockid(thread)
        return lambda: time.clock_gettime(clock)
    return time.process_time
