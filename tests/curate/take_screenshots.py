"""Takes the pictures of docs/how-to/curate.md: `python tests/curate/take_screenshots.py`, from the root of
the repository.
"""

import sys
import tempfile
from pathlib import Path

from curator import Curator, served
from playwright.sync_api import sync_playwright

from hdpview_bench.gesture import launch_chromium

sys.path.insert(0, str(Path(__file__).parents[1]))
from clinic import write_clinic

IMAGES = Path("docs/images").resolve()  # the page is served from another folder
MOST_BYTES = 150_000


def shot(curator: Curator, name: str) -> None:
    path = IMAGES / name
    curator.page.screenshot(path=path)
    assert path.stat().st_size < MOST_BYTES, f"{path} is too large for the repository"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        data = Path(folder) / "clinic.csv"
        write_clinic(data)
        with served(data) as url:
            browser = launch_chromium(playwright)
            curator = Curator(browser, url, height=860)
            page = curator.visit()
            page.locator("#suggest").click()
            page.locator("#suggest:disabled").wait_for()
            curator.checked()
            shot(curator, "curate-describe.png")
            for i in range(27):
                page.get_by_label(f"Use Code{i:02d}").uncheck()
            curator.type("Values of Diagnose", "410, 428, 486, 250.6")
            curator.type("Values of Fachrichtung", "Chirurgie, Innere, Gynäkologie, HNO")
            curator.type("Values of Altersgruppe", "[0-10)\n[10-20)\n[50-60)\n[70-80)\n[80-90)")
            bounds = {"Größe": (140, 210), "Kosten": (0, 10_000), "Tage": (1, 60)}
            for name, ends in {**bounds, "Aufnahme": ("2019-01-01", "2023-12-31")}.items():
                for side, end in zip(("from", "to"), ends, strict=True):
                    curator.type(f"{side} of {name}", str(end))
            page.wait_for_selector("[data-problems='0']")
            page.locator("#to-choose").click()
            page.get_by_label("Whose row is it").select_option("Patient_id")
            page.locator("#estimate").click()
            page.wait_for_selector("#picture[data-budgets='3']", timeout=240_000)
            shot(curator, "curate-choose.png")
            browser.close()


if __name__ == "__main__":
    main()
