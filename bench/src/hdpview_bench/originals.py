"""The public originals of the paper's datasets: downloaded once, checked, and cached as Parquet files.

Adult's two files are checked by SHA-256. No independent checksum exists for the others, so their rows and
columns are counted instead, as the documentation states. Tables in a local folder need none of this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.parquet as pq

from hdpview.errors import DataError

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
OPENML = "https://www.openml.org/data/get_csv"
_OFF_BY = 10  # rows; some publishers state rounded numbers
_ADULT = [
    *(
        "age",
        "workclass",
        "fnlwgt",
        "education",
        "education-num",
        "marital-status",
        "occupation",
        "relationship",
        "race",
        "sex",
    ),
    *("capital-gain", "capital-loss", "hours-per-week", "native-country", "income"),
]
_ADULT_NUMBERS = {"age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"}


@dataclass(frozen=True)
class Original:
    """A published table: its address, how to read it, and its numbers of rows and columns. files: address and
    SHA-256 or None.
    """

    files: tuple[tuple[str, str | None], ...]
    read: Callable[[list[Path]], pa.Table]
    rows: int
    columns: int


def _adult(paths: list[Path]) -> pa.Table:
    """The training file, then the test file without its first line and the trailing dots of its labels."""
    tables = []
    for path, skipped in zip(paths, (0, 1), strict=True):
        options = csv.ReadOptions(column_names=_ADULT, skip_rows=skipped)
        texts = csv.read_csv(
            path, options, convert_options=csv.ConvertOptions(column_types=dict.fromkeys(_ADULT, pa.string()))
        )
        tables.append(pa.table({name: pc.utf8_trim_whitespace(texts[name]) for name in _ADULT}))
    table = pa.concat_tables(tables)
    columns = {
        name: pc.cast(table[name], pa.int64()) if name in _ADULT_NUMBERS else table[name] for name in _ADULT
    }
    columns["income"] = pc.utf8_rtrim(columns["income"], characters=".")
    return pa.table(columns)


def _csv(paths: list[Path]) -> pa.Table:
    """A file with a header; question marks are missing values, and the word None is an ordinary text."""
    options = csv.ConvertOptions(null_values=["?"], strings_can_be_null=True)
    return csv.read_csv(paths[0], convert_options=options)


def _check_ins(paths: list[Path]) -> pa.Table:
    names = ["user", "time", "lat", "lon", "location_id"]
    return csv.read_csv(paths[0], csv.ReadOptions(column_names=names), csv.ParseOptions(delimiter="\t"))


ORIGINALS = {
    "adult": Original(
        (
            (f"{UCI}/adult/adult.data", "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"),
            (f"{UCI}/adult/adult.test", "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05"),
        ),
        _adult,
        48_842,
        15,
    ),
    "traffic": Original(((f"{UCI}/00492/Metro_Interstate_Traffic_Volume.csv.gz", None),), _csv, 48_204, 9),
    "electricity": Original(((f"{OPENML}/2419/electricity-normalized.csv", None),), _csv, 45_312, 9),
    "phoneme": Original(((f"{OPENML}/1592281/php8Mz7BG.csv", None),), _csv, 5_404, 6),
    "jm1": Original(((f"{OPENML}/53936/jm1.csv", None),), _csv, 10_885, 22),
    "bitcoin": Original(((f"{UCI}/00526/data.zip", None),), _csv, 2_916_697, 10),
    "gowalla": Original(
        (("https://snap.stanford.edu/data/loc-gowalla_totalCheckins.txt.gz", None),), _check_ins, 6_442_890, 5
    ),
}


def fetched(name: str) -> Path:
    """The table's cached Parquet file; if missing, the original is downloaded and checked first."""
    if name not in ORIGINALS:
        raise DataError(f"{name!r} is not fetched. Give a folder that holds {name}.parquet with --data-dir.")
    path = _cache() / f"{name}.parquet"
    if not path.is_file():
        original = ORIGINALS[name]
        table = original.read([_download(name, url, checksum) for url, checksum in original.files])
        if abs(table.num_rows - original.rows) > _OFF_BY or table.num_columns != original.columns:
            raise DataError(
                f"The download of {name!r} has {table.num_rows:,} rows and {table.num_columns} columns "
                f"instead of {original.rows:,} and {original.columns}. Give a folder with {name}.parquet as "
                "--data-dir."
            )
        unfinished = path.with_suffix(".unfinished")
        pq.write_table(table, unfinished, compression="zstd")
        unfinished.replace(path)
    return path


def _cache() -> Path:
    return Path(_pooch().os_cache("hdpview"))


def _download(name: str, url: str, checksum: str | None) -> Path:
    pooch = _pooch()
    try:
        unpack = pooch.Unzip() if url.endswith(".zip") else None
        path = pooch.retrieve(
            url, None if checksum is None else f"sha256:{checksum}", path=_cache(), processor=unpack
        )
    except (OSError, ValueError) as problem:  # unreachable, or the checksum differs
        raise DataError(
            f"Cannot fetch {name!r} from {url}: {str(problem).splitlines()[0]} Give a folder that holds "
            f"{name}.parquet with --data-dir."
        ) from None
    return Path(path[0] if isinstance(path, list) else path)


def _pooch() -> Any:
    try:
        import pooch
    except ImportError:
        raise DataError(
            "Fetching datasets needs pooch: pip install pooch. Or give a folder of Parquet files with "
            "--data-dir."
        ) from None
    pooch.get_logger().setLevel("ERROR")
    return pooch
