"""What a text asks for: its statements one by one, and those that are not questions taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, get_args

import sqlglot

from hdpview.errors import QueryError
from hdpview.explore.postgres.errors import (
    INVALID_PARAMETER,
    READ_ONLY,
    SYNTAX_ERROR,
    UNDEFINED_OBJECT,
    PgError,
)
from hdpview.query.interval.answers import Kind, Reading
from hdpview.query.question.where import parse
from hdpview.query.sql.scalar import constant

MOST_CHARACTERS = 200_000
_MOST_STATEMENTS = 1_000
_QUESTIONS = ("SELECT", "WITH", "VALUES", "TABLE", "(")
_WRITES = (
    "INSERT UPDATE DELETE MERGE CREATE DROP ALTER TRUNCATE GRANT REVOKE COMMENT VACUUM ANALYZE REINDEX "
    "CLUSTER REFRESH LOCK CALL DO IMPORT SECURITY REASSIGN COPY"
)
_NAME = r'(?:"(?:[^"]|"")+"|[A-Za-z_][\w$.]*)'
_SET = re.compile(
    rf"SET\s+(?:SESSION\s+|LOCAL\s+)?({_NAME})\s*(?:=|\s+TO\s+)\s*(.*)", re.IGNORECASE | re.DOTALL
)
_TIME_ZONE = re.compile(r"SET\s+(?:SESSION\s+|LOCAL\s+)?TIME\s+ZONE\s+(.*)", re.IGNORECASE | re.DOTALL)
_NAMES_CHARSET = re.compile(r"SET\s+NAMES\s+(.*)", re.IGNORECASE | re.DOTALL)
_IDLE_SET = re.compile(
    r"SET\s+(SESSION\s+CHARACTERISTICS|TRANSACTION|CONSTRAINTS|ROLE|SESSION\s+AUTHORIZATION)\b", re.IGNORECASE
)
_SHOW = re.compile(
    rf"SHOW\s+(ALL|TIME\s+ZONE|TRANSACTION\s+ISOLATION\s+LEVEL|SESSION\s+AUTHORIZATION|{_NAME})",
    re.IGNORECASE,
)
_DECLARE = re.compile(
    rf"DECLARE\s+({_NAME})\s+((?:(?:BINARY|INSENSITIVE|ASENSITIVE|NO\s+SCROLL)\s+)*)"
    r"CURSOR\s+(?:WITH(?:OUT)?\s+HOLD\s+)?FOR\s+(.*)",
    re.IGNORECASE | re.DOTALL,
)
_FETCH = re.compile(
    rf"FETCH\s+(?:(NEXT|FORWARD|(?:FORWARD\s+)?(?:ALL|\d{{1,18}}))\s+)?(?:FROM\s+|IN\s+)?({_NAME})",
    re.IGNORECASE,
)
_PREPARE = re.compile(rf"PREPARE\s+({_NAME})\s*(?:\((.*?)\)\s*)?AS\s+(.*)", re.IGNORECASE | re.DOTALL)
_EXECUTE = re.compile(rf"EXECUTE\s+({_NAME})\s*(?:\((.*)\))?\s*", re.IGNORECASE | re.DOTALL)
_CLOSE = re.compile(rf"(?:CLOSE|DEALLOCATE(?:\s+PREPARE)?)\s+({_NAME})", re.IGNORECASE)
_COPY = re.compile(r"COPY\s+(.*?)\s+TO\s+STDOUT\b\s*(?:WITH\s*)?(.*)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Statement:
    """One statement. word: its first word in capitals; "" for an empty one."""

    text: str
    word: str

    @property
    def is_question(self) -> bool:
        return self.word in _QUESTIONS


@lru_cache(maxsize=500)
def split(text: str) -> tuple[Statement, ...]:
    """The statements of a text, without the semicolons between them."""
    if len(text) > MOST_CHARACTERS:
        raise QueryError(f"The text is longer than {MOST_CHARACTERS:,} characters.")
    try:
        tokens = sqlglot.tokenize(text, dialect="postgres")
    except sqlglot.errors.SqlglotError:
        raise PgError(SYNTAX_ERROR, "Not valid SQL: a quotation or comment has no end.") from None
    found: list[Statement] = []
    group: list[Any] = []
    for token in [*tokens, None]:
        if token is not None and token.text != ";":
            group.append(token)
            continue
        if group:
            piece = text[group[0].start : group[-1].end + 1]
            word = re.match(r"\(|[A-Za-z]*", piece)
            found.append(Statement(piece, word[0].upper() if word else ""))
        group = []
    if len(found) > _MOST_STATEMENTS:
        raise QueryError(f"A text holds at most {_MOST_STATEMENTS:,} statements.")
    return tuple(found)


def with_quoted_aliases(text: str) -> str:
    """The same with words of SQL that stand behind AS as names, such as `AS select`, in quotes."""
    tokens = sqlglot.tokenize(text, dialect="postgres")
    pieces, at = [], 0
    for before, token, after in zip(tokens, tokens[1:], [*tokens[2:], None], strict=False):
        ends = after is None or after.text.upper() in (",", ")", "FROM", ";")
        if before.text.upper() == "AS" and ends and re.fullmatch("[A-Za-z]+", token.text):
            pieces += [text[at : token.start], f'"{token.text.lower()}"']
            at = token.end + 1
    return "".join([*pieces, text[at:]])


def one(text: str) -> Statement:
    """The one statement of a text that is prepared."""
    found = split(text)
    if len(found) > 1:
        raise PgError(SYNTAX_ERROR, "cannot insert multiple commands into a prepared statement")
    return found[0] if found else Statement("", "")


def refuse_writing(statement: Statement) -> None:
    """Refuse what would change something, and what is not known."""
    if statement.word in _WRITES.split():
        raise PgError(
            READ_ONLY,
            f"cannot execute {statement.word} in a read-only transaction",
            "Write COPY (SELECT …) TO STDOUT; psql's \\copy writes files."
            if statement.word == "COPY"
            else "A view cannot be changed. Ask it with SELECT.",
        )
    word = statement.text.split()[0][:30] if statement.text else ""
    raise PgError(SYNTAX_ERROR, f'syntax error at or near "{word}"', "A view is asked with SELECT.")


def plain_name(name: str) -> str:
    """A name without its quotes, in small letters where it had none."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


