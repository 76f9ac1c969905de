"""The curator's page: mistakes are caught before they cost, and wrong input is answered in words."""

import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from curator import Curator, served
from playwright.sync_api import Browser, expect

import hdpview as hv
from hdpview.curate.job import BuildJob
from hdpview.privacy.ledger import Ledger
from repeatable import repeatable_noise

N_ROWS = 3_000


def write_ward(path: Path) -> None:
    rng = np.random.default_rng(3)
    columns = {
        "visit_id": range(N_ROWS),
        "band": rng.choice(["[0-40)", "[40-70)", "[70-99)"], N_ROWS),
        "cost": rng.integers(500, 5_000, N_ROWS),
        "ward": rng.choice(["north", "south", "east"], N_ROWS, p=[0.2, 0.2, 0.6]),
        "stay_days": rng.integers(0, 10, N_ROWS),
    }
    lines = [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines))


@pytest.fixture(autouse=True)
def same_noise() -> Iterator[None]:
    """Repeatable noise, so that the page's statements about a view do not depend on chance."""
    with repeatable_noise():
        yield


@pytest.fixture
def ward(tmp_path: Path) -> Path:
    write_ward(tmp_path / "ward.csv")
    return tmp_path / "ward.csv"


@pytest.fixture
def curator(browser: Browser, ward: Path) -> Iterator[Curator]:
    with served(ward) as url:
        person = Curator(browser, url)
        yield person
        person.leave()


def spent(ward: Path) -> Fraction:
    return Ledger(ward.parent / "hdpview-ledger.sqlite").spent("ward")


def describe(curator: Curator, cost: str = "5000", wards: str = "north, south, east") -> None:
    """A schema with two mistakes: `band` is unreadable as a number, and `stay_days` has bounds too wide."""
    page = curator.page
    page.get_by_label("Type of band").select_option("integer")
    curator.type("from of band", "0")
    curator.type("to of band", "99")
    curator.type("from of cost", "0")
    curator.type("to of cost", cost)
    page.get_by_label("bins of cost").select_option("every")
    curator.type("Bins of cost", "100")
    curator.type("Values of ward", wards)
    curator.type("from of stay_days", "0")
    curator.type("to of stay_days", "59")


def test_each_silent_mistake_is_caught(curator, ward):
    page = curator.visit()
    describe(curator, cost="1000", wards="north, south")
    assert "Lost: nearly all values are unreadable as integer, shape '[99-99)'" in curator.said("band")
    assert "Lost: many values lie above max = 1,000" in curator.said("cost")
    assert "Lost: many values match no declared value" in curator.said("ward")
    page.locator("#to-choose").click()
    curator.type("Epsilon", "8")
    page.locator("#to-build").click()
    page.locator("#start").click()
    asks = page.get_by_role("alertdialog")
    expect(asks).to_contain_text("Nothing has been spent yet")
    expect(asks).to_contain_text("band: nearly all values are unreadable")
    assert not (ward.parent / "ward.pview").exists()
    assert spent(ward) == 0
    page.get_by_role("button", name="Build anyway").click()
    page.wait_for_selector("#result:not([hidden])", timeout=240_000)
    findings = page.locator("#result .findings").inner_text()
    assert "band: 100% of records" in findings
    assert "cost: " in findings
    assert "the bound is too tight" in findings
    assert "ward: " in findings
    assert "bins hold nothing distinguishable from noise" in findings
    assert spent(ward) == 8
    assert "Wrote" in curator.do("publish")
    assert "already exists" in curator.do("publish")
    curator.do("card")
    card = (ward.parent / "ward-card.html").read_text()
    assert "the bound is too tight" in card
    assert "psql -h 127.0.0.1" in curator.do("serve")
    address = curator.do("explore")
    other = page.context.browser.new_page()
    other.goto(address)
    other.wait_for_selector("body[data-shown]")
    other.close()
    found = hv.open(ward.parent / "ward.pview").diagnosis()
    assert {finding.attribute for finding in found} == {"band", "cost", "ward", "stay_days"}


def test_wrong_input_and_a_full_ledger_are_answered_in_words(curator, ward):
    page = curator.visit()
    assert page.locator("#to-choose").is_enabled()
    curator.type("from of cost", "five")
    assert "min must be a number with a decimal point, not 'five'" in curator.said("cost")
    describe(curator)
    page.get_by_label("Use band").uncheck()
    curator.checked()
    assert "The schema is complete: 3 attributes" in page.locator("#summary").inner_text()
    Ledger(ward.parent / "hdpview-ledger.sqlite").set_limit("ward", Fraction(1, 2))
    page.reload()
    curator.checked()
    page.locator("#to-choose").click()
    expect(page.locator("#choose .error").first).to_contain_text("Only 0.5 of 0.5 is left")
    curator.type("Epsilon", "much")
    expect(page.locator("#choose .error").first).to_contain_text("Epsilon must be a number above 0")
    for epsilon, output, words in (
        ("much", "ward.pview", "epsilon"),
        ("1", "ward.pview", "epsilon 1 is more than is left for 'ward': 0.5 of 0.5"),
        ("0.1", "../ward.pview", "without a path"),
    ):
        page.locator("button[data-step=choose]").click()
        curator.type("Epsilon", epsilon)
        page.locator("#to-build").click()
        page.get_by_label("File of the view").fill(output)
        page.locator("#start").click()
        expect(page.locator("#build-error")).to_contain_text(words)
    assert spent(ward) == 0
    (ward.parent / "ward.pview").write_text("a view that was paid for")
    page.get_by_label("File of the view").fill("ward.pview")
    page.locator("#start").click()
    expect(page.locator("#build-error")).to_contain_text("already exists")
    assert (ward.parent / "ward.pview").read_text() == "a view that was paid for"


