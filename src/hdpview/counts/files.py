"""Find the files of a path and the way to read each: by names and headers, never by values."""

from __future__ import annotations

import contextlib
import csv
import glob
import gzip
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

from hdpview.counts.encode import text_sql
from hdpview.counts.transcode import utf8_copy
from hdpview.domain.text_format import PLAIN, TextFormat, separator_of
from hdpview.errors import DataError

_KINDS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "json",
    ".ndjson": "json",
    ".jsonl.gz": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".csv.gz": "csv",
    ".tsv.gz": "csv",
}
_READABLE = ".parquet, .csv, .tsv, .csv.gz, .tsv.gz, .jsonl or .ndjson"
# Ending of an unsupported file → another way to read it.
_WAYS_OUT = {
    ".xlsx": "Save it as CSV (UTF-8) in Excel, or in Python: hv.build(pandas.read_excel({0!r}), schema, …)",
    ".sqlite": "In Python: hv.build(pandas.read_sql('SELECT * FROM t', sqlite3.connect({0!r})), schema, …)",
    ".duckdb": "In Python: hv.build(duckdb.connect({0!r}).table('name'), schema, …)",
    ".json": "Write one record per line (.jsonl), or in Python: hv.build(pandas.read_json({0!r}), schema, …)",
    ".dta": "In Python: hv.build(pandas.read_stata({0!r}), schema, …)",
    ".sas7bdat": "In Python: hv.build(pandas.read_sas({0!r}), schema, …)",
    ".sav": "In Python: hv.build(pandas.read_spss({0!r}), schema, …)",
    ".feather": "In Python: hv.build(pyarrow.feather.read_table({0!r}), schema, …)",
    ".zip": "Unpack it first",
    ".txt": "If it is a table with a line per record, name it .csv or .tsv",
}
_SAME_WAYS = {
    ".xls": ".xlsx", ".xlsm": ".xlsx", ".ods": ".xlsx", ".db": ".sqlite", ".sqlite3": ".sqlite",
    ".arrow": ".feather", ".ipc": ".feather", ".xpt": ".sas7bdat", ".gz": ".zip", ".dat": ".txt",
}  # fmt: skip
_JSON_LINES = 100  # lines whose keys name the columns
_TITLE_LINES = 20  # lines compared with the first one
_LONGEST_LINE = 2_000_000  # bytes; `utf8_copy` cuts longer lines


def files_of(path: str | Path) -> list[Path]:
    """The files of a path, a glob pattern or a folder, all of one kind, sorted by name."""
    text = str(path)
    if re.match(r"[a-zA-Z][\w+.-]+://", text):
        address = re.sub(r"//[^/@]*@", "//…@", text)  # no passwords in messages
        raise DataError(
            f"{address!r} is an address, not a file. Download it, or pass a table: "
            "ibis.connect(address).table(name)."
        )
    given = Path(text).expanduser()
    if given.is_dir():
        files = sorted(
            file
            for file in given.rglob("*")
            if kind_of_file(file) and file.is_file() and not _is_hidden(file, given)
        )
        if not files:
            raise DataError(
                f"The folder {text!r} contains no table. Put files ending in {_READABLE} into it, or name "
                "another folder."
            )
    elif given.exists():
        files = [given]
    else:
        matches = map(Path, glob.glob(str(given), recursive=True))  # noqa: PTH207 Path.glob refuses absolute patterns
        files = sorted(file for file in matches if file.is_file())
        if not files:
            raise DataError(
                f"There is no file {text!r}. Check the path; it is relative to {str(Path.cwd())!r}."
            )
    unreadable = [file for file in files if not kind_of_file(file)]
    if unreadable:
        raise DataError(_way_out(unreadable[0]))
    if len({kind_of_file(file) for file in files}) > 1:
        raise DataError(
            f"{text!r} mixes kinds of files. Name one kind, for example {str(given / '*.parquet')!r}."
        )
    return files


def csv_files(source: Any) -> list[Path] | None:
    """The CSV files of a source; None if it is anything else."""
    files = files_of(source) if isinstance(source, (str, Path)) else []
    return files if files and kind_of_file(files[0]) == "csv" else None


