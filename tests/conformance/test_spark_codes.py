"""The same awkward columns give the same code for each row on Spark."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from test_sources_agree import ATTRIBUTES, N_ROWS, arrow_table, expected, padded

from hdpview.domain import Integer, Schema
from hdpview.spark.counts import distributed_counts
from hdpview.spark.tasks import cells_in
from sparks import ONE_WORKER

pytestmark = ONE_WORKER


def codes_on_spark(frame: Any) -> NDArray[np.int64]:
    schema = Schema([Integer(name="row", min=0, max=N_ROWS - 1), *ATTRIBUTES])
    with distributed_counts(frame, schema) as counts:
        chunks = counts.exact_chunks.collect()
        parts = list(cells_in(chunks, counts.layout))
    codes = np.concatenate([codes for codes, _ in parts]).astype(np.int64)
    assert (np.concatenate([counts for _, counts in parts]) == 1).all()
    ordered = codes[np.argsort(codes[:, 0])]
    assert ordered[:, 0].tolist() == list(range(N_ROWS))
    return ordered[:, 1:]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_spark_gives_the_same_codes(zone, spark):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    # In another zone, Spark would read a moment without a zone as one of the session's.
    frame = spark.createDataFrame(arrow_table())
    try:
        spark.conf.set("spark.sql.session.timeZone", zone)
        assert codes_on_spark(frame).tolist() == expected()
        assert spark.conf.get("spark.sql.session.timeZone") == zone
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_spark_agrees_on_text(spark):
    texts = {
        name: pa.array([None if cell is None else str(cell) for cell in cells], pa.string())
        for name, cells in padded().items()
    }
    assert codes_on_spark(spark.createDataFrame(pa.table(texts))).tolist() == expected()
