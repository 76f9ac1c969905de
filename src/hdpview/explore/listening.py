"""The socket of a server."""

from __future__ import annotations

import socket

from hdpview.errors import ViewFileError


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket bound to an address. A port in use raises an error with a remedy."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as problem:
        listener.close()
        raise ViewFileError(
            f"Cannot listen on {host}:{port}: {problem.strerror}. Choose another port, or 0 for a free one."
        ) from None
    return listener
