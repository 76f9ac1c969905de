"""A browser for the curator's page. It is ended with its module, as in tests/explore."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from hdpview_bench.gesture import launch_chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        running = launch_chromium(playwright)
        yield running
        running.close()
