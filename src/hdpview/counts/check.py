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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from hdpview.counts.contributions import Contributions, unit_sql
from hdpview.counts.encode import State, kind_of_type, name_sql, outcomes_sql
from hdpview.counts.files import files_of, first_lines, kind_of_file, open_text, text_files
from hdpview.counts.ingest import CHECKING, READ_ALL, ReadOptions, read_states, read_with
from hdpview.counts.losses import FEW_RECORDS, MANY_SHARE, SchemaWarning, band, blocking_first
from hdpview.counts.rows import States
from hdpview.counts.sources import OpenSource, open_source
from hdpview.domain import Attribute, Boolean, Category, Datetime, Integer, Ordered, Schema, TextFormat
from hdpview.domain.drafting import is_identifier
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
_NUMBER_ADVICE = (
    "Declare a category, or state how numbers are written in [source]: decimal, thousands, strip, negative, "
    "missing."
)
_DATE_ADVICE = 'State how dates are written: [source] dates = ["%d.%m.%Y"], or epoch = "s" or "ms".'
_ADVICE = {
    **dict.fromkeys(("integer", "real"), _NUMBER_ADVICE),
    **dict.fromkeys(("datetime", "date"), _DATE_ADVICE),
    "boolean": "Only true/false, t/f, yes/no, y/n and 1/0 are read; declare a category for other words.",
}

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
        queries, facts = facts_sql(opened.types, schema, options.limits), dict[str, int]()
        if queries or text_files(source, ["csv"]) is not None:  # a strict read of CSV lists malformed lines
            listed = (f"{aggregate}({sql}) AS {name}" for name, (aggregate, sql) in queries.items())
            (facts,) = opened.rows(f"SELECT {', '.join(['count(*) AS n_rows', *listed])} FROM source")

        def sample(position: int) -> list[str]:
            return [row["raw"] for row in opened.rows(sample_sql(opened.types, schema, position))]

        about_rows = warnings_about(schema, opened.types, counted, facts, sample, options.limits)
        return blocking_first([*structure_warnings(source, schema, opened), *about_rows])

    return read_with(read, source, schema, options, CHECKING, strict=True)


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
        if isinstance(each, Integer) and each.ends[1] - each.ends[0] > MIN_UNIQUE_RANGE:
            facts[f"distinct_{i}"] = "approx_count_distinct", column
    if limits.unit is not None:
        person = unit_sql(types[limits.unit], limits)
        facts |= {"named": ("count", person), "persons": ("approx_count_distinct", person)}
        facts["n_rows_in_all"] = "count", "''"
    return facts


def sample_sql(types: Mapping[str, str], schema: Schema, position: int) -> str:
    """A query for some unreadable values, unchanged."""
    attribute = schema.attributes[position]
    alone = Schema([attribute], source=schema.source)
    read = outcomes_sql(alone, types, {"raw": f"CAST({name_sql(attribute.name)} AS VARCHAR)"})
    unread = attribute.n_values + State.UNREAD
    return f"SELECT raw FROM ({read}) AS read WHERE o_0 = {unread} LIMIT {SAMPLE_TEXTS}"


def refuse_losses(
    losses: Sequence[SchemaWarning],
    accept: bool | Callable[[Sequence[SchemaWarning]], bool],
    report: Callable[[SchemaWarning], object] | None = None,
) -> None:
    """Raise a LossError if a build would lose much and nobody accepts that; report all other warnings.

    accept: whether losses are accepted, or a function that shows them and returns whether they are.
    report: called with each warning; by default they become Python warnings.
    """
    if any(each.is_blocking for each in losses) and accept is not True:
        if callable(accept) and accept(losses):
            return
        raise LossError(losses)
    for each in losses:
        if report is None:
            warnings.warn(str(each), LossWarning, stacklevel=3)
        else:
            report(each)


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
    found = [*_about_persons(facts, limits)]
    for i, each in enumerate(schema):
        low, high = states.exact_ends[i].tolist()
        column = CheckedColumn(
            each,
            types[each.name],
            schema.source,
            states.exact_rows,
            states.exact_counts[i].tolist(),
            low == high,
            facts.get(f"distinct_{i}", 0),
            facts.get(f"offsets_{i}", 0),
        )
        found += column.warnings(lambda i=i: sample(i))  # type: ignore[misc]
    return blocking_first(found)


