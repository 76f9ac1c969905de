"""Starting the explorer: from the command line, from a notebook, from a view; and its bench."""

import http.client
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from hdpview.build import build
from hdpview.domain import Category, Integer, Schema
from hdpview_bench.gesture import gesture_row
from hdpview_bench.serve import serve_row


def test_beyond_this_machine_the_command_asks_for_a_token(tmp_path, hospital):
    hospital.save(tmp_path / "a.pview")
    command = [*f"{sys.executable} -m hdpview explore --no-open --port 0".split(), str(tmp_path / "a.pview")]
    done = subprocess.run([*command, "--host", "0.0.0.0"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "--token" in done.stderr
    twice = subprocess.run([*command, str(tmp_path / "a.pview")], capture_output=True, text=True, timeout=60)
    assert twice.returncode == 2
    assert "Rename one" in twice.stderr


def test_a_notebook_shows_a_view_in_a_frame(explorer, hospital):
    assert explorer.url in explorer._repr_html_()
    running = hospital.explore()
    address = urlsplit(running.url)
    assert address.hostname == "127.0.0.1"
    connection = http.client.HTTPConnection(address.netloc, timeout=60)
    connection.request("GET", "/")
    answer = connection.getresponse()
    assert b"hdpview" in answer.read()
    assert "http://localhost:*" in (answer.getheader("content-security-policy") or "")
    connection.close()
    running.stop()
    with pytest.raises(ConnectionRefusedError):
        http.client.HTTPConnection(address.netloc, timeout=60).request("GET", "/")


def test_many_people_are_measured(tmp_path, hospital):
    hospital.save(tmp_path / "a.pview")
    row = serve_row(tmp_path / "a.pview", users=3, seconds=2)
    assert row["requests"] > 0
    assert row["errors"] == 0
    assert 0 < row["p50_ms"] <= row["p95_ms"] <= row["p99_ms"]
    assert all(
        row[f"server_rss_{when}_mb"] is None or row[f"server_rss_{when}_mb"] > 10
        for when in ("before", "halfway", "after")
    )


@pytest.fixture
def small(tmp_path: Path) -> Path:
    schema = Schema([Integer(name="hour", min=0, max=5), Category(name="kind", values=["a", "b"])])
    rows = {"hour": [i % 6 for i in range(600)], "kind": ["ab"[i % 6 < 3] for i in range(600)]}
    build(pa.table(rows), schema, 5.0).save(tmp_path / "small.pview")
    return tmp_path / "small.pview"


def test_a_gesture_is_measured_in_a_browser(small):
    row = gesture_row(small)
    assert (row["gestures"], row["moves"]) == (1, 4)
    assert 0 < row["redrawn_p50_ms"] <= row["redrawn_p95_ms"] <= row["redrawn_max_ms"]
    assert row["redrawn_p50_ms"] < row["painted_p50_ms"] <= row["painted_p95_ms"]
