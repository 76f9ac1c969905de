"""Spark for tests: one session on two cores of this machine, shared by all tests of a process."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from hdpview.spark.session import spark_session

ONE_WORKER = pytest.mark.xdist_group("spark")  # a process has only one session, so these tests share it
# Jobs of a few rows: Java's second compiler, its parallel collector and 200 partitions cost more than they
# save. All Java processes of tests read it, also those of a cluster.
os.environ["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
os.environ["PYSPARK_SUBMIT_ARGS"] = "--conf spark.sql.shuffle.partitions=2 pyspark-shell"


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    with spark_session(threads=2, memory="1GB") as session:
        yield session
