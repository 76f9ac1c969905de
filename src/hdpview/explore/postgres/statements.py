"""Split a text into statements, and parse those that are not queries."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

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
_NO_CHANGES = "A view cannot be changed. Query it with SELECT."
_INSTEAD = {"COPY": "Write COPY (SELECT …) TO STDOUT; psql's \\copy writes files."}
NAME = r'(?:"(?:[^"]|"")+"|[A-Za-z_][\w$.]*)'


# The syntax of each kind of statement that is no question; a space stands for any white space.
_FORMS = {
    "SET": r"SET ((SESSION|LOCAL) (?!AUTHORIZATION|CHARACTERISTICS))?<name>\s*(=|\bTO\b)?\s*(?P<value>.+)",
    "RESET": r"RESET <name>",
    "SHOW": r"SHOW <name>",
    "DECLARE": r"DECLARE <name> ((IN|A)SENSITIVE |NO SCROLL )*CURSOR (WITH(OUT)? HOLD )?FOR (?P<question>.*)",
    "FETCH": r"FETCH ((?P<count>NEXT|FORWARD|(FORWARD )?(ALL|\d{1,18})) )?(FROM |IN )?<name>",
    "CLOSE": r"CLOSE <name>",
    "DEALLOCATE": r"DEALLOCATE (PREPARE )?<name>",
    "COPY": r"COPY (?P<source>.*?) TO STDOUT\b\s*(WITH\s*)?(?P<options>.*)",
}
# Hints for statements with another syntax.
_USAGE = {
    "SET": "Write SET hdpview.intervals = on.",
    "RESET": "Write RESET hdpview.intervals, or RESET ALL.",
    "SHOW": "SHOW ALL lists the settings.",
    "DECLARE": "Write DECLARE name CURSOR FOR SELECT …; cursors only go forward.",
    "FETCH": "Write FETCH 100 FROM name; cursors only go forward.",
    "CLOSE": "Write CLOSE name, or CLOSE ALL.",
    "DEALLOCATE": "Write DEALLOCATE name, or DEALLOCATE ALL.",
}
_NAMED = rf"(?P<name>TIME ZONE|TRANSACTION ISOLATION LEVEL|SESSION AUTHORIZATION|{NAME})"

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
        pattern = _FORMS.get(self.word, ".*").replace("<name>", _NAMED).replace(" ", r"\s+")
        match = re.fullmatch(pattern, self.text, re.IGNORECASE | re.DOTALL)
        if match is None and self.word in _USAGE:
            raise PgError(SqlState.SYNTAX_ERROR, f"syntax error in {self.word}", _USAGE[self.word])
        if match is None:
            raise self.refusal()
        return match

    def refusal(self) -> PgError:
        """The error for a statement that would change something or is unknown."""
        if self.word in _WRITES.split():
            text = f"cannot execute {self.word} in a read-only transaction"
            return PgError(SqlState.READ_ONLY, text, _INSTEAD.get(self.word, _NO_CHANGES))
        word = self.text.split()[0][:30] if self.text else ""
        text = f'syntax error at or near "{word}"'
        return PgError(SqlState.SYNTAX_ERROR, text, "Query the view with SELECT.")


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
