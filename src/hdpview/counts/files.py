"""Find the files of a path and the way to read each: by names and headers, never by values."""

from __future__ import annotations

import codecs
import contextlib
import csv
import glob
import io
import itertools
import json
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa

from hdpview.counts.encode import text_sql
from hdpview.domain.text_format import PLAIN, TextFormat, separator_of
from hdpview.errors import DataError

_KINDS = {".parquet": "parquet", ".pq": "parquet"} | {
    f"{ending}{packed}": kind
    for ending, kind in ((".csv", "csv"), (".tsv", "csv"), (".jsonl", "json"), (".ndjson", "json"))
    for packed in ("", ".gz", ".zst")
}
_PACKED = {".gz": "gzip", ".zst": "zstd"}
_READABLE = ".parquet, .csv, .tsv, .jsonl or .ndjson; text may be packed as .gz or .zst"
# Maps the first bytes of files that are not text to the kind of file.
_CONTENTS = {
    b"PAR1": "a Parquet file. Name it .parquet",
    b"PK\x03\x04": "an Excel or ZIP file. Save the table as CSV (UTF-8), or unpack it",
    b"\xd0\xcf\x11\xe0": "an old Excel file. Save the table as CSV (UTF-8)",
    b"SQLite format 3": "an SQLite database. Export the table as CSV",
    b"\x1f\x8b": "packed by gzip. Add .gz to its name",
    b"\x28\xb5\x2f\xfd": "packed by zstd. Add .zst to its name",
}
# Ending of an unsupported file → another way to read it.
_WAYS_OUT = {
    ".xlsx": "Save it as CSV (UTF-8) in Excel, or in Python: hv.build(pandas.read_excel({0!r}), schema, …)",
    ".sqlite": "In Python: hv.build(pandas.read_sql('SELECT * FROM t', sqlite3.connect({0!r})), schema, …)",
    ".duckdb": "In Python: hv.build(duckdb.connect({0!r}).table('name'), schema, …)",
    ".json": "Write one object per line (.jsonl), or in Python: hv.build(pandas.read_json({0!r}), schema, …)",
    ".dta": "In Python: hv.build(pandas.read_stata({0!r}), schema, …)",
    ".sas7bdat": "In Python: hv.build(pandas.read_sas({0!r}), schema, …)",
    ".sav": "In Python: hv.build(pandas.read_spss({0!r}), schema, …)",
    ".feather": "In Python: hv.build(pyarrow.feather.read_table({0!r}), schema, …)",
    ".orc": "In Python: hv.build(pyarrow.orc.read_table({0!r}), schema, …)",
    ".zip": "Unpack it first",
    ".txt": "If it is a table with a line per record, name it .csv or .tsv",
}
_SAME_WAYS = {
    ".xls": ".xlsx", ".xlsm": ".xlsx", ".ods": ".xlsx", ".db": ".sqlite", ".sqlite3": ".sqlite",
    ".arrow": ".feather", ".ipc": ".feather", ".xpt": ".sas7bdat", ".gz": ".zip", ".dat": ".txt",
}  # fmt: skip
_BYTE_ORDER_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_JSON_LINES = 100  # lines whose keys name the columns
_TITLE_LINES = 20  # lines compared with the first one
# Maximum characters of a line. Longer lines are left out, each by a rule for that line alone.
LONGEST_LINE = 400_000
# Bytes of a line above which DuckDB may leave it out; more than LONGEST_LINE characters can take.
_MOST_LINE_BYTES = 2_000_000


