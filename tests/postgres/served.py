"""A running server, as the tests see it."""

from dataclasses import dataclass

from hdpview.explore.postgres import PostgresServer
from hdpview.explore.postgres.catalog.layout import column_type
from hdpview.pview import PView


@dataclass(frozen=True)
class Served:
    """A running server."""

    view: PView
    server: PostgresServer
    port: int

    @property
    def day_type(self) -> str:
        """The type of the column that holds days: that of its attribute."""
        return column_type(self.view.schema["admitted"]).name

    @property
    def url(self) -> str:
        return f"postgresql://analyst@127.0.0.1:{self.port}/hdpview"
