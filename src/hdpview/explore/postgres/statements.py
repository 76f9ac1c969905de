"""What a text asks for: its statements one by one, and those that are not questions taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, get_args

import sqlglot
from sqlglot import exp

from hdpview.errors import QueryError
from hdpview.explore.postgres.sqlstates import PgError, SqlState
from hdpview.query.interval.answers import CountKind, IntervalKind
from hdpview.query.question.where import parse

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
        raise PgError(SqlState.SYNTAX_ERROR, "Not valid SQL: a quotation or comment has no end.") from None
    statements: list[Statement] = []
    group: list[Any] = []
    for token in [*tokens, None]:
        if token is not None and token.text != ";":
            group.append(token)
            continue
        if group:
            piece = text[group[0].start : group[-1].end + 1]
            word = re.match(r"\(|[A-Za-z]*", piece)
            statements.append(Statement(piece, word[0].upper() if word else ""))
        group = []
    if len(statements) > _MOST_STATEMENTS:
        raise QueryError(f"A text holds at most {_MOST_STATEMENTS:,} statements.")
    return tuple(statements)


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
    statements = split(text)
    if len(statements) > 1:
        raise PgError(SqlState.SYNTAX_ERROR, "cannot insert multiple commands into a prepared statement")
    return statements[0] if statements else Statement("", "")


def _matched(pattern: re.Pattern[str], text: str, refusal: str, hint: str = "") -> re.Match[str]:
    """A statement taken apart by a pattern, or refused."""
    match = pattern.fullmatch(text)
    if match is None:
        raise PgError(SqlState.SYNTAX_ERROR, refusal, hint)
    return match


def refuse_writing(statement: Statement) -> None:
    """Refuse what would change something, and what is not known."""
    if statement.word in _WRITES.split():
        raise PgError(
            SqlState.READ_ONLY,
            f"cannot execute {statement.word} in a read-only transaction",
            "Write COPY (SELECT …) TO STDOUT; psql's \\copy writes files."
            if statement.word == "COPY"
            else "A view cannot be changed. Ask it with SELECT.",
        )
    word = statement.text.split()[0][:30] if statement.text else ""
    raise PgError(SqlState.SYNTAX_ERROR, f'syntax error at or near "{word}"', "A view is asked with SELECT.")


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
        match = pattern.fullmatch(text)
        if match:
            return Setting(name, _value(match[1]))
    if _IDLE_SET.match(text):
        return Setting("", None)
    match = _matched(_SET, text, "SET takes a name and a value.", "Write SET hdpview.intervals = on.")
    return Setting(plain_name(match[1]), _value(match[2]))


def _value(text: str) -> str | None:
    text = text.strip()
    if text.upper() == "DEFAULT":
        return None
    parts = re.findall(r"'((?:[^']|'')*)'|\"([^\"]*)\"|([^\s,']+)", text)
    return ", ".join((a.replace("''", "'") or b or c) for a, b, c in parts)


_TRUTHS = dict.fromkeys(("on", "true", "yes", "1"), "on") | dict.fromkeys(("off", "false", "no", "0"), "off")
_CHOICES = {"hdpview.interval": get_args(IntervalKind), "hdpview.counts": get_args(CountKind)}


def checked_setting(name: str, value: str) -> str:
    """A value of a setting as it is kept. PgError where it cannot be."""
    if name == "hdpview.intervals":
        if value.lower() not in _TRUTHS:
            raise _invalid(name, value, "Write on or off.")
        return _TRUTHS[value.lower()]
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
        hint = "There are hdpview.intervals, hdpview.confidence, hdpview.interval and hdpview.counts."
        raise unknown_setting(name, hint)
    encodings = ("UTF8", "UNICODE", "SQL_ASCII")
    if name == "client_encoding" and value.strip("'").upper().replace("-", "") not in encodings:
        raise _invalid(name, value, "All text is UTF-8 here.")
    return value[:1_000]


def unknown_setting(name: str, hint: str) -> PgError:
    return PgError(SqlState.UNDEFINED_OBJECT, f'unrecognized configuration parameter "{name[:60]}"', hint)


def _invalid(name: str, value: str, hint: str) -> PgError:
    return PgError(SqlState.INVALID_PARAMETER, f'invalid value for parameter "{name}": "{value[:60]}"', hint)


def shown_setting(statement: Statement) -> str:
    """The name that SHOW asks for; "all" for all."""
    match = _matched(_SHOW, statement.text, "SHOW takes the name of a setting.", "SHOW ALL lists them.")
    words = {
        "TIME ZONE": "timezone",
        "TRANSACTION ISOLATION LEVEL": "transaction_isolation",
        "SESSION AUTHORIZATION": "session_authorization",
    }
    return words.get(" ".join(match[1].upper().split()), plain_name(match[1]))


def declared_cursor(statement: Statement) -> tuple[str, str, bool]:
    """Name and question of a cursor, and whether its rows come in binary."""
    match = _matched(
        _DECLARE, statement.text, "Write DECLARE name CURSOR FOR SELECT …; cursors only go forward."
    )
    return plain_name(match[1]), match[3], "BINARY" in match[2].upper()


def fetched(statement: Statement) -> tuple[str, int | None]:
    """The cursor that FETCH reads, and how many rows; None for all that are left. Cursors only go forward."""
    match = _matched(_FETCH, statement.text, "Cursors only go forward.", "Write FETCH 100 FROM name.")
    count = (match[1] or "1").upper().split()[-1]
    return plain_name(match[2]), None if count == "ALL" else int(count) if count.isdecimal() else 1


def prepared(statement: Statement) -> tuple[str, list[str], Statement]:
    """Name, names of the parameters' types, and statement of PREPARE."""
    match = _matched(_PREPARE, statement.text, "Write PREPARE name (int, text) AS SELECT … $1 … $2.")
    kinds = [kind.strip() for kind in (match[2] or "").split(",") if kind.strip()]
    return plain_name(match[1]), kinds, one(match[3])


def executed(statement: Statement) -> tuple[str, list[Any]]:
    """Name and values of EXECUTE."""
    match = _matched(_EXECUTE, statement.text, "Write EXECUTE name (65, 'surgery').")
    arguments = parse(f"SELECT {match[2]}", "postgres").expressions if match[2] else []
    return plain_name(match[1]), [_constant(node) for node in arguments]


def _constant(node: exp.Expr) -> Any:
    """The value of an argument of EXECUTE."""
    inner = node.unnest()
    if isinstance(inner, exp.Cast):
        return _constant(inner.this)
    if isinstance(inner, exp.Neg) and isinstance(number := _constant(inner.this), (int, float)):
        return -number
    if isinstance(inner, (exp.Literal, exp.Boolean, exp.Null)):
        return inner.to_py()
    raise PgError(
        SqlState.INVALID_PARAMETER, "EXECUTE takes plain values.", "Write EXECUTE name (65, 'surgery')."
    )


def closed_name(statement: Statement) -> str:
    """The name in CLOSE or DEALLOCATE; "all" for all."""
    match = _matched(_CLOSE, statement.text, f"{statement.word} takes a name, or ALL.")
    return plain_name(match[1])


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
    match = _COPY.fullmatch(statement.text)
    if match is None:
        refuse_writing(statement)
        raise AssertionError
    source, options = match[1].strip(), match[2].strip()
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
