"""The server: a few JSON answers and the page's own files. Stateless, read-only, and careful with strangers.

Only the views it was started with are served. Requests are limited in size and in number at a time; answers are computed from blocks in
memory and reach no file, no shell and no database.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from importlib import resources
from typing import Annotated, Any

import anyio
from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ConfigDict, Field
from starlette.middleware.trustedhost import TrustedHostMiddleware

from hdpview._version import __version__
from hdpview.errors import HdpviewError, QueryError, unknown_name
from hdpview.explore import answers
from hdpview.pview import PView

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
MAX_BODY_BYTES = 200_000
_AT_ONCE = 4  # answers computed at the same time; others wait their turn
_COOKIE = "hdpview_token"
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

Confidence = Annotated[float, Field(ge=0.5, le=0.9999)]
Sql = Annotated[str, Field(max_length=100_000)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")
    view: str | None = Field(None, max_length=300, description="Name of a view; the first one by default.")
    confidence: Confidence = 0.95


class SqlQuestion(_Body):
    """A SELECT statement over the table `view`."""

    sql: Sql


class HistogramQuestion(_Body):
    """A condition, and for single attributes a condition of their own: a chart does not filter itself."""

    where: Sql | None = None
    own: dict[str, Sql | None] = Field(default_factory=dict, max_length=1_000)


class PairQuestion(_Body):
    """Two attributes, and a condition."""

    first: str = Field(max_length=300)
    second: str = Field(max_length=300)
    where: Sql | None = None


class CompareQuestion(_Body):
    """Two conditions."""

    first: Sql | None = None
    second: Sql | None = None


def create_app(views: Mapping[str, PView], token: str | None = None, hosts: tuple[str, ...] = LOOPBACK) -> FastAPI:
    """The application over these views. With a token, every request must carry it."""
    app = FastAPI(title="hdpview explorer", version=__version__, docs_url=None, redoc_url=None, openapi_url="/api/openapi.json")
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    turns = anyio.CapacityLimiter(_AT_ONCE)

    def chosen(name: str | None) -> tuple[str, PView]:
        name = next(iter(views)) if name is None else name
        if name not in views:
            raise QueryError(unknown_name("view", name[:100], views, "Served are"))
        return name, views[name]

    async def computed(work: Callable[..., Any], *arguments: Any) -> Any:
        return await anyio.to_thread.run_sync(work, *arguments, limiter=turns)

    @app.middleware("http")
    async def guard(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        refusal = _refusal(request, token)
        response = refusal if refusal is not None else await call_next(request)
        if token is not None and refusal is None and request.query_params.get("token"):
            response.set_cookie(_COOKIE, token, httponly=True, samesite="strict")
        response.headers.update(_HEADERS)
        return response

    @app.exception_handler(HdpviewError)
    async def in_words(_: Request, problem: HdpviewError) -> JSONResponse:
        return JSONResponse({"error": str(problem)}, status_code=400)

    @app.get("/api/views", summary="The views that are served")
    async def list_views() -> list[dict[str, Any]]:
        return [await computed(answers.describe, name, view) for name, view in views.items()]

    @app.get("/api/schema", summary="All that is public about a view", responses={400: {}})
    async def schema(view: Annotated[str | None, Query(max_length=300)] = None) -> dict[str, Any]:
        found: dict[str, Any] = await computed(answers.describe_schema, *chosen(view))
        return found

    @app.post("/api/sql", summary="Answer a SELECT statement", responses={400: {}})
    async def sql(question: SqlQuestion) -> dict[str, Any]:
        found: dict[str, Any] = await computed(answers.sql_answer, chosen(question.view)[1], question.sql, question.confidence)
        return found

    @app.post("/api/histograms", summary="The count and all histograms under a condition", responses={400: {}})
    async def histograms(question: HistogramQuestion) -> dict[str, Any]:
        view = chosen(question.view)[1]
        found: dict[str, Any] = await computed(answers.histogram_answer, view, question.where, question.own, question.confidence)
        return found

    @app.post("/api/pairs", summary="Counts of all combinations of two attributes", responses={400: {}})
    async def pairs(question: PairQuestion) -> dict[str, Any]:
        view = chosen(question.view)[1]
        asked = (view, question.where, question.first, question.second, question.confidence)
        found: dict[str, Any] = await computed(answers.pair_answer, *asked)
        return found

    @app.post("/api/compare", summary="Whether two counts differ", responses={400: {}})
    async def compare(question: CompareQuestion) -> dict[str, Any]:
        view = chosen(question.view)[1]
        found: dict[str, Any] = await computed(answers.compare_answer, view, question.first, question.second, question.confidence)
        return found

    app.mount("/", StaticFiles(directory=str(resources.files("hdpview.explore") / "static"), html=True))
    return app


def _refusal(request: Request, token: str | None) -> Response | None:
    """Why a request is not answered at all."""
    size = request.headers.get("content-length", "0")
    if not size.isdigit() or int(size) > MAX_BODY_BYTES or "chunked" in request.headers.get("transfer-encoding", ""):
        return JSONResponse({"error": f"Requests are limited to {MAX_BODY_BYTES:,} bytes, of stated length."}, status_code=413)
    if token is None:
        return None
    header = request.headers.get("authorization", "").removeprefix("Bearer ")
    given = request.query_params.get("token") or request.cookies.get(_COOKIE) or header
    if hmac.compare_digest(given.encode(), token.encode()):
        return None
    return JSONResponse({"error": "This explorer asks for its token: open the link that was printed when it started."}, status_code=401)
