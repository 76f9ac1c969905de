"""A browser for the curator's page. It is ended with its module, as in tests/explore."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from hdpview_bench.gesture import launch_chromium

# For a busy machine.
expect.set_options(timeout=60_000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests in a browser are tried a second time, for the reason that tests/explore/conftest.py gives."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        running = launch_chromium(playwright)
        yield running
        running.close()
