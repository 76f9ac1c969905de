"""Charts as people expect them: percent, order, comparison, arrangement, many attributes, reports, and no
barriers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from playwright.sync_api import Browser, expect
from visitor import (
    Visitor,
    bar,
    brush,
    card,
    drawn_bars,
    number,
    numbers_of,
    picture,
    shown_count,
    shows,
)

from hdpview.build import build
from hdpview.domain import Integer, Schema
from hdpview.explore.notebook import Explorer, explore
from hdpview.pview import PView
from hdpview.query.interval.statistics import compare_shares, value_shares

AXE = (resources.files("axe_playwright_python") / "axe.min.js").read_text("utf-8")


def test_percent_and_order(visitor: Visitor, hospital: PView) -> None:
    """Counts become percent of what a chart counts, with the intervals of shares and as many digits as they
    allow; values are ordered by count, in the page as on the screen, and the link keeps both."""
    page = visitor.visit()
    page.get_by_label("Show", exact=True).select_option("percent")
    page.wait_for_selector("body[data-shown]")
    shares = value_shares(hospital, "ward")
    for text, share in zip(numbers_of(page, "ward"), 100 * shares.estimate, strict=True):
        digits = len(text.removesuffix("%").partition(".")[2])
        assert float(text.removesuffix("%")) == pytest.approx(share, abs=0.51 * 10**-digits)
    assert all(
        tick.endswith("%")
        for tick in card(page, "age").locator("text.tick[text-anchor=end]").all_text_contents()
    )
    page.get_by_label("Order of values").select_option("count")
    page.wait_for_selector("body[data-shown]")
    page.reload()
    page.wait_for_selector("body[data-shown]")
    told = bar(page, "ward", 1).get_attribute("aria-label") or ""
    low, high = re.findall(r"\(likely ([\d.]+)% to ([\d.]+)%\) of these records", told)[0]
    assert low != high
    assert float(low) == pytest.approx(100 * shares.lower[1], abs=0.06)
    assert float(high) == pytest.approx(100 * shares.upper[1], abs=0.06)
    codes = (
        card(page, "ward").locator(".hit").evaluate_all("all => all.map((one) => Number(one.dataset.code))")
    )
    assert codes == np.argsort(-shares.estimate, kind="stable").tolist()
    picture(page, "percent")


def test_ticks_stand_at_their_values(visitor: Visitor) -> None:
    """A label of the value axis lies as high as a bar of that many records."""
    page = visitor.visit()
    ticks = (
        card(page, "sex")
        .locator("text.tick")
        .evaluate_all("all => all.map((one) => [one.textContent, Number(one.getAttribute('x'))])")
    )
    places = dict(ticks)
    bars = drawn_bars(page, "sex")
    label = bar(page, "sex", 0).get_attribute("aria-label") or ""
    count = float(label.split(": about ")[1].split(" (")[0].replace(",", ""))
    assert bars[0][0] / count == pytest.approx((places["20K"] - places["0"]) / 20_000, rel=0.01)


def test_every_chart_is_compared(visitor: Visitor, hospital: PView) -> None:
    """Under a filter charts show the shape of all records beside it, then that of group A, which has a
    name."""
    page = visitor.visit()
    assert card(page, "age").locator("path.other").get_attribute("d") == ""
    bar(page, "sex", 0).click()
    shows(page, "Female")
    assert card(page, "age").get_attribute("data-other") == "all"
    assert card(page, "sex").get_attribute("data-other") == "none"  # it is not filtered by anything else
    all_records = card(page, "age").locator("path.other").get_attribute("d")
    page.locator("#tab-compare").click()
    page.get_by_label("Name of group A").fill("women")
    page.get_by_role("button", name="Keep the active filter as A").click()
    page.get_by_role("button", name="Remove the filter on sex").click()
    bar(page, "ward", 1).click()
    shows(page, "surgery")
    expect(page.get_by_label("Compare every chart with").locator("option:checked")).to_have_text(
        "women (filter A)"
    )
    assert card(page, "age").get_attribute("data-other") == "A"
    assert card(page, "age").locator("path.other").get_attribute("d") != all_records
    expect(page.locator("#panel-compare .verdict")).to_contain_text("women and B")
    bar(page, "admission", 0).hover()
    expect(card(page, "admission").locator(".tip")).to_contain_text("among women: ")
    expected = compare_shares(hospital, "admission", "sex = 'Female'", "ward = 'surgery'").difference
    real = [code for code in range(3) if expected.lower[code] > 0 or expected.upper[code] < 0]
    marked = card(page, "admission").locator("text.number:has-text('◆')")
    expect(marked).to_have_count(len(real))
    assert marked.evaluate_all("all => all.map((one) => Number(one.dataset.of))") == real
    page.get_by_label("Compare every chart with").select_option("view blocks.pview")
    page.wait_for_selector("[data-attribute=age][data-other=view]")
    picture(page, "overlaid")


def test_ranges_are_moved_and_get_other_ends(visitor: Visitor) -> None:
    """A drag inside a range moves it, a drag at its end changes that end; values of a category are dragged
    over."""
    page = visitor.visit()
    brush(page, "age", 0.405, 0.605)
    assert shows(page, "age >= 38") == "age >= 38 AND age < 59"
    brush(page, "age", 0.5, 0.6)
    assert shows(page, "age >= 47") == "age >= 47 AND age < 68"
    brush(page, "age", 68 / 96 - 0.003, 0.855)
    assert shows(page, "age < 83") == "age >= 47 AND age < 83"
    card(page, "age").get_by_label("Clear age").click()
    shows(page, "everything")
    first, last = bar(page, "ward", 1).bounding_box(), bar(page, "ward", 3).bounding_box()
    assert first is not None
    assert last is not None
    page.mouse.move(first["x"] + 20, first["y"] + 8)
    page.mouse.down()
    page.mouse.move(last["x"] + 20, last["y"] + 8, steps=4)
    page.mouse.up()
    assert shows(page, "oncology") == "ward IN ('surgery', 'cardiology', 'oncology')"
    page.locator("#undo").click()
    assert shows(page, "everything") == ""


def test_simple_sql_becomes_brushes(visitor: Visitor, hospital: PView) -> None:
    """Conditions that brushes and clicks can say become brushes, chips and marks; others stay text."""
    page = visitor.visit()
    for written, chips in (
        ("age BETWEEN 20 AND 40 AND ward IN ('surgery')", ["age: 20 to 40 ✕", "ward: surgery ✕"]),
        ("smoker IS NULL AND stay_days < 4", ["stay_days: 0 to 3 ✕", "smoker: (missing) ✕"]),
        ("age >= 60", ["age: 60 or more ✕"]),
        ("admitted >= DATE '2024-01-01'", ["admitted: 2024-01 to 2024-12 ✕"]),
        ("sex <> 'Female' AND cost < 700", ["custom SQL ✕"]),
    ):
        page.locator("#where").fill(written)
        page.locator("#run").click()
        expect(page.locator("#chips button")).to_have_text(chips)
        page.wait_for_selector("body[data-shown]")
        assert shown_count(page) == pytest.approx(number(hospital, written))


def test_the_filter_survives_a_change_of_view(visitor: Visitor, blocky: PView) -> None:
    """Another view of the same schema opens under the same filter."""
    page = visitor.visit()
    bar(page, "ward", 1).click()
    where = shows(page, "surgery")
    page.get_by_label("View", exact=True).select_option("blocks.pview")
    expect(page).to_have_title("blocks.pview – hdpview")
    assert shows(page, "surgery") == where
    assert shown_count(page) == pytest.approx(number(blocky, where))


def test_means_by_group(visitor: Visitor, hospital: PView) -> None:
    """A mean on every chart and in the table of groups, with its interval, as the view has it."""
    page = visitor.visit()
    page.get_by_label("Show", exact=True).select_option("mean")
    page.get_by_label("Outcome", exact=True).select_option("age")
    page.wait_for_selector("body[data-shown]")
    page.get_by_label("More on ward", exact=True).click()
    page.get_by_label("Show ward as a table").click()
    expect(page.locator("#panel-table thead")).to_contain_text("mean of age")
    for code, ward in enumerate(hospital.schema["ward"].labels()):
        mean = hospital.mean("age", f"ward = '{ward}'")
        label = bar(page, "ward", code).get_attribute("aria-label") or ""
        told = re.findall(r"mean of age[^:]*: ([\d.]+) \(likely ([\d.]+) to ([\d.]+)\)", label)[0]
        shown = page.locator(f"#panel-table tr:has(th:text-is('{ward}')) td").nth(4).inner_text()
        assert shown == told[0]
        for text, end in zip(told, (mean.estimate, mean.lower, mean.upper), strict=True):
            digits = len(text.partition(".")[2])
            assert float(text) == pytest.approx(float(end), abs=0.51 * 10**-digits)  # type: ignore[arg-type]


def test_cells_show_percent_of_row_and_column(visitor: Visitor, hospital: PView) -> None:
    """The heatmap's cells are told as a share of their row, their column or all."""
    page = visitor.visit()
    page.get_by_label("Across").select_option("admission")
    page.get_by_label("Down", exact=True).select_option("ward")
    page.get_by_label("Cells show").select_option("row")
    heatmap = page.locator("#panel-heatmap svg[aria-label*='admission and ward']")
    # A picture that is drawn anew starts from its first cell again.
    expect(heatmap).to_contain_text("of the row")
    heatmap.focus()
    page.keyboard.press("ArrowDown")
    share = hospital.rate("admission = 'emergency'", "ward = 'surgery'").estimate
    expect(page.locator("#cell")).to_contain_text(") of ward surgery")
    told = page.locator("#cell").inner_text()
    percent, low, high = map(
        float, re.findall(r"([\d.]+)% \(likely ([\d.]+)% to ([\d.]+)%\) of ward", told)[0]
    )
    assert low < percent < high
    assert percent == pytest.approx(100 * share, abs=0.51)