@dataclass(frozen=True)
class Setting:
    """SET name = value; value None resets it. name "" changes nothing."""

    name: str
    value: str | None


def setting(statement: Statement) -> Setting:
    """What SET or RESET changes."""
    text = statement.text
    if statement.word == "RESET":
        return Setting(plain_name(text.split(None, 1)[1].strip()) if len(text.split()) > 1 else "all", None)
    for pattern, name in ((_TIME_ZONE, "timezone"), (_NAMES_CHARSET, "client_encoding")):
        found = pattern.fullmatch(text)
        if found:
            return Setting(name, _value(found[1]))
    if _IDLE_SET.match(text):
        return Setting("", None)
    found = _SET.fullmatch(text)
    if found is None:
        raise PgError(SYNTAX_ERROR, "SET takes a name and a value.", "Write SET hdpview.intervals = on.")
    return Setting(plain_name(found[1]), _value(found[2]))


def _value(text: str) -> str | None:
    text = text.strip()
    if text.upper() == "DEFAULT":
        return None
    parts = re.findall(r"'((?:[^']|'')*)'|\"([^\"]*)\"|([^\s,']+)", text)
    return ", ".join((a.replace("''", "'") or b or c) for a, b, c in parts)


_CHOICES = {"hdpview.interval": get_args(Kind), "hdpview.counts": get_args(Reading)}


def checked_setting(name: str, value: str) -> str:
    """A value of a setting as it is kept. PgError where it cannot be."""
    if name == "hdpview.intervals":
        is_on = value.lower() in ("on", "true", "yes", "1")
        if not is_on and value.lower() not in ("off", "false", "no", "0"):
            raise _invalid(name, value, "Write on or off.")
        return "on" if is_on else "off"
    if name == "hdpview.confidence":
        try:
            share = float(value)
        except ValueError:
            share = 0.0
        if not 0.5 <= share <= 0.9999:
            raise _invalid(name, value, "Write a number from 0.5 to 0.9999.")
        return value
    if name in _CHOICES and value not in _CHOICES[name]:
        raise _invalid(name, value, f"Choose {', '.join(_CHOICES[name])}.")
    if name.startswith("hdpview.") and name not in _CHOICES:
        known = "hdpview.intervals, hdpview.confidence, hdpview.interval and hdpview.counts"
        raise PgError(
            UNDEFINED_OBJECT, f"unrecognized configuration parameter {name[:60]!r}", f"There are {known}."
        )
    encodings = ("UTF8", "UNICODE", "SQL_ASCII")
    if name == "client_encoding" and value.strip("'").upper().replace("-", "") not in encodings:
        raise _invalid(name, value, "All text is UTF-8 here.")
    return value[:1_000]


