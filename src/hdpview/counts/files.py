"""Which files a path stands for, and how each is read: by names and headers, never by values."""

from __future__ import annotations

import contextlib
import csv
import glob
import gzip
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from hdpview.counts.transcode import utf8_copy
from hdpview.domain.text_format import PLAIN, TextFormat, separator_of
from hdpview.errors import DataError

if TYPE_CHECKING:
    import ibis

_KINDS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".csv.gz": "csv",
    ".tsv.gz": "csv",
}
_READABLE = ".parquet, .csv, .tsv, .csv.gz or .tsv.gz"
_LONGEST_LINE = 2_000_000  # bytes; what is longer is cut by `utf8_copy`


def files_of(path: str | Path) -> list[Path]:
    """The files a path, a glob pattern or a folder stands for, all of one kind, in order of name."""
    text = str(path)
    if re.match(r"[a-zA-Z][\w+.-]+://", text):
        address = re.sub(r"//[^/@]*@", "//…@", text)  # no passwords in messages
        raise DataError(
            f"{address!r} is an address, not a file. Download it, or pass a table: "
            "ibis.connect(address).table(name)."
        )
    given = Path(text).expanduser()
    if given.is_dir():
        found = sorted(
            file
            for file in given.rglob("*")
            if kind_of_file(file) and file.is_file() and not _is_hidden(file, given)
        )
        if not found:
            raise DataError(
                f"The folder {text!r} holds no table. Put files ending in {_READABLE} into it, or name "
                "another folder."
            )
    elif given.exists():
        found = [given]
    else:
        matches = map(Path, glob.glob(str(given), recursive=True))  # noqa: PTH207 Path.glob refuses absolute patterns
        found = sorted(file for file in matches if file.is_file())
        if not found:
            raise DataError(
                f"There is no file {text!r}. Check the path; it is read from {str(Path.cwd())!r}."
            )
    unreadable = [file for file in found if not kind_of_file(file)]
    if unreadable:
        raise DataError(
            f"{unreadable[0].name!r} is not a table this can read. Use a file ending in {_READABLE}."
        )
    if len({kind_of_file(file) for file in found}) > 1:
        raise DataError(
            f"{text!r} mixes Parquet and CSV files. Name one kind, for example {str(given / '*.parquet')!r}."
        )
    return found


def csv_files(source: Any) -> list[Path] | None:
    """The CSV files that a source stands for; None where it is anything else."""
    files = files_of(source) if isinstance(source, (str, Path)) else []
    return files if files and kind_of_file(files[0]) == "csv" else None


def open_files(
    con: Any,
    files: Sequence[Path],
    *,
    parallel: bool,
    text: TextFormat = PLAIN,
    room: Path | None = None,
    strict: bool = False,
) -> ibis.Table:
    """The files as one table of a DuckDB connection. CSV comes as text throughout: guessed types would depend
    on values.

    text: how CSV files are written; room: a private folder, for copies of those that are not clean UTF-8.
    strict: leave odd lines out and list them in the table `reject_errors`, as a check does.
    """
    if kind_of_file(files[0]) == "parquet":
        paths = [_literal_path(file) for file in files]
        # A text that is no UTF-8 is read with ? in its place: strictly, one such value would refuse the
        # table.
        return con.read_parquet(paths, union_by_name=len(paths) > 1, utf8_validation="replace")  # [P7]
    delimiter, names = csv_layout(files, text)
    readable = files if room is None else [utf8_copy(file, text, room) or file for file in files]
    return con.read_csv(
        [_literal_path(file) for file in readable],
        columns=dict.fromkeys(names, "VARCHAR"),
        auto_detect=False,
        header=not text.columns,
        delim=delimiter,
        quote=text.quote,
        escape=text.quote,
        # an empty field is empty text, quoted or not; the attribute says what that means
        force_not_null=names,
        max_line_size=_LONGEST_LINE,
        # what follows keeps odd lines from raising an error: short, long, badly quoted
        null_padding=not strict,
        ignore_errors=True,
        strict_mode=strict,
        parallel=parallel,
        **({"store_rejects": True} if strict else {}),
    )


def csv_layout(files: Sequence[Path], text: TextFormat = PLAIN) -> tuple[str, list[str]]:
    """Delimiter and column names of CSV files that are read as one table."""
    delimiter, names = _header(files[0], text)
    for file in files[1:]:
        if _header(file, text) != (delimiter, names):
            raise DataError(
                f"{file.name!r} has other columns than {files[0].name!r}. Files read together need the "
                "same header line."
            )
    return delimiter, names


def first_lines(file: Path, text: TextFormat, n_lines: int) -> list[list[str]]:
    """Fields of the first lines below the header, of a curator's own file and for the curator alone. Lines
    that Python's reader refuses end the list.
    """
    delimiter, names = _header(file, text)
    found: list[list[str]] = []
    with contextlib.suppress(OSError, EOFError, csv.Error), open_text(file, text) as lines:
        reader = _reader(lines, delimiter, text)
        if not text.columns:
            next(reader, None)
        filled = (line for line in reader if line)
        found.extend([*line, *[""] * len(names)][: len(names)] for line in itertools.islice(filled, n_lines))
    return found


def needs_one_reader(problem: Exception) -> bool:
    """Whether DuckDB gave up because line breaks in fields and short lines look alike in parallel."""
    return "null_padding" in str(problem) and "parallel" in str(problem)


def kind_of_file(file: Path) -> str | None:
    """`parquet` or `csv`, by the name alone; None for any other."""
    name = file.name.lower()
    return next((kind for suffix, kind in _KINDS.items() if name.endswith(suffix)), None)


def _is_hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)


def _literal_path(file: Path) -> str:
    """A path in which DuckDB finds no pattern."""
    return re.sub(r"([*?\[])", r"[\1]", str(file))


def open_text(file: Path, text: TextFormat) -> IO[str]:
    """The lines of a file. Bytes that the encoding does not have must not raise."""
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
            f"Cannot read the header line of {file.name!r} as {text.encoding}. It has to be a CSV file "
            "that you may "
            'read; state another encoding in the schema, such as [source] encoding = "cp1252".'
        )
    if not names:
        raise DataError(
            f"{file.name!r} has no header line. Its first line has to name the columns, or the schema does: "
            "[source] columns = [...]."
        )
    _check_separator(file, line, delimiter, first, text)
    named = [name if name.strip() else f"column{position}" for position, name in enumerate(names)]
    twice = [name for name, times in Counter(name.casefold() for name in named).items() if times > 1]
    if twice:
        raise DataError(f"{file.name!r} has two columns named {twice[0]!r}. Rename one of them.")
    return delimiter, named


def _check_separator(file: Path, line: str, delimiter: str, first: list[str], text: TextFormat) -> None:
    """Refuse a first line that does not part by the declared separator into the declared columns."""
    better = separator_of(line)
    if text.separator is not None and len(first) == 1 and better in line and better != delimiter:
        raise DataError(
            f"The separator {delimiter!r} of the schema does not part the first line of {file.name!r}; "
            f"{better!r} does. Correct [source] separator."
        )
    if text.columns and first and len(first) != len(text.columns):
        raise DataError(
            f"The schema names {len(text.columns)} columns in [source] columns; the first line of "
            f"{file.name!r} has {len(first)} fields. Name each column once, from left to right."
        )
