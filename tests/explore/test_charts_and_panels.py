"""Charts and panels: the view's numbers, arranged, compared, taken away, and without barriers."""

import re
from collections.abc import Iterator
from importlib import resources

import hostile_names
import numpy as np
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Page, expect
from visitor import (
    Held,
    bar,
    brush,
    card,
    choose,
    codes,
    drag,
    every_label,
    grain,
    more,
    numbers_in,
    place,
    rest,
    run,
    saved,
    says,
    shown_count,
    shows,
    spoken,
)

from cells import noiseless_view, noisy_blocks, view_of
from hdpview.domain import Category, Integer, Schema
from hdpview.explore.notebook import Explorer, explore
from hdpview.query.interval.statistics import compare_shares
from hdpview.wishes import Wishes

AXE = (resources.files("axe_playwright_python") / "axe.min.js").read_text("utf-8")
SERIOUS = """([where, rules]) => axe
  .run(where, { resultTypes: ["violations"], ...(rules && { runOnly: rules }) })
  .then(({ violations }) => violations
    .filter(({ impact }) => ["serious", "critical"].includes(impact))
    .map(({ id, nodes }) => [id, nodes[0].html.slice(0, 200)]))"""


def names(page: Page) -> list[str]:
    return page.locator("#charts h2 .name").all_inner_texts()


def test_every_chart_is_compared(visitor, hospital):
    page = visitor.visit()
    bar(page, "sex", 0).click()
    shows(page, "Female")
    expect(card(page, "age")).to_have_attribute("data-other", "all")
    expect(card(page, "sex")).to_have_attribute("data-other", "none")  # nothing else filters it
    page.locator("#tab-compare").click()
    page.get_by_label("Name of group A").fill("women")
    page.get_by_role("button", name="Keep the active filter as A").click()
    page.get_by_role("button", name="Remove the filter on sex").click()
    bar(page, "ward", 1).click()
    shows(page, "surgery")
    chosen = page.get_by_label("Compare every chart with").locator("option:checked")
    expect(chosen).to_have_text("women (filter A)")
    expect(page.locator("#panel-compare .verdict")).to_contain_text("women and B")
    bar(page, "admission", 0).hover()
    expect(card(page, "admission").locator(".tip")).to_contain_text("among women: ")
    expected = compare_shares(hospital, "admission", "sex = 'Female'", "ward = 'surgery'").difference
    real = [code for code in range(3) if expected.lower[code] > 0 or expected.upper[code] < 0]
    marked = card(page, "admission").locator("text.number:has-text('◆')")
    expect(marked).to_have_count(len(real))
    assert marked.evaluate_all("all => all.map((one) => Number(one.dataset.of))") == real
    choose(page, "Compare every chart with", "view blocks.pview")
    expect(card(page, "age")).to_have_attribute("data-other", "view")


def test_a_log_scale_changes_no_label(visitor):
    page = visitor.visit()
    before = every_label(page, "ward")
    page.locator("#log").check()
    rest(page)
    assert every_label(page, "ward") == before


@pytest.mark.parametrize(("width", "schemes"), [(390, ["light"]), (1400, ["light", "dark"])])
def test_no_barriers_on_a_phone_or_a_large_screen(enter, explorer, width, schemes):
    """axe-core reports nothing serious in light and dark, which differ in colours only; nothing overflows."""
    page = enter(explorer.url, width=width, height=844).visit()
    bar(page, "sex", 0).click()
    shows(page, "Female")
    more(page, "ward", "Pin")
    page.evaluate(AXE)
    violations = []

    def look(where):
        for scheme in schemes:
            page.emulate_media(color_scheme=scheme)
            rules = ["color-contrast"] if scheme == "dark" else None
            violations.extend(page.evaluate(SERIOUS, [where, rules]))

    for tab in ("table", "numbers", "compare", "select", "heatmap"):
        page.locator(f"#tab-{tab}").click()
        page.wait_for_selector(f"#panel-{tab}:not(.waiting) .result > :not(:text('Computing…'))")
        look("body" if tab == "heatmap" else f"#panel-{tab}")
        assert page.locator("html").evaluate("one => one.scrollWidth") <= width
        assert page.locator(f"#panel-{tab} .result").evaluate("one => one.scrollWidth - one.clientWidth") <= 0
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    expect(page.locator("#count")).to_be_in_viewport()
    page.locator("#trust-open").click()
    look("#trust")
    assert violations == []
    ids = page.locator("[id]").evaluate_all("all => all.map((one) => one.id)")
    assert len(ids) == len(set(ids))
    page.keyboard.press("Escape")
    ground = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(ground)
    page.locator("#theme").click()
    switched = page.evaluate(ground)
    page.reload()
    rest(page)
    assert page.evaluate(ground) == switched != before


