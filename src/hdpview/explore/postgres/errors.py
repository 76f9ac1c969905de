"""Refusals as clients understand them: an SQLSTATE, a message, and the nearest question as a hint."""

from __future__ import annotations

import re

from hdpview.errors import HdpviewError, QueryError

SYNTAX_ERROR, UNDEFINED_COLUMN, UNDEFINED_FUNCTION = "42601", "42703", "42883"
UNDEFINED_TABLE, UNDEFINED_OBJECT, GROUPING_ERROR = "42P01", "42704", "42803"
FEATURE_NOT_SUPPORTED, READ_ONLY, QUERY_CANCELED = "0A000", "25006", "57014"
INVALID_PARAMETER, TOO_COMPLEX, IN_FAILED_TRANSACTION = "22023", "54001", "25P02"
PROTOCOL_VIOLATION, INVALID_PASSWORD, TOO_MANY_CONNECTIONS = "08P01", "28P01", "53300"
INVALID_CURSOR, INVALID_STATEMENT, INVALID_TEXT = "34000", "26000", "22P02"
INTERNAL_ERROR, INVALID_AUTHORIZATION, INVALID_DATABASE = "XX000", "28000", "3D000"
IDLE_TIMEOUT, DUPLICATE_STATEMENT, FIXED_PARAMETER = "57P05", "42P05", "55P02"

_SENTENCE = re.compile(r"(?<=[.?]) +(?=[A-Z])")
_SQLSTATES = (
    (r"Not valid SQL|Give exactly one|is not complete", SYNTAX_ERROR),
    (r"Unknown attribute|column '.*' does not exist", UNDEFINED_COLUMN),
    (r"function '.*' does not exist", UNDEFINED_FUNCTION),
    (r"There is no table|(table|relation) '.*' does not exist", UNDEFINED_TABLE),
    (r"stands outside an aggregate", GROUPING_ERROR),
    (r"takes longer|took too long", QUERY_CANCELED),
    (r"too deeply|longer than|too large|more memory", TOO_COMPLEX),
    (
        r"A parameter is not a valid|is not a number|Expected a |is compared with a|Unknown value",
        INVALID_TEXT,
    ),
    (r"Unknown setting", UNDEFINED_OBJECT),
)
_AS_POSTGRES = re.compile(r"quantile_cont\(([^,()]+), ([\d.]+)\)", re.IGNORECASE)


class PgError(QueryError):
    """A refusal with its SQLSTATE. fatal: whether the connection ends with it."""

    def __init__(self, code: str, message: str, hint: str = "", fatal: bool = False) -> None:
        super().__init__(message)
        self.code, self.hint, self.fatal = code, hint, fatal

    def __reduce__(self) -> tuple[type[PgError], tuple[str, str, str, bool]]:
        return PgError, (self.code, str(self), self.hint, self.fatal)


def as_pg_error(problem: HdpviewError, table: str = "view") -> PgError:
    """An error of the library as clients are told of it: its first sentence, and what to do as the hint.

    table: what the view is called here, for questions to ask instead.
    """
    if isinstance(problem, PgError):
        return problem
    text = str(problem)
    code = next((code for pattern, code in _SQLSTATES if re.search(pattern, text)), FEATURE_NOT_SUPPORTED)
    first, *others = _SENTENCE.split(text)
    hint = _AS_POSTGRES.sub(r"percentile_cont(\2) WITHIN GROUP (ORDER BY \1)", " ".join(others))
    return PgError(code, first, hint.replace("FROM view", f"FROM {table}"))
