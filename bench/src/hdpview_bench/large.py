"""Tables larger than memory: build views of Parquet files of random rows, or stream passes over them, in a
separate process that reports its peak memory.
"""

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
    """Time of a whole build and its stages, and peak memory of the process (including the database) and of
    the spill.
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
    measured = json.loads(printed)
    encoded = measured["cells"] * (n_attributes + _BYTES_PER_COUNT)
    return {
        "rows": n_rows,
        "memory_limit": memory_limit or "half of the machine",
        "file_mb": round(file_bytes / 1e6),
        "blocks": measured["blocks"],
        "read_s": measured["read_s"],
        "grow_s": measured["grow_s"],
        "wall_s": measured["wall_s"],
        "cpu_s": measured["cpu_s"],
        "peak_mb": round(measured["peak"] / 1e6),
        "loaded_libraries_mb": round(measured["before"] / 1e6),
        "spilled_mb": round(spilled / 1e6),
        "encoded_cells_mb": round(encoded / 1e6),
        "peak_over_encoded": round((measured["peak"] - measured["before"]) / encoded, 2),
    }


def bytes_in(folder: Path) -> int:
    """Disk space of the files in a folder; files may come and go meanwhile."""
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
figures = {"before": peak()}
schema = hv.Schema(hv.Integer(name=f"a{i}", min=0, max=size - 1) for i in range(n_attributes))
read = door.read_counts
def timed(*args, **options):
    started = time.perf_counter()
    counts = read(*args, **options)
    figures.update(read_s=round(time.perf_counter() - started, 1), cells=len(counts.exact_counts))
    return counts
door.read_counts = timed
started, before_cpu = time.perf_counter(), time.process_time()
view = hv.build(folder + "/large.parquet", schema, 1.0, method="hdpview", ledger=False, memory_limit=limit)
view.save(folder + "/large.pview")
wall = time.perf_counter() - started
figures["cpu_s"] = round(time.process_time() - before_cpu, 1)
grow_s = round(wall - figures["read_s"], 1)
figures.update(wall_s=round(wall, 1), grow_s=grow_s, blocks=len(view.blocks), peak=peak())
print(json.dumps(figures))
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


def passes_row(n_rows: int, n_attributes: int = 10, size: int = 100, memory_limit: str | None = None) -> Row:
    """Seconds to read and encode the file, and for one pass each over all histograms, all tables of pairs,
    and 1,000 boxes of three attributes. Also peak memory of the process, including the database.
    """
    with tempfile.TemporaryDirectory(prefix="hdpview-passes-") as name:
        path = Path(name) / "large.parquet"
        write_random_table(path, n_rows, n_attributes, size)
        words = [str(path), str(n_attributes), str(size), memory_limit or ""]
        ended = subprocess.run([sys.executable, "-c", _PASSES, *words], stdout=subprocess.PIPE, check=True)
        file_bytes = path.stat().st_size
    row: Row = json.loads(ended.stdout)
    return {
        "rows": n_rows,
        "memory_limit": memory_limit or "half of the machine",
        "file_mb": round(file_bytes / 1e6),
        "encoded_mb": round(n_rows * n_attributes / 1e6),
        **row,
    }


# A small table first, so that all libraries are loaded and all kernels compiled before anything is measured.
_PASSES = """
import itertools, json, resource, sys, time
import numpy as np, pyarrow as pa
import hdpview as hv
from hdpview.counts.ingest import ReadOptions
from hdpview.counts.stream import streamed_counts
from hdpview.domain.table_shapes import CodeBoxes, TableShape
path, n_attributes, size, limit = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] or None
schema = hv.Schema(hv.Integer(name=f"a{i}", min=0, max=size - 1) for i in range(n_attributes))
one, two = (
    [TableShape.of_codes(chosen, schema.sizes) for chosen in itertools.combinations(range(n_attributes), k)]
    for k in (1, 2)
)
rng = np.random.default_rng(1)
chosen = np.argsort(rng.random((1000, n_attributes)), axis=1)[:, :3]
ends = np.sort(rng.integers(0, size + 1, (2, 1000, 3)), axis=0)
figures = {}
def peak():
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)
def lap(name):
    global wall, cpu
    figures[name + "_s"] = round(time.perf_counter() - wall, 1)
    figures[name + "_cpu_s"] = round(time.process_time() - cpu, 1)
    wall, cpu = time.perf_counter(), time.process_time()
def passes(source):
    global wall, cpu
    wall, cpu = time.perf_counter(), time.process_time()
    with streamed_counts(source, schema, ReadOptions(memory_limit=limit)) as counts:
        lap("read")
        counts.exact_tables(one)
        lap("histograms")
        counts.exact_tables(two)
        lap("pairs")
        counts.exact_box_counts(CodeBoxes(chosen, ends[0], ends[1]))
        lap("boxes")
passes(pa.table({name: np.arange(300_000) % size for name in schema.names}))
before = peak()
passes(path)
print(json.dumps({**figures, "peak_mb": peak(), "loaded_libraries_mb": before}))
"""