def test_a_statement_is_answered(visitor: Visitor, hospital: PView) -> None:
    """Any SELECT is answered on the served page; a wrong one is told in words."""
    page = visitor.visit()
    page.locator("#tab-select").click()
    page.get_by_label("A SELECT statement over the table view").fill(
        "SELECT sex, AVG(stay_days) AS days FROM view GROUP BY sex ORDER BY sex"
    )
    page.get_by_role("button", name="Run the statement").click()
    expect(page.locator("#panel-select tbody tr")).to_have_count(3)
    expect(page.locator("#panel-select thead")).to_contain_text("days")
    page.get_by_label("A SELECT statement over the table view").fill("SELECT agee FROM view")
    page.get_by_role("button", name="Run the statement").click()
    expect(page.locator("#panel-select .error")).to_contain_text("agee")
    assert "Error" not in page.locator("#panel-select .error").inner_text()
    visitor.complaints = [text for text in visitor.complaints if "400 (Bad Request)" not in text]


def test_charts_are_arranged(browser: Browser, explorer: Explorer, visitor: Visitor) -> None:
    """Charts are enlarged, moved and hidden, each a step that undo takes back, and a link shows them so."""
    page = visitor.visit()
    for name, how in (
        ("cost", "Put first cost"),
        ("age", "Hide age"),
        ("sex", "Move later sex"),
        ("ward", "Enlarge ward"),
    ):
        page.get_by_label(f"More on {name}", exact=True).click()
        page.get_by_label(how, exact=True).click()
    names = page.locator("#charts h2 .name")
    assert names.all_inner_texts()[:3] == ["cost", "region", "sex"]
    assert "large" in (card(page, "ward").get_attribute("class") or "")
    other = Visitor(browser, explorer)
    other.page.goto(page.url)
    other.page.wait_for_selector("body[data-shown]")
    assert other.page.locator("#charts h2 .name").all_inner_texts() == names.all_inner_texts()
    expect(other.page.locator("#columns-status")).to_contain_text("1 of 12 hidden")
    other.leave()
    for _ in range(3):  # enlarge, later, hide
        page.locator("#undo").click()
        page.wait_for_selector("body[data-shown]")
    expect(card(page, "age")).to_be_visible()
    page.get_by_label("Show age", exact=True).uncheck()
    expect(card(page, "age")).to_have_count(0)
    page.get_by_role("button", name="Show all charts").click()
    expect(card(page, "age")).to_be_visible()


