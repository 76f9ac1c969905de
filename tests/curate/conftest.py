"""A browser for the curator's page. It is ended with its module, as in tests/explore."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from hdpview_bench.gesture import launch_chromium

# For a busy machine.
expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        running = launch_chromium(playwright)
        yield running
        running.close()
