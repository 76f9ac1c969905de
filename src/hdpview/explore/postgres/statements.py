"""Split a text into statements, and parse those that are not queries."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

import sqlglot

from hdpview.errors import QueryError
from hdpview.explore.postgres.names import quote_ident
from hdpview.explore.postgres.sqlstates import PgError, SqlState

MOST_CHARACTERS = 200_000
_MOST_STATEMENTS = 1_000
_QUESTIONS = ("SELECT", "WITH", "VALUES", "TABLE", "(")
_WRITES = (
    "INSERT UPDATE DELETE MERGE CREATE DROP ALTER TRUNCATE GRANT REVOKE COMMENT VACUUM ANALYZE REINDEX "
    "CLUSTER REFRESH LOCK CALL DO IMPORT SECURITY REASSIGN COPY"
)
NAME = r'(?:"(?:[^"]|"")+"|[A-Za-z_][\w$.]*)'


class _Form(NamedTuple):
    """The syntax of a kind of statement. usage: the hint for statements with another syntax."""

    pattern: re.Pattern[str]
    usage: str = ""


def _form(pattern: str, usage: str = "") -> _Form:
    return _Form(re.compile(pattern, re.IGNORECASE | re.DOTALL), usage)


_FORMS = {
    "SET": _form(
        rf"SET\s+(?:(?:SESSION|LOCAL)\s+(?!AUTHORIZATION|CHARACTERISTICS))?(?P<name>TIME\s+ZONE|{NAME})"
        r"\s*(?:=|\bTO\b)?\s*(?P<value>.+)",
        "Write SET hdpview.intervals = on.",
    ),
    "RESET": _form(rf"RESET\s+(?P<name>TIME\s+ZONE|{NAME})", "Write RESET hdpview.intervals, or RESET ALL."),
    "SHOW": _form(
        rf"SHOW\s+(?P<name>TIME\s+ZONE|TRANSACTION\s+ISOLATION\s+LEVEL|SESSION\s+AUTHORIZATION|{NAME})",
        "SHOW ALL lists the settings.",
    ),
    "DECLARE": _form(
        rf"DECLARE\s+(?P<name>{NAME})\s+(?:(?:INSENSITIVE|ASENSITIVE|NO\s+SCROLL)\s+)*"
        r"CURSOR\s+(?:WITH(?:OUT)?\s+HOLD\s+)?FOR\s+(?P<question>.*)",
        "Write DECLARE name CURSOR FOR SELECT …; cursors only go forward.",
    ),
    "FETCH": _form(
        r"FETCH\s+(?:(?P<count>NEXT|FORWARD|(?:FORWARD\s+)?(?:ALL|\d{1,18}))\s+)?(?:FROM\s+|IN\s+)?"
        rf"(?P<name>{NAME})",
        "Write FETCH 100 FROM name; cursors only go forward.",
    ),
    "CLOSE": _form(rf"CLOSE\s+(?P<name>{NAME})", "Write CLOSE name, or CLOSE ALL."),
    "DEALLOCATE": _form(
        rf"DEALLOCATE\s+(?:PREPARE\s+)?(?P<name>{NAME})", "Write DEALLOCATE name, or DEALLOCATE ALL."
    ),
    "COPY": _form(r"COPY\s+(?P<source>.*?)\s+TO\s+STDOUT\b\s*(?:WITH\s*)?(?P<options>.*)"),
}
_ANY_FORM = _form(".*")


# Settings reported to clients, under PostgreSQL's names.
_TITLES = (
    "server_version server_encoding client_encoding application_name default_transaction_read_only "
    "in_hot_standby is_superuser session_authorization DateStyle IntervalStyle TimeZone integer_datetimes "
    "standard_conforming_strings"
)
REPORTED = {title.lower(): title for title in _TITLES.split()}
# Names of settings that statements write as several words.
_SETTINGS = {
    "TIME ZONE": "timezone",
    "NAMES": "client_encoding",
    "TRANSACTION ISOLATION LEVEL": "transaction_isolation",
    "SESSION AUTHORIZATION": "session_authorization",
}
_ALL_SETTINGS = (
    "SELECT name, current_setting(name) AS setting, short_desc AS description FROM pg_settings ORDER BY name"
)


@dataclass(frozen=True)
class Statement:
    """One statement. word: its first word in capitals; "" for an empty one."""

    text: str
    word: str

    @property
    def question(self) -> str | None:
        """The SELECT that returns its rows: the statement, or for SHOW a query of the settings; else None."""
        if self.word != "SHOW":
            return self.text if self.word in _QUESTIONS else None
        name = setting_name(self.parts()["name"])
        literal, title = name.replace("'", "''"), quote_ident(REPORTED.get(name, name))
        return _ALL_SETTINGS if name == "all" else f"SELECT current_setting('{literal}') AS {title}"

    def parts(self) -> re.Match[str]:
        """Its parts, by the form of its kind."""
        form = _FORMS.get(self.word, _ANY_FORM)
        match = form.pattern.fullmatch(self.text)
        if match is None and self.word in _WRITES.split():
            raise self.refusal()
        if match is None:
            raise PgError(SqlState.SYNTAX_ERROR, f"syntax error in {self.word}", form.usage)
        return match

    def refusal(self) -> PgError:
        """The error for a statement that would change something or is unknown."""
        if self.word in _WRITES.split():
            is_copy = self.word == "COPY"
            return PgError(
                SqlState.READ_ONLY,
                f"cannot execute {self.word} in a read-only transaction",
                "Write COPY (SELECT …) TO STDOUT; psql's \\copy writes files."
                if is_copy
                else "A view cannot be changed. Query it with SELECT.",
            )
        word = self.text.split()[0][:30] if self.text else ""
        hint = "Query the view with SELECT."
        return PgError(SqlState.SYNTAX_ERROR, f'syntax error at or near "{word}"', hint)


@lru_cache(maxsize=500)
def split(text: str) -> tuple[Statement, ...]:
    """The statements of a text, without the semicolons between them."""
    if len(text) > MOST_CHARACTERS:
        raise QueryError(f"The text is longer than {MOST_CHARACTERS:,} characters.")
    try:
        tokens = sqlglot.tokenize(text, dialect="postgres")
    except sqlglot.errors.SqlglotError:
        raise PgError(SqlState.SYNTAX_ERROR, "Not valid SQL: a quotation or comment has no end.") from None
    statements: list[Statement] = []
    for is_end, group in groupby(tokens, lambda token: token.token_type is sqlglot.TokenType.SEMICOLON):
        if not is_end:
            own = list(group)
            piece = text[own[0].start : own[-1].end + 1]
            word = re.match(r"\(|[A-Za-z]*", piece)
            statements.append(Statement(piece, word[0].upper() if word else ""))
    if len(statements) > _MOST_STATEMENTS:
        raise QueryError(f"A text can contain at most {_MOST_STATEMENTS:,} statements.")
    return tuple(statements)


def one(text: str) -> Statement:
    """The only statement of a text to prepare."""
    statements = split(text)
    if len(statements) > 1:
        raise PgError(SqlState.SYNTAX_ERROR, "cannot insert multiple commands into a prepared statement")
    return statements[0] if statements else Statement("", "")


def with_quoted_aliases(text: str) -> str:
    """Quote SQL keywords that follow AS as names, such as `AS select`."""
    tokens = sqlglot.tokenize(text, dialect="postgres")
    pieces, at = [], 0
    for before, token, after in zip(tokens, tokens[1:], [*tokens[2:], None], strict=False):
        ends = after is None or after.text.upper() in (",", ")", "FROM", ";")
        if before.text.upper() == "AS" and ends and re.fullmatch("[A-Za-z]+", token.text):
            pieces += [text[at : token.start], f'"{token.text.lower()}"']
            at = token.end + 1
    return "".join([*pieces, text[at:]])


def setting_name(written: str) -> str:
    """The name of a setting in SET, RESET or SHOW."""
    return _SETTINGS.get(" ".join(written.upper().split()), plain_name(written))


def plain_name(name: str) -> str:
    """A name without its quotes, in lower case if it had none."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()
