"""A person at the page in a real browser, for tests."""

import json
import math
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, Route

from hdpview.pview import PView

PATIENCE_MS = 30_000  # patience with a page on a busy machine
# A filter that only the server reads: OR between attributes.
BY_SERVER = "age < 90 OR sex = 'Male'"


class Visitor:
    """A person at the page, who also records console messages and requests."""

    def __init__(
        self, browser: Browser, home: str, width: int = 1400, height: int = 1000, **context: Any
    ) -> None:
        size = {"width": width, "height": height}
        self.context = browser.new_context(viewport=size, accept_downloads=True, **context)
        self.context.set_default_timeout(PATIENCE_MS)
        if not home.startswith("file:"):
            self.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=home)
        self.home, self.page = home, self.context.new_page()
        self.complaints: list[str] = []
        self.expected: tuple[str, ...] = ()  # parts of console messages that a test provokes
        self.requested: set[str] = set()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda problem: self.complaints.append(str(problem)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.requested.add(urlsplit(request.url).netloc))

    def visit(self, view: str = "hospital.pview") -> Page:
        self.page.goto(self.home if self.home.startswith("file:") else f"{self.home}#view={view}")
        rest(self.page)
        self.page.evaluate("document.getElementById('sql').open = true")
        self.page.evaluate("document.getElementById('tour').hidden = true")
        return self.page

    def ask(self, path: str, **body: Any) -> Any:
        return self.page.evaluate("([path, body]) => hdpview.ask(path, body)", [path, body])

    def leave(self) -> None:
        """Check that the console logged no problem and no request went elsewhere."""
        self.context.close()
        found = [text for text in self.complaints if not any(part in text for part in self.expected)]
        assert not found, found
        assert self.requested <= {urlsplit(self.home).netloc, ""}


def rest(page: Page) -> None:
    page.wait_for_selector("body[data-shown]")


def shows(page: Page, *parts: str) -> str:
    """Wait until the page shows a filter that has these parts; its SQL."""
    selector = "body" + "".join(f"[data-shown*={json.dumps(part)}]" for part in parts)
    page.wait_for_selector(selector, state="attached")
    return page.locator("#where").input_value()


def run(page: Page, where: str) -> None:
    page.evaluate("document.getElementById('sql').open = true")
    page.locator("#where").fill(where)
    page.locator("#run").click()
    rest(page)


def choose(page: Page, label: str, value: str) -> None:
    page.locator(f"select[aria-label={json.dumps(label)}]").select_option(value)
    rest(page)


def more(page: Page, name: str, what: str) -> None:
    page.get_by_label(f"More on {name}", exact=True).click()
    page.get_by_label(f"{what} {name}", exact=True).click()
    rest(page)


def saved(page: Page, what: str, kind: str) -> Path:
    opener = f"Save {what}" if what.startswith("the ") else f"More on {what}"
    with page.expect_download() as download:
        page.get_by_label(opener, exact=True).click()
        page.get_by_label(f"Save {what} as {kind}", exact=True).click()
    return Path(download.value.path())


class Held:
    """Requests that are held back until they are released, in order of arrival."""

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
        for _ in range(PATIENCE_MS // 10):
            if self.routes:
                return
            # Playwright delivers the browser's events only during calls.
            self.page.wait_for_timeout(10)
        raise AssertionError(f"no request for {self.pattern}")

    def let_one_go(self) -> None:
        self.wait()
        self.routes.pop(0).continue_()

    def let_all_go(self) -> None:
        self._is_over = True
        while self.routes:
            self.routes.pop(0).continue_()
        self.page.unroute(self.pattern)


def card(page: Page, name: str) -> Locator:
    return page.locator(f"[data-attribute={json.dumps(name)}]")


def bar(page: Page, name: str, code: int) -> Locator:
    return card(page, name).locator(f'[data-code="{code}"]')


def place(one: Locator) -> tuple[float, float, float, float]:
    """The position of an element: left, top, width and height."""
    box = one.bounding_box()
    return box["x"], box["y"], box["width"], box["height"]


def drag(page: Page, start: tuple[float, float], end: tuple[float, float]) -> None:
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*end, steps=4)
    page.mouse.up()


def brush(page: Page, name: str, first: float, last: float) -> None:
    """Drag over a chart, between two shares of its width."""
    card(page, name).scroll_into_view_if_needed()
    left, y = place(bar(page, name, 0))[:2]  # bars begin beside the axis
    x, _, wide, _ = place(card(page, name).locator("svg"))
    width = x + wide - left
    drag(page, (left + width * first, y + 60), (left + width * last, y + 60))


def spoken(page: Page, name: str, code: int) -> str:
    return bar(page, name, code).get_attribute("aria-label") or ""


def every_label(page: Page, name: str) -> list[str]:
    return list(card(page, name).locator(".hit").evaluate_all("all => all.map((one) => one.ariaLabel)"))


def codes(page: Page, name: str) -> list[int]:
    return list(
        card(page, name).locator(".hit").evaluate_all("all => all.map((one) => Number(one.dataset.code))")
    )


def numbers_in(text: str) -> list[str]:
    """The numbers of a text, without signs between thousands."""
    return re.findall(r"-?\d+(?:\.\d+)?", text.replace(",", "").replace("−", "-"))


def says(text: str, *values: float, least: float = 0.0) -> bool:
    """Whether a text starts with these numbers, rounded as the page rounds; least: the smallest step."""
    for told, value in zip(numbers_in(text), values, strict=False):
        step = max(10.0 ** -len(told.partition(".")[2]), least)
        if abs(float(told) - value) > 0.51 * step:
            return False
    return True


def grain(lower: float, upper: float) -> float:
    """The rounding step of a count with this interval: two digits of its half width remain."""
    half = (upper - lower) / 2
    return max(10.0 ** (math.floor(math.log10(half)) - 1), 1.0) if half > 0 else 1.0


def shown_count(page: Page) -> float:
    return float(page.locator("#count").get_attribute("data-value") or "nan")


def agrees(page: Page, view: PView, own: dict[str, str | None] | None = None) -> None:
    """The count and every bar of every chart are the view's answers to the SQL in the text field."""
    where = page.locator("#where").input_value()
    assert shown_count(page) == pytest.approx(view.count(where or None).estimate)
    for name in view.schema.names:
        table = view.histogram(name, (own or {}).get(name, where or None), as_="pyarrow")
        rows = zip(*(table[column].to_pylist() for column in table.column_names[-3:]), strict=True)
        for label, (value, lower, upper) in zip(every_label(page, name), rows, strict=True):
            assert says(label.rsplit(": about ", 1)[1], value, least=grain(lower, upper)), (name, label)
