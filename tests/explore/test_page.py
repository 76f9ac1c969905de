"""The page in a real browser: gestures, keyboard, links, errors, hostile names. What it shows is what `view.sql` says.

Screenshots go to tests/explore/artefacts/.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import hostile_names
import pyarrow.parquet as pq
import pytest
from playwright.sync_api import Browser, Locator, Page, Playwright, expect, sync_playwright

from hdpview.explore.notebook import Explorer
from hdpview.pview import PView

HOSTILE, INJECTION, QUOTE = hostile_names.HTML, hostile_names.SQL, hostile_names.SCRIPT
ARTEFACTS = Path(__file__).parent / "artefacts"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as running:
        yield running


@pytest.fixture(scope="module")
def browser(playwright: Playwright, chromium: Path) -> Iterator[Browser]:
    running = playwright.chromium.launch(executable_path=str(chromium), args=FLAGS)
    yield running
    running.close()


class Visitor:
    """A person at the page, who also notes what the console says and where requests go."""

    def __init__(self, browser: Browser, explorer: Explorer, width: int = 1400, height: int = 1000, scheme: str = "light") -> None:
        self.context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, accept_downloads=True)  # type: ignore[arg-type]
        self.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=explorer.url)
        self.context.set_default_timeout(10_000)
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.requested: set[str] = set()
        self.home = explorer.url
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda problem: self.complaints.append(str(problem)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        self.page.on("request", lambda request: self.requested.add(urlsplit(request.url).netloc or "inline"))

    def visit(self, view: str = "hospital.pview") -> Page:
        self.page.goto(f"{self.home}#view={view}")
        self.page.wait_for_selector("body[data-shown]")
        return self.page

    def leave(self) -> None:
        self.context.close()
        assert not self.complaints
        assert self.requested <= {urlsplit(self.home).netloc, "inline"}


@pytest.fixture
def visitor(browser: Browser, explorer: Explorer) -> Iterator[Visitor]:
    person = Visitor(browser, explorer)
    yield person
    person.leave()


def card(page: Page, name: str) -> Locator:
    return page.locator(f"[data-attribute={json.dumps(name)}]")


def bar(page: Page, name: str, code: int) -> Locator:
    return card(page, name).locator(f'[data-code="{code}"]')


def shows(page: Page, *parts: str) -> str:
    """Wait until the page shows a filter that has these parts; its SQL."""
    selector = "body" + "".join(f"[data-shown*={json.dumps(part)}]" for part in parts)
    page.wait_for_selector(selector, state="attached")
    return page.locator("#where").input_value()


def brush(page: Page, name: str, first: float, last: float) -> None:
    """Drag over a chart, between two shares of its width."""
    card(page, name).scroll_into_view_if_needed()
    box = card(page, name).locator("svg").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * first, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * last, box["y"] + 60, steps=4)
    page.mouse.up()


def shown_count(page: Page) -> float:
    return float(page.locator("#count").get_attribute("data-value") or "nan")


def number(view: PView, where: str) -> float:
    """The count by SQL."""
    return float(view.sql(f"SELECT COUNT(*) AS n FROM view{f' WHERE {where}' if where else ''}", as_="pyarrow")["n"][0].as_py())


def agrees(page: Page, view: PView, own: dict[str, str | None] | None = None) -> None:
    """The count and every bar of every chart are the view's answers to the SQL in the text field."""
    where = page.locator("#where").input_value()
    assert shown_count(page) == pytest.approx(number(view, where))
    for attribute in view.schema:
        under = (own or {}).get(attribute.name, where or None)
        table = view.histogram(attribute.name, under, as_="pyarrow")
        expected = table[table.column_names[-3]].to_pylist()
        labels = card(page, attribute.name).locator("[data-code]").evaluate_all("all => all.map((one) => one.getAttribute('aria-label'))")
        told = [label.removeprefix(f"{text}: ").split(" (")[0] for label, text in zip(labels, attribute.labels(), strict=True)]
        assert [float(each.replace(",", "")) for each in told] == pytest.approx([_rounded(value) for value in expected], abs=0.11)


def _rounded(value: float) -> float:
    """As the page shows it: the server sends three decimals, and large counts are shown whole."""
    sent = round(value, 3)
    return math.floor(sent + 0.5) if abs(sent) >= 100 else sent


