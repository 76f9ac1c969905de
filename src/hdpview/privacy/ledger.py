"""The budget spent on each table over all builds, kept in a file.

Tables are listed under the names that the curator gives them; nothing in the file is derived from the data. A
charge is on disk before any noise is drawn, and stays there even if the build fails, because somebody may
have seen part of the result. Simultaneous builds queue for the file, so that together they cannot exceed a
limit.

A table has one ledger for all users and folders: the file that HDPVIEW_LEDGER names, or else one beside the
table's own file.
"""

from __future__ import annotations

import glob
import logging
import math
import os
import re
import sqlite3
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from hdpview.errors import BudgetError
from hdpview.privacy.checkpoint import Checkpoint, is_of
from hdpview.privacy.mechanism import Outcomes

LEDGER_NAME = "hdpview-ledger.sqlite"
LEDGER_VARIABLE = "HDPVIEW_LEDGER"
# Limit of δ for a table without a stated limit.
DEFAULT_DELTA_LIMIT = Fraction(1, 10**6)
# Characters of a view's fingerprint in the purpose of a charge: enough to tell all views of a ledger apart.
_FINGERPRINT_DIGITS = 16
# Seconds to wait for other builds that are writing.
_WAIT_SECONDS = 60.0
# Changes of the file's layout, by version.
_VERSIONS = (
    """CREATE TABLE limits (name TEXT PRIMARY KEY, epsilon TEXT NOT NULL);
    CREATE TABLE charges (
        id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL,
        purpose TEXT NOT NULL, privacy_unit TEXT NOT NULL, max_rows INTEGER NOT NULL,
        charged_at TEXT NOT NULL, state TEXT NOT NULL, view TEXT)""",
    "ALTER TABLE limits ADD COLUMN delta TEXT; ALTER TABLE charges ADD COLUMN not_private TEXT",
    "CREATE TABLE salts (name TEXT PRIMARY KEY, salt TEXT NOT NULL)",
)
_NEW_CHARGE = (
    "INSERT INTO charges (name, epsilon, delta, purpose, privacy_unit, max_rows, charged_at, state, "
    "not_private) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_NEW_LEDGER = (
    "NEW LEDGER %s started for the table %r: it has no record of earlier spending. "
    f"If this table has a ledger elsewhere, name that one (ledger=, --ledger or {LEDGER_VARIABLE})."
)
_REFINED_BEFORE = (
    "This view was already refined, by charge {}; a second refinement would reveal more than it costs. "
    "Refine the refined view, finish that refinement with --resume (resume=True) if it failed, or build a "
    "new view, whose budget adds to that of this one."
)
_NEW_SALT = "INSERT OR IGNORE INTO salts SELECT table_key(?1), ?2 WHERE ?2 IS NOT NULL"
_SALT = "SELECT salt FROM salts WHERE name = table_key(?)"
BEGUN, FINISHED, FAILED = "begun", "finished", "failed"
_log = logging.getLogger("hdpview")