def test_a_report_is_taken_away(visitor: Visitor) -> None:
    """The report is one file with filter, count, charts, the open panel and what was looked at."""
    page = visitor.visit()
    bar(page, "sex", 0).click()
    shows(page, "Female")
    page.locator("#tab-table").click()
    page.wait_for_selector("#panel-table tbody tr")
    with page.expect_download() as download:
        page.get_by_role("button", name="Report").click()
    text = Path(download.value.path()).read_text()
    for part in (
        "Report on hospital",
        "sex: Female",
        "ε = 1",
        "likely",
        "<svg",
        "Filters looked at",
        "all records",
        "Group by",
    ):
        assert part in text
    assert "<script" not in text
    assert "<button" not in text


@pytest.fixture(scope="module")
def wide() -> Iterator[Explorer]:
    """A view of 200 attributes, under a test key."""
    names = [f"answer_{i:03d}" for i in range(200)]
    rows = np.random.default_rng(1).integers(0, 4, (300, 200))
    schema = Schema([Integer(name=name, min=0, max=3) for name in names])
    table = pa.table({name: rows[:, i] for i, name in enumerate(names)})
    running = explore({"wide.pview": build(table, schema, 2.0, method="hdpview", test_key=b"wide")})
    yield running
    running.stop()


def test_200_attributes(browser: Browser, wide: Explorer) -> None:
    """Of 200 attributes the first are shown; others are found in the list of columns, and the link keeps
    them."""
    person = Visitor(browser, wide)
    page = person.visit("wide.pview")
    assert page.locator("#charts article").count() == 24
    expect(page.locator("#columns-status")).to_contain_text("176 of 200 hidden.")
    page.get_by_label("Find columns by name, label or value").fill("_19")
    expect(page.locator("#columns li")).to_have_count(10)
    page.get_by_label("Go to answer_199").click()
    expect(page.locator("#charts article").first).to_have_attribute("data-attribute", "answer_199")
    bar(page, "answer_199", 2).click()
    shows(page, "answer_199")
    page.get_by_label("Find columns by name, label or value").fill("nowhere")
    expect(page.locator("#columns-status")).to_have_text("No column matches “nowhere”.")
    page.reload()
    page.wait_for_selector("body[data-shown]")
    assert page.locator("#charts article").count() == 25
    person.leave()


