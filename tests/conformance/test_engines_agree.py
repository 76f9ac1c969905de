"""One key gives one view: in memory, out of core and on Spark, however the rows are spread."""

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from test_sources_agree import statistics_of

import hdpview as hv
from hdpview.counts.contributions import EACH_ROW, Contributions
from hdpview.counts.ingest import ReadOptions, read_counts
from hdpview.counts.stream import streamed_counts
from hdpview.spark import engine as spark_engine
from hdpview.spark import session
from hdpview.spark.counts import distributed_counts, distributed_rows
from sparks import ONE_WORKER

pytestmark = ONE_WORKER

Columns = NDArray[np.int64]
RNG_SEED = 20220915


def skewed(rng: np.random.Generator) -> tuple[Columns, int]:
    """Most rows near one corner, a few anywhere: cuts are chosen by rejection at first, by all scores further
    down."""
    return np.minimum(rng.exponential(4, (2000, 4)).astype(np.int64), 29), 30


def dense(rng: np.random.Generator) -> tuple[Columns, int]:
    """Many rows per cell, so that sides of cuts have means above 1 and deviations need the general form."""
    return np.minimum(rng.geometric(0.12, (20_000, 2)) - 1, 39).astype(np.int64), 40


TABLES = {
    "skewed": skewed,
    "dense": dense,
    "one attribute": lambda rng: ((rng.normal(150, 20, (1000, 1)) % 300).astype(np.int64), 300),
    "fifty attributes": lambda rng: (rng.integers(0, 3, (200, 50)) * rng.integers(0, 2, (200, 1)), 3),
    "all rows identical": lambda rng: (np.full((500, 3), 7, np.int64), 20),
    "three rows": lambda rng: (rng.integers(0, 12, (3, 3)), 12),
    "no row": lambda rng: (np.empty((0, 3), np.int64), 12),
}


def table_of(name: str) -> tuple[Columns, pa.Table, hv.Schema]:
    codes, size = TABLES[name](np.random.default_rng(RNG_SEED))
    table = pa.table({f"a{i}": column for i, column in enumerate(codes.T)})
    schema = hv.Schema([hv.Integer(name=column, min=0, max=size - 1) for column in table.column_names])
    return codes, table, schema


def assert_same(one: hv.PView, other: hv.PView) -> None:
    mine, theirs = arrays_of(one), arrays_of(other)
    assert mine.keys() == theirs.keys()
    for name in mine:
        assert mine[name].dtype == theirs[name].dtype, name
        assert np.array_equal(mine[name], theirs[name]), name
    assert one.manifest.spending == other.manifest.spending
    assert one.manifest.parameters == other.manifest.parameters


def arrays_of(view: hv.PView) -> dict[str, NDArray[Any]]:
    (part,) = view.parts
    arrays: dict[str, NDArray[Any]] = {}
    for field in dataclasses.fields(part.components):
        name, value = field.name, getattr(part.components, field.name)
        for a, array in enumerate(value if isinstance(value, tuple) else [value]):
            arrays[f"{name} {a}"] = np.asarray(array)
    return arrays | {f"table {i}": table.counts for i, table in enumerate(part.tables)}


@pytest.mark.parametrize("name", TABLES)
def test_one_key_gives_one_view(name, spark, monkeypatch):
    """The local engine, DuckDB with hardly any memory, and Spark with many partitions and small tasks."""
    codes, table, schema = table_of(name)
    build = {"epsilon": 1.0, "test_key": b"one", "method": "hdpview", "accept_losses": True}
    here = hv.build(table, schema, threads=1, **build)
    assert_same(here, hv.build(table, schema, threads=2, memory_limit="60MB", **build))

    n_asked = dense_blocks_per_level(monkeypatch)
    monkeypatch.setattr(spark_engine, "_MOST_CELLS_PER_TASK", max(1, len(np.unique(codes, axis=0)) // 4))
    assert_same(here, hv.build(spark.createDataFrame(table).repartition(3), schema, engine="spark", **build))
    assert (len(n_asked) > 0) == (name not in ("all rows identical", "no row")), (
        "the top of the tree was not grown on the cluster"
    )
    if name in ("dense", "fifty attributes"):
        assert any(n_asked) == (name == "dense"), "the general form is for dense blocks"


def dense_blocks_per_level(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that gets, for each level that is decided from sums, the number of blocks that needed the
    general form of deviations."""
    seen: list[int] = []
    above = spark_engine._Growth._above

    def counted(self: Any, *args: Any) -> Any:
        found = above(self, *args)
        seen.append(len(found))
        return found

    monkeypatch.setattr(spark_engine._Growth, "_above", counted)
    return seen


@pytest.mark.parametrize(("n_partitions", "method"), [(7, "hdpview"), (1, "mixture"), (7, "mixture")])
def test_partitions_do_not_matter(n_partitions, method, spark):
    _, table, schema = table_of("skewed")
    build = {"epsilon": "0.5", "test_key": b"two", "method": method}
    frame = spark.createDataFrame(table).repartition(n_partitions)
    assert_same(hv.build(table, schema, **build), hv.build(frame, schema, engine="spark", **build))


def table_of_persons() -> tuple[pa.Table, hv.Schema]:
    rng = np.random.default_rng(RNG_SEED)
    table = pa.table({
        "who": [f"p{i}" for i in rng.integers(0, 300, 2000)], "number": rng.integers(0, 300, 2000),
        "n": rng.integers(-1, 9, 2000),
        "a": rng.integers(0, 20, 2000), "b": rng.integers(0, 5, 2000), "c": rng.integers(0, 400, 2000),
    })  # fmt: skip
    most = {"a": 19, "b": 4, "c": 399}
    return table, hv.Schema([hv.Integer(name=name, min=0, max=most[name]) for name in most])


@pytest.mark.parametrize(
    "limits",
    [EACH_ROW, Contributions("who", 3), Contributions("number", 5, "n"), Contributions(count="n")],
    ids=["each row", "persons", "persons, aggregated", "aggregated"],
)
def test_statistics_agree(limits, spark, monkeypatch):
    """Workers add up large sums, the driver small ones."""
    table, schema = table_of_persons()
    options = ReadOptions(limits, "salt")
    here = statistics_of(read_counts(table, schema, options))
    assert sum(here[0]) > 100
    with streamed_counts(table, schema, options) as streamed:
        assert statistics_of(streamed) == here
    frame = spark.createDataFrame(table).repartition(3)
    for read, driver_bytes in ((distributed_rows, 0), (distributed_counts, 1 << 30)):
        monkeypatch.setattr(session, "_BYTES_OF_SUMS", driver_bytes)
        with read(frame, schema, options) as spread:
            assert statistics_of(spread) == here


def test_persons_in_an_aggregated_table_agree(spark):
    table, schema = table_of_persons()
    build = {"privacy_unit": "number", "max_rows": 5, "count": "n", "test_key": b"three"}
    here = hv.build(table, schema, 2.0, **build)
    assert_same(here, hv.build(spark.createDataFrame(table), schema, 2.0, engine="spark", **build))
