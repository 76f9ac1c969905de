"""What has been spent on each table, kept in a file: the budget that outlives a build.

Tables go by the name the curator gives them; nothing in the file is derived from the data. A charge is on the
disk before any noise is drawn, and stays there whatever becomes of the work: what was lost half-way may still
have been seen. Two builds at once queue for the file, so that together they cannot exceed a limit.

A table has one ledger, whoever builds and from where: the file that HDPVIEW_LEDGER names, or else one beside
the table's own file.
"""

from __future__ import annotations

import glob
import logging
import os
import re
import sqlite3
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from hdpview.errors import BudgetError
from hdpview.privacy.checkpoint import Checkpoint, is_of
from hdpview.privacy.mechanism import Outcomes

LEDGER_NAME = "hdpview-ledger.sqlite"
LEDGER_VARIABLE = "HDPVIEW_LEDGER"
# Of δ, for a table whose limit nobody stated.
DEFAULT_DELTA_LIMIT = Fraction(1, 10**6)
# For other builds that write at the same moment.
_WAIT_SECONDS = 60.0
_VERSION = 3
_SCHEMA = """
CREATE TABLE limits (name TEXT PRIMARY KEY, epsilon TEXT NOT NULL, delta TEXT);
CREATE TABLE charges (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL,
    purpose TEXT NOT NULL, privacy_unit TEXT NOT NULL, max_rows INTEGER NOT NULL, charged_at TEXT NOT NULL,
    state TEXT NOT NULL, view TEXT, not_private TEXT
);
"""
# What each version added to the one before.
_ADDED = (
    "ALTER TABLE limits ADD COLUMN delta TEXT; ALTER TABLE charges ADD COLUMN not_private TEXT;",
    "CREATE TABLE salts (name TEXT PRIMARY KEY, salt TEXT NOT NULL)",
)
_NEW_CHARGE = (
    "INSERT INTO charges (name, epsilon, delta, purpose, privacy_unit, max_rows, charged_at, state, "
    "not_private) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_NEW_LEDGER = (
    "NEW LEDGER %s started for the table %r: it knows of nothing that was spent before. "
    f"If this table has a ledger elsewhere, name that one (ledger=, --ledger or {LEDGER_VARIABLE})."
)
_NEW_SALT = "INSERT OR IGNORE INTO salts SELECT account(?1), ?2 WHERE ?2 IS NOT NULL"
BEGUN, FINISHED, FAILED, LOST = "begun", "finished", "failed", "lost"
_Answer = TypeVar("_Answer")
_log = logging.getLogger("hdpview")


@dataclass(frozen=True)
class Spent:
    """One charge. state: `finished`; `failed`, where the work broke off; `lost`, where its view could not be
    written; `begun`, where it is under way or was killed. All count.

    not_private: why the promise does not hold for what was built, such as a test key; None where it does.
    """

    id: int
    table: str
    epsilon: Fraction
    delta: Fraction
    purpose: str
    privacy_unit: str
    max_rows: int
    charged_at: str
    state: str
    view: str | None
    not_private: str | None


@dataclass(frozen=True)
class Limits:
    """What may be spent on a table in all. epsilon: None where nothing was said."""

    epsilon: Fraction | None
    delta: Fraction = DEFAULT_DELTA_LIMIT


@dataclass(frozen=True)
class Receipt:
    """A charge that is on the disk. spent: on the table in all, this charge included.

    outcomes: what has been drawn for it; its file is kept until what was paid for has been written.
    """

    ledger: Ledger
    number: int
    table: str
    epsilon: Fraction
    spent: Fraction
    outcomes: Outcomes

    def name_view(self, view: str | None) -> None:
        """What was paid for is written, to the file `view` if it is one. Nothing is left to be resumed."""
        self.ledger.settle(self.number, FINISHED, view)
        self.outcomes.close(remove=True)

    def lose_view(self) -> None:
        """There is no view: it could not be written."""
        self.ledger.settle(self.number, LOST)


