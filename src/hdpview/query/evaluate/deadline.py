"""Limits of time and cores for one statement, in DuckDB and in Python."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hdpview.errors import QueryError

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

# Limits of one statement: CPU time, twice that of the slowest of 435 everyday statements; and elapsed time.
CPU_SECONDS = 2.0
CLOCK_SECONDS = 30.0
TOO_LONG = "The statement exceeds the time limit. Ask for fewer groups, or split it into several."


class Expired(BaseException):
    """Raised in a statement's thread when its time is over. `except Exception` does not catch it."""


@contextmanager
def deadline(cursor: Any, is_first: bool = False) -> Iterator[None]:
    """Stop this thread's work on a statement at its deadline. The first statement of a view may take five
    times as long.

    BLAS gets one thread: on a busy machine, threads that wait for each other take ten times the CPU.
    """
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
        with _thread_pools().limit(limits=1, user_api="blas"):
            yield
    except duckdb.InterruptException:
        raise QueryError(TOO_LONG) from None
    except duckdb.OutOfMemoryException:
        raise QueryError("The statement exceeds the memory limit. Ask for fewer groups.") from None
    finally:
        with lock:
            is_done.set()
        if sent.is_set() and not isinstance(sys.exception(), Expired):
            with suppress(Expired):  # not delivered yet; withdrawing it would leave CPython's signal flag set
                for _ in range(100):
                    time.sleep(0)


@lru_cache(maxsize=1)
def _thread_pools() -> ThreadpoolController:
    """The libraries that are loaded; finding them takes 2 ms."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _cpu_clock(thread: int) -> Callable[[], float]:
    """Processor time of a thread, or of the process where threads have no clock."""
    if hasattr(time, "pthread_getcpuclockid"):
        clock = time.pthread_getcpuclockid(thread)
        return lambda: time.clock_gettime(clock)
    return time.process_time