@dataclass(frozen=True)
class Spent:
    """One charge. state: `finished`; `failed` if the build failed or its view could not be written; `begun`
    while it is running, or if it was killed. All of them count.

    not_private: why the guarantee does not hold for the result, such as a test key; None if it does.
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


class Limits(NamedTuple):
    """The total budget of a table. epsilon: None if no limit was stated."""

    epsilon: Fraction | None
    delta: Fraction = DEFAULT_DELTA_LIMIT


@dataclass(frozen=True)
class Receipt:
    """A charge that is on disk. spent: on the table in total, including this charge.

    outcomes: what has been drawn for it; its file is kept until what was paid for has been written.
    """

    ledger: Ledger
    number: int
    table: str
    epsilon: Fraction
    spent: Fraction
    outcomes: Outcomes

    def name_view(self, view: str | None) -> None:
        """Record that the result was written, to the file `view` if it is a view, and end resuming."""
        self.ledger.settle(self.number, FINISHED, view)
        self.outcomes.close(remove=True)

    def lose_view(self) -> None:
        """Record that the view could not be written."""
        self.ledger.settle(self.number, FAILED)


class Ledger:
    """A file of limits and charges. Every operation opens it, so no connection stays open in between."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)

    def limit(self, table: str) -> Limits:
        with self._open() as con:
            return _limit(con, table)

    def tables(self) -> list[str]:
        """The tables with a limit or a charge, each listed once, as first spelled."""
        with self._open() as con:
            names = con.execute("SELECT name FROM charges UNION ALL SELECT name FROM limits").fetchall()
        return sorted({_table_key(name): str(name) for (name,) in reversed(names)}.values())

    def set_limit(self, table: str, epsilon: Fraction, delta: Fraction | None = None) -> None:
        """Set the total budget of a table; the default limit of δ is 1e-6. Spent budget stays spent."""
        with self._write() as con:
            _check_amounts(epsilon, delta or Fraction(0))
            spent = _spent(_charges(con, _checked(table)))
            for what, limit, used in zip(("epsilon", "delta"), (epsilon, delta), spent, strict=True):
                if limit is not None and used > limit:
                    already = f"{_shown(used)} of {what} has already been spent on {table!r}"
                    raise BudgetError(f"{already}; its limit cannot be {_shown(limit)}.")
            con.execute("DELETE FROM limits WHERE table_key(name) = table_key(?)", (table,))
            row = (table, str(epsilon), None if delta is None else str(delta))
            con.execute("INSERT INTO limits VALUES (?, ?, ?)", row)

    def charges(self, table: str | None = None) -> list[Spent]:
        """All charges, oldest first."""
        with self._open() as con:
            return _charges(con, table)

    def salt(self, table: str) -> str | None:
        """The salt that selects each person's rows of this table; None if no build has selected any."""
        with self._open() as con:
            row = con.execute(_SALT, (table,)).fetchone()
        return None if row is None else str(row[0])

    def spent(self, table: str) -> Fraction:
        return _spent(self.charges(table))[0]

    def knows(self, table: str) -> bool:
        return _table_key(table) in map(_table_key, self.tables())

    def describe(self, table: str, coming: Fraction | None = None) -> str:
        """One line for people: what is charged, what is left, and where the ledger is.

        coming: the charge of a build that is about to begin; None after it.
        """
        spent, limit = self.spent(table), self.limit(table).epsilon
        left = "no limit is set" if limit is None else f"{_shown(limit - spent)} of {_shown(limit)} left"
        status = f"epsilon {_shown(spent)} spent on {table!r} in total"
        if coming is not None:
            status = f"this build charges epsilon {_shown(coming)} to {table!r}; {_shown(spent)} spent so far"
        return f"Budget: {status}, {left}. Ledger: {self.path}"

    def check(self, table: str, epsilon: Fraction, delta: Fraction = Fraction(0)) -> None:
        """Refuse a budget above the limit before any work; the charge checks it again."""
        with self._open() as con:
            _refuse_beyond_limit(con, _checked(table), epsilon, delta)

    def charge(self, *terms: Any, **more: Any) -> int:
        """Spend a budget on a table permanently: on return it is on disk. Returns the charge's number."""
        with self._charging(*terms, **more) as number:
            return number

    @contextmanager
    def _charging(
        self,
        table: str,
        epsilon: Fraction,
        purpose: str,
        privacy_unit: str = "row",
        max_rows: int = 1,
        delta: Fraction = Fraction(0),
        not_private: str | None = None,
        salt: str | None = None,
        refined_view: str | None = None,
    ) -> Iterator[int]:
        """The number of a new charge, which is on disk at the end of the block.

        not_private: why the guarantee will not hold for the result; None if it will. salt: decides which rows
            of each person are chosen; kept, so that a later build can choose the same ones. [P11]
        refined_view: the fingerprint of the view to refine. A view is refined at most once. [P17]
        """
        moment, is_new = datetime.now(UTC).isoformat(timespec="seconds"), not self.path.exists()
        _check_amounts(epsilon, delta)
        purpose += f", refining {refined_view[:_FINGERPRINT_DIGITS]}" if refined_view else ""
        row = (table, str(epsilon), str(delta), purpose, privacy_unit, max_rows, moment, BEGUN, not_private)
        with self._write() as con:  # [P12] looked up and written under one lock
            _refuse_beyond_limit(con, _checked(table), epsilon, delta)
            earlier = con.execute("SELECT id FROM charges WHERE purpose = ?", (purpose,)).fetchone()
            if refined_view and earlier is not None:
                raise BudgetError(_REFINED_BEFORE.format(*earlier))
            con.execute(_NEW_SALT, (table, salt))
            if salt is not None and (salt,) not in con.execute(_SALT, (table,)):  # [P17]
                raise BudgetError("Another build has just chosen the rows of each person. Repeat this one.")
            yield int(con.execute(_NEW_CHARGE, row).lastrowid or 0)
        if is_new:
            _log.warning(_NEW_LEDGER, self.path, table)

    def settle(self, number: int, state: str, view: str | None = None) -> None:
        """Record how the work of a charge ended. If the ledger is busy, only this note is lost."""
        try:
            with self._write() as con:
                note = "UPDATE charges SET state = ?, view = coalesce(?, view) WHERE id = ?"
                con.execute(note, (state, view, number))
        except BudgetError as problem:
            _log.warning("Charge %d stays as it is in the ledger, and is %s: %s", number, state, problem)

    @contextmanager
    def charged(
        self, table: str, epsilon: Fraction, *terms: Any, order: dict[str, Any], resume: bool = False
    ) -> Iterator[Receipt]:
        """Paid work: charged before it begins, settled when it ends, never refunded. [P12]

        terms: arguments of `charge`. order: public description of the paid work. resume: continue the last
            charge with this order whose outcomes are on disk, and charge nothing.
        """
        paid = (
            nullcontext(self._to_resume(table, order)) if resume else self._charging(table, epsilon, *terms)
        )
        # The file of outcomes exists before the charge is on disk, so no charge lacks one.
        with paid as number:
            spent = self.spent(table) + (0 if resume else epsilon)
            place = self._place_of(number)
            outcomes = Checkpoint(place, order, resume=resume)
        try:
            yield Receipt(self, number, table, epsilon, spent, outcomes)
        except BaseException:
            self.settle(number, FAILED)
            how = "To finish it without paying again, repeat the command with --resume (resume=True)."
            _log.warning(
                "Failed after the charge: epsilon %s stays spent on %r (charge %d in %s). %s",
                *(_shown(epsilon), table, number, self.path, how if place.exists() else ""),
            )
            raise
        else:
            self.settle(number, FINISHED)
        finally:
            outcomes.close(remove=False)

    def unfinished(self, table: str, order: dict[str, Any]) -> list[int]:
        """Charges for work of this order that was interrupted and can be resumed, oldest first."""
        return [each.id for each in self.charges(_checked(table)) if is_of(self._place_of(each.id), order)]

    def _to_resume(self, table: str, order: dict[str, Any]) -> int:
        if of_order := self.unfinished(table, order):
            return of_order[-1]
        left = [charge for charge in self.charges(table) if self._place_of(charge.id).exists()]
        if not left:
            nothing = f"The ledger {str(self.path)!r} has no interrupted charge on {table!r} to resume."
            raise BudgetError(f"{nothing} Leave out --resume (resume=True).")
        listed = ", ".join(f"charge {charge.id}: {charge.purpose}" for charge in left)
        other = f"has another schema, method, budget or privacy unit ({listed})"
        raise BudgetError(f"The interrupted work on {table!r} {other}. Resume it with the same arguments.")

    def _place_of(self, number: int) -> Path:
        ledger = self.path.resolve()  # a link to it may lie elsewhere
        return ledger.with_name(f"{ledger.name}-charge-{number}.released")

    @contextmanager
    def _write(self) -> Iterator[sqlite3.Connection]:
        """One transaction, which an exception undoes."""
        with self._open(create=True) as con:
            con.execute("BEGIN IMMEDIATE")
            yield con
            con.execute("COMMIT")

    @contextmanager
    def _open(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        """A connection whose commits survive a power cut. Only its owner can read a new file.

        If there is no file and none should be created, an empty ledger in memory takes its place.
        """
        try:
            is_there = self.path.exists()
            if create and not is_there:
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            place = self.path if create or is_there else ":memory:"
            with closing(sqlite3.connect(place, timeout=_WAIT_SECONDS, isolation_level=None)) as con:
                # Also synchronise the folder when the journal is deleted.
                con.execute("PRAGMA synchronous = EXTRA")
                con.create_function("table_key", 1, _table_key, deterministic=True)
                _prepare(con, self.path)
                yield con
        except sqlite3.Error as problem:
            use = f"Cannot use the ledger {str(self.path)!r} ({problem})"
            raise BudgetError(f"{use}. Nothing more was spent than it shows.") from None
        except OSError as problem:
            way_out = (
                f"Name another (ledger=, --ledger or {LEDGER_VARIABLE}), or none (ledger=False, --no-ledger)"
            )
            opening = f"Cannot open the ledger {str(self.path)!r}: {problem.strerror or problem}"
            raise BudgetError(f"{opening}. {way_out}.") from None


def ledger_for(source: Any, table: str | None = None) -> Path | None:
    """The ledger of a table if none was named: HDPVIEW_LEDGER, or the one beside the table's file.

    A table that is not a file has a ledger in the working directory if it has a name, given or from a
    catalogue; otherwise None.
    """
    place = None
    if isinstance(source, (str, Path)) and not re.match(r"[a-zA-Z][\w+.-]+://", str(source)):
        path = Path(source).expanduser()
        place = path if path.exists() or glob.has_magic(str(source)) else None
    if place is None and table is None and not isinstance(source, str):
        return None
    if place is None or os.environ.get(LEDGER_VARIABLE):
        return default_ledger()
    place = place.resolve() if place.is_symlink() else place
    # `visits` and `visits/*.csv` are one table. Its ledger lies in the folder; earlier versions put that of
    # `visits` beside it.
    folder = place if place.is_dir() else _folder_beside(place)
    inside, beside = folder / LEDGER_NAME, folder.resolve().parent / LEDGER_NAME
    if place.is_dir() or name_of(source) == folder.resolve().name:
        name = table or name_of(source)
        return beside if Ledger(beside).knows(name) and not Ledger(inside).knows(name) else inside
    return inside


def default_ledger() -> Path:
    """The ledger to show if no table is named: HDPVIEW_LEDGER, or that of the working directory."""
    return Path(os.environ.get(LEDGER_VARIABLE) or LEDGER_NAME).expanduser()


def name_of(source: Any) -> str:
    """The default name of a table: that of its file or folder; for a pattern, the part before the first
    wildcard: both `visits-*.parquet` and `visits/*.csv` are `visits`.
    """
    if not isinstance(source, (str, Path)):
        raise BudgetError("Name the table that the ledger is charged for, such as table='admissions'.")
    path = Path(source).expanduser()
    if glob.has_magic(str(source)) and not path.exists():
        before = re.split(r"[*?\[]", path.name)[0].strip("-_. ")
        return before or _folder_beside(path).resolve().name or str(source)
    ending = r"\.(parquet|pq|csv|tsv|jsonl|ndjson)(\.(gz|zst))?$"
    return re.sub(ending, "", path.resolve().name, flags=re.IGNORECASE) or str(source)


def _folder_beside(path: Path) -> Path:
    """The folder that contains a file or folder; for a pattern, the deepest folder before any wildcard."""
    return next(up for up in path.parents if up.exists() or not glob.has_magic(str(up)))


def _prepare(con: sqlite3.Connection, path: Path) -> None:
    """Create the tables of a new file, or upgrade a ledger of an earlier version."""
    version = con.execute("PRAGMA user_version").fetchone()[0]
    if version == len(_VERSIONS):
        return
    is_other = version == 0 and con.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if is_other or not 0 <= version < len(_VERSIONS):
        raise BudgetError(f"{str(path)!r} is not a ledger of this hdpview. Name another file.")
    con.execute("BEGIN IMMEDIATE")
    # Another process may have upgraded the ledger while this one waited.
    if con.execute("PRAGMA user_version").fetchone()[0] == version:
        for statement in ";".join(_VERSIONS[version:]).split(";"):
            con.execute(statement)
        con.execute(f"PRAGMA user_version = {len(_VERSIONS)}")
    con.execute("COMMIT")


def _checked(table: str) -> str:
    if not isinstance(table, str) or not _table_key(table) or len(table) > 200:
        raise BudgetError(f"The name of a table must be a text of 1 to 200 characters, not {table!r}.")
    return table


def _table_key(name: object) -> str:
    """The form that all spellings of a name share, without case, blanks and invisible characters."""
    plain = unicodedata.normalize("NFKC", str(name))
    return " ".join("".join(c for c in plain if unicodedata.category(c) != "Cf").casefold().split())


def _check_amounts(epsilon: Fraction, delta: Fraction) -> None:
    if not (0 < epsilon < math.inf and 0 <= delta < math.inf):
        raise BudgetError(f"Epsilon must be above 0, and delta 0 or more: not {epsilon} and {delta}.")


def _amount(written: object) -> Fraction:
    """A budget as the file stores it."""
    with suppress(ValueError, ZeroDivisionError):
        if (amount := Fraction(str(written))) >= 0:
            return amount
    raise BudgetError("The ledger was changed by hand: a budget in it is not a number. Restore a copy.")


def _limit(con: sqlite3.Connection, table: str) -> Limits:
    query = "SELECT epsilon, delta FROM limits WHERE table_key(name) = table_key(?)"
    rows = con.execute(query, (table,)).fetchall()
    epsilons = [_amount(epsilon) for epsilon, _ in rows]
    deltas = [_amount(delta) for _, delta in rows if delta is not None]
    return Limits(min(epsilons, default=None), min(deltas, default=DEFAULT_DELTA_LIMIT))


def _charges(con: sqlite3.Connection, table: str | None) -> list[Spent]:
    """The charges of a table, or of all tables, oldest first."""
    query = "SELECT * FROM charges WHERE ?1 IS NULL OR table_key(name) = table_key(?1) ORDER BY id"
    return [
        Spent(number, name, _amount(epsilon), _amount(delta), *rest)
        for number, name, epsilon, delta, *rest in con.execute(query, (table,))
    ]


def _spent(charges: Sequence[Spent]) -> tuple[Fraction, Fraction]:
    """Total ε and δ of these charges."""
    return Fraction(sum(each.epsilon for each in charges)), Fraction(sum(each.delta for each in charges))


def _refuse_beyond_limit(con: sqlite3.Connection, table: str, epsilon: Fraction, delta: Fraction) -> None:
    """[P12]"""
    spent = _spent(_charges(con, table))
    terms = zip(("epsilon", "delta"), (epsilon, delta), _limit(con, table), spent, strict=True)
    for what, wanted, limit, own in terms:
        if limit is not None and wanted > 0 and wanted > limit - own:
            how = f"limit {table} EPSILON" + (" --delta DELTA" if what == "delta" else "")
            left = f"{_shown(limit - own)} of {_shown(limit)}"
            raise BudgetError(
                f"{what} {_shown(wanted)} is more than is left for {table!r}: {left}. Spend at most that, or "
                f"raise the limit with hdpview ledger {how} if your rules allow it."
            )


def _shown(epsilon: Fraction) -> str:
    return f"{float(epsilon):g}"
