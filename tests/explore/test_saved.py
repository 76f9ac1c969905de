"""What is saved is what was seen: the picture, the CSV, the report and the reopened link of ten states of the
page say what the screen says, served and published.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from playwright.sync_api import Browser, Page, expect
from visitor import PATIENCE_MS, bar, brush, card, picture, saves, unfold

from hdpview.explore.notebook import Explorer
from hdpview.pview import PView

SVG = "{http://www.w3.org/2000/svg}"
INTERVALS = {"band": "interval", "whisker": "interval"}  # bands where bars stand close
LAYERS = ("bar", "interval", "point", "line", "beyond", "brush", "other", "overall", "bracket")


def _rest(page: Page) -> None:
    page.wait_for_selector("body[data-shown]")


def _choose(page: Page, label: str, value: str) -> None:
    page.get_by_label(label, exact=True).select_option(value)
    _rest(page)


def _brushed(page: Page) -> None:
    brush(page, "age", 0.65, 0.9)
    page.wait_for_selector("body[data-shown*=age]")


def _female(page: Page) -> None:
    bar(page, "sex", 0).click()
    page.wait_for_selector("body[data-shown*=Female]")


def _percent(page: Page) -> None:
    _brushed(page)
    _choose(page, "Show", "percent")


def _ordered(page: Page) -> None:
    _female(page)
    _choose(page, "Order of values", "count")


def _rate(page: Page) -> None:
    _brushed(page)
    _choose(page, "Show", "rate")
    _choose(page, "Outcome", "smoker")
    _choose(page, "Order of values", "count")


def _mean(page: Page) -> None:
    _female(page)
    _choose(page, "Show", "mean")
    _choose(page, "Outcome", "cost")


def _log(page: Page) -> None:
    _brushed(page)
    page.locator("#log").check()
    _rest(page)


def _coarse(page: Page) -> None:
    _choose(page, "Bars of age", "10")
    brush(page, "age", 0.45, 0.75)
    page.wait_for_selector("body[data-shown*=age]")


def _against(page: Page) -> None:
    _female(page)
    page.locator("#tab-compare").click()
    page.get_by_role("button", name="Keep the active filter as A").click()
    bar(page, "sex", 0).click()
    bar(page, "sex", 1).click()
    page.wait_for_selector("body[data-shown*=Male]")
    page.wait_for_function("document.querySelectorAll('[data-attribute=diagnosis] text.number').length > 0")
    expect(card(page, "diagnosis").locator("text.number:has-text('◆')").first).to_be_visible()


# A state of the page, and the chart that is saved in it.
STATES: dict[str, tuple[Callable[[Page], None], str]] = {
    "all records": (lambda page: None, "region"),
    "brush": (_brushed, "age"),
    "percent and brush": (_percent, "ward"),
    "order": (_ordered, "diagnosis"),
    "rate, order and brush": (_rate, "diagnosis"),
    "mean": (_mean, "ward"),
    "log scale and brush": (_log, "stay_days"),
    "bars of ten years, brushed": (_coarse, "age"),
    "line of months": (_female, "admitted"),
    "against A": (_against, "diagnosis"),
}


def _told(page: Page, name: str) -> dict[str, list[str]]:
    """What the screen says: for each value its number and interval, as text without signs."""
    labels = card(page, name).locator(".hit").evaluate_all("all => all.map((one) => one.ariaLabel)")
    told = {}
    for label in labels:
        value, words = re.fullmatch(r"(.+?): ((?:about|rate|mean|not) .*)", label).groups()  # type: ignore[union-attr]
        found = re.search(r"([−\d.,]+)%? \(likely ([−\d.,]+)%? to ([−\d.,]+)%?\)", words)
        if "of these records" in words and page.get_by_label("Show", exact=True).input_value() == "percent":
            found = re.search(r"([\d.,]+)% \(likely ([\d.,]+)% to ([\d.,]+)%\) of these", words)
        told[value] = [text.replace(",", "").replace("−", "-") for text in found.groups()] if found else []
    return told


def _layers(root: ET.Element) -> dict[str, int]:
    """How many pieces of each kind a picture has."""
    found = dict.fromkeys(LAYERS, 0)
    for path in root.iter(f"{SVG}path"):
        kind = (path.get("class") or "").split(" ")[0]
        kind = INTERVALS.get(kind, kind)
        if kind in found:
            found[kind] += (path.get("d") or "").count("M")
    return found


def _screen_layers(page: Page, name: str) -> dict[str, int]:
    drawn = (
        card(page, name)
        .locator("svg path")
        .evaluate_all(
            "all => all.map((one) => [one.getAttribute('class').split(' ')[0], one.getAttribute('d')])"
        )
    )
    found = dict.fromkeys(LAYERS, 0)
    for layer, outline in drawn:
        kind = INTERVALS.get(layer, layer)
        if kind in found:
            found[kind] += outline.count("M")
    return found


def _saved(page: Page, name: str, kind: str, folder: Path) -> Path:
    with page.expect_download() as download:
        saves(page, name, kind)
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


@pytest.fixture(params=["served", "published"])
def home(request: pytest.FixtureRequest, explorer: Explorer, hospital: PView, tmp_path: Path) -> str:
    if request.param == "served":
        return f"{explorer.url}#view=hospital.pview"
    hospital.publish(tmp_path / "hospital.html")
    return (tmp_path / "hospital.html").resolve().as_uri()


@pytest.mark.parametrize("state", STATES)
def test_what_is_saved_is_what_was_seen(browser: Browser, home: str, state: str, tmp_path: Path) -> None:
    """Numbers, intervals, filter, labels, marks and the budget of the screen are in every file and link."""
    page = browser.new_page(viewport={"width": 1400, "height": 1000}, accept_downloads=True)
    page.set_default_timeout(PATIENCE_MS)
    page.goto(home)
    _rest(page)
    unfold(page)
    act, name = STATES[state]
    act(page)
    told = _told(page, name)
    assert told
    where = page.evaluate("document.getElementById('where').value") or "all records"
    shown = card(page, name).locator("text.number, text.name").all_text_contents()

    root = ET.parse(_saved(page, name, "SVG", tmp_path)).getroot()
    texts = [node.text or "" for node in root.iter(f"{SVG}text")]
    caption = " ".join(texts)
    own = [] if page.locator(f"[data-attribute={name}].filtered").count() else [where]
    assert all(part in caption for part in (*own, "ε = 1", f"by {name}"))
    is_row = card(page, name).locator(".rows").count() > 0
    if is_row:
        assert set(shown) <= set(texts)
    assert _layers(root) == _screen_layers(page, name)

    lines = _saved(page, name, "CSV", tmp_path).read_text().splitlines()
    notes = [line for line in lines if line.startswith("# ")]
    rows = [
        re.split(r",(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)", line) for line in lines if not line.startswith("# ")
    ][1:]
    assert all(any(part in note for note in notes) for part in (*own, "ε = 1"))
    assert {row[0]: row[1:4] for row in rows if row[1]} == {key: ends for key, ends in told.items() if ends}
    assert [row[0] for row in rows][: len(told)] == list(told)

    with page.expect_download() as download:
        page.get_by_role("button", name="Report").click()
    report = download.value.path().read_text()
    figure = re.search(rf"<figure><h3>([^<]* by {name}\b[^<]*)</h3>(<svg.*?</svg>)", report, re.DOTALL)
    assert figure is not None
    drawn = ET.fromstring(
        figure[2].replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
        if "xmlns=" not in figure[2][:200]
        else figure[2]
    )
    assert _layers(drawn) == _layers(root)
    assert figure[1] == texts[0]
    assert ".plot .bar" in report

    link = page.url
    page.goto("about:blank")
    page.goto(link)
    _rest(page)
    if state == "against A":
        expect(card(page, name).locator("text.number:has-text('◆')").first).to_be_visible()
    assert _told(page, name) == told
    assert _screen_layers(page, name) == _layers(root)
    page.context.close()


def test_a_heatmap_is_saved_as_it_is_seen(browser: Browser, home: str, tmp_path: Path) -> None:
    """In percent of the row, the picture's title, its cells and the CSV say so, with intervals."""
    page = browser.new_page(viewport={"width": 1400, "height": 1000}, accept_downloads=True)
    page.goto(home)
    _rest(page)
    _female(page)
    _choose(page, "Across", "admission")
    _choose(page, "Down", "ward")
    _choose(page, "Cells show", "row")
    heatmap = page.locator("#panel-heatmap svg[aria-label*='admission and ward']")
    expect(heatmap).to_contain_text("percent of the row")
    cells = heatmap.locator("text[text-anchor=middle]").all_text_contents()
    root = ET.parse(_saved(page, "the heatmap", "SVG", tmp_path)).getroot()
    texts = [node.text or "" for node in root.iter(f"{SVG}text")]
    assert texts[0] == "Percent of the row by admission (across) and ward (down)"
    assert "sex IN ('Female')" in " ".join(texts)
    assert set(cells) <= set(texts)
    rows = [row.split(",") for row in _saved(page, "the heatmap", "CSV", tmp_path).read_text().splitlines()]
    head = next(row for row in rows if row[0] == "ward")
    assert head == ["ward", "admission", "percent of row", "percent of row_lower", "percent of row_upper"]
    numbers = [row for row in rows if row[0] == "surgery"]
    assert len(numbers) == 3
    for _, _, value, lower, upper in numbers:
        assert f"{value}%" in cells
        assert float(lower) <= float(value) <= float(upper)
    picture(page, "heatmap-percent")
    page.context.close()


