"""What the page shows is true: labels where values are, whole intervals, pictures that belong to their
labels, words for what the view does not know.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect
from visitor import Held, Visitor, bar, brush, card, shows

from hdpview.pview import PView


def test_labels_stand_under_their_bars(visitor: Visitor, hospital: PView) -> None:
    """The names of the first, middle and last value of a scale lie at the places of their bars, with a bar
    for missing values beside them.
    """
    page = visitor.visit()
    assert hospital.schema["systolic_bp"].nullable
    places = card(page, "systolic_bp").evaluate(
        """one => [...one.querySelectorAll(".labels [data-of]")].map((label) => {
          const text = label.getBoundingClientRect();
          const bar = one.querySelector(`[data-code="${label.dataset.of}"]`).getBoundingClientRect();
          return [text.left, text.right, bar.left, bar.right];
        })"""
    )
    first, middle, last = places
    assert first[0] == pytest.approx(first[2], abs=2)
    assert (middle[0] + middle[1]) / 2 == pytest.approx((middle[2] + middle[3]) / 2, abs=2)
    assert last[3] - 10 <= last[1] <= last[3] + 1


def test_bins_of_unequal_width_are_marked(visitor: Visitor) -> None:
    """A chart whose bins differ in width says that heights are counts; others say nothing."""
    page = visitor.visit()
    expect(card(page, "cost").locator(".note").first).to_have_text("unequal bins")
    assert card(page, "age").locator(".note:not(:empty)").count() == 0


def test_intervals_of_dense_charts_have_both_halves(visitor: Visitor) -> None:
    """A band of a chart with many bars is drawn over the bar from its lower to its upper end, in another
    colour."""
    page = visitor.visit()
    drawn = card(page, "age").locator("path.whisker.dense:not(.off)")
    assert drawn.evaluate("one => getComputedStyle(one).fill") != card(page, "age").locator(
        "path.bar:not(.off):not(.faint)"
    ).evaluate("one => getComputedStyle(one).fill")
    assert re.match(r"M[\d.]+ [\d.]+h[\d.]+V[\d.]+h", drawn.get_attribute("d") or "")


def test_typed_text_is_not_lost(visitor: Visitor) -> None:
    """What was typed but not run stays while charts are brushed, and the page says that it was not run."""
    page = visitor.visit()
    page.locator("#where").fill("stay_days > 3")
    expect(page.locator("#unrun")).to_contain_text("not run")
    bar(page, "sex", 0).click()
    page.wait_for_selector("body[data-shown*=Female]")
    assert page.locator("#where").input_value() == "stay_days > 3"
    page.locator("#run").click()
    assert shows(page, "stay_days") == "stay_days >= 4 AND stay_days < 61"
    expect(page.locator("#unrun")).to_be_empty()


def test_no_answer_leaves_no_older_picture_under_new_labels(visitor: Visitor) -> None:
    """Where a gesture is not answered, filter, chips, address and counts are those of the last answer."""
    page = visitor.visit()
    bar(page, "sex", 0).click()
    shows(page, "Female")
    count, link = page.locator("#count").inner_text(), page.url
    page.route("**/api/histograms", lambda route: route.abort())
    brush(page, "age", 0.5, 0.9)
    expect(page.locator("#error")).to_contain_text("does not answer")
    expect(page.locator("#chips")).to_have_text("sex: Female ✕")
    page.wait_for_selector("body[data-shown]")
    assert page.locator("#where").input_value() == "sex IN ('Female')"
    assert (page.locator("#count").inner_text(), page.url) == (count, link)
    page.unroute("**/api/histograms")
    bar(page, "age", 50).click()
    shows(page, "age")
    visitor.complaints = [text for text in visitor.complaints if "ERR_" not in text]


def test_a_late_picture_is_not_drawn(visitor: Visitor) -> None:
    """The answer to an older question, coming after a newer one was asked, is not drawn."""
    page = visitor.visit()
    page.wait_for_selector("#panel-heatmap svg[aria-label*='age and sex']")
    held = Held(page, "**/api/pairs")
    page.get_by_label("Down").select_option("ward")
    held.wait()
    page.get_by_label("Down").select_option("admission")
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
        expected = "" if name == "sex" or quality.knows("sex", name) else "inferred"
        assert card(page, name).locator(".note").last.inner_text() == expected
