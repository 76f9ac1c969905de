"""The state of a session, and the effect of each kind of statement on it: answers, settings, transactions,
cursors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any, TypeVar

from hdpview.explore.postgres import statements
from hdpview.explore.postgres.answerer import ResultSet
from hdpview.explore.postgres.copying import Copy
from hdpview.explore.postgres.settings import AnswerOptions, checked_setting, first_values
from hdpview.explore.postgres.sqlstates import PgError, SqlState
from hdpview.explore.postgres.statements import REPORTED, Statement, plain_name, setting_name
from hdpview.explore.postgres.types import TEXT, OutputColumn, PgType

# States of a session, as the protocol names them.
IDLE = "I"
IN_TRANSACTION = "T"
FAILED = "E"
# Limits of one session, so that no client fills the memory.
_MOST_SETTINGS = 200
_MOST_PREPARED = 1_000
_MOST_PORTALS = 100
_FIXED = "server_version server_version_num server_encoding integer_datetimes is_superuser backend_pid"
# Words after SET that change nothing.
_IDLE_WORDS = ("session", "transaction", "constraints", "role")
_IDLE_STATEMENTS = ("SAVEPOINT", "RELEASE", "LISTEN", "UNLISTEN", "NOTIFY", "CHECKPOINT")
_Held = TypeVar("_Held")
_ENDS = {"COMMIT": "COMMIT", "END": "COMMIT", "ROLLBACK": "ROLLBACK", "ABORT": "ROLLBACK"}


@dataclass
class Outcome:
    """The result of a statement. columns: None if it returns no rows. reported: settings for clients."""

    tag: str
    columns: Sequence[OutputColumn] | None = None
    rows: Sequence[Sequence[Any]] = ()
    notices: tuple[str, ...] = ()
    reported: Mapping[str, str] = field(default_factory=dict)
    copy: Copy | None = None
    sent: int = 0

    def take(self, n: int | None) -> Sequence[Sequence[Any]]:
        """The next n rows, or all that are left."""
        rows = self.rows[self.sent :][:n]
        self.sent += len(rows)
        return rows


@dataclass(eq=False)
class Prepared:
    """A prepared statement.

    columns: of a question, as the client was told them under these options; None before. answer: of a
    question without parameters, which describing it computed.
    """

    statement: Statement
    parameters: tuple[PgType, ...]
    columns: Sequence[OutputColumn] | None = None
    options: AnswerOptions | None = None
    answer: ResultSet | None = None


@dataclass
class Portal:
    """A prepared statement with its values, and its outcome once it is executed."""

    prepared: Prepared
    values: Sequence[Any]
    formats: Sequence[int]
    outcome: Outcome | None = None


class Commands:
    """The statements of one session. ask: calls a method of an `Answerer` within the server's limits."""

    def __init__(self, ask: Callable[..., Any], user: str, pid: int, settings: Mapping[str, str]) -> None:
        self._ask = ask
        self.settings = {**first_values(), "session_authorization": user, "backend_pid": str(pid)}
        for name, value in list(settings.items())[:_MOST_SETTINGS]:
            if name.lower() not in _FIXED.split():
                self.settings[name.lower()] = checked_setting(name.lower(), value)
        self.transaction = IDLE
        self.prepared: dict[str, Prepared] = {}
        self.portals: dict[str, Portal] = {}
        self.cursors: dict[str, Outcome] = {}
        self._at_start = dict(self.settings)

    @property
    def options(self) -> AnswerOptions:
        return AnswerOptions.of(self.settings)

    def fail(self) -> None:
        """Record that a statement failed: an open transaction then only accepts its end."""
        if self.transaction == IN_TRANSACTION:
            self.transaction = FAILED

    def prepare(self, name: str, statement: Statement, declared: Sequence[PgType | None]) -> None:
        """Read a statement. declared: types of its parameters, None where the client leaves them open."""
        if name and name in self.prepared:
            raise PgError(SqlState.DUPLICATE_STATEMENT, f'prepared statement "{name[:60]}" already exists')
        _check_number_of("prepared statements", self.prepared, _MOST_PREPARED)
        question = statement.question
        inferred = self._ask("parameters", question) if question and "$" in question else ()
        parameters = (known or guess or TEXT for known, guess in zip_longest(declared, inferred))
        self.prepared[name] = Prepared(statement, tuple(parameters))

    def describe(self, prepared: Prepared) -> Sequence[OutputColumn] | None:
        """The columns of a prepared statement."""
        statement = prepared.statement
        if statement.word == "FETCH":
            return self._cursor(statement.parts()).columns
        if statement.question is not None and prepared.options is None:
            for each in self.prepared.values():  # at most one answer is kept in advance
                each.answer = None
            prepared.columns, prepared.answer = self._ask("describe", statement.question, self.options)
            prepared.options = self.options
        return prepared.columns

    def outcome_of(self, portal: Portal) -> Outcome:
        """The outcome of a portal, which is executed at the first call."""
        if portal.outcome is None:
            portal.outcome = self._executed(portal)
        return portal.outcome

    def _executed(self, portal: Portal) -> Outcome:
        prepared = portal.prepared
        told, prepared.answer, answer = prepared.options, None, prepared.answer
        if told is not None and told.intervals != self.options.intervals:
            raise PgError(
                SqlState.FEATURE_NOT_SUPPORTED,
                "cached plan must not change result type",
                "hdpview.intervals changed after this statement was prepared. Prepare it again (DEALLOCATE "
                "ALL), or set it right after connecting.",
            )
        if answer is not None and told == self.options and self.transaction != FAILED:
            outcome = _selected(answer)
        else:
            outcome = self.execute(prepared.statement, portal.values)
        # Values travel in the types that were announced.
        outcome.columns = prepared.columns or outcome.columns
        return outcome

    def execute(self, statement: Statement, values: Sequence[Any] = ()) -> Outcome:
        """Execute a statement."""
        word, question = statement.word, statement.question
        if self.transaction == FAILED and word not in _ENDS:
            raise PgError(
                SqlState.IN_FAILED_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
                "Send ROLLBACK.",
            )
        if question is not None:
            answer = self._ask("answer", question, values, self.options, self.settings)
            return _selected(answer, "SHOW" if word == "SHOW" else "")
        if word in _IDLE_STATEMENTS:
            return Outcome(word)
        if word not in _RULES:
            raise statement.refusal()
        return _RULES[word](self, statement.parts())

    def add_portal(self, name: str, portal: Portal) -> None:
        """Keep a portal for the client to execute."""
        _check_number_of("portals", self.portals, _MOST_PORTALS)
        self.portals[name] = portal

    def _copy(self, parts: re.Match[str]) -> Outcome:
        copy = Copy.of(parts)
        outcome = self._asked(copy.question)
        return replace(outcome, tag=f"COPY {len(outcome.rows)}", copy=copy)

    def _declare(self, parts: re.Match[str]) -> Outcome:
        _check_number_of("cursors", self.cursors, _MOST_PORTALS)
        outcome = self.cursors[plain_name(parts["name"])] = self._asked(parts["question"])
        return Outcome("DECLARE CURSOR", notices=outcome.notices)

    def _asked(self, text: str) -> Outcome:
        statement = statements.one(text)
        if statement.question is None:
            raise statement.refusal()
        return self.execute(statement)

    def _fetch(self, parts: re.Match[str]) -> Outcome:
        cursor = self._cursor(parts)
        count = (parts["count"] or "1").upper().split()[-1]
        rows = cursor.take(None if count == "ALL" else int(count) if count.isdecimal() else 1)
        return Outcome(f"FETCH {len(rows)}", cursor.columns, rows)

    def _cursor(self, parts: re.Match[str]) -> Outcome:
        return named("cursor", plain_name(parts["name"]), self.cursors)

    def _close(self, parts: re.Match[str]) -> Outcome:
        _drop("cursor", parts, self.cursors)
        return Outcome("CLOSE CURSOR")

    def _deallocate(self, parts: re.Match[str]) -> Outcome:
        _drop("prepared statement", parts, self.prepared)
        return Outcome("DEALLOCATE ALL" if plain_name(parts["name"]) == "all" else "DEALLOCATE")

    def _set(self, parts: re.Match[str]) -> Outcome:
        """SET and RESET: a setting without a value gets its first one."""
        before, name = dict(self.settings), setting_name(parts["name"])
        value = _setting_value(parts.groupdict().get("value", "DEFAULT"))
        if name == "all" and value is None:
            self.settings.update(self._at_start)
        elif name in _FIXED.split():
            raise PgError(SqlState.FIXED_PARAMETER, f'parameter "{name}" cannot be changed')
        elif name not in _IDLE_WORDS:
            if name not in self.settings and len(self.settings) >= _MOST_SETTINGS:
                raise PgError(SqlState.TOO_COMPLEX, "There are too many settings in this session.")
            first = self._at_start.get(name, "")
            self.settings[name] = checked_setting(name, first if value is None else value)
        changed = {
            title: self.settings[key] for key, title in REPORTED.items() if self.settings[key] != before[key]
        }
        return Outcome("RESET" if "value" not in parts.groupdict() else "SET", reported=changed)

    def _begin(self, parts: re.Match[str]) -> Outcome:
        notices = ("there is already a transaction in progress",) if self.transaction != IDLE else ()
        self.transaction = IN_TRANSACTION
        return Outcome("BEGIN" if parts[0][0] in "Bb" else "START TRANSACTION", notices=notices)

    def _end(self, parts: re.Match[str]) -> Outcome:
        word, *others = parts[0].upper().split()
        if word == "ROLLBACK" and "TO" in others:
            self.transaction = IN_TRANSACTION
            return Outcome("ROLLBACK")
        tag = "ROLLBACK" if self.transaction == FAILED else _ENDS[word]
        self.transaction = IDLE
        self.portals.clear()
        self.cursors.clear()
        return Outcome(tag)

    def _discard(self, _: re.Match[str]) -> Outcome:
        self.settings.update(self._at_start)
        self.cursors.clear()
        return Outcome("DISCARD ALL")


