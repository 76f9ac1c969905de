"""Passes over a table larger than memory: stream the rows of a Parquet file into tables and boxes, in a
separate process that reports its peak memory.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hdpview_bench.large import write_random_table

Row = dict[str, Any]


def passes_row(n_rows: int, n_attributes: int = 10, size: int = 100, memory_limit: str | None = None) -> Row:
    """Seconds to read and encode the file, and of one pass each for all histograms, the tables of all pairs
    and 1,000 boxes on three attributes; peak memory of the process, the database's included.
    """
    with tempfile.TemporaryDirectory(prefix="hdpview-passes-") as name:
        path = Path(name) / "large.parquet"
        write_random_table(path, n_rows, n_attributes, size)
        words = [str(path), str(n_attributes), str(size), memory_limit or ""]
        ended = subprocess.run([sys.executable, "-c", _PASSES, *words], stdout=subprocess.PIPE, check=True)
        file_bytes = path.stat().st_size
    found: Row = json.loads(ended.stdout)
    return {
        "rows": n_rows,
        "memory_limit": memory_limit or "half of the machine",
        "file_mb": round(file_bytes / 1e6),
        "encoded_mb": round(n_rows * n_attributes / 1e6),
        **found,
    }


# A small table first, so that all libraries are loaded and all kernels compiled before anything is measured.
_PASSES = """
import itertools, json, resource, sys, time
import numpy as np, pyarrow as pa
import hdpview as hv
from hdpview.counts.ingest import ReadOptions
from hdpview.counts.stream import streamed_counts
from hdpview.domain.tables import CodeBoxes, TableShape
path, n_attributes, size, limit = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] or None
schema = hv.Schema(hv.Integer(name=f"a{i}", min=0, max=size - 1) for i in range(n_attributes))
one, two = (
    [TableShape.of_codes(chosen, schema.sizes) for chosen in itertools.combinations(range(n_attributes), k)]
    for k in (1, 2)
)
rng = np.random.default_rng(1)
chosen = np.argsort(rng.random((1000, n_attributes)), axis=1)[:, :3]
ends = np.sort(rng.integers(0, size + 1, (2, 1000, 3)), axis=0)
found = {}
def peak():
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)
def lap(name):
    global wall, cpu
    found[name + "_s"] = round(time.perf_counter() - wall, 1)
    found[name + "_cpu_s"] = round(time.process_time() - cpu, 1)
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
print(json.dumps({**found, "peak_mb": peak(), "loaded_libraries_mb": before}))
"""