def picture(page: Page, name: str, full: bool = True) -> None:
    ARTEFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTEFACTS / f"{name}.png", full_page=full)


def test_everything_at_first(visitor: Visitor, hospital: PView) -> None:
    """Opened, the page shows all records, a chart for every attribute, the budget, and no warning for a private view."""
    page = visitor.visit()
    agrees(page, hospital)
    assert page.locator("#charts article").count() == len(hospital.schema)
    assert "ε = 1" in page.locator("#budget").inner_text()
    expect(page.locator("#banner")).to_be_hidden()
    picture(page, "first")


def test_brushing_a_range_filters_everything_else(visitor: Visitor, hospital: PView) -> None:
    """After a drag the count and all charts are those of `view.sql` under the SQL shown; the brushed chart stays whole."""
    page = visitor.visit()
    brush(page, "age", 0.65, 0.9)
    where = shows(page, "age >= 62", "age < 87")
    assert where == "age >= 62 AND age < 87"
    agrees(page, hospital, {"age": None})
    bar(page, "sex", 0).click()
    assert shows(page, "sex IN") == "age >= 62 AND age < 87 AND sex IN ('Female')"
    agrees(page, hospital, {"age": "sex = 'Female'", "sex": "age >= 62 AND age < 87"})
    picture(page, "brushed")


def test_one_drag_is_one_step_back(visitor: Visitor) -> None:
    """Undo takes a whole drag back, redo brings it again, reset clears all and can itself be undone."""
    page = visitor.visit()
    brush(page, "age", 0.2, 0.6)
    where = shows(page, "age >=")
    bar(page, "admission", 1).click()
    both = shows(page, "admission")
    page.locator("#undo").click()
    assert shows(page, "age") == where
    page.locator("#undo").click()
    assert shows(page, "everything") == ""
    expect(page.locator("#undo")).to_be_disabled()
    page.locator("#redo").click()
    page.locator("#redo").click()
    assert shows(page, "admission") == both
    page.locator("#reset").click()
    assert shows(page, "everything") == ""
    page.locator("#undo").click()
    assert shows(page, "admission") == both


def test_values_are_picked_and_given_up(visitor: Visitor, hospital: PView) -> None:
    """Clicks on categories add and remove values; missing values can be picked; chips remove filters."""
    page = visitor.visit()
    bar(page, "region", 0).click()
    shows(page, "Northmoor")
    bar(page, "region", 2).click()
    assert shows(page, "Harrowick") == "region IN ('Northmoor', 'Harrowick')"
    bar(page, "region", 0).click()
    page.wait_for_selector("""body[data-shown="region IN ('Harrowick')"]""")
    bar(page, "smoker", 2).click()
    where = shows(page, "smoker IS NULL")
    assert where == "region IN ('Harrowick') AND smoker IS NULL"
    assert shown_count(page) == pytest.approx(number(hospital, where))
    page.get_by_role("button", name="Remove the filter on region").click()
    page.wait_for_selector("body[data-shown='smoker IS NULL']")


@pytest.mark.parametrize("name", ["age", "cost", "admitted", "systolic_bp", "stay_days"])
def test_a_bar_picked_counts_what_it_shows(visitor: Visitor, hospital: PView, name: str) -> None:
    """One bin of an ordered attribute, first or last, counts exactly what its bar says: labels, SQL and bins agree."""
    page = visitor.visit()
    values = hospital.histogram(name, as_="pyarrow")
    expected = values[values.column_names[-3]].to_pylist()
    last = hospital.schema[name].size - 1 - hospital.schema[name].nullable
    for code in (0, last):
        bar(page, name, code).focus()
        page.keyboard.press("Enter")
        page.wait_for_selector(f"[data-attribute={name}] [data-code='{code}'][aria-checked='true']", state="attached")
        shows(page, name)
        expect(page.locator("#count")).not_to_have_text("50,050")
        assert shown_count(page) == pytest.approx(expected[code], abs=1e-6)
        page.keyboard.press("Escape")
        shows(page, "everything")


