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


def quoting_no_value(source: Any, read: Callable[[], Result]) -> Result:
    """The result of `read`. Errors from outside are passed on by kind only."""
    try:
        return read()
    except HdpviewError:
        raise
    except Exception as refusal:
        problem = without_values(refusal, source)
    raise problem  # not in the handler: there the original, with its message, would become its context


def without_values(refusal: Exception, source: Any) -> DataError:
    """A safe message for an error from outside: its kind, and a remedy."""
    kind, name = (
        type(refusal).__name__,
        f"the {type(source).__module__.split('.')[0]} {type(source).__name__}",
    )
    if isinstance(source, (str, Path)):
        name = repr(str(source))
    if isinstance(refusal, duckdb.OutOfMemoryException):
        return DataError(
            f"The database ran out of memory or disk space while counting {name}. Raise memory_limit "
            "or free disk space."
        )
    if isinstance(refusal, OSError) and refusal.errno == errno.ENOSPC:
        return DataError(
            f"There was no room on the disk for the encoded rows of {name}. Free space in "
            f"{tempfile.gettempdir()!r}, or set TMPDIR to a folder with more."
        )
    if isinstance(refusal, OSError) and str(refusal) == _TRUNCATED:
        return DataError(f"{name} ends too early. Copy or download it again.")
    advice = "Check that it is complete, matches the type in its name, and is readable by you."
    return DataError(
        f"The database refused to read {name} ({kind}; the message may quote values, so it is withheld). "
        f"{advice} {_where_its_words_are(refusal)}"
    )


def _where_its_words_are(refusal: Exception) -> str:
    """With HDPVIEW_DEBUG=1, write the message to a new file that only its owner can read."""
    if os.environ.get(DEBUG_VARIABLE, "") in ("", "0"):
        return f"{DEBUG_VARIABLE}=1 writes the message to a file that only you can read."
    handle, path = tempfile.mkstemp(".txt", "hdpview-debug-")  # mode 0600
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.writelines(traceback.format_exception(refusal))
    return f"The message is in {path}, which only you can read. It may quote values, so delete it when done."