def text_files(source: Any) -> list[Path] | None:
    """Files whose columns have no types: CSV and JSON lines; None if the source is anything else."""
    files = files_of(source) if isinstance(source, (str, Path)) else []
    return files if files and kind_of_file(files[0]) != "parquet" else None


def files_sql(
    files: Sequence[Path],
    *,
    parallel: bool,
    text: TextFormat = PLAIN,
    room: Path | None = None,
    strict: bool = False,
) -> str:
    """The files as one table, in DuckDB's SQL. All CSV columns are read as text, because guessed types would
    depend on values.

    text: format of CSV files; room: a private folder for copies of those that are not clean UTF-8.
    strict: leave malformed lines out and list them in the table `reject_errors`, for a check.
    """
    kind = kind_of_file(files[0])
    if kind == "parquet":
        # Invalid UTF-8 is replaced: in strict mode, one such value would make the whole table fail. [P7]
        return f"read_parquet({_paths(files)}, union_by_name = {len(files) > 1}, utf8_validation = 'replace')"
    if kind == "json":
        columns = _texts(_json_names(files))
        options = f"columns = {columns}, format = 'newline_delimited', ignore_errors = true"
        return f"read_json({_paths(files)}, {options})"
    delimiter, names = csv_layout(files, text)
    readable = files if room is None else [utf8_copy(file, text, room) or file for file in files]
    settings = {
        "columns": _texts(names),
        "auto_detect": "false",
        "header": str(not text.columns),
        "delim": text_sql(delimiter),
        "quote": text_sql(text.quote),
        "escape": text_sql(text.quote),
        # an empty field is empty text, quoted or not; the attribute defines its meaning
        "force_not_null": f"[{', '.join(map(text_sql, names))}]",
        "max_line_size": str(_LONGEST_LINE),
        # these options accept malformed lines: short, long, badly quoted
        "null_padding": str(not strict),
        "ignore_errors": "true",
        "strict_mode": str(strict),
        "parallel": str(parallel),
        **({"store_rejects": "true"} if strict else {}),
    }
    return f"read_csv({_paths(readable)}, {', '.join(f'{key} = {value}' for key, value in settings.items())})"


def _paths(files: Sequence[Path]) -> str:
    return f"[{', '.join(text_sql(_literal_path(file)) for file in files)}]"


def _texts(names: Sequence[str]) -> str:
    """Columns of texts."""
    return "{" + ", ".join(f"{text_sql(name)}: 'VARCHAR'" for name in names) + "}"


def csv_layout(files: Sequence[Path], text: TextFormat = PLAIN) -> tuple[str, list[str]]:
    """Delimiter and column names of CSV files that are read as one table."""
    delimiter, names = _header(files[0], text)
    for file in files[1:]:
        if _header(file, text) != (delimiter, names):
            raise DataError(
                f"{file.name!r} and {files[0].name!r} have different columns. Files read together need the "
                "same header line."
            )
    return delimiter, names


def first_lines(file: Path, text: TextFormat, n_lines: int) -> list[list[str]]:
    """Fields of the first lines below the header, for the curator only. The list ends at the first line that
    Python's reader refuses.
    """
    delimiter, names = _header(file, text)
    rows: list[list[str]] = []
    with contextlib.suppress(OSError, EOFError, csv.Error), open_text(file, text) as lines:
        reader = _reader(lines, delimiter, text)
        if not text.columns:
            next(reader, None)
        filled = (line for line in reader if line)
        rows.extend([*line, *[""] * len(names)][: len(names)] for line in itertools.islice(filled, n_lines))
    return rows


def _way_out(file: Path) -> str:
    """A message for an unsupported file, with another way to read it."""
    suffix = file.suffix.lower()
    way_out = _WAYS_OUT.get(_SAME_WAYS.get(suffix, suffix), f"Use a file ending in {_READABLE}")
    return f"{file.name!r} is not a table that hdpview reads. {way_out.format(str(file))}."


def _json_names(files: Sequence[Path]) -> list[str]:
    """Names of columns: the keys of the first records of each file."""
    names: dict[str, None] = {}
    for file in files:
        with open_text(file, PLAIN) as lines:
            for line in itertools.islice(lines, _JSON_LINES):
                with contextlib.suppress(ValueError):
                    record = json.loads(line)
                    names |= dict.fromkeys(record if isinstance(record, dict) else ())
    if not names:
        raise DataError(f"{files[0].name!r} does not hold one JSON object per line.")
    return list(names)