def test_the_keyboard_is_enough(visitor: Visitor, hospital: PView) -> None:
    """Arrows move between bars, Enter picks, Shift extends, Escape gives up; lists do the same; tabs follow arrows."""
    page = visitor.visit()
    bar(page, "age", 0).focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert shows(page, "age >= 3") == "age >= 3 AND age < 4"
    page.wait_for_selector("[data-attribute=age] [data-code='3']:focus")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+Enter")
    assert shows(page, "age < 6") == "age >= 3 AND age < 6"
    page.keyboard.press("Escape")
    shows(page, "everything")
    page.get_by_label("age from").select_option("18")
    page.get_by_label("age to").select_option("65")
    assert shows(page, "age < 66") == "age >= 18 AND age < 66"
    page.get_by_label("Add or remove a value of ward").select_option("surgery")
    where = shows(page, "surgery")
    assert shown_count(page) == pytest.approx(number(hospital, where))
    page.locator("#tab-heatmap").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#panel-table table")).to_be_visible()
    expect(page.locator("#tab-table")).to_be_focused()


def test_sql_is_edited_and_run(visitor: Visitor, hospital: PView) -> None:
    """A condition written by hand filters all charts; a gesture after it starts anew and can be undone."""
    page = visitor.visit()
    written = "age BETWEEN 20 AND 40 OR (sex = 'Male' AND stay_days > 10)"
    page.locator("#where").fill(written)
    page.locator("#run").click()
    shows(page, "BETWEEN")
    agrees(page, hospital)
    assert page.locator("#where").input_value() == written
    bar(page, "sex", 1).click()
    assert shows(page, "sex IN") == "sex IN ('Male')"
    page.locator("#undo").click()
    assert shows(page, "BETWEEN") == written
    page.locator("#where").fill("sex = 'Female'")
    page.locator("#where").press("Control+Enter")
    shows(page, "Female")
    assert shown_count(page) == pytest.approx(number(hospital, "sex = 'Female'"))


def test_a_wrong_condition_is_told_in_words(browser: Browser, explorer: Explorer) -> None:
    """Wrong SQL shows a sentence; the page goes on with the last filter that worked, and recovers."""
    person = Visitor(browser, explorer)
    page = person.visit()
    before = page.locator("#count").inner_text()
    for wrong, word in (("agee > 3", "Did you mean 'age'"), ("age >", "SQL"), ("1; DROP TABLE view", "")):
        page.locator("#where").fill(wrong)
        page.locator("#run").click()
        expect(page.locator("#error")).to_contain_text(word or "still show")
        assert page.locator("#where").input_value() == wrong
        assert page.locator("#count").inner_text() == before
    picture(page, "error", full=False)
    page.locator("#reset").click()
    expect(page.locator("#error")).to_be_empty()
    person.complaints = [text for text in person.complaints if "400 (Bad Request)" not in text]  # the browser logs what was refused
    person.leave()


def test_a_link_restores_the_state(browser: Browser, explorer: Explorer, visitor: Visitor) -> None:
    """The copied link opens the same filter in a fresh browser; so does a reload; a broken link shows everything."""
    page = visitor.visit()
    brush(page, "age", 0.3, 0.5)
    shows(page, "age")
    bar(page, "smoker", 1).click()
    where = shows(page, "smoker")
    count = page.locator("#count").inner_text()
    page.locator("#share").click()
    expect(page.locator("#said")).to_have_text("Link copied")
    link = page.evaluate("navigator.clipboard.readText()")
    page.reload()
    assert shows(page, "smoker") == where
    other = Visitor(browser, explorer)
    other.page.goto(link)
    assert shows(other.page, "smoker") == where
    expect(other.page.locator("#count")).to_have_text(count)
    for broken in (
        "#view=hospital.pview&state=%7Bbroken",
        '#view=nothing&state={"filters":{"age":{"range":[5,1000000]},"sex":{"codes":["x"]}}}',
    ):
        other.page.goto("about:blank")
        other.page.goto(explorer.url + broken)
        assert shows(other.page, "everything") == ""
    other.leave()


