"""What can be built on Spark, what is left of it afterwards, and what is said when it cannot be."""

import dataclasses
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import hdpview as hv
from hdpview.counts.sparse import local_cells
from hdpview.partition.parameters import PartitionParameters, PartitionSettings
from hdpview.privacy.budget import exact_epsilon
from hdpview.privacy.ledger import Ledger
from hdpview.privacy.randomness import Randomness
from hdpview.spark.counts import distributed_counts
from hdpview.spark.engine import SparkEngine
from hdpview_bench.rivals.identity import Identity
from sparks import ONE_WORKER

pytestmark = ONE_WORKER

WARDS = tuple(f"ward {number}" for number in range(80))  # too many for a CASE: Spark joins them
SCHEMA = hv.Schema([hv.Integer(name="age", min=0, max=99), hv.Category(name="ward", values=WARDS)])


def people(n: int = 400) -> pa.Table:
    rng = np.random.default_rng(11)
    return pa.table({"age": rng.integers(0, 100, n), "ward": [WARDS[i] for i in rng.integers(0, 80, n)]})


def csv_of(folder: Path) -> str:
    pacsv.write_csv(people(), folder / "people.csv")
    return str(folder / "people.csv")


def parquet_of(folder: Path) -> Path:
    for part in range(2):
        pq.write_table(people().slice(part * 150, 150 if part == 0 else None), folder / f"{part}.parquet")
    return folder


def named(spark: Any) -> str:
    spark.createDataFrame(people()).createOrReplaceTempView("people_of_spark")
    return "people_of_spark"


SOURCES: dict[str, Callable[[Any, Path], Any]] = {
    "name of a table": lambda spark, folder: named(spark),
    "CSV file": lambda spark, folder: csv_of(folder),
    "folder of Parquet files": lambda spark, folder: parquet_of(folder),
    "Arrow table": lambda spark, folder: people(),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_the_same_view(kind, spark, tmp_path):
    source = SOURCES[kind](spark, tmp_path)
    keys = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")
    settings, reported = [spark.conf.get(key, None) for key in keys], []
    options = {"test_key": b"k", "method": "hdpview"}
    here = hv.build(people(), SCHEMA, 1.0, **options).blocks
    options |= {"engine": "spark", "progress": lambda _, text: reported.append(text)}
    there = hv.build(source, SCHEMA, 1.0, **options).blocks
    for name in ("lower", "upper", "depth", "noisy_counts"):
        assert np.array_equal(getattr(here, name), getattr(there, name)), name
    assert {"Counting occupied cells", "Growing blocks"} <= set(reported)
    assert not spark.sparkContext._jsc.getPersistentRDDs()
    assert not [each for each in spark.catalog.listTables("global_temp") if each.name.startswith("hdpview")]
    assert [spark.conf.get(key, None) for key in keys] == settings
    assert type(spark).getActiveSession()._jsparkSession.equals(spark._jsparkSession)


@pytest.mark.filterwarnings(
    "ignore:PySpark does not yet fully support pandas:FutureWarning"
)  # Ibis imports it
def test_an_ibis_table_on_spark(spark):
    table = ibis.pyspark.connect(spark.newSession()).sql(
        "SELECT * FROM VALUES (1, 'ward 2'), (1, 'ward 2') AS t(age, ward)"
    )
    with distributed_counts(table, SCHEMA) as counts:
        assert (counts.exact_n_cells, counts.exact_total) == (1, 2)


def test_a_preview_on_spark_finds_what_one_here_does(spark):
    table = people().append_column("day", pa.array(["31.12.2020"] * 400))
    day = hv.Datetime(name="day", min=date(2020, 1, 1), max=date(2021, 1, 1), every="1mo", nullable=True)
    ages = hv.Category(name="age", values=("young", "old"), nullable=True)
    schema = hv.Schema([ages, SCHEMA.attributes[1], day])
    here, there = hv.preview(table, schema), hv.preview(spark.createDataFrame(table), schema, engine="spark")
    assert there == here
    assert [each.attribute for each in there if each.is_blocking] == ["age", "day"]
    assert "99.99.9999" in str(there[1])
    with pytest.raises(hv.DataError, match="Did you mean 'age'"):
        hv.preview(people(), hv.Schema([hv.Integer(name="aged", min=0, max=9)]), engine="spark")
    assert not [each for each in spark.catalog.listTables("global_temp") if each.name.startswith("hdpview")]


REFUSED: dict[str, tuple[Callable[[Any, Path], Any], dict[str, Any], str]] = {
    "no such table": (lambda spark, _: "nowhere.people", {}, "neither a table nor a file"),
    "no such file": (lambda spark, folder: folder / "none.parquet", {}, "There is no file"),
    "another type": (lambda spark, _: spark.createDataFrame([(b"x", "a")], "age BINARY, ward STRING"), {},
        "cannot be read as integer"),
    "no such column": (lambda spark, _: spark.createDataFrame([(1, "a")], "aged INT, ward STRING"), {},
        "Did you mean 'aged'"),
    "a table elsewhere": (lambda spark, _: ibis.memtable(people()), {}, "not on Spark"),
    "threads": (lambda spark, _: people(), {"threads": 2}, "settings of the active Spark session"),
    "another cluster": (lambda spark, _: people(), {"engine": "spark://nowhere:7077"},
        "A Spark session is already active"),
    "a method that needs cells": (lambda spark, _: people(), {"method": Identity()}, "reads single cells"),
    "another engine": (lambda spark, _: people(), {"engine": "sparc"}, "Did you mean 'spark'"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_refusals_tell_the_way_out(what, spark, tmp_path):
    source, options, words = REFUSED[what]
    with pytest.raises(hv.HdpviewError, match=words):
        hv.build(
            source(spark, tmp_path),
            SCHEMA,
            1.0,
            **{"engine": "spark", "table": "t", "ledger": tmp_path / "l.sqlite", **options},
        )
    assert Ledger(tmp_path / "l.sqlite").spent("t") == 0


def test_an_error_of_spark_quotes_no_value(spark):
    frame = spark.sql(
        "SELECT id AS age, CAST(raise_error(concat('secret of patient ', id)) AS STRING) AS ward FROM "
        "range(5)"
    )
    with pytest.raises(hv.DataError) as refusal:
        hv.build(frame, SCHEMA, 1.0, engine="spark")
    assert "secret" not in str(refusal.value)
    assert refusal.value.__context__ is None
    assert "may quote values" in str(refusal.value)


def test_a_table_that_changes_is_refused(spark):
    parameters = PartitionParameters.choose(PartitionSettings(), exact_epsilon(1), SCHEMA.n_cells)
    key = Randomness.from_test_key(b"k").root_key("partition")
    with distributed_counts(people(), SCHEMA) as counts:
        changed = dataclasses.replace(counts, exact_total=counts.exact_total + 1)
        with pytest.raises(hv.DataError, match="changed while it was being read"):
            SparkEngine().grow(changed, parameters, key)
        with pytest.raises(hv.DataError, match="changed while it was being read"):
            dataclasses.replace(counts, exact_n=counts.exact_n + 1).exact_tables([])
        with pytest.raises(hv.MethodError, match="engine='local'"):
            local_cells(counts)