def _about_persons(exact: Mapping[str, int], limits: Contributions) -> Iterator[SchemaWarning]:
    """Check that the privacy unit's column can identify persons."""
    n_rows = exact.get("n_rows_in_all", 0)
    if limits.unit is None or not n_rows:
        return
    nameless = n_rows - exact["named"]
    if how_many := band(nameless, n_rows):
        sentence = f"{how_many} rows name no person in the privacy unit, and would be left out."
        yield SchemaWarning(limits.unit, sentence, nameless >= MANY_SHARE * n_rows)
    if 0 < exact["persons"] < FEW_PERSONS < n_rows:
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
class CheckedColumn:
    """One column: its attribute, its type and the format of its texts.

    n_in_state: rows in each `State`: missing, unread, below and above the bounds. in_one_bin: whether all
    values within the bounds are. distinct: approximate number of distinct values, if counted.
    offsets: values with a time zone.
    """

    attribute: Attribute
    written: str
    text: TextFormat
    n_rows: int
    n_in_state: Sequence[int]
    in_one_bin: bool = False
    distinct: int = 0
    offsets: int = 0

    def warnings(self, sample: Callable[[], list[str]] = list) -> Iterator[SchemaWarning]:
        """Warnings about the column. sample: returns texts for shapes; none if no row may be shown."""
        if self.n_rows and not self.filled:
            yield self._warning("all values are empty. Leave the column out.")
            return
        yield from self._about_missing()
        yield from self._about_losses(sample)
        yield from self._about_kinds()

    @property
    def filled(self) -> int:
        return self.n_rows - self.n_in_state[State.MISSING]

    def _warning(self, sentence: str, is_blocking: bool = False) -> SchemaWarning:
        return SchemaWarning(self.attribute.name, sentence, is_blocking)

    def _about_missing(self) -> Iterator[SchemaWarning]:
        n_missing, code = self.n_in_state[State.MISSING], self.attribute.missing_code
        how_many = band(n_missing, self.n_rows)
        is_unknown = isinstance(self.attribute, Category) and code == self.attribute.unknown_code
        if how_many and not self.attribute.states_missing and not is_unknown:
            yield self._warning(
                f"{how_many} values are missing, and would be counted as {self.attribute.labels()[code]!r}, "
                "the first value. Write nullable = true, or missing = and a value.",
                n_missing >= MANY_SHARE * self.n_rows,
            )

    def _about_losses(self, sample: Callable[[], list[str]]) -> Iterator[SchemaWarning]:
        attribute, filled = self.attribute, self.filled
        _, lost, below, above = self.n_in_state
        is_category = isinstance(attribute, Category)
        # A declared `other` should hold some values, but not most of them.
        has_other = is_category and attribute.other is not None  # type: ignore[attr-defined]
        share = OTHER_SHARE if has_other else MANY_SHARE
        is_blocking = lost + below + above >= share * filled > 0
        how_many = band(lost, filled)
        if how_many and not (has_other and how_many == "few"):
            texts = sample()
            sentence, is_spelling = self._about_lost(how_many, texts)
            is_unique = len(texts) >= MIN_UNIQUE_RECORDS and len(set(texts)) >= UNIQUE_SHARE * len(texts)
            if is_unique and is_category:  # amounts and times usually differ
                sentence = f"{sentence} Also, {_UNIQUE}"
            yield self._warning(sentence, is_blocking or (is_spelling and lost >= MANY_SHARE * filled))
        has_short_years = attribute.kind in ("datetime", "date") and "%y" in "".join(self.text.dates)
        century = " Two-digit years are read as 1969 to 2068." if has_short_years else ""
        for number, side, bound, end, advice in (
            (below, "below", "min", "first", "Lower min"),
            (above, "above", "max", "last", "Raise max"),
        ):
            if how_many := band(number, filled):
                yield self._warning(
                    f"{how_many} values lie {side} {bound} = {_bound(attribute, bound)}, and would be "
                    f"counted in the {end} bin. {advice}, or correct the unit.{century}",
                    is_blocking,
                )

    def _about_lost(self, how_many: str, texts: Sequence[str]) -> tuple[str, bool]:
        """The warning about lost texts, and whether only blanks or letter case cause the loss."""
        attribute, shape = self.attribute, common_shape(texts)
        masked_shape = "" if shape is None else f", shape {shape!r}"
        if not isinstance(attribute, Category):
            where = attribute.labels()[attribute.missing_code]
            return (
                f"{how_many} values are unreadable as {attribute.kind}{masked_shape}, and would be counted "
                f"as {where!r}. {_ADVICE[attribute.kind]}"
            ), False
        if shape is not None and "\ufffd" in shape:
            remedy = 'The file is not UTF-8: write [source] encoding = "cp1252", or the one it has.'
            return f"{how_many} values are undecodable{masked_shape}. {remedy}", False
        declared = {text for text, _ in attribute.spellings()}
        folded = {text.strip().casefold() for text in declared}
        remedy, is_spelling = "Write `values` as in the table, or give them `aliases`.", True
        if _most(text.strip() in declared for text in texts):
            remedy = "They match without the blanks around them: write [source] trim = true."
        elif _most(text.strip().casefold() in folded for text in texts):
            remedy = "Only letter case differs: give `aliases`, or write `values` as in the table."
        else:
            is_spelling = False
        where = attribute.labels()[attribute.unknown_code]
        return (
            f"{how_many} values match no declared value{masked_shape}, and would be counted as {where!r}. "
            f"{remedy}"
        ), is_spelling

    def _about_kinds(self) -> Iterator[SchemaWarning]:
        """Warnings about the column itself, whatever its declared type."""
        is_constant = self.in_one_bin and not any(self.n_in_state[State.BELOW :])
        if is_constant and not isinstance(self.attribute, Boolean) and self.filled >= FEW_RECORDS:
            yield self._warning("all values fall into the same bin, so the column is useless to analysts.")
        if self.filled >= MIN_UNIQUE_RECORDS and self.distinct >= UNIQUE_SHARE * self.filled:
            yield self._warning(_UNIQUE)
        if is_identifier(self.attribute.name):
            yield self._warning("its name suggests an identifier of a person or a record. Leave it out?")
        if isinstance(self.attribute, Integer) and kind_of_type(self.written) in ("floating", "decimal"):
            yield self._warning(f"the column is of type {self.written}; fractions are rounded down.")
        if self.offsets or "time zone" in self.written:
            yield self._warning("times with a time zone are counted in UTC, others unchanged.")


