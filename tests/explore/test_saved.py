"""What is saved is what was seen: the picture, the CSV, the report and the reopened link of ten states of the
page say what the screen says, served and published."""

import csv
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from playwright.sync_api import Page, expect
from visitor import Visitor, bar, brush, card, choose, every_label, numbers_in, rest, saved, shows

from hdpview.explore.notebook import Explorer

SVG = "{http://www.w3.org/2000/svg}"
LAYERS = ("bar", "whisker", "point", "line", "beyond", "brush", "other", "overall", "bracket")


def _brushed(page: Page) -> None:
    brush(page, "age", 0.65, 0.9)
    shows(page, "age")


def _female(page: Page) -> None:
    bar(page, "sex", 0).click()
    shows(page, "Female")


def _coarse(page: Page) -> None:
    choose(page, "Bars of age", "10")
    brush(page, "age", 0.45, 0.75)
    shows(page, "age")


def _log(page: Page) -> None:
    page.locator("#log").check()
    rest(page)


def _against(page: Page) -> None:
    page.locator("#tab-compare").click()
    page.get_by_role("button", name="Keep the active filter as A").click()
    bar(page, "sex", 0).click()
    bar(page, "sex", 1).click()
    shows(page, "Male")
    expect(card(page, "diagnosis").locator("text.number:has-text('◆')").first).to_be_visible()


def _chosen(label: str, value: str) -> Callable[[Page], None]:
    return lambda page: choose(page, label, value)


_ORDERED = _chosen("Order of values", "count")
_RATE = (_chosen("Show", "rate"), _chosen("Outcome", "smoker"))
_MEAN = (_chosen("Show", "mean"), _chosen("Outcome", "cost"))
# A state of the page: the chart that is saved in it, and how it comes about.
STATES: dict[str, tuple[str, *tuple[Callable[[Page], None], ...]]] = {
    "all records": ("region",), "brush": ("age", _brushed),
    "percent and brush": ("ward", _brushed, _chosen("Show", "percent")),
    "order": ("diagnosis", _female, _ORDERED),
    "rate, order and brush": ("diagnosis", _brushed, *_RATE, _ORDERED), "mean": ("ward", _female, *_MEAN),
    "log scale and brush": ("stay_days", _brushed, _log), "bars of ten years, brushed": ("age", _coarse),
    "line of months": ("admitted", _female), "against A": ("diagnosis", _female, _against),
}  # fmt: skip


def _told(page: Page, name: str) -> dict[str, list[str]]:
    is_percent = page.get_by_label("Show", exact=True).input_value() == "percent"
    told = {}
    for label in every_label(page, name):
        value, words = re.fullmatch(r"(.+?): ((?:about|rate|mean|not) .*)", label).groups()
        spans = re.findall(r"[−\d.,]+%? \(likely [−\d.,]+%? to [−\d.,]+%?\)(?: of these)?", words)
        span = next((each for each in spans if each.endswith("of these") == is_percent), "")
        told[value] = numbers_in(span)
    return told


def _layers(pieces: list[list[str]]) -> dict[str, int]:
    """How many pieces of each kind a picture has, from the classes and outlines of its paths."""
    # Bands stand for whiskers where bars stand close.
    kinds = [(kind.split(" ")[0].replace("band", "whisker"), outline.count("M")) for kind, outline in pieces]
    return {layer: sum(n for kind, n in kinds if kind == layer) for layer in LAYERS}


def _drawn(root: ET.Element) -> dict[str, int]:
    return _layers([[path.get("class") or "", path.get("d") or ""] for path in root.iter(f"{SVG}path")])


def _on_screen(page: Page, name: str) -> dict[str, int]:
    paths = card(page, name).locator("svg path")
    pieces = "all => all.map((one) => [one.getAttribute('class'), one.getAttribute('d')])"
    return _layers(paths.evaluate_all(pieces))


def _table(path: Path) -> tuple[list[str], list[list[str]]]:
    lines = path.read_text().splitlines()
    return [line for line in lines if line[0] == "#"], list(
        csv.reader(line for line in lines if line[0] != "#")
    )


@pytest.fixture
def page(
    request: pytest.FixtureRequest, enter: Callable[..., Visitor], explorer: Explorer, published: Path
) -> Page:
    return enter(explorer.url if request.param == "served" else published.as_uri()).visit()