def _selected(answer: ResultSet, tag: str = "") -> Outcome:
    return Outcome(tag or f"SELECT {len(answer.rows)}", answer.columns, answer.rows, answer.notices)


def _setting_value(text: str) -> str | None:
    """The value in a SET, lists joined by commas; None for DEFAULT."""
    if text.strip().upper() == "DEFAULT":
        return None
    parts = re.findall(r"'((?:[^']|'')*)'|\"([^\"]*)\"|([^\s,']+)", text)
    return ", ".join((a.replace("''", "'") or b or c) for a, b, c in parts)


def named(thing: str, name: str, held: Mapping[str, _Held]) -> _Held:
    """The prepared statement, portal or cursor of a name."""
    if name not in held:
        code = SqlState.INVALID_STATEMENT if thing == "prepared statement" else SqlState.INVALID_CURSOR
        raise PgError(code, f'{thing} "{name[:60]}" does not exist')
    return held[name]


def _drop(thing: str, parts: re.Match[str], held: dict[str, Any]) -> None:
    name = plain_name(parts["name"])
    if name == "all":
        held.clear()
    else:
        named(thing, name, held)
        del held[name]


def _check_number_of(things: str, held: Mapping[str, object], most: int) -> None:
    if len(held) >= most:
        raise PgError(SqlState.TOO_COMPLEX, f"A session can have at most {most:,} {things}.", "Close some.")


_RULES: dict[str, Callable[[Commands, re.Match[str]], Outcome]] = {
    "SET": Commands._set,
    "RESET": Commands._set,
    "BEGIN": Commands._begin,
    "START": Commands._begin,
    **dict.fromkeys(_ENDS, Commands._end),
    "DISCARD": Commands._discard,
    "COPY": Commands._copy,
    "DECLARE": Commands._declare,
    "FETCH": Commands._fetch,
    "CLOSE": Commands._close,
    "DEALLOCATE": Commands._deallocate,
}
