"""The page shows nothing false: complete intervals, matching pictures, notes on modelled relations."""

import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from playwright.sync_api import expect
from visitor import (
    BY_SERVER,
    Held,
    Visitor,
    bar,
    brush,
    card,
    choose,
    codes,
    numbers_in,
    run,
    says,
    shows,
    spoken,
)

from hdpview.build import build
from hdpview.domain import Category, Integer, Schema
from hdpview.explore.notebook import Explorer, explore
from hdpview.query.errors.ends import usefulness


def _ticks(visitor: Visitor, name: str) -> list[str]:
    return card(visitor.page, name).locator("text.tick").all_text_contents()


def test_axes_say_what_they_are(visitor):
    visitor.visit()
    assert {"0", "20", "40", "60", "80", "95+"} <= set(_ticks(visitor, "age"))
    assert {"0", "2K", "100K+", "bins of unequal width"} <= set(_ticks(visitor, "cost"))
    assert "bins of unequal width" not in _ticks(visitor, "age")


def test_no_answer_leaves_no_older_picture_under_new_labels(visitor):
    visitor.expected = ("ERR_",)
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


def test_a_late_picture_is_not_drawn(visitor):
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


def test_conditions_explain_themselves(visitor):
    page = visitor.visit()
    notes = page.locator(".strip #notes")
    run(page, "age > 200 AND diagnosis = 'other'")
    expect(notes).to_contain_text("beyond the schema's bounds")
    expect(notes).to_contain_text("contains all values that the schema does not list")
    run(page, "cost > 700 AND admitted <= DATE '2024-01-31'")
    expect(notes).to_contain_text("cuts bins of cost (500 to 1000)")
    expect(notes).not_to_contain_text("midnight")  # a plain date is that day


_WORDS = """async (spans) => {
  const [{ usefulness }, { get }] = await Promise.all([import("/parts.js"), import("/transport.js")]);
  const schema = await get("/api/schema");
  return spans.map(([estimate, lower, upper]) => usefulness(schema, { estimate, lower, upper }, 1_000));
}"""


def test_a_word_says_how_good_a_count_is(visitor):
    page = visitor.visit()
    expect(page.locator("#word")).to_have_text("precision: useful")
    rng = np.random.default_rng(3)
    estimate, below, above = 10.0 ** rng.uniform(0, 3, (3, 300))
    spans = np.array([estimate, estimate - below, estimate + above])
    expected = usefulness(*spans, unit=1_000.0)
    assert set(expected) == {"useful", "rough", "unknown"}
    assert page.evaluate(_WORDS, spans.T.tolist()) == expected.tolist()


def test_the_last_bin_holds_what_lies_beyond(visitor, hospital):
    page = visitor.visit()
    assert spoken(page, "age", 95).startswith("95 or more: about ")
    bar(page, "age", 95).click()
    assert shows(page, "age") == "age >= 95"
    expect(page.locator("#chips")).to_have_text("age: 95 or more ✕")
    run(page, "age > 95")
    upper = numbers_in(page.locator("#interval").inner_text())[1]
    assert float(upper) >= hospital.count("age >= 95").estimate


def test_what_is_compared_with_is_named(visitor):
    page = visitor.visit()
    brush(page, "age", 0.7, 0.9)
    shows(page, "age")
    before = page.locator("html").evaluate("one => one.scrollHeight")
    bar(page, "ward", 1).hover()
    tip = card(page, "ward").locator(".tip")
    expect(tip).to_contain_text("among all records: ")
    assert "% of all records" not in tip.inner_text()
    assert page.locator("html").evaluate("one => one.scrollHeight") == before


def test_rates_leave_missing_outcomes_out(visitor, hospital):
    page = visitor.visit()
    choose(page, "Show", "rate")
    choose(page, "Outcome", "smoker")
    ward = "ward = 'general medicine'"
    smokers = hospital.count(f"{ward} AND smoker").estimate

    def is_told(whole: str) -> bool:
        words = spoken(page, "ward", 0).split("rate of smoker = true")[1].split(": ", 1)[1]
        return says(words, 100 * smokers / hospital.count(whole).estimate)

    assert is_told(f"{ward} AND smoker IS NOT NULL")
    expect(page.locator("#measured")).to_contain_text("records without smoker are left out")
    page.get_by_label("count missing as no").check()
    page.wait_for_selector("body[data-shown]")
    assert is_told(ward)
    expect(page.locator("#measured")).not_to_contain_text("left out")
    expect(page.locator("#log")).to_be_hidden()  # a rate has no log scale