def files_of(path: str | Path) -> list[Path]:
    """The files of a path, a glob pattern or a folder, all of one kind, sorted by name."""
    text = str(path)
    if re.match(r"[a-zA-Z][\w+.-]+://", text):
        address = re.sub(r"//[^/@]*@", "//…@", text)  # no passwords in messages
        way_out = "Download it, or pass a table: ibis.connect(address).table(name)."
        raise DataError(f"{address!r} is an address, not a file. {way_out}")
    given = Path(text).expanduser()
    if text and given.is_dir():
        inside = [file for file in given.rglob("*") if kind_of_file(file) and file.is_file()]
        hidden = [any(part[0] in "._" for part in file.relative_to(given).parts) for file in inside]
        files = sorted(file for file, is_hidden in zip(inside, hidden, strict=True) if not is_hidden)
        if not files:
            raise DataError(f"The folder {text!r} contains no table: no file ending in {_READABLE}.")
    elif text and given.exists():
        files = [given]
    else:
        matches = map(Path, glob.glob(str(given), recursive=True))  # noqa: PTH207 Path.glob refuses absolute patterns
        files = sorted(file for file in matches if file.is_file())
        if not files:
            folder = str(Path.cwd())
            raise DataError(f"There is no file {text!r}. Check the path; it is relative to {folder!r}.")
    if unreadable := next((file for file in files if not kind_of_file(file)), None):
        suffix = unreadable.suffix.lower()
        way_out = _WAYS_OUT.get(_SAME_WAYS.get(suffix, suffix), f"Use a file ending in {_READABLE}")
        name, path = unreadable.name, str(unreadable)
        raise DataError(f"{name!r} is not a table that hdpview reads. {way_out.format(path)}.")
    if len(set(map(kind_of_file, files))) > 1:
        example = str(given / "*.parquet")
        raise DataError(f"{text!r} mixes kinds of files. Name one kind, for example {example!r}.")
    return files


def kind_of_file(file: Path) -> str | None:
    """`parquet`, `csv` or `json`, by the name alone; None for any other."""
    name = file.name.lower()
    return next((kind for suffix, kind in _KINDS.items() if name.endswith(suffix)), None)


def text_files(source: Any, kinds: Sequence[str] = ("csv", "json")) -> list[Path] | None:
    """The files of a source whose columns have no types; None if the source is anything else."""
    files = files_of(source) if isinstance(source, (str, Path)) else []
    return files if files and kind_of_file(files[0]) in kinds else None


def files_sql(
    files: Sequence[Path],
    *,
    parallel: bool,
    text: TextFormat = PLAIN,
    directory: Path | None = None,
    strict: bool = False,
) -> str:
    """The files as one table, in DuckDB's SQL. All CSV columns are read as text, because guessed types would
    depend on values.

    text: format of CSV files; directory: a private folder for copies of those that are not clean UTF-8.
    strict: leave malformed lines out and list them in the table `reject_errors`, for a check.
    """
    kind = kind_of_file(files[0])
    if kind == "parquet":
        # Invalid UTF-8 is replaced: in strict mode, one such value would make the whole table fail. [P7]
        return f"read_parquet({_paths(files)}, union_by_name = {len(files) > 1}, utf8_validation = 'replace')"
    if kind == "json":
        names = list(dict.fromkeys(name for file in files for record in json_head(file) for name in record))
        # The setting `records`, too, would be guessed from values: one odd line would change all others. [P7]
        options = "records = true, format = 'newline_delimited', ignore_errors = true"
        return f"read_json({_paths(files)}, columns = {_texts(names)}, {options})"
    delimiter, names = csv_layout(files, text)
    readable = files if directory is None else [utf8_copy(file, text, directory) or file for file in files]
    settings = {
        "columns": _texts(names),
        "auto_detect": "false",
        "header": str(not text.columns),
        "delim": text_sql(delimiter),
        "quote": text_sql(text.quote),
        "escape": text_sql(text.quote),
        # an empty field is empty text, quoted or not; the attribute defines its meaning
        "force_not_null": f"[{', '.join(map(text_sql, names))}]",
        "max_line_size": str(_MOST_LINE_BYTES),
        # accept malformed lines: short, long or badly quoted ones
        "null_padding": str(not strict),
        "ignore_errors": "true",
        "strict_mode": str(strict),
        "parallel": str(parallel),
        **({"store_rejects": "true"} if strict else {}),
    }
    return f"read_csv({_paths(readable)}, {', '.join(f'{key} = {value}' for key, value in settings.items())})"


