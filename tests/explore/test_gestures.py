"""Gestures by mouse, keyboard, finger and text: the page shows the view's answers; all can be undone."""

import re

import pytest
from playwright.sync_api import expect
from visitor import (
    BY_SERVER,
    Held,
    agrees,
    bar,
    brush,
    card,
    choose,
    drag,
    place,
    rest,
    run,
    shown_count,
    shows,
    spoken,
)


def test_everything_at_first(visitor, hospital):
    page = visitor.visit()
    agrees(page, hospital)
    assert page.locator("#charts article").count() == len(hospital.schema)
    first = page.locator(".first").inner_text().strip()
    assert re.fullmatch(r"About [\d,]+ records\s+\(likely [\d,]+ to [\d,]+\)", first)
    assert "ε" not in page.locator("main").inner_text()
    page.locator("#sure summary").click()
    expect(page.locator("#sure")).to_contain_text("Guaranteed, whatever the data")
    expect(page.locator("#banner")).to_be_hidden()


def test_brushing_a_range_filters_everything_else(visitor, hospital):
    page = visitor.visit()
    brush(page, "age", 0.65, 0.9)
    assert shows(page, "age >= 62", "age < 87") == "age >= 62 AND age < 87"
    bar(page, "sex", 0).click()
    assert shows(page, "sex IN") == "age >= 62 AND age < 87 AND sex IN ('Female')"
    agrees(page, hospital, {"age": "sex = 'Female'", "sex": "age >= 62 AND age < 87"})


def test_charts_out_of_sight_follow_when_the_mouse_rests(visitor, hospital):
    page = visitor.visit()
    page.set_viewport_size({"width": 1400, "height": 500})
    before = spoken(page, "readmitted", 0)
    card(page, "age").evaluate("one => one.scrollIntoView({ block: 'center' })")
    (x, y, _, _), (end, _, _, _) = place(bar(page, "age", 20)), place(bar(page, "age", 60))
    page.mouse.move(x + 1, y + 60)
    page.mouse.down()
    page.mouse.move(end + 1, y + 60)
    shows(page, "age >= 20")
    assert spoken(page, "readmitted", 0) == before
    page.mouse.up()
    page.wait_for_function(
        "before => document.querySelector('[data-attribute=readmitted] .hit').ariaLabel !== before",
        arg=before,
    )
    rest(page)
    agrees(page, hospital, {"age": None})


def test_ranges_are_moved_and_get_other_ends(visitor):
    page = visitor.visit()
    brush(page, "age", 0.405, 0.605)
    assert shows(page, "age >= 38") == "age >= 38 AND age < 59"
    brush(page, "age", 0.5, 0.6)
    assert shows(page, "age >= 47") == "age >= 47 AND age < 68"
    brush(page, "age", 68 / 96 - 0.003, 0.855)
    assert shows(page, "age < 83") == "age >= 47 AND age < 83"
    card(page, "age").get_by_label("Clear age").click()
    shows(page, "everything")
    (x, first, _, _), (_, last, _, _) = place(bar(page, "ward", 1)), place(bar(page, "ward", 3))
    drag(page, (x + 20, first + 8), (x + 20, last + 8))
    assert shows(page, "oncology") == "ward IN ('surgery', 'cardiology', 'oncology')"


def test_values_are_picked_and_given_up(visitor, hospital):
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
    assert shown_count(page) == pytest.approx(hospital.count(where).estimate)
    page.get_by_role("button", name="Remove the filter on region").click()
    page.wait_for_selector("body[data-shown='smoker IS NULL']")


def test_a_bar_picked_counts_what_it_shows(visitor, hospital):
    page = visitor.visit()
    for name in ("age", "cost", "admitted", "systolic_bp", "stay_days"):
        values = hospital.histogram(name, as_="pyarrow")
        expected = values[values.column_names[-3]].to_pylist()
        last = hospital.schema[name].size - 1 - hospital.schema[name].nullable
        for code in (0, last):
            bar(page, name, code).focus()
            page.keyboard.press("Enter")
            shows(page, name)
            expect(bar(page, name, code)).to_have_attribute("aria-checked", "true")
            assert shown_count(page) == pytest.approx(expected[code], abs=1e-6), (name, code)
            page.keyboard.press("Escape")
            shows(page, "everything")


