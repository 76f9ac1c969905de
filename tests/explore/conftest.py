"""Views to explore: a hospital's, and one whose names try to break out. And who explores them: a client, a
browser, visitors.

A browser is ended with its module: while Playwright runs, nothing else in the process can run an event loop.

Views are built under fixed keys: these tests look at pages, so every run shows the same numbers on them."""

import dataclasses
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from fastapi.testclient import TestClient
from hostile_names import HTML, SCRIPT, SQL
from playwright.sync_api import Browser, expect, sync_playwright
from questions import HOME
from visitor import PATIENCE_MS, Visitor

from hdpview.build import build
from hdpview.demo import hospital_schema, hospital_table
from hdpview.domain import Category, Integer, Schema
from hdpview.explore import child, page_server
from hdpview.explore.notebook import Explorer, explore
from hdpview.explore.page_answers import warm_up
from hdpview.explore.page_server import create_app
from hdpview.pview import PView
from hdpview_bench.gesture import launch_chromium

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session", autouse=True)
def patience() -> Iterator[None]:
    """On a busy machine, answers may take longer than servers allow by the clock."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(child, "SECONDS", 120.0)
        patch.setattr(page_server, "ANSWER_SECONDS", 120.0)
        yield


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    own = tmp_path_factory.getbasetemp()
    return own if worker_id == "master" else own.parent


def _built_once(path: Path, method: str) -> PView:
    """A view of the demo's table, built by the first process that needs it and read by the others. It has the
    manifest that it would have with a key from the system, for pages to show."""
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            view = build(hospital_table(), hospital_schema(), 1.0, method=method, test_key=b"hospital")
            manifest = dataclasses.replace(view.manifest, not_private_because=(), created="2026-01-31")
            PView(manifest, view.parts).save(path)
    return PView.open(path)


@pytest.fixture(scope="session")
def hospital(shared_folder: Path) -> PView:
    view = _built_once(shared_folder / "hospital.pview", "mixture")
    warm_up([view])
    return view


@pytest.fixture(scope="session")
def blocky(shared_folder: Path) -> PView:
    return _built_once(shared_folder / "blocks.pview", "hdpview")


@pytest.fixture(scope="session")
def hostile() -> PView:
    """A view under a test key, thus not private, whose attribute and categories are HTML, script and SQL."""
    schema = Schema([Category(name=HTML, values=[SQL, SCRIPT, "plain"]), Integer(name=SQL, min=0, max=9)])
    rows = {HTML: [SQL] * 600 + [SCRIPT] * 300 + ["plain"] * 100, SQL: [i % 10 for i in range(1000)]}
    return build(pa.table(rows), schema, 5.0, test_key=b"explore")


@pytest.fixture(scope="session")
def explorer(hospital: PView, hostile: PView, blocky: PView) -> Iterator[Explorer]:
    running = explore({"hospital.pview": hospital, "hostile.pview": hostile, "blocks.pview": blocky})
    yield running
    running.stop()


@pytest.fixture(scope="session")
def published(hospital: PView, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("published") / "hospital.html"
    hospital.publish(path)
    return path


@pytest.fixture(scope="module")
def client(hospital: PView, hostile: PView) -> Iterator[TestClient]:
    app = create_app({"hospital.pview": hospital, "hostile.pview": hostile})
    with TestClient(app, HOME, raise_server_exceptions=False) as made:
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        running = launch_chromium(playwright)
        yield running
        running.close()


@pytest.fixture
def enter(browser: Browser) -> Iterator[Callable[..., Visitor]]:
    """Lets somebody in at an address; everybody has left in peace at the end."""
    inside: list[Visitor] = []

    def made(home: str, **how: Any) -> Visitor:
        inside.append(Visitor(browser, home, **how))
        return inside[-1]

    yield made
    for person in inside:
        person.leave()


@pytest.fixture
def visitor(enter: Callable[..., Visitor], explorer: Explorer) -> Visitor:
    return enter(explorer.url)


@pytest.fixture
def reader(enter: Callable[..., Visitor], published: Path) -> Visitor:
    person = enter(published.as_uri(), offline=True)
    person.visit()
    return person
