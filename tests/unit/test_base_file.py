"""Views with a base and fitted counts as files: the same after a file, and refused where they do not hold
together.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cells import based_view, noisy_view
from hdpview.domain import Boolean, Integer, Schema
from hdpview.errors import ViewFileError
from hdpview.explore import answers
from hdpview.pview import PView, merge
from hdpview.view import storage
from hdpview.view.storage import MANIFEST_KEY

SCHEMA = Schema(
    [
        Integer(name="age", min=0, max=7, nullable=True),
        Integer(name="wide", min=0, max=299),
        Boolean(name="flag"),
    ]
)
QUESTIONS = ["wide < 45 AND age >= 3", "flag OR age IS NULL", None]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "v.pview"
    based_view(SCHEMA, 1).save(target)
    return target


@pytest.mark.parametrize(
    "kind", ["base and fit", "base", "fit", "merged", "merged with even", "merged twice"]
)
def test_a_view_with_a_base_is_the_same_after_its_file(tmp_path: Path, kind: str) -> None:
    """Base, fitted counts and all answers survive a file, to the bit, and a second file has the same
    bytes.
    """
    view, other, even = based_view(SCHEMA, 1), based_view(SCHEMA, 2, fitted=False), noisy_view(SCHEMA, 3)
    blocks = view.blocks
    fitted = PView(
        even.manifest,
        type(blocks)(blocks.lower, blocks.upper, blocks.noisy_counts, blocks.depth, fitted=blocks.fitted),
    )
    merged = {
        "merged": [view, other],
        "merged with even": [even, view],
        "merged twice": [merge([view, even]), other],
    }
    saved = (
        merge(merged[kind]) if kind in merged else {"base and fit": view, "base": other, "fit": fitted}[kind]
    )
    saved.save(tmp_path / "1")
    opened = PView.open(tmp_path / "1")
    opened.save(tmp_path / "2")
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    assert opened.manifest == saved.manifest
    for before, after in zip(saved.blocks.base_of_parts, opened.blocks.base_of_parts, strict=True):
        assert (None if before is None else before.to_dict()) == (None if after is None else after.to_dict())
    assert (opened.blocks.consistent_counts == saved.blocks.consistent_counts).all()
    for reading in ("raw", "consistent"):
        before, after = (each.count_many(QUESTIONS, counts=reading) for each in (saved, opened))
        assert (before.typical == after.typical).all()
        assert (before.estimate == after.estimate).all()
    assert opened.sample(50, seed=1, as_="pyarrow") == saved.sample(50, seed=1, as_="pyarrow")


def test_all_that_shows_a_view_shows_one_with_a_base(tmp_path: Path) -> None:
    """Facts, card, notebook page, pictures, comparison, quantile and the explorer's answers tell what counts
    tell.
    """
    view = based_view(SCHEMA, 4)
    assert "base" not in noisy_view(SCHEMA, 4).info()
    assert "records spread by a base measure" in view.privacy_card().text
    assert "records spread by a base measure" not in noisy_view(SCHEMA, 4).privacy_card().text
    assert "<svg" in view._repr_html_()
    assert view.info()["base"][0].startswith("the histograms of 3 attributes")
    by_flag = view.histogram("flag", "age < 3", as_="pyarrow")
    shown = answers.histogram_answer(view, "age < 3", {}, 0.95)["histograms"]
    assert shown["flag"]["estimate"] == pytest.approx(by_flag.column("count").to_pylist(), abs=1e-3)
    pairs = answers.pair_answer(view, "age < 3", "flag", "age", 0.95)
    assert np.sum(pairs["estimate"], axis=1) == pytest.approx(by_flag.column("count").to_numpy(), abs=0.05)
    assert answers.blocks_answer(view, "flag", "age", 100)["blocks"]
    first, second = view.count("flag"), view.count("NOT flag")
    assert view.compare("flag", "NOT flag").difference == pytest.approx(first.estimate - second.estimate)
    counts = view.histogram("wide", "flag", as_="pyarrow").column("count").to_numpy()
    median = float(view.quantile("wide", 0.5, "flag").estimate or 0)
    reached = np.cumsum(counts) / counts.sum()
    assert reached[int(median) - 1] <= 0.51
    assert reached[min(int(median) + 1, 299)] >= 0.49
    heat = view.plot.partition("wide", "flag").to_dict()
    assert heat["layer"][0]["data"]["values"]


def test_shades_follow_the_base_where_there_are_two_attributes() -> None:
    """A view of two attributes is drawn cell by cell if its blocks are not even inside: shades add up to what
    counts tell.
    """
    schema = Schema([Integer(name="x", min=0, max=5), Integer(name="y", min=0, max=4)])
    view = based_view(schema, 3)
    values = view.plot.partition("x", "y").to_dict()["layer"][0]["data"]["values"]
    found = sum(
        row["density"] * (row["x2"] - row["x1"]) * (row["y2"] - row["y1"]) for row in values if row["x1"] < 2
    )
    assert found == pytest.approx(view.count("x < 2").estimate)


def test_older_files_stay_as_they_were(tmp_path: Path) -> None:
    """A view without a base has format version 1 and no further column or key; a base makes it 3, which older
    readers refuse by name.
    """
    noisy_view(SCHEMA, 1).save(tmp_path / "even")
    based_view(SCHEMA, 1).save(tmp_path / "based")
    tables = [pq.read_table(tmp_path / name) for name in ("even", "based")]
    contents = [json.loads(table.schema.metadata[MANIFEST_KEY]) for table in tables]
    assert [content["format_version"] for content in contents] == [1, 3]
    assert contents[1].keys() - contents[0].keys() == {"base", "fitted"}
    assert set(tables[1].column_names) - set(tables[0].column_names) == {"fitted"}


def rewrite(
    path: Path,
    change: Callable[[dict[str, Any]], Any],
    change_table: Callable[[pa.Table], pa.Table] | None = None,
) -> None:
    table = pq.read_table(path)
    content = json.loads(table.schema.metadata[MANIFEST_KEY])
    change(content)
    table = table if change_table is None else change_table(table)
    pq.write_table(table.replace_schema_metadata({MANIFEST_KEY: json.dumps(content).encode()}), path)


def put(*keys: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(content: Any) -> None:
        for key in keys[:-1]:
            content = content[key]
        content[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("format_version", value=1), "columns are not those"),
        (put("base", value=None), None),
        (put("base", value=[None, None]), "missing or of the wrong type"),
        (put("base", value=[]), "missing or of the wrong type"),
        (put("base", value=7), "missing or of the wrong type"),
        (put("base", value={}), "missing or of the wrong type"),
        (put("fitted", value=1), "missing or of the wrong type"),
        (put("fitted", value=False), "columns are not those"),
        (put("base", "parent", value=[0, 0, 0]), "in a circle"),
        (put("base", "parent", 0, value=10**30), "not there"),
        (put("base", "parent", value=[-1, -1]), "every attribute"),
        (put("base", "bins", 1, value=[0, 300]), "follow each other"),
        (put("base", "bins", 1, value=[0, 2.5]), "first codes"),
        (put("base", "bins", 1, value=None), "first codes"),
        (put("base", "shape", 0, value=[1.0]), "missing"),
        (put("base", "shape", 0, 0, value=-1e-9), "not above 0"),
        (put("base", "shape", 0, 0, value=float("inf")), "not above 0"),
        (put("base", "shape", 0, 0, value=10**400), "else than numbers"),
        (put("base", "shape", 0, 0, value=[[1]]), "else than numbers"),
        (put("base", "table", 0, value=[]), "missing"),
        (put("base", "table", 0, value="x"), "else than numbers"),
        (put("base", "variance", 0, value=float("nan")), "variances"),
        (put("base", "variance", 0, value=-1), "variances"),
    ],
)
def test_bases_of_strangers_are_refused_in_words(
    path: Path, change: Callable[[dict[str, Any]], None], message: str | None
) -> None:
    """Whatever does not hold together in a base is named; a view whose base is taken out is an even one."""
    rewrite(path, change)
    if message is None:
        assert PView.open(path).blocks.base is None
        return
    with pytest.raises(ViewFileError, match=message):
        PView.open(path)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf"), 2.0**60])
def test_fitted_counts_that_cannot_be_are_refused(path: Path, value: float) -> None:
    """Fitted counts are neither negative nor beyond any table's."""

    def change(table: pa.Table) -> pa.Table:
        fitted = np.append(value, table.column("fitted").to_numpy()[1:])
        return table.set_column(table.column_names.index("fitted"), "fitted", pa.array(fitted))

    rewrite(path, lambda content: None, change)
    with pytest.raises(ViewFileError, match="a fitted count is negative, or beyond"):
        PView.open(path)


def test_a_base_of_too_many_bins_for_its_blocks_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would take more memory than there is, is refused before it is laid out."""
    monkeypatch.setattr(storage, "_MAX_BLOCKS_TIMES_BINS", 10)
    with pytest.raises(ViewFileError, match="more bins than fit in memory"):
        PView.open(path)


def test_a_base_too_large_for_a_file_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be opened again is refused when it is saved, and nothing is left behind."""
    monkeypatch.setattr(storage, "MAX_MANIFEST_BYTES", 1_000)
    with pytest.raises(ViewFileError, match="wider bins in the schema"):
        based_view(SCHEMA, 1).save(tmp_path / "v.pview")
    assert not list(tmp_path.iterdir())
