"""What the page looks like to whom: hostile names, phones, light and dark, screen readers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import hostile_names
import pyarrow as pa
import pytest
from playwright.sync_api import Browser, expect
from visitor import (
    Held,
    Visitor,
    agrees,
    bar,
    brush,
    card,
    number,
    picture,
    saves,
    shown_count,
    shows,
    under,
)

from hdpview.build import build
from hdpview.domain import Category, Integer, Schema
from hdpview.explore.notebook import Explorer, explore
from hdpview.pview import PView

HOSTILE, INJECTION, QUOTE = hostile_names.HTML, hostile_names.SQL, hostile_names.SCRIPT


def test_names_that_try_to_break_out(visitor: Visitor, hostile: PView) -> None:
    """HTML, script and SQL in names and values are shown as text, can be filtered by, and nothing runs; the
    view is called not private.
    """
    page = visitor.visit("hostile.pview")
    expect(page.locator("#banner")).to_contain_text("NOT PRIVATE")
    expect(page.locator("footer")).to_contain_text("NOT private")
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
    page.locator("#trust summary").click()
    assert HOSTILE in page.locator("#trust").inner_text()
    assert "the promise below does not hold" in page.locator("#trust").inner_text()
    assert page.locator("img").count() == 0
    page.keyboard.press("Escape")
    picture(page, "hostile")
    with page.expect_download() as download:
        saves(page, "the heatmap", "SVG")
    drawn = ET.parse(download.value.path()).getroot()
    texts = [one.text or "" for one in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == f"Records by {INJECTION} (across) and {HOSTILE} (down)"
    assert any(text.endswith("ε = 5; 95% typical intervals; NOT PRIVATE") for text in texts)
    page.get_by_label("View", exact=True).select_option("hospital.pview")
    expect(page.locator("#banner")).to_be_hidden()
    assert shows(page, "everything") == ""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone(browser: Browser, explorer: Explorer, scheme: str) -> None:
    """At 390 pixels nothing sticks out sideways in any panel; the count stays in sight, and dialogs start at
    their top; light and dark.
    """
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
    """The page follows the system's scheme, and a button switches it for good; text, fields and the focus
    stand out in both.
    """
    person = Visitor(browser, explorer, scheme="dark")
    page = person.visit()
    picture(page, "dark")
    grounds = []
    for _ in range(2):
        ink, ground, quiet = page.locator("footer").evaluate(
            "one => [getComputedStyle(document.body).color, "
            "getComputedStyle(document.body).backgroundColor, getComputedStyle(one).color]"
        )
        grounds.append(ground)
        assert contrast(ink, ground) >= 7
        assert contrast(quiet, ground) >= 4.5
        page.locator("#where").focus()
        edge, field, ring = page.locator("#where").evaluate(
            "one => { const s = getComputedStyle(one); return [s.borderColor, s.backgroundColor, "
            "s.outlineColor]; }"
        )
        assert min(contrast(edge, field), contrast(ring, field)) >= 3
        page.locator("#theme").click()
    assert luminance(grounds[0]) < 0.1 < 0.8 < luminance(grounds[1])
    page.locator("#theme").click()
    page.reload()
    page.wait_for_selector("body[data-shown]")
    assert page.locator("body").evaluate("one => getComputedStyle(one).backgroundColor") == grounds[1]
    person.leave()


def luminance(colour: str) -> float:
    """Of `rgb(…)`, as WCAG defines it."""
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_nothing_moves_while_bars_are_read(visitor: Visitor) -> None:
    """Pointing at bars tells their counts without moving anything on the page, however long the words are."""
    page = visitor.visit()
    before = page.locator("html").evaluate("one => one.scrollHeight")
    for code in range(3):
        bar(page, "smoker", code).hover()
        expect(card(page, "smoker").locator(".tip")).to_contain_text(" to ")
        assert page.locator("html").evaluate("one => one.scrollHeight") == before


@pytest.mark.parametrize("width", [390, 1024, 1400])
def test_charts_stay_where_they_are_while_filters_come(
    browser: Browser, explorer: Explorer, width: int
) -> None:
    """No filter, the first or the seventh, moves the charts under the hand that sets it."""
    person = Visitor(browser, explorer, width=width)
    page = person.visit()
    top = "one => one.getBoundingClientRect().top + window.scrollY"
    before = page.locator("#charts").evaluate(top)
    for name in ("sex", "region", "admission", "diagnosis", "ward", "smoker", "readmitted"):
        bar(page, name, 0).dispatch_event("keydown", {"key": "Enter"})
        shows(page, name)
        assert page.locator("#charts").evaluate(top) == before
    person.leave()


def test_a_count_that_may_be_nothing_is_told_in_its_place(visitor: Visitor) -> None:
    """Words on a count that cannot be told from 0 move nothing on the page; where nothing fits, the page says
    just that.
    """
    page = visitor.visit()
    places = (
        "() => [...document.querySelectorAll('#where, #charts')].map((one) => "
        "JSON.stringify(one.getBoundingClientRect()))"
    )
    before = page.evaluate(places)
    for where, word in (
        ("age = 3 AND cost > 60000 AND ward = 'maternity' AND sex = 'Male'", "Not distinguishable"),
        ("age < 3 AND age > 5", "No possible value matches"),
    ):
        page.locator("#where").fill(where)
        page.locator("#run").click()
        expect(page.locator("#verdict")).to_contain_text(word)
        assert page.evaluate(places) == before
    expect(page.locator("#count")).to_have_text("0")
    assert set(page.locator("#charts text.flat").all_text_contents()) == {"no records"}


@pytest.fixture
def postcodes() -> Iterator[Explorer]:
    """A view with a category of many values, under a test key."""
    values = [f"post {i:03d}" for i in range(600)]
    schema = Schema([Category(name="postcode", values=values), Integer(name="size", min=0, max=99, every=10)])
    table = pa.table(
        {"postcode": [values[i % 600] for i in range(6_000)], "size": [i % 100 for i in range(6_000)]}
    )
    running = explore({"many.pview": build(table, schema, 20.0, method="hdpview", test_key=b"many")})
    yield running
    running.stop()


def test_one_of_many_values_is_found_by_its_name(
    browser: Browser, postcodes: Explorer, tmp_path: Path
) -> None:
    """A category of 600 values has a field to find one; the table tells what it leaves out, and the saved
    file has all.
    """
    person = Visitor(browser, postcodes)
    page = person.visit("many.pview")
    expect(card(page, "postcode").locator(".more")).to_have_text("The 12 most frequent of 600 values.")
    assert card(page, "postcode").locator("[data-code]").count() == 12
    assert under(page, "size") == ["0", "20", "40", "60", "80", "90+"]
    field = page.get_by_label("Add or remove a value of postcode")
    field.fill("nowhere")
    field.press("Enter")
    expect(card(page, "postcode").locator(".more")).to_contain_text("There is no value")
    field.fill("12")
    expect(card(page, "postcode").locator(".more")).to_contain_text("of 600 values match")
    field.fill("post 123")
    field.press("Enter")
    assert shows(page, "post 123") == "postcode IN ('post 123')"
    expect(page.locator("#chips")).to_have_text("postcode: post 123 ✕")
    page.locator("#reset").click()
    page.locator("#tab-table").click()
    expect(page.locator("#panel-table")).to_contain_text("The 500 largest groups")
    assert page.locator("#panel-table tbody tr").count() == 500
    with page.expect_download() as download:
        saves(page, "the table", "CSV")
    download.value.save_as(tmp_path / "all.csv")
    rows = [row for row in (tmp_path / "all.csv").read_text().splitlines() if not row.startswith("#")]
    assert len(rows) == 601
    person.leave()


def test_waiting_and_a_server_that_ended_are_told(browser: Browser, postcodes: Explorer) -> None:
    """A slow answer dims what it will change until it is there. A server that ended is told in words where
    it is needed, and what was shown stays; everything else goes on.
    """
    person = Visitor(browser, postcodes)
    page = person.visit("many.pview")
    held = Held(page, "**/api/histograms")
    page.locator("#where").fill("size < 90 OR postcode = 'post 001'")
    page.locator("#run").click()
    page.wait_for_selector("body.waiting", state="attached")
    held.let_all_go()
    shows(page, "OR")
    expect(page.locator("body")).not_to_have_class("waiting")
    count = page.locator("#count").inner_text()
    postcodes.stop()
    bar(page, "size", 3).click()
    expect(page.locator("#error")).to_contain_text("does not answer")
    expect(page.locator("#count")).to_have_text(count)
    page.get_by_role("button", name="Remove the custom SQL").click()
    shows(page, "everything")
    bar(page, "size", 3).click()
    shows(page, "size >= 30")  # the page computes this itself
    expect(page.locator("#error")).to_be_empty()
    person.complaints = [
        text for text in person.complaints if "ERR_" not in text
    ]  # the browser logs what it could not reach
    person.leave()
