"""What a database said, for the curator alone: its words may quote values, so nobody else may read them."""

from __future__ import annotations

import os
import tempfile
import traceback

DEBUG_VARIABLE = "HDPVIEW_DEBUG"


def where_it_is_told(refusal: Exception) -> str:
    """A sentence on where the words of an error are to be found.

    With HDPVIEW_DEBUG=1 they are written to a new file that only its owner can read; without it nowhere.
    """
    if os.environ.get(DEBUG_VARIABLE, "") in ("", "0"):
        return f"{DEBUG_VARIABLE}=1 has its words written to a file that only you can read."
    handle, path = tempfile.mkstemp(".txt", "hdpview-debug-")  # mode 0600
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.writelines(traceback.format_exception(refusal))
    return f"Its words are in {path}, which only you can read: they may quote values, so delete it when done."
