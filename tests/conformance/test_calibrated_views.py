"""Calibrated views from table to answer: built, saved, opened, asked in every way, merged, explored, and by
command.
"""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pytest
from scipy import stats

import hdpview as hv
from hdpview.demo import QUESTIONS, hospital_schema, hospital_table
from hdpview.explore.answers import histogram_answer
from hdpview.pview import PView, merge

WHERE = "age >= 65 AND sex = 'Female'"
N_ROWS = 8_000


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return hospital_table(N_ROWS)


@pytest.fixture(scope="module")
def view(table: pa.Table) -> PView:
    return hv.build(table, hospital_schema(), 4, method="calibrated", test_key=b"hospital")


def truth(table: pa.Table, where: str) -> int:
    with duckdb.connect() as database:
        database.register("admissions", table)
        found = database.execute(f"SELECT COUNT(*) FROM admissions WHERE {where}").fetchone()
    assert found is not None
    return int(found[0])


def assert_same(one: PView, other: PView) -> None:
    """Blocks, fitted counts, bases and manifests are equal to the last bit."""
    for name in ("lower", "upper", "depth", "noisy_counts", "fitted"):
        assert np.array_equal(getattr(one.blocks, name), getattr(other.blocks, name)), name
    assert [base.to_dict() for base in one.blocks.bases] == [base.to_dict() for base in other.blocks.bases]
    assert one.manifest == other.manifest


def test_a_view_survives_its_file(view: PView, tmp_path: Path) -> None:
    """Saved and opened it is the same view, base and fit included, with the same answers and a card that
    names the method.
    """
    view.save(tmp_path / "v.pview")
    again = hv.open(tmp_path / "v.pview")
    assert_same(view, again)
    wheres = [question.where for question in QUESTIONS]
    assert again.count_many(wheres).estimate.tolist() == view.count_many(wheres).estimate.tolist()
    assert "calibrated" in again.privacy_card().text
    assert "hdpview audit --method calibrated" in again.privacy_card().text


def test_the_manifest_says_what_was_spent(view: PView) -> None:
    """Charges add up to ε exactly; histograms for every attribute, a table for all but one, cuts for every
    level, counts once.
    """
    spent = {each.purpose: each for each in view.manifest.spending}
    n = len(view.schema)
    assert sum((each.epsilon * each.times for each in spent.values()), Fraction(0)) == 4
    assert spent["histograms of attributes"].times == n
    assert spent["tables of pairs"].times == spent["choose pairs of attributes"].times == n - 1
    assert (
        spent["choose cuts"].times
        == view.manifest.parameters["n_private_cut_levels"]
        >= view.blocks.depth.max() - 1
    )
    assert view.manifest.noise_scale == pytest.approx(float(1 / spent["noise on counts"].epsilon))


def test_answers_are_near_the_truth(view: PView, table: pa.Table) -> None:
    """With a budget of 4, broad questions of the demo are right to a fifth, and all of them to a fiftieth of
    the table.
    """
    for question in QUESTIONS:
        exact, found = truth(table, question.where), view.count(question.where).estimate
        assert found == pytest.approx(exact, abs=N_ROWS / 50), question.text
        if exact > N_ROWS / 8:
            assert found == pytest.approx(exact, rel=0.2), question.text
    assert view.count().estimate == pytest.approx(N_ROWS, rel=0.01)


def test_all_ways_of_asking_agree(view: PView) -> None:
    """A count, SQL, a histogram's sum, a crosstab's total, a marginal's sum and the explorer's numbers are
    one number.
    """
    count = view.count(WHERE).estimate
    by_sql = view.sql(f"SELECT COUNT(*) AS n FROM view WHERE {WHERE}", as_="pyarrow")["n"].to_pylist()[0]
    histogram = view.histogram("region", WHERE, as_="pyarrow")
    marginal = view.marginal(["admission", "diagnosis"], WHERE, as_="pyarrow")
    explored = histogram_answer(view, WHERE, {}, 0.95)
    sums = [
        by_sql,
        sum(histogram[histogram.column_names[-3]].to_pylist()),
        sum(marginal[marginal.column_names[2]].to_pylist()),
    ]
    assert sums == pytest.approx([count] * 3, rel=1e-6)
    assert explored["count"]["estimate"] == pytest.approx(count, rel=1e-12)  # added up in another order
    for name, found in explored["histograms"].items():
        shown = view.histogram(name, WHERE, as_="pyarrow")
        assert found["estimate"] == pytest.approx(shown[shown.column_names[-3]].to_pylist(), abs=1e-3), name
        assert sum(found["estimate"]) == pytest.approx(count, abs=0.05), name
    grouped = view.sql(f"SELECT region, COUNT(*) AS n FROM view WHERE {WHERE} GROUP BY region", as_="pyarrow")
    assert sum(grouped["n"].to_pylist()) == pytest.approx(count, rel=1e-6)