def _invalid(name: str, value: str, hint: str) -> PgError:
    return PgError(INVALID_PARAMETER, f'invalid value for parameter "{name}": "{value[:60]}"', hint)


def shown_setting(statement: Statement) -> str:
    """The name that SHOW asks for; "all" for all."""
    found = _SHOW.fullmatch(statement.text)
    if found is None:
        raise PgError(SYNTAX_ERROR, "SHOW takes the name of a setting.", "SHOW ALL lists them.")
    words = {
        "TIME ZONE": "timezone",
        "TRANSACTION ISOLATION LEVEL": "transaction_isolation",
        "SESSION AUTHORIZATION": "session_authorization",
    }
    return words.get(" ".join(found[1].upper().split()), plain_name(found[1]))


def declared_cursor(statement: Statement) -> tuple[str, str, bool]:
    """Name and question of a cursor, and whether its rows come in binary."""
    found = _DECLARE.fullmatch(statement.text)
    if found is None:
        raise PgError(SYNTAX_ERROR, "Write DECLARE name CURSOR FOR SELECT …; cursors only go forward.")
    return plain_name(found[1]), found[3], "BINARY" in found[2].upper()


def fetched(statement: Statement) -> tuple[str, int | None]:
    """The cursor that FETCH reads, and how many rows; None for all that are left. Cursors only go forward."""
    found = _FETCH.fullmatch(statement.text)
    if found is None:
        raise PgError(SYNTAX_ERROR, "Cursors only go forward.", "Write FETCH 100 FROM name.")
    count = (found[1] or "1").upper().split()[-1]
    return plain_name(found[2]), None if count == "ALL" else int(count) if count.isdecimal() else 1


def prepared(statement: Statement) -> tuple[str, list[str], Statement]:
    """Name, names of the parameters' types, and statement of PREPARE."""
    found = _PREPARE.fullmatch(statement.text)
    if found is None:
        raise PgError(SYNTAX_ERROR, "Write PREPARE name (int, text) AS SELECT … $1 … $2.")
    kinds = [kind.strip() for kind in (found[2] or "").split(",") if kind.strip()]
    return plain_name(found[1]), kinds, one(found[3])


def executed(statement: Statement) -> tuple[str, list[Any]]:
    """Name and values of EXECUTE."""
    found = _EXECUTE.fullmatch(statement.text)
    if found is None:
        raise PgError(SYNTAX_ERROR, "Write EXECUTE name (65, 'surgery').")
    arguments = parse(f"SELECT {found[2]}", "postgres").expressions if found[2] else []
    return plain_name(found[1]), [constant(node) for node in arguments]


def closed_name(statement: Statement) -> str:
    """The name in CLOSE or DEALLOCATE; "all" for all."""
    found = _CLOSE.fullmatch(statement.text)
    if found is None:
        raise PgError(SYNTAX_ERROR, f"{statement.word} takes a name, or ALL.")
    return plain_name(found[1])


@dataclass(frozen=True)
class Copy:
    """COPY … TO STDOUT. question: the SELECT whose rows are copied."""

    question: str
    format: str = "text"
    header: bool = False
    delimiter: str = "\t"
    null: str = "\\N"


def copied(statement: Statement) -> Copy:
    """What COPY asks for. Copying into a view is refused."""
    found = _COPY.fullmatch(statement.text)
    if found is None:
        refuse_writing(statement)
        raise AssertionError
    source, options = found[1].strip(), found[2].strip()
    columns = re.fullmatch(rf"((?:{_NAME}\s*\.\s*)*{_NAME})\s*\((.*)\)", source, re.DOTALL)
    if source.startswith("("):
        question = source[1:-1]
    else:
        question = f"SELECT {columns[2]} FROM {columns[1]}" if columns else f"SELECT * FROM {source}"
    word = re.search(r"\b(csv|binary|text)\b", options, re.IGNORECASE)
    kind = word[1].lower() if word else "text"
    delimiter = re.search(r"delimiter\s+(?:as\s+)?'(.)'", options, re.IGNORECASE)
    null = re.search(r"null\s+(?:as\s+)?'([^']*)'", options, re.IGNORECASE)
    header = re.search(r"\bheader\b(?!\s*(?:false|off|0))", options, re.IGNORECASE) is not None
    return Copy(
        question,
        kind,
        header,
        delimiter[1] if delimiter else "," if kind == "csv" else "\t",
        null[1] if null else "" if kind == "csv" else "\\N",
    )
