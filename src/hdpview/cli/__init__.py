"""The command line. Thin: it reads options, calls the library and prints; heavy imports wait until a command
needs them.
"""

from hdpview.cli.main import main

__all__ = ["main"]
