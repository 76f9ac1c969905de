"""Where charts stand: moved by hand and by keys, pinned, and beside those of another view."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect
from visitor import Visitor, bar, card, grain, picture, shows

from hdpview.explore.notebook import Explorer
from hdpview.pview import PView


def order(page: Page) -> list[str]:
    """The attributes of the charts, as they stand."""
    found = page.locator("#charts [data-attribute]").evaluate_all(
        "all => all.map((one) => one.dataset.attribute)"
    )
    return list(found)


def handle(page: Page, name: str) -> str:
    return f"Move {name}: drag, or press arrow keys"


def choose(page: Page, name: str, what: str) -> None:
    """Choose from the menu of a chart."""
    page.get_by_label(f"More on {name}", exact=True).click()
    page.get_by_label(f"{what} {name}", exact=True).click()


def test_charts_are_dragged_to_another_place(visitor: Visitor, hospital: PView) -> None:
    """A drag of a chart's handle puts it beside the one where it is dropped; the link keeps the order."""
    page = visitor.visit()
    names = list(hospital.schema.names)
    start = page.get_by_label(handle(page, "age")).bounding_box()
    end = card(page, "admitted").bounding_box()
    assert start is not None
    assert end is not None
    page.mouse.move(start["x"] + 5, start["y"] + 8)
    page.mouse.down()
    page.mouse.move(end["x"] + 0.8 * end["width"], end["y"] + 40, steps=6)
    expect(card(page, "admitted")).to_have_class("card drop-after")
    page.mouse.up()
    moved = [*names[1:4], "age", *names[4:]]
    assert order(page) == moved
    page.reload()
    page.wait_for_selector("body[data-shown]")
    assert order(page) == moved


def test_charts_are_moved_by_keys(visitor: Visitor, hospital: PView) -> None:
    """Arrow keys on the handle move a chart, and the handle keeps the focus."""
    page = visitor.visit()
    names = list(hospital.schema.names)
    page.get_by_label(handle(page, "sex")).focus()
    page.keyboard.press("ArrowRight")
    assert order(page) == [names[0], names[2], "sex", *names[3:]]
    page.keyboard.press("Home")
    assert order(page) == ["sex", names[0], *names[2:]]
    expect(page.get_by_label(handle(page, "sex"))).to_be_focused()


def test_pinned_charts_stay_in_sight(visitor: Visitor) -> None:
    """A pinned chart stays below the count while one scrolls, is filtered like any other, and is unpinned."""
    page = visitor.visit()
    choose(page, "ward", "Pin")
    assert "ward" not in order(page)
    page.locator("footer").scroll_into_view_if_needed()
    box, strip = card(page, "ward").bounding_box(), page.locator(".strip").bounding_box()
    assert box is not None
    assert strip is not None
    assert strip["y"] + strip["height"] - 2 <= box["y"] <= 600
    bar(page, "ward", 1).click()
    shows(page, "surgery")
    picture(page, "pinned", full=False)
    page.reload()
    page.wait_for_selector("body[data-shown]")
    assert page.locator("#pinned [data-attribute]").count() == 1
    choose(page, "ward", "Unpin")
    assert "ward" in order(page)
    expect(page.locator("#pinned")).to_be_hidden()


def test_two_views_side_by_side(visitor: Visitor, hospital: PView, blocky: PView) -> None:
    """Under one filter every chart stands beside that of a view with the same schema, on the same scale;
    other views are not offered, and the link keeps it."""
    page = visitor.visit()
    options = page.get_by_label("Compare every chart with").locator("option")
    expect(options.filter(has_text="side by side")).to_have_text(["blocks.pview, side by side"])
    page.get_by_label("Compare every chart with").select_option("beside blocks.pview")
    bar(page, "sex", 0).click()
    where = shows(page, "Female")
    beside = page.locator("[data-beside=ward] text.number")
    table = blocky.histogram("ward", where, as_="pyarrow").to_pylist()
    for text, row in zip(beside.all_text_contents(), table, strict=True):
        step = grain(row["count_lower"], row["count_upper"])
        assert float(text.replace(",", "")) == pytest.approx(row["count"], abs=0.51 * step)
    told = page.locator("#beside").inner_text()
    assert told.startswith("blocks.pview: about ")
    count = blocky.count(where)
    assert float(told.split("about ")[1].split(" (")[0].replace(",", "")) == pytest.approx(
        count.estimate, abs=0.51 * grain(count.lower, count.upper)
    )
    scales = [
        page.locator(f"[{kind}=age] text.tick").all_text_contents()
        for kind in ("data-attribute", "data-beside")
    ]
    assert scales[0] == scales[1]
    picture(page, "side-by-side")
    page.locator("[data-beside=admission] [data-code='1']").click()
    shows(page, "admission", "Female")
    page.reload()
    page.wait_for_selector("body[data-shown*=Female]")
    assert page.locator("[data-beside]").count() == len(hospital.schema)
    page.get_by_label("Compare every chart with").select_option("none")
    expect(page.locator("[data-beside]")).to_have_count(0)


def test_undo_and_reset_are_above_the_charts_of_a_phone(browser: Browser, explorer: Explorer) -> None:
    """On a phone what takes a filter back stands above the charts."""
    person = Visitor(browser, explorer, width=390, height=844)
    page = person.visit()
    bar(page, "sex", 0).click()
    shows(page, "Female")
    charts = page.locator("#charts").bounding_box()
    assert charts is not None
    for name in ("undo", "reset"):
        box = page.locator(f"#{name}").bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= charts["y"]
    page.locator("#undo").click()
    shows(page, "everything")
    picture(page, "phone-undo", full=False)
    person.leave()
