"""Fixtures of several suites: a private PostgreSQL server, Spark, repeatable noise, codes of rows."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import psycopg
import pytest
from numpy.typing import NDArray

from hdpview.counts.ingest import ReadOptions, read_counts
from hdpview.domain import Attribute, Integer, Schema
from repeatable import repeatable_noise
from sparks import spark  # noqa: F401 a fixture

_START_SECONDS = 120

# A shell starts background programs with Ctrl-C ignored, and programs that tests interrupt would inherit
# this.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _binary(name: str) -> str:
    """Path of a PostgreSQL program: on PATH, or the newest version in Debian's folder."""
    debian = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[4]))
    found = shutil.which(name) or (debian[-1] if debian else None)
    if found is None:
        pytest.fail(
            f"PostgreSQL's {name!r} is not installed; these tests need a real server. Run `make test`, "
            "which installs it."
        )
    return os.path.realpath(found)


def _server_user() -> str | None:
    """The user that runs PostgreSQL, which refuses to run as root: then `postgres`, otherwise the current
    user."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres").pw_name
    except KeyError:
        pytest.fail(
            "PostgreSQL refuses to run as root and there is no user 'postgres'. Run `make test`, which "
            "installs it."
        )


def _wait_until_ready(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"PostgreSQL did not start:\n{log.read_text()}")
            time.sleep(0.05)
        else:
            return


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """Address of an empty database on a server of this test session, reachable only by its socket."""
    user, initdb, postgres = _server_user(), _binary("initdb"), _binary("postgres")
    home = Path(tempfile.mkdtemp(prefix="hdpview-pg-", dir="/tmp"))  # socket paths have to be short
    try:
        if user is not None:
            shutil.chown(home, user)
        settings = ["--auth=trust", "--username=tester", "--encoding=UTF8", "--locale=C", "--no-sync"]
        made = subprocess.run(
            [initdb, "-D", home / "data", *settings], user=user, cwd=home, capture_output=True
        )
        if made.returncode:
            pytest.fail(f"initdb failed:\n{made.stderr.decode(errors='replace')}")
        log = home / "log"
        command = [
            postgres, "-D", f"{home}/data", "-k", str(home), "-c", "listen_addresses=", "-c", "fsync=off",
        ]  # fmt: skip
        with log.open("wb") as output:
            server = subprocess.Popen(command, user=user, cwd=home, stdout=output, stderr=output)
        try:
            url = f"postgres://tester@/postgres?host={home}"
            _wait_until_ready(server, url, log)
            yield url
        finally:
            server.send_signal(signal.SIGINT)  # a fast shutdown, which does not wait for clients
            server.wait(timeout=_START_SECONDS)
    finally:
        shutil.rmtree(home, ignore_errors=True)


class RowCodes(Protocol):
    """Codes of each row of a table that numbers its rows in a column `row`, from 0."""

    def __call__(self, source: Any, *attributes: Attribute, n_rows: int) -> NDArray[np.int64]: ...


@pytest.fixture(scope="session")
def row_codes() -> RowCodes:
    """Encode a table and return the codes of each row, shape (n_rows, n_attributes). Every row must appear
    once."""

    def encode_rows(source: Any, *attributes: Attribute, n_rows: int) -> NDArray[np.int64]:
        schema = Schema([Integer(name="row", min=0, max=max(n_rows - 1, 0)), *attributes])
        counts = read_counts(source, schema, ReadOptions(threads=2))
        order = np.argsort(counts.exact_codes[:, 0], kind="stable")
        assert counts.exact_codes[order, 0].tolist() == list(range(n_rows))
        assert (counts.exact_counts == 1).all()
        return counts.exact_codes[order, 1:].astype(np.int64)

    return encode_rows


@pytest.fixture
def same_noise() -> Iterator[None]:
    """Repeatable noise, for tests whose subject is not noise."""
    with repeatable_noise():
        yield
