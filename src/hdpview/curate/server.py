"""The server of the curator's page. It sees the table, so it answers this machine alone, and only with the
token that was printed when it started.
"""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable
from contextlib import ExitStack
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from pydantic import Field
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from hdpview._version import __version__
from hdpview.curate.forms import Document, Form, Names, Price, Saved
from hdpview.curate.job import BuildJob, Order, checked_name
from hdpview.curate.work import Curation
from hdpview.errors import HdpviewError, ViewFileError
from hdpview.explore.server import LOOPBACK, Guard, refuse_in_words
from hdpview.pview import PView
from hdpview.view.diagnosis import in_brief

MAX_BODY_BYTES = 4_000_000  # a schema with many values
_COOKIE = "hdpview_curate_token"
Rows = Annotated[int, Field(ge=1, le=10**12)]


class Described(Form):
    """A schema as the page has it."""

    document: Document


class Learning(Saved, Price):
    """Columns to learn about, and for what price."""

    columns: Names


class Forecast(Described, Price):
    """A budget to judge."""

    rows: Rows


class Building(Described, Order):
    """A view to build. confirmed: even where a column cannot be read."""

    confirmed: bool = False


class _Open:
    """What the page has opened beside itself: explorers and database servers, ended with it."""

    def __init__(self) -> None:
        self.stack = ExitStack()
        self._lock = threading.Lock()

    def explorer(self, name: str, view: PView) -> str:
        from hdpview.explore.notebook import explore

        with self._lock:
            running = explore({name: view})
            self.stack.callback(running.stop)
            return running.url

    def database(self, name: str, view: PView) -> int:
        from hdpview.explore.postgres import PostgresServer, ServerSettings

        with self._lock:
            server = PostgresServer({name.removesuffix(".pview"): view}, ServerSettings(port=0))
            return self.stack.enter_context(server).port


def create_app(work: Curation, token: str) -> FastAPI:
    """The application over one table."""
    app = FastAPI(
        title="hdpview curate", version=__version__, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(LOOPBACK))
    app.add_middleware(_OwnPagesOnly)
    app.add_middleware(
        Guard, token=token, framed_by=("'none'",), cookie_name=_COOKIE, max_body_bytes=MAX_BODY_BYTES
    )
    refuse_in_words(app)
    job, opened = BuildJob(work), _Open()
    app.state.job, app.state.opened = job, opened
    _add_description(app, work)
    _add_budget(app, work)
    _add_build(app, work, job)
    _add_view(app, work, job, opened)
    explorers = resources.files("hdpview.explore") / "static"

    for served, name in (("look.css", "style.css"), ("parts.js", "parts.js"), ("settings.js", "settings.js")):
        app.add_api_route(f"/{served}", _file(explorers / name))
    app.mount("/", StaticFiles(directory=str(resources.files("hdpview.curate") / "static"), html=True))
    return app


def _file(path: Traversable) -> Callable[[], FileResponse]:
    """What answers with a file."""
    return lambda: FileResponse(str(path))


