"""Finished cells of a comparison on disk: small Parquet files in a folder, so a stopped run can resume.

A cell is one trial of one method on one dataset with one budget and one workload. Files are written
atomically.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

Key = tuple[str, str, str, float, int]
FOLDER = "cells"


@dataclass(frozen=True)
class Cell:
    """One measurement: an RMSE, or the three figures of `relations`. kind: measured, expected (by formula),
    infeasible (with a reason) or failed (a mistake; never saved).
    """

    dataset: str
    method: str
    workload: str
    epsilon: float
    trial: int
    kind: str
    rmse: float | None = None
    slope_median: float | None = None
    slopes_above_half: float | None = None
    variance_recovered_median: float | None = None
    blocks: int | None = None
    build_s: float | None = None
    reason: str | None = None

    @property
    def key(self) -> Key:
        return self.dataset, self.method, self.workload, self.epsilon, self.trial


_SCHEMA = pa.schema(
    {
        "dataset": pa.string(),
        "method": pa.string(),
        "workload": pa.string(),
        "epsilon": pa.float64(),
        "trial": pa.int64(),
        "kind": pa.string(),
        "rmse": pa.float64(),
        "slope_median": pa.float64(),
        "slopes_above_half": pa.float64(),
        "variance_recovered_median": pa.float64(),
        "blocks": pa.float64(),  # whole numbers; for Identity up to 10^21
        "build_s": pa.float64(),
        "reason": pa.string(),
    }
)


def save(cells: Iterable[Cell], folder: Path) -> None:
    """Add cells to the folder, as one new file."""
    rows = [asdict(cell) for cell in cells]
    if not rows:
        return
    parts = folder / FOLDER
    parts.mkdir(parents=True, exist_ok=True)
    keys = repr(
        [(row["dataset"], row["method"], row["workload"], row["epsilon"], row["trial"]) for row in rows]
    )
    name = hashlib.blake2b(keys.encode(), digest_size=12).hexdigest()
    unfinished = parts / f"{name}.unfinished"
    pq.write_table(pa.Table.from_pylist(rows, schema=_SCHEMA), unfinished)
    unfinished.replace(parts / f"{name}.parquet")


def load(folder: Path) -> dict[Key, Cell]:
    """All finished cells of a folder."""
    cells = {}
    for path in sorted((folder / FOLDER).glob("*.parquet")):
        for row in pq.read_table(path, schema=_SCHEMA).to_pylist():
            cell = Cell(**{**row, "blocks": None if row["blocks"] is None else int(row["blocks"])})
            cells[cell.key] = cell
    return cells
