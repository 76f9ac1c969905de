"""What has been spent on each table, kept in a file: the budget that outlives a build.

Tables go by the name the curator gives them; nothing in the file is derived from the data. A charge is on the
disk before any noise is
drawn, and stays there whatever becomes of the build: a view that was lost half-way may still have been seen.
    Two builds
at once queue for the file, so that together they cannot exceed a limit either.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from hdpview.errors import BudgetError

_WAIT_SECONDS = 60.0  # for other builds that write at the same moment
_VERSION = 1
_SCHEMA = """
CREATE TABLE limits (name TEXT PRIMARY KEY, epsilon TEXT NOT NULL);
CREATE TABLE charges (
    id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, epsilon TEXT NOT NULL, delta TEXT NOT NULL, purpose TEXT NOT NULL,
    privacy_unit TEXT NOT NULL, max_rows INTEGER NOT NULL, charged_at TEXT NOT NULL, state TEXT NOT NULL, view TEXT
);
"""
_Found = TypeVar("_Found")
BEGUN, FINISHED, FAILED = "begun", "finished", "failed"


@dataclass(frozen=True)
class Spent:
    """One charge. state: `finished`; `failed`, where the build broke off; `begun`, where it is under way or
    was killed. All count.
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


class Ledger:
    """A file of limits and charges. Every operation opens it, so that nothing is held between them."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)

    def limit(self, table: str) -> Fraction | None:
        """What may be spent on a table in all; None where nothing was said."""
        return self._read(lambda con: _limit(con, table), None)

    def limits(self) -> dict[str, Fraction]:
        query = "SELECT name, epsilon FROM limits ORDER BY name"
        return self._read(lambda con: {name: Fraction(text) for name, text in con.execute(query)}, {})

    def set_limit(self, table: str, epsilon: Fraction) -> None:
        """State what may be spent on a table in all. What has been spent already cannot be taken back."""
        with self._write() as con:
            spent = _spent(con, _checked(table))
            if spent > epsilon:
                raise BudgetError(
                    f"{_shown(spent)} of epsilon has been spent on {table!r} already; its limit cannot be {_shown(epsilon)}."
                )
            con.execute("INSERT OR REPLACE INTO limits VALUES (?, ?)", (table, str(epsilon)))

    def charges(self, table: str | None = None) -> list[Spent]:
        """All charges, oldest first."""
        query = "SELECT * FROM charges WHERE ?1 IS NULL OR name = ?1 ORDER BY id"
        return self._read(lambda con: [_charge(row) for row in con.execute(query, (table,))], [])

    def spent(self, table: str) -> Fraction:
        return self._read(lambda con: _spent(con, table), Fraction(0))

    def spent_delta(self, table: str) -> Fraction:
        """The δ of all charges of a table: they add up as ε does."""
        return sum((charge.delta for charge in self.charges(table)), Fraction(0))

    def check(self, table: str, epsilon: Fraction) -> str:
        """Refuse a budget that is not there, before any work is done for it. The charge checks again. Returns
        the table's name.
        """
        self._read(lambda con: _refuse_beyond_limit(con, _checked(table), epsilon), None)
        return table

    def charge(
        self,
        table: str,
        epsilon: Fraction,
        purpose: str,
        privacy_unit: str = "row",
        max_rows: int = 1,
        delta: Fraction = Fraction(0),
    ) -> int:
        """Spend a budget on a table, for good: on return it is on the disk. Returns the number of the charge.
        [P12]
        """
        moment = datetime.now(UTC).isoformat(timespec="seconds")
        with self._write() as con:  # [P12] looked up and written under one lock
            _refuse_beyond_limit(con, _checked(table), epsilon)
            row = (table, str(epsilon), str(delta), purpose, privacy_unit, max_rows, moment, BEGUN)
            names = "name, epsilon, delta, purpose, privacy_unit, max_rows, charged_at, state"
            number = con.execute(
                f"INSERT INTO charges ({names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row
            ).lastrowid
        assert number is not None
        return number

    def settle(self, number: int, state: str, view: str | None = None) -> None:
        """Note what became of a charge. It stays what it is."""
        with self._write() as con:
            con.execute(
                "UPDATE charges SET state = ?, view = coalesce(?, view) WHERE id = ?", (state, view, number)
            )

    def name_view(self, table: str, view: str) -> None:
        """Note the file that the last finished charge of a table went into."""
        with self._write() as con:
            last = "SELECT max(id) FROM charges WHERE name = ? AND state = ? AND view IS NULL"
            con.execute(f"UPDATE charges SET view = ? WHERE id = ({last})", (view, table, FINISHED))

    @contextmanager
    def charged(
        self,
        table: str,
        epsilon: Fraction,
        purpose: str,
        privacy_unit: str = "row",
        max_rows: int = 1,
        delta: Fraction = Fraction(0),
    ) -> Iterator[int]:
        """Work that was paid for: charged before it begins, and settled by how it ends. A failure is not
        refunded.
        """
        number = self.charge(table, epsilon, purpose, privacy_unit, max_rows, delta)
        try:
            yield number
        except BaseException:
            self.settle(number, FAILED)
            raise
        self.settle(number, FINISHED)

    def _read(self, work: Callable[[sqlite3.Connection], _Found], if_absent: _Found) -> _Found:
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
        """A connection whose commits survive a power cut. The file is made where it is absent, for its
        owner's eyes alone.
        """
        try:
            if not self.path.exists():
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            con = sqlite3.connect(self.path, timeout=_WAIT_SECONDS, isolation_level=None)
            try:
                con.execute(
                    "PRAGMA synchronous = EXTRA"
                )  # the folder is synchronised too when the journal goes
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
                f"Cannot open the ledger {str(self.path)!r}: {problem.strerror or problem}. Name another file."
            ) from None


def name_of(source: Any) -> str:
    """The name of a table that the curator gave no other name to: that of its file."""
    if not isinstance(source, (str, Path)):
        raise BudgetError("Name the table that the ledger is charged for, such as table='admissions'.")
    return Path(source).name.split(".")[0] or str(source)


def _prepare(con: sqlite3.Connection, path: Path) -> None:
    version = con.execute("PRAGMA user_version").fetchone()[0]
    if version == _VERSION:
        return
    if version != 0 or con.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise BudgetError(f"{str(path)!r} is not a ledger of this hdpview. Name another file.")
    con.execute("BEGIN IMMEDIATE")
    if (
        con.execute("PRAGMA user_version").fetchone()[0] == 0
    ):  # else another build made the tables while this one waited
        for statement in filter(str.strip, _SCHEMA.split(";")):
            con.execute(statement)
        con.execute(f"PRAGMA user_version = {_VERSION}")
    con.execute("COMMIT")


def _checked(table: str) -> str:
    if not isinstance(table, str) or not table.strip() or len(table) > 200:
        raise BudgetError(f"The name of a table is a text of 1 to 200 characters, not {table!r}.")
    return table


def _limit(con: sqlite3.Connection, table: str) -> Fraction | None:
    row = con.execute("SELECT epsilon FROM limits WHERE name = ?", (table,)).fetchone()
    return None if row is None else Fraction(row[0])


def _spent(con: sqlite3.Connection, table: str) -> Fraction:
    rows = con.execute("SELECT epsilon FROM charges WHERE name = ?", (table,))
    return sum((Fraction(text) for (text,) in rows), Fraction(0))


def _refuse_beyond_limit(con: sqlite3.Connection, table: str, epsilon: Fraction) -> None:
    limit = _limit(con, table)
    if limit is None:
        return
    left = limit - _spent(con, table)
    if epsilon > left:
        raise BudgetError(
            f"epsilon {_shown(epsilon)} is more than is left for {table!r}: {_shown(left)} of {_shown(limit)}. "
            f"Spend at most that, or raise the limit with hdpview ledger limit {table} EPSILON if your rules allow it."
        )


def _charge(row: tuple[Any, ...]) -> Spent:
    number, name, epsilon, delta, *rest = row
    return Spent(number, name, Fraction(epsilon), Fraction(delta), *rest)


def _shown(epsilon: Fraction) -> str:
    return f"{float(epsilon):g}"
