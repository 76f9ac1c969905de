"""The commands that serve: `hdpview serve` and `hdpview explore --postgres`."""

import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

import command_line
from hdpview.pview import PView


@pytest.fixture(scope="module")
def view_file(odd_view: PView, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("served") / "odd.pview"
    odd_view.save(path)
    return path


@contextmanager
def running(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "hdpview", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
    assert "Traceback" not in errors


def port_in(line: str, scheme: str) -> int:
    match = re.search(rf"{scheme}://127\.0\.0\.1:(\d+)/", line)
    assert match is not None, line
    return int(match[1])


def read_when_ready(address: str) -> bytes:
    """The page says where it is a moment before it listens."""
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                content: bytes = answer.read()
                return content
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def test_serve_answers_until_it_is_ended(view_file, tmp_path):
    secret = tmp_path / "password"
    secret.write_text("pass word\n")
    secret.chmod(0o600)
    with running("serve", view_file, "--port", 0, "--password-file", secret) as process:
        assert process.stdout is not None
        port = port_in(process.stdout.readline(), "postgresql")
        with psycopg.connect(
            host="127.0.0.1", port=port, user="me", dbname="hdpview", password="pass word"
        ) as connection:
            row = connection.execute("SELECT count(*) FROM odd").fetchone()
        assert row[0] == pytest.approx(400, abs=40)


def test_explore_serves_the_page_and_the_database(view_file):
    command = "explore", view_file, "--no-open", "--port", 0, "--postgres", "--postgres-port", 0
    with running(*command) as process:
        database = port_in(process.stdout.readline(), "postgresql")
        page = port_in(process.stdout.readline(), "http")
        with psycopg.connect(f"postgresql://me@127.0.0.1:{database}/hdpview") as connection:
            assert connection.execute("SELECT count(*) > 300 FROM odd").fetchone() == (True,)
        assert b"odd.pview" in read_when_ready(f"http://127.0.0.1:{page}/api/views")


def test_what_is_missing_is_named(view_file, tmp_path):
    (tmp_path / "empty").touch()
    for words, expected in (
        (("--host", "0.0.0.0"), "--password-file"),
        (("--postgres", "--tls-cert", view_file), "--tls-key"),
        (("--postgres", "--password-file", tmp_path / "empty"), "is empty"),
        (("--postgres", "--password-file", tmp_path / "no"), "Cannot read the password"),
        (("--postgres", "--tls-cert", view_file, "--tls-key", view_file), "belong together"),
    ):
        done = command_line.run("serve", view_file, *words)
        assert (done.returncode, expected in done.stderr) == (2, True), done.stderr
