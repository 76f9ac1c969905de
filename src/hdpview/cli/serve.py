"""Commands that open pages in a browser, and serve views to every tool that speaks PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hdpview.cli import output
from hdpview.cli.options import Data, Host, LedgerFile, NoOpen, Port, TableName, View, Views, option
from hdpview.errors import ViewFileError
from hdpview.explore.listening import bound_socket
from hdpview.machine import LOOPBACK_ADDRESSES

if TYPE_CHECKING:
    import socket

    from fastapi import FastAPI

    from hdpview.curate.job import BuildJob
    from hdpview.pview import PView

_SOON_SECONDS = 2.0
_POSTGRES_PORT = 5433
_YOUNG_OBJECTS = 20_000  # allocations until the garbage collector runs: about thirty statements
PasswordFile = Annotated[
    Path | None, option("File with the password of clients; required unless listening on localhost.")
]


def explore(
    views: Views,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    token: Annotated[str | None, option("Access token; required unless listening on localhost.")] = None,
    no_open: NoOpen = False,
    postgres: Annotated[
        bool, option("Also speak the PostgreSQL wire protocol, as `hdpview serve` does.", "--postgres")
    ] = False,
    postgres_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the PostgreSQL server; 0 picks a free one.")
    ] = _POSTGRES_PORT,
    password_file: PasswordFile = None,
) -> None:
    """Explore views in a browser: select values in one chart to filter all others. Costs no budget.

    Example: hdpview explore adult.pview --postgres
    """
    from contextlib import ExitStack

    if host not in LOOPBACK_ADDRESSES and not token:
        raise ViewFileError("Listening beyond this machine needs an access token. Choose one: --token TOKEN.")
    _answer_with_one_thread()
    with ExitStack() as stack:
        opened = _opened(views)
        if postgres:
            from hdpview.explore.postgres import PostgresServer, ServerSettings

            settings = ServerSettings(host, postgres_port, _password(password_file))
            server = stack.enter_context(PostgresServer(_as_tables(opened), settings))
            typer.echo(_postgres_address(host, server.port))
        from hdpview.explore.page_answers import warm_up
        from hdpview.explore.page_server import LOOPBACK, create_app

        with bound_socket(host, port) as listener:
            _prepare(lambda: warm_up(opened.values()))
            app = create_app(opened, token, LOOPBACK if host in LOOPBACK_ADDRESSES else ("*",))
            threading.Thread(target=app.state.start_statements, daemon=True).start()
            run_app(app, listener, f"Exploring {', '.join(opened)}", token, no_open)


def serve(
    views: Views,
    postgres: Annotated[
        bool, option("Speak the PostgreSQL wire protocol (the default).", "--postgres")
    ] = False,
    host: Host = "127.0.0.1",
    port: Port = _POSTGRES_PORT,
    password_file: PasswordFile = None,
    tls_cert: Annotated[
        Path | None, option("Certificate (PEM); unencrypted connections are then refused.")
    ] = None,
    tls_key: Annotated[Path | None, option("The certificate's key (PEM).")] = None,
    log_statements: Annotated[
        bool,
        option(
            "Log sessions and their statements. Off by default: questions are private.", "--log-statements"
        ),
    ] = False,
) -> None:
    """Serve views as PostgreSQL tables to psql, DBeaver, Metabase, Excel, R and others. Costs no budget.

    Example: hdpview serve adult.pview
    """
    del postgres  # accepted for commands written for version 0.2, where it was needed
    _answer_with_one_thread()
    from hdpview.explore.postgres import PostgresServer, ServerSettings

    if log_statements:
        import logging

        logging.basicConfig(format="%(asctime)s %(message)s")
        logging.getLogger("hdpview.postgres").setLevel(logging.INFO)
    settings = ServerSettings(host, port, _password(password_file), tls_cert, tls_key, log_statements)
    server = PostgresServer(_as_tables(_opened(views)), settings)
    _prepare(server.warm_up)
    with server:
        typer.echo(f"{_postgres_address(host, server.port)}  (Ctrl-C ends it)")
        threading.Event().wait()


def _answer_with_one_thread() -> None:
    """Keep NumPy's linear algebra to one thread per answer, unless the environment says otherwise.

    Matrices here are small. On a busy machine, threads that wait for each other would double answer times.
    """
    import os

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _opened(paths: list[Path]) -> dict[str, PView]:
    from hdpview.pview import PView

    opened: dict[str, PView] = {}
    for path in paths:
        if path.name in opened:
            raise ViewFileError(
                f"Two views are called {path.name!r}. Rename one: views are identified by name."
            )
        opened[path.name] = PView.open(path)
    return opened


def _as_tables(opened: dict[str, PView]) -> dict[str, PView]:
    """Views under the names of their files, without the ending."""
    return {name.removesuffix(".pview"): view for name, view in opened.items()}


def _password(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        password = path.read_text(encoding="utf-8").strip("\r\n")
    except (OSError, UnicodeDecodeError):
        raise ViewFileError(
            f"Cannot read the password from {str(path)!r}. Give a text file with one line."
        ) from None
    if not password:
        raise ViewFileError(f"The file {str(path)!r} is empty. Write the password into it.")
    if path.stat().st_mode & 0o077:
        typer.secho(
            f"Note: other users may read {path.name}. Consider: chmod 600 {path.name}", fg="yellow", err=True
        )
    return password


def _postgres_address(host: str, port: int) -> str:
    place = f"[{host}]" if ":" in host else host
    return (
        f"Serving PostgreSQL at postgresql://{place}:{port}/hdpview; try: psql -h {host} -p {port} -U "
        "analyst hdpview"
    )


def curate(
    data: Data,
    folder: Annotated[
        Path, typer.Option("-d", "--directory", help="Folder for the schema, the view and its pages.")
    ] = Path(),
    ledger: LedgerFile = None,
    table: TableName = None,
    port: Port = 0,
    no_open: NoOpen = False,
) -> None:
    """Build a view of a table on a web page, step by step. Listens on this machine only.

    Example: hdpview curate admissions.csv
    """
    import secrets

    from hdpview.curate.curation import Curation
    from hdpview.curate.server import create_app

    curation, token = Curation(data, folder, ledger, table), secrets.token_urlsafe(24)
    with bound_socket("127.0.0.1", port) as listener:
        app = create_app(curation, token)
        with app.state.opened.stack:
            run_app(app, listener, f"Curating {curation.table}", token, no_open)
        end_build(app.state.job)


def end_build(job: BuildJob) -> None:
    """Stop a running build at its next step when the page ends, and print what it cost."""
    if job.state == "running":
        job.cancel()
        job.wait()
        typer.secho(job.message or "The view was built.", fg="yellow", err=True)


def run_app(app: FastAPI, listener: socket.socket, what: str, token: str | None, no_open: bool) -> None:
    """Serve pages on a socket until Ctrl-C. Prints their address and opens a browser."""
    import webbrowser

    import uvicorn

    host, port, *_ = listener.getsockname()
    place = f"[{host}]" if ":" in host else host
    address = f"http://{place}:{port}/" + (f"?token={token}" if token else "")
    typer.echo(f"{what} at {address}  (Ctrl-C ends it)")
    if not no_open:
        webbrowser.open(address)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, limit_concurrency=200, timeout_keep_alive=5
    )
    uvicorn.Server(config).run(sockets=[listener])


def _prepare(warm_up: Callable[[], None]) -> None:
    """Compile everything before the first question, because compiling takes longer than an answer may."""
    import gc

    at_work = threading.Thread(target=warm_up, daemon=True)
    at_work.start()
    at_work.join(_SOON_SECONDS)
    if at_work.is_alive():
        typer.echo("Getting ready: after an installation, the first start can take half a minute.", err=True)
        at_work.join()
    # Libraries and views are never garbage. Freezing them spares the collector repeated scans, whose pauses
    # take longer than ten answers. Garbage of questions is collected in larger portions.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 10, 10)


def publish(
    view: View,
    output_path: Annotated[Path, option("The page to write.", "-o", "--output")],
) -> None:
    """Write a view as one HTML page that answers in any browser, without a server. Costs no budget.

    Example: hdpview publish adult.pview -o adult.html
    """
    from hdpview.explore.publish import publish as write
    from hdpview.pview import PView

    opened = PView.open(view)
    write(opened, output_path, view.name)
    output.wrote(output_path, "; it holds the view and needs no network")
    output.warn_if_not_private(opened)
