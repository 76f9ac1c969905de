"""The command `hdpview`, called in this process: starting Python each time costs seconds."""

import contextlib
import io
import sys
import warnings
from pathlib import Path
from subprocess import CompletedProcess
from unittest.mock import patch

from hdpview.cli import main


def run(*words: object, cwd: Path | None = None) -> CompletedProcess[str]:
    """Call the command with these words in this folder, without a terminal: its output and exit code."""
    arguments = ["hdpview", *map(str, words)]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with (
        contextlib.chdir(cwd or Path.cwd()),
        patch.object(sys, "argv", arguments),
        patch.object(sys, "stdin", io.StringIO()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        # As in a separate process, which does not show deprecation warnings.
        warnings.catch_warnings(action="ignore", category=DeprecationWarning),
    ):
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    printed, complained = (stream.buffer.getvalue().decode() for stream in (out, err))
    return CompletedProcess(arguments, code, printed, complained)