def test_two_people_do_not_disturb_each_other(browser: Browser, explorer: Explorer, hospital: PView) -> None:
    """Two pages filter at the same time, and each shows its own."""
    first, second = Visitor(browser, explorer), Visitor(browser, explorer)
    one, two = first.visit(), second.visit()
    brush(one, "age", 0.1, 0.3)
    brush(two, "stay_days", 0.2, 0.7)
    wheres = shows(one, "age"), shows(two, "stay_days")
    for page, where in zip((one, two), wheres, strict=True):
        assert shown_count(page) == pytest.approx(number(hospital, where))
    first.leave()
    second.leave()


def test_looking_closer(visitor: Visitor, hospital: PView) -> None:
    """Heatmap with blocks, group-by with words for noise, means with intervals and a comparison with its verdict, under the filter."""
    page = visitor.visit()
    brush(page, "age", 0.65, 0.9)
    where = shows(page, "age")
    page.get_by_label("Down").select_option("stay_days")
    page.wait_for_selector("#panel-heatmap svg[aria-label*=stay_days]")
    assert page.locator("#panel-heatmap svg rect").count() > hospital.schema["age"].size * hospital.schema["stay_days"].size
    page.locator("#blocks").check()
    page.wait_for_selector("#panel-heatmap rect[fill=none]")
    expect(page.locator("#panel-heatmap .result")).to_contain_text("blocks")
    picture(page, "heatmap")
    page.locator("#tab-table").click()
    page.locator("select[aria-label='Group by']").select_option("diagnosis")
    page.wait_for_selector("#panel-table td:has-text('cancer')")
    rows = hospital.sql(
        f"SELECT diagnosis, COUNT(*) AS n FROM view WHERE {where} GROUP BY diagnosis ORDER BY n DESC", as_="pyarrow"
    ).to_pylist()
    assert page.locator("#panel-table tbody tr").count() == len(rows)
    assert page.locator("#panel-table tbody tr td").first.inner_text() == rows[0]["diagnosis"]
    assert page.locator("#panel-table tr.faint").count() == sum(row["n_lower"] <= 0 for row in rows)
    picture(page, "groups")
    page.locator("#tab-numbers").click()
    mean = hospital.sql(f"SELECT AVG(age) AS m FROM view WHERE {where}", as_="pyarrow")["m"][0].as_py()
    shown_mean = page.locator("#panel-numbers tr:has-text('age') strong").first
    expect(shown_mean).to_have_text(re.compile(r"\d"))
    assert float(shown_mean.inner_text().replace(",", "")) == pytest.approx(mean, abs=0.051)
    picture(page, "numbers")
    page.locator("#tab-compare").click()
    page.get_by_role("button", name="Keep the active filter as A").click()
    page.locator("#reset").click()
    expect(page.locator("#panel-compare")).to_contain_text("really differ")
    picture(page, "compare")


def test_results_are_taken_away(visitor: Visitor, hospital: PView, tmp_path: Path) -> None:
    """Tables are saved as CSV and Parquet with intervals, charts as SVG and PNG; SQL and Python that say the same are copied."""
    page = visitor.visit()
    page.locator("#tab-table").click()
    page.locator("select[aria-label='Group by']").select_option("sex")
    page.wait_for_selector("#panel-table td:has-text('Female')")
    kinds = {"the table": ("CSV", "Parquet"), "the picture of age": ("PNG", "SVG")}
    saved: dict[str, Path] = {}
    for what, endings in kinds.items():
        for kind in endings:
            with page.expect_download() as download:
                page.get_by_label(f"Save {what} as").select_option(kind)
            saved[kind] = tmp_path / download.value.suggested_filename
            download.value.save_as(saved[kind])
    assert {"sex", "n", "n_lower", "n_upper", "share"} <= set(pq.read_table(saved["Parquet"]).column_names)
    assert pq.read_table(saved["Parquet"]).num_rows == 3 == len(saved["CSV"].read_text().strip().splitlines()) - 1
    assert saved["PNG"].read_bytes().startswith(b"\x89PNG")
    assert saved["PNG"].stat().st_size > 5_000
    assert "Records by age" in saved["SVG"].read_text()
    ARTEFACTS.mkdir(exist_ok=True)
    (ARTEFACTS / "age-saved.png").write_bytes(saved["PNG"].read_bytes())
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