def other_settings(problem: Exception) -> dict[str, bool]:
    """Settings of `open_source` with which DuckDB may read CSV files that it gave up on."""
    if "null_padding" in str(problem) and "parallel" in str(problem):
        return {"parallel_csv": False}  # line breaks in fields and short lines look alike in parallel
    # In strict mode, lines that end in different ways are an error of the whole file.
    return {"strict": False} if "state machine" in str(problem) else {}


def _paths(files: Sequence[Path]) -> str:
    """A list of paths that DuckDB does not interpret as patterns."""
    literal = (re.sub(r"([*?\[])", r"[\1]", str(file)) for file in files)
    return f"[{', '.join(map(text_sql, literal))}]"


def _texts(names: Sequence[str]) -> str:
    """Columns of texts."""
    return "{" + ", ".join(f"{text_sql(name)}: 'VARCHAR'" for name in names) + "}"


def csv_layout(files: Sequence[Path], text: TextFormat = PLAIN) -> tuple[str, list[str]]:
    """Delimiter and column names of CSV files that are read as one table."""
    layout = _header(files[0], text)
    if other := next((file for file in files[1:] if _header(file, text) != layout), None):
        raise DataError(
            f"{other.name!r} and {files[0].name!r} have different columns or separators. Files read together "
            "need the same header line."
        )
    return layout


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


def json_head(file: Path) -> list[dict[str, Any]]:
    """The first records of a JSON-lines file; lines that hold none are left out."""
    records: list[dict[str, Any]] = []
    with open_text(file, PLAIN) as lines:
        for line in itertools.islice(lines, _JSON_LINES):
            with contextlib.suppress(ValueError):
                record = json.loads(line)
                records += [record] if isinstance(record, dict) else []
    if not any(records):
        way_out = _WAYS_OUT[".json"].format(str(file))
        raise DataError(f"{file.name!r} does not hold one JSON object per line. {way_out}.")
    return records


def open_text(file: Path, text: TextFormat) -> IO[str]:
    """The lines of a file. Undecodable bytes do not raise."""
    encoding = "utf-8-sig" if text.is_utf8 else text.encoding
    return io.TextIOWrapper(_open_bytes(file), encoding=encoding, errors="replace", newline="")


def _open_bytes(file: Path) -> IO[bytes]:
    """The content of a file, unpacked."""
    return cast("IO[bytes]", pa.input_stream(str(file), _PACKED.get(file.suffix.lower()), 1 << 16))


def guessed_encoding(file: Path) -> str:
    """The encoding that a byte order mark shows, or zeros between letters; else the first usual one that
    decodes the start of the file.
    """
    with contextlib.suppress(OSError, EOFError), _open_bytes(file) as opened:  # others refuse a broken file
        start = opened.read(1 << 20)
        for mark, encoding in _BYTE_ORDER_MARKS.items():
            if start.startswith(mark):
                return encoding
        if len(start) >= 4 and start[:4].count(0) == 2:
            return "utf-16-le" if start[1] == 0 else "utf-16-be"
        for encoding in ("utf-8", "cp1252", "latin-1"):
            with contextlib.suppress(UnicodeDecodeError):
                codecs.getincrementaldecoder(encoding)().decode(start)
                return encoding
    return "utf-8"


def utf8_copy(file: Path, text: TextFormat, directory: Path) -> Path | None:
    """A copy of a text file in a private folder, as UTF-8 and without overlong lines; None if it needs none.

    CSV readers skip lines that are invalid UTF-8; here, such bytes are replaced.
    """
    if text.is_utf8 and _is_clean(file):
        return None
    target, is_long = directory / f"{secrets.token_hex(8)}.csv", False
    with (
        open_text(file, text) as lines,
        target.open("w", encoding="utf-8", errors="replace", newline="") as copy,
    ):
        while line := lines.readline(LONGEST_LINE):
            was_long, is_long = is_long, len(line) == LONGEST_LINE and line[-1] not in "\r\n"
            if not (was_long or is_long):
                copy.write(line)
    return target


def _is_clean(file: Path) -> bool:
    """Whether a file is UTF-8 throughout and has no overlong line, which would fill one of the chunks."""
    decoder, size = codecs.getincrementaldecoder("utf-8")(), LONGEST_LINE // 2
    with contextlib.suppress(UnicodeDecodeError), _open_bytes(file) as source:
        while chunk := source.read(size):
            decoder.decode(chunk)
            if len(chunk) == size and b"\n" not in chunk:
                return False
        decoder.decode(b"", final=True)
        return True
    return False


