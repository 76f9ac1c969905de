"""Before paying: read the whole table and list what a build would lose. Private side.

The findings are for the curator, who holds the table: they appear on the screen only, never in a view, a
schema, a ledger or a log. They name bands (few, many, nearly all) and masked shapes, so that a schema
corrected accordingly depends as little as possible on single rows.

    the pass that encodes ──▶ per column: missing, unread, below, above ──▶ bands ──▶ sentences
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hdpview.counts.contributions import Contributions, unit_sql
from hdpview.counts.encode import State, kind_of_type, name_sql, outcomes_sql
from hdpview.counts.files import text_files
from hdpview.counts.ingest import READ_ALL, ReadOptions, read_states, read_with, run_query
from hdpview.counts.losses import FEW_RECORDS, MANY_SHARE, SchemaWarning, band
from hdpview.counts.rows import States
from hdpview.counts.sources import OpenSource
from hdpview.counts.structure import structure_warnings
from hdpview.domain import Attribute, Boolean, Category, Datetime, Integer, Ordered, Schema
from hdpview.domain.calendar import moment
from hdpview.domain.drafting import is_identifier
from hdpview.domain.text_format import PLAIN, TextFormat
from hdpview.errors import LossError, LossWarning

# Share of values in a declared `other` above which the list of values looks like a mistake.
OTHER_SHARE = 0.5
# Distinct values per non-empty value above which a column looks like an identifier. The sketch errs by 5%.
UNIQUE_SHARE = 0.8
MIN_UNIQUE_RECORDS = 50
# With fewer whole numbers between the bounds, a column cannot have a distinct value per record.
MIN_UNIQUE_RANGE = 10_000
# With fewer persons, --privacy-unit is questioned: a mistake is far more likely than a tiny table.
FEW_PERSONS = 20
# Number of unreadable texts whose shapes are compared, and how many of them must share a shape.
SAMPLE_TEXTS = 500
MIN_SAME_SHAPE = 3
# Maximum characters of a masked text.
SHAPE_LENGTH = 16
_UNIQUE = "nearly all values differ, as in an identifier. Leave the column out?"
CHECKING = "Checking the table against the schema"
_ADVICE = {
    "integer": "Declare a category, or state how numbers are written in [source]: decimal, thousands, "
    "strip, negative, missing.",
    "datetime": 'State how dates are written: [source] dates = ["%d.%m.%Y"], or epoch = "s".',
    "boolean": "Only true/false, t/f, yes/no, y/n and 1/0 are read; declare a category for other words.",
}
_ADVICE |= {"real": _ADVICE["integer"], "date": _ADVICE["datetime"]}

# Returns some unreadable raw texts of the column at a position.
Sample = Callable[[int], list[str]]


def check_table(
    source: Any, schema: Schema, options: ReadOptions = READ_ALL, states: States | None = None
) -> list[SchemaWarning]:
    """List what a build of this table would lose, blocking warnings first. Absent columns are a DataError.

    states: from an earlier pass that encoded the table. A stream of batches can be read only once, so it is
    not checked.
    """
    if isinstance(source, pa.RecordBatchReader):
        sentence = "a stream can be read only once, so it was not checked. Pass a file, a frame or a dataset."
        return [SchemaWarning("", sentence, is_blocking=False)]
    counted = read_states(source, schema, options) if states is None else states

    def read(opened: OpenSource) -> list[SchemaWarning]:
        def rows_of(query: str) -> list[dict[str, Any]]:
            return run_query(opened, lambda _: opened.rows(query), options.progress, CHECKING)

        queries = facts_sql(opened.types, schema, options.limits)
        facts: dict[str, int] = {}
        if queries or text_files(source, ["csv"]) is not None:
            listed = (f"{aggregate}({sql}) AS {name}" for name, (aggregate, sql) in queries.items())
            (facts,) = rows_of(f"SELECT {', '.join(['count(*) AS n_rows', *listed])} FROM source")

        def sample(position: int) -> list[str]:
            return [row["raw"] for row in rows_of(sample_sql(opened.types, schema, position))]

        about_rows = warnings_about(schema, opened.types, counted, facts, sample, options.limits)
        return sorted([*structure_warnings(source, schema, opened), *about_rows], key=_order)

    return read_with(read, source, schema, options, strict=True)


def facts_sql(types: Mapping[str, str], schema: Schema, limits: Contributions) -> dict[str, tuple[str, str]]:
    """Facts in addition to states, by name: an aggregate that DuckDB and Spark have, and its argument in
    DuckDB's SQL.
    """
    facts = {}
    for i, each in enumerate(schema):
        column = name_sql(each.name)
        if isinstance(each, Datetime) and kind_of_type(types[each.name]) == "string":
            has_offset = f"regexp_matches({column}, '[0-9](Z|[+-][0-9]{{2}}:[0-9]{{2}})$')"
            facts[f"offsets_{i}"] = "count", f"CASE WHEN {has_offset} THEN '' END"
        if _may_be_unique(each):
            facts[f"distinct_{i}"] = "approx_count_distinct", column
    if limits.unit is not None:
        person = unit_sql(types[limits.unit], limits)
        facts |= {"named": ("count", person), "persons": ("approx_count_distinct", person)}
        facts["n_rows_in_all"] = "count", "''"
    return facts


def sample_sql(types: Mapping[str, str], schema: Schema, position: int) -> str:
    """A query for some unreadable values, unchanged."""
    attribute = list(schema)[position]
    alone = Schema([attribute], source=schema.source)
    raw = {"raw": f"CAST({name_sql(attribute.name)} AS VARCHAR)"}
    unread = attribute.n_values + State.UNREAD
    read = outcomes_sql(alone, types, raw)
    return f"SELECT raw FROM ({read}) AS read WHERE o_0 = {unread} LIMIT {SAMPLE_TEXTS}"


def _may_be_unique(attribute: Attribute) -> bool:
    """Whether the bounds of a whole number leave room for a distinct value per record."""
    if not isinstance(attribute, Integer):
        return False
    low, high = attribute.ends
    return high - low > MIN_UNIQUE_RANGE


def _order(warning: SchemaWarning) -> tuple[bool, bool]:
    return not warning.is_blocking, bool(warning.attribute)


def refuse_losses(
    losses: Sequence[SchemaWarning],
    accept: bool | Callable[[Sequence[SchemaWarning]], bool],
    tell: Callable[[SchemaWarning], object] | None = None,
) -> None:
    """Raise a LossError if a build would lose much and nobody accepts that; report all other warnings.

    accept: whether losses are accepted, or a function that shows them and returns whether they are.
    tell: called with each warning; by default they become Python warnings.
    """
    if any(each.is_blocking for each in losses) and accept is not True:
        if callable(accept) and accept(losses):
            return
        raise LossError(losses)
    for each in losses:
        if tell is None:
            warnings.warn(str(each), LossWarning, stacklevel=3)
        else:
            tell(each)


def warnings_about(
    schema: Schema,
    types: Mapping[str, str],
    states: States,
    facts: Mapping[str, int],
    sample: Sample,
    limits: Contributions,
) -> list[SchemaWarning]:
    """Warnings from the states and facts of a table. facts: see `facts_sql`."""
    if not states.exact_rows:
        return [SchemaWarning("", "The table has no rows; a build would spend its budget on noise.", True)]
    about_columns = [
        warning
        for i, each in enumerate(schema)
        for warning in CheckedColumn(i, each, types[each.name], schema.source).warnings(
            ColumnCounts.of(states, i, facts), sample
        )
    ]
    return sorted([*_about_persons(facts, limits), *about_columns], key=_order)


def _about_persons(exact: Mapping[str, int], limits: Contributions) -> Iterator[SchemaWarning]:
    """Check that the privacy unit's column can identify persons."""
    n_rows = exact.get("n_rows_in_all", 0)
    if limits.unit is None or not n_rows:
        return
    nameless = (n_rows - exact["named"]) / n_rows
    if (how_many := band(n_rows - exact["named"], n_rows)) is not None:
        sentence = f"{how_many} rows name no person in the privacy unit, and would be left out."
        yield SchemaWarning(limits.unit, sentence, nameless >= MANY_SHARE)
    if 0 < exact["persons"] < FEW_PERSONS and n_rows > FEW_PERSONS:
        sentence = (
            "the privacy unit has so few distinct values that it hardly identifies persons; nearly all "
            "rows would be left out. Name the column that identifies the person."
        )
        yield SchemaWarning(limits.unit, sentence, is_blocking=True)
    elif exact["persons"] * limits.max_rows < (1 - MANY_SHARE) * exact["named"]:
        sentence = (
            f"many rows would be left out: persons have more rows than max_rows = {limits.max_rows}. "
            "A larger max_rows counts more of them, with more noise."
        )
        yield SchemaWarning(limits.unit, sentence, is_blocking=False)


