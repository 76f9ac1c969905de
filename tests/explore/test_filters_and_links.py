"""The filter as text and as a link: edited, refused, restored, and each visitor's own."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect
from visitor import BY_SERVER, Held, Visitor, agrees, bar, brush, number, picture, run, shown_count, shows

from hdpview.explore.notebook import Explorer
from hdpview.pview import PView


def test_sql_is_edited_and_run(visitor: Visitor, hospital: PView) -> None:
    """A condition written by hand filters all charts; gestures narrow it further, and each of the two can be
    given up alone.
    """
    page = visitor.visit()
    written = "age BETWEEN 20 AND 40 OR (sex = 'Male' AND stay_days > 10)"
    page.locator("#where").fill(written)
    page.locator("#run").click()
    shows(page, "BETWEEN")
    agrees(page, hospital)
    expect(page.locator("#chips")).to_have_text("custom SQL ✕")
    assert page.locator("#where").input_value() == written
    bar(page, "sex", 1).click()
    assert shows(page, "sex IN") == f"({written}) AND sex IN ('Male')"
    agrees(page, hospital, {"sex": written})
    page.get_by_role("button", name="Remove the custom SQL").click()
    page.wait_for_selector("""body[data-shown="sex IN ('Male')"]""")
    page.locator("#undo").click()
    shows(page, "BETWEEN", "sex IN")
    page.locator("#undo").click()
    page.wait_for_selector(f'body[data-shown="{written}"]')
    page.locator("#where").fill("sex = 'Female'")
    page.locator("#where").press("Control+Enter")
    shows(page, "Female")
    assert shown_count(page) == pytest.approx(number(hospital, "sex = 'Female'"))


def test_a_wrong_condition_is_told_in_words(browser: Browser, explorer: Explorer) -> None:
    """Wrong SQL shows a sentence and stays to be mended; the page, its panels and links go on with the last
    filter that worked.
    """
    person = Visitor(browser, explorer)
    page = person.visit()
    before = page.locator("#count").inner_text()
    for wrong, word in (("agee > 3", "Did you mean 'age'"), ("age >", "SQL"), ("1; DROP TABLE view", "")):
        page.locator("#where").fill(wrong)
        page.locator("#run").click()
        expect(page.locator("#error")).to_contain_text(word or "still show")
        assert page.locator("#where").input_value() == wrong
        assert page.locator("#count").inner_text() == before
    picture(page, "error", full=False)
    page.locator("#tab-table").click()
    page.wait_for_selector("#panel-table tbody tr")
    bar(page, "sex", 0).click()
    assert shows(page, "Female") == "sex IN ('Female')"
    expect(page.locator("#error")).to_be_empty()
    page.locator("#where").fill("age >")
    page.locator("#run").click()
    expect(page.locator("#error")).to_contain_text("SQL")
    page.locator("#reset").click()
    expect(page.locator("#error")).to_be_empty()
    shows(page, "everything")
    page.goto("about:blank")
    page.goto(explorer.url + '#view=hospital.pview&state={"custom":"agee > 3"}')
    expect(page.locator("#error")).to_contain_text("Did you mean 'age'")
    expect(page.locator("#count")).to_have_text(before)
    person.complaints = [
        text for text in person.complaints if "400 (Bad Request)" not in text
    ]  # the browser logs what was refused
    person.leave()


def test_a_link_restores_the_state(browser: Browser, explorer: Explorer, visitor: Visitor) -> None:
    """The copied link opens the same filter in a fresh browser; so does a reload; a broken link shows
    everything.
    """
    page = visitor.visit()
    brush(page, "age", 0.3, 0.5)
    shows(page, "age")
    bar(page, "smoker", 1).click()
    where = shows(page, "smoker")
    count = page.locator("#count").inner_text()
    page.locator("#share").click()
    expect(page.locator("#said")).to_have_text("Link copied")
    link = page.evaluate("navigator.clipboard.readText()")
    page.reload()
    assert shows(page, "smoker") == where
    other = Visitor(browser, explorer)
    other.page.goto(link)
    assert shows(other.page, "smoker") == where
    expect(other.page.locator("#count")).to_have_text(count)
    for broken in (
        "#view=hospital.pview&state=%7Bbroken",
        '#view=nothing&state={"filters":{"age":{"range":[5,1000000]},"sex":{"codes":["x"]}}}',
    ):
        other.page.goto("about:blank")
        other.page.goto(explorer.url + broken)
        assert shows(other.page, "everything") == ""
    other.leave()


def test_back_and_forward_lead_through_the_steps(visitor: Visitor) -> None:
    """The browser's back and forward buttons lead from filter to filter and from view to view; undo and redo
    are the same steps.
    """
    page = visitor.visit()
    brush(page, "age", 0.3, 0.5)
    age = shows(page, "age >=")
    bar(page, "smoker", 1).click()
    both = shows(page, "smoker")
    page.go_back()
    page.wait_for_selector(f'body[data-shown="{age}"]')
    page.go_back()
    assert shows(page, "everything") == ""
    page.go_forward()
    assert shows(page, "age >=") == age
    page.locator("#undo").click()
    assert shows(page, "everything") == ""
    expect(page.locator("#undo")).to_be_disabled()
    page.locator("#redo").click()
    page.wait_for_selector(f'body[data-shown="{age}"]')
    page.go_forward()
    assert shows(page, "smoker") == both
    expect(page.locator("#redo")).to_be_disabled()
    page.get_by_label("View", exact=True).select_option("hostile.pview")
    expect(page.locator("#banner")).to_be_visible()
    page.locator("#undo").click()
    expect(page.locator("#banner")).to_be_hidden()
    assert shows(page, "smoker") == both


def test_undo_takes_back_what_is_still_being_answered(visitor: Visitor) -> None:
    """Who changes their mind while the page computes goes back one step, not two: from a filter, and from a
    view.
    """
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


def test_a_link_restores_what_was_looked_at(browser: Browser, explorer: Explorer, visitor: Visitor) -> None:
    """Panel, axes, groups and the filter kept for comparison are in the link, too."""
    page = visitor.visit()
    page.get_by_label("Across").select_option("cost")
    page.get_by_label("Down", exact=True).select_option("ward")
    page.locator("#tab-compare").click()
    bar(page, "sex", 0).click()
    shows(page, "Female")
    page.get_by_role("button", name="Keep the active filter as A").click()
    page.locator("#reset").click()
    page.get_by_label("Breakdown by").select_option("diagnosis")
    expect(page.locator("#panel-compare .verdict")).to_contain_text("A and B really differ in diagnosis")
    verdict = page.locator("#panel-compare .verdict").inner_text()
    other = Visitor(browser, explorer)
    other.page.goto(page.url)
    other.page.wait_for_selector("body[data-shown]")
    expect(other.page.locator("#panel-compare .verdict")).to_have_text(verdict)
    other.page.locator("#tab-heatmap").click()
    other.page.wait_for_selector("#panel-heatmap svg[aria-label*='cost and ward']")
    other.leave()


def test_keys_take_back_and_bring_again(visitor: Visitor) -> None:
    """Ctrl-Z, Ctrl-Shift-Z and Ctrl-Y undo and redo, from a list as well; the link to the charts leaves the
    filter alone.
    """
    page = visitor.visit()
    page.get_by_label("age from").select_option("60")
    where = shows(page, "age >= 60")
    for redo in ("Control+Shift+Z", "Control+y"):
        page.keyboard.press("Control+z")
        assert shows(page, "everything") == ""
        page.keyboard.press(redo)
        assert shows(page, "age >= 60") == where
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    expect(bar(page, "age", 0)).to_be_focused()
    assert shows(page, "age >= 60") == where


def test_two_people_do_not_disturb_each_other(browser: Browser, explorer: Explorer, hospital: PView) -> None:
    """Two pages filter at the same time, and each shows its own."""
    first, second = Visitor(browser, explorer), Visitor(browser, explorer)
    one, two = first.visit(), second.visit()
    brush(one, "age", 0.1, 0.3)
    brush(two, "stay_days", 0.2, 0.7)
    wheres = shows(one, "age"), shows(two, "stay_days")
    for page, where in zip((one, two), wheres, strict=True):
        assert shown_count(page) == pytest.approx(number(hospital, where))
    first.leave()
    second.leave()