def test_a_statement_is_saved_and_linked(browser: Browser, explorer: Explorer, tmp_path: Path) -> None:
    """The file of a statement claims no filter that was not applied; the link restores the statement."""
    page = browser.new_page(viewport={"width": 1400, "height": 1000}, accept_downloads=True)
    page.goto(f"{explorer.url}#view=hospital.pview")
    _rest(page)
    _brushed(page)
    page.locator("#tab-select").click()
    field = page.get_by_label("A SELECT statement over the table view")
    field.fill("SELECT ward, COUNT(*) AS n FROM view GROUP BY ward ORDER BY n DESC")
    page.get_by_role("button", name="Run the statement").click()
    expect(page.locator("#panel-select tbody tr")).to_have_count(8)
    notes = [
        line
        for line in _saved(page, "the result", "CSV", tmp_path).read_text().splitlines()
        if line[0] == "#"
    ]
    assert not any("age >=" in note for note in notes)
    assert any("SELECT ward, COUNT(*) AS n FROM view" in note for note in notes)
    page.reload()
    _rest(page)
    expect(field).to_have_value("SELECT ward, COUNT(*) AS n FROM view GROUP BY ward ORDER BY n DESC")
    expect(page.locator("#panel-select tbody tr")).to_have_count(8)
    page.context.close()
