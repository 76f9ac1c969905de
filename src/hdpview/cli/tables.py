"""Writing tables: to a file by the ending of its name, or as CSV to standard output."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hdpview.errors import QueryError

if TYPE_CHECKING:
    import pyarrow as pa


def write_table(table: pa.Table, path: Path | None) -> None:
    """Write an Arrow table as CSV or Parquet."""
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    if path is None:
        pc.write_csv(table, sys.stdout.buffer)
        return
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise QueryError(f"Records are written as .csv or .parquet; {path.name!r} has another ending.")
    try:
        pq.write_table(table, path) if path.suffix.lower() == ".parquet" else pc.write_csv(table, path)
    except OSError as problem:
        raise QueryError(f"Cannot write {str(path)!r}: {problem.strerror or problem}.") from None
