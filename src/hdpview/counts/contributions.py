"""Who is protected, and how much one of them can change: rows of a person are bounded before anything else
looks at them.

    rows ─ without a person: dropped ─▶ of each person a random choice of at most k ─▶ counted

The choice is a function of that person's own rows and of a salt, nothing else. So for any salt, a person more
or less in the table changes the chosen rows by that person's, k at most, and nobody else's. The salt may be
known: the argument holds for each one.
"""

from __future__ import annotations

from dataclasses import dataclass

import ibis

from hdpview.counts.frames import NOT_TEXT
from hdpview.counts.values import Column, exact_float, exact_int, is_one_of, whole_number
from hdpview.errors import DataError, unknown_name

EACH_ROW_UNIT = "row"  # what manifests and ledgers call it where each row is protected by itself
MOST_ROWS = 1_000_000
MOST_PER_ROW = 2**40  # records that one row of an aggregated table can stand for
_UNITS = ("integer", "floating", "decimal", "boolean", "string", "uuid", "date", "timestamp", "null")


@dataclass(frozen=True)
class Contributions:
    """What one person can contribute.

    unit: the column that names the person; None where each row is one.
    max_rows: records that one person has in the counts, at most. With a unit this is enforced; without one it
        is the curator's word.
    count: the column of an aggregated table that says how many records a row stands for; None where each row
        is one record.
    no_person: what the unit holds where nobody is named, such as "NA" or "unknown"; such rows are left out.
        Any other text identifies a person; all rows that say "unknown" count as one.
    """

    unit: str | None = None
    max_rows: int = 1
    count: str | None = None
    no_person: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (
            isinstance(self.max_rows, bool)
            or not isinstance(self.max_rows, int)
            or not 1 <= self.max_rows <= MOST_ROWS
        ):
            raise DataError(
                f"max_rows must be a whole number from 1 to {MOST_ROWS:,}, not {self.max_rows!r}."
            )
        if self.unit is None and self.count is None and self.max_rows != 1:
            raise DataError(
                "max_rows bounds the rows of a person, so it needs privacy_unit: the column that "
                "identifies the person."
            )
        if isinstance(self.no_person, str) or not all(isinstance(value, str) for value in self.no_person):
            raise DataError('no_person is a list of texts, such as ["NA", "unknown"].')
        if self.no_person and self.unit is None:
            raise DataError(
                "no_person lists what stands for nobody in the column privacy_unit, so it needs privacy_unit."
            )
        if self.unit == EACH_ROW_UNIT:
            raise DataError(
                "'row' is the privacy unit of views that protect each row. Rename the column 'row' that "
                "identifies the person."
            )
        if self.unit is not None and self.unit == self.count:
            raise DataError(f"Column {self.unit!r} cannot both name the person and count records.")

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that are read besides the schema's."""
        return tuple(name for name in (self.unit, self.count) if name is not None)

    def check(self, types: dict[str, str]) -> None:
        """Raise a DataError where a table has no such column, or one that cannot say who or how many."""
        for name in self.columns:
            if name not in types:
                raise DataError(unknown_name("column", name, types, "The table has"))
        kinds = {self.unit: _UNITS, self.count: ("integer", "floating", "decimal", "string", "null")}
        for name in self.columns:
            if not is_one_of(types[name], kinds[name]):
                fitting = ", ".join(kind for kind in kinds[name] if kind != "null")
                raise DataError(f"Column {name!r} is of type {types[name]}; it has to be one of: {fitting}.")


EACH_ROW = Contributions()


