"""The command that serves the explorer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hdpview.errors import ViewFileError

if TYPE_CHECKING:
    from hdpview.pview import PView

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_SOON_SECONDS = 2.0


def explore(
    views: Annotated[
        list[Path], typer.Argument(metavar="VIEW…", help="One or more .pview files.", show_default=False)
    ],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8765,
    token: Annotated[
        str | None, typer.Option(help="A secret that requests must carry; needed beyond this machine.")
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
) -> None:
    """Explore views in a browser: filter by brushing, and see every chart follow, with intervals. Costs no
    budget.

    Example: hdpview explore adult.pview
    """
    from hdpview.pview import PView

    if host not in _LOOPBACK and not token:
        raise typer.BadParameter(
            "listening beyond this machine needs --token, a secret that requests must carry.",
            param_hint="--host",
        )
    opened: dict[str, PView] = {}
    for path in views:
        if path.name in opened:
            raise ViewFileError(
                f"Two views are called {path.name!r}. Rename one: the page tells them apart by name."
            )
        opened[path.name] = PView.open(path)
    _serve(opened, host, port, token, no_open)


def _serve(opened: dict[str, PView], host: str, port: int, token: str | None, no_open: bool) -> None:
    import socket
    import webbrowser

    import uvicorn

    from hdpview.explore.server import create_app

    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as problem:
            raise ViewFileError(
                f"Cannot listen on {host}:{port}: {problem.strerror}. Try another --port, or 0 for a free one."
            ) from None
        address = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}/" + (
            f"?token={token}" if token else ""
        )
        _prepare(opened)
        typer.echo(f"Exploring {', '.join(opened)} at {address}  (Ctrl-C ends it)")
        if not no_open:
            webbrowser.open(address)
        hosts = ("127.0.0.1", "localhost", "[::1]", *(() if host in _LOOPBACK else ("*",)))
        app = create_app(opened, token, hosts)
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, limit_concurrency=200, timeout_keep_alive=5
        )
        uvicorn.Server(config).run(sockets=[listener])


def _prepare(opened: dict[str, PView]) -> None:
    """Have everything ready before anyone asks: compiling, the first time after an installation, takes longer
    than an answer may.
    """
    import threading

    from hdpview.explore.answers import warm_up

    at_work = threading.Thread(target=warm_up, args=(opened.values(),), daemon=True)
    at_work.start()
    at_work.join(_SOON_SECONDS)
    if at_work.is_alive():
        typer.echo(
            "Getting ready: the first time after an installation this can take half a minute.", err=True
        )
        at_work.join()


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
    if not opened.manifest.is_private:
        reasons = "; ".join(opened.manifest.not_private_because)
        typer.secho(f"This view is NOT PRIVATE: {reasons}", fg="red", err=True)
