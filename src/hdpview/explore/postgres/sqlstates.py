"""Errors in the form that clients expect: an SQLSTATE, a message, and the nearest question as a hint."""

from __future__ import annotations

import re

from hdpview.errors import HdpviewError, QueryError


class SqlState:
    """Codes of errors that clients understand."""

    PROTOCOL_VIOLATION = "08P01"
    FEATURE_NOT_SUPPORTED = "0A000"
    INVALID_PARAMETER = "22023"
    INVALID_TEXT = "22P02"
    READ_ONLY = "25006"
    IN_FAILED_TRANSACTION = "25P02"
    INVALID_STATEMENT = "26000"
    INVALID_AUTHORIZATION = "28000"
    INVALID_PASSWORD = "28P01"  # noqa: S105 a code
    INVALID_CURSOR = "34000"
    INVALID_DATABASE = "3D000"
    SYNTAX_ERROR = "42601"
    UNDEFINED_COLUMN = "42703"
    UNDEFINED_OBJECT = "42704"
    GROUPING_ERROR = "42803"
    UNDEFINED_FUNCTION = "42883"
    UNDEFINED_TABLE = "42P01"
    DUPLICATE_STATEMENT = "42P05"
    TOO_MANY_CONNECTIONS = "53300"
    TOO_COMPLEX = "54001"
    FIXED_PARAMETER = "55P02"
    QUERY_CANCELED = "57014"
    IDLE_TIMEOUT = "57P05"
    INTERNAL_ERROR = "XX000"


_SENTENCE = re.compile(r"(?<=[.?]) +(?=[A-Z])")
_SQLSTATES = (
    (r"must appear in the GROUP BY", SqlState.GROUPING_ERROR),
    (r"Not valid SQL|Give exactly one", SqlState.SYNTAX_ERROR),
    (r"Unknown attribute|column '.*' does not exist", SqlState.UNDEFINED_COLUMN),
    (r"function '.*' does not exist", SqlState.UNDEFINED_FUNCTION),
    (r"(table|relation) '.*' does not exist", SqlState.UNDEFINED_TABLE),
    (r"time limit|took too long", SqlState.QUERY_CANCELED),
    (r"too deeply|longer than|too large|memory limit", SqlState.TOO_COMPLEX),
    (
        r"A parameter is not a valid|Could not convert|is not a number|is compared with a|Unknown value",
        SqlState.INVALID_TEXT,
    ),
    (r"Unknown setting", SqlState.UNDEFINED_OBJECT),
)
_AS_POSTGRES = re.compile(r"quantile_cont\(([^,()]+), ([\d.]+)\)", re.IGNORECASE)


class PgError(QueryError):
    """A refusal with its SQLSTATE."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.code, self.hint = code, hint

    def __reduce__(self) -> tuple[type[PgError], tuple[str, str, str]]:
        return PgError, (self.code, str(self), self.hint)


def as_pg_error(problem: HdpviewError, table: str = "view") -> PgError:
    """An error of the library for clients: the first sentence is the message, the rest the hint.

    table: the name of the view here, for questions to ask instead.
    """
    if isinstance(problem, PgError):
        return problem
    text = str(problem)
    code = next(
        (code for pattern, code in _SQLSTATES if re.search(pattern, text)), SqlState.FEATURE_NOT_SUPPORTED
    )
    first, *others = _SENTENCE.split(text)
    hint = _AS_POSTGRES.sub(r"percentile_cont(\2) WITHIN GROUP (ORDER BY \1)", " ".join(others))
    return PgError(code, first, hint.replace("FROM view", f"FROM {table}"))
