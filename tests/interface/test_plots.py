"""Pictures and pages: real files without a browser, error bars on bars, and nothing unescaped in HTML."""

import json
import re
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cells import noisy_view
from command_line import run
from hdpview.domain import Boolean, Category, Datetime, Integer, Real, Schema
from hdpview.errors import QueryError
from hdpview.pview import PView
from hdpview.query.present.plots import save

SCHEMA = Schema(
    [
        Integer(name="age", min=0, max=40),
        Real(name="pressure", min=0.0, max=8.0, bins=4, nullable=True),
        Datetime(name="day", min="2023-01-01", max="2024-12-31", every="1mo"),
        Category(name="<b>region</b>", values=("<script>alert(1)</script>", "S & T", "quote\"'")),
        Boolean(name="smoker"),
    ]
)


@pytest.fixture(scope="module")
def view() -> PView:
    return noisy_view(SCHEMA, 3, n_cuts=120)


CHARTS: dict[str, Callable[[PView], Any]] = {
    "histogram": lambda view: view.plot.histogram("age", where="smoker"),
    "missing": lambda view: view.plot.histogram("pressure"),
    "heatmap": lambda view: view.plot.heatmap("day", "age", where="age < 30"),
    "partition": lambda view: view.plot.partition("age", "day"),
    "labels": lambda view: view.plot.histogram("<b>region</b>"),
}


@pytest.mark.parametrize("name", CHARTS)
def test_every_picture_becomes_a_png_and_an_svg(view, name, tmp_path):
    chart = CHARTS[name](view)
    save(chart, tmp_path / "x.png")
    save(chart, tmp_path / "x.svg")
    content = (tmp_path / "x.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    assert min(struct.unpack(">II", content[16:24])) > 200
    assert (tmp_path / "x.svg").read_text(encoding="utf-8").count("<path") > 3


@pytest.mark.parametrize("interval", [{}, {"interval": "guaranteed"}, {"interval": "noise"}], ids=str)
def test_bars_have_error_bars_from_the_view(view, interval):
    spec = json.loads(view.plot.histogram("age", **interval).to_json())
    marks = [layer["mark"]["type"] for layer in spec["layer"]]
    assert marks == ["bar", "rule"]
    rows = spec["layer"][0].get("data", spec.get("data"))["values"]
    answers = view.count_many([f"age = {i}" for i in range(41)], **interval)
    assert [row["count"] for row in rows] == pytest.approx(answers.estimate.tolist(), abs=1e-6)
    assert [row["upper"] for row in rows] == pytest.approx(answers.upper.tolist(), abs=1e-6)


def test_the_partition_of_two_attributes_shows_every_block():
    plane = noisy_view(
        Schema([Integer(name="x", min=0, max=63), Integer(name="y", min=0, max=63)]), 0, n_cuts=80
    )
    spec = json.loads(plane.plot.partition("x", "y").to_json())
    shades, borders = (layer["data"]["values"] for layer in spec["layer"])
    assert len(shades) == len(borders) == len(plane.blocks)
    total = sum(row["density"] * (row["x2"] - row["x1"]) * (row["y2"] - row["y1"]) for row in shades)
    assert total == pytest.approx(plane.count().estimate)


def test_what_cannot_be_drawn_is_refused_in_words(view, tmp_path):
    with pytest.raises(QueryError, match="Did you mean 'age'"):
        view.plot.histogram("agee")
    with pytest.raises(QueryError, match="two different"):
        view.plot.heatmap("age", "age")
    with pytest.raises(QueryError, match=r"\.png"):
        save(view.plot.histogram("age"), tmp_path / "x.docx")
    fine = noisy_view(Schema([Integer(name=name, min=0, max=999) for name in "xy"]), 0)
    with pytest.raises(QueryError, match="too fine"):
        fine.plot.heatmap("x", "y")
    save(fine.plot.partition("x", "y"), tmp_path / "fine.svg")


def test_a_view_in_a_notebook_is_plain_escaped_html(view):
    page = view._repr_html_()
    assert {*re.findall(r"<([a-z]+)", page)} <= {"div", "pre", "b", "br", "svg", "rect", "p"}
    assert page.count("<svg") == len(SCHEMA)
    assert "&lt;script&gt;" in page
    assert "records" in page
    assert len(page) < 60_000


def test_results_come_in_the_frames_people_use(view):
    import pandas as pd
    import polars as pl

    assert isinstance(view.histogram("age"), pd.DataFrame)
    assert isinstance(view.sql("SELECT COUNT(*) AS n FROM view", as_="polars"), pl.DataFrame)
    assert isinstance(view.with_frames("pyarrow").marginal(["age", "smoker"]), pa.Table)
    assert isinstance(view.with_frames("polars").sample(3), pl.DataFrame)
    with pytest.raises(QueryError, match="Did you mean 'polars'"):
        view.sample(3, as_="polar")


def test_commands_draw_sample_and_merge(view, tmp_path):
    path = tmp_path / "a.pview"
    view.save(path)
    assert run("plot", path, "age", "-o", tmp_path / "age.svg", "--where", "smoker").returncode == 0
    assert (tmp_path / "age.svg").read_text().startswith("<svg")
    assert run("plot", path, "age", "day", "--partition", "-o", tmp_path / "p.png").returncode == 0
    assert run("sample", path, "-n", 50, "-o", tmp_path / "s.parquet", "--seed", 1).returncode == 0
    assert pq.read_table(tmp_path / "s.parquet").num_rows == 50
    printed = run("sample", path, "-n", 3).stdout.splitlines()
    assert len(printed) == 4
    merged = run("merge", path, path, "-o", tmp_path / "b.pview", "--overlapping")
    assert "epsilon 2" in merged.stdout
    assert PView.open(tmp_path / "b.pview").manifest.epsilon == 2
    # Programs get dates as ISO texts, and null where there is no number.
    sql = "SELECT date_trunc('year', day) AS year, COUNT(*) / 0 AS x FROM view GROUP BY 1 ORDER BY 1"
    rows = json.loads(run("query", path, sql, "--format", "json").stdout)["rows"]
    assert [(row["year"], row["x"]) for row in rows] == [(f"{y}-01-01T00:00:00", None) for y in (2023, 2024)]
