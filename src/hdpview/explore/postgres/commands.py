"""The state of a session, and what each kind of statement does to it: questions are answered, settings kept,
transactions counted, cursors read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hdpview.explore.postgres import statements, types
from hdpview.explore.postgres.answerer import AnswerOptions, Description, ResultSet
from hdpview.explore.postgres.catalog.catalogue import SessionFacts
from hdpview.explore.postgres.settings import first_settings
from hdpview.explore.postgres.sqlstates import PgError, SqlState
from hdpview.explore.postgres.statements import Copy, Statement
from hdpview.explore.postgres.types import OutputColumn

IDLE, IN_TRANSACTION, FAILED = "I", "T", "E"
# Settings that clients are told of, under the names that they know.
_TITLES = (
    "server_version server_encoding client_encoding application_name default_transaction_read_only "
    "in_hot_standby is_superuser session_authorization DateStyle IntervalStyle TimeZone integer_datetimes "
    "standard_conforming_strings"
)
REPORTED = {title.lower(): title for title in _TITLES.split()}
_FIXED = frozenset(
    {"server_version", "server_version_num", "server_encoding", "integer_datetimes", "is_superuser"}
)
_ENDS = {"COMMIT": "COMMIT", "END": "COMMIT", "ROLLBACK": "ROLLBACK", "ABORT": "ROLLBACK"}
# Of one session, so that no client fills the memory.
_MOST_CURSORS = 100
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
    is_binary: bool = False


@dataclass
class _Cursor:
    answer: ResultSet
    is_binary: bool
    at: int = 0


class Commands:
    """The statements of one session. ask: calls a method of an `Answerer` within the server's limits."""

    def __init__(self, ask: Ask, user: str, pid: int) -> None:
        self._ask = ask
        self.settings = {name: value for name, (value, _) in first_settings().items()}
        self.settings["session_authorization"] = user
        self.transaction = IDLE
        self._at_start = dict(self.settings)
        self._cursors: dict[str, _Cursor] = {}
        self._session = SessionFacts(user, pid, self.settings)

    @property
    def options(self) -> AnswerOptions:
        return AnswerOptions.of(self.settings)

    def start_with(self, settings: Mapping[str, str]) -> None:
        """Settings that came with the connection; unknown ones are kept as they are."""
        for name, value in list(settings.items())[:_MOST_SETTINGS]:
            if name.lower() not in _FIXED:
                self.settings[name.lower()] = statements.checked_setting(name.lower(), value)
        self._at_start = dict(self.settings)

    def fail(self) -> None:
        """A statement failed: a transaction waits for its end."""
        if self.transaction == IN_TRANSACTION:
            self.transaction = FAILED

    async def describe(self, statement: Statement) -> Description | None:
        """Columns and parameters of a statement, if it is a question."""
        if not statement.is_question:
            return None
        description: Description = await self._ask("describe", statement.text)
        return description

    async def execute(self, statement: Statement, values: Sequence[Any] = ()) -> Outcome:
        """Do what a statement says."""
        if self.transaction == FAILED and statement.word not in _ENDS:
            raise PgError(
                SqlState.IN_FAILED_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
                "Send ROLLBACK.",
            )
        if statement.is_question:
            answer = await self._answered(statement.text, values)
            return Outcome(f"SELECT {len(answer.rows)}", answer.columns, answer.rows, answer.notices)
        rule = _RULES.get(statement.word)
        if rule is None:
            statements.refuse_writing(statement)
            raise AssertionError
        return await rule(self, statement)

    async def _answered(self, text: str, values: Sequence[Any] = ()) -> ResultSet:
        answer: ResultSet = await self._ask("answer", text, values, self.options, self._session)
        self.settings.update(answer.settings)
        return answer

    async def _set(self, statement: Statement) -> Outcome:
        asked = statements.setting(statement)
        before = dict(self.settings)
        if asked.name == "all":
            self.settings.update(self._at_start)
        elif asked.name in _FIXED:
            raise PgError(SqlState.FIXED_PARAMETER, f'parameter "{asked.name}" cannot be changed')
        elif asked.name:
            if asked.name not in self.settings and len(self.settings) >= _MOST_SETTINGS:
                raise PgError(SqlState.TOO_COMPLEX, "There are too many settings in this session.")
            value = self._at_start.get(asked.name, "") if asked.value is None else asked.value
            self.settings[asked.name] = statements.checked_setting(asked.name, value)
        changed = {
            REPORTED[name]: value
            for name, value in self.settings.items()
            if name in REPORTED and value != before.get(name)
        }
        return Outcome(statement.word, reported=changed)

    async def _show(self, statement: Statement) -> Outcome:
        name = statements.shown_setting(statement)
        if name == "all":
            meanings = first_settings()
            rows = [
                [key, value, meanings.get(key, ("", ""))[1]] for key, value in sorted(self.settings.items())
            ]
            columns = [OutputColumn(each, types.TEXT) for each in ("name", "setting", "description")]
            return Outcome("SHOW", columns, rows)
        if name not in self.settings:
            raise statements.unknown_setting(name, "SHOW ALL lists them.")
        return Outcome("SHOW", [OutputColumn(REPORTED.get(name, name), types.TEXT)], [[self.settings[name]]])

    async def _begin(self, statement: Statement) -> Outcome:
        notices = ("there is already a transaction in progress",) if self.transaction != IDLE else ()
        self.transaction = IN_TRANSACTION
        return Outcome("BEGIN" if statement.word == "BEGIN" else "START TRANSACTION", notices=notices)

    async def _end(self, statement: Statement) -> Outcome:
        words = statement.text.upper().split()
        if words[0] == "ROLLBACK" and "TO" in words:
            self.transaction = IN_TRANSACTION
            return Outcome("ROLLBACK")
        tag = "ROLLBACK" if self.transaction == FAILED else _ENDS[statement.word]
        self.transaction = IDLE
        self._cursors.clear()
        return Outcome(tag)

    async def _nothing(self, statement: Statement) -> Outcome:
        return Outcome(statement.word)

    async def _discard(self, _: Statement) -> Outcome:
        self._cursors.clear()
        self.settings.update(self._at_start)
        return Outcome("DISCARD ALL")

    async def _declare(self, statement: Statement) -> Outcome:
        name, question, is_binary = statements.declared_cursor(statement)
        if len(self._cursors) >= _MOST_CURSORS:
            raise PgError(
                SqlState.TOO_COMPLEX, f"A session has at most {_MOST_CURSORS} cursors.", "Close some."
            )
        answer = await self._answered(question)
        self._cursors[name] = _Cursor(answer, is_binary)
        return Outcome("DECLARE CURSOR", notices=answer.notices)

    async def _fetch(self, statement: Statement) -> Outcome:
        name, count = statements.fetched(statement)
        cursor = self._cursor(name)
        taken = cursor.answer.rows[cursor.at :][:count]
        cursor.at += len(taken)
        return Outcome(f"FETCH {len(taken)}", cursor.answer.columns, taken, is_binary=cursor.is_binary)

    def declared(self, name: str) -> Sequence[OutputColumn] | None:
        """Columns of a cursor by its name; None where there is none."""
        return self._cursors[name].answer.columns if name in self._cursors else None

    def cursor_columns(self, statement: Statement) -> Sequence[OutputColumn] | None:
        """Columns that FETCH or SHOW gives, for clients that ask first."""
        if statement.word == "FETCH":
            return self._cursor(statements.fetched(statement)[0]).answer.columns
        if statement.word == "SHOW":
            name = statements.shown_setting(statement)
            names = ("name", "setting", "description") if name == "all" else (REPORTED.get(name, name),)
            return [OutputColumn(each, types.TEXT) for each in names]
        return None

    def _cursor(self, name: str) -> _Cursor:
        if name not in self._cursors:
            raise PgError(SqlState.INVALID_CURSOR, f'cursor "{name[:60]}" does not exist')
        return self._cursors[name]

    async def _close(self, statement: Statement) -> Outcome:
        name = statements.closed_name(statement)
        if name == "all":
            self._cursors.clear()
        else:
            self._cursor(name)
            del self._cursors[name]
        return Outcome("CLOSE CURSOR")

    async def _copy(self, statement: Statement) -> Outcome:
        copy = statements.copied(statement)
        answer = await self._answered(copy.question)
        return Outcome(f"COPY {len(answer.rows)}", answer.columns, answer.rows, answer.notices, copy=copy)


_RULES: dict[str, Callable[[Commands, Statement], Awaitable[Outcome]]] = {
    "SET": Commands._set,
    "RESET": Commands._set,
    "SHOW": Commands._show,
    "BEGIN": Commands._begin,
    "START": Commands._begin,
    **dict.fromkeys(_ENDS, Commands._end),
    **dict.fromkeys(
        ("SAVEPOINT", "RELEASE", "LISTEN", "UNLISTEN", "NOTIFY", "CHECKPOINT"), Commands._nothing
    ),
    "DISCARD": Commands._discard,
    "DECLARE": Commands._declare,
    "FETCH": Commands._fetch,
    "CLOSE": Commands._close,
    "COPY": Commands._copy,
}
