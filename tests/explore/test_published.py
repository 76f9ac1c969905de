"""The published page: one file, no network, and the same numbers as Python to the ninth digit."""

import math
import random
import re
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import expect
from random_filters import random_filters
from typer.testing import CliRunner
from visitor import bar, brush, choose, run, saved, says, shown_count, shows

from hdpview.cli.main import app
from hdpview.errors import ViewFileError
from hdpview.explore.page_answers import shares_answer
from hdpview.explore.publish import page as page_of
from hdpview.pview import PView, merge
from hdpview.query.errors.closed import covariances
from hdpview.query.errors.ends import delta_estimates, ratio
from hdpview.query.interval.groups import Groups
from hdpview.query.interval.statistics import value_shares
from hdpview.query.question.boxes import intersect
from hdpview.query.question.quantities import count_of
from hdpview.query.question.where import attribute_number, boxes_of

N_FILTERS = 2_000
ENDS = ("estimate", "lower", "upper")
# Counts only: histograms come with each answer, and are compared for fewer filters.
_COUNTS = """async (filters) => {
  const found = [];
  for (const where of filters) {
    const { estimate, lower, upper } = await hdpview.ask("/api/count", { where });
    found.push([estimate, lower, upper]);
  }
  return found;
}"""


def _close(answer: Any, expected: Any) -> None:
    """Equal to 1e-9, of what is large in proportion."""
    ours, theirs = np.asarray(answer, np.float64), np.asarray(expected, np.float64)
    assert ours.shape == theirs.shape
    close = np.abs(ours - theirs) <= 1e-9 * np.maximum(np.abs(theirs), 1.0)
    assert (close | (np.isnan(ours) & np.isnan(theirs))).all()


def _expected(view: PView, filters: list[str]) -> np.ndarray[Any, Any]:
    answers = view.count_many(filters)
    return np.column_stack([answers.estimate, answers.typical])


def test_counts_equal_pythons(reader, hospital):
    filters = random_filters(hospital.schema, N_FILTERS, seed=18)
    filters += [f"admitted {sign} DATE '2021-03-31'" for sign in ("=", "<>", "<=", ">", "<", ">=")]
    _close(reader.page.evaluate(_COUNTS, filters), _expected(hospital, filters))


def test_histograms_and_shares_equal_pythons(reader, hospital):
    for where in [None, *random_filters(hospital.schema, 20, seed=19)]:
        answer = reader.ask("/api/histograms", where=where, measure={"kind": "percent"})["histograms"]
        for name in hospital.schema.names:
            table = hospital.histogram(name, where, as_="pyarrow")
            columns = [table[column].to_pylist() for column in table.column_names[-3:]]
            _close([answer[name][key] for key in ENDS], columns)
            for key, column in value_shares(hospital, name, where)._asdict().items():
                _close(np.array(answer[name]["share"][key], np.float64), column)


def test_pairs_and_comparisons_equal_pythons(reader, hospital):
    where = "sex = 'Male' AND cost > 700"
    answer = reader.ask("/api/pairs", first="admission", second="age", where=where)
    table = hospital.marginal(["admission", "age"], where, as_="pyarrow")
    for key, column in zip(ENDS, table.column_names[-3:], strict=True):
        _close(np.asarray(answer[key]).reshape(-1), table[column].to_pylist())
    filters = random_filters(hospital.schema, 30, seed=20)
    for first, second in zip(filters[::2], filters[1::2], strict=True):
        answer = reader.ask("/api/compare", first=first, second=second)
        expected = hospital.compare(first, second)
        ours, theirs = answer["difference_interval"], expected.difference_interval
        _close([answer["difference"], *ours], [expected.difference, *theirs])
        assert answer["is_real"] == expected.is_real
        if math.isfinite(expected.ratio_interval.upper):
            assert answer["ratio_interval"] == pytest.approx(list(expected.ratio_interval), rel=1e-6)
        else:
            assert answer["ratio_interval"][1] is None


def test_rates_equal_pythons(reader, hospital):
    measure = {"kind": "rate", "attribute": "readmitted", "code": 1, "missing": "no"}
    for where in (None, "sex = 'Female' AND cost > 700", "age > 200"):
        answer = reader.ask("/api/histograms", where=where, attributes=["age"], measure=measure)
        values = answer["histograms"]["age"]["value"]
        age, readmitted = attribute_number("age", hospital.schema), boxes_of("readmitted", hospital.schema)
        groups = Groups(hospital, boxes_of(where, hospital.schema), [age])
        listed = [[count_of(intersect(own, readmitted)) for own in groups.boxes]]
        listed.append(list(map(count_of, groups.boxes)))
        expected = delta_estimates(ratio, *covariances(hospital, listed), 0.95).within(0.0, 1.0)
        for key in ENDS:
            _close([values[key][code] for code in groups.cells], getattr(expected, key))


_STATISTICS = """async (asked) => {
  const found = [];
  for (const each of asked) found.push(await hdpview.ask("/api/statistics", each));
  return found;
}"""
_SHARES = (0.25, 0.5, 0.9)


def test_statistics_equal_pythons(reader, hospital):
    rng = random.Random(22)
    numbers = [a.name for a in hospital.schema if a.kind in ("integer", "real")]
    filters, measures = [None, *random_filters(hospital.schema, 49, seed=22)], ["mean", *_SHARES]
    asked = [{"where": where, "attribute": rng.choice(numbers), "measures": measures} for where in filters]
    for question, answer in zip(asked, reader.page.evaluate(_STATISTICS, asked), strict=True):
        _close(*_statistics(hospital, question, answer))