def test_intervals_hold_their_estimate(view: PView) -> None:
    """Typical and guaranteed intervals contain the estimate, and the true total lies in the typical one of
    all records.
    """
    for question in QUESTIONS:
        found = view.count(question.where)
        assert found.lower <= found.estimate <= found.upper
        assert found.guaranteed.lower <= found.estimate <= found.guaranteed.upper
    everyone = view.count(confidence=0.9999)
    assert everyone.lower <= N_ROWS <= everyone.upper


def test_records_drawn_follow_the_view(view: PView) -> None:
    """Of 40,000 records drawn, those that meet a question are as many as the view says: z-tests, a false
    alarm in 10⁵ for each.
    """
    n = 40_000
    drawn = view.sample(n, seed=7, as_="pyarrow")
    total = view.count().estimate
    for where in (WHERE, "admission = 'emergency'", "stay_days > 7 AND diagnosis = 'respiratory'"):
        share = view.count(where).estimate / total
        z = (truth(drawn, where) / n - share) / np.sqrt(share * (1 - share) / n)
        assert abs(z) < stats.norm.isf(5e-6), where


def test_merged_views_add_up(view: PView, table: pa.Table, tmp_path: Path) -> None:
    """Two tables' views, one calibrated and one by the paper's method, merge into one whose counts are sums;
    it survives its file.
    """
    other = hv.build(table.slice(0, 3_000), hospital_schema(), 1, method="hdpview", test_key=b"other")
    both = merge([view, other], overlapping=True)
    both.save(tmp_path / "both.pview")
    assert hv.open(tmp_path / "both.pview").count(WHERE).estimate == both.count(WHERE).estimate
    for question in QUESTIONS[:4]:
        wanted = view.count(question.where).estimate + other.count(question.where).estimate
        assert both.count(question.where).estimate == pytest.approx(wanted, rel=1e-9, abs=1e-6)
    twice = merge([view, view], overlapping=True)
    assert twice.count(WHERE).estimate == pytest.approx(2 * view.count(WHERE).estimate)


def test_a_person_with_many_rows_gets_as_much_more_noise(table: pa.Table) -> None:
    """With up to 3 rows of a patient counted, charges are for the person, and noise is three times what their
    ε says for a row.
    """
    schema = hospital_schema()
    row = hv.build(table, schema, 3, method="calibrated", test_key=b"row")
    person = hv.build(
        table, schema, 3, method="calibrated", test_key=b"row", privacy_unit="patient_id", max_rows=3
    )
    assert (person.manifest.privacy_unit, person.manifest.max_rows) == ("patient_id", 3)
    assert sum((each.epsilon * each.times for each in person.manifest.spending), Fraction(0)) == 3
    spent = {view: {each.purpose: each for each in view.manifest.spending} for view in (row, person)}
    assert spent[person]["histograms of attributes"].epsilon == spent[row]["histograms of attributes"].epsilon
    counts = spent[person]["noise on counts"].epsilon
    assert person.manifest.noise_scale == pytest.approx(float(3 / counts))
    assert person.manifest.noise_scale >= 1.5 * row.manifest.noise_scale


def test_fresh_builds_are_private_and_differ(table: pa.Table) -> None:
    """Without a test key nothing stamps the view as not private, and two builds are different."""
    small = table.slice(0, 500)
    one, other = (hv.build(small, hospital_schema(), 1, method="calibrated") for _ in range(2))
    assert one.manifest.not_private_because == ()
    assert one.blocks.noisy_counts.tolist() != other.blocks.noisy_counts.tolist()


def test_the_command_builds_and_answers(table: pa.Table, tmp_path: Path) -> None:
    """`hdpview build --method calibrated` writes a view that `info` describes and `query` answers like the
    library.
    """
    pa_csv.write_csv(table.select(["age", "sex", "admission"]).slice(0, 2_000), tmp_path / "t.csv")
    toml = '[attributes.age]\ntype = "integer"\nmin = 0\nmax = 95\n[attributes.sex]\ntype = "category"\nvalues = ["Female", "Male"]\n'
    (tmp_path / "t.toml").write_text(toml + 'other = "Not stated"\n')

    def run(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "hdpview", *words], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("build", "t.csv", "--schema", "t.toml", "--epsilon", "2", "--method", "calibrated", "-o", "t.pview")
    facts = json.loads(run("info", "t.pview", "--format", "json"))
    assert facts["method"] == "calibrated"
    found = json.loads(
        run("query", "t.pview", "SELECT COUNT(*) AS n FROM view WHERE age >= 40", "--format", "json")
    )
    assert found["rows"][0]["n"] == pytest.approx(
        hv.open(tmp_path / "t.pview").count("age >= 40").estimate, rel=1e-6
    )
