"""Starting the explorer: from the command line, from a notebook, from a view; and its bench."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from hdpview.build import build
from hdpview.domain import Category, Integer, Schema
from hdpview.errors import HdpviewError
from hdpview.explore import notebook
from hdpview.pview import PView
from hdpview_bench.gesture import gesture_row
from hdpview_bench.serve import serve_row


def test_beyond_this_machine_the_command_asks_for_a_token(tmp_path: Path, hospital: PView) -> None:
    """Listening on another address than this machine's own is refused without a token; so are views that
    share a name.
    """
    hospital.save(tmp_path / "a.pview")
    command = [*f"{sys.executable} -m hdpview explore --no-open --port 0".split(), str(tmp_path / "a.pview")]
    done = subprocess.run([*command, "--host", "0.0.0.0"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "--token" in done.stderr
    twice = subprocess.run([*command, str(tmp_path / "a.pview")], capture_output=True, text=True, timeout=60)
    assert twice.returncode == 2
    assert "Rename one" in twice.stderr


def test_a_notebook_shows_it_in_a_frame(explorer: notebook.Explorer, hospital: PView) -> None:
    """In a notebook the explorer is a frame that local notebooks may show; stopped, it answers no more."""
    assert explorer.url in explorer._repr_html_()
    running = notebook.explore(hospital)
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


def test_a_view_opens_the_explorer_on_itself(hospital: PView) -> None:
    """view.explore() serves the page and its answers on this machine until it is stopped."""
    running = hospital.explore()
    try:
        with urllib.request.urlopen(f"{running.url}api/views") as answer:
            assert json.load(answer)[0]["n_components"] == hospital.n_components
    finally:
        running.stop()


def test_many_people_are_measured(tmp_path: Path, hospital: PView) -> None:
    """The bench lets people brush against a server of its own and reports requests without errors, times and
    memory.
    """
    hospital.save(tmp_path / "a.pview")
    row = serve_row(tmp_path / "a.pview", users=3, seconds=2)
    assert row["requests"] > 10
    assert row["errors"] == 0
    assert 0 < row["p50_ms"] <= row["p95_ms"] <= row["p99_ms"]
    assert all(
        row[f"server_rss_{when}_mb"] is None or row[f"server_rss_{when}_mb"] > 10
        for when in ("before", "halfway", "after")
    )


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A view with one range to draw, of six values, and one other chart."""
    schema = Schema([Integer(name="hour", min=0, max=5), Category(name="kind", values=["a", "b"])])
    rows = {"hour": [i % 6 for i in range(600)], "kind": ["ab"[i % 6 < 3] for i in range(600)]}
    build(pa.table(rows), schema, 5.0).save(tmp_path / "small.pview")
    return tmp_path / "small.pview"


# In a browser of its own: a second try, as conftest.py gives all tests in a browser.
@pytest.mark.flaky(reruns=1)
def test_a_gesture_is_measured_in_a_browser(small: Path) -> None:
    """Every move of the mouse is measured, from the move to the other chart redrawn to the redrawn chart
    painted.
    """
    row = gesture_row(small)
    assert (row["gestures"], row["moves"]) == (1, 4)
    assert 0 < row["redrawn_p50_ms"] <= row["redrawn_p95_ms"] <= row["redrawn_max_ms"]
    assert row["redrawn_p50_ms"] < row["painted_p50_ms"] <= row["painted_p95_ms"]


def test_a_gesture_without_a_browser_tells_the_way_out(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Chromium or Playwright is missing, or there is nothing to draw, a sentence says what to do."""
    monkeypatch.setenv("HDPVIEW_CHROMIUM", str(tmp_path / "nothing"))
    with pytest.raises(HdpviewError, match="playwright install chromium"):
        gesture_row(small)
    monkeypatch.setitem(sys.modules, "playwright.sync_api", None)
    with pytest.raises(HdpviewError, match="pip install playwright"):
        gesture_row(small)
    build(pa.table({"kind": ["a"]}), Schema([Category(name="kind", values=["a", "b"])]), 5.0).save(
        tmp_path / "flat.pview"
    )
    with pytest.raises(HdpviewError, match="no range to draw"):
        gesture_row(tmp_path / "flat.pview")
