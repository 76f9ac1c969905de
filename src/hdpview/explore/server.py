"""The server: a few JSON answers and the page's own files. Treats every request as untrusted.

Only the views it was started with are served. Requests are limited in size, time and number at once. Charts
are computed from released numbers in memory; SQL statements are evaluated in a child process with limits of
time and memory. The same question has the same answer, so recent answers are kept.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable, Mapping
from functools import cached_property
from importlib import resources
from inspect import signature
from typing import Annotated, Any, Literal
from urllib.parse import quote, unquote

import anyio
from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ConfigDict, Field
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hdpview._version import __version__
from hdpview.errors import HdpviewError, QueryError, unknown_name
from hdpview.explore import answers
from hdpview.explore.cache import LruCache
from hdpview.explore.child import Pool
from hdpview.explore.publish import page_content
from hdpview.pview import PView

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")  # as names of hosts in requests
MAX_BODY_BYTES = 200_000
ANSWER_SECONDS = 20.0
_AT_ONCE = 2  # answers computed at the same time; others wait their turn
_KEPT_BYTES = 16_000_000  # of recent answers
_COOKIE = "hdpview_token"
_POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; "
)
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

_IN_WORDS = {
    "application/json": {
        "schema": {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
    }
}
_REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"description": "Refused; the reason in words.", "content": _IN_WORDS},
    401: {"description": "The token is missing.", "content": _IN_WORDS},
    413: {"description": "The request is too long.", "content": _IN_WORDS},
    422: {"description": "The request is not of the form asked for.", "content": _IN_WORDS},
    503: {"description": "The answer took too long.", "content": _IN_WORDS},
}
_FILES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file.", "content": {"text/csv": {}, "application/vnd.apache.parquet": {}}},
    **_REFUSALS,
}

Confidence = Annotated[float, Field(ge=0.5, le=0.9999)]
Sql = Annotated[str, Field(max_length=100_000)]


class TooSlowError(QueryError):
    """A question took longer than the server allows."""


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
    attributes: list[Annotated[str, Field(max_length=300)]] | None = Field(
        None, max_length=1_000, description="Whose histograms are asked for; all by default."
    )
    shares: bool = Field(False, description="Whether to tell the shares of values beside their counts.")


class PairQuestion(_Body):
    """Two attributes, and a condition."""

    first: str = Field(max_length=300)
    second: str = Field(max_length=300)
    where: Sql | None = None


class TableQuestion(SqlQuestion):
    """A SELECT statement, and the kind of file to put its result in."""

    format: Literal["csv", "parquet"] = "csv"


class CompareQuestion(_Body):
    """Two conditions."""

    first: Sql | None = None
    second: Sql | None = None


class SharesQuestion(CompareQuestion):
    """Two conditions, and the attribute by whose values their records share out."""

    attribute: str = Field(max_length=300)


class RatesQuestion(_Body):
    """An outcome as a condition, the attribute by whose values it is told, and a condition on the records."""

    outcome: Sql
    attribute: str = Field(max_length=300)
    where: Sql | None = None


def create_app(
    views: Mapping[str, PView],
    token: str | None = None,
    hosts: tuple[str, ...] = LOOPBACK,
    framed_by: tuple[str, ...] = ("'self'",),
) -> FastAPI:
    """The application over these views.

    Args:
        views: what is served, by name; nothing else is.
        token: a secret that every request must carry.
        hosts: names that the server answers to; others are refused, so that no foreign page can pass for it.
        framed_by: pages that may show this one in a frame, as Content-Security-Policy writes them.
    """
    app = FastAPI(
        title="hdpview explorer",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    app.add_middleware(Guard, token=token, framed_by=framed_by)  # the outermost
    refuse_in_words(app)
    answerer = _Answerer(views)
    _add_facts(app, answerer)
    _add_charts(app, answerer)
    _add_statements(app, answerer)
    app.state.start_statements = lambda: answerer.statements.start()
    app.mount("/", StaticFiles(directory=str(resources.files("hdpview.explore") / "static"), html=True))
    return app


class _Answerer:
    """Where questions are answered: a few at a time, none for too long, recent ones from memory."""

    def __init__(self, views: Mapping[str, PView]) -> None:
        self.views = views
        self._turns, self._recent = anyio.CapacityLimiter(_AT_ONCE), LruCache[bytes](_KEPT_BYTES)
        self._contents: dict[str, bytes] = {}

    @cached_property
    def statements(self) -> Pool:
        """Where SQL is evaluated; started by the first statement, unless somebody started it before."""
        return Pool(("hdpview.explore.answers", "Statements"), self.views, 1)

    def chosen(self, name: str | None) -> tuple[str, PView]:
        """A view and its name; the first one by default."""
        name = next(iter(self.views)) if name is None else name
        if name not in self.views:
            raise QueryError(unknown_name("view", name[:100], self.views, "Served are"))
        return name, self.views[name]

    async def computed(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """What the work gives, done in a thread when its turn has come."""
        with anyio.move_on_after(
            ANSWER_SECONDS
        ):  # the thread runs on and keeps its turn, so slow questions cannot pile up
            return await anyio.to_thread.run_sync(
                work, *arguments, limiter=self._turns, abandon_on_cancel=True
            )
        raise TooSlowError(f"This took longer than {ANSWER_SECONDS:g} seconds. Ask for less at once.")

    async def content(self, name: str | None) -> Response:
        """What the engine beside the page computes from, as JSON; kept, since every visitor asks for it."""
        chosen, view = self.chosen(name)
        if chosen not in self._contents:
            self._contents[chosen] = await self.computed(lambda: _as_json(page_content(view, chosen)))
        return Response(self._contents[chosen], media_type="application/json")

    async def answered(self, work: Callable[..., Any], asked: _Body) -> Response:
        """The answer to a request as JSON, from among the recent ones if it is there.

        work: takes the view, and those fields of the request that it has parameters for.
        """
        name, view = self.chosen(asked.view)
        fields = asked.model_dump(include=set(signature(work).parameters), exclude={"view"})
        key = (work.__name__, name, json.dumps(fields))
        body = self._recent.get(key)
        if body is None:
            body = await self.computed(lambda: _as_json(work(view, **fields)))
            self._recent.keep(key, body, len(body))
        return Response(body, media_type="application/json")


def _as_json(answer: Any) -> bytes:
    return json.dumps(answer, separators=(",", ":"), allow_nan=False).encode()


def refuse_in_words(app: FastAPI) -> None:
    """Whatever goes wrong is answered by a sentence."""

    @app.exception_handler(HdpviewError)
    async def in_words(_: Request, problem: HdpviewError) -> JSONResponse:
        return JSONResponse(
            {"error": str(problem)}, status_code=503 if isinstance(problem, TooSlowError) else 400
        )

    @app.exception_handler(HTTPException)
    async def refused(_: Request, problem: HTTPException) -> JSONResponse:
        return JSONResponse(
            {"error": str(problem.detail)}, status_code=problem.status_code, headers=problem.headers
        )

    @app.exception_handler(RequestValidationError)
    async def misunderstood(_: Request, problem: RequestValidationError) -> JSONResponse:
        problems = [
            f"{'.'.join(str(part) for part in each['loc'][1:]) or 'the body'}: {each['msg']}"
            for each in problem.errors()
        ]
        return JSONResponse(
            {"error": "The request was not understood: " + "; ".join(problems)[:500]}, status_code=422
        )


def _add_facts(app: FastAPI, answerer: _Answerer) -> None:
    """What is public about the views."""

    @app.get("/api/views", summary="The views that are served")
    async def list_views() -> list[dict[str, Any]]:
        return [
            await answerer.computed(answers.describe, name, view) for name, view in answerer.views.items()
        ]

    @app.get("/api/schema", summary="All that is public about a view", responses=_REFUSALS)
    async def schema(view: Annotated[str | None, Query(max_length=300)] = None) -> dict[str, Any]:
        described: dict[str, Any] = await answerer.computed(answers.describe_schema, *answerer.chosen(view))
        return described

    @app.get("/api/content", summary="The released numbers that the page computes from", responses=_REFUSALS)
    async def content(view: Annotated[str | None, Query(max_length=300)] = None) -> Response:
        return await answerer.content(view)


def _add_charts(app: FastAPI, answerer: _Answerer) -> None:
    """What charts and pictures are drawn from."""

    @app.post(
        "/api/histograms", summary="The count and all histograms under a condition", responses=_REFUSALS
    )
    async def histograms(asked: HistogramQuestion) -> Response:
        return await answerer.answered(answers.histogram_answer, asked)

    @app.post("/api/pairs", summary="Counts of all combinations of two attributes", responses=_REFUSALS)
    async def pairs(asked: PairQuestion) -> Response:
        return await answerer.answered(answers.pair_answer, asked)

    @app.post("/api/compare", summary="Whether two counts differ", responses=_REFUSALS)
    async def compare(asked: CompareQuestion) -> Response:
        return await answerer.answered(answers.compare_answer, asked)

    @app.post(
        "/api/shares", summary="How the records of two conditions share out, and differ", responses=_REFUSALS
    )
    async def shares(asked: SharesQuestion) -> Response:
        return await answerer.answered(answers.shares_answer, asked)

    @app.post(
        "/api/rates", summary="How often an outcome holds, by an attribute's values", responses=_REFUSALS
    )
    async def rates(asked: RatesQuestion) -> Response:
        return await answerer.answered(answers.rates_answer, asked)


def _add_statements(app: FastAPI, answerer: _Answerer) -> None:
    """SQL, answered on the page or as a file."""

    @app.post("/api/sql", summary="Answer a SELECT statement", responses=_REFUSALS)
    async def sql(asked: SqlQuestion) -> Response:
        name, _ = answerer.chosen(asked.view)

        def in_child(view: PView, sql: str, confidence: float) -> Any:  # noqa: ARG001 the child has its own
            return answerer.statements.ask("sql", name, sql, confidence)

        return await answerer.answered(in_child, asked)

    @app.post(
        "/api/table",
        summary="The result of a SELECT statement as a file, with intervals",
        responses=_FILES,
        response_class=Response,
    )
    async def table(asked: TableQuestion) -> Response:
        name, _ = answerer.chosen(asked.view)
        body = await answerer.computed(
            answerer.statements.ask, "table", name, asked.sql, asked.confidence, asked.format
        )
        kind = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}[asked.format]
        return Response(
            body,
            media_type=kind,
            headers={"Content-Disposition": f'attachment; filename="result.{asked.format}"'},
        )


class Guard:
    """Refuses requests that are too long or lack the token, and puts the headers on every answer."""

    def __init__(
        self,
        app: ASGIApp,
        token: str | None,
        framed_by: tuple[str, ...],
        cookie_name: str = _COOKIE,
        max_body_bytes: int = MAX_BODY_BYTES,
    ) -> None:
        self._app, self._token = app, token
        self._cookie_name, self._max_body_bytes = cookie_name, max_body_bytes
        self._headers = {
            **_HEADERS,
            "Content-Security-Policy": f"{_POLICY}frame-ancestors {' '.join(framed_by)}",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        refusal = _refusal(request, self._token, self._cookie_name, self._max_body_bytes)
        cookie = (
            self._token
            if refusal is None and self._token is not None and request.query_params.get("token")
            else None
        )

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(self._headers)
                if cookie is not None:
                    baked = Response()
                    baked.set_cookie(
                        self._cookie_name, quote(cookie, safe=""), httponly=True, samesite="strict"
                    )
                    headers.append("set-cookie", baked.headers["set-cookie"])
            await send(message)

        await (refusal or self._app)(scope, receive, send_with_headers)


def _refusal(request: Request, token: str | None, cookie_name: str, max_body_bytes: int) -> Response | None:
    """Why a request is not answered at all."""
    size = request.headers.get("content-length", "0")
    if (
        not size.isdigit()
        or int(size) > max_body_bytes
        or "chunked" in request.headers.get("transfer-encoding", "")
    ):
        return JSONResponse(
            {"error": f"Requests are limited to {max_body_bytes:,} bytes, of stated length."}, status_code=413
        )
    if token is None:
        return None
    header = request.headers.get("authorization", "").removeprefix("Bearer ")
    given = request.query_params.get("token") or unquote(request.cookies.get(cookie_name, "")) or header
    if hmac.compare_digest(given.encode(), token.encode()):
        return None
    return JSONResponse(
        {"error": "This page asks for its token: open the link that was printed when it started."},
        status_code=401,
    )
