"""Views to explore: a hospital's, and one whose names try to break out."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hostile_names import HTML, SCRIPT, SQL

from hdpview.demo import hospital_schema, hospital_table
from hdpview.domain import Category, Integer, Schema
from hdpview.door import build
from hdpview.explore.notebook import Explorer, explore
from hdpview.pview import PView


@pytest.fixture(scope="session")
def hospital() -> PView:
    """A private view of the demo's table."""
    return build(hospital_table(), hospital_schema(), 1.0)


@pytest.fixture(scope="session")
def hostile() -> PView:
    """A view under a test key, thus not private, whose attribute and categories are HTML, script and SQL."""
    schema = Schema([Category(name=HTML, values=[SQL, SCRIPT, "plain"]), Integer(name=SQL, min=0, max=9)])
    rows = {HTML: [SQL] * 600 + [SCRIPT] * 300 + ["plain"] * 100, SQL: [i % 10 for i in range(1000)]}
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
