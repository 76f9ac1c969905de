"""The report in miniature: complete, self-contained, and true to the rows behind it."""

import re
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hdpview_bench import cells, experiments, figures, page
from hdpview_bench.accuracy import summary
from hdpview_bench.claims import averages, judge, number
from hdpview_bench.experiments import Scope
from hdpview_bench.report import all_rows, write_report
from hdpview_bench.workers import Limits

MOST_BYTES = 150_000


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Scope, Path]:
    folder = tmp_path_factory.mktemp("report")
    rng = np.random.default_rng(5)
    common = rng.normal(size=300)
    columns = {f"V{i}": common + rng.normal(size=300) for i in range(1, 6)} | {
        "Class": rng.integers(1, 3, 300)
    }
    pq.write_table(pa.table(columns), folder / "phoneme.parquet")
    scope = experiments.choose(["phoneme"], ["hdpview", "identity", "privtree"], 1, folder, quick=True)
    write_report(scope, folder, folder, Limits(600, 4 * 2**30), 2)
    return scope, folder


def test_the_report_is_complete_and_its_pictures_are_small(written):
    _, folder = written
    text = (folder / "benchmarks.md").read_text(encoding="utf-8")
    pictures = re.findall(r"!\[.*?\]\((.+?)\)", text)
    names = {Path(picture).stem for picture in pictures}
    expected = "relative-errors blocks deviations map cuts growth settings noise-and-bias"
    assert names == set(expected.split())
    assert all(0 < (folder / picture).stat().st_size < MOST_BYTES for picture in pictures)
    sections = "claims|tables|Relative errors|All errors|Blocks|fewer cuts|Hyperparameters|The data"
    for section in sections.split("|"):
        assert re.search(f"^## .*{section}", text, re.MULTILINE), section
    assert "nan" not in text.split()
    assert "None" not in text


def test_the_page_needs_nothing_from_anywhere(written):
    page = (written[1] / "benchmarks.html").read_text(encoding="utf-8")
    assert not [part for part in ("<script", "<link", "url(") if part in page]
    sources = re.findall(r'src="(.{30})', page)
    assert len(sources) == 8
    assert all(source.startswith("data:image/") for source in sources)


def test_averages_and_claims_need_rows_and_follow_them():
    rows = made_up(gowalla={"privtree": 0.5})
    rows[1]["blocks"] = 150.0
    assert judge([], [], [], rows)[-1].holds is True
    assert all(claim.holds is None for claim in judge([], [], [], []))
    rows = made_up(a={"dawa": 3.0}, b={"dawa": 5.0}, c={"dawa": 1.0})
    rows[-1]["relative_rmse"] = None
    assert averages(rows) == {"hdpview": 1.0, "dawa": 4.0}


def test_figures_in_the_text_are_those_of_the_rows(written):
    scope, folder = written
    text = (folder / "benchmarks.md").read_text(encoding="utf-8")
    rows = summary(scope.main, cells.load(folder))
    for method, name in {"identity": "Identity", "privtree": "PrivTree", "hdpview": "HDPView"}.items():
        ratios = [row["relative_rmse"] for row in rows if row["method"] == method]
        line = next(line for line in text.splitlines() if line.startswith(f"| {name} |") and "of 5" in line)
        assert [cell.strip() for cell in line.split("|")][3] == number(statistics.fmean(ratios))
    for row in rows:
        line = next(line for line in text.splitlines() if line.startswith(f"| {row['workload']} |"))
        assert number(row["rmse"]) in line.replace("*", "").replace("\\", "")


def test_a_report_written_again_measures_nothing_again(written):
    scope, folder = written
    before = {path.name: path.stat().st_mtime_ns for path in (folder / "cells").iterdir()}
    rows = all_rows(scope, folder)
    write_report(scope, folder, folder, n_workers=1)
    assert {path.name: path.stat().st_mtime_ns for path in (folder / "cells").iterdir()} == before
    assert all_rows(scope, folder) == rows


def test_without_data_the_invented_hospital_stands_in():
    scope = experiments.choose([], ["hdpview", "privtree"], 10, None, quick=True)
    assert {name.partition("@")[0] for plan in scope.plans for name in plan.datasets} == {"hospital"}
    assert scope.main.trials == 2


def made_up(**errors: dict[str, float]) -> list[dict[str, Any]]:
    """Rows of one workload: relative error per method (and blocks) on each dataset, hdpview's being 1."""
    return [
        {
            "dataset": dataset, "method": method, "workload": "random-3d", "rmse": 10 * times,
            "relative_rmse": times, "blocks": 100 * times,
        }
        for dataset, of_methods in errors.items()
        for method, times in {"hdpview": 1.0, **of_methods}.items()
    ]  # fmt: skip


@pytest.mark.parametrize("better", [False, True])
def test_claims_follow_the_rows(better):
    times = 0.5 if better else 2.0
    rivals = dict.fromkeys(("identity", "privtree", "hdmm", "privbayes"), times) | {"dawa": 1.5 * times}
    rows = made_up(jm1=rivals, adult=rivals, phoneme=rivals)
    cuts = made_up(jm1={"privtree:n_cut_attributes=2": times})
    growth = [
        row | {"workload": "random-2d"}
        for row in made_up(**{"adult@4": {"privbayes": times}, "adult@5": {"privbayes": times / 2}})
    ]
    at_map = made_up(gowalla={"privtree": 1 / times})
    holds = [claim.holds for claim in judge(rows, cuts, growth, at_map)]
    worse_rivals = [True, True, False, True, True, True, False, True, True, True, False]
    assert holds == ([not verdict for verdict in worse_rivals] if better else worse_rivals)[:10] + [False]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"), (0.0, "0"), (0.1234, "0.123"), (35.34, "35.3"), (5578.27, "5,578"), (1.94e7, "1.94·10⁷"),
        (3e-7, "3.00·10⁻⁷"),
    ],
)  # fmt: skip
def test_numbers_are_written_with_three_digits(value, text):
    assert number(value) == text


def test_documents_say_the_same_in_both_languages(tmp_path):
    chart = figures.partitions({"left": (np.array([[0, 0]]), np.array([[3, 4]]))}, side=30)
    parts = ["# A < B", "`x` is **so** [here](y.md)", page.table(["a", "b"], [["p|q", "2"]])]
    figure = page.Figure("f", chart, "squares", as_pixels=True)
    markdown, written = page.write([*parts, figure], tmp_path, "doc")
    assert "| p\\|q | 2 |" in markdown.read_text(encoding="utf-8")
    html = written.read_text(encoding="utf-8")
    assert "<h1>A &lt; B</h1>" in html
    assert '<code>x</code> is <strong>so</strong> <a href="y.md">here</a>' in html
    assert "<td>p|q</td>" in html
    assert (tmp_path / "images/doc/f.png").read_bytes().startswith(b"\x89PNG")
    assert 'src="data:image/png;base64,' in html
