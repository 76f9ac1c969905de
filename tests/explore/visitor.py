"""A person at the page in a real browser, and what the tests of the page ask of it. Where HDPVIEW_PICTURES is
set, screenshots go to tests/explore/artefacts/.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, Route

from hdpview.explore.notebook import Explorer
from hdpview.pview import PView

ARTEFACTS = Path(__file__).parent / "artefacts"
PATIENCE_MS = 30_000  # with what a page is waited for, on a machine that does much else


class Visitor:
    """A person at the page, who also notes what the console says and where requests go."""

    def __init__(
        self,
        browser: Browser,
        explorer: Explorer,
        width: int = 1400,
        height: int = 1000,
        scheme: str = "light",
    ) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, accept_downloads=True
        )  # type: ignore[arg-type]
        self.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=explorer.url)
        self.context.set_default_timeout(PATIENCE_MS)
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.requested: set[str] = set()
        self.home = explorer.url
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda problem: self.complaints.append(str(problem)))
        self.page.on(
            "dialog", lambda dialog: (self.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss())
        )
        self.page.on("request", lambda request: self.requested.add(urlsplit(request.url).netloc or "inline"))

    def visit(self, view: str = "hospital.pview") -> Page:
        self.page.goto(f"{self.home}#view={view}")
        self.page.wait_for_selector("body[data-shown]")
        unfold(self.page)
        return self.page

    def leave(self) -> None:
        self.context.close()
        assert not self.complaints, self.complaints
        assert self.requested <= {urlsplit(self.home).netloc, "inline"}


def unfold(page: Page) -> None:
    """Open the field of the filter, which is folded while idle, and put the first steps away."""
    page.evaluate("document.getElementById('sql').open = true")
    page.evaluate("document.getElementById('tour').hidden = true")


# A filter that only the server reads: OR between attributes.
BY_SERVER = "age < 90 OR sex = 'Male'"


def run(page: Page, where: str) -> None:
    """Run a condition as text."""
    page.evaluate("document.getElementById('sql').open = true")
    page.locator("#where").fill(where)
    page.locator("#run").click()
    page.wait_for_selector("body[data-shown]")


class Held:
    """Requests that do not reach the server until they are let go, in the order in which they came."""

    def __init__(self, page: Page, pattern: str) -> None:
        self.page, self.pattern = page, pattern
        self.routes: list[Route] = []
        self._is_over = False
        page.route(pattern, self._meet)

    def _meet(self, route: Route) -> None:
        if self._is_over:
            route.continue_()
        else:
            self.routes.append(route)

    def wait(self) -> None:
        """Until there is one."""
        for _ in range(PATIENCE_MS // 10):
            if self.routes:
                return
            # Events of the browser are only seen while something is asked of it.
            self.page.wait_for_timeout(10)
        raise AssertionError(f"no request for {self.pattern}")

    def let_one_go(self) -> None:
        self.wait()
        self.routes.pop(0).continue_()

    def let_all_go(self) -> None:
        """These, and those that come from now on."""
        self._is_over = True
        while self.routes:
            self.routes.pop(0).continue_()
        self.page.unroute(self.pattern)


def card(page: Page, name: str) -> Locator:
    return page.locator(f"[data-attribute={json.dumps(name)}]")


def bar(page: Page, name: str, code: int) -> Locator:
    return card(page, name).locator(f'[data-code="{code}"]')


def shows(page: Page, *parts: str) -> str:
    """Wait until the page shows a filter that has these parts; its SQL."""
    selector = "body" + "".join(f"[data-shown*={json.dumps(part)}]" for part in parts)
    page.wait_for_selector(selector, state="attached")
    return page.locator("#where").input_value()


def brush(page: Page, name: str, first: float, last: float) -> None:
    """Drag over a chart, between two shares of its width."""
    card(page, name).scroll_into_view_if_needed()
    box = card(page, name).locator("svg").bounding_box()
    assert box is not None
    # The bars begin beside the axis.
    start = bar(page, name, 0).bounding_box()
    assert start is not None
    left, width = start["x"], box["x"] + box["width"] - start["x"]
    page.mouse.move(left + width * first, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(left + width * last, box["y"] + 60, steps=4)
    page.mouse.up()


_DRAWN = """(card) => {
  const isRows = card.querySelector(".rows") !== null;
  const side = (hit, name) => Number(hit.getAttribute(name));
  const hits = [...card.querySelectorAll(".hit")];
  return [...card.querySelectorAll("path.bar")].flatMap((path) =>
    [...path.getAttribute("d").matchAll(/M([-\\d.]+) ([-\\d.]+)h([\\d.]+)v([\\d.]+)/g)].map((found) => {
      const [x, y, width, height] = found.slice(1).map(Number);
      const at = isRows ? y + height / 2 : x + width / 2;
      const [start, size] = isRows ? ["y", "height"] : ["x", "width"];
      const hit = hits.find((each) => at >= side(each, start) && at < side(each, start) + side(each, size));
      return [hit.dataset.code, isRows ? width : height, path.getAttribute("class")];
    }));
}"""


def drawn_bars(page: Page, name: str) -> dict[int, tuple[float, str]]:
    """Length and classes of every bar of a chart that is drawn, by code."""
    found = card(page, name).evaluate(_DRAWN)
    return {int(code): (float(length), classes) for code, length, classes in found}


def numbers_of(page: Page, name: str) -> list[str]:
    """The numbers beside the rows of a chart."""
    return card(page, name).locator("text.number").all_text_contents()


def under(page: Page, name: str) -> list[str]:
    """The texts under the bars of a chart, from left to right."""
    texts = card(page, name).locator("text.under")
    places = texts.evaluate_all("all => all.map((one) => [Number(one.getAttribute('x')), one.textContent])")
    return [text for _, text in sorted(places)]


def saves(page: Page, what: str, kind: str) -> None:
    """Ask for a file."""
    opener = f"Save {what}" if what.startswith("the ") else f"More on {what}"
    page.get_by_label(opener, exact=True).click()
    page.get_by_label(f"Save {what} as {kind}", exact=True).click()


def shown_count(page: Page) -> float:
    return float(page.locator("#count").get_attribute("data-value") or "nan")


def number(view: PView, where: str) -> float:
    """The count by SQL."""
    return float(
        view.sql(f"SELECT COUNT(*) AS n FROM view{f' WHERE {where}' if where else ''}", as_="pyarrow")["n"][
            0
        ].as_py()
    )


def agrees(page: Page, view: PView, own: dict[str, str | None] | None = None) -> None:
    """The count and every bar of every chart are the view's answers to the SQL in the text field."""
    where = page.locator("#where").input_value()
    assert shown_count(page) == pytest.approx(number(view, where))
    for attribute in view.schema:
        under = (own or {}).get(attribute.name, where or None)
        table = view.histogram(attribute.name, under, as_="pyarrow")
        expected = zip(*(table[name].to_pylist() for name in table.column_names[-3:]), strict=True)
        labels = (
            card(page, attribute.name)
            .locator("[data-code]")
            .evaluate_all("all => all.map((one) => one.getAttribute('aria-label'))")
        )
        for label, (value, lower, upper) in zip(labels, expected, strict=True):
            told = label.rsplit(": about ", 1)[1].split(" (")[0]
            assert float(told.replace(",", "")) == pytest.approx(value, abs=0.51 * grain(lower, upper))


def grain(lower: float, upper: float) -> float:
    """To what the page rounds a count with this interval: two digits of its half width are left."""
    half = (upper - lower) / 2
    return max(10.0 ** (math.floor(math.log10(half)) - 1), 1.0) if half > 0 else 1.0


def picture(page: Page, name: str, full: bool = True) -> None:
    if os.environ.get("HDPVIEW_PICTURES"):
        ARTEFACTS.mkdir(exist_ok=True)
        page.screenshot(path=ARTEFACTS / f"{name}.png", full_page=full)
