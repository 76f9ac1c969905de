"""The curator's path, recorded: from a raw export to a page that anyone can open."""

from recorded_run import record

import hdpview as hv
import repeatable
from clinic import write_clinic

MOST_STEPS, MOST_SECONDS = 10, 300


def test_from_a_raw_export_to_a_published_page(browser, tmp_path):
    """Ten steps at most and under five minutes, from 40 columns with all their dirt; the schema file has
    under 60 lines and reads the table; the page answers without a server.
    """
    write_clinic(tmp_path / "clinic.csv", 6_000)
    steps = record(browser, tmp_path / "clinic.csv", repeatable.environment())
    assert len(steps) <= MOST_STEPS, steps
    assert sum(seconds for _, seconds in steps) < MOST_SECONDS, steps
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
