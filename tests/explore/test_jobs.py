"""Ten jobs of an analyst, each done at the page within ten gestures."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect
from visitor import Visitor, bar, brush, card, choose, every_label, numbers_in, saved, shows, spoken

from hdpview.explore.notebook import Explorer

MOST_GESTURES = 10


class Hand:
    """A person at the page who counts gestures: each choice, click, key, drag or field filled is one."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.gestures = 0

    def choose(self, label: str, value: str) -> None:
        self.gestures += 1
        choose(self.page, label, value)

    def click(self, role: str, name: str) -> None:
        self.gestures += 1
        self.page.get_by_role(role, name=name, exact=True).click()  # type: ignore[arg-type]

    def pick(self, name: str, code: int) -> None:
        self.gestures += 1
        bar(self.page, name, code).click()
        self.page.wait_for_selector(f"body[data-shown*={name}]")

    def drag(self, name: str, first: float, last: float) -> None:
        self.gestures += 1
        brush(self.page, name, first, last)
        self.page.wait_for_selector(f"body[data-shown*={name}]")

    def press(self, key: str) -> None:
        self.gestures += 1
        self.page.keyboard.press(key)
        self.page.wait_for_selector("body[data-shown]")

    def type(self, label: str, text: str) -> None:
        self.gestures += 1
        self.page.get_by_label(label, exact=True).fill(text)


@pytest.fixture
def hand(visitor: Visitor) -> Iterator[Hand]:
    worker = Hand(visitor.visit())
    yield worker
    assert 0 < worker.gestures <= MOST_GESTURES


def _rate_of(hand: Hand, outcome: str) -> None:
    hand.choose("Show", "rate")
    hand.choose("Outcome", outcome)


def test_a_rate_by_group(hand: Hand) -> None:
    """The rate of an outcome in every group, with its interval and an axis."""
    _rate_of(hand, "readmitted")
    assert "rate of readmitted = true: " in spoken(hand.page, "age", 0)
    assert card(hand.page, "ward").locator("text.tick").last.text_content().endswith("%")  # type: ignore[union-attr]
    expect(hand.page.locator("#measured")).to_contain_text("Overall rate of readmitted = true: ")


def test_two_groups_are_compared(hand: Hand) -> None:
    """Whether men and women differ in a breakdown, as a sentence and as marks on the charts."""
    hand.pick("sex", 0)
    hand.click("tab", "Compare two filters")
    hand.click("button", "Keep the active filter as A")
    hand.pick("sex", 1)
    hand.pick("sex", 0)
    hand.choose("Breakdown by", "diagnosis")
    expect(hand.page.locator("#panel-compare .verdict")).to_contain_text("A and B really differ in diagnosis")


def test_the_top_ten_with_the_certainty_of_their_order(hand: Hand) -> None:
    """Sorted values whose order is uncertain stand in brackets; those that are certain do not."""
    hand.choose("Order of values", "count")
    counts = [float(numbers_in(label)[0]) for label in every_label(hand.page, "region")]
    assert counts == sorted(counts, reverse=True)
    hand.drag("age", 0.05, 0.1)
    assert (card(hand.page, "region").locator("path.bracket").get_attribute("d") or "").count("M") >= 1


def test_the_trend_of_a_rate_by_quarter_under_a_filter(hand: Hand) -> None:
    """A rate by quarter among some records."""
    hand.pick("sex", 0)
    _rate_of(hand, "smoker")
    hand.choose("Bars of admitted", "quarter")
    labels = every_label(hand.page, "admitted")
    assert len(labels) == 20
    assert labels[0].startswith("2020 Q1: rate of smoker = true: ")


def test_what_goes_with_an_outcome(hand: Hand) -> None:
    """Columns ranked by the lower end of their association, modelled ones apart; a click pins the chart."""
    hand.choose("Show", "rate")
    hand.choose("Outcome", "admission")
    hand.click("button", "What goes with this?")
    expect(hand.page.locator("#columns .title").first).to_have_text("Clearly go with it")
    first = hand.page.locator("#columns li:not(.title) button").first.inner_text()
    assert first in ("diagnosis", "ward", "stay_days")
    assert "at least" in hand.page.locator("#columns li:not(.title)").first.inner_text()
    hand.click("button", f"Go to {first}")
    expect(hand.page.locator(f"#pinned [data-attribute={first}]")).to_be_visible()


def test_a_cell_of_a_heatmap_is_read_in_percent(hand: Hand) -> None:
    """A cell as a percent of its row, with an interval."""
    hand.choose("Across", "admission")
    hand.choose("Down", "ward")
    hand.choose("Cells show", "row")
    hand.page.locator("#panel-heatmap svg[aria-label*='admission and ward']").focus()
    hand.press("ArrowRight")
    expect(hand.page.locator("#cell")).to_contain_text(
        re.compile(r"% \(likely [\d.]+% to [\d.]+%\) of ward general medicine")
    )


def test_a_finding_is_shared(hand: Hand, enter: Callable[..., Visitor], explorer: Explorer) -> None:
    """A link and a picture of what was found."""
    hand.drag("age", 0.6, 0.9)
    _rate_of(hand, "smoker")
    hand.click("button", "Copy link")
    link = hand.page.evaluate("navigator.clipboard.readText()")
    hand.gestures += 2
    assert saved(hand.page, "ward", "PNG").stat().st_size > 5_000
    other = enter(explorer.url).page
    other.goto(link)
    shows(other, "age")
    expect(other.locator("#measured")).to_have_text(hand.page.locator("#measured").inner_text())


def test_everything_is_undone_by_keyboard(hand: Hand) -> None:
    """Filter, unit, order and a hidden chart are taken back one by one with Ctrl-Z."""
    hand.pick("sex", 0)
    hand.choose("Show", "percent")
    hand.choose("Order of values", "count")
    hand.page.get_by_label("Show region", exact=True).uncheck()
    hand.gestures += 1
    expect(card(hand.page, "region")).to_have_count(0)
    hand.press("Control+z")
    expect(card(hand.page, "region")).to_be_visible()
    hand.press("Control+z")
    expect(hand.page.get_by_label("Order of values")).to_have_value("given")
    hand.press("Control+z")
    expect(hand.page.get_by_label("Show", exact=True)).to_have_value("records")
    hand.press("Control+z")
    assert shows(hand.page, "everything") == ""
    expect(hand.page.locator("#undo")).to_be_disabled()


def test_a_column_is_found(hand: Hand) -> None:
    """A column is found by one of its values and comes first."""
    hand.type("Find columns by name, label or value", "paed")
    expect(hand.page.locator("#columns li")).to_have_count(1)
    hand.click("button", "Go to ward")
    expect(hand.page.locator("#charts article").first).to_have_attribute("data-attribute", "ward")


def test_a_filter_that_selects_nothing(hand: Hand) -> None:
    """Nothing is left: the page says how many there may be, and one gesture leads back."""
    hand.drag("age", 0.0, 0.05)
    hand.pick("diagnosis", 9)
    hand.pick("sex", 0)
    assert "at most" in (card(hand.page, "ward").locator("text.flat").text_content() or "")
    hand.click("button", "Reset")
    shows(hand.page, "everything")
