"""Check that the lines of CSV files are records: lengths, quotation marks, headers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from hdpview.counts.files import files_of, first_lines, kind_of_file, open_text
from hdpview.counts.losses import MANY_SHARE, SchemaWarning, band
from hdpview.counts.sources import OpenSource, open_source
from hdpview.domain import Schema, TextFormat


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
