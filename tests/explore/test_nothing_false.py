"""What the page shows is true: labels where values are, whole intervals, pictures that belong to their
labels, words for what the view does not know.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect
from visitor import BY_SERVER, Held, Visitor, bar, brush, card, run, shows, under

from hdpview.pview import PView


def test_labels_stand_under_their_bars(visitor: Visitor, hospital: PView) -> None:
    """Round numbers stand under the bars that hold them, and the last bin says that it holds what lies
    beyond.
    """
    page = visitor.visit()
    places = card(page, "age").evaluate(
        """one => [...one.querySelectorAll("text.under")].map((label) => {
          const hit = one.querySelector(`.hit[data-code="${label.dataset.of}"]`);
          const x = Number(label.getAttribute("x"));
          return [label.textContent, x - Number(hit.getAttribute("x")), Number(hit.getAttribute("width"))];
        })"""
    )
    for text, inside, width in places:
        if text in ("20", "40", "60", "80"):
            assert 0 <= inside <= width
    assert under(page, "age")[-1] == "95+"
    assert (bar(page, "age", 95).get_attribute("aria-label") or "").startswith("95 or more: about ")


def test_bins_of_unequal_width_are_marked(visitor: Visitor) -> None:
    """A chart whose bins differ in width says so at its axis; others say nothing."""
    page = visitor.visit()
    assert "bins of unequal width" in card(page, "cost").locator("text.tick").all_text_contents()
    assert "bins of unequal width" not in card(page, "age").locator("text.tick").all_text_contents()


def test_intervals_of_dense_charts_have_both_halves(visitor: Visitor) -> None:
    """A band of a chart with many bars is drawn over the bar from its lower to its upper end, in another
    colour."""
    page = visitor.visit()
    drawn = card(page, "age").locator("path.band")
    fill = "one => getComputedStyle(one).fill"
    assert drawn.evaluate(fill) != card(page, "age").locator("path.bar").first.evaluate(fill)
    assert re.match(r"M[\d.]+ [\d.]+h[\d.]+v[\d.]+h", drawn.get_attribute("d") or "")


def test_typed_text_is_not_lost(visitor: Visitor) -> None:
    """What was typed but not run stays while charts are brushed, and the page says that it was not run."""
    page = visitor.visit()
    page.locator("#where").fill("stay_days > 3")
    expect(page.locator("#unrun")).to_contain_text("not run")
    bar(page, "sex", 0).click()
    page.wait_for_selector("body[data-shown*=Female]")
    assert page.locator("#where").input_value() == "stay_days > 3"
    page.locator("#run").click()
    assert shows(page, "stay_days") == "stay_days >= 4"
    expect(page.locator("#unrun")).to_be_empty()


def test_no_answer_leaves_no_older_picture_under_new_labels(visitor: Visitor) -> None:
    """Where a gesture is not answered, filter, chips, address and counts are those of the last answer."""
    page = visitor.visit()
    run(page, BY_SERVER)
    bar(page, "sex", 0).click()
    where = shows(page, "Female")
    count, link = page.locator("#count").inner_text(), page.url
    page.route("**/api/histograms", lambda route: route.abort())
    brush(page, "age", 0.5, 0.9)
    expect(page.locator("#error")).to_contain_text("does not answer")
    expect(page.locator("#chips")).to_have_text("custom SQL ✕sex: Female ✕")
    page.wait_for_selector("body[data-shown]")
    assert page.locator("#where").input_value() == where
    assert (page.locator("#count").inner_text(), page.url) == (count, link)
    page.unroute("**/api/histograms")
    bar(page, "age", 50).click()
    shows(page, "age")
    visitor.complaints = [text for text in visitor.complaints if "ERR_" not in text]


def test_a_late_picture_is_not_drawn(visitor: Visitor) -> None:
    """The answer to an older question, coming after a newer one was asked, is not drawn."""
    page = visitor.visit()
    run(page, BY_SERVER)
    page.wait_for_selector("#panel-heatmap svg[aria-label*='age and sex']")
    held = Held(page, "**/api/pairs")
    page.get_by_label("Down", exact=True).select_option("ward")
    held.wait()
    page.get_by_label("Down", exact=True).select_option("admission")
    held.let_one_go()
    held.wait()  # the newer question is sent once the older one is answered
    assert page.locator("#panel-heatmap svg[aria-label*='ward']").count() == 0
    held.let_all_go()
    page.wait_for_selector("#panel-heatmap svg[aria-label*='age and admission']")


def test_what_the_view_does_not_know_is_said(visitor: Visitor, hospital: PView) -> None:
    """Conditions beyond the bounds, values gathered as `other` and relations that were not counted are said
    in words."""
    page = visitor.visit()
    page.locator("#where").fill("age > 200 AND diagnosis = 'other'")
    page.locator("#run").click()
    expect(page.locator("#notes")).to_contain_text("beyond the schema's bounds")
    expect(page.locator("#notes")).to_contain_text("gathers all values that the schema does not list")
    expect(page.locator("#interval")).to_contain_text("likely")
    page.locator("#reset").click()
    shows(page, "everything")
    quality = hospital.quality()
    bar(page, "sex", 0).click()
    shows(page, "Female")
    for name in hospital.schema.names:
        expected = "" if name == "sex" or quality.knows("sex", name) else "modelled"
        assert card(page, name).locator(".note").last.inner_text() == expected