@pytest.mark.parametrize("is_charged", [False, True])
def test_a_build_can_be_cancelled_and_says_what_it_cost(curator, ward, monkeypatch, is_charged):
    progress, is_there = BuildJob._progress, threading.Event()

    def wait_at_a_step(job: BuildJob, fraction: float | None, text: str) -> None:
        if (job._receipt is not None) == is_charged:
            is_there.set()
            job._cancelled.wait(120)
        progress(job, fraction, text)

    monkeypatch.setattr(BuildJob, "_progress", wait_at_a_step)
    page = curator.visit()
    describe(curator)
    page.get_by_label("Use band").uncheck()
    curator.checked()
    page.locator("button[data-step=build]").click()
    page.locator("#start").click()
    assert is_there.wait(120)
    page.locator("#cancel").click()
    expect(page.locator("#build-error")).to_contain_text("Cancelled.", timeout=120_000)
    words = page.locator("#build-error").inner_text()
    assert spent(ward) == is_charged
    assert ("stays spent" in words, "Nothing was spent" in words) == (is_charged, not is_charged)
    assert not (ward.parent / "ward.pview").exists()
    assert page.locator("#start").is_enabled()


def test_the_schema_file_and_the_commands_say_the_same(curator, ward, browser):
    page = curator.visit()
    describe(curator)
    page.get_by_label("Type of band").select_option("category")
    curator.type("Values of band", "[0-40)\n[40-70)\n[70-99)")
    page.get_by_label("Values of band are in order").check()
    curator.checked()
    page.locator("#to-choose").click()
    page.get_by_label("Whose row is it").select_option("visit_id")
    page.get_by_label("The first column").select_option("band")
    page.get_by_label("The second column").select_option("cost")
    page.locator("#add-focus").click()
    page.locator("#same summary").click()
    expect(page.locator("#commands")).to_contain_text(
        "hdpview build ward.csv --schema ward.toml --epsilon 1 --privacy-unit visit_id --focus "
        "band,cost -o ward.pview"
    )
    page.locator("#save").click()
    expect(page.locator("#saved")).to_contain_text("Wrote")
    text = (ward.parent / "ward.toml").read_text()
    assert text == page.locator("#schema").inner_text()
    schema = hv.Schema.load(ward.parent / "ward.toml")
    assert schema["band"].ordered
    with served(ward) as url:
        again = Curator(browser, url)
        other = again.visit()
        assert "Continuing where ward.curate.json left off" in other.locator("#describe").inner_text()
        again.type("to of cost", "9000")
        other.locator("#same summary").click()
        other.locator("#save").click()
        expect(other.locator("#saved")).to_contain_text("Wrote")
        again.leave()
    assert hv.Schema.load(ward.parent / "ward.toml")["cost"].max == 9000


def test_what_a_budget_buys_is_drawn(curator):
    """Errors of the chosen budget, and of a third and three times of it, by kind of question."""
    page = curator.visit()
    describe(curator)
    page.get_by_label("Use band").uncheck()
    curator.checked()
    page.locator("#to-choose").click()
    expect(page.locator("#meaning")).to_contain_text("at most 73.1% sure")
    page.locator("#estimate").click()
    page.wait_for_selector("#picture[data-budgets='3']", timeout=120_000)
    words = page.locator("#picture svg").text_content()
    kinds = ("range of one attribute", "rate within a group", "records", "points")
    assert all(part in words for part in (*kinds, "ε 0.33", "ε 1", "ε 3"))


def test_a_reload_a_restart_and_a_second_tab(curator, ward, browser):
    page = curator.visit()
    with_second = page.context.new_page()
    with_second.goto(page.url)
    with_second.wait_for_selector("body[data-checked]:not([data-checked=''])")
    curator.type("from of cost", "7")
    page.locator("button[data-step=choose]").click()
    curator.type("Epsilon", "0.25")
    curator.checked()
    page.reload()
    curator.checked()
    assert page.get_by_label("from of cost").input_value() == "7"
    page.locator("#learning summary").click()
    page.locator("#learn").click()
    expect(page.locator("#learning .error")).to_contain_text("First choose the column that identifies")
    expect(page.locator("#learning .error")).to_contain_text("visit_id")
    page.get_by_label("Whose row is it, for learning").select_option("visit_id")
    curator.checked()
    page.locator("#learn").click()
    expect(page.locator("#learnt")).to_contain_text("Learnt about", timeout=60_000)
    assert spent(ward) == Fraction(1, 5)
    with_second.get_by_label("from of cost").fill("8")
    expect(with_second.locator("#banner")).to_contain_text("changed in another tab")
    with_second.close()
    with served(ward) as url:
        again = Curator(browser, url)
        other = again.visit()
        assert other.get_by_label("Epsilon", exact=True).input_value() == "0.25"
        assert other.get_by_label("to of stay_days").input_value() != ""
        again.leave()
    assert spent(ward) == Fraction(1, 5)


@pytest.mark.parametrize(("width", "scheme"), [(1180, "dark"), (390, "light")])
def test_it_fits_the_screen_and_the_keyboard(browser, ward, width, scheme):
    with served(ward) as url:
        person = Curator(browser, url, width=width, scheme=scheme)
        page = person.visit()
        describe(person)
        for step in ("describe", "choose", "build"):
            page.locator(f"button[data-step={step}]").focus()
            page.keyboard.press("Enter")
            assert page.evaluate("() => document.activeElement.tagName") == "H2"
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        unnamed = page.locator(
            "input:not([aria-label]), select:not([aria-label]), textarea:not([aria-label])"
        )
        assert unnamed.count() == 0
        person.leave()
