"""Below and beside the charts: looking closer, taking results away, and what is protected."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from playwright.sync_api import expect
from visitor import Visitor, bar, brush, grain, number, picture, saves, shown_count, shows

from hdpview.pview import PView
from hdpview.query.interval.statistics import compare_shares


def test_looking_closer(visitor: Visitor, hospital: PView) -> None:
    """Heatmap, groups, means with intervals and a comparison with its verdict, under the filter."""
    page = visitor.visit()
    brush(page, "age", 0.65, 0.9)
    where = shows(page, "age")
    page.get_by_label("Down", exact=True).select_option("stay_days")
    page.wait_for_selector("#panel-heatmap svg[aria-label*=stay_days]")
    cells = page.locator("#panel-heatmap path.cells").evaluate_all(
        "all => all.map((one) => one.getAttribute('d')).join('')"
    )
    assert cells.count("M") == hospital.schema["age"].size * hospital.schema["stay_days"].size
    assert page.locator("#blocks").count() == 0
    picture(page, "heatmap")
    page.locator("#tab-table").click()
    page.locator("select[aria-label='Group by']").select_option("diagnosis")
    page.wait_for_selector("#panel-table th:has-text('cancer')")
    rows = hospital.sql(
        f"SELECT diagnosis, COUNT(*) AS n FROM view WHERE {where} GROUP BY diagnosis ORDER BY n DESC",
        as_="pyarrow",
    ).to_pylist()
    assert page.locator("#panel-table tbody tr").count() == len(rows)
    assert page.locator("#panel-table tbody tr th[scope=row]").first.inner_text() == rows[0]["diagnosis"]
    assert page.locator("#panel-table tr.faint").count() == sum(row["n_lower"] <= 0 for row in rows)
    picture(page, "groups")
    page.locator("#tab-numbers").click()
    mean = hospital.sql(f"SELECT AVG(age) AS m FROM view WHERE {where}", as_="pyarrow")["m"][0].as_py()
    shown_mean = page.locator("#panel-numbers tr:has-text('age') td").first
    expect(shown_mean).to_have_text(re.compile(r"\d"), timeout=20_000)
    assert float(shown_mean.inner_text().replace(",", "")) == pytest.approx(mean, abs=0.051)
    quartiles = page.locator("#panel-numbers tr:has-text('age') td.number").all_inner_texts()[1:]
    assert all(text.isdigit() for text in quartiles)  # of whole numbers
    picture(page, "numbers")
    page.locator("#tab-compare").click()
    page.get_by_role("button", name="Keep the active filter as A").click()
    page.locator("#reset").click()
    page.get_by_label("Breakdown by").select_option("diagnosis")
    expect(page.locator("#panel-compare .verdict")).to_contain_text("A and B really differ in diagnosis")
    picture(page, "compare")


def test_rates_by_group(visitor: Visitor, hospital: PView) -> None:
    """A rate on every chart is the view's, with its interval, under the filter."""
    page = visitor.visit()
    bar(page, "sex", 0).click()
    where = shows(page, "Female")
    page.get_by_label("Show", exact=True).select_option("rate")
    page.get_by_label("Outcome", exact=True).select_option("readmitted")
    page.wait_for_selector("body[data-shown]")
    for code, ward in enumerate(hospital.schema["ward"].labels()):
        label = bar(page, "ward", code).get_attribute("aria-label") or ""
        told = re.findall(r"rate of readmitted = true: ([\d.]+)% \(likely ([\d.]+)% to ([\d.]+)%\)", label)[0]
        rate = hospital.rate("readmitted", f"{where} AND ward = '{ward}'")
        for text, end in zip(told, (rate.estimate, rate.lower, rate.upper), strict=True):
            digits = len(text.partition(".")[2])
            assert float(text) == pytest.approx(100 * float(end), abs=0.51 * 10**-digits)  # type: ignore[arg-type]
    picture(page, "rates")


