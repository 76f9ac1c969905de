"""A small view, its file, and changes to what the file holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hdpview.domain import Boolean, Category, Integer, Real, Schema
from hdpview.errors import ViewFileError
from hdpview.pview import PView
from hdpview.view.blocks import Blocks
from hdpview.view.file import MANIFEST_KEY
from hdpview.view.manifest import Manifest, Spending

SCHEMA = Schema(
    [
        Integer(name="age", min=0, max=7, nullable=True),
        Category(name="odd name.with dots", values=("a", "b")),
        Integer(name="wide", min=0, max=999),
        Real(name="x", min=0, max=1, bins=2),
        Boolean(name="flag"),
    ]
)
LOWER = [[0, 0, 0, 0, 0], [4, 0, 0, 0, 0], [4, 0, 300, 0, 0]]
UPPER = [[4, 2, 1000, 2, 2], [9, 2, 300, 2, 2], [9, 2, 1000, 2, 2]]
DEPTH = [2, 3, 3]
COUNTS = [100, -7, 2**40]


def manifest_of(schema: Schema, **changes: Any) -> Manifest:
    facts: dict[str, Any] = {
        "schema": schema,
        "method": "hdpview",
        "epsilon": Fraction(1, 10),
        "spending": (
            Spending("choose cuts", Fraction(1, 300), 24),
            Spending("noise on counts", Fraction(1, 50), 1),
        ),
        "noise_scale": 50.0,
        "settings": {"bias_ratio": 1.6},
        "parameters": {"epsilon_cut": 0.25, "n_private_cut_levels": 24},
        "library_version": "0.1.0",
        "not_private_because": ("built with a test key",),
    }
    return Manifest(**{**facts, **changes})


def a_view(**changes: Any) -> PView:
    blocks = Blocks(
        np.array(LOWER, np.int32), np.array(UPPER, np.int32), np.array(COUNTS), np.array(DEPTH, np.int32)
    )
    return PView(manifest_of(SCHEMA, **changes), blocks)


def use(view: PView) -> None:
    """Everything a reader does first with a view that was opened."""
    view.info()
    repr(view)
    view.count(None)
    view.count(f"{view.schema.names[0]} IS NOT NULL" if " " not in view.schema.names[0] else None)


def open_and_use(target: Path) -> bool:
    """Whether a file is opened as a view; then it can be used. Anything but ViewFileError is raised."""
    try:
        view = PView.open(target)
    except ViewFileError:
        return False
    use(view)
    return True


def rewrite(
    path: Path,
    change_table: Callable[[pa.Table], pa.Table] | None = None,
    change: Callable[[dict[str, Any]], Any] | None = None,
) -> None:
    """Write a file again with another table or another manifest."""
    table = pq.read_table(path)
    content = json.loads(table.schema.metadata[MANIFEST_KEY])
    if change_table is not None:
        table = change_table(table)
    if change is not None:
        content = change(content)
    metadata = content if isinstance(content, bytes) else json.dumps(content).encode()
    pq.write_table(table.replace_schema_metadata({MANIFEST_KEY: metadata}), path)
