"""A stand-alone Spark cluster on loopback: a master and workers with one core each, in separate processes."""

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

from hdpview.errors import MethodError
from hdpview.spark.session import java_home

_START_SECONDS = 120
_STOP_SECONDS = 30


class Standalone:
    """A running cluster. `address` is what its users connect to."""

    def __init__(self, home: Path, n_workers: int = 2, worker_memory: str = "1g") -> None:
        self.home = home
        self.environment = loopback_environment(home)
        self.processes: list[subprocess.Popen[bytes]] = []
        self._start("master", "org.apache.spark.deploy.master.Master")
        self.address = self._wait("master", r"Starting Spark master at (spark://\S+)", self.processes[0])
        for number in range(n_workers):
            room = ["--cores", "1", "--memory", worker_memory, "--work-dir", str(home / f"worker-{number}")]
            self._start(f"worker-{number}", "org.apache.spark.deploy.worker.Worker", *room, self.address)
        for number in range(n_workers):
            self._wait(f"worker-{number}", "(Successfully registered)", self.workers[number])

    @property
    def workers(self) -> list[subprocess.Popen[bytes]]:
        return self.processes[1:]

    def lose(self, worker: int) -> int:
        """Kill a worker and its executors at once, as when a machine loses power. Returns the number of
        killed executors.
        """
        lost = self.workers[worker]
        started = children_of(lost.pid)
        for pid in (lost.pid, *started):
            os.kill(pid, signal.SIGKILL)
        lost.wait()
        return len(started)

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait(_STOP_SECONDS)

    def _start(self, name: str, main: str, *words: str) -> None:
        import pyspark

        log, launcher = self.home / f"{name}.log", Path(pyspark.__file__).parent / "bin" / "spark-class"
        command = [str(launcher), main, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *words]
        with log.open("wb") as output:
            process = subprocess.Popen(
                command, stdout=output, stderr=output, env=self.environment, cwd=self.home
            )
        self.processes.append(process)

    def _wait(self, name: str, sign: str, process: subprocess.Popen[bytes]) -> str:
        """Wait until a log matches the pattern. Returns the first group of the match."""
        log, deadline = self.home / f"{name}.log", time.monotonic() + _START_SECONDS
        while (match := re.search(sign, log.read_text())) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise MethodError(
                    f"The {name} of the Spark cluster did not start. Its log: {log.read_text()[-2000:]}"
                )
            time.sleep(0.05)
        return match[1]


def loopback_environment(home: Path) -> dict[str, str]:
    """Environment for all parts of a local cluster: loopback addresses, Java, and the interpreter that runs
    tasks.
    """
    return {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_HOME": java_home(home),
    }


def children_of(pid: int) -> list[int]:
    """Child processes of a process (on Linux)."""
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]


@contextmanager
def standalone_cluster(home: Path, n_workers: int = 2, worker_memory: str = "1g") -> Iterator[Standalone]:
    """A cluster that lives as long as the block; its logs and work are kept in `home`."""
    cluster = Standalone(home, n_workers, worker_memory)
    try:
        yield cluster
    finally:
        cluster.stop()
