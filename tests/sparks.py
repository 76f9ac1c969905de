"""Spark for tests: a session on two cores of this machine, and a stand-alone cluster of a master and two workers on loopback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
import pytest

from hdpview.counts.spark_session import spark_session

ONE_WORKER = pytest.mark.xdist_group("spark")  # a process can hold one session, so these tests share one
_START_SECONDS = 120


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A Spark session on two cores that lives as long as the test session."""
    with spark_session(threads=2, memory="1GB") as session:
        session.conf.set("spark.sql.shuffle.partitions", "4")
        yield session


class Cluster:
    """A stand-alone Spark cluster: every part is a process of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.workers: list[subprocess.Popen[bytes]] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self.master = self._started("master", r"Starting Spark master at (spark://\S+)", "org.apache.spark.deploy.master.Master")
        for name in ("first", "second"):
            self._started(name, "Successfully registered with master", "org.apache.spark.deploy.worker.Worker", "--cores", "1",
                          "--memory", "1g", "--work-dir", str(home / name), self.master)  # fmt: skip
            self.workers.append(self.processes[-1])

    def _started(self, name: str, sign: str, *command: str) -> str:
        """Start a part and wait until its log shows the sign; returns what the sign holds."""
        log = self.home / f"{name}.log"
        launcher = Path(pyspark.__file__).parent / "bin" / "spark-class"
        address = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        with log.open("wb") as output:
            words = [str(launcher), command[0], *address, *command[1:]]
            self.processes.append(subprocess.Popen(words, stdout=output, stderr=output, env=environment(), cwd=self.home))
        deadline = time.monotonic() + _START_SECONDS
        while not (found := re.search(sign, log.read_text())):
            if self.processes[-1].poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"Spark's {name} did not start:\n{log.read_text()}")
            time.sleep(0.05)
        return found[found.re.groups]

    def lose(self, worker: int) -> int:
        """Kill a worker and its executors at once, as when a machine loses power; returns how many executors those were."""
        executors = children_of(self.workers[worker].pid)
        for pid in (self.workers[worker].pid, *executors):
            os.kill(pid, signal.SIGKILL)
        self.workers[worker].wait()
        return len(executors)

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait(timeout=30)


def environment() -> dict[str, str]:
    """What parts of a cluster on this machine need to know: to stay on loopback, and which interpreter runs tasks."""
    return {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}


def children_of(pid: int) -> list[int]:
    """Processes that a process has started."""
    return [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]


@contextmanager
def cluster_in(home: Path) -> Iterator[Cluster]:
    cluster = None
    try:
        cluster = Cluster(home)
        yield cluster
    finally:
        if cluster is not None:
            cluster.stop()
