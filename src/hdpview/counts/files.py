"""Which files a path stands for, and how each kind is read: everything settled by names and headers, nothing
by values.
"""

from __future__ import annotations

import csv
import glob
import gzip
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
_DELIMITERS = ",;\t|"


def files_of(path: str | Path) -> list[Path]:
    """The files a path, a glob pattern or a folder stands for, all of one kind, in order of name."""
    text = str(path)
    if re.match(r"[a-zA-Z][\w+.-]+://", text):
        address = re.sub(r"//[^/@]*@", "//…@", text)  # no passwords in messages
        raise DataError(
            f"{address!r} is an address, not a file. Download it, or pass a table: ibis.connect(address).table(name)."
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
                f"The folder {text!r} holds no table. Put files ending in {_READABLE} into it, or name another folder."
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


def open_files(con: Any, files: Sequence[Path], *, parallel: bool) -> ibis.Table:
    """The files as one table of a DuckDB connection. CSV comes as text throughout: guessed types would depend
    on values.
    """
    paths = [_literal_path(file) for file in files]
    if kind_of_file(files[0]) == "parquet":
        # A text that is no UTF-8 is read with ? in its place: strictly, one such value would refuse the table.
        return con.read_parquet(paths, union_by_name=len(paths) > 1, utf8_validation="replace")  # [P7]
    delimiter, names = csv_layout(files)
    return con.read_csv(
        paths,
        columns=dict.fromkeys(names, "VARCHAR"),
        auto_detect=False,
        header=True,
        delim=delimiter,
        quote='"',
        escape='"',
        # an empty field is empty text, quoted or not; the attribute says what that means
        force_not_null=names,
        # what follows keeps odd lines from raising an error: short, long, badly quoted, not UTF-8
        null_padding=True,
        ignore_errors=True,
        strict_mode=False,
        parallel=parallel,
    )


def csv_layout(files: Sequence[Path]) -> tuple[str, list[str]]:
    """Delimiter and column names of CSV files that are read as one table."""
    delimiter, names = _header(files[0])
    for file in files[1:]:
        if _header(file) != (delimiter, names):
            raise DataError(
                f"{file.name!r} has other columns than {files[0].name!r}. Files read together need the same header line."
            )
    return delimiter, names


def needs_one_reader(problem: Exception) -> bool:
    """Whether DuckDB gave up because fields with line breaks and short lines cannot be told apart in
    parallel.
    """
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


def _header(file: Path) -> tuple[str, list[str]]:
    """Delimiter and column names, from the first line alone."""
    opened = gzip.open if file.name.lower().endswith(".gz") else open
    try:
        # The reader looks ahead into rows, which must not raise: bytes that are no UTF-8 matter in names
        # alone.
        with opened(file, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as lines:
            delimiter = "\t" if ".tsv" in file.name.lower() else _delimiter(lines.readline(1_000_000))
            lines.seek(0)
            names = next(csv.reader(lines, delimiter=delimiter), [])
        "".join(names).encode("utf-8")
    except (OSError, EOFError, UnicodeError, csv.Error):
        raise DataError(
            f"Cannot read the header line of {file.name!r}. It has to be a CSV file in UTF-8 that you may read."
        ) from None
    if not names:
        raise DataError(f"{file.name!r} has no header line. Its first line has to name the columns.")
    named = [name if name.strip() else f"column{position}" for position, name in enumerate(names)]
    twice = [name for name, times in Counter(name.casefold() for name in named).items() if times > 1]
    if twice:
        raise DataError(f"{file.name!r} has two columns named {twice[0]!r}. Rename one of them.")
    return delimiter, named


def _delimiter(header: str) -> str:
    """The sign that parts names best, outside quotes; a comma in case of doubt."""
    outside = re.sub(r'"[^"]*"', "", header)
    return max(_DELIMITERS, key=outside.count)