def test_charts_are_found_and_rescaled(visitor: Visitor) -> None:
    """Typing hides the charts of other attributes; a log scale raises small bars and keeps the numbers."""
    page = visitor.visit()
    page.get_by_label("Find columns by name, label or value").fill("SURG")
    expect(page.locator("#columns li")).to_have_count(1)
    expect(page.locator("#columns li")).to_contain_text("has “surgery”")
    page.get_by_label("Find columns by name, label or value").fill("")
    drawn = "() => document.querySelector('[data-attribute=stay_days] path.bar').getAttribute('d')"
    words = bar(page, "stay_days", 9).get_attribute("aria-label")
    before = page.evaluate(drawn)
    page.locator("#log").check()
    page.wait_for_selector("body[data-shown]")
    assert page.evaluate(drawn) != before
    assert bar(page, "stay_days", 9).get_attribute("aria-label") == words
    page.locator("#log").uncheck()
    page.wait_for_selector("body[data-shown]")
    assert page.evaluate(drawn) == before


def test_blocks_are_drawn(visitor: Visitor) -> None:
    """The heatmap of a view that is made of blocks shows their outlines on request."""
    page = visitor.visit("blocks.pview")
    page.locator("#blocks").check()
    page.wait_for_selector("#panel-heatmap path.blocks", state="attached")
    expect(page.locator("#panel-heatmap .result")).to_contain_text("outlines of the view's blocks")


def test_results_are_taken_away(visitor: Visitor, hospital: PView, tmp_path: Path) -> None:
    """Tables are saved as CSV and Parquet with intervals, charts as SVG and PNG; SQL and Python that say the
    same are copied.
    """
    page = visitor.visit()
    page.locator("#tab-table").click()
    page.locator("select[aria-label='Group by']").select_option("sex")
    page.wait_for_selector("#panel-table th:has-text('Female')")
    kinds = {"the table": ("CSV",), "age": ("PNG", "SVG")}
    saved: dict[str, Path] = {}
    for what, endings in kinds.items():
        for kind in endings:
            with page.expect_download() as download:
                saves(page, what, kind)
            saved[kind] = tmp_path / download.value.suggested_filename
            download.value.save_as(saved[kind])
    with page.expect_download() as download:
        saves(page, "the table", "Parquet")
    table = pq.read_table(download.value.path())
    assert {"sex", "records", "records_lower", "records_upper"} <= set(table.column_names)
    title, where, origin, head, *rows = saved["CSV"].read_text().splitlines()
    assert (title, where) == ("# Records by sex", "# Filter: all records")
    assert origin == "# hospital.pview; ε = 1; 95% typical intervals"
    assert head == "sex,records,records_lower,records_upper,share,share_lower,share_upper"
    assert table.num_rows == 3 == len(rows)
    assert re.fullmatch(r"Female,\d+,\d+,\d+,\d+\.\d+,\d+\.\d+,\d+\.\d+", rows[0])
    assert saved["PNG"].read_bytes().startswith(b"\x89PNG")
    assert saved["PNG"].stat().st_size > 5_000
    assert "Records by age" in saved["SVG"].read_text()
    assert "NOT PRIVATE" not in saved["SVG"].read_text()
    bar(page, "sex", 0).click()
    where = shows(page, "sex")
    page.locator("#copy-sql").click()
    expect(page.locator("#said")).to_have_text("SQL copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"SELECT COUNT(*) FROM view WHERE {where}"
    page.locator("#copy-python").click()
    expect(page.locator("#said")).to_have_text("Python copied")
    program = page.evaluate("navigator.clipboard.readText()")
    compile(program, "copied", "exec")
    assert "view.count(" in program


def test_cells_are_read_and_drilled_into(visitor: Visitor, hospital: PView) -> None:
    """Arrows read the heatmap's cells as `view.sql` counts them; Enter and a drag filter by both attributes,
    in one step.
    """
    page = visitor.visit()
    page.get_by_label("Down", exact=True).select_option("ward")
    heatmap = page.locator("#panel-heatmap svg[aria-label*=ward]")
    heatmap.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    expect(page.locator("#cell")).to_contain_text("surgery × 2: ")
    told = page.locator("#cell").inner_text().removeprefix("surgery × 2: about ").split(" (")[0]
    counted = hospital.count("age = 2 AND ward = 'surgery'")
    step = grain(counted.lower, counted.upper)
    assert float(told.replace(",", "")) == pytest.approx(counted.estimate, abs=0.51 * step)
    page.keyboard.press("Enter")
    where = shows(page, "ward IN", "age")
    assert where == "age >= 2 AND age < 3 AND ward IN ('surgery')"
    assert shown_count(page) == pytest.approx(number(hospital, where))
    page.locator("#undo").click()
    assert shows(page, "everything") == ""
    heatmap.scroll_into_view_if_needed()
    box = heatmap.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 40, steps=3)
    page.mouse.up()
    where = shows(page, "age", "ward IN ('general medicine', 'surgery')")
    assert shown_count(page) == pytest.approx(number(hospital, where))


