"""What the page looks like to whom: hostile names, phones, light and dark, screen readers."""

from __future__ import annotations

import hostile_names
import pytest
from playwright.sync_api import Browser, expect
from visitor import Visitor, agrees, bar, brush, card, number, picture, shown_count, shows

from hdpview.explore.notebook import Explorer
from hdpview.pview import PView

HOSTILE, INJECTION, QUOTE = hostile_names.HTML, hostile_names.SQL, hostile_names.SCRIPT


def test_names_that_try_to_break_out(visitor: Visitor, hostile: PView) -> None:
    """HTML, script and SQL in names and values are shown as text, can be filtered by, and nothing runs; the view is called not private."""
    page = visitor.visit("hostile.pview")
    expect(page.locator("#banner")).to_contain_text("NOT PRIVATE")
    assert page.locator("#charts h2 .name").all_inner_texts() == [HOSTILE, INJECTION]
    assert page.locator("img").count() == 0
    agrees(page, hostile)
    bar(page, HOSTILE, 0).click()
    shows(page, "DROP")
    bar(page, HOSTILE, 1).click()
    where = shows(page, "it''s")
    assert QUOTE.replace("'", "''") in where
    assert shown_count(page) == pytest.approx(number(hostile, where))
    brush(page, INJECTION, 0.15, 0.55)
    where = shows(page, "AND")
    assert shown_count(page) == pytest.approx(number(hostile, where))
    for tab in ("table", "numbers", "compare", "heatmap"):
        page.locator(f"#tab-{tab}").click()
    page.wait_for_selector("#panel-heatmap svg[aria-label]")
    page.locator("#trust-open").click()
    assert HOSTILE in page.locator("#trust").inner_text()
    assert page.locator("img").count() == 0
    page.keyboard.press("Escape")
    picture(page, "hostile")
    page.get_by_label("View", exact=True).select_option("hospital.pview")
    expect(page.locator("#banner")).to_be_hidden()
    assert shows(page, "everything") == ""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone(browser: Browser, explorer: Explorer, scheme: str) -> None:
    """At 390 pixels nothing sticks out sideways in any panel; the count stays in sight, and dialogs start at their top; light and dark."""
    person = Visitor(browser, explorer, width=390, height=844, scheme=scheme)
    page = person.visit()
    for tab in ("heatmap", "table", "numbers", "compare"):
        page.locator(f"#tab-{tab}").click()
        page.wait_for_selector(f"#panel-{tab} .result > *")
        assert page.locator("html").evaluate("one => one.scrollWidth") <= 390
        assert page.locator(f"#panel-{tab} .result").evaluate("one => one.scrollWidth - one.clientWidth") <= 0
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    assert page.locator("#count").evaluate("one => one.getBoundingClientRect().top") >= 0
    page.locator("#trust-open").click()
    assert page.locator("#trust").evaluate("one => one.scrollHeight > one.clientHeight && one.scrollTop") == 0
    page.keyboard.press("Escape")
    picture(page, f"phone-{scheme}")
    person.leave()


def test_light_and_dark(browser: Browser, explorer: Explorer) -> None:
    """The page follows the system's scheme, and a button switches it; text stands out from its ground in both."""
    person = Visitor(browser, explorer, scheme="dark")
    page = person.visit()
    picture(page, "dark")
    grounds = []
    for _ in range(2):
        ink, ground, quiet = page.locator("#budget").evaluate(
            "one => [getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor, getComputedStyle(one).color]"
        )
        grounds.append(ground)
        assert contrast(ink, ground) >= 7
        assert contrast(quiet, ground) >= 4.5
        page.locator("#theme").click()
    assert luminance(grounds[0]) < 0.1 < 0.8 < luminance(grounds[1])
    person.leave()


def luminance(colour: str) -> float:
    """Of `rgb(…)`, as WCAG defines it."""
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_everything_has_a_name(visitor: Visitor) -> None:
    """Every button, list, field, bar and picture has a name for a screen reader, and every id is there once."""
    page = visitor.visit()
    for tab in ("table", "numbers", "compare", "heatmap"):
        page.locator(f"#tab-{tab}").click()
        page.wait_for_selector(f"#panel-{tab} .result > *")
    nameless = page.locator("button, select, textarea, input, [role]").evaluate_all(
        "all => all.filter((one) => !(one.getAttribute('aria-label') || one.getAttribute('aria-labelledby')"
        " || one.labels?.length || one.textContent.trim()))"
        ".map((one) => one.outerHTML).filter((html) => !/role=.(alert|status)/.test(html))"
    )
    assert nameless == []
    ids = page.locator("[id]").evaluate_all("all => all.map((one) => one.id)")
    assert len(ids) == len(set(ids))


def test_nothing_moves_while_bars_are_read(visitor: Visitor) -> None:
    """Pointing at bars tells their counts without moving anything on the page, however long the words are."""
    page = visitor.visit()
    before = page.locator("html").evaluate("one => one.scrollHeight")
    for code in range(3):
        bar(page, "smoker", code).hover()
        expect(card(page, "smoker").locator(".tip")).to_contain_text(" to ")
        assert page.locator("html").evaluate("one => one.scrollHeight") == before
