"""Errors of databases and file readers without their messages, which may quote values."""

from __future__ import annotations

import errno
import os
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from hdpview.errors import DataError, HdpviewError

Result = TypeVar("Result")

# Arrow's message about a packed file whose end is missing.
_TRUNCATED = "Truncated compressed stream"
DEBUG_VARIABLE = "HDPVIEW_DEBUG"


def quoting_no_value(
    source: Any, read: Callable[[], Result], can_retry: Callable[[Exception], bool] = lambda _: False
) -> Result:
    """The result of `read`. Errors from outside may quote values, so they are passed on by kind only."""
    while True:
        try:
            return read()
        except HdpviewError:
            raise
        except Exception as refusal:
            problem = None if can_retry(refusal) else without_values(refusal, source)
        if problem is not None:
            raise problem  # not in the handler, where the original would become its context


def without_values(refusal: Exception, source: Any) -> DataError:
    """A safe message for an error from outside: its kind, and a remedy."""
    kind = type(refusal).__name__
    name = f"the {type(source).__module__.split('.')[0]} {type(source).__name__}"
    if isinstance(source, (str, Path)):
        name = repr(str(source))
    if isinstance(refusal, duckdb.OutOfMemoryException):
        step = f"ran out of memory or disk space while counting {name}"
        return DataError(f"The database {step}. Raise memory_limit or free disk space.")
    if isinstance(refusal, OSError) and refusal.errno == errno.ENOSPC:
        return DataError(
            f"There was no room on the disk for the encoded rows of {name}. Free space in "
            f"{tempfile.gettempdir()!r}, or set TMPDIR to a folder with more."
        )
    if isinstance(refusal, OSError) and str(refusal) == _TRUNCATED:
        return DataError(f"{name} ends too early. Copy or download it again.")
    where = f"{DEBUG_VARIABLE}=1 writes the message to a file that only you can read."
    if os.environ.get(DEBUG_VARIABLE, "") not in ("", "0"):
        handle, path = tempfile.mkstemp(".txt", "hdpview-debug-")  # mode 0600
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.writelines(traceback.format_exception(refusal))
        where = (
            f"The message is in {path}, which only you can read. It may quote values: delete it when done."
        )
    return DataError(
        f"The database refused to read {name} ({kind}; the message may quote values, so it is withheld). "
        f"Check that it is complete, matches the type in its name, and is readable by you. {where}"
    )
