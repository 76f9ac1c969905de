"""The command `hdpview curate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hdpview.cli.options import Data, LedgerFile, TableName

if TYPE_CHECKING:
    from hdpview.curate.job import BuildJob


def open_page(
    data: Data,
    folder: Annotated[
        Path, typer.Option("-d", "--directory", help="Where the schema, the view and its pages go.")
    ] = Path(),
    ledger: LedgerFile = None,
    table: TableName = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 0,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
) -> None:
    """Go from a table to a view on a page in the browser: describe, choose, build. On this machine alone.

    Example: hdpview curate admissions.csv
    """
    import secrets

    from hdpview.cli.serve import listening, run_app
    from hdpview.curate.curation import Curation
    from hdpview.curate.server import create_app

    curation, token = Curation(data, folder, ledger, table), secrets.token_urlsafe(24)
    with listening("127.0.0.1", port) as listener:
        app = create_app(curation, token)
        with app.state.opened.stack:
            run_app(app, listener, f"Curating {curation.table}", token, no_open)
        end_build(app.state.job)


def end_build(job: BuildJob) -> None:
    """A build that is under way when the page ends stops at its next step, and says what it cost."""
    if job.state == "running":
        job.cancel()
        job.wait()
        typer.secho(job.message or "The view was built.", fg="yellow", err=True)
