"""The privacy unit, and the limit on its contribution, which is applied before all other processing.

    rows ─ without a person: dropped ─▶ at most k random rows of each person ─▶ counted

The choice depends only on a person's own rows and a salt. So for any salt, adding or removing a person
changes at most k chosen rows, all of them that person's. This holds for every salt, so it may be public.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hdpview.counts.encode import NOT_TEXT, kind_of_type, name_sql, text_sql, whole_of_sql
from hdpview.errors import DataError, unknown_name

EACH_ROW_UNIT = "row"  # name in manifests and ledgers if each row is protected separately
MOST_ROWS = 1_000_000
MOST_PER_ROW = 2**40  # records that one row of an aggregated table can stand for
# Kinds of columns that can identify persons, and that can count records; or have no values at all.
_UNITS = ("integer", "floating", "decimal", "boolean", "string", "uuid", "date", "timestamp")
_COUNTS = ("integer", "floating", "decimal", "string")


@dataclass(frozen=True)
class Contributions:
    """The limits on one person's contribution.

    unit: the column that identifies the person; None if each row is a person.
    max_rows: most records counted per person. Enforced with a unit; otherwise promised by the curator.
    count: the column of an aggregated table with the number of records per row; None if each row is one
        record.
    anonymous_values: values of the unit that name nobody, such as "NA" or "unknown"; their rows are left out.
        Any other text identifies a person, so rows with an unlisted "unknown" count as one person.
    """

    unit: str | None = None
    max_rows: int = 1
    count: str | None = None
    anonymous_values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        k, nobody = self.max_rows, self.anonymous_values
        if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MOST_ROWS:
            raise DataError(f"max_rows must be a whole number from 1 to {MOST_ROWS:,}, not {k!r}.")
        if self.unit is None and self.count is None and k != 1:
            needed = "it needs privacy_unit: the column that identifies the person"
            raise DataError(f"max_rows bounds the rows of a person, so {needed}.")
        if isinstance(nobody, str) or not all(isinstance(value, str) for value in nobody):
            raise DataError('no_person must be a list of texts, such as ["NA", "unknown"].')
        # A list would make these limits differ from EACH_ROW, and from those of the build to resume.
        object.__setattr__(self, "anonymous_values", tuple(nobody))
        if nobody and self.unit is None:
            raise DataError("no_person lists values of privacy_unit that name nobody: add privacy_unit.")
        if self.unit == EACH_ROW_UNIT:
            way_out = "Rename the column 'row' that identifies the person."
            raise DataError(f"'row' is the privacy unit of views that protect each row. {way_out}")
        if self.unit is not None and self.unit == self.count:
            raise DataError(f"Column {self.unit!r} cannot both name the person and count records.")

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns to read in addition to the schema's."""
        return tuple(name for name in (self.unit, self.count) if name is not None)

    def check(self, types: dict[str, str]) -> None:
        """Raise a DataError if a table lacks these columns, or their types do not fit."""
        kinds = {self.unit: _UNITS, self.count: _COUNTS}
        for name in self.columns:
            if name not in types:
                raise DataError(unknown_name("column", name, types, "The table has"))
            if kind_of_type(types[name]) not in (*kinds[name], "null"):
                fitting = ", ".join(kinds[name])
                raise DataError(f"Column {name!r} is of type {types[name]}; it must be one of: {fitting}.")


EACH_ROW = Contributions()


def unit_sql(written: str, limits: Contributions) -> str:
    """The text that identifies a row's person. It is null for rows that name nobody: null, empty or blank
    text, NaN, undecodable text, or one of the curator's anonymous values.
    """
    assert limits.unit is not None
    column, kind = name_sql(limits.unit), kind_of_type(written)
    text = f"CAST({column} AS VARCHAR)"
    if kind == "string":
        # [P11] Undecodable bytes may have merged different persons into one.
        nobody = ["", *(value.strip() + tag for value in limits.anonymous_values for tag in ("", *NOT_TEXT))]
        listed = ", ".join(map(text_sql, nobody))
        return (
            f"CASE WHEN stripped({text}) NOT IN ({listed}) AND NOT contains({text}, '\ufffd') THEN {text} END"
        )
    listed = ", ".join(map(text_sql, limits.anonymous_values)) or "''"
    if kind == "floating":  # 0.0 and -0.0 are one person
        is_number = f"isfinite({column}) OR isinf({column})"
        text = f"CASE WHEN {column} = 0 THEN '0.0' WHEN {is_number} THEN {text} END"
    return f"CASE WHEN {text} NOT IN ({listed}) THEN {text} END"


def count_sql(column: str, written: str) -> str:
    """Number of records per row, from this row alone. Nulls, texts and negative numbers count as 0."""
    number = whole_of_sql(column, written)
    return f"CASE WHEN {number} > 0 THEN least({number}, {MOST_PER_ROW}) ELSE 0 END"


def bounded_sql(
    rows: str, columns: Sequence[str], codes: Sequence[str], limits: Contributions, salt: str
) -> str:
    """The rows that count, with a column `n` of the records that each adds to its cell if `limits` names a
    count column or a person. [P11]

    rows: a query with the given columns, and `unit` and `n` if `limits` names them. codes: SQL of a row's
    codes, the only part of a row that its choice depends on.
    """
    listed = ", ".join(columns)
    if limits.unit is None:
        return f"SELECT {listed}, n FROM ({rows}) AS counted WHERE n > 0"
    # Identical rows of a person are numbered, so that each row has the same chance to be chosen. [P11] Rows
    # that name nobody are left out.
    n = ["n"] if limits.count is not None else []
    cell = f"md5(concat_ws('|', {', '.join([*codes, *n])}))"
    named = f"SELECT *, {cell} AS cell FROM ({rows}) AS own WHERE unit IS NOT NULL"
    numbered = f"SELECT *, row_number() OVER (PARTITION BY unit, cell) AS copy FROM ({named}) AS named"
    lot = f"md5(concat_ws('|', {text_sql(salt)}, unit, cell, copy))"
    keyed = f"SELECT *, {lot} AS lot FROM ({numbered}) AS numbered"
    order = "(PARTITION BY unit ORDER BY lot, cell, copy"
    if limits.count is None:
        placed = f"SELECT *, row_number() OVER {order}) AS place FROM ({keyed}) AS keyed"
        return f"SELECT {listed} FROM ({placed}) AS placed WHERE place <= {limits.max_rows}"
    # Doubles never overflow. They are exact up to 2**53, and larger sums exceed every limit.
    until = f"sum(CAST(n AS DOUBLE)) OVER {order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    room = f"SELECT *, {limits.max_rows} - ({until} - n) AS room FROM ({keyed}) AS keyed"
    taken = "CAST(CASE WHEN room <= 0 THEN 0 WHEN room < n THEN room ELSE n END AS BIGINT)"
    return f"SELECT * FROM (SELECT {listed}, {taken} AS n FROM ({room}) AS roomy) AS taken WHERE n > 0"
