"""Views to explore: a hospital's, and one whose names try to break out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from hdpview.demo import hospital_schema, hospital_table
from hdpview.domain import Category, Integer, Schema
from hdpview.door import build
from hdpview.explore.notebook import Explorer, explore
from hdpview.pview import PView

HOSTILE = "<img src=x onerror=alert(1)>"
INJECTION = '"; DROP TABLE view; --'
QUOTE = "it's </script><script>alert(2)</script>"


@pytest.fixture(scope="session")
def hospital() -> PView:
    """A private view of the demo's table."""
    return build(hospital_table(), hospital_schema(), 1.0)


@pytest.fixture(scope="session")
def hostile() -> PView:
    """A view under a test key, thus not private, whose attribute and categories are HTML, script and SQL."""
    schema = Schema([Category(name=HOSTILE, values=[INJECTION, QUOTE, "plain"]), Integer(name=INJECTION, min=0, max=9)])
    rows = {HOSTILE: [INJECTION] * 600 + [QUOTE] * 300 + ["plain"] * 100, INJECTION: [i % 10 for i in range(1000)]}
    return build(pa.table(rows), schema, 5.0, test_key=b"explore")


@pytest.fixture(scope="session")
def explorer(hospital: PView, hostile: PView) -> Iterator[Explorer]:
    """The explorer, serving both views on a free port."""
    running = explore({"hospital.pview": hospital, "hostile.pview": hostile})
    yield running
    running.stop()


@pytest.fixture(scope="session")
def chromium() -> Path:
    """Debian's Chromium, or the browser that the environment names."""
    for name in (os.environ.get("HDPVIEW_CHROMIUM"), "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"):
        if name and Path(name).exists():
            return Path(name)
    pytest.fail("Chromium is not installed; these tests drive a real browser. Run `make test`, which installs it.")
