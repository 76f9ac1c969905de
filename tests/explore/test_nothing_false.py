"""What the page shows is true: labels where values are, whole intervals, pictures that belong to their
labels, words for what the view does not know.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator

import pyarrow as pa
import pytest
from playwright.sync_api import Browser, expect
from visitor import BY_SERVER, Held, Visitor, bar, brush, card, run, shows, under

from hdpview.build import build
from hdpview.domain import Category, Integer, Schema
from hdpview.explore.notebook import Explorer, explore
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


def test_the_last_bin_holds_what_lies_beyond(visitor: Visitor, hospital: PView) -> None:
    """The last bin says so as label, chip and tick; beyond it, the interval reaches that bin's count."""
    page = visitor.visit()
    bar(page, "age", 95).click()
    assert shows(page, "age") == "age >= 95"
    expect(page.locator("#chips")).to_have_text("age: 95 or more ✕")
    count = hospital.count("age >= 95")
    run(page, "age > 95")
    expect(page.locator("#notes")).to_contain_text("beyond the schema's bounds")
    told = page.locator("#interval").inner_text().split(" to ")[1].split(")")[0]
    assert float(told.replace(",", "")) >= count.estimate


def test_what_is_compared_with_is_named(visitor: Visitor) -> None:
    """The share among all records is not called a share of all records."""
    page = visitor.visit()
    brush(page, "age", 0.7, 0.9)
    shows(page, "age")
    bar(page, "ward", 1).hover()
    expect(card(page, "ward").locator(".tip")).to_contain_text("among all records: ")
    assert "% of all records" not in card(page, "ward").locator(".tip").inner_text()


def test_rates_leave_missing_outcomes_out(visitor: Visitor, hospital: PView) -> None:
    """A rate is of records whose outcome is known, as AVG is; how many are left out is said, and a switch
    counts them as no."""
    page = visitor.visit()
    page.get_by_label("Show", exact=True).select_option("rate")
    page.get_by_label("Outcome", exact=True).select_option("smoker")
    page.wait_for_selector("body[data-shown]")

    def rate() -> float:
        label = bar(page, "ward", 0).get_attribute("aria-label") or ""
        return float(re.findall(r"rate of smoker = true[^:]*: ([\d.]+)%", label)[0])

    ward = "ward = 'general medicine'"
    known = hospital.count(f"{ward} AND smoker IS NOT NULL").estimate
    smokers = hospital.count(f"{ward} AND smoker").estimate
    assert rate() == pytest.approx(100 * smokers / known, abs=0.51)
    expect(page.locator("#measured")).to_contain_text("records without smoker are left out")
    page.get_by_label("count missing as no").check()
    page.wait_for_selector("body[data-shown]")
    assert rate() == pytest.approx(100 * smokers / hospital.count(ward).estimate, abs=0.51)
    assert rate() < 100 * smokers / known - 1
    expect(page.locator("#measured")).not_to_contain_text("left out")


def test_the_verdict_is_about_shares(visitor: Visitor) -> None:
    """Two groups of different size whose shares may be equal are not said to differ; two shares that add up
    to all mirror each other."""
    page = visitor.visit()
    page.locator("#tab-compare").click()
    run(page, "admitted < TIMESTAMP '2022-01-01'")
    page.get_by_role("button", name="Keep the active filter as A").click()
    run(page, "admitted >= TIMESTAMP '2023-06-01'")
    page.get_by_label("Breakdown by").select_option("readmitted")
    expect(page.locator("#panel-compare .verdict")).to_contain_text("No clear difference")
    expect(page.locator("#panel-compare")).to_contain_text("Their numbers of records differ")
    rows = page.locator("#panel-compare tbody tr").evaluate_all(
        "all => all.map((one) => one.innerText.replaceAll('−', '-').split('\\t'))"
    )
    assert float(rows[0][5]) == -float(rows[1][5])
    lows, highs = zip(*(map(float, row[6].split(" to ")) for row in rows), strict=True)
    assert (lows[0], highs[0]) == (-highs[1], -lows[1])