def bounded(words: ibis.Table, limits: Contributions, salt: str, *, is_ours: bool = False) -> ibis.Table:
    """Packed cells with a column `n` of how many records each row adds to its cell. [P11]

    words: `word_0`, `word_1`, …, and the columns `unit` and `count` where `limits` names them.
    is_ours: whether the rows are in a database of our own, where texts are equal only if all their bytes are.
    """
    counted = words if limits.count is None else words.mutate(n=_records(words["count"]))
    if limits.unit is None:
        return counted if limits.count is not None else counted.mutate(n=exact_int(1))
    own, person = of_persons(counted, limits, is_ours)
    cell = words_in(own)
    same = [name for name in own.columns if name in (*cell, "n")]
    # Rows of a person that agree in everything are told apart by a number, so that each row has the same
    # chance to be chosen.
    numbered = own.mutate(copy=ibis.row_number().over(group_by=[*person, *same], order_by=cell[0]))
    keyed = numbered.mutate(lot=_lot(numbered, same, salt))
    by_lot = ibis.window(group_by=person, order_by=["lot", *same, "copy"])
    if limits.count is None:
        ranked = keyed.mutate(place=ibis.row_number().over(by_lot))
        return ranked.filter(ranked["place"] < exact_int(limits.max_rows)).mutate(n=exact_int(1))
    until = ibis.cumulative_window(group_by=person, order_by=["lot", *same, "copy"])
    # As doubles, which never overflow: exact up to 2**53, and beyond that no room is left anyway, since sums
    # only grow.
    running = keyed.mutate(until=keyed["n"].cast("float64").sum().over(until))
    room = exact_float(limits.max_rows) - (running["until"] - running["n"].cast("float64"))
    some = (room < running["n"].cast("float64"), room.cast("int64"))
    taken = running.mutate(n=ibis.cases((room <= exact_float(0), exact_int(0)), some, else_=running["n"]))
    return taken.filter(taken["n"] > 0)


def of_persons(rows: ibis.Table, limits: Contributions, is_ours: bool) -> tuple[ibis.Table, list[str]]:
    """The rows that are somebody's, and the columns that name that person."""
    # [P11] A row of nobody is nobody's choice: it is left out.
    own = rows.filter(_names_somebody(rows["unit"], limits.no_person))
    if not own["unit"].type().is_string() or is_ours:
        return own, ["unit"]
    # [P11] Where a database takes `Ab` and `aB` for equal they would share a quota, and one of them could
    # change which rows of the other are counted. Their hashes differ.
    return own.mutate(exact_unit=md5(own["unit"])), ["unit", "exact_unit"]


def words_in(rows: ibis.Table) -> list[str]:
    """The columns `word_0`, `word_1`, … of packed cells."""
    return [name for name in rows.columns if name.startswith("word_")]


def _records(column: Column) -> Column:
    """Records that a row stands for, by a rule for this row alone. Null, text and negative count as 0."""
    number = column.cast("int64") if column.type().is_null() else whole_number(column)
    most = exact_int(MOST_PER_ROW)
    return ibis.cases((number.isnull() | (number < 0), exact_int(0)), (number > most, most), else_=number)


def _names_somebody(unit: Column, no_person: tuple[str, ...]) -> Column:
    """Whether a row says whose it is: not by null, nor by empty or blank text, which is what text files have
    for it, nor by NaN or a text that could not be decoded, nor by what the curator says stands for nobody.
    """
    if unit.type().is_string():
        # [P11] Where bytes could not be decoded, different persons may have become one.
        nobody = ["", *(value.strip() + tag for value in no_person for tag in ("", *NOT_TEXT))]
        return unit.notnull() & unit.strip().notin(nobody) & ~unit.contains("\ufffd")
    named = unit.notnull() & ~unit.isnan() if unit.type().is_floating() else unit.notnull()
    return named & unit.cast("string").notin(no_person) if no_person else named


def _lot(rows: ibis.Table, same: list[str], salt: str) -> Column:
    """A number drawn for each row: a keyed hash of person, cell and which of several equal rows it is."""
    text = ibis.literal(salt)
    for name in ("unit", *same, "copy"):
        text = text + ibis.literal("|") + ibis.coalesce(rows[name].cast("string"), "")
    return md5(text)


@ibis.udf.scalar.builtin
def md5(text: str) -> str:  # type: ignore[empty-body]
    """A hash that every database has under this name. It only has to look random, not to keep a secret."""