def _bound(attribute: Attribute, name: str) -> str:
    """A bound as written in a schema."""
    stated = getattr(attribute, name)
    if stated is None and isinstance(attribute, Ordered):
        stated = attribute.ends[name == "max"]
    return f"{stated:,}" if isinstance(stated, (int, float)) else str(stated)


def _most(matches: Iterable[bool]) -> bool:
    outcomes = list(matches)
    return bool(outcomes) and sum(outcomes) >= len(outcomes) / 2


def common_shape(texts: Sequence[str]) -> str | None:
    """The most frequent shape of texts (digits as 9, letters as a or A), if several texts share it."""
    shapes = Counter(map(masked, texts)).most_common(1)
    return shapes[0][0] if shapes and shapes[0][1] >= MIN_SAME_SHAPE else None


def masked(text: str) -> str:
    """A text without its letters and digits."""
    digits = re.sub(r"\d", "9", text.strip())
    return re.sub(r"[^\W\d_]", lambda letter: "A" if letter[0].isupper() else "a", digits)[:SHAPE_LENGTH]


def structure_warnings(source: Any, schema: Schema, opened: OpenSource) -> Iterator[SchemaWarning]:
    """Warnings about the files. opened: the source after a read of all rows, strict if possible."""
    files = files_of(source) if isinstance(source, (str, Path)) else []
    kind = kind_of_file(files[0]) if files else None
    if kind == "parquet":
        yield from _about_parquet(files, schema)
    elif kind == "csv" and not opened.is_strict:
        sentence = "lines end in different ways, so their numbers of fields were not checked."
        yield SchemaWarning("", sentence, is_blocking=False)
    elif kind == "csv":
        yield from _about_csv(source, files, schema, opened)


