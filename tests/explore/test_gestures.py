"""Gestures at the page, by mouse and keyboard: what it shows after them is what `view.sql` says."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Browser, expect
from visitor import (
    Visitor,
    agrees,
    bar,
    brush,
    card,
    drawn_bars,
    number,
    picture,
    shown_count,
    shows,
    under,
)

from hdpview.explore.notebook import Explorer
from hdpview.pview import PView


def test_everything_at_first(visitor: Visitor, hospital: PView) -> None:
    """Opened, the page says in plain words how many records there are, with a chart for every attribute and
    no warning for a private view; what is guaranteed is one layer down.
    """
    page = visitor.visit()
    agrees(page, hospital)
    assert page.locator("#charts article").count() == len(hospital.schema)
    assert under(page, "age") == ["0", "20", "40", "60", "80", "95+"]
    assert under(page, "cost")[0] == "0"
    expect(page.locator("#reset")).to_be_disabled()
    count = hospital.count()
    assert re.fullmatch(
        r"About [\d,]+ records\s+\(likely [\d,]+ to [\d,]+\)", page.locator(".first").inner_text().strip()
    )
    assert "ε" not in page.locator("main").inner_text()
    page.locator("#sure summary").click()
    expect(page.locator("#sure")).to_contain_text("Guaranteed, whatever the data")
    page.locator("#sure summary").click()
    assert shown_count(page) == pytest.approx(count.estimate)
    expect(page.locator("#banner")).to_be_hidden()
    picture(page, "first")


def test_brushing_a_range_filters_everything_else(visitor: Visitor, hospital: PView) -> None:
    """After a drag the count and all charts are those of `view.sql` under the SQL shown; the brushed chart
    stays whole.
    """
    page = visitor.visit()
    brush(page, "age", 0.65, 0.9)
    where = shows(page, "age >= 62", "age < 87")
    assert where == "age >= 62 AND age < 87"
    agrees(page, hospital, {"age": None})
    bar(page, "sex", 0).click()
    assert shows(page, "sex IN") == "age >= 62 AND age < 87 AND sex IN ('Female')"
    agrees(page, hospital, {"age": "sex = 'Female'", "sex": "age >= 62 AND age < 87"})
    picture(page, "brushed")


def test_one_drag_is_one_step_back(visitor: Visitor) -> None:
    """Undo takes a whole drag back, redo brings it again, reset clears all and can itself be undone."""
    page = visitor.visit()
    brush(page, "age", 0.2, 0.6)
    where = shows(page, "age >=")
    bar(page, "admission", 1).click()
    both = shows(page, "admission")
    page.locator("#undo").click()
    assert shows(page, "age") == where
    page.locator("#undo").click()
    assert shows(page, "everything") == ""
    expect(page.locator("#undo")).to_be_disabled()
    page.locator("#redo").click()
    page.locator("#redo").click()
    assert shows(page, "admission") == both
    page.locator("#reset").click()
    assert shows(page, "everything") == ""
    page.locator("#undo").click()
    assert shows(page, "admission") == both


def test_values_are_picked_and_given_up(visitor: Visitor, hospital: PView) -> None:
    """Clicks on categories add and remove values; missing values can be picked; chips remove filters."""
    page = visitor.visit()
    bar(page, "region", 0).click()
    shows(page, "Northmoor")
    bar(page, "region", 2).click()
    assert shows(page, "Harrowick") == "region IN ('Northmoor', 'Harrowick')"
    bar(page, "region", 0).click()
    page.wait_for_selector("""body[data-shown="region IN ('Harrowick')"]""")
    bar(page, "smoker", 2).click()
    where = shows(page, "smoker IS NULL")
    assert where == "region IN ('Harrowick') AND smoker IS NULL"
    assert shown_count(page) == pytest.approx(number(hospital, where))
    page.get_by_role("button", name="Remove the filter on region").click()
    page.wait_for_selector("body[data-shown='smoker IS NULL']")


def test_a_bar_picked_counts_what_it_shows(visitor: Visitor, hospital: PView) -> None:
    """One bin of an ordered attribute, first or last, counts exactly what its bar says: labels, SQL and bins
    agree.
    """
    page = visitor.visit()
    for name in ("age", "cost", "admitted", "systolic_bp", "stay_days"):
        values = hospital.histogram(name, as_="pyarrow")
        expected = values[values.column_names[-3]].to_pylist()
        last = hospital.schema[name].size - 1 - hospital.schema[name].nullable
        for code in (0, last):
            bar(page, name, code).focus()
            page.keyboard.press("Enter")
            page.wait_for_selector(
                f"[data-attribute={name}] [data-code='{code}'][aria-checked='true']", state="attached"
            )
            shows(page, name)
            assert shown_count(page) == pytest.approx(expected[code], abs=1e-6), (name, code)
            page.keyboard.press("Escape")
            shows(page, "everything")


def test_the_keyboard_is_enough(visitor: Visitor, hospital: PView) -> None:
    """Arrows, Home and End move between bars, Enter picks, Shift extends, Escape gives up; Tab comes back;
    lists work; tabs follow.
    """
    page = visitor.visit()
    bar(page, "age", 0).focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert shows(page, "age >= 3") == "age >= 3 AND age < 4"
    page.wait_for_selector("[data-attribute=age] [data-code='3']:focus")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+Enter")
    assert shows(page, "age < 6") == "age >= 3 AND age < 6"
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    expect(bar(page, "age", 5)).to_be_focused()
    page.keyboard.press("End")
    expect(bar(page, "age", 95)).to_be_focused()
    page.keyboard.press("PageUp")
    expect(bar(page, "age", 85)).to_be_focused()
    page.keyboard.press("PageDown")
    expect(bar(page, "age", 95)).to_be_focused()
    page.keyboard.press("Home")
    expect(bar(page, "age", 0)).to_be_focused()
    page.keyboard.press("Escape")
    shows(page, "everything")
    page.get_by_label("age from").select_option("18")
    page.get_by_label("age to").select_option("65")
    assert shows(page, "age < 66") == "age >= 18 AND age < 66"
    bar(page, "ward", 1).focus()
    page.keyboard.press("Space")
    where = shows(page, "surgery")
    assert shown_count(page) == pytest.approx(number(hospital, where))
    page.locator("#tab-heatmap").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#panel-table table")).to_be_visible()
    expect(page.locator("#tab-table")).to_be_focused()


def test_a_finger_brushes_sideways_and_scrolls_upwards(
    browser: Browser, explorer: Explorer, hospital: PView
) -> None:
    """On a phone a finger moved along a chart brushes a range; moved up over it, it scrolls the page and
    leaves the filter alone.
    """
    person = Visitor(browser, explorer, width=390, height=844)
    touch = person.context.new_cdp_session(person.page)
    touch.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    page = person.visit()
    box, last = bar(page, "age", 28).bounding_box(), bar(page, "age", 57).bounding_box()
    assert box is not None
    assert last is not None

    def stroke(x: float, y: float, to_x: float, to_y: float) -> None:
        touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
        for share in (0.1, 0.3, 0.5, 0.7, 0.9, 1.0):
            point = {"x": x + share * (to_x - x), "y": y + share * (to_y - y)}
            touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [point]})
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    middle = box["y"] + box["height"] / 2
    stroke(box["x"] + 1, middle, last["x"] + 1, middle + 5)
    where = shows(page, "age >= 28", "age < 58")
    assert shown_count(page) == pytest.approx(number(hospital, where))
    stroke(box["x"] + 20, middle, box["x"] + 20, middle - 250)
    page.wait_for_function("window.scrollY > 50")
    assert shows(page, "age") == where
    person.leave()


def test_bars_are_as_high_as_their_counts(visitor: Visitor, hospital: PView) -> None:
    """Bars are proportional to the view's counts, pale where the interval reaches 0, and grey outside the
    range brushed.
    """
    page = visitor.visit()
    brush(page, "age", 0.65, 0.9)
    where = shows(page, "age >= 62")
    for attribute in hospital.schema:
        if attribute.kind == "datetime":  # a line
            continue
        table = hospital.histogram(attribute.name, None if attribute.name == "age" else where, as_="pyarrow")
        estimate, lower, _ = (table[name].to_pylist() for name in table.column_names[-3:])
        bars = drawn_bars(page, attribute.name)
        highest = max(height for height, _ in bars.values())
        for code, value in enumerate(estimate):
            height, classes = bars.get(code, (0.0, None))
            assert height / highest == pytest.approx(max(value, 0) / max(estimate), abs=3e-3)
            assert classes is None or ("faint" in classes.split()) == (round(lower[code], 3) <= 0)
            assert classes is None or ("off" in classes.split()) == (
                attribute.name == "age" and not 62 <= code < 87
            )


def test_elements_stay_while_charts_follow(visitor: Visitor) -> None:
    """A gesture changes charts in place: every element of every chart is still the same one, and none is
    new.
    """
    page = visitor.visit()
    all_parts = page.locator("#charts path, #charts .hit, #charts article")
    all_parts.evaluate_all("all => all.forEach((one) => { one.met = true; })")
    before = card(page, "sex").locator("path.bar").first.get_attribute("d")
    n_elements = all_parts.count()
    brush(page, "age", 0.2, 0.4)
    shows(page, "age >=")
    assert card(page, "sex").locator("path.bar").first.get_attribute("d") != before
    assert all_parts.evaluate_all("all => all.filter((one) => one.met).length") == n_elements
    assert all_parts.count() == n_elements
