"""From a raw export of 40 columns to a published page, on the curator's page in a real browser. Every step is
one thing that a person does. To watch the times: `python tests/curate/recorded_run.py FOLDER`.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from curator import Curator, served_by_command
from playwright.sync_api import Browser, sync_playwright

from hdpview_bench.gesture import launch_chromium

Steps = list[tuple[str, float]]


def record(browser: Browser, data: Path, environment: dict[str, str] | None = None) -> Steps:
    """What was done, and the seconds that each step took. The view, its page and its card lie beside the
    table. environment: of the command, if not ours."""
    steps: Steps = []

    def step(words: str, act: Callable[[], object]) -> None:
        started = time.monotonic()
        act()
        steps.append((words, time.monotonic() - started))

    started = time.monotonic()
    with served_by_command(data, environment) as url:
        curator = Curator(browser, url)
        page = curator.visit()
        steps.append((f"hdpview curate {data.name}", time.monotonic() - started))
        curator.picture("1-describe")
        step("take the suggestions", lambda: (page.locator("#suggest").click(), _fewer_problems(curator)))
        page.locator("#learning summary").click()
        step(
            "say what learning may cost", lambda: curator.page.get_by_label("Epsilon for learning").fill("2")
        )
        page.locator("#learn").click()
        unit = page.get_by_label("Whose row is it, for learning")
        step("say whose row it is", lambda: unit.select_option("Patient_id"))
        step(
            "learn the rest",
            lambda: (page.locator("#learn").click(), page.wait_for_selector("[data-problems='0']")),
        )
        curator.picture("2-described")
        step("go to the budget", lambda: page.locator("#to-choose").click())
        curator.picture("3-choose")
        step("go to the build", lambda: page.locator("#to-build").click())
        step("build", curator.built)
        curator.picture("4-built")
        step("publish", lambda: curator.do("publish"))
        curator.leave()
    return steps


def _fewer_problems(curator: Curator) -> None:
    curator.page.locator("#suggest:disabled").wait_for()
    curator.checked()


def main() -> None:
    # Beside the folder of this file.
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from clinic import write_clinic

    data = Path(sys.argv[1]) / "clinic.csv"
    write_clinic(data)
    with sync_playwright() as playwright:
        browser = launch_chromium(playwright)
        steps = record(browser, data)
        browser.close()
    lines = [f"{i:>2}. {words:<32} {seconds:6.1f} s" for i, (words, seconds) in enumerate(steps, start=1)]
    total = sum(seconds for _, seconds in steps)
    sys.stdout.write("\n".join([*lines, f"    in all {total:31.1f} s"]) + "\n")


if __name__ == "__main__":
    main()