def _reader(lines: Iterable[str], delimiter: str, text: TextFormat) -> Iterator[list[str]]:
    if text.quote:
        return csv.reader(lines, delimiter=delimiter, quotechar=text.quote)
    return csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)


def _header(file: Path, text: TextFormat) -> tuple[str, list[str]]:
    """Delimiter and column names, from the first lines alone."""
    try:
        with open_text(file, text) as opened:
            lines = [opened.readline(1_000_000) for _ in range(_TITLE_LINES)]
        is_tabbed = ".tsv" in file.name.lower() and "\t" in lines[0]
        delimiter = text.separator or ("\t" if is_tabbed else separator_of(lines[0]))
        first = next(_reader(lines, delimiter, text), [])
    except (OSError, EOFError, UnicodeError, csv.Error):
        lines, delimiter, first = [""], ",", ["\ufffd"]
    names = list(text.columns) or [name.strip() for name in first]
    if any("\ufffd" in name or "\0" in name for name in names):
        raise DataError(_why_unreadable(file, text))
    if not names:
        way_out = "Name the columns in its first line, or in the schema: [source] columns = [...]."
        raise DataError(f"{file.name!r} has no header line. {way_out}")
    if problem := _problem_of_header(lines, delimiter, first, text):
        raise DataError(f"The first line of {file.name!r} {problem}")
    named = [name or f"column{position}" for position, name in enumerate(names)]
    name, times = Counter(map(str.casefold, named)).most_common(1)[0]
    if times > 1:
        raise DataError(f"{file.name!r} has two columns named {name!r}. Rename one of them.")
    return delimiter, named


def _why_unreadable(file: Path, text: TextFormat) -> str:
    name, packing = repr(file.name), _PACKED.get(file.suffix.lower())
    if packing:
        return f"{name} is not a complete file packed by {packing}. Name it .csv if it is plain text."
    with file.open("rb") as opened:
        start = opened.read(16)
    if content := next((what for mark, what in _CONTENTS.items() if start.startswith(mark)), None):
        return f"{name} is not text but {content}."
    return (
        f"Cannot read the header line of {name} as {text.encoding}. It must be a readable CSV file; state "
        f'another encoding in the schema, such as [source] encoding = "{guessed_encoding(file)}".'
    )


def _problem_of_header(
    lines: Sequence[str], delimiter: str, first: Sequence[str], text: TextFormat
) -> str | None:
    """Why a first line cannot be the header: it has another separator or number of fields than declared, or
    far fewer fields than the lines below it.
    """
    better = separator_of(lines[0])
    if text.separator is not None and len(first) == 1 and better in lines[0] and better != delimiter:
        wrong = f"is not split by the schema's separator {delimiter!r}, but by {better!r}."
        return f"{wrong} Correct [source] separator."
    if text.columns:
        if len(first) in (0, len(text.columns)):
            return None
        named = f"has {len(first)} fields, but [source] columns names {len(text.columns)}."
        return f"{named} Name each column once, from left to right."
    if re.fullmatch(r"sep=.\s*", lines[0]):
        return "only states the separator. Delete it, so that the file begins with the names of the columns."
    unquoted = [re.sub(r'"[^"]*"', "", line) for line in lines[1:] if line.strip()]
    separators = [text.separator] if text.separator else ",;\t|"
    counts = [[line.count(sign) for line in unquoted] for sign in separators if len(unquoted) >= 2]
    n_separators = max((min(each[-5:]) for each in counts), default=0)
    n_named = sum(1 for name in first if name.strip())
    is_even = any(len(set(each)) == 1 and each[0] for each in counts)
    if (n_separators >= 2 and n_named <= n_separators / 2) or (is_even and len(first) == 1):
        return (
            "has far fewer fields than the lines below it: it looks like a title. Delete the lines above the "
            "header line, which names the columns, or put quotation marks around fields that hold the "
            "separator."
        )
    return None
