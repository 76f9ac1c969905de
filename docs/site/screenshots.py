"""Takes the pictures of docs/explorer.md and docs/how-to/curate.md.

`python docs/site/screenshots.py`, from the root of the repository.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from hdpview.build import build
from hdpview.demo import hospital_schema, hospital_table
from hdpview.explore.notebook import explore
from hdpview_bench.gesture import launch_chromium

TESTS = Path(__file__).parents[2] / "tests"
sys.path += [str(TESTS), str(TESTS / "curate")]

from curator import Curator, served  # noqa: E402

from clinic import write_clinic  # noqa: E402

IMAGES = Path("docs/images").resolve()  # the curator's page is served from another folder
MOST_BYTES = 150_000


def shot(page: Page, name: str) -> None:
    path = IMAGES / name
    page.screenshot(path=path)
    assert path.stat().st_size < MOST_BYTES, f"{path} is too large for the repository"


def drag(page: Page, first: int, last: int) -> None:
    """Drag over the chart of age, between two ages."""
    page.evaluate("window.scrollTo(0, 0)")
    start, end = (
        page.locator(f"[data-attribute=age] [data-code='{code}']").bounding_box() for code in (first, last)
    )
    assert start is not None
    assert end is not None
    page.mouse.move(start["x"] + 1, start["y"] + 60)
    page.mouse.down()
    page.mouse.move(end["x"] + 1, end["y"] + 60, steps=5)
    page.mouse.up()
    page.mouse.move(5, 5)


def of_explorer(browser: Browser) -> None:
    running = explore({"admissions.pview": build(hospital_table(), hospital_schema(), 1.0)})
    page = browser.new_page(viewport={"width": 1180, "height": 700})
    page.goto(running.url)
    page.wait_for_selector("body[data-shown]")
    page.get_by_role("button", name="Got it").click()
    drag(page, 62, 91)
    page.wait_for_selector("body[data-shown*=age]")
    shot(page, "explorer.png")
    page.locator("#tab-compare").click()
    page.get_by_label("Name of group A").fill("older")
    page.get_by_label("Name of group B").fill("younger")
    page.get_by_role("button", name="Keep the active filter as A").click()
    drag(page, 19, 43)
    page.wait_for_selector("body[data-shown*='age >= 19']")
    page.wait_for_selector("#panel-compare:not(.waiting) .verdict")
    page.wait_for_selector("[data-attribute=ward] text.number:has-text('◆')")
    page.evaluate("window.scrollTo(0, 0)")
    page.set_viewport_size({"width": 1180, "height": 700})
    shot(page, "explorer-compare.png")
    page.locator("#reset").click()
    page.locator("#tab-heatmap").click()
    page.get_by_label("Across").select_option("diagnosis")
    page.get_by_label("Down", exact=True).select_option("ward")
    page.get_by_label("Cells show").select_option("row")
    page.wait_for_selector("#panel-heatmap svg[aria-label*='diagnosis and ward']")
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": 1180, "height": 680})
    page.locator(".closer").evaluate(
        "one => window.scrollTo(0, one.getBoundingClientRect().top + window.scrollY - 190)"
    )
    shot(page, "explorer-heatmap.png")
    running.stop()


def of_curator(browser: Browser, folder: Path) -> None:
    write_clinic(folder / "clinic.csv")
    with served(folder / "clinic.csv") as url:
        curator = Curator(browser, url, height=860)
        page = curator.visit()
        page.locator("#suggest").click()
        page.locator("#suggest:disabled").wait_for()
        curator.checked()
        shot(page, "curate-describe.png")
        for i in range(27):
            page.get_by_label(f"Use Code{i:02d}").uncheck()
        curator.type("Values of Diagnose", "410, 428, 486, 250.6")
        curator.type("Values of Fachrichtung", "Chirurgie, Innere, Gynäkologie, HNO")
        curator.type("Values of Altersgruppe", "[0-10)\n[10-20)\n[50-60)\n[70-80)\n[80-90)")
        bounds = {"Größe": ("140", "210"), "Kosten": ("0", "10000"), "Tage": ("1", "60")}
        for name, ends in {**bounds, "Aufnahme": ("2019-01-01", "2023-12-31")}.items():
            for side, end in zip(("from", "to"), ends, strict=True):
                curator.type(f"{side} of {name}", end)
        page.wait_for_selector("[data-problems='0']")
        page.locator("#to-choose").click()
        page.get_by_label("Whose row is it").select_option("Patient_id")
        page.locator("#estimate").click()
        page.wait_for_selector("#picture[data-budgets='3']", timeout=240_000)
        shot(page, "curate-choose.png")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = launch_chromium(playwright)
        of_explorer(browser)
        of_curator(browser, Path(folder))
        browser.close()


if __name__ == "__main__":
    main()
