"""A cluster of a master and two workers gives the same view, also when a worker is lost half-way."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hdpview as hv
from hdpview.counts.stream import streamed_counts
from hdpview.domain.table_shapes import TableShape
from hdpview.privacy.exact import unprotected
from hdpview_bench.standalone import Standalone, standalone_cluster

pytestmark = pytest.mark.xdist_group("spark cluster")

# Builds on a cluster. At the first sign of growth it says so and waits until it may go on: cells are then
# counted and held by both workers, and so are encoded rows, whose tables are added up once more at the end.
BUILD = """
import sys, time
from itertools import combinations
from pathlib import Path
import numpy as np
import hdpview as hv
from hdpview.domain.table_shapes import TableShape
from hdpview.spark import engine as spark
from hdpview.spark.counts import distributed_rows
from hdpview.spark.session import spark_session
from hdpview.privacy.exact import unprotected
spark._MOST_CELLS_PER_TASK = 1000
master, table, schema, view = sys.argv[1:]
schema = hv.Schema.load(schema)
shapes = [TableShape.of_codes(pair, schema.sizes) for pair in combinations(range(len(schema)), 2)]
growing, go = Path(view + ".growing"), Path(view + ".go")
def progress(fraction, text):
    if text == "Growing blocks" and not growing.exists():
        growing.touch()
        while not go.exists():
            time.sleep(0.05)
with spark_session(master=master), distributed_rows(table, schema) as rows:
    options = dict(engine=master, test_key=b"cluster", method="hdpview", progress=progress)
    hv.build(table, schema, 1.0, **options).save(view)
    np.save(view + ".npy", [unprotected(table) for table in rows.exact_tables(shapes)])
"""
_SECONDS = 300


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("table")
    rng = np.random.default_rng(5)
    (folder / "parts").mkdir()
    for part in range(4):
        columns = np.minimum(rng.exponential(9, (1000, 5)), 49).astype(np.int16).T
        pq.write_table(
            pa.table({f"a{i}": column for i, column in enumerate(columns)}),
            folder / "parts" / f"{part}.parquet",
        )
    text = "\n".join(f'[attributes.a{i}]\ntype = "integer"\nmin = 0\nmax = 49' for i in range(5))
    (folder / "schema.toml").write_text(text)
    return folder


@contextmanager
def building(cluster: Standalone, table: Path, view: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [
        sys.executable, "-c", BUILD, cluster.address, str(table / "parts"), str(table / "schema.toml"),
        str(view),
    ]  # fmt: skip
    with subprocess.Popen(
        command, env=cluster.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as build:
        try:
            yield build
            _, said = build.communicate(timeout=_SECONDS)
            assert build.returncode == 0, said.decode(errors="replace")[-3000:]
        finally:
            build.kill()


def assert_as_here(view: Path, table: Path) -> None:
    there = hv.open(view).blocks
    here = hv.build(
        table / "parts", hv.Schema.load(table / "schema.toml"), 1.0, test_key=b"cluster", method="hdpview"
    ).blocks
    assert all(
        np.array_equal(getattr(here, name), getattr(there, name))
        for name in ("lower", "upper", "depth", "noisy_counts")
    )
    assert len(here) > 100


def test_a_worker_lost_half_way_changes_nothing(cluster, table, tmp_path):
    view = tmp_path / "b.pview"
    with building(cluster, table, view) as build:
        deadline = time.monotonic() + _SECONDS
        while not Path(f"{view}.growing").exists():
            assert build.poll() is None, build.communicate()[1].decode(errors="replace")[-3000:]
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert cluster.lose(1) >= 1
        Path(f"{view}.go").touch()
    assert_as_here(view, table)
    schema = hv.Schema.load(table / "schema.toml")
    shapes = [TableShape.of_codes(pair, schema.sizes) for pair in combinations(range(len(schema)), 2)]
    with streamed_counts(table / "parts", schema) as counts:
        assert np.load(f"{view}.npy").tolist() == [
            unprotected(table).tolist() for table in counts.exact_tables(shapes)
        ]