class _OwnPagesOnly:
    """Refuses requests that pages of other origins send, such as of other servers on this machine."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Request(scope).headers
            origin = headers.get("origin")
            if origin is not None and urlsplit(origin).netloc != headers.get("host"):
                refusal = JSONResponse({"error": "Only the curator's own page may ask."}, status_code=403)
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)


def _add_description(app: FastAPI, work: Curation) -> None:
    """Step 1: the columns, and the schema that they make."""

    @app.get("/api/table")
    def table() -> dict[str, Any]:
        return work.described()

    @app.post("/api/check")
    def check(asked: Saved) -> dict[str, Any]:
        return {"version": work.keep(asked), **work.checked(asked.document)}

    @app.post("/api/save")
    def save(asked: Described) -> dict[str, Any]:
        return {"path": work.save_schema(asked.document)}

    @app.post("/api/learn")
    def learn(asked: Learning) -> dict[str, Any]:
        saved = Saved(document=asked.document, settings=asked.settings, version=asked.version)
        return work.learnt(saved, asked.columns, asked)


def _add_budget(app: FastAPI, work: Curation) -> None:
    """Step 2: what a budget buys, and what of it is left."""

    @app.get("/api/ledger")
    def ledger() -> dict[str, Any]:
        return work.budget()

    @app.post("/api/estimate")
    def estimate(asked: Forecast) -> dict[str, Any]:
        return work.estimate(asked.document, asked.rows, asked)


def _add_build(app: FastAPI, work: Curation, job: BuildJob) -> None:
    """Step 3: the build."""

    @app.post("/api/command")
    def command(asked: Building) -> dict[str, Any]:
        return {"command": asked.command(work)}

    @app.post("/api/build")
    def build(asked: Building) -> dict[str, Any]:
        return _begin(work, job, asked)

    @app.get("/api/build")
    def progress() -> dict[str, Any]:
        return _progress(work, job)

    @app.post("/api/cancel")
    def cancel() -> dict[str, Any]:
        job.cancel()
        return {}


def _begin(work: Curation, job: BuildJob, asked: Building) -> dict[str, Any]:
    """Start a build, or ask first where much of a column would be lost."""
    asked.exact()
    _, schema = work.schema_of(asked.document)
    job.accept_losses = asked.confirmed
    if not asked.confirmed:
        blocking = [str(warning) for warning in work.warnings_about(schema) if warning.is_blocking]
        if blocking:
            return {"asks": blocking}
    work.save_schema(asked.document)
    job.start(schema, asked)
    return {"asks": []}


def _progress(work: Curation, job: BuildJob) -> dict[str, Any]:
    state: dict[str, Any] = {
        "state": job.state,
        "stage": job.stage,
        "fraction": job.fraction,
        "message": job.message,
    }
    if job.state in ("done", "failed", "cancelled"):
        state["ledger"] = work.budget()
    if job.state == "done" and job.view is not None and job.path is not None:
        name = job.path.name
        state["result"] = {
            "view": name,
            "path": str(job.path),
            "bytes": job.path.stat().st_size if job.path.exists() else None,
            "about": str(job.view),
            "private": job.view.manifest.is_private,
            "findings": in_brief(job.view.diagnosis()),
            "commands": {
                "explore": shlex.join(["hdpview", "explore", name]),
                "publish": shlex.join(["hdpview", "publish", name, "-o", _page_name(name)]),
                "serve": shlex.join(["hdpview", "serve", name, "--postgres"]),
                "card": shlex.join(["hdpview", "info", name, "--card", "-o", _card_name(name)]),
            },
        }
    return state


def _page_name(view: str) -> str:
    return view.removesuffix(".pview") + ".html"


def _card_name(view: str) -> str:
    return view.removesuffix(".pview") + "-card.html"


def _add_view(app: FastAPI, work: Curation, job: BuildJob, opened: _Open) -> None:
    """After step 3: what the view is good for."""

    def built() -> tuple[str, PView]:
        if job.view is None or job.path is None:
            raise ViewFileError("There is no view yet. Build one first.")
        return job.path.name, job.view

    def write(name: str, save: Callable[[Path], object]) -> dict[str, Any]:
        target = work.folder / checked_name(name, ".html")
        save(target)
        return {"path": str(target.resolve()), "bytes": target.stat().st_size}

    @app.get("/card", response_class=HTMLResponse)
    def card() -> str:
        return built()[1].privacy_card().html

    @app.post("/api/explore")
    def explore() -> dict[str, Any]:
        return {"url": opened.explorer(*built())}

    @app.post("/api/publish")
    def publish() -> dict[str, Any]:
        name, view = built()
        page = _page_name(name)
        if (work.folder / page).exists():
            raise HdpviewError(f"{page} is there already. Move it away first.")
        return write(page, view.publish)

    @app.post("/api/keep-card")
    def keep_card() -> dict[str, Any]:
        name, view = built()
        return write(_card_name(name), view.privacy_card().save)

    @app.post("/api/serve")
    def serve() -> dict[str, Any]:
        port = opened.database(*built())
        return {"port": port, "command": f"psql -h 127.0.0.1 -p {port} -U analyst hdpview"}