# Both pages draw with the same scripts, so the published one is in every second state.
CASES = [("published" if number % 2 else "served", state) for number, state in enumerate(STATES)]


@pytest.mark.parametrize(("page", "state"), CASES, indirect=["page"])
def test_what_is_saved_is_what_was_seen(page, state):
    name, *acts = STATES[state]
    for act in acts:
        act(page)
    told, on_screen = _told(page, name), _on_screen(page, name)
    where = page.locator("#where").input_value() or "all records"
    own = ["ε = 1"] if card(page, name).locator(".clear:visible").count() else ["ε = 1", where]

    root = ET.parse(saved(page, name, "SVG")).getroot()
    texts = [node.text or "" for node in root.iter(f"{SVG}text")]
    assert all(part in " ".join(texts) for part in (*own, f"by {name}"))
    if card(page, name).locator(".rows").count():
        assert set(card(page, name).locator("text.number, text.name").all_text_contents()) <= set(texts)
    assert _drawn(root) == on_screen

    notes, (_, *rows) = _table(saved(page, name, "CSV"))
    assert all(part in " ".join(notes) for part in own)
    assert {row[0]: row[1:4] for row in rows if row[1]} == {key: ends for key, ends in told.items() if ends}
    assert [row[0] for row in rows][: len(told)] == list(told)

    with page.expect_download() as download:
        page.get_by_role("button", name="Report").click()
    report = download.value.path().read_text()
    figure = re.search(rf"<figure><h3>([^<]* by {name}\b[^<]*)</h3>(<svg.*?</svg>)", report, re.DOTALL)
    standing = re.sub(r"^<svg(?![^>]*xmlns=)", '<svg xmlns="http://www.w3.org/2000/svg"', figure[2])
    assert _drawn(ET.fromstring(standing)) == on_screen
    assert figure[1] == texts[0]
    for part in (where.replace(">", "&gt;").replace("<", "&lt;"), "Filters used", ".plot .bar", "ε = 1"):
        assert part in report
    assert "<script" not in report

    link = page.url
    page.goto("about:blank")
    page.goto(link)
    rest(page)
    if state == "against A":
        expect(card(page, name).locator("text.number:has-text('◆')").first).to_be_visible()
    assert (_told(page, name), _on_screen(page, name)) == (told, on_screen)


@pytest.mark.parametrize("page", ["published"], indirect=True)
def test_a_heatmap_is_saved_as_it_is_seen(page):
    _female(page)
    for label, value in (("Across", "admission"), ("Down", "ward"), ("Cells show", "row")):
        choose(page, label, value)
    heatmap = page.locator("#panel-heatmap svg[aria-label*='admission and ward']")
    expect(heatmap).to_contain_text("percent of the row")
    cells = heatmap.locator("text[text-anchor=middle]").all_text_contents()
    texts = [node.text or "" for node in ET.parse(saved(page, "the heatmap", "SVG")).iter(f"{SVG}text")]
    assert texts[0] == "Percent of the row by admission (across) and ward (down)"
    assert "sex IN ('Female')" in " ".join(texts)
    assert set(cells) <= set(texts)
    _, (head, *rows) = _table(saved(page, "the heatmap", "CSV"))
    assert head == ["ward", "admission", "percent of row", "percent of row_lower", "percent of row_upper"]
    for _, _, value, lower, upper in rows:
        assert f"{value}%" in cells
        assert float(lower) <= float(value) <= float(upper)


def test_a_statement_is_answered_saved_and_linked(visitor):
    visitor.expected = ("400 (Bad Request)",)
    page = visitor.visit()
    _brushed(page)
    page.locator("#tab-select").click()
    field = page.get_by_label("A SELECT statement over the table view")
    run_it = page.get_by_role("button", name="Run the statement")
    field.fill("SELECT agee FROM view")
    run_it.click()
    expect(page.locator("#panel-select .error")).to_contain_text("agee")
    statement = "SELECT ward, COUNT(*) AS n FROM view GROUP BY ward ORDER BY n DESC"
    field.fill(statement)
    run_it.click()
    expect(page.locator("#panel-select tbody tr")).to_have_count(8)
    notes, _ = _table(saved(page, "the result", "CSV"))
    assert "age >=" not in " ".join(notes)
    assert statement in " ".join(notes)
    page.reload()
    rest(page)
    expect(field).to_have_value(statement)
    expect(page.locator("#panel-select tbody tr")).to_have_count(8)
