"""The curator's path, recorded: from a raw export to a page that anyone can open."""

from curator import Curator, served_by_command

import hdpview as hv
import repeatable
from clinic import write_clinic

MOST_STEPS = 10


def recorded(browser, data):
    """Names of the steps, each one thing that a person does. The view, its page and its card lie beside the
    table."""
    steps = [f"hdpview curate {data.name}"]

    def step(words, act):
        act()
        steps.append(words)

    with served_by_command(data, repeatable.environment()) as url:
        curator = Curator(browser, url)
        page = curator.visit()
        step("take the suggestions", page.locator("#suggest").click)
        page.locator("#suggest:disabled").wait_for()
        curator.checked()
        page.locator("#learning summary").click()
        step("say what learning may cost", lambda: page.get_by_label("Epsilon for learning").fill("2"))
        page.locator("#learn").click()
        unit = page.get_by_label("Whose row is it, for learning")
        step("say whose row it is", lambda: unit.select_option("Patient_id"))
        step("learn the rest", page.locator("#learn").click)
        page.wait_for_selector("[data-problems='0']")
        step("go to the budget", page.locator("#to-choose").click)
        step("go to the build", page.locator("#to-build").click)
        step("build", curator.built)
        step("publish", lambda: curator.do("publish"))
        curator.leave()
    return steps


def test_from_a_raw_export_to_a_published_page(browser, tmp_path):
    write_clinic(tmp_path / "clinic.csv", 6_000)
    steps = recorded(browser, tmp_path / "clinic.csv")
    assert len(steps) <= MOST_STEPS, steps
    text = (tmp_path / "clinic.toml").read_text()
    assert len(text.splitlines()) < 60
    schema = hv.Schema.load(tmp_path / "clinic.toml")
    assert len(schema) == 38
    view = hv.open(tmp_path / "clinic.pview")
    assert view.manifest.is_private
    assert view.manifest.privacy_unit == "Patient_id"
    assert view.manifest.spent_on_table == 3
    # Learnt bounds are powers of two, so they may be wide; nothing else is wrong.
    assert {finding.kind for finding in view.diagnosis()} <= {"empty"}, view.diagnosis()
    assert 2_500 < view.count().estimate < 6_000
    page = browser.new_page()
    page.goto((tmp_path / "clinic.html").as_uri())
    page.wait_for_selector("body[data-shown]", timeout=60_000)
    # The first one; a click shows the others.
    assert page.locator("#charts .card").count() == 24
    page.close()
