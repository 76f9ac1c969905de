"""Check that the lines of CSV files are records: lengths, quotation marks, titles, headers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from hdpview.counts.files import csv_layout, files_of, first_lines, kind_of_file, open_text
from hdpview.counts.losses import MANY_SHARE, SchemaWarning, band
from hdpview.counts.sources import OpenSource, open_source
from hdpview.domain import Schema, TextFormat
from hdpview.errors import DataError

# Lines compared with the first one.
N_LINES = 100
_YEAR = re.compile(r"(19|20)[0-9]{2}")
_NUMBER = re.compile(r"[+-]?[0-9]+([.,][0-9]+)?")
_DATE = re.compile(r"[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}([ T].*)?")
_LENGTHS = {"MISSING COLUMNS": "fewer", "TOO MANY COLUMNS": "more"}


def structure_warnings(source: Any, schema: Schema, opened: OpenSource) -> Iterator[SchemaWarning]:
    """Warnings about the files. opened: the source after a read of all rows, strict if possible."""
    if not isinstance(source, (str, Path)):
        return
    files = files_of(source)
    if (kind := kind_of_file(files[0])) != "csv":
        yield from _about_parquet(files, schema) if kind == "parquet" else ()
        return
    if not opened.is_strict:
        sentence = "lines end in different ways, so their numbers of fields were not checked."
        yield SchemaWarning("", sentence, is_blocking=False)
        return
    exact_errors = dict(
        opened.connection.execute(
            "SELECT error_type, count(DISTINCT (file_id, line)) FROM reject_errors GROUP BY 1"
        ).fetchall()
    )
    # Counting lines is slow, so only files with other problems need it.
    n_lines = sum(_n_lines(file, schema.source) for file in files) if exact_errors else 0
    for kind, word in _LENGTHS.items():
        if (how_many := band(exact_errors.get(kind, 0), n_lines)) is not None:
            yield SchemaWarning(
                "",
                f"{how_many} lines have {word} fields than the header line, so fields may be in the wrong "
                "columns. Put quotation marks around fields that hold the separator, or correct [source] "
                "separator.",
                exact_errors[kind] >= MANY_SHARE * n_lines,
            )
    if exact_errors.get("UNQUOTED VALUE"):
        yield from _about_quotes(source, schema, n_lines)
    if schema.source.columns and first_lines(files[0], schema.source, 1) == [list(schema.source.columns)]:
        sentence = "the first line repeats [source] columns and would count as a record. Remove that key."
        yield SchemaWarning("", sentence, is_blocking=False)


def _about_quotes(source: Any, schema: Schema, n_lines: int) -> Iterator[SchemaWarning]:
    """Detect an unclosed quotation mark by comparing the number of records with the number of lines."""
    with open_source(source, text=schema.source, parallel_csv=False) as lenient:
        (counted,) = lenient.rows("SELECT count(*) AS n FROM source")
        n_records = counted["n"]
    exact_lost = max(0, n_lines - n_records)
    how_many = band(exact_lost, n_lines) or "few"
    yield SchemaWarning(
        "",
        f"a quotation mark opens a field and is not closed; {how_many} lines become part of fields and would "
        'be lost. Close it, or write [source] quote = "" if quotation marks mean nothing in this file.',
        exact_lost >= MANY_SHARE * n_lines,
    )


def _n_lines(file: Path, text: TextFormat) -> int:
    """Lines that should be records: all but empty ones and the header."""
    with open_text(file, text) as lines:
        blocks = iter(lambda: lines.read(1 << 20), "")
        n, is_open = 0, False
        for block in blocks:
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
            yield SchemaWarning(
                name,
                f"{without[0]!r}{others} of the {len(files)} files lack this column, and all their rows "
                "would be counted as missing.",
                is_blocking=True,
            )


def check_first_line(file: Path, text: TextFormat) -> None:
    """Refuse a first line that looks like a record, because a draft would use its values as column names."""
    if text.columns:
        return
    _, names = csv_layout([file], text)
    lines = first_lines(file, text, N_LINES)
    columns = [[field.strip() for line in lines if (field := line[i]).strip()] for i in range(len(names))]
    if any(map(_is_record_like, names, columns)):
        raise DataError(
            f"The first line of {file.name!r} looks like a record, not like column names. Write a header "
            "line above it, or state [source] columns = [...] in a schema. If these are the names, choose "
            "the columns to use by name (--columns)."
        )


def _is_value(text: str) -> bool:
    return bool(_NUMBER.fullmatch(text.strip()) or _DATE.fullmatch(text.strip()) or "@" in text)


def _is_record_like(name: str, below: list[str]) -> bool:
    """Whether a column's name looks like its values, or is one of them. Years may be names."""
    if _is_value(name) and not _YEAR.fullmatch(name.strip()):
        return sum(map(_is_value, below)) > len(below) / 2
    return below.count(name.strip()) >= max(2, len(below) // 20)