def test_the_keyboard_is_enough(visitor, hospital):
    page = visitor.visit()
    bar(page, "age", 0).focus()
    for key, code in (
        ("ArrowRight", 1), ("End", 95), ("PageUp", 85), ("PageDown", 95), ("Home", 0),
    ):  # fmt: skip
        page.keyboard.press(key)
        expect(bar(page, "age", code)).to_be_focused()
    page.keyboard.press("Enter")
    shows(page, "age < 1")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+Enter")
    assert shows(page, "age < 3") == "age >= 0 AND age < 3"
    page.keyboard.press("Tab")
    page.keyboard.press("Shift+Tab")
    expect(bar(page, "age", 2)).to_be_focused()
    page.keyboard.press("Escape")
    shows(page, "everything")
    choose(page, "age from", "18")
    choose(page, "age to", "65")
    assert shows(page, "age < 66") == "age >= 18 AND age < 66"
    page.locator("#tab-heatmap").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#tab-table")).to_be_focused()
    expect(page.locator("#panel-table table")).to_be_visible()
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    expect(bar(page, "age", 2)).to_be_focused()
    opener = page.get_by_label("More on age", exact=True)
    opener.focus()
    page.keyboard.press("ArrowDown")  # in a list, an arrow key would already save
    page.keyboard.press("Enter")
    expect(page.get_by_label("Save age as PNG")).to_be_visible()
    page.keyboard.press("Escape")
    expect(opener).to_be_focused()


def test_a_finger_brushes_sideways_and_scrolls_upwards(enter, explorer, hospital):
    person = enter(explorer.url, width=390, height=844, has_touch=True)
    page = person.visit()
    touch = person.context.new_cdp_session(page)
    (x, top, _, high), (end, _, _, _) = place(bar(page, "age", 28)), place(bar(page, "age", 57))

    def stroke(x: float, y: float, to_x: float, to_y: float) -> None:
        touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
        for share in (0.1, 0.3, 0.5, 0.7, 0.9, 1.0):
            point = {"x": x + share * (to_x - x), "y": y + share * (to_y - y)}
            touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": [point]})
        touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})

    y = top + high / 2
    stroke(x + 1, y, end + 1, y + 5)
    where = shows(page, "age >= 28", "age < 58")
    assert shown_count(page) == pytest.approx(hospital.count(where).estimate)
    stroke(x + 20, y, x + 20, y - 250)
    page.wait_for_function("window.scrollY > 50")
    assert shows(page, "age") == where
    bar(page, "sex", 0).tap()
    expect(card(page, "sex").locator(".tip")).to_contain_text("Female")
    assert shows(page, "age") == where
    bar(page, "sex", 0).tap()
    shows(page, "Female")


def test_steps_lead_back_and_forth(visitor):
    page = visitor.visit()
    brush(page, "age", 0.3, 0.5)
    age = shows(page, "age >=")
    bar(page, "smoker", 1).click()
    both = shows(page, "smoker")
    page.go_back()
    page.wait_for_selector(f'body[data-shown="{age}"]')
    page.locator("#undo").click()
    assert shows(page, "everything") == ""
    expect(page.locator("#undo")).to_be_disabled()
    page.go_forward()
    assert shows(page, "age >=") == age
    page.locator("#redo").click()
    assert shows(page, "smoker") == both
    expect(page.locator("#redo")).to_be_disabled()
    for redo in ("Control+Shift+Z", "Control+y"):
        page.keyboard.press("Control+z")
        page.wait_for_selector(f'body[data-shown="{age}"]')
        page.keyboard.press(redo)
        assert shows(page, "smoker") == both
    page.locator("#reset").click()
    shows(page, "everything")
    page.locator("#undo").click()
    assert shows(page, "smoker") == both
    choose(page, "View", "hostile.pview")
    expect(page.locator("#banner")).to_be_visible()
    page.locator("#undo").click()
    expect(page.locator("#banner")).to_be_hidden()
    assert shows(page, "smoker") == both
    choose(page, "View", "blocks.pview")
    expect(page).to_have_title("blocks.pview – hdpview")
    assert shows(page, "smoker") == both  # the filter survives a change to a view of the same schema


def test_undo_takes_back_what_is_still_being_answered(visitor):
    page = visitor.visit()
    run(page, BY_SERVER)
    bar(page, "sex", 0).click()
    first = shows(page, "Female")
    held = Held(page, "**/api/histograms")
    bar(page, "smoker", 1).click()
    held.wait()
    expect(page.locator("#chips")).to_contain_text("smoker")
    page.locator("#undo").click()
    expect(page.locator("#chips")).not_to_contain_text("smoker")
    held.let_all_go()
    assert shows(page, "Female") == first
    held = Held(page, "**/api/content?view=hostile.pview")
    page.get_by_label("View", exact=True).select_option("hostile.pview")
    expect(page.locator("#banner")).to_be_visible()
    page.locator("#undo").click()
    expect(page.locator("#banner")).to_be_hidden()
    held.let_all_go()
    assert shows(page, "Female") == first


