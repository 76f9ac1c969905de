"""Before paying: what a build would lose of a table, found by reading all of it. Private side.

The findings are for the curator, who holds the table: they go to the screen and nowhere else, never into a
view, a schema, a ledger or a log. They name bands (few, many, nearly all) and masked shapes, so that a
schema mended after them depends as little as possible on single rows.

    rows ── one aggregation ──▶ per column: filled, readable, below, above, declared ──▶ bands ──▶ sentences
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ibis
import ibis.expr.datatypes as dt
import pyarrow as pa

from hdpview.counts.contributions import EACH_ROW, Contributions
from hdpview.counts.encode import known_constants, unmarked
from hdpview.counts.ingest import READ_ALL, ReadOptions, read_with, run_query
from hdpview.counts.losses import FEW_RECORDS, MANY_SHARE, SchemaWarning, band
from hdpview.counts.plain_text import plain_text
from hdpview.counts.sources import OpenSource
from hdpview.counts.structure import structure_warnings
from hdpview.counts.values import Column, is_one_of, make_castable, value
from hdpview.domain import Attribute, Boolean, Category, Datetime, Integer, Ordered, Real, Schema
from hdpview.domain.calendar import moment
from hdpview.domain.drafting import is_identifier
from hdpview.errors import LossError, LossWarning

# Share of values in a declared `other`, from which on the list of values looks like a mistake.
OTHER_SHARE = 0.5
# Distinct values per filled one, from which on a column looks like an identifier. The sketch is off by 5%.
UNIQUE_SHARE = 0.8
MIN_UNIQUE_RECORDS = 50
# Whole numbers between the bounds, below which no column of some size can have a value per record.
MIN_UNIQUE_RANGE = 10_000
# Persons below which --privacy-unit is questioned: it is a mistake far more often than a tiny table.
FEW_PERSONS = 20
# Unreadable texts of a column that are looked at for their shape, and how many have to share it.
SAMPLE_TEXTS = 500
MIN_SAME_SHAPE = 3
# Characters of a masked text.
SHAPE_LENGTH = 16
_UNIQUE = "Nearly all of them differ, as those of an identifier do: leave the column out?"
_STEP = "Checking the table against the schema"
_ADVICE = {
    "integer": "Declare a category, or state how numbers are written in [source]: decimal, thousands, "
    "strip, negative, missing.",
    "datetime": 'State how dates are written: [source] dates = ["%d.%m.%Y"], or epoch = "s".',
    "boolean": "Only true/false, t/f, yes/no, y/n and 1/0 are read; declare a category for other words.",
}
_ADVICE |= {"real": _ADVICE["integer"], "date": _ADVICE["datetime"]}

Fetch = Callable[[ibis.Table], pa.Table]


def check_table(source: Any, schema: Schema, options: ReadOptions = READ_ALL) -> list[SchemaWarning]:
    """What a build of this table would lose, blocking warnings first. Raises a DataError for absent columns.

    A stream of batches can be read only once, so it is not checked.
    """
    if isinstance(source, pa.RecordBatchReader):
        sentence = "a stream can be read only once, so it was not checked. Pass a file, a frame or a dataset."
        return [SchemaWarning("", sentence, is_blocking=False)]

    def read(opened: OpenSource) -> list[SchemaWarning]:
        def fetch(query: ibis.Table) -> pa.Table:
            batches = run_query(
                opened, lambda _: list(opened.batches(query, SAMPLE_TEXTS)), options.progress, _STEP
            )
            return pa.Table.from_batches(batches, query.schema().to_pyarrow() if not batches else None)

        about_rows = warnings_about(
            opened.table, opened.types, schema, fetch, options.limits, has_try_cast=opened.is_duckdb
        )
        return sorted([*structure_warnings(source, schema, opened), *about_rows], key=_order)

    return read_with(read, source, schema, options, strict=True)


def _order(warning: SchemaWarning) -> tuple[bool, bool]:
    return not warning.is_blocking, bool(warning.attribute)


def refuse_losses(
    losses: Sequence[SchemaWarning],
    accept_losses: bool,
    tell: Callable[[SchemaWarning], object] | None = None,
) -> None:
    """Raise a LossError where a build would lose much and nobody accepted it; tell everything else.

    tell: called with each warning; by default Python's warnings show them.
    """
    if any(each.is_blocking for each in losses) and not accept_losses:
        raise LossError(losses)
    for each in losses:
        if tell is None:
            warnings.warn(str(each), LossWarning, stacklevel=4)
        else:
            tell(each)


def warnings_about(
    table: ibis.Table,
    types: Mapping[str, str],
    schema: Schema,
    fetch: Fetch,
    limits: Contributions = EACH_ROW,
    *,
    has_try_cast: bool = False,
) -> list[SchemaWarning]:
    """What is lost of the rows of a table, by one aggregation over all of them.

    fetch: runs a query. has_try_cast: whether the database has casts that give null instead of failing.
    """
    columns = [
        CheckedColumn(i, each, schema, types[each.name], has_try_cast, each.name == limits.unit)
        for i, each in enumerate(schema)
    ]
    exact, states = _counted(table, columns, fetch, limits)
    # Casts of usual spellings are several times faster than the rules of a build; those judge what is left.
    doubtful = [replace(column, is_quick=False) for column in columns if column.is_doubtful(exact)]
    if doubtful:
        again, rest = _counted(table, doubtful, fetch, EACH_ROW)
        exact |= again
    judged = {column.position: (column, rest) for column in doubtful}
    about_columns = [
        warning
        for each in columns
        for column, rows in [judged.get(each.position, (each, states))]
        for warning in column.warnings(exact, rows, fetch)
    ]
    return sorted([*_about_persons(exact, limits), *about_columns], key=_order)


def _counted(
    table: ibis.Table, columns: Sequence[CheckedColumn], fetch: Fetch, limits: Contributions
) -> tuple[dict[str, int], ibis.Table]:
    """Exact counts by name, and the rows that were counted."""
    unit = {} if limits.unit is None else {"unit": _named(table[limits.unit], limits)}
    values = table.select(**unit, **_joined(column.parts(table) for column in columns))
    states = values.mutate(**_joined(column.states(values) for column in columns))
    sums = _joined(column.sums(states) for column in columns)
    if limits.unit is not None:
        sums |= {"persons": states["unit"].approx_nunique(), "named": states["unit"].count()}
    exact_row = fetch(states.aggregate(n_rows=states.count(), **sums)).to_pylist()[0]
    return {name: int(number or 0) for name, number in exact_row.items()}, states


def _joined(parts: Iterable[dict[str, Column]]) -> dict[str, Column]:
    return {name: column for each in parts for name, column in each.items()}


def _named(unit: Column, limits: Contributions) -> Column:
    """The column that identifies persons, null where it names none."""
    if not unit.type().is_string():
        return unit
    return ibis.ifelse(unit.isin(["", *limits.no_person]), ibis.null("string"), unit)


def _about_persons(exact: Mapping[str, int], limits: Contributions) -> Iterator[SchemaWarning]:
    """Whether the column that identifies persons can be what it is said to be."""
    n_rows = exact["n_rows"]
    if limits.unit is None or not n_rows:
        return
    nameless = (n_rows - exact["named"]) / n_rows
    if (how_many := band(n_rows - exact["named"], n_rows)) is not None:
        sentence = f"{how_many} rows name no person in the privacy unit, and would be left out."
        yield SchemaWarning(limits.unit, sentence, nameless >= MANY_SHARE)
    if 0 < exact["persons"] < FEW_PERSONS and n_rows > FEW_PERSONS:
        sentence = (
            "the privacy unit has so few different values that it hardly identifies persons; nearly all "
            "rows would be left out. Name the column that identifies the person."
        )
        yield SchemaWarning(limits.unit, sentence, is_blocking=True)
    elif exact["persons"] * limits.max_rows < (1 - MANY_SHARE) * exact["named"]:
        sentence = (
            f"many rows would be left out: persons have more rows than max_rows = {limits.max_rows}. "
            "A larger max_rows counts more of them, with more noise."
        )
        yield SchemaWarning(limits.unit, sentence, is_blocking=False)


@ibis.udf.scalar.builtin
def epoch_us(moment: dt.timestamp) -> int:  # type: ignore[empty-body]
    """Microseconds since 1970, in DuckDB."""


@dataclass(frozen=True)
class CheckedColumn:
    """One column and the attribute that it is read as. names_persons: whether it does that too."""

    position: int
    attribute: Attribute
    schema: Schema
    written: str
    is_quick: bool
    names_persons: bool = False

    def is_doubtful(self, exact: Mapping[str, int]) -> bool:
        """Whether quick casts left texts that the rules of a build may still read."""
        is_judged = isinstance(self.attribute, Category) or not self.is_text
        return self.is_quick and not is_judged and exact[self.key("lost")] > 0

    @property
    def is_text(self) -> bool:
        return is_one_of(self.written, ("string",))

    @property
    def _may_be_unique(self) -> bool:
        """Whether a value of its own for each record would fit between the bounds of a whole number."""
        if not isinstance(self.attribute, Integer):
            return False
        low, high = self.attribute.ends
        return high - low > MIN_UNIQUE_RANGE

    def key(self, name: str) -> str:
        return f"{name}_{self.position}"

    def parts(self, table: ibis.Table) -> dict[str, Column]:
        """The column as it stands, and as a value of the attribute's axis."""
        column = table[self.attribute.name]
        raw = unmarked(column) if self.names_persons else column
        plain = plain_text(raw, self.attribute, self.schema.source)
        return {self.key("raw"): raw, self.key("plain"): plain, self.key("value"): self._value(plain)}

    def _value(self, plain: Column) -> Column:
        is_text = plain.type().is_string()
        if is_text and isinstance(self.attribute, Category):
            return plain
        if self.is_quick and is_text and isinstance(self.attribute, Boolean):
            return plain.try_cast("boolean")
        if self.is_quick and is_text and isinstance(self.attribute, (Integer, Real)):
            number = plain.try_cast("float64")
            return ibis.cases(((number.abs() < 1e18) & ~plain.contains("_"), number))
        if self.is_quick and self.attribute.kind == "datetime" and (is_text or plain.type().is_temporal()):
            moments = plain.try_cast("timestamp")
            if is_text:
                is_usual = plain.like("____-__-__") | plain.like("____-__-_____:__:__")
                moments = ibis.cases((is_usual, moments))
            return epoch_us(moments)
        return value(make_castable(plain, self.attribute), self.attribute)

    def states(self, values: ibis.Table) -> dict[str, Column]:
        """Whether each row is read, and whether it is lost: it holds something, and yet is not read."""
        plain, read = values[self.key("plain")], values[self.key("value")]
        is_read = read.notnull()
        if isinstance(self.attribute, Category):
            known = [constant for constant, _ in known_constants(read, self.attribute)]
            is_read = ibis.coalesce(read.isin(known), ibis.literal(False)) if known else ibis.literal(False)
        is_filled = plain.notnull()
        if plain.type().is_string():
            keeps_blanks = self.is_quick or isinstance(self.attribute, Category)
            is_filled = is_filled & ((plain if keeps_blanks else plain.strip()) != "")
        return {self.key("read"): is_read, self.key("lost"): is_filled & ~is_read}

    def sums(self, states: ibis.Table) -> dict[str, Column]:
        """Aggregates: rows that are read or lost, beyond the bounds, of how many different values."""
        keys = [self.key("read"), self.key("lost")]
        aggregates = {key: states.count(where=states[key]) for key in keys}
        if isinstance(self.attribute, Ordered):
            below, above = self.beyond(states)
            aggregates |= {
                self.key("below"): states.count(where=below),
                self.key("above"): states.count(where=above),
            }
        read = states[self.key("value")]
        if self.is_quick and self._may_be_unique:
            aggregates[self.key("distinct")] = read.approx_nunique()
        elif not isinstance(self.attribute, Boolean):
            aggregates[self.key("distinct")] = ibis.ifelse(read.min() == read.max(), 1, 2)
        if isinstance(self.attribute, Datetime) and states[self.key("plain")].type().is_string():
            text = states[self.key("plain")]
            has_offset = text.endswith("Z") | ((text.length() > 16) & text.right(6).left(1).isin(("+", "-")))
            aggregates[self.key("offsets")] = states.count(where=has_offset)
        return aggregates

    def beyond(self, values: ibis.Table) -> tuple[Column, Column]:
        assert isinstance(self.attribute, Ordered)
        read, (low, high) = values[self.key("value")], self.attribute.ends
        return read < low, read >= high if self.attribute.whole else read > high

    def warnings(
        self, exact: Mapping[str, int], values: ibis.Table | None = None, fetch: Fetch | None = None
    ) -> Iterator[SchemaWarning]:
        """Sentences about counts by name. values, fetch: the rows, for shapes; none where no row is shown."""
        filled, n_rows = self._filled(exact), exact["n_rows"]
        if n_rows and not filled:
            yield self._warning("all values are empty. Leave the column out.")
            return
        yield from self._about_missing(n_rows - filled, n_rows)
        yield from self._about_losses(exact, values, fetch)
        yield from self._about_kinds(exact)

    def _filled(self, exact: Mapping[str, int]) -> int:
        return exact[self.key("read")] + exact[self.key("lost")]

    def _warning(self, sentence: str, is_blocking: bool = False) -> SchemaWarning:
        return SchemaWarning(self.attribute.name, sentence, is_blocking)

    def _about_missing(self, n_missing: int, n_rows: int) -> Iterator[SchemaWarning]:
        how_many = band(n_missing, n_rows)
        if self.attribute.states_missing or how_many is None:
            return
        code = self.attribute.missing_code
        if isinstance(self.attribute, Category) and code == self.attribute.unknown_code:
            return
        yield self._warning(
            f"{how_many} values are missing, and would be counted as {self.attribute.labels()[code]!r}, the "
            "first value. Write nullable = true, or missing = and a value.",
            n_missing >= MANY_SHARE * n_rows,
        )

    def _about_losses(
        self, exact: Mapping[str, int], values: ibis.Table | None, fetch: Fetch | None
    ) -> Iterator[SchemaWarning]:
        filled, lost = self._filled(exact), exact[self.key("lost")]
        below, above = exact.get(self.key("below"), 0), exact.get(self.key("above"), 0)
        is_blocking = lost + below + above >= self._blocking_share * filled > 0
        has_other = self._blocking_share == OTHER_SHARE
        if (how_many := band(lost, filled)) is not None and not (has_other and how_many == "few"):
            texts = [] if values is None or fetch is None else self._sample(values, fetch)
            sentence, is_spelling = self._about_lost(how_many, texts)
            if len(texts) >= MIN_UNIQUE_RECORDS and len(set(texts)) >= UNIQUE_SHARE * len(texts):
                sentence = f"{sentence} {_UNIQUE}"
            yield self._warning(sentence, is_blocking or (is_spelling and lost >= MANY_SHARE * filled))
        for number, side, bound, end in ((below, "below", "min", "first"), (above, "above", "max", "last")):
            if (how_many := band(number, filled)) is not None:
                at = _bound(self.attribute, bound)
                yield self._warning(
                    f"{how_many} values lie {side} {bound} = {at}, and would be counted in the {end} bin. "
                    f"{'Lower min' if bound == 'min' else 'Raise max'}, or correct the unit.",
                    is_blocking,
                )

    @property
    def _blocking_share(self) -> float:
        """A declared `other` is there for some values, but not for most."""
        has_other = isinstance(self.attribute, Category) and self.attribute.other is not None
        return OTHER_SHARE if has_other else MANY_SHARE

    def _sample(self, values: ibis.Table, fetch: Fetch) -> list[str]:
        """Some of the texts that are lost, to be masked."""
        lost = values.filter(values[self.key("lost")])
        return [
            text
            for text in fetch(lost.select(text=lost[self.key("raw")].cast("string")).limit(SAMPLE_TEXTS))[
                "text"
            ].to_pylist()
            if text is not None
        ]

    def _about_lost(self, how_many: str, texts: Sequence[str]) -> tuple[str, bool]:
        """The sentence about texts that are lost, and whether only blanks or letter case are to blame."""
        shape = _shape(texts)
        masked = "" if shape is None else f", shape {shape!r}"
        if not isinstance(self.attribute, Category):
            where = self.attribute.labels()[self.attribute.missing_code]
            return (
                f"{how_many} values are unreadable as {self.attribute.kind}{masked}, and would be counted as "
                f"{where!r}. {_ADVICE.get(self.attribute.kind, '')}".rstrip(),
                False,
            )
        declared = {text for text, _ in self.attribute.spellings()}
        folded = {text.strip().casefold() for text in declared}
        remedy, is_spelling = "Write `values` as they stand in the table, or give them `aliases`.", True
        if _most(text.strip() in declared for text in texts):
            remedy = "They match without the blanks around them: write [source] trim = true."
        elif _most(text.strip().casefold() in folded for text in texts):
            remedy = "They match in another letter case: give `aliases`, or write `values` as in the table."
        else:
            is_spelling = False
        where = self.attribute.labels()[self.attribute.unknown_code]
        return (
            f"{how_many} values match no declared value{masked}, and would be counted as {where!r}. {remedy}",
            is_spelling,
        )

    def _about_kinds(self, exact: Mapping[str, int]) -> Iterator[SchemaWarning]:
        """What a column looks like, whatever it is declared as."""
        filled, distinct = self._filled(exact), exact.get(self.key("distinct"), 0)
        if distinct == 1 and filled >= FEW_RECORDS:
            yield self._warning("all values are the same. An analyst learns nothing from the column.")
        if filled >= MIN_UNIQUE_RECORDS and self._may_be_unique and distinct >= UNIQUE_SHARE * filled:
            yield self._warning(_UNIQUE)
        if is_identifier(self.attribute.name):
            yield self._warning("by its name the column identifies a person or a record. Leave it out?")
        if isinstance(self.attribute, Integer) and is_one_of(self.written, ("floating", "decimal")):
            yield self._warning(f"the column is of type {self.written}; fractions are rounded down.")
        if exact.get(self.key("offsets"), 0) or "timestamp('" in self.written:
            yield self._warning("moments with a time zone are counted in UTC, others as they stand.")


def _bound(attribute: Attribute, name: str) -> str:
    """A bound as a schema states it."""
    stated = getattr(attribute, name, None)
    if stated is None:
        assert isinstance(attribute, Ordered)
        low, high = attribute.ends
        stated = low if name == "min" else high - 1 if attribute.whole else high
        stated = moment(int(stated)).isoformat() if attribute.kind == "datetime" else stated
    return f"{stated:,}" if isinstance(stated, (int, float)) else str(stated)


def _most(matches: Iterator[bool]) -> bool:
    outcomes = list(matches)
    return bool(outcomes) and sum(outcomes) >= len(outcomes) / 2


def _shape(texts: Sequence[str]) -> str | None:
    """The most frequent shape of texts, digits as 9 and letters as a or A, where several share it."""
    shapes = Counter(masked(text) for text in texts)
    if not shapes:
        return None
    shape, times = shapes.most_common(1)[0]
    return shape if times >= MIN_SAME_SHAPE else None


def masked(text: str) -> str:
    """A text without its letters and digits."""
    digits = re.sub(r"\d", "9", text.strip())
    return re.sub(r"[^\W\d_]", lambda letter: "A" if letter[0].isupper() else "a", digits)[:SHAPE_LENGTH]