@dataclass(frozen=True)
class ColumnCounts:
    """Rows of a column by outcome. distinct: approximate number of distinct values, if counted."""

    n_rows: int
    missing: int
    unread: int
    below: int = 0
    above: int = 0
    is_constant: bool = False
    distinct: int = 0
    offsets: int = 0

    @property
    def filled(self) -> int:
        return self.n_rows - self.missing

    @classmethod
    def of(cls, states: States, position: int, facts: Mapping[str, int]) -> ColumnCounts:
        missing, unread, below, above = states.exact_counts[position].tolist()
        low, high = states.exact_ends[position].tolist()
        is_constant = low == high and not below and not above
        distinct, offsets = (facts.get(f"{name}_{position}", 0) for name in ("distinct", "offsets"))
        n_rows = states.exact_rows
        return cls(n_rows, missing, unread, below, above, is_constant, distinct, offsets)


@dataclass(frozen=True)
class CheckedColumn:
    """One column and its attribute. written: the column's type; text: how the table's texts are written."""

    position: int
    attribute: Attribute
    written: str
    text: TextFormat = PLAIN

    def warnings(self, exact: ColumnCounts, sample: Sample | None = None) -> Iterator[SchemaWarning]:
        """Warnings about counts. sample: texts for shapes; None if no row may be shown."""
        if exact.n_rows and not exact.filled:
            yield self._warning("all values are empty. Leave the column out.")
            return
        yield from self._about_missing(exact.missing, exact.n_rows)
        yield from self._about_losses(exact, sample)
        yield from self._about_kinds(exact)

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

    def _about_losses(self, exact: ColumnCounts, sample: Sample | None) -> Iterator[SchemaWarning]:
        filled, lost, below, above = exact.filled, exact.unread, exact.below, exact.above
        is_blocking = lost + below + above >= self._blocking_share * filled > 0
        has_other = self._blocking_share == OTHER_SHARE
        if (how_many := band(lost, filled)) is not None and not (has_other and how_many == "few"):
            texts = [] if sample is None else sample(self.position)
            sentence, is_spelling = self._about_lost(how_many, texts)
            is_unique = len(texts) >= MIN_UNIQUE_RECORDS and len(set(texts)) >= UNIQUE_SHARE * len(texts)
            if is_unique and isinstance(self.attribute, Category):  # amounts and times usually differ
                sentence = f"{sentence} Also, {_UNIQUE}"
            yield self._warning(sentence, is_blocking or (is_spelling and lost >= MANY_SHARE * filled))
        for number, side, bound, end in ((below, "below", "min", "first"), (above, "above", "max", "last")):
            if (how_many := band(number, filled)) is not None:
                at = _bound(self.attribute, bound)
                is_short = self.attribute.kind in ("datetime", "date") and "%y" in "".join(self.text.dates)
                century = " Two-digit years are read as 1969 to 2068." if is_short else ""
                yield self._warning(
                    f"{how_many} values lie {side} {bound} = {at}, and would be counted in the {end} bin. "
                    f"{'Lower min' if bound == 'min' else 'Raise max'}, or correct the unit.{century}",
                    is_blocking,
                )

    @property
    def _blocking_share(self) -> float:
        """A declared `other` should hold some values, but not most of them."""
        has_other = isinstance(self.attribute, Category) and self.attribute.other is not None
        return OTHER_SHARE if has_other else MANY_SHARE

    def _about_lost(self, how_many: str, texts: Sequence[str]) -> tuple[str, bool]:
        """The warning about lost texts, and whether only blanks or letter case cause the loss."""
        shape = common_shape(texts)
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
        remedy, is_spelling = "Write `values` as in the table, or give them `aliases`.", True
        if shape is not None and "\ufffd" in shape:
            remedy = 'The file is not UTF-8: write [source] encoding = "cp1252", or the one it has.'
            return f"{how_many} values are undecodable{masked}. {remedy}", False
        if _most(text.strip() in declared for text in texts):
            remedy = "They match without the blanks around them: write [source] trim = true."
        elif _most(text.strip().casefold() in folded for text in texts):
            remedy = "Only letter case differs: give `aliases`, or write `values` as in the table."
        else:
            is_spelling = False
        where = self.attribute.labels()[self.attribute.unknown_code]
        return (
            f"{how_many} values match no declared value{masked}, and would be counted as {where!r}. {remedy}",
            is_spelling,
        )

    def _about_kinds(self, exact: ColumnCounts) -> Iterator[SchemaWarning]:
        """Warnings about the column itself, whatever its declared type."""
        if exact.is_constant and not isinstance(self.attribute, Boolean) and exact.filled >= FEW_RECORDS:
            yield self._warning("all values fall into the same bin, so the column is useless to analysts.")
        if exact.filled >= MIN_UNIQUE_RECORDS and exact.distinct >= UNIQUE_SHARE * exact.filled:
            yield self._warning(_UNIQUE)
        if is_identifier(self.attribute.name):
            yield self._warning("its name suggests an identifier of a person or a record. Leave it out?")
        if isinstance(self.attribute, Integer) and kind_of_type(self.written) in ("floating", "decimal"):
            yield self._warning(f"the column is of type {self.written}; fractions are rounded down.")
        if exact.offsets or "time zone" in self.written:
            yield self._warning("times with a time zone are counted in UTC, others unchanged.")


def _bound(attribute: Attribute, name: str) -> str:
    """A bound as written in a schema."""
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


def common_shape(texts: Sequence[str]) -> str | None:
    """The most frequent shape of texts (digits as 9, letters as a or A), if several texts share it."""
    shapes = Counter(masked(text) for text in texts)
    if not shapes:
        return None
    shape, times = shapes.most_common(1)[0]
    return shape if times >= MIN_SAME_SHAPE else None


def masked(text: str) -> str:
    """A text without its letters and digits."""
    digits = re.sub(r"\d", "9", text.strip())
    return re.sub(r"[^\W\d_]", lambda letter: "A" if letter[0].isupper() else "a", digits)[:SHAPE_LENGTH]