def test_two_filters_share_out_side_by_side(visitor: Visitor, hospital: PView) -> None:
    """Shares under two filters and their differences are the view's; only where the difference's interval
    leaves out 0 is one called larger; shares of an attribute that is itself filtered are refused.
    """
    page = visitor.visit()
    young, old = "age < 30", "age >= 60"
    page.locator("#tab-compare").click()
    for where in (young, old):
        page.locator("#where").fill(where)
        page.locator("#where").press("Control+Enter")
        shows(page, where)
        if where == young:
            page.get_by_role("button", name="Keep the active filter as A").click()
    page.get_by_label("Breakdown by").select_option("ward")
    page.wait_for_selector("#panel-compare th:has-text('paediatrics')")
    expected = compare_shares(hospital, "ward", young, old)
    shown_rows = page.locator("#panel-compare tbody tr").evaluate_all(
        "all => all.map((one) => one.innerText.split('\\t'))"
    )
    assert [row[0] for row in shown_rows] == list(hospital.schema["ward"].labels())
    for code, (_, of_a, ends_a, of_b, ends_b, apart, ends, verdict) in enumerate(shown_rows):
        spans = (expected.first, expected.second, expected.difference)
        for told, span in zip((of_a + ends_a, of_b + ends_b, f"{apart} {ends}"), spans, strict=True):
            numbers = [float(part) for part in re.findall(r"-?[\d.]+", told.replace("−", "-"))]
            assert numbers == pytest.approx([100 * end[code] for end in span], abs=0.51)
        larger = {
            "larger in A": expected.difference.lower[code] > 0,
            "larger in B": expected.difference.upper[code] < 0,
        }
        assert verdict.strip() == next((words for words, holds in larger.items() if holds), "may be equal")
    assert any(row[-1].startswith("larger") for row in shown_rows)
    page.get_by_label("Breakdown by").select_option("age")
    expect(page.locator("#panel-compare")).to_contain_text("Choose another attribute")


def test_an_arrow_key_alone_saves_nothing(visitor: Visitor) -> None:
    """What saves opens by Enter and closes by Escape; arrows on it do nothing, as a list's would have saved
    at once.
    """
    page = visitor.visit()
    opener = page.get_by_label("More on age", exact=True)
    downloads: list[object] = []
    page.on("download", lambda download: downloads.append(download))
    opener.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Save age as PNG")).to_be_visible()
    page.keyboard.press("Tab")
    page.keyboard.press("Escape")
    expect(page.get_by_label("Save age as PNG")).to_be_hidden()
    expect(opener).to_be_focused()
    assert downloads == []


def test_what_is_protected(visitor: Visitor, hospital: PView) -> None:
    """The trust panel tells ε, its spending, the unit, the method, the public assumptions and the intervals;
    Escape closes it.
    """
    page = visitor.visit()
    page.locator("#trust-open").click()
    page.locator("#trust summary").click()
    told = page.locator("#trust").inner_text()
    titles = ["Who is protected", "Why numbers are blurred", "How to read the marks", "Technicalities"]
    assert [told.index(title) for title in titles] == sorted(told.index(title) for title in titles)
    for part in (
        "ε = 1",
        next(iter(hospital.info()["spending"])),
        "add or remove one record",
        "hdpview",
        "Northmoor",
        "Guaranteed",
        hospital.info()["risk"],
    ):
        assert part in told
    picture(page, "trust", full=False)
    page.keyboard.press("Escape")
    expect(page.locator("#trust")).to_be_hidden()