class Ledger:
    """A file of limits and charges. Every operation opens it, so that nothing is held between them."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)

    def limit(self, table: str) -> Limits:
        return self._read(lambda con: _limit(con, table), Limits(None))

    def tables(self) -> list[str]:
        """The name of each table that has a limit or a charge, once, as it was written first."""
        query = "SELECT name FROM charges UNION ALL SELECT name FROM limits"
        names = self._read(lambda con: [str(name) for (name,) in con.execute(query)], list[str]())
        return sorted({_account(name): name for name in reversed(names)}.values())

    def set_limit(self, table: str, epsilon: Fraction, delta: Fraction | None = None) -> None:
        """State what may be spent on a table in all; of δ, by default 1e-6. What is spent stays spent."""
        with self._write() as con:
            _check_amounts(epsilon, delta or Fraction(0))
            limits = (("epsilon", epsilon), ("delta", delta))
            for (what, limit), spent in zip(limits, _spent(con, _checked(table)), strict=True):
                if limit is not None and spent > limit:
                    raise BudgetError(
                        f"{_shown(spent)} of {what} has been spent on {table!r} already; its limit cannot "
                        f"be {_shown(limit)}."
                    )
            con.execute("DELETE FROM limits WHERE account(name) = account(?)", (table,))
            row = (table, str(epsilon), None if delta is None else str(delta))
            con.execute("INSERT INTO limits VALUES (?, ?, ?)", row)

    def charges(self, table: str | None = None) -> list[Spent]:
        """All charges, oldest first."""
        query = "SELECT * FROM charges WHERE ?1 IS NULL OR account(name) = account(?1) ORDER BY id"
        return self._read(lambda con: [_charge(row) for row in con.execute(query, (table,))], [])

    def salt(self, table: str) -> str | None:
        """By which rows of each person in this table are chosen; None where no build has chosen any."""
        query = "SELECT salt FROM salts WHERE name = account(?)"
        return self._read(lambda con: (con.execute(query, (table,)).fetchone() or (None,))[0], None)

    def spent(self, table: str) -> Fraction:
        return self._read(lambda con: _spent(con, table)[0], Fraction(0))

    def spent_delta(self, table: str) -> Fraction:
        return self._read(lambda con: _spent(con, table)[1], Fraction(0))

    def describe(self, table: str, coming: Fraction | None = None) -> str:
        """One line for people: what is charged, what is left, and where the ledger is.

        coming: what a build that begins now is going to charge; None where it has ended.
        """
        spent, limit = self.spent(table), self.limit(table).epsilon
        left = "no limit is set" if limit is None else f"{_shown(limit - spent)} of {_shown(limit)} left"
        if coming is None:
            said = f"epsilon {_shown(spent)} spent on {table!r} in all"
        else:
            said = f"this build charges epsilon {_shown(coming)} to {table!r}; {_shown(spent)} spent so far"
        return f"Budget: {said}, {left}. Ledger: {self.path}"

    def check(self, table: str, epsilon: Fraction, delta: Fraction = Fraction(0)) -> None:
        """Refuse, before any work, a budget that is not there; the charge checks again."""
        name = _checked(table)
        self._read(lambda con: _refuse_beyond_limit(con, name, epsilon, delta), None)
        if not self.path.exists() and delta > DEFAULT_DELTA_LIMIT:
            raise BudgetError(_beyond("delta", delta, name, DEFAULT_DELTA_LIMIT, DEFAULT_DELTA_LIMIT))

    def charge(
        self,
        table: str,
        epsilon: Fraction,
        purpose: str,
        privacy_unit: str = "row",
        max_rows: int = 1,
        delta: Fraction = Fraction(0),
        not_private: str | None = None,
        salt: str | None = None,
    ) -> int:
        """Spend a budget on a table, for good: on return it is on the disk. Returns the charge's number.

        not_private: why the promise will not hold for what is built; None where it will. salt: by which rows
            of each person are chosen; kept, so that the same ones can be chosen again. [P11]
        """
        moment, is_new = datetime.now(UTC).isoformat(timespec="seconds"), not self.path.exists()
        _check_amounts(epsilon, delta)
        row = (table, str(epsilon), str(delta), purpose, privacy_unit, max_rows, moment, BEGUN, not_private)
        with self._write() as con:  # [P12] looked up and written under one lock
            _refuse_beyond_limit(con, _checked(table), epsilon, delta)
            number = con.execute(_NEW_CHARGE, row).lastrowid
            con.execute(_NEW_SALT, (table, salt))
        assert number is not None
        if is_new:
            _log.warning(_NEW_LEDGER, self.path, table)
        return number

    def settle(self, number: int, state: str, view: str | None = None) -> None:
        """Note what became of a charge. Where the ledger is busy, only the note is lost."""
        noted = "UPDATE charges SET state = ?, view = coalesce(?, view) WHERE id = ?"
        try:
            with self._write() as con:
                con.execute(noted, (state, view, number))
        except BudgetError as problem:
            _log.warning("Charge %d stays as it is in the ledger, and is %s: %s", number, state, problem)

    @contextmanager
    def charged(
        self, table: str, epsilon: Fraction, *terms: Any, order: dict[str, Any], resume: bool = False
    ) -> Iterator[Receipt]:
        """Work that was paid for: charged before it begins, settled by how it ends, never refunded. [P12]

        terms: as of `charge`. order: what is paid for, in public words. resume: go on with the last charge of
            this order whose outcomes are on the disk, and charge nothing.
        """
        spent = self.spent(table) + (0 if resume else epsilon)
        number = self._unfinished(table, order) if resume else self.charge(table, epsilon, *terms)
        place = self._place_of(number)
        outcomes = Checkpoint(place, order, resume=resume)
        try:
            yield Receipt(self, number, table, epsilon, spent, outcomes)
        except BaseException:
            self.settle(number, FAILED)
            how = "To finish it without paying again, repeat the command with --resume (resume=True)."
            _log.warning(
                "Broken off after the charge: epsilon %s stays spent on %r, as charge %d of %s says. %s",
                *(_shown(epsilon), table, number, self.path, how if place.exists() else ""),
            )
            raise
        else:
            self.settle(number, FINISHED)
        finally:
            outcomes.close(remove=False)

    def is_unfinished(self, table: str, order: dict[str, Any]) -> bool:
        """Whether work of this order was paid for and broke off, so that it can be resumed."""
        return any(is_of(self._place_of(charge.id), order) for charge in self.charges(_checked(table)))

    def _unfinished(self, table: str, order: dict[str, Any]) -> int:
        left = [charge for charge in self.charges(_checked(table)) if self._place_of(charge.id).exists()]
        for charge in reversed(left):
            if is_of(self._place_of(charge.id), order):
                return charge.id
        if not left:
            raise BudgetError(
                f"Nothing that was paid for {table!r} is left to be resumed, as far as {str(self.path)!r} "
                "shows. Leave out --resume (resume=True)."
            )
        listed = ", ".join(f"charge {charge.id}: {charge.purpose}" for charge in left)
        raise BudgetError(
            f"What is left to be resumed for {table!r} is of another schema, method, budget or privacy unit "
            f"({listed}). Resume with the same arguments."
        )

    def _place_of(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.stem}-charge-{number}.released")

    def _read(self, work: Callable[[sqlite3.Connection], _Answer], if_absent: _Answer) -> _Answer:
        if not self.path.exists():
            return if_absent
        with self._open() as con:
            return work(con)

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        with self._open() as con:
            con.execute("BEGIN IMMEDIATE")
            try:
                yield con
                con.execute("COMMIT")
            except BaseException:
                if con.in_transaction:
                    con.execute("ROLLBACK")
                raise

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection whose commits survive a power cut. A new file is for its owner's eyes alone."""
        try:
            if not self.path.exists():
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            con = sqlite3.connect(self.path, timeout=_WAIT_SECONDS, isolation_level=None)
            try:
                # The folder is synchronised too when the journal goes.
                con.execute("PRAGMA synchronous = EXTRA")
                con.create_function("account", 1, _account, deterministic=True)
                _prepare(con, self.path)
                yield con
            finally:
                con.close()
        except sqlite3.Error as problem:
            raise BudgetError(
                f"Cannot use the ledger {str(self.path)!r} ({problem}). Nothing more was spent than it shows."
            ) from None
        except OSError as problem:
            raise BudgetError(
                f"Cannot open the ledger {str(self.path)!r}: {problem.strerror or problem}. Name another "
                f"file (ledger=, --ledger or {LEDGER_VARIABLE}), or keep none (ledger=False, --no-ledger)."
            ) from None