def _statistics(view: PView, question: dict[str, Any], answer: dict[str, Any]) -> tuple[Any, Any]:
    x, where = question["attribute"], question["where"]
    expected = [view.mean(x, where), *(view.quantile(x, share, where) for share in _SHARES)]
    ours = [[math.nan if each is None else each[end] for end in ENDS] for each in answer["spans"]]
    return ours, [[_number(getattr(each, end)) for end in ENDS] for each in expected]


def _number(value: float | None) -> float:
    return math.nan if value is None or math.isinf(value) else float(value)


def test_breakdowns_of_two_groups_equal_pythons(reader, hospital):
    groups = {"first": "age < 30 AND sex = 'Female'", "second": "age >= 60"}
    answer = reader.ask("/api/shares", **groups, attribute="ward")
    expected = shares_answer(hospital, *groups.values(), "ward", 0.95)
    for side in (*groups, "difference"):
        for end in ENDS:
            assert answer[side][end] == pytest.approx(expected[side][end], abs=1e-6)
    assert "Choose another attribute" in reader.ask("/api/shares", **groups, attribute="age")["reason"]


def test_other_views_equal_pythons(enter, hospital, blocky, tmp_path):
    for number, view in enumerate((blocky, merge([hospital, hospital], overlapping=True))):
        path = tmp_path / f"{number}.html"
        view.publish(path)
        person = enter(path.as_uri(), offline=True)
        page = person.visit()
        filters = random_filters(view.schema, 250, seed=21)  # too many to be made monotone together
        _close(page.evaluate(_COUNTS, filters), _expected(view, filters))
        where = filters[0]
        table = view.histogram("age", where, as_="pyarrow")
        columns = [table[column].to_pylist() for column in table.column_names[-3:]]
        answer = person.ask("/api/histograms", where=where)["histograms"]["age"]
        _close([answer[key] for key in ENDS], columns)
        if view is blocky:
            expect(page.locator("#tab-numbers")).to_be_hidden()
        else:
            asked = {"where": where, "attribute": "age", "measures": ["mean", *_SHARES]}
            _close(*_statistics(view, asked, person.ask("/api/statistics", **asked)))


def test_the_page_is_the_explorer(reader, hospital):
    page = reader.page
    brush(page, "age", 0.4, 0.8)
    shows(page, "age")
    bar(page, "sex", 0).click()
    where = shows(page, "Female")
    assert shown_count(page) == pytest.approx(hospital.count(where).estimate, rel=1e-9)
    page.locator("#tab-numbers").click()
    told = page.locator("#panel-numbers tr:has(th:text-is('stay_days')) td.number")
    expect(told).to_have_count(4)
    assert says(told.first.inner_text(), float(hospital.mean("stay_days", where).estimate))
    page.locator("#tab-table").click()
    choose(page, "Group by", "ward")
    page.wait_for_selector("#panel-table th:has-text('paediatrics')")
    lines = saved(page, "the table", "CSV").read_text().splitlines()
    title, origin = (next(line for line in lines if part in line) for part in ("Records", "checksum"))
    assert (title, lines[1]) == ("# Records by ward", f"# Filter: {where}")
    assert re.search(r"^# hospital.pview; checksum [0-9a-f]{64}; ε = 1; 95% typical intervals$", origin)
    assert "ward,records,records_lower,records_upper,share,share_lower,share_upper" in lines
    expect(page.locator("#tab-select")).to_be_hidden()
    run(page, "age > 40 OR sex = 'Male'")
    expect(page.locator("#error")).to_contain_text("OR joins conditions on one attribute only")


def test_the_page_says_what_it_holds(reader, hospital, published):
    reader.expected = ("Content Security Policy", "etch")
    page = reader.page
    page.locator("#trust-open").click()
    told = page.locator("#trust").inner_text()
    card = hospital.privacy_card()
    for part in ("Who is protected", hospital.info()["risk"], hospital.info()["created"][:10], card.title):
        assert part in told
    assert re.search(r"Checksum of the view: [0-9a-f]{64}", told)
    text = published.read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    assert "default-src 'none'; script-src 'sha256-" in policy[1]
    assert not re.search(r"script-src[^;]*unsafe", policy[1])
    assert not re.search(r"\b(?:src|href)=\"(?!#|data:)", text)
    # The policy holds: no other script runs, and nothing can be fetched.
    page.evaluate(
        "() => { const one = document.createElement('script'); one.textContent = 'window.ran = true'; "
        "document.body.append(one); }"
    )
    assert page.evaluate("() => window.ran === undefined")
    assert page.evaluate("() => fetch('data:,x').then(() => 'fetched', () => 'refused')") == "refused"


def test_hostile_names_stay_text(enter, hostile, tmp_path):
    hostile.publish(tmp_path / "hostile.html")
    page = enter((tmp_path / "hostile.html").as_uri(), offline=True).visit()
    assert page.locator("img").count() == 0
    assert page.locator("#charts h2 .name").all_inner_texts() == list(hostile.schema.names)
    expect(page.locator("#banner")).to_contain_text("NOT PRIVATE")
    bar(page, hostile.schema.names[0], 1).click()
    shows(page, "IN")


def test_by_command(hospital, tmp_path):
    place, out = tmp_path / "hospital.pview", tmp_path / "out.html"
    hospital.save(place)
    done = CliRunner().invoke(app, ["publish", str(place), "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert out.read_text() == page_of(PView.open(place), "hospital.pview")
    with pytest.raises(ViewFileError, match="No such file"):
        hospital.publish(tmp_path / "nowhere" / "out.html")


def test_the_page_is_small(hospital):
    """Scripts and style below 110 kB, so that a page of Adult stays below 310 kB."""
    text = page_of(hospital, "hospital.pview")
    content = re.search(r'<script type="text/plain" id="content">(.*?)</script>', text, re.DOTALL)
    assert len(text.encode()) - len(content[1].encode()) < 110_000
