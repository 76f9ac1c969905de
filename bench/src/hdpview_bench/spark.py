"""One table built three ways in one run: by the local engine, by Spark on this machine, and by a stand-alone
Spark cluster on it.

Each runs in its own process and is timed from file to view, with the start of Spark counted separately. All
three must give the same view.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hdpview.errors import MethodError
from hdpview_bench.large import write_random_table
from hdpview_bench.standalone import loopback_environment, standalone_cluster

Row = dict[str, Any]


def spark_rows(n_rows: int, n_attributes: int = 10, size: int = 100, cores: int = 2) -> Iterator[Row]:
    """Seconds of each way, and the ratio to the local engine."""
    with tempfile.TemporaryDirectory(prefix="hdpview-spark-") as name:
        folder = Path(name)
        (folder / "table").mkdir()
        for part in range(2 * cores):  # several files, because workers read different files
            rows = n_rows * (part + 1) // (2 * cores) - n_rows * part // (2 * cores)
            write_random_table(folder / "table" / f"{part}.parquet", rows, n_attributes, size)
        here = _built(folder, "local", n_attributes, size, cores, dict(os.environ))
        yield _row("local engine", here, here)
        yield _row(
            f"Spark, local[{cores}]",
            _built(folder, "spark", n_attributes, size, cores, dict(os.environ)),
            here,
        )
        with standalone_cluster(folder, cores, "3g") as cluster:
            there = _built(
                folder, cluster.address, n_attributes, size, cores, loopback_environment(folder / "driver")
            )
        yield _row(f"Spark, a master and {cores} workers of one core", there, here)


def _row(engine: str, measured: Row, here: Row) -> Row:
    if measured["view"] != here["view"]:
        raise MethodError(
            "Two engines built different views with one key. This is an error of this library; please "
            "report it."
        )
    seconds = measured["count_s"] + measured["grow_s"]
    return {
        "engine": engine,
        "start_s": round(measured["start_s"], 1),
        "count_s": round(measured["count_s"], 1),
        "grow_s": round(measured["grow_s"], 1),
        "times_local": round(seconds / (here["count_s"] + here["grow_s"]), 2),
        "blocks": measured["blocks"],
        "same_view": True,
    }


def _built(
    folder: Path, engine: str, n_attributes: int, size: int, cores: int, environment: dict[str, str]
) -> Row:
    command = [
        sys.executable,
        "-c",
        _BUILD,
        str(folder / "table"),
        engine,
        str(n_attributes),
        str(size),
        str(cores),
    ]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment)
    if ended.returncode:
        raise MethodError(f"The build with the engine {engine} failed. It said: {ended.stderr[-2000:]}")
    measured: Row = json.loads(ended.stdout.splitlines()[-1])
    return measured


# Counting ends where growing is first reported. An earlier small build loads kernels and, for Spark, starts
# the session's first workers.
_BUILD = """
import hashlib, json, sys, time
from contextlib import nullcontext
import hdpview as hv
table, engine, n_attributes, size, cores = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
schema = hv.Schema([hv.Integer(name=f"a{i}", min=0, max=size - 1) for i in range(n_attributes)])
started = time.perf_counter()
session, options = nullcontext(), {"threads": cores} if engine == "local" else {}
if engine != "local":
    from hdpview.spark.session import spark_session
    master, threads = (None, cores) if engine == "spark" else (engine, None)
    session = spark_session(master=master, threads=threads)
with session:
    import pyarrow as pa
    few = pa.table({f"a{i}": [value % size for value in range(1000)] for i in range(n_attributes)})
    hv.build(few, schema, 1.0, method="hdpview", engine=engine, ledger=False, **options)
    ready = time.perf_counter()
    grown = []
    def progress(fraction, text):
        if text.lower().startswith("growing"):
            grown.append(time.perf_counter())
    options |= {"method": "hdpview", "engine": engine, "test_key": b"bench"}
    view = hv.build(table, schema, 1.0, progress=progress, **options)
    ended = time.perf_counter()
names = ("lower", "upper", "depth", "noisy_counts")
digest = hashlib.blake2b(b"".join(getattr(view.blocks, name).tobytes() for name in names))
print(json.dumps({"start_s": ready - started, "count_s": grown[0] - ready, "grow_s": ended - grown[0],
                  "blocks": len(view.blocks), "view": digest.hexdigest()}))
"""