def ledger_for(source: Any, table: str | None = None) -> Path | None:
    """The ledger of a table for which none was named: HDPVIEW_LEDGER, or the one beside the table's file.

    A table that is no file has one only where it has a name, given or in a catalogue: in the working
    directory. None where there is none to be found.
    """
    configured, place = os.environ.get(LEDGER_VARIABLE), _path_of(source)
    if place is None and table is None and not isinstance(source, str):
        return None
    if configured:
        return Path(configured).expanduser()
    if place is None:
        return Path(LEDGER_NAME)
    return _folder_beside(place.resolve() if place.is_symlink() else place) / LEDGER_NAME


def default_ledger() -> Path:
    """The ledger to show where no table is named: HDPVIEW_LEDGER's, or that of the working directory."""
    return Path(os.environ.get(LEDGER_VARIABLE) or LEDGER_NAME).expanduser()


def name_of(source: Any) -> str:
    """The name of a table that has no other: its file's or folder's; of a pattern, what comes before the
    first wildcard: `visits-*.parquet` is `visits`, and so is `visits/*.csv`.
    """
    if not isinstance(source, (str, Path)):
        raise BudgetError("Name the table that the ledger is charged for, such as table='admissions'.")
    path = Path(source).expanduser()
    if glob.has_magic(str(source)) and not path.exists():
        before = re.split(r"[*?\[]", path.name)[0].strip("-_. ")
        return before or _folder_beside(path).resolve().name or str(source)
    ending = r"\.(parquet|pq|csv|tsv|jsonl|ndjson)(\.gz)?$"
    return re.sub(ending, "", path.resolve().name, flags=re.IGNORECASE) or str(source)


