"""A table larger than memory: build a view of a Parquet file of random rows in a monitored process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]
_POLL_SECONDS = 0.5
_BYTES_PER_COUNT = 8


def large_table_row(
    n_rows: int, n_attributes: int = 10, size: int = 100, memory_limit: str | None = None
) -> Row:
    """Time of the whole build from file to file, its stages, peak memory of the process (the database's
    included) and of the spill.
    """
    with tempfile.TemporaryDirectory(prefix="hdpview-large-") as name:
        folder = Path(name)
        write_random_table(folder / "large.parquet", n_rows, n_attributes, size)
        (folder / "spill").mkdir()
        command = [
            sys.executable,
            "-c",
            _BUILD,
            str(folder),
            str(n_attributes),
            str(size),
            memory_limit or "",
        ]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(folder / "spill")}
        ) as process:
            spilled = 0
            while process.poll() is None:
                spilled = max(spilled, bytes_in(folder / "spill"))
                time.sleep(_POLL_SECONDS)
            assert process.stdout is not None
            printed = process.stdout.read()
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command[:2])
        file_bytes = (folder / "large.parquet").stat().st_size
    found = json.loads(printed)
    encoded = found["cells"] * (n_attributes + _BYTES_PER_COUNT)
    return {
        "rows": n_rows,
        "memory_limit": memory_limit or "half of the machine",
        "file_mb": round(file_bytes / 1e6),
        "blocks": found["blocks"],
        "read_s": found["read_s"],
        "grow_s": found["grow_s"],
        "wall_s": found["wall_s"],
        "cpu_s": found["cpu_s"],
        "peak_mb": round(found["peak"] / 1e6),
        "loaded_libraries_mb": round(found["before"] / 1e6),
        "spilled_mb": round(spilled / 1e6),
        "encoded_cells_mb": round(encoded / 1e6),
        "peak_over_encoded": round((found["peak"] - found["before"]) / encoded, 2),
    }


def bytes_in(folder: Path) -> int:
    """What the files in a folder take on the disk now; files may come and go meanwhile."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except OSError:
            continue
    return total


_BUILD = """
import json, resource, sys, time
import hdpview as hv
from importlib import import_module
door = import_module("hdpview.build")
from hdpview.demo import hospital_schema, hospital_table
folder, n_attributes, size, limit = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] or None
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
# Load and compile everything first.
hv.build(hospital_table()[:1000], hospital_schema(), 1.0, method="hdpview", ledger=False)
found = {"before": peak()}
schema = hv.Schema(hv.Integer(name=f"a{i}", min=0, max=size - 1) for i in range(n_attributes))
read = door.read_counts
def timed(*args, **options):
    started = time.perf_counter()
    counts = read(*args, **options)
    found.update(read_s=round(time.perf_counter() - started, 1), cells=len(counts.exact_counts))
    return counts
door.read_counts = timed
started, before_cpu = time.perf_counter(), time.process_time()
view = hv.build(folder + "/large.parquet", schema, 1.0, method="hdpview", ledger=False, memory_limit=limit)
view.save(folder + "/large.pview")
wall = time.perf_counter() - started
found["cpu_s"] = round(time.process_time() - before_cpu, 1)
grow_s = round(wall - found["read_s"], 1)
found.update(wall_s=round(wall, 1), grow_s=grow_s, blocks=len(view.blocks), peak=peak())
print(json.dumps(found))
"""


def write_random_table(
    path: Path, n_rows: int, n_attributes: int, size: int, rows_per_group: int = 500_000
) -> None:
    """Columns a0, a1, … of skewed codes below `size`, independent of each other."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    schema = pa.schema([(f"a{i}", pa.int16()) for i in range(n_attributes)])
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(0, n_rows, rows_per_group):
            n = min(rows_per_group, n_rows - first)
            columns = [
                np.minimum(rng.exponential(size / 4, n), size - 1).astype(np.int16)
                for _ in range(n_attributes)
            ]
            writer.write_table(pa.table(columns, schema=schema))
