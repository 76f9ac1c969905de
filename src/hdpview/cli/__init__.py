"""The command line: it reads options, calls the library and prints. Heavy imports wait until needed."""

from hdpview.cli.main import main

__all__ = ["main"]
