"""Small views of both kinds, their files, and changes to the files' content."""

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cells import random_mixture, tables_of
from hdpview.domain import Boolean, Category, Integer, Real, Schema
from hdpview.errors import ViewFileError
from hdpview.pview import PView
from hdpview.view.blocks import Blocks
from hdpview.view.contents import checksum
from hdpview.view.data import ViewPart
from hdpview.view.file import MANIFEST_KEY
from hdpview.view.manifest import Manifest, Spending
from hdpview.view.quality import Quality, prior_quality

SCHEMA = Schema(
    [
        Integer(name="age", min=0, max=7, nullable=True),
        Category(name="odd name.with dots", values=("a", "b")), Integer(name="wide", min=0, max=999),
        Real(name="x", min=0, max=1, bins=2), Boolean(name="flag"),
    ]
)  # fmt: skip
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
        "settings": {"bias_ratio": 1.6},
        "parameters": {"epsilon_cut": 0.25, "n_private_cut_levels": 24},
        "library_version": "0.1.0",
        "not_private_because": ("built with a test key",),
    }
    return Manifest(**{**facts, **changes})


def a_view(**changes: Any) -> PView:
    bounds = (np.array(ends, np.int32) for ends in (LOWER, UPPER))
    blocks = Blocks(*bounds, np.array(COUNTS), np.array(DEPTH, np.int32), 50.0)
    return PView(manifest_of(SCHEMA, **changes), (ViewPart(blocks, prior_quality(blocks)),))


def a_mixture(schema: Schema = SCHEMA, seed: int = 4, **changes: Any) -> PView:
    mixture = random_mixture(schema.sizes, seed)
    quality = Quality((0.001, 0.02, 0.03, 0.5), True, {"counts of one attribute": 12.5})
    part = ViewPart(mixture, quality, tables_of(mixture, seed), cycles=schema.cycles)
    return PView(manifest_of(schema, **{"method": "mixture", **changes}), (part,))


def use(view: PView) -> None:
    view.info()
    repr(view)
    view.count(None)
    view.count(f"{view.schema.names[0]} IS NOT NULL" if " " not in view.schema.names[0] else None)


def open_and_use(target: Path) -> bool:
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
    """Write a file again with another table or another manifest, and a checksum that fits them."""
    table = pq.read_table(path)
    content = json.loads(table.schema.metadata[MANIFEST_KEY])
    if change_table is not None:
        table = change_table(table)
    if change is not None:
        content = change(content)
    if isinstance(content, dict) and "checksum" in content:
        try:
            columns = {name: table.column(name).combine_chunks() for name in table.column_names}
            whole = not any(column.null_count for column in columns.values())
            content["checksum"] = checksum(columns, content) if whole else "0"
        except (
            BufferError,
            TypeError,
            KeyError,
            DeprecationWarning,
            pa.ArrowInvalid,
        ):  # columns of another type are refused before
            content["checksum"] = "0"
    metadata = content if isinstance(content, bytes) else json.dumps(content).encode()
    pq.write_table(table.replace_schema_metadata({MANIFEST_KEY: metadata}), path)
