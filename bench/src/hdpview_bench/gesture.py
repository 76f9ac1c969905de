"""Latency of brushing: the time from a mouse move until all other charts are redrawn, in a real browser.

Playwright drives headless Chromium: it opens the explorer and draws a range over every ordered attribute.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hdpview.domain import Ordered
from hdpview.errors import HdpviewError
from hdpview.pview import PView
from hdpview_bench.serve import BETWEEN_MOVES, percentiles, running_explorer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Playwright

_MOST_MOVES = 20  # number of moves of one gesture
_LEAST_BINS = 4  # minimum number of bins of an attribute for a gesture
_DRAWN = (0.1, 0.9)  # shares of a chart's width between which the range is drawn
_WINDOW = {"width": 1400, "height": 1000}
# Prefer the headless shell, which renders the same pages with half the work.
_BROWSERS = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
)

# Notes for each move that asked for something: when it happened, when the last of the other charts changed,
# and when that was painted.
_WATCH = """(chart) => {
  window.moves = [];
  const card = document.querySelectorAll("#charts article")[chart];
  const svg = card.querySelector("svg");
  svg.addEventListener("pointermove", (event) => window.moves.push({ at: event.timeStamp }), true);
  new MutationObserver((changes) => {
    const move = window.moves.at(-1);
    if (!move || changes.every((change) => card.contains(change.target))) return;
    move.redrawn = performance.now();
    requestAnimationFrame(() => { // a message sent from a frame arrives when the frame is painted
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => { move.painted = performance.now(); };
      port2.postMessage(null);
    });
  }).observe(document.getElementById("charts"),
    { subtree: true, childList: true, attributes: true, characterData: true });
}"""


def gesture_row(view: Path) -> dict[str, Any]:
    """Draw a range over every ordered attribute. Returns milliseconds from a move until the other charts are
    redrawn, and painted.
    """
    schema = PView.open(view).schema
    n_bins = {chart: len(each.edges) - 1 for chart, each in enumerate(schema) if isinstance(each, Ordered)}
    brushed = [chart for chart in n_bins if n_bins[chart] >= _LEAST_BINS]
    if not brushed or len(schema) == 1:
        raise HdpviewError(
            "This view has no range to draw, or no second chart. Measure another view, or name none to use "
            "the demo's."
        )
    driver = _playwright()
    with running_explorer(view) as (port, _), driver as playwright:
        browser = launch_chromium(playwright)
        moves = [move for chart in brushed for move in _moves_of_gesture(browser, port, chart, n_bins[chart])]
        browser.close()
    redrawn, painted = ([move[key] - move["at"] for move in moves] for key in ("redrawn", "painted"))
    return {
        "gestures": len(brushed),
        "moves": len(moves),
        **percentiles("redrawn_", redrawn, (50, 95)),
        "redrawn_max_ms": round(max(redrawn), 1),
        **percentiles("painted_", painted, (50, 95)),
    }


def _moves_of_gesture(browser: Browser, port: int, chart: int, n_bins: int) -> list[dict[str, float]]:
    """Times of the moves of one gesture on a fresh page, after a warm-up gesture from the other end."""
    page = browser.new_page(viewport=_WINDOW)  # type: ignore[arg-type]
    page.goto(f"http://127.0.0.1:{port}/")
    page.wait_for_selector("body[data-shown]")
    page.evaluate("document.getElementById('show-all').click()")  # also on pages with many attributes
    page.wait_for_selector("body[data-shown]")
    n_moves = min(_MOST_MOVES, int(n_bins * (_DRAWN[1] - _DRAWN[0])))
    _draw(page, chart, _DRAWN[1], _DRAWN[0], n_moves)
    page.click("#reset")
    page.wait_for_selector("body[data-shown=everything]")
    page.evaluate(_WATCH, chart)
    _draw(page, chart, _DRAWN[0], _DRAWN[1], n_moves)
    moves: list[dict[str, float]] = page.evaluate("window.moves.filter((move) => move.painted)")
    page.close()
    return moves


def _draw(page: Page, chart: int, first: float, last: float, n_moves: int) -> None:
    """Drag over a chart between two shares of its width, at the pace of a hand."""
    svg = page.locator("#charts article").nth(chart).locator("svg")
    svg.evaluate("one => one.scrollIntoView({ block: 'center' })")
    box = svg.bounding_box()
    assert box is not None
    start, *path = (box["x"] + box["width"] * np.linspace(first, last, n_moves + 1)).tolist()
    y = box["y"] + box["height"] / 2
    page.mouse.move(start, y)
    page.mouse.down()
    for x in path:
        page.mouse.move(x, y)
        page.wait_for_timeout(1000 * BETWEEN_MOVES)
        # Otherwise a late answer would be attributed to the next move.
        page.wait_for_selector("body[data-shown]")
    page.mouse.up()
    page.wait_for_selector("body[data-shown]:not([data-shown=everything])")


def _playwright() -> Any:
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        raise HdpviewError(
            "Measuring a gesture needs Playwright, which drives a browser: pip install playwright"
        ) from None
    return sync_playwright()


def launch_chromium(playwright: Playwright) -> Browser:
    """The Chromium that HDPVIEW_CHROMIUM names, else the system's, else Playwright's own."""
    from playwright.sync_api import Error

    wanted = os.environ.get("HDPVIEW_CHROMIUM") or next(filter(None, map(shutil.which, _BROWSERS)), None)
    try:
        return playwright.chromium.launch(executable_path=wanted)
    except Error as problem:
        told = str(problem).strip().splitlines()[0][:200]
        raise HdpviewError(
            f"Chromium does not start ({told}). Install it (playwright install chromium, or your system's "
            "package), or set HDPVIEW_CHROMIUM to its path."
        ) from None