def test_two_views_side_by_side(visitor, hospital, blocky):
    page = visitor.visit()
    options = page.get_by_label("Compare every chart with").locator("option")
    expect(options.filter(has_text="side by side")).to_have_text(["blocks.pview, side by side"])
    choose(page, "Compare every chart with", "beside blocks.pview")
    bar(page, "sex", 0).click()
    where = shows(page, "Female")
    beside = page.locator("[data-beside=ward] text.number").all_text_contents()
    for text, row in zip(beside, blocky.histogram("ward", where, as_="pyarrow").to_pylist(), strict=True):
        assert says(text, row["count"], least=grain(row["count_lower"], row["count_upper"]))
    kinds = ("data-attribute", "data-beside")
    scales = [page.locator(f"[{kind}=age] text.tick").all_text_contents() for kind in kinds]
    assert scales[0] == scales[1]
    page.reload()
    page.wait_for_selector("body[data-shown*=Female]")
    assert page.locator("[data-beside]").count() == len(hospital.schema)
    choose(page, "Compare every chart with", "none")
    expect(page.locator("[data-beside]")).to_have_count(0)


def test_cells_are_read_and_drilled_into(visitor, hospital):
    page = visitor.visit()
    choose(page, "Down", "ward")
    heatmap = page.locator("#panel-heatmap svg[aria-label*=ward]")
    heatmap.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    expect(page.locator("#cell")).to_contain_text("surgery × 2: ")
    counted = hospital.count("age = 2 AND ward = 'surgery'")
    told = page.locator("#cell").inner_text().removeprefix("surgery × 2: ")
    assert says(told, counted.estimate, least=grain(counted.lower, counted.upper))
    page.keyboard.press("Enter")
    where = shows(page, "ward IN", "age")
    assert where == "age >= 2 AND age < 3 AND ward IN ('surgery')"
    assert shown_count(page) == pytest.approx(hospital.count(where).estimate)
    page.locator("#undo").click()
    assert shows(page, "everything") == ""
    heatmap.scroll_into_view_if_needed()
    x, y, wide, _ = place(heatmap)
    drag(page, (x + 0.5 * wide, y + 10), (x + 0.6 * wide, y + 40))
    shows(page, "age", "ward IN ('general medicine', 'surgery')")


def test_charts_are_arranged(visitor, hospital):
    page = visitor.visit()
    before = list(hospital.schema.names)
    handle = "Move {}: drag, or press arrow keys".format
    x, y, _, _ = place(page.get_by_label(handle("age")))
    left, top, wide, _ = place(card(page, "sex"))
    drag(page, (x + 5, y + 8), (left + 0.8 * wide, top + 40))
    assert names(page)[:3] == ["sex", "age", "region"]
    page.get_by_label(handle("region")).focus()
    page.keyboard.press("Home")
    assert names(page)[:3] == ["region", "sex", "age"]
    expect(page.get_by_label(handle("region"))).to_be_focused()
    for name, what in (("age", "Hide"), ("ward", "Enlarge"), ("cost", "Pin")):
        more(page, name, what)
    page.reload()
    rest(page)
    assert names(page)[:2] == ["region", "sex"]
    expect(card(page, "ward")).to_have_class(re.compile("large"))
    expect(page.locator("#columns-status")).to_contain_text("1 of 12 hidden")
    page.locator("footer").scroll_into_view_if_needed()
    expect(page.locator("#pinned [data-attribute=cost]")).to_be_in_viewport()
    for _ in range(5):
        page.locator("#undo").click()
        rest(page)
    assert names(page) == before