def test_the_verdict_is_about_shares(visitor):
    page = visitor.visit()
    page.locator("#tab-compare").click()
    run(page, "admitted < TIMESTAMP '2022-01-01'")
    page.get_by_role("button", name="Keep the active filter as A").click()
    run(page, "admitted >= TIMESTAMP '2023-06-01'")
    choose(page, "Breakdown by", "readmitted")
    expect(page.locator("#panel-compare .verdict")).to_contain_text("No clear difference")
    expect(page.locator("#panel-compare")).to_contain_text("Their numbers of records differ")
    rows = page.locator("#panel-compare tbody tr").evaluate_all(
        "all => all.map((one) => one.innerText.split('\\t').slice(5, 7).join(' '))"
    )
    (difference, low, high), mirrored = ([float(text) for text in numbers_in(row)] for row in rows)
    assert mirrored == [-difference, -high, -low]


def test_a_filter_that_selects_nothing_is_flat(visitor):
    page = visitor.visit()
    run(page, "age < 12 AND diagnosis = 'prostate' AND sex = 'Female'")
    expect(page.locator("#verdict")).to_contain_text("Not distinguishable from 0")
    for name in ("ward", "region", "stay_days"):
        assert re.fullmatch(r"\d, at most [\d,]+", card(page, name).locator("text.flat").text_content() or "")
        for layer in ("bar", "other"):
            drawn = card(page, name).locator(f"path.{layer}")
            assert drawn.evaluate_all("all => all.every((one) => !one.getAttribute('d'))")
    run(page, "age < 3 AND age > 5")
    expect(page.locator("#verdict")).to_contain_text("No possible value matches")
    expect(page.locator("#count")).to_have_text("0")
    assert set(page.locator("#charts text.flat").all_text_contents()) == {"no records"}


@pytest.fixture(scope="module")
def wards() -> Iterator[Explorer]:
    """Thirty long, similar names whose frequencies are reversed every other year, in a view that counted few
    attributes together."""
    names = [
        f"Self-employed in the {'in' if i % 2 else 'un'}corporated branch number {i:02d}" for i in range(30)
    ]
    late = [i % 2 for i in range(9_000)]
    ranks = [int(29 * (i // 2 % 100 / 100) ** 3) for i in range(9_000)]
    values = [names[29 - rank if is_late else rank] for rank, is_late in zip(ranks, late, strict=True)]
    schema = Schema([Category(name="branch", values=names), Integer(name="late", min=0, max=1)])
    table = pa.table({"branch": values, "late": late})
    running = explore({"branches.pview": build(table, schema, 20.0, test_key=b"branches")})
    yield running
    running.stop()


def test_the_most_frequent_values_are_those_under_the_filter(enter, wards):
    page = enter(wards.url).visit("branches.pview")
    run(page, "late >= 1")
    late = codes(page, "branch")
    run(page, "late < 1")
    early = codes(page, "branch")
    assert 0 in early
    assert 29 in late
    assert set(early) != set(late)
    told = card(page, "branch").locator(".more")
    expect(told).to_have_text("The 12 most frequent of 30 values under the filter.")
    names = card(page, "branch").locator("text.name").all_text_contents()
    assert any("…" in name for name in names)
    assert len(set(names)) == len(names)


def test_a_modelled_relation_may_be_reversed(visitor):
    page = visitor.page

    def without_pairs(route: object) -> None:
        answer = route.fetch()
        schema = answer.json()
        schema["quality"]["known"] = []
        route.fulfill(response=answer, json=schema)

    page.route("**/api/schema?view=hospital.pview", without_pairs)
    visitor.visit()
    bar(page, "sex", 0).click()
    shows(page, "Female")
    note = card(page, "ward").locator(".note").last
    expect(note).to_have_text("modelled")
    assert "weaker than it is, or even reversed" in (note.get_attribute("title") or "")
    expect(card(page, "sex").locator(".note").last).to_be_empty()
    expect(page.locator("#panel-heatmap .result")).to_contain_text("weaker than it is, or even reversed")
