"""The server of the curator's page. It sees the table, so it answers this machine alone, and only with the
token that was printed when it started.
"""

from __future__ import annotations

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
from hdpview.curate.curation import Curation
from hdpview.curate.forms import BudgetForm, Document, Form, Names, Saved, command_line
from hdpview.curate.job import BuildJob, BuildRequest, checked_name
from hdpview.errors import HdpviewError, ViewFileError
from hdpview.explore.page_server import LOOPBACK, Guard, refuse_in_words
from hdpview.pview import PView
from hdpview.view.diagnosis import in_brief

MAX_BODY_BYTES = 4_000_000  # a schema with many values
_COOKIE = "hdpview_curate_token"
Rows = Annotated[int, Field(ge=1, le=10**12)]


class Described(Form):
    """A schema as the page has it."""

    document: Document


class Learning(Saved, BudgetForm):
    """Columns to learn about, and the budget for it."""

    columns: Names


class Forecast(Described, BudgetForm):
    """A budget to evaluate."""

    rows: Rows


class Building(Described, BuildRequest):
    """A view to build. confirmed: even if much of a column would be lost."""

    confirmed: bool = False


class _Open:
    """Explorers and database servers that the page has started. They end with it."""

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


def create_app(curation: Curation, token: str) -> FastAPI:
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
    job, opened = BuildJob(curation), _Open()
    app.state.job, app.state.opened = job, opened
    _add_description(app, curation)
    _add_budget(app, curation)
    _add_build(app, curation, job)
    _add_view(app, curation, job, opened)
    explorers = resources.files("hdpview.explore") / "static"

    for served, name in (("look.css", "style.css"), ("parts.js", "parts.js"), ("settings.js", "settings.js")):
        app.add_api_route(f"/{served}", _file(explorers / name))
    app.mount("/", StaticFiles(directory=str(resources.files("hdpview.curate") / "static"), html=True))
    return app


def _file(path: Traversable) -> Callable[[], FileResponse]:
    """A request handler that sends a file."""
    return lambda: FileResponse(str(path))


class _OwnPagesOnly:
    """Refuse requests from pages of other origins, such as other servers on this machine."""

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


def _add_description(app: FastAPI, curation: Curation) -> None:
    """Step 1: the columns, and the schema that they make."""

    @app.get("/api/table")
    def table() -> dict[str, Any]:
        return curation.described()

    @app.post("/api/check")
    def check(asked: Saved) -> dict[str, Any]:
        return {"version": curation.keep(asked), **curation.checked(asked.document)}

    @app.post("/api/save")
    def save(asked: Described) -> dict[str, Any]:
        return {"path": curation.save_schema(asked.document)}

    @app.post("/api/learn")
    def learn(asked: Learning) -> dict[str, Any]:
        saved = Saved(document=asked.document, settings=asked.settings, version=asked.version)
        return curation.learnt(saved, asked.columns, asked)


def _add_budget(app: FastAPI, curation: Curation) -> None:
    """Step 2: the errors to expect from a budget, and the budget left."""

    @app.get("/api/ledger")
    def ledger() -> dict[str, Any]:
        return curation.budget()

    @app.post("/api/estimate")
    def estimate(asked: Forecast) -> dict[str, Any]:
        return curation.estimate(asked.document, asked.rows, asked)


def _add_build(app: FastAPI, curation: Curation, job: BuildJob) -> None:
    """Step 3: the build."""

    @app.post("/api/command")
    def command(asked: Building) -> dict[str, Any]:
        return {"command": asked.command(curation)}

    @app.post("/api/build")
    def build(asked: Building) -> dict[str, Any]:
        return _begin(curation, job, asked)

    @app.get("/api/build")
    def progress() -> dict[str, Any]:
        return _progress(curation, job)

    @app.post("/api/cancel")
    def cancel() -> dict[str, Any]:
        job.cancel()
        return {}


def _begin(curation: Curation, job: BuildJob, asked: Building) -> dict[str, Any]:
    """Start a build, or ask first if much of a column would be lost."""
    asked.exact()
    _, schema = curation.schema_of(asked.document)
    job.accept_losses = asked.confirmed
    if not asked.confirmed:
        blocking = [str(warning) for warning in curation.warnings_about(schema) if warning.is_blocking]
        if blocking:
            return {"asks": blocking}
    curation.save_schema(asked.document)
    job.start(schema, asked)
    return {"asks": []}


def _progress(curation: Curation, job: BuildJob) -> dict[str, Any]:
    state = {key: getattr(job, key) for key in ("state", "stage", "fraction", "message")}
    if job.state in ("done", "failed", "cancelled"):
        state["ledger"] = curation.budget()
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
                "explore": command_line("explore", name),
                "publish": command_line("publish", name, o=_beside(name, ".html")),
                "serve": command_line("serve", name),
                "card": command_line("info", name, "--card", o=_beside(name, "-card.html")),
            },
        }
    return state


def _beside(view: str, ending: str) -> str:
    return view.removesuffix(".pview") + ending


def _add_view(app: FastAPI, curation: Curation, job: BuildJob, opened: _Open) -> None:
    """After step 3: uses of the view."""

    def built() -> tuple[str, PView]:
        if job.view is None or job.path is None:
            raise ViewFileError("There is no view yet. Build one first.")
        return job.path.name, job.view

    def write(name: str, save: Callable[[Path], object]) -> dict[str, Any]:
        target = curation.folder / checked_name(name, ".html")
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
        page = _beside(name, ".html")
        if (curation.folder / page).exists():
            raise HdpviewError(f"{page} already exists. Move it away first.")
        return write(page, view.publish)

    @app.post("/api/keep-card")
    def keep_card() -> dict[str, Any]:
        name, view = built()
        return write(_beside(name, "-card.html"), view.privacy_card().save)

    @app.post("/api/serve")
    def serve() -> dict[str, Any]:
        port = opened.database(*built())
        return {"port": port, "command": f"psql -h 127.0.0.1 -p {port} -U analyst hdpview"}
