"""The server: a few JSON answers and the page's own files. Treats every request as untrusted.

It serves only the views it was started with. Requests are limited in size, time and concurrency. Charts are
computed from released numbers in memory; SQL statements are evaluated in a child process with limits of time
and memory. The same question has the same answer, so recent answers are kept.
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
from hdpview.explore import page_answers as answers
from hdpview.explore.cache import LruCache
from hdpview.explore.child import Pool
from hdpview.explore.publish import compact_json, page_content
from hdpview.pview import PView

# Host names of this machine in requests.
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
MAX_BODY_BYTES = 200_000
ANSWER_SECONDS = 20.0
# Maximum number of simultaneous answers; other requests wait their turn.
_MAX_ANSWERS = 2
# Maximum bytes of recent answers in the cache.
_KEPT_BYTES = 16_000_000
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

# The form of all refusals, for the OpenAPI description.
_IN_WORDS = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"description": meaning, "content": {"application/json": {"schema": _IN_WORDS}}}
    for status, meaning in {
        400: "Refused, with the reason.",
        401: "The token is missing.",
        413: "The request is too long.",
        422: "The request does not have the required form.",
        503: "The answer took too long.",
    }.items()
}
_FILES: dict[int | str, dict[str, Any]] = {
    200: {"description": "The file.", "content": {"text/csv": {}, "application/vnd.apache.parquet": {}}}
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
    """A condition, and separate conditions for single attributes, because a chart does not filter itself."""

    where: Sql | None = None
    own: dict[str, Sql | None] = Field(default_factory=dict, max_length=1_000)
    attributes: list[Annotated[str, Field(max_length=300)]] | None = Field(
        None, max_length=1_000, description="Attributes of the histograms; all by default."
    )
    shares: bool = Field(False, description="Also the share of each value.")


class PairQuestion(_Body):
    """Two attributes, and a condition."""

    first: str = Field(max_length=300)
    second: str = Field(max_length=300)
    where: Sql | None = None


class TableQuestion(SqlQuestion):
    """A SELECT statement, and the file format of its result."""

    format: Literal["csv", "parquet"] = "csv"


class CompareQuestion(_Body):
    """Two conditions."""

    first: Sql | None = None
    second: Sql | None = None


class SharesQuestion(CompareQuestion):
    """Two conditions, and the attribute to break their records down by."""

    attribute: str = Field(max_length=300)


def create_app(
    views: Mapping[str, PView],
    token: str | None = None,
    hosts: tuple[str, ...] = LOOPBACK,
    framed_by: tuple[str, ...] = ("'self'",),
) -> FastAPI:
    """The application over these views.

    Args:
        views: the only views that are served, by name.
        token: a secret that every request must carry.
        hosts: host names that the server accepts; others are refused, so that no foreign page can impersonate
            it.
        framed_by: pages that may show this one in a frame, as Content-Security-Policy writes them.
    """
    app = FastAPI(
        title="hdpview explorer",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        responses=_REFUSALS,
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
    """Answers questions: a few at a time, none for too long, recent ones from a cache."""

    def __init__(self, views: Mapping[str, PView]) -> None:
        self.views = views
        self._turns, self._recent = anyio.CapacityLimiter(_MAX_ANSWERS), LruCache[bytes](_KEPT_BYTES)

    @cached_property
    def statements(self) -> Pool:
        """The evaluator of SQL; the first statement starts it if it is not running."""
        return Pool(("hdpview.explore.page_answers", "Statements"), self.views, 1)

    def chosen(self, name: str | None) -> tuple[str, PView]:
        """A view and its name; the first one by default."""
        name = next(iter(self.views)) if name is None else name
        if name not in self.views:
            raise QueryError(unknown_name("view", name[:100], self.views, "Served are"))
        return name, self.views[name]

    async def computed(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Do the work in a thread, when its turn comes, and return its result."""
        # A thread that takes too long runs on and keeps its turn, so slow questions cannot pile up.
        with anyio.move_on_after(ANSWER_SECONDS):
            return await anyio.to_thread.run_sync(
                work, *arguments, limiter=self._turns, abandon_on_cancel=True
            )
        raise TooSlowError(
            f"This took longer than {ANSWER_SECONDS:g} seconds. Split the question into several."
        )

    async def answered(self, work: Callable[..., Any], asked: _Body) -> Response:
        """The answer to a request as JSON, from the cache if possible.

        work: a function of the view and of fields of the request, by parameter name.
        """
        name, view = self.chosen(asked.view)
        fields = asked.model_dump(include=set(signature(work).parameters), exclude={"view"})
        key = (work.__name__, name, json.dumps(fields))
        body = self._recent.get(key)
        if body is None:
            body = await self.computed(lambda: compact_json(work(view, **fields)).encode())
            self._recent.keep(key, body, len(body))
        return Response(body, media_type="application/json")