def test_results_are_taken_away(visitor):
    page = visitor.visit()
    page.locator("#tab-table").click()
    choose(page, "Group by", "sex")
    page.wait_for_selector("#panel-table th:has-text('Female')")
    table = pq.read_table(saved(page, "the table", "Parquet"))
    assert {"sex", "records", "records_lower", "records_upper"} <= set(table.column_names)
    assert table.num_rows == 3
    assert saved(page, "age", "PNG").read_bytes().startswith(b"\x89PNG")
    bar(page, "sex", 0).click()
    where = shows(page, "sex")
    page.locator("#copy-sql").click()
    expect(page.locator("#said")).to_have_text("SQL copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"SELECT COUNT(*) FROM view WHERE {where}"
    page.locator("#copy-python").click()
    expect(page.locator("#said")).to_have_text("Python copied")
    compile(page.evaluate("navigator.clipboard.readText()"), "copied", "exec")


def test_a_wish_is_saved(visitor):
    page = visitor.visit()
    page.locator("#sure summary").click()
    expect(page.get_by_role("button", name="Save as a wish")).to_have_count(0)  # not of all records
    for where, within in (("sex = 'Female'", "20"), ("age < 40 OR sex = 'Male'", "50")):
        run(page, where)
        page.get_by_label("Within how many records").fill(within)
        with page.expect_download() as download:
            page.get_by_role("button", name="Save as a wish").click()
    saved_wishes = [(wish.where, wish.within) for wish in Wishes.load(download.value.path()).wishes]
    assert saved_wishes == [("sex IN ('Female')", 20), ("age < 40 OR sex = 'Male'", 50)]
    assert download.value.suggested_filename == "hospital.wishes.json"


def test_the_first_steps_and_what_is_protected(visitor, hospital):
    page = visitor.page
    page.goto(visitor.home)
    rest(page)
    expect(page.locator("#tour li")).to_have_count(3)
    page.get_by_role("button", name="Got it").click()
    page.reload()
    rest(page)
    expect(page.locator("#tour")).to_be_hidden()
    page.locator("#trust-open").click()
    page.locator("#trust summary").click()
    told = page.locator("#trust").inner_text()
    titles = ["Who is protected", "Why numbers are blurred", "How to read the marks", "Technical details"]
    assert [told.index(title) for title in titles] == sorted(told.index(title) for title in titles)
    facts = hospital.info()
    for part in ("ε = 1", next(iter(facts["spending"])), "add or remove one record", "guaranteed range"):
        assert part in told
    assert facts["risk"] in told
    page.keyboard.press("Escape")
    expect(page.locator("#trust")).to_be_hidden()


def test_names_that_try_to_break_out(visitor, hostile):
    html, injection, script = hostile_names.HTML, hostile_names.SQL, hostile_names.SCRIPT
    page = visitor.visit("hostile.pview")
    expect(page.locator("#banner")).to_contain_text("NOT PRIVATE")
    assert names(page) == [html, injection]
    bar(page, html, 0).click()
    shows(page, "DROP")
    bar(page, html, 1).click()
    assert script.replace("'", "''") in shows(page, "it''s")
    brush(page, injection, 0.15, 0.55)
    where = shows(page, "AND")
    assert shown_count(page) == pytest.approx(hostile.count(where).estimate)
    for tab in ("table", "numbers", "compare", "heatmap"):
        page.locator(f"#tab-{tab}").click()
    page.wait_for_selector("#panel-heatmap svg[aria-label]")
    page.locator("#trust-open").click()
    page.locator("#trust summary").click()
    assert html in page.locator("#trust").inner_text()
    assert "The guarantee below does not hold" in page.locator("#trust").inner_text()
    page.keyboard.press("Escape")
    assert page.locator("img").count() == 0
    assert "ε = 5; 95% typical intervals; NOT PRIVATE" in saved(page, "the heatmap", "SVG").read_text()


@pytest.fixture(scope="module")
def wide() -> Iterator[Explorer]:
    schema = Schema([Integer(name=f"answer_{i:03d}", min=0, max=3) for i in range(200)])
    values = [f"post {i:03d}" for i in range(600)]
    places = Schema([Category(name="postcode", values=values), Integer(name="size", min=0, max=9)])
    every = np.arange(6_000)
    views = {
        "wide.pview": view_of(schema, noisy_blocks(schema.sizes, seed=1)),
        "many.pview": noiseless_view(places, np.column_stack([every % 600, every // 600])),
    }
    running = explore(views)
    yield running
    running.stop()


def test_200_attributes(enter, wide):
    page = enter(wide.url).visit("wide.pview")
    assert page.locator("#charts article").count() == 24
    expect(page.locator("#columns-status")).to_contain_text("176 of 200 hidden.")
    page.get_by_label("Find columns by name, label or value").fill("_19")
    expect(page.locator("#columns li")).to_have_count(10)
    page.get_by_label("Go to answer_199").click()
    expect(page.locator("#charts article").first).to_have_attribute("data-attribute", "answer_199")
    page.get_by_label("Find columns by name, label or value").fill("nowhere")
    expect(page.locator("#columns-status")).to_have_text("No column matches “nowhere”.")
    page.reload()
    rest(page)
    assert page.locator("#charts article").count() == 25


def test_one_of_many_values_is_found_by_its_name(enter, wide):
    page = enter(wide.url).visit("many.pview")
    told = card(page, "postcode").locator(".more")
    expect(told).to_have_text("The 12 most frequent of 600 values.")
    assert len(codes(page, "postcode")) == 12
    page.get_by_label("Find columns by name, label or value").fill("post 12")
    expect(page.locator("#columns li")).to_have_count(1)
    field = page.get_by_label("Add or remove a value of postcode")
    field.fill("nowhere")
    field.press("Enter")
    expect(told).to_contain_text("No value contains")
    field.fill("post 123")
    expect(told).to_contain_text("1 of 600 values match")
    field.press("Enter")
    assert shows(page, "post 123") == "postcode IN ('post 123')"
    page.locator("#reset").click()
    page.locator("#tab-table").click()
    expect(page.locator("#panel-table")).to_contain_text("The 500 largest groups")
    assert page.locator("#panel-table tbody tr").count() == 500
    lines = saved(page, "the table", "CSV").read_text().splitlines()
    assert sum(not line.startswith("#") for line in lines) == 601


def test_waiting_and_a_server_that_ended_are_told(enter, hospital):
    running = explore({"hospital.pview": hospital})
    person = enter(running.url)
    person.expected = ("ERR_",)  # the browser logs what it could not reach
    page = person.visit()
    held = Held(page, "**/api/histograms")
    page.locator("#where").fill("age < 90 OR ward = 'surgery'")
    page.locator("#run").click()
    page.wait_for_selector("body.waiting", state="attached")
    held.let_all_go()
    shows(page, "OR")
    expect(page.locator("body")).not_to_have_class("waiting")
    count = page.locator("#count").inner_text()
    running.stop()
    bar(page, "age", 30).click()
    expect(page.locator("#error")).to_contain_text("does not answer")
    expect(page.locator("#count")).to_have_text(count)
    page.get_by_role("button", name="Remove the custom SQL").click()
    shows(page, "everything")
    bar(page, "age", 30).click()
    shows(page, "age >= 30")  # the page computes this itself
    expect(page.locator("#error")).to_be_empty()


def test_the_rate_of_an_outcome_by_group_by_quarter_and_what_goes_with_it(visitor):
    page = visitor.visit()
    choose(page, "Show", "rate")
    choose(page, "Outcome", "readmitted")
    assert "rate of readmitted = true: " in spoken(page, "age", 0)
    assert card(page, "ward").locator("text.tick").last.text_content().endswith("%")
    expect(page.locator("#measured")).to_contain_text("Overall rate of readmitted = true: ")
    choose(page, "Bars of admitted", "quarter")
    labels = every_label(page, "admitted")
    assert len(labels) == 20
    assert labels[0].startswith("2020 Q1: rate of readmitted = true: ")
    choose(page, "Outcome", "admission")
    page.get_by_role("button", name="What goes with this?", exact=True).click()
    expect(page.locator("#columns .title").first).to_have_text("Clearly associated")
    first = page.locator("#columns li:not(.title) button").first.inner_text()
    assert first in ("diagnosis", "ward", "stay_days")
    assert "at least" in page.locator("#columns li:not(.title)").first.inner_text()
    page.get_by_role("button", name=f"Go to {first}", exact=True).click()
    expect(page.locator(f"#pinned [data-attribute={first}]")).to_be_visible()


def test_the_largest_come_first_with_the_certainty_of_their_order(visitor):
    page = visitor.visit()
    choose(page, "Order of values", "count")
    counts = [float(numbers_in(label)[0]) for label in every_label(page, "region")]
    assert counts == sorted(counts, reverse=True)
    brush(page, "age", 0.05, 0.1)
    shows(page, "age")
    assert card(page, "region").locator("path.bracket").get_attribute("d").count("M") >= 1