def test_sql_is_edited_and_run(visitor, hospital):
    page = visitor.visit()
    for where, chips in (
        ("age BETWEEN 20 AND 40 AND ward IN ('surgery')", ["age: 20 to 40 ✕", "ward: surgery ✕"]),
        ("smoker IS NULL AND stay_days < 4", ["stay_days: 0 to 3 ✕", "smoker: (missing) ✕"]),
        ("admitted >= DATE '2024-01-01'", ["admitted: 2024-01 to 2024-12 ✕"]),
        ("sex <> 'Female' AND cost < 700", ["custom SQL ✕"]),
    ):
        run(page, where)
        expect(page.locator("#chips button")).to_have_text(chips)
        assert shown_count(page) == pytest.approx(hospital.count(where).estimate)
    written = "age BETWEEN 20 AND 40 OR (sex = 'Male' AND stay_days > 10)"
    run(page, written)
    agrees(page, hospital)
    bar(page, "sex", 1).click()
    assert shows(page, "sex IN") == f"({written}) AND sex IN ('Male')"
    agrees(page, hospital, {"sex": written})
    page.get_by_role("button", name="Remove the custom SQL").click()
    page.wait_for_selector("""body[data-shown="sex IN ('Male')"]""")
    page.locator("#where").fill("stay_days > 3")
    expect(page.locator("#unrun")).to_contain_text("not run")
    bar(page, "sex", 0).click()
    shows(page, "Female")
    assert page.locator("#where").input_value() == "stay_days > 3"  # typed text is not lost
    page.locator("#where").press("Control+Enter")
    assert shows(page, "stay_days") == "stay_days >= 4"
    expect(page.locator("#unrun")).to_be_empty()


def test_a_wrong_condition_is_told_in_words(visitor):
    visitor.expected = ("400 (Bad Request)",)
    page = visitor.visit()
    before = page.locator("#count").inner_text()
    for wrong, words in (("agee > 3", "Did you mean 'age'"), ("1; DROP TABLE view", "still show")):
        run(page, wrong)
        expect(page.locator("#error")).to_contain_text(words)
        assert page.locator("#where").input_value() == wrong
        assert page.locator("#count").inner_text() == before
    bar(page, "sex", 0).click()
    assert shows(page, "Female") == "sex IN ('Female')"
    expect(page.locator("#error")).to_be_empty()
    page.goto("about:blank")
    page.goto(visitor.home + '#view=hospital.pview&state={"custom":"agee > 3"}')
    expect(page.locator("#error")).to_contain_text("Did you mean 'age'")
    expect(page.locator("#count")).to_have_text(before)


def test_a_link_restores_everything(enter, explorer, visitor):
    page = visitor.visit()
    choose(page, "Across", "cost")
    choose(page, "Down", "ward")
    page.locator("#tab-compare").click()
    bar(page, "sex", 0).click()
    shows(page, "Female")
    page.get_by_role("button", name="Keep the active filter as A").click()
    page.locator("#reset").click()
    brush(page, "age", 0.3, 0.5)
    where = shows(page, "age >=")
    choose(page, "Breakdown by", "diagnosis")
    expect(page.locator("#panel-compare .verdict")).to_contain_text("diagnosis")
    verdict = page.locator("#panel-compare .verdict").inner_text()
    page.locator("#share").click()
    expect(page.locator("#said")).to_have_text("Link copied")
    other = enter(explorer.url).page
    other.goto(page.evaluate("navigator.clipboard.readText()"))
    assert shows(other, "age") == where
    expect(other.locator("#panel-compare .verdict")).to_have_text(verdict)
    other.locator("#tab-heatmap").click()
    other.wait_for_selector("#panel-heatmap svg[aria-label*='cost and ward']")
    for broken in (
        "#view=hospital.pview&state=%7Bbroken",
        '#view=nothing&state={"filters":{"age":{"range":[5,1000000]},"sex":{"codes":["x"]}}}',
    ):
        other.goto("about:blank")
        other.goto(explorer.url + broken)
        assert shows(other, "everything") == ""