def test_a_filter_that_selects_nothing_is_flat(visitor: Visitor) -> None:
    """Where next to nothing is left, charts show no distribution of noise but one line that says so."""
    page = visitor.visit()
    run(page, "age < 12 AND diagnosis = 'prostate' AND sex = 'Female'")
    expect(page.locator("#verdict")).to_contain_text("Not distinguishable from 0")
    for name in ("ward", "region", "stay_days"):
        assert re.fullmatch(r"\d, at most [\d,]+", card(page, name).locator("text.flat").text_content() or "")
        assert (
            card(page, name)
            .locator("path.bar")
            .evaluate_all("all => all.every((one) => !one.getAttribute('d'))")
        )


def test_a_log_axis_is_drawn_as_one(visitor: Visitor) -> None:
    """On a log scale decades are labelled and lie equally far apart."""
    page = visitor.visit()
    page.locator("#log").check()
    page.wait_for_selector("body[data-shown]")
    ticks = (
        card(page, "region")
        .locator("text.tick")
        .evaluate_all("all => all.map((one) => [one.textContent, Number(one.getAttribute('x'))])")
    )
    values = {float(text.replace("K", "000")): x for text, x in ticks}
    marks = sorted((math.log10(value), x) for value, x in values.items() if value >= 10)
    steps = [(x2 - x1) / (log2 - log1) for (log1, x1), (log2, x2) in itertools.pairwise(marks)]
    assert len(steps) >= 2
    assert max(steps) == pytest.approx(min(steps), rel=0.06)
    assert card(page, "region").locator("path.minor").get_attribute("d")


def test_conditions_explain_themselves(visitor: Visitor) -> None:
    """A condition that cuts a bin, or names midnight, says so beside the number."""
    page = visitor.visit()
    run(page, "cost > 700 AND admitted <= DATE '2024-01-31'")
    expect(page.locator(".strip #notes")).to_contain_text("cuts the bin")
    expect(page.locator(".strip #notes")).to_contain_text(
        "'2024-01-31' means midnight at the start of that day"
    )


def test_a_modelled_relation_may_be_reversed(visitor: Visitor, hospital: PView) -> None:
    """Words on attributes that were not counted together do not promise a direction."""
    page = visitor.visit()
    known = hospital.quality()
    names = hospital.schema.names
    pair = next(((a, b) for a in names for b in names if a < b and not known.knows(a, b)), None)
    if pair is None:
        pytest.skip("all pairs were counted together")
    page.get_by_label("Across").select_option(pair[0])
    page.get_by_label("Down", exact=True).select_option(pair[1])
    expect(page.locator("#panel-heatmap .result")).to_contain_text(
        "may look weaker than it is, or even reversed"
    )


@pytest.fixture(scope="module")
def wards() -> Iterator[Explorer]:
    """A category of thirty long, similar names, whose frequencies turn round with the year."""
    names = [
        f"Self-employed in the {'in' if i % 2 else 'un'}corporated branch number {i:02d}" for i in range(30)
    ]
    late = [i % 2 for i in range(9_000)]
    codes = [int(29 * (i // 2 % 100 / 100) ** 3) for i in range(9_000)]
    values = [names[29 - code if is_late else code] for code, is_late in zip(codes, late, strict=True)]
    schema = Schema([Category(name="branch", values=names), Integer(name="late", min=0, max=1)])
    table = pa.table({"branch": values, "late": late})
    running = explore({"branches.pview": build(table, schema, 20.0, test_key=b"branches")})
    yield running
    running.stop()


def test_the_most_frequent_values_are_those_under_the_filter(browser: Browser, wards: Explorer) -> None:
    """Which values are listed is decided at every rest, and shortened names stay different."""
    person = Visitor(browser, wards)
    page = person.visit("branches.pview")
    listed = "all => all.map((one) => Number(one.dataset.code))"
    run(page, "late >= 1")
    late = card(page, "branch").locator(".hit").evaluate_all(listed)
    run(page, "late < 1")
    early = card(page, "branch").locator(".hit").evaluate_all(listed)
    assert set(early) != set(late)
    assert 0 in early
    assert 29 in late
    expect(card(page, "branch").locator(".more")).to_have_text(
        "The 12 most frequent of 30 values under the filter."
    )
    names = card(page, "branch").locator("text.name").all_text_contents()
    assert any("…" in name for name in names)
    assert len(set(names)) == len(names)
    person.leave()
