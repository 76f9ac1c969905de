"""A running server, as the tests see it."""

from __future__ import annotations

from dataclasses import dataclass

from hdpview.explore.postgres import PostgresServer
from hdpview.pview import PView


@dataclass(frozen=True)
class Served:
    """A running server."""

    view: PView
    server: PostgresServer
    port: int

    @property
    def url(self) -> str:
        return f"postgresql://analyst@127.0.0.1:{self.port}/hdpview"