def _path_of(source: Any) -> Path | None:
    """Where a table lies, if it is files on this machine."""
    if not isinstance(source, (str, Path)) or re.match(r"[a-zA-Z][\w+.-]+://", str(source)):
        return None
    path = Path(source).expanduser()
    return path if path.exists() or glob.has_magic(str(source)) else None


def _folder_beside(path: Path) -> Path:
    """The folder that a file or folder lies in; of a pattern, the last one that is no pattern itself."""
    plain = path.parent
    while glob.has_magic(str(plain)) and not plain.exists():
        plain = plain.parent
    return plain


def _prepare(con: sqlite3.Connection, path: Path) -> None:
    """Make the tables of a new file, or add what a ledger of an earlier version does not have."""
    version = con.execute("PRAGMA user_version").fetchone()[0]
    if version == _VERSION:
        return
    is_new = version == 0 and not con.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if not 1 <= version < _VERSION and not is_new:
        raise BudgetError(f"{str(path)!r} is not a ledger of this hdpview. Name another file.")
    con.execute("BEGIN IMMEDIATE")
    # Unless another build did it while this one waited.
    if con.execute("PRAGMA user_version").fetchone()[0] == version:
        steps = _SCHEMA + _ADDED[-1] if is_new else "".join(_ADDED[version - 1 :])
        for statement in filter(str.strip, steps.split(";")):
            con.execute(statement)
        con.execute(f"PRAGMA user_version = {_VERSION}")
    con.execute("COMMIT")


def _checked(table: str) -> str:
    if not isinstance(table, str) or not _account(table) or len(table) > 200:
        raise BudgetError(f"The name of a table is a text of 1 to 200 characters, not {table!r}.")
    return table


def _account(name: object) -> str:
    """What two spellings of one name have in common: case, blanks and invisible signs open no new account."""
    plain = unicodedata.normalize("NFKC", str(name))
    return " ".join("".join(c for c in plain if unicodedata.category(c) != "Cf").casefold().split())


def _check_amounts(epsilon: Fraction, delta: Fraction) -> None:
    if epsilon <= 0 or delta < 0:
        raise BudgetError(f"Epsilon is above 0 and delta not below: not {epsilon} and {delta}.")


def _amount(written: object) -> Fraction:
    """A budget as the file holds it."""
    with suppress(ValueError, ZeroDivisionError):
        if (amount := Fraction(str(written))) >= 0:
            return amount
    raise BudgetError("The ledger was changed by hand: a budget in it is no number. Restore a copy of it.")


def _limit(con: sqlite3.Connection, table: str) -> Limits:
    query = "SELECT epsilon, delta FROM limits WHERE account(name) = account(?)"
    rows = con.execute(query, (table,)).fetchall()
    epsilons = [_amount(epsilon) for epsilon, _ in rows]
    deltas = [_amount(delta) for _, delta in rows if delta is not None]
    return Limits(min(epsilons, default=None), min(deltas, default=DEFAULT_DELTA_LIMIT))


def _spent(con: sqlite3.Connection, table: str) -> tuple[Fraction, Fraction]:
    """ε and δ of all charges of a table."""
    query = "SELECT epsilon, delta FROM charges WHERE account(name) = account(?)"
    epsilons, deltas = zip(("0", "0"), *con.execute(query, (table,)), strict=True)
    return sum(map(_amount, epsilons), Fraction(0)), sum(map(_amount, deltas), Fraction(0))


def _refuse_beyond_limit(con: sqlite3.Connection, table: str, epsilon: Fraction, delta: Fraction) -> None:
    """[P12]"""
    limit, (spent, spent_delta) = _limit(con, table), _spent(con, table)
    if limit.epsilon is not None and epsilon > limit.epsilon - spent:
        raise BudgetError(_beyond("epsilon", epsilon, table, limit.epsilon - spent, limit.epsilon))
    if delta > 0 and delta > limit.delta - spent_delta:
        raise BudgetError(_beyond("delta", delta, table, limit.delta - spent_delta, limit.delta))


def _beyond(what: str, wanted: Fraction, table: str, left: Fraction, limit: Fraction) -> str:
    how = f"limit {table} EPSILON" + (" --delta DELTA" if what == "delta" else "")
    return (
        f"{what} {_shown(wanted)} is more than is left for {table!r}: {_shown(left)} of {_shown(limit)}. "
        f"Spend at most that, or raise the limit with hdpview ledger {how} if your rules allow it."
    )


def _charge(row: tuple[Any, ...]) -> Spent:
    number, name, epsilon, delta, *rest = row
    return Spent(number, name, _amount(epsilon), _amount(delta), *rest)


def _shown(epsilon: Fraction) -> str:
    return f"{float(epsilon):g}"