def _about_csv(
    source: Any, files: Sequence[Path], schema: Schema, opened: OpenSource
) -> Iterator[SchemaWarning]:
    """Lines that DuckDB rejected, and a first line that is a header although the schema names columns."""
    query = "SELECT error_type AS kind, count(DISTINCT (file_id, line)) AS n FROM reject_errors GROUP BY 1"
    exact_errors = {row["kind"]: row["n"] for row in opened.rows(query)}
    # Counting lines is slow, so only files with other problems need it.
    n_lines = sum(_n_lines(file, schema.source) for file in files) if exact_errors else 0
    for kind, word in (("MISSING COLUMNS", "fewer"), ("TOO MANY COLUMNS", "more")):
        exact_n = exact_errors.get(kind, 0)
        if how_many := band(exact_n, n_lines):
            sentence = (
                f"{how_many} lines have {word} fields than the header line, so fields may be in the wrong "
                "columns. Put quotation marks around fields that hold the separator, or correct [source] "
                "separator."
            )
            yield SchemaWarning("", sentence, exact_n >= MANY_SHARE * n_lines)
    if exact_errors.get("UNQUOTED VALUE"):
        # Compare the number of records with the number of lines.
        with open_source(source, text=schema.source, parallel_csv=False) as lenient:
            exact_lost = max(0, n_lines - lenient.rows("SELECT count(*) AS n FROM source")[0]["n"])
        sentence = (
            f"a quotation mark opens a field and is not closed; {band(exact_lost, n_lines) or 'few'} lines "
            'become part of fields and would be lost. Close it, or write [source] quote = "" if quotation '
            "marks mean nothing in this file."
        )
        yield SchemaWarning("", sentence, exact_lost >= MANY_SHARE * n_lines)
    if schema.source.columns and first_lines(files[0], schema.source, 1) == [list(schema.source.columns)]:
        sentence = "the first line repeats [source] columns and would count as a record. Remove that key."
        yield SchemaWarning("", sentence, is_blocking=False)


def _n_lines(file: Path, text: TextFormat) -> int:
    """Lines that should be records: all but empty ones and the header."""
    with open_text(file, text) as lines:
        n, is_open = 0, False
        for block in iter(lambda: lines.read(1 << 20), ""):
            filled = re.sub(r"[\r\n]+", "\n", block)
            n += filled.count("\n") - (filled.startswith("\n") and not is_open)
            is_open = not filled.endswith("\n")
    return max(0, n + is_open - (not text.columns))


def _about_parquet(files: Sequence[Path], schema: Schema) -> Iterator[SchemaWarning]:
    """Columns that some files lack; their rows would count as missing."""
    columns = [(file.name, set(pq.read_schema(file).names)) for file in files]
    for name in schema.names:
        without = [file for file, names in columns if name not in names]
        if 0 < len(without) < len(files):
            others = " and others" if len(without) > 1 else ""
            sentence = (
                f"{without[0]!r}{others} of the {len(files)} files lack this column, and all their rows "
                "would be counted as missing."
            )
            yield SchemaWarning(name, sentence, is_blocking=True)