def refuse_in_words(app: FastAPI) -> None:
    """Answer every error with a sentence."""

    @app.exception_handler(HdpviewError)
    async def in_words(_: Request, problem: HdpviewError) -> JSONResponse:
        return _refused(503 if isinstance(problem, TooSlowError) else 400, str(problem))

    @app.exception_handler(HTTPException)
    async def refused(_: Request, problem: HTTPException) -> JSONResponse:
        return _refused(problem.status_code, str(problem.detail), problem.headers)

    @app.exception_handler(RequestValidationError)
    async def misunderstood(_: Request, problem: RequestValidationError) -> JSONResponse:
        problems = [
            f"{'.'.join(str(part) for part in each['loc'][1:]) or 'the body'}: {each['msg']}"
            for each in problem.errors()
        ]
        return _refused(422, "The request was not understood: " + "; ".join(problems)[:500])


def _refused(status: int, reason: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": reason}, status_code=status, headers=headers)


def _add_facts(app: FastAPI, answerer: _Answerer) -> None:
    """Public facts about the views."""

    @app.get("/api/views", summary="The views that are served")
    async def list_views() -> list[dict[str, Any]]:
        return [
            await answerer.computed(answers.describe, name, view) for name, view in answerer.views.items()
        ]

    @app.get("/api/schema", summary="All that is public about a view")
    async def schema(view: Annotated[str | None, Query(max_length=300)] = None) -> dict[str, Any]:
        described: dict[str, Any] = await answerer.computed(answers.describe_schema, *answerer.chosen(view))
        return described

    @app.get("/api/content", summary="The released numbers that the page computes from")
    async def content(view: Annotated[str | None, Query(max_length=300)] = None) -> Response:
        name, _ = answerer.chosen(view)

        def content(view: PView) -> dict[str, Any]:
            return page_content(view, name)

        return await answerer.answered(content, _Body(view=name))


_CHARTS: tuple[tuple[str, type[_Body], Callable[..., Any], str], ...] = (
    ("histograms", HistogramQuestion, answers.histogram_answer, "Count and histograms under a condition"),
    ("pairs", PairQuestion, answers.pair_answer, "Counts of all combinations of two attributes"),
    ("compare", CompareQuestion, answers.compare_answer, "Two counts, and whether they differ"),
    ("shares", SharesQuestion, answers.shares_answer, "The breakdown of two groups by an attribute"),
)


def _add_charts(app: FastAPI, answerer: _Answerer) -> None:
    """Answers that contain the data of charts."""

    def endpoint(work: Callable[..., Any], question: type[_Body]) -> Callable[..., Any]:
        async def answered(asked: Any) -> Response:
            return await answerer.answered(work, asked)

        answered.__annotations__["asked"] = question  # FastAPI reads the form of a request here
        return answered

    for path, question, work, summary in _CHARTS:
        app.post(f"/api/{path}", summary=summary, name=path)(endpoint(work, question))


def _add_statements(app: FastAPI, answerer: _Answerer) -> None:
    """SQL, answered on the page or as a file."""

    @app.post("/api/sql", summary="Answer a SELECT statement")
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
        place = {"Content-Disposition": f'attachment; filename="result.{asked.format}"'}
        return Response(body, media_type=kind, headers=place)


class Guard:
    """Refuses requests that are too long or lack the token, and adds headers to every answer."""

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
        refusal = self._refusal(request)
        cookie = self._token if refusal is None and request.query_params.get("token") else None

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(self._headers)
                if cookie is not None:
                    value = f"{self._cookie_name}={quote(cookie, safe='')}"
                    headers.append("set-cookie", f"{value}; HttpOnly; Path=/; SameSite=strict")
            await send(message)

        await (refusal or self._app)(scope, receive, send_with_headers)

    def _refusal(self, request: Request) -> Response | None:
        """The reason to refuse a request; None if there is none."""
        headers, most = request.headers, self._max_body_bytes
        size, is_chunked = (
            headers.get("content-length", "0"),
            "chunked" in headers.get("transfer-encoding", ""),
        )
        if is_chunked or not size.isdigit() or int(size) > most:
            return _refused(413, f"Requests must state their length; the limit is {most:,} bytes.")
        cookie = unquote(request.cookies.get(self._cookie_name, ""))
        header = headers.get("authorization", "").removeprefix("Bearer ")
        given = request.query_params.get("token") or cookie or header
        if self._token is None or hmac.compare_digest(given.encode(), self._token.encode()):
            return None
        return _refused(
            401, "This page needs its access token: open the link printed when the server started."
        )
