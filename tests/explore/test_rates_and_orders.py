"""Rates, trends, orders and associations on the page."""

from playwright.sync_api import Page, expect
from visitor import bar, brush, card, choose, every_label, numbers_in, shows, spoken


def show_rate_of(page: Page, outcome: str) -> None:
    choose(page, "Show", "rate")
    choose(page, "Outcome", outcome)


def test_a_rate_by_group(visitor):
    page = visitor.visit()
    show_rate_of(page, "readmitted")
    assert "rate of readmitted = true: " in spoken(page, "age", 0)
    assert (card(page, "ward").locator("text.tick").last.text_content() or "").endswith("%")
    expect(page.locator("#measured")).to_contain_text("Overall rate of readmitted = true: ")


def test_the_largest_come_first_with_the_certainty_of_their_order(visitor):
    page = visitor.visit()
    choose(page, "Order of values", "count")
    counts = [float(numbers_in(label)[0]) for label in every_label(page, "region")]
    assert counts == sorted(counts, reverse=True)
    brush(page, "age", 0.05, 0.1)
    shows(page, "age")
    assert (card(page, "region").locator("path.bracket").get_attribute("d") or "").count("M") >= 1


def test_the_trend_of_a_rate_by_quarter_under_a_filter(visitor):
    page = visitor.visit()
    bar(page, "sex", 0).click()
    shows(page, "sex")
    show_rate_of(page, "smoker")
    choose(page, "Bars of admitted", "quarter")
    labels = every_label(page, "admitted")
    assert len(labels) == 20
    assert labels[0].startswith("2020 Q1: rate of smoker = true: ")


def test_what_goes_with_an_outcome(visitor):
    page = visitor.visit()
    show_rate_of(page, "admission")
    page.get_by_role("button", name="What goes with this?", exact=True).click()
    expect(page.locator("#columns .title").first).to_have_text("Clearly associated")
    first = page.locator("#columns li:not(.title) button").first.inner_text()
    assert first in ("diagnosis", "ward", "stay_days")
    assert "at least" in page.locator("#columns li:not(.title)").first.inner_text()
    page.get_by_role("button", name=f"Go to {first}", exact=True).click()
    expect(page.locator(f"#pinned [data-attribute={first}]")).to_be_visible()
