"""Commands that serve views: to browsers, and to every tool that speaks PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hdpview.cli import output
from hdpview.errors import ViewFileError
from hdpview.machine import LOOPBACK_ADDRESSES

if TYPE_CHECKING:
    import socket

    from fastapi import FastAPI

    from hdpview.pview import PView

_SOON_SECONDS = 2.0
_POSTGRES_PORT = 5433
_YOUNG_OBJECTS = 20_000  # until the garbage collector looks at them: about thirty statements
PasswordFile = Annotated[
    Path | None,
    typer.Option(help="File with the password of clients; required unless listening on localhost."),
]


def explore(
    views: Annotated[
        list[Path], typer.Argument(metavar="VIEW…", help="One or more .pview files.", show_default=False)
    ],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8765,
    token: Annotated[
        str | None, typer.Option(help="Access token; required unless listening on localhost.")
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
    postgres: Annotated[
        bool,
        typer.Option("--postgres", help="Also speak the PostgreSQL wire protocol, as `hdpview serve` does."),
    ] = False,
    postgres_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Its port; 0 takes a free one.")
    ] = _POSTGRES_PORT,
    password_file: PasswordFile = None,
) -> None:
    """Explore views in a browser: filter by brushing, and see every chart follow. Costs no budget.

    Example: hdpview explore adult.pview --postgres
    """
    from contextlib import ExitStack

    if host not in LOOPBACK_ADDRESSES and not token:
        raise typer.BadParameter("listening beyond localhost needs --token.", param_hint="--host")
    _answer_with_one_thread()
    with ExitStack() as stack:
        opened = _opened(views)
        if postgres:
            from hdpview.explore.postgres import PostgresServer, ServerSettings

            settings = ServerSettings(host, postgres_port, _password(password_file))
            server = stack.enter_context(PostgresServer(_as_tables(opened), settings))
            typer.echo(_postgres_address(host, server.port))
        _serve(opened, host, port, token, no_open)


def serve(
    views: Annotated[
        list[Path], typer.Argument(metavar="VIEW…", help="One or more .pview files.", show_default=False)
    ],
    postgres: Annotated[
        bool, typer.Option("--postgres", help="Speak the PostgreSQL wire protocol (the default).")
    ] = False,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = _POSTGRES_PORT,
    password_file: PasswordFile = None,
    tls_cert: Annotated[
        Path | None, typer.Option(help="Certificate (PEM); unencrypted connections are then refused.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The certificate's key (PEM).")] = None,
    log_statements: Annotated[
        bool,
        typer.Option(
            "--log-statements",
            help="Log sessions and their statements. Off by default: questions are private.",
        ),
    ] = False,
) -> None:
    """Serve views as PostgreSQL tables to psql, DBeaver, Metabase, Excel, R and others. Costs no budget.

    Example: hdpview serve adult.pview
    """
    import asyncio

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
    asyncio.run(server.serve(lambda: typer.echo(f"{_postgres_address(host, server.port)}  (Ctrl-C ends it)")))


def _answer_with_one_thread() -> None:
    """Keep NumPy's linear algebra to one thread per answer, unless the environment says otherwise.

    Matrices here are small. On a busy machine threads that wait for each other double the time of an answer.
    """
    import os

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def _opened(paths: list[Path]) -> dict[str, PView]:
    from hdpview.pview import PView

    opened: dict[str, PView] = {}
    for path in paths:
        if path.name in opened:
            raise ViewFileError(
                f"Two views are called {path.name!r}. Rename one: they are told apart by name."
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


def _serve(opened: dict[str, PView], host: str, port: int, token: str | None, no_open: bool) -> None:
    from hdpview.explore.answers import warm_up
    from hdpview.explore.server import LOOPBACK, create_app

    with listening(host, port) as listener:
        _prepare(lambda: warm_up(opened.values()))
        app = create_app(opened, token, LOOPBACK if host in LOOPBACK_ADDRESSES else ("*",))
        threading.Thread(target=app.state.start_statements, daemon=True).start()
        run_app(app, listener, f"Exploring {', '.join(opened)}", token, no_open)


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """A socket bound to an address. A port that is taken is said in words."""
    import socket

    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as problem:
            raise ViewFileError(
                f"Cannot listen on {host}:{port}: {problem.strerror}. Try another --port, or 0 for a free "
                "one."
            ) from None
        yield listener


def run_app(app: FastAPI, listener: socket.socket, what: str, token: str | None, no_open: bool) -> None:
    """Serve pages on a socket until Ctrl-C. Says where they are, and opens a browser on them."""
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
    """Have everything ready before anyone asks: compiling takes longer than an answer may."""
    import gc

    at_work = threading.Thread(target=warm_up, daemon=True)
    at_work.start()
    at_work.join(_SOON_SECONDS)
    if at_work.is_alive():
        typer.echo(
            "Getting ready: the first time after an installation this can take half a minute.", err=True
        )
        at_work.join()
    # Libraries and views stay for good. Without this the garbage collector looks at them again and again, in
    # pauses longer than ten answers. What questions leave behind is collected in larger portions.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, 10, 10)


def publish(
    view: Annotated[Path, typer.Argument(metavar="VIEW", help="A .pview file.", show_default=False)],
    output_path: Annotated[
        Path, typer.Option("-o", "--output", help="The page to write.", show_default=False)
    ],
) -> None:
    """Write a view as one HTML page that answers in any browser, without a server. Costs no budget.

    Example: hdpview publish adult.pview -o adult.html
    """
    from hdpview.explore.publish import publish as write
    from hdpview.pview import PView

    opened = PView.open(view)
    write(opened, output_path, view.name)
    size = output_path.stat().st_size
    typer.echo(f"{output_path}: {size / 1000:,.0f} kB; it holds the view and needs no network")
    output.warn_if_not_private(opened)