def needs_one_reader(problem: Exception) -> bool:
    """Whether DuckDB gave up because line breaks in fields and short lines look alike in parallel."""
    return "null_padding" in str(problem) and "parallel" in str(problem)


def kind_of_file(file: Path) -> str | None:
    """`parquet`, `csv` or `json`, by the name alone; None for any other."""
    name = file.name.lower()
    return next((kind for suffix, kind in _KINDS.items() if name.endswith(suffix)), None)


def _is_hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)


def _literal_path(file: Path) -> str:
    """A path that DuckDB does not interpret as a pattern."""
    return re.sub(r"([*?\[])", r"[\1]", str(file))


def open_text(file: Path, text: TextFormat) -> IO[str]:
    """The lines of a file. Undecodable bytes do not raise."""
    opened = gzip.open if file.name.lower().endswith(".gz") else open
    encoding = "utf-8-sig" if text.is_utf8 else text.encoding
    return cast("IO[str]", opened(file, "rt", encoding=encoding, errors="replace", newline=""))


def _reader(lines: IO[str], delimiter: str, text: TextFormat) -> Iterator[list[str]]:
    if text.quote:
        return csv.reader(lines, delimiter=delimiter, quotechar=text.quote)
    return csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)


def _header(file: Path, text: TextFormat) -> tuple[str, list[str]]:
    """Delimiter and column names, from the first line alone."""
    try:
        with open_text(file, text) as lines:
            line = lines.readline(1_000_000)
            delimiter = text.separator or ("\t" if ".tsv" in file.name.lower() else separator_of(line))
            lines.seek(0)
            first = next(_reader(lines, delimiter, text), [])
    except (OSError, EOFError, UnicodeError, csv.Error):
        first, line = ["\ufffd"], ""
    names = list(text.columns) or first
    if any("\ufffd" in name for name in names):
        raise DataError(
            f"Cannot read the header line of {file.name!r} as {text.encoding}. It must be a readable "
            'CSV file; state another encoding in the schema, such as [source] encoding = "cp1252".'
        )
    if not names:
        raise DataError(
            f"{file.name!r} has no header line. Name the columns in its first line, or in the schema: "
            "[source] columns = [...]."
        )
    _check_title(file, first, text)
    _check_separator(file, line, delimiter, first, text)
    named = [name if name.strip() else f"column{position}" for position, name in enumerate(names)]
    twice = [name for name, times in Counter(name.casefold() for name in named).items() if times > 1]
    if twice:
        raise DataError(f"{file.name!r} has two columns named {twice[0]!r}. Rename one of them.")
    return delimiter, named


def _check_title(file: Path, first: list[str], text: TextFormat) -> None:
    """Refuse a first line with far fewer fields than the lines below it: a title above the header."""
    if text.columns:
        return
    with open_text(file, text) as opened:
        lines = [line for line in itertools.islice(opened, _TITLE_LINES) if line.strip()][1:]
    separators = [text.separator] if text.separator else ",;\t|"
    n_fields = max((min(line.count(sign) for line in lines[-5:]) for sign in separators if lines), default=0)
    n_named = sum(1 for name in first if name.strip())
    if len(lines) >= 2 and n_fields >= 2 and n_named <= n_fields / 2:
        raise DataError(
            f"The first line of {file.name!r} has far fewer fields than the lines below it: it looks like a "
            "title. Delete the lines above the header line, which names the columns."
        )


def _check_separator(file: Path, line: str, delimiter: str, first: list[str], text: TextFormat) -> None:
    """Refuse a first line that the declared separator does not split into the declared columns."""
    better = separator_of(line)
    if text.separator is not None and len(first) == 1 and better in line and better != delimiter:
        raise DataError(
            f"The separator {delimiter!r} of the schema does not split the first line of {file.name!r}; "
            f"{better!r} does. Correct [source] separator."
        )
    if text.columns and first and len(first) != len(text.columns):
        raise DataError(
            f"The schema names {len(text.columns)} columns in [source] columns; the first line of "
            f"{file.name!r} has {len(first)} fields. Name each column once, from left to right."
        )
