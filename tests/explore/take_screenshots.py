"""Takes the pictures of docs/explorer.md: `python tests/explore/take_screenshots.py`, from the root of the
repository.
"""

from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from hdpview.build import build
from hdpview.demo import hospital_schema, hospital_table
from hdpview.explore.notebook import explore
from hdpview_bench.gesture import launch_chromium

IMAGES = Path("docs/images")
MOST_BYTES = 150_000


def shot(page: Page, name: str) -> None:
    path = IMAGES / name
    page.mouse.move(5, 5)
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


def main() -> None:
    running = explore({"admissions.pview": build(hospital_table(), hospital_schema(), 1.0)})
    with sync_playwright() as playwright:
        browser = launch_chromium(playwright)
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
        browser.close()
    running.stop()


if __name__ == "__main__":
    main()
