"""Charts as people expect them: percent, order, comparison, arrangement, many attributes, reports, and no
barriers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from playwright.sync_api import Browser, Page, expect
from visitor import Visitor, bar, brush, card, number, picture, shown_count, shows

from hdpview.build import build
from hdpview.domain import Integer, Schema
from hdpview.explore.notebook import Explorer, explore
from hdpview.pview import PView
from hdpview.query.interval.statistics import compare_shares, value_shares

AXE = (resources.files("axe_playwright_python") / "axe.min.js").read_text("utf-8")


def numbers_of(page: Page, name: str) -> list[str]:
    return card(page, name).locator(".value .number").all_inner_texts()


def test_percent_and_order(visitor: Visitor, hospital: PView) -> None:
    """Counts become percent of what a chart counts, with the intervals of shares; values are ordered by
    count, and the link keeps both."""
    page = visitor.visit()
    page.get_by_label("Records or percent").select_option("percent")
    page.wait_for_selector("body[data-shown]")
    counts = hospital.histogram("ward", as_="pyarrow")["count"].to_numpy()
    for text, share in zip(numbers_of(page, "ward"), 100 * counts / counts.sum(), strict=True):
        assert float(text.removesuffix(" %")) == pytest.approx(share, abs=0.51 if share >= 9.95 else 0.051)
    assert all(
        tick.endswith("%") for tick in card(page, "age").locator(".ticks span").all_inner_texts() if tick
    )
    page.get_by_label("Order of values").select_option("count")
    page.reload()
    page.wait_for_selector("body[data-shown]")
    shares = value_shares(hospital, "ward")
    told = bar(page, "ward", 1).get_attribute("aria-label") or ""
    low, high = re.findall(r"chart counts \(likely ([\d.]+) % to ([\d.]+) %\)", told)[0]
    assert float(low) == pytest.approx(100 * shares.lower[1], abs=0.51)
    assert float(high) == pytest.approx(100 * shares.upper[1], abs=0.51)
    ends = (
        bar(page, "ward", 1)
        .locator(".spread")
        .evaluate("one => [one, one.parentElement].map((each) => each.getBoundingClientRect().width)")
    )
    top = max(shares.estimate.max(), min(shares.upper.max(), 1.6 * shares.estimate.max()))
    assert ends[0] / ends[1] == pytest.approx((shares.upper[1] - shares.lower[1]) / top, abs=0.02)
    codes = (
        card(page, "ward")
        .locator(".value")
        .evaluate_all(
            "all => all.sort((x, y) => x.style.order - y.style.order).map((one) => Number(one.dataset.code))"
        )
    )
    assert codes == np.argsort(-counts, kind="stable").tolist()
    picture(page, "percent")


def test_ticks_stand_at_their_values(visitor: Visitor) -> None:
    """A label of the value axis lies as high as a bar of that many records."""
    page = visitor.visit()
    tick = card(page, "stay_days").locator(".ticks span").first
    places = card(page, "stay_days").evaluate(
        """one => {
          const svg = one.querySelector("svg").getBoundingClientRect();
          const tick = one.querySelector(".ticks span").getBoundingClientRect();
          const rule = one.querySelector("path.rule").getAttribute("d");
          return [(tick.top + tick.bottom) / 2 - svg.top, svg.height, rule];
        }"""
    )
    assert tick.inner_text().endswith("K")
    rule = float(places[2].split("h")[0].split(" ")[1])
    assert places[0] / places[1] == pytest.approx(rule / 120, abs=0.02)


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
    expect(page.locator("#panel-compare")).to_contain_text("women and B")
    bar(page, "admission", 0).hover()
    expect(card(page, "admission").locator(".tip")).to_contain_text("of women")
    expected = compare_shares(hospital, "admission", "sex = 'Female'", "ward = 'surgery'").difference
    real = [code for code in range(3) if expected.lower[code] > 0 or expected.upper[code] < 0]
    marked = card(page, "admission").locator(".value.differs")
    expect(marked).to_have_count(len(real))
    assert marked.evaluate_all("all => all.map((one) => Number(one.dataset.code))") == real
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
        ("admitted >= DATE '2024-01-01'", ["admitted: 2024-01 to 2024-12 ✕"]),
        ("sex <> 'Female' AND cost < 700", ["written by hand ✕"]),
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
    """From a chart's menu, means and medians by its values with their intervals, as the view has them."""
    page = visitor.visit()
    page.get_by_label("More on ward").click()
    page.get_by_label("Rates and means by ward").click()
    page.get_by_label("Measure").select_option("mean")
    page.get_by_label("Outcome", exact=True).select_option("age")
    expect(page.locator("#panel-rates thead")).to_contain_text("mean of age")
    table = hospital.sql("SELECT ward, AVG(age) AS m FROM view GROUP BY ward", as_="pyarrow").to_pylist()
    expected = {row["ward"]: (row["m"], row["m_lower"], row["m_upper"]) for row in table}
    found = page.locator("#panel-rates tbody tr")
    expect(found).to_have_count(len(hospital.schema["ward"].labels()))
    rows = found.evaluate_all("all => all.map((one) => one.innerText.split('\\t'))")
    assert [row[0] for row in rows] == hospital.schema["ward"].labels()
    for ward, mean, *_ in rows:
        value, lower, upper = expected[ward]
        assert float(mean) == pytest.approx(value, abs=0.051 * (upper - lower) + 1e-9)


