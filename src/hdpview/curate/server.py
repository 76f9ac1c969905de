"""The server of the curator's page. It sees the table, so it answers this machine alone, and only with the
token that was printed when it started.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import resources
from typing import Any
from urllib.parse import urlsplit

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from fastapi.staticfiles import StaticFiles
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from hdpview._version import __version__
from hdpview.curate.curation import Curation
from hdpview.curate.job import BuildJob, BuiltView
from hdpview.explore.page_server import LOOPBACK, Guard, refuse_in_words

MAX_BODY_BYTES = 4_000_000  # a schema with many values
_COOKIE = "hdpview_curate_token"


def create_app(curation: Curation, token: str) -> FastAPI:
    """The application over one table."""
    app = FastAPI(
        title="hdpview curate", version=__version__, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(LOOPBACK))
    app.add_middleware(_OwnPagesOnly)
    guard: dict[str, Any] = {"framed_by": ("'none'",), "cookie_name": _COOKIE}
    app.add_middleware(Guard, token=token, max_body_bytes=MAX_BODY_BYTES, **guard)
    refuse_in_words(app)
    job = BuildJob(curation)
    view = BuiltView(job)
    app.state.job, app.state.opened = job, view
    answers: dict[str, Callable[..., Any]] = {
        "table": curation.described,
        "ledger": curation.budget,
        "build": job.status,
    }
    actions: dict[str, Callable[..., Any]] = {
        "check": curation.check,
        "save": curation.save,
        "learn": curation.learn,
        "estimate": curation.estimate,
        "command": job.command,
        "build": job.begin,
        "cancel": job.cancel,
        "explore": view.explore,
        "publish": view.publish,
        "keep-card": view.keep_card,
        "serve": view.serve,
    }
    for name, answer in answers.items():
        app.add_api_route(f"/api/{name}", answer)
    for name, action in actions.items():
        app.add_api_route(f"/api/{name}", action, methods=["POST"])
    app.add_api_route("/card", view.card, response_class=HTMLResponse)
    explorer = resources.files("hdpview.explore") / "static"
    for served, name in (("look.css", "style.css"), ("parts.js", "parts.js"), ("settings.js", "settings.js")):
        app.add_api_route(f"/{served}", _sends(str(explorer / name)))
    app.mount("/", StaticFiles(directory=str(resources.files("hdpview.curate") / "static"), html=True))
    return app


def _sends(file: str) -> Callable[[], FileResponse]:
    return lambda: FileResponse(file)


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
