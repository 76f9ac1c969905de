"""The state of a session, and the effect of each kind of statement on it: answers, settings, transactions."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hdpview.explore.postgres.answerer import Description, ResultSet
from hdpview.explore.postgres.catalog.catalogue import SessionFacts
from hdpview.explore.postgres.copying import Copy
from hdpview.explore.postgres.settings import AnswerOptions, checked_setting, first_values
from hdpview.explore.postgres.sqlstates import PgError, SqlState
from hdpview.explore.postgres.statements import REPORTED, Statement, setting_name
from hdpview.explore.postgres.types import OutputColumn

# States of a session, as the protocol names them.
IDLE = "I"
IN_TRANSACTION = "T"
FAILED = "E"
_FIXED = ["server_version", "server_version_num", "server_encoding", "integer_datetimes", "is_superuser"]
# Words after SET that change nothing.
_IDLE_WORDS = ("session", "transaction", "constraints", "role")
ENDS = {"COMMIT": "COMMIT", "END": "COMMIT", "ROLLBACK": "ROLLBACK", "ABORT": "ROLLBACK"}
# Settings of one session, so that no client fills the memory.
_MOST_SETTINGS = 200

Ask = Callable[..., Awaitable[Any]]


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


class Commands:
    """The statements of one session. ask: calls a method of an `Answerer` within the server's limits."""

    def __init__(self, ask: Ask, user: str, pid: int) -> None:
        self._ask = ask
        self.settings = first_values()
        self.settings["session_authorization"] = user
        self.transaction = IDLE
        self._at_start = dict(self.settings)
        self._session = SessionFacts(pid, self.settings)

    @property
    def options(self) -> AnswerOptions:
        return AnswerOptions.of(self.settings)

    def start_with(self, settings: Mapping[str, str]) -> None:
        """Apply settings sent with the connection; unknown ones are kept unchanged."""
        for name, value in list(settings.items())[:_MOST_SETTINGS]:
            if name.lower() not in _FIXED:
                self.settings[name.lower()] = checked_setting(name.lower(), value)
        self._at_start = dict(self.settings)

    def fail(self) -> None:
        """Record that a statement failed: an open transaction then only accepts its end."""
        if self.transaction == IN_TRANSACTION:
            self.transaction = FAILED

    async def describe(self, statement: Statement) -> Description | None:
        """Columns and parameters of a statement, if it is a question."""
        question = statement.question
        if question is None:
            return None
        description: Description = await self._ask("describe", question, self.options)
        return description

    def refuse_after_failure(self, statement: Statement) -> None:
        """Refuse every statement but the end of a transaction in which one has failed."""
        if self.transaction == FAILED and statement.word not in ENDS:
            raise PgError(
                SqlState.IN_FAILED_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
                "Send ROLLBACK.",
            )

    async def execute(self, statement: Statement, values: Sequence[Any] = ()) -> Outcome:
        """Execute a statement."""
        word = statement.word
        question = statement.question
        if question is not None:
            answer = await self._answered(question, values)
            tag = "SHOW" if word == "SHOW" else f"SELECT {len(answer.rows)}"
            return Outcome(tag, answer.columns, answer.rows, answer.notices)
        if word in _IDLE_STATEMENTS:
            return Outcome(word)
        if word == "COPY":
            copy = Copy.of(statement.parts())
            answer = await self._answered(copy.question)
            return Outcome(f"COPY {len(answer.rows)}", answer.columns, answer.rows, answer.notices, copy=copy)
        if word not in _RULES:
            raise statement.refusal()
        return _RULES[word](self, statement.parts())

    async def _answered(self, text: str, values: Sequence[Any] = ()) -> ResultSet:
        answer: ResultSet = await self._ask("answer", text, values, self.options, self._session)
        return answer

    def _set(self, parts: re.Match[str]) -> Outcome:
        """SET and RESET: a setting without a value gets its first one."""
        before, name = dict(self.settings), setting_name(parts["name"])
        value = _setting_value(parts.groupdict().get("value", "DEFAULT"))
        if name == "all" and value is None:
            self.settings.update(self._at_start)
        elif name in _FIXED:
            raise PgError(SqlState.FIXED_PARAMETER, f'parameter "{name}" cannot be changed')
        elif name not in _IDLE_WORDS:
            if name not in self.settings and len(self.settings) >= _MOST_SETTINGS:
                raise PgError(SqlState.TOO_COMPLEX, "There are too many settings in this session.")
            self.settings[name] = checked_setting(
                name, self._at_start.get(name, "") if value is None else value
            )
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
        tag = "ROLLBACK" if self.transaction == FAILED else ENDS[word]
        self.transaction = IDLE
        return Outcome(tag)

    def _discard(self, _: re.Match[str]) -> Outcome:
        self.settings.update(self._at_start)
        return Outcome("DISCARD ALL")


def _setting_value(text: str) -> str | None:
    """The value in a SET, lists joined by commas; None for DEFAULT."""
    if text.strip().upper() == "DEFAULT":
        return None
    parts = re.findall(r"'((?:[^']|'')*)'|\"([^\"]*)\"|([^\s,']+)", text)
    return ", ".join((a.replace("''", "'") or b or c) for a, b, c in parts)


_IDLE_STATEMENTS = ("SAVEPOINT", "RELEASE", "LISTEN", "UNLISTEN", "NOTIFY", "CHECKPOINT")
_RULES: dict[str, Callable[[Commands, re.Match[str]], Outcome]] = {
    "SET": Commands._set,
    "RESET": Commands._set,
    "BEGIN": Commands._begin,
    "START": Commands._begin,
    **dict.fromkeys(ENDS, Commands._end),
    "DISCARD": Commands._discard,
}