def test_what_is_protected(visitor: Visitor, hospital: PView) -> None:
    """The trust panel tells ε, its spending, the unit, the method, the public assumptions and the intervals; Escape closes it."""
    page = visitor.visit()
    page.locator("#trust-open").click()
    told = page.locator("#trust").inner_text()
    for part in ("ε = 1", "noise on counts", "add or remove one record", "hdpview", "Northmoor", "Guaranteed", hospital.info()["risk"]):
        assert part in told
    picture(page, "trust", full=False)
    page.keyboard.press("Escape")
    expect(page.locator("#trust")).to_be_hidden()


def test_names_that_try_to_break_out(visitor: Visitor, hostile: PView) -> None:
    """HTML, script and SQL in names and values are shown as text, can be filtered by, and nothing runs; the view is called not private."""
    page = visitor.visit("hostile.pview")
    expect(page.locator("#banner")).to_contain_text("NOT PRIVATE")
    assert page.locator("#charts h2 .name").all_inner_texts() == [HOSTILE, INJECTION]
    assert page.locator("img").count() == 0
    agrees(page, hostile)
    bar(page, HOSTILE, 0).click()
    shows(page, "DROP")
    bar(page, HOSTILE, 1).click()
    where = shows(page, "it''s")
    assert QUOTE.replace("'", "''") in where
    assert shown_count(page) == pytest.approx(number(hostile, where))
    brush(page, INJECTION, 0.15, 0.55)
    where = shows(page, "AND")
    assert shown_count(page) == pytest.approx(number(hostile, where))
    for tab in ("table", "numbers", "compare", "heatmap"):
        page.locator(f"#tab-{tab}").click()
    page.wait_for_selector("#panel-heatmap svg[aria-label]")
    page.locator("#trust-open").click()
    assert HOSTILE in page.locator("#trust").inner_text()
    assert page.locator("img").count() == 0
    page.keyboard.press("Escape")
    picture(page, "hostile")
    page.get_by_label("View", exact=True).select_option("hospital.pview")
    expect(page.locator("#banner")).to_be_hidden()
    assert shows(page, "everything") == ""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone(browser: Browser, explorer: Explorer, scheme: str) -> None:
    """At 390 pixels nothing sticks out sideways, in light and dark, in any panel."""
    person = Visitor(browser, explorer, width=390, height=844, scheme=scheme)
    page = person.visit()
    for tab in ("heatmap", "table", "numbers", "compare"):
        page.locator(f"#tab-{tab}").click()
        page.wait_for_selector(f"#panel-{tab} .result > *")
        assert page.locator("html").evaluate("one => one.scrollWidth") <= 390
    picture(page, f"phone-{scheme}")
    person.leave()


def test_light_and_dark(browser: Browser, explorer: Explorer) -> None:
    """The page follows the system's scheme, and a button switches it; text stands out from its ground in both."""
    person = Visitor(browser, explorer, scheme="dark")
    page = person.visit()
    picture(page, "dark")
    grounds = []
    for _ in range(2):
        ink, ground, quiet = page.locator("#budget").evaluate(
            "one => [getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor, getComputedStyle(one).color]"
        )
        grounds.append(ground)
        assert contrast(ink, ground) >= 7
        assert contrast(quiet, ground) >= 4.5
        page.locator("#theme").click()
    assert luminance(grounds[0]) < 0.1 < 0.8 < luminance(grounds[1])
    person.leave()


def luminance(colour: str) -> float:
    """Of `rgb(…)`, as WCAG defines it."""
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_everything_has_a_name(visitor: Visitor) -> None:
    """Every button, list, field, bar and picture has a name for a screen reader, and every id is there once."""
    page = visitor.visit()
    for tab in ("table", "numbers", "compare", "heatmap"):
        page.locator(f"#tab-{tab}").click()
        page.wait_for_selector(f"#panel-{tab} .result > *")
    nameless = page.locator("button, select, textarea, input, [role]").evaluate_all(
        "all => all.filter((one) => !(one.getAttribute('aria-label') || one.getAttribute('aria-labelledby')"
        " || one.labels?.length || one.textContent.trim()))"
        ".map((one) => one.outerHTML).filter((html) => !/role=.(alert|status)/.test(html))"
    )
    assert nameless == []
    ids = page.locator("[id]").evaluate_all("all => all.map((one) => one.id)")
    assert len(ids) == len(set(ids))