def test_a_first_visit_in_three_steps(visitor: Visitor) -> None:
    """The first visit shows three steps; closed, they stay closed until asked for."""
    page = visitor.page
    page.goto(visitor.home)
    page.wait_for_selector("body[data-shown]")
    expect(page.locator("#tour li")).to_have_count(3)
    page.get_by_role("button", name="Got it").click()
    page.reload()
    page.wait_for_selector("body[data-shown]")
    expect(page.locator("#tour")).to_be_hidden()
    page.get_by_role("button", name="How to read this").click()
    expect(page.locator("#tour")).to_be_visible()


SERIOUS = """([where, rules]) => axe
  .run(where, { resultTypes: ["violations"], ...(rules && { runOnly: rules }) })
  .then(({ violations }) => violations
    .filter(({ impact }) => ["serious", "critical"].includes(impact))
    .map(({ id, nodes }) => [id, nodes[0].html.slice(0, 200)]))"""


@pytest.mark.parametrize(("width", "schemes"), [(390, ["light"]), (1400, ["light", "dark"])])
def test_no_barriers(browser: Browser, explorer: Explorer, width: int, schemes: list[str]) -> None:
    """axe-core finds nothing serious on the page, its panels and its dialog, in light and dark, which differ
    in colours alone, so that one width is enough for dark; every id is there once."""
    person = Visitor(browser, explorer, width=width)
    page = person.visit()
    bar(page, "sex", 0).click()
    shows(page, "Female")
    page.get_by_label("More on ward").click()
    page.get_by_label("Pin ward").click()
    page.evaluate(AXE)
    found = []

    def look(where: str) -> None:
        for scheme in schemes:
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            rules = ["color-contrast"] if scheme == "dark" else None
            found.extend(page.evaluate(SERIOUS, [where, rules]))

    for tab in ("table", "numbers", "compare", "select", "heatmap"):
        page.locator(f"#tab-{tab}").click()
        page.wait_for_selector(f"#panel-{tab}:not(.waiting) .result > :not(:text('Computing…'))")
        look("body" if tab == "heatmap" else f"#panel-{tab}")
    page.locator("#trust-open").click()
    look("#trust")
    assert found == []
    ids = page.locator("[id]").evaluate_all("all => all.map((one) => one.id)")
    assert len(ids) == len(set(ids))
    person.leave()