def test_cells_show_percent_of_row_and_column(visitor: Visitor, hospital: PView) -> None:
    """The heatmap's cells are told as a share of their row, their column or all."""
    page = visitor.visit()
    page.get_by_label("Across").select_option("admission")
    page.get_by_label("Down").select_option("ward")
    page.get_by_label("Cells show").select_option("row")
    heatmap = page.locator("#panel-heatmap svg[aria-label*='admission and ward']")
    # A picture that is drawn anew starts from its first cell again.
    expect(heatmap).to_contain_text("of the row")
    heatmap.focus()
    page.keyboard.press("ArrowDown")
    share = hospital.rate("admission = 'emergency'", "ward = 'surgery'").estimate
    expect(page.locator("#cell")).to_contain_text(f", {round(100 * share)} % of ward surgery")


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
    """Charts are enlarged, moved and put away, and a link shows them so; those put away come back."""
    page = visitor.visit()
    for name, how in (
        ("cost", "Put cost first"),
        ("age", "Hide age"),
        ("sex", "Move sex later"),
        ("ward", "Enlarge or shrink ward"),
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
    expect(other.page.locator("#left")).to_contain_text("Put away: age.")
    other.leave()
    page.get_by_role("button", name="Show those put away").click()
    page.wait_for_selector("[data-attribute=age]")


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
        "hospital.pview",
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
    """Of 200 attributes the first are shown, others are found by name or on request, and only those are asked
    for."""
    person = Visitor(browser, wide)
    asked: list[Any] = []
    person.page.on(
        "request",
        lambda request: asked.append(request.post_data_json) if "histograms" in request.url else None,
    )
    page = person.visit("wide.pview")
    assert page.locator("#charts article").count() == 24
    assert len(asked[-1]["attributes"]) == 24
    expect(page.locator("#left")).to_contain_text("176 more attributes.")
    page.get_by_label("Show attributes whose name contains").fill("_19")
    expect(page.locator("#charts article")).to_have_count(10)
    bar(page, "answer_199", 2).click()
    shows(page, "answer_199")
    page.get_by_label("Show attributes whose name contains").fill("")
    page.get_by_role("button", name="Show more").click()
    expect(page.locator("#charts article")).to_have_count(48)
    page.wait_for_selector("[data-attribute=answer_047] .hit[aria-label*=likely]", state="attached")
    person.leave()


def test_a_first_visit_in_three_steps(visitor: Visitor) -> None:
    """The first visit shows three steps; closed, they stay closed until asked for."""
    page = visitor.visit()
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
    page.get_by_label("Pin or unpin ward").click()
    page.evaluate(AXE)
    found = []

    def look(where: str) -> None:
        for scheme in schemes:
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            rules = ["color-contrast"] if scheme == "dark" else None
            found.extend(page.evaluate(SERIOUS, [where, rules]))

    for tab in ("table", "numbers", "rates", "compare", "select", "heatmap"):
        page.locator(f"#tab-{tab}").click()
        page.wait_for_selector(f"#panel-{tab}:not(.waiting) .result > :not(:text('Computing…'))")
        look("body" if tab == "heatmap" else f"#panel-{tab}")
    page.locator("#trust-open").click()
    look("#trust")
    assert found == []
    ids = page.locator("[id]").evaluate_all("all => all.map((one) => one.id)")
    assert len(ids) == len(set(ids))
    person.leave()
