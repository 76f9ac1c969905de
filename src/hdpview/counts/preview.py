"""Before paying: whether a schema can read a table's columns, from types and the format of the first lines.

What is found is for the curator, who holds the table; it goes to the screen and nowhere else. It tells of
each column only whether all, some or none of the first lines can be read, and the shape of what cannot, with
digits and letters masked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ibis
import pyarrow as pa

from hdpview.counts.files import csv_files, csv_layout, first_lines
from hdpview.counts.ingest import check_columns, column_types
from hdpview.counts.plain_text import plain_text
from hdpview.counts.refusals import quoting_no_value
from hdpview.counts.sources import open_source
from hdpview.counts.values import is_one_of, make_castable, value
from hdpview.domain import Attribute, Category, Integer, Schema

N_LINES = 100
_SHAPE_LENGTH = 16  # characters of a masked text


@dataclass(frozen=True)
class Concern:
    """Something that a build would do without a word.

    attribute: its name; sentence: what would happen, and what to do about it.
    is_grave: whether the column cannot be read at all, so that a build has to be confirmed.
    """

    attribute: str
    sentence: str
    is_grave: bool

    def __str__(self) -> str:
        return f"{self.attribute}: {self.sentence}"


def preview(source: Any, schema: Schema) -> list[Concern]:
    """What to know before a view of this table is paid for. Raises a DataError where columns are absent."""
    types = column_types(source, schema.source)
    return concerns_about(types, schema, lambda names: _head(source, schema, names))


def concerns_about(
    types: Mapping[str, str], schema: Schema, head_of: Callable[[list[str]], pa.Table]
) -> list[Concern]:
    """The same, of a table with columns of these types. head_of: gives named columns of its first lines."""
    check_columns(types, schema)
    texts = [each for each in schema if is_one_of(types[each.name], ("string",))]
    head = head_of([each.name for each in texts]) if texts else pa.table({})
    concerns = [concern for each in texts for concern in _of_texts(each, head[each.name], schema)]
    concerns += [
        concern for each in schema if each not in texts for concern in _of_type(each, types[each.name])
    ]
    concerns += [_of_missing(each) for each in schema if not each.states_missing]
    order = {name: i for i, name in enumerate(schema.names)}
    return sorted(concerns, key=lambda concern: (not concern.is_grave, order[concern.attribute]))


def _head(source: Any, schema: Schema, names: list[str]) -> pa.Table:
    """Columns of texts of the first lines."""
    if (files := csv_files(source)) is not None:
        places = {name: i for i, name in enumerate(csv_layout(files, schema.source)[1])}
        lines = first_lines(files[0], schema.source, N_LINES)
        return pa.table(
            {name: pa.array([line[places[name]] for line in lines], pa.string()) for name in names}
        )

    def read() -> pa.Table:
        with open_source(source, names, text=schema.source) as opened:
            batches = list(opened.batches(opened.table.select(*names).limit(N_LINES), N_LINES))
        found = pa.Table.from_batches(batches) if batches else pa.table({name: [] for name in names})
        return pa.table({name: found[name].cast(pa.string()) for name in names})

    return quoting_no_value(source, read)


def _of_texts(attribute: Attribute, column: pa.ChunkedArray, schema: Schema) -> list[Concern]:
    """Whether the first texts can be read, by the very rules of a build."""
    exact_texts = [text for text in column.to_pylist() if text is not None and text.strip()]
    exact_texts = [text for text in exact_texts if text.strip() not in schema.source.missing]
    if not exact_texts:
        return []
    unread = [
        text
        for text, is_read in zip(exact_texts, _are_read(attribute, exact_texts, schema), strict=True)
        if not is_read
    ]
    if not unread:
        return []
    where = f"would be counted as {attribute.labels()[attribute.missing_code]!r}"
    if isinstance(attribute, Category):
        where = f"would be counted as {attribute.labels()[attribute.unknown_code]!r}"
        if len(unread) < len(exact_texts):
            return []
        sentence = (
            f"none of the first {N_LINES} lines holds one of the declared values; all of them {where}. "
            "Write `values` as they stand in the table, or give them `aliases`."
        )
        return [Concern(attribute.name, sentence, is_grave=True)]
    every = "every value" if len(unread) == len(exact_texts) else "such values"
    sentence = (
        f"the column has text of the shape {_shape(unread)}; declared {attribute.kind}, {every} {where}. "
        f"{_ADVICE[attribute.kind]}"
    )
    return [Concern(attribute.name, sentence, is_grave=len(unread) == len(exact_texts))]


_ADVICE = {
    "integer": "Declare a category, or state signs and marks in [source]: decimal, thousands, missing.",
    "real": "Declare a category, or state signs and marks in [source]: decimal, thousands, missing.",
    "datetime": 'State how dates are written: [source] dates = ["%d.%m.%Y"].',
    "boolean": "Truth is read from true/false, t/f, yes/no, y/n and 1/0; declare a category for other words.",
}


def _are_read(attribute: Attribute, texts: list[str], schema: Schema) -> list[bool]:
    """Whether each text has a value on the attribute's axis, or is a declared category."""
    if isinstance(attribute, Category):
        declared = {text for text, _ in attribute.spellings()}
        return [text in declared for text in texts]
    # As the one column of a table of an embedded database: the rules of a build, and no copy of them.
    with open_source(pa.table({"row": range(len(texts)), "x": pa.array(texts, pa.string())})) as opened:
        table = opened.table
        plain = table.select("row", x=plain_text(table["x"], attribute, schema.source))
        safe = plain.select("row", x=make_castable(plain["x"], attribute))
        read = safe.select("row", is_read=value(safe["x"], attribute).notnull())
        batches = list(opened.batches(read.order_by("row"), len(texts)))
    return [is_read for batch in batches for is_read in batch["is_read"].to_pylist()]


def _shape(texts: list[str]) -> str:
    """The most frequent shape of texts: digits as 9, letters as a."""
    shapes = [re.sub(r"[^\W\d_]", "a", re.sub(r"\d", "9", text.strip()))[:_SHAPE_LENGTH] for text in texts]
    return repr(max(dict.fromkeys(shapes), key=shapes.count))


def _of_type(attribute: Attribute, written: str) -> list[Concern]:
    """What follows from a column's type alone."""
    fractional = is_one_of(written, ("floating", "decimal"))
    if isinstance(attribute, Integer) and fractional:
        return [
            Concern(attribute.name, f"the column is of type {written}; fractions are rounded down.", False)
        ]
    if isinstance(attribute, Category) and is_one_of(written, ("integer", "floating", "decimal", "boolean")):
        from hdpview.counts.encode import known_constants

        column = ibis.table({"x": written}, name="t")["x"]
        if not known_constants(column, attribute):
            words = "true or false" if is_one_of(written, ("boolean",)) else "a number"
            sentence = (
                f"the column is of type {written} and no declared value is {words}; every value would be "
                f"counted as {attribute.labels()[attribute.unknown_code]!r}. Write `values` or `aliases` as "
                "they stand in the table."
            )
            return [Concern(attribute.name, sentence, is_grave=True)]
    return []


def _of_missing(attribute: Attribute) -> Concern:
    first = attribute.labels()[attribute.missing_code]
    sentence = (
        f"the schema does not say where missing values go; they would be counted as {first!r}, the first "
        "value. Write nullable = true, or missing = and a value."
    )
    return Concern(attribute.name, sentence, is_grave=False)
