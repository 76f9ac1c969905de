"""Convert results, which are Arrow tables, to the data frames that people work with."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any, Literal

import pyarrow as pa

from hdpview.errors import QueryError, unknown_name

NOTES = "notes"  # key of the notes in an Arrow table's metadata and in a pandas frame's attrs
FrameKind = Literal["pandas", "polars", "pyarrow"]
KINDS: tuple[FrameKind, ...] = ("pandas", "polars", "pyarrow")


def kind_of(frame: Any) -> FrameKind | None:
    """The kind of a data frame; None for anything else."""
    return next((kind for kind in KINDS if type(frame).__module__.split(".")[0] == kind), None)


def to_frame(table: pa.Table, kind: str | None = None) -> Any:
    """An Arrow table as a data frame of the kind named, or of the first that is installed."""
    chosen = kind or next(known for known in KINDS if find_spec(known))
    if chosen not in KINDS:
        raise QueryError(unknown_name("kind of data frame", str(chosen), KINDS, "There are"))
    if chosen != "pyarrow" and find_spec(chosen) is None:
        raise QueryError(f"{chosen} is not installed. Install it, or ask for as_='pyarrow'.")
    if chosen == "pandas":
        frame = table.to_pandas()
        notes = (table.schema.metadata or {}).get(NOTES.encode())
        if notes is not None:
            frame.attrs["notes"] = json.loads(notes)
        return frame
    if chosen == "polars":
        import polars as pl

        return pl.from_arrow(table)
    return table
