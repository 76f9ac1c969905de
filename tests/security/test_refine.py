"""Spending more on a view: budgets add up, and noise shrinks as if all had been spent at once."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hdpview as hv
from command_line import run
from hdpview.methods.mixture.refine import Refinement
from hdpview.privacy.ledger import Ledger

N = 3_000
SCHEMA = hv.Schema(
    [
        hv.Integer(name="age", min=0, max=29),
        hv.Integer(name="stay", min=0, max=9),
        hv.Category(name="ward", values=("a", "b", "c")),
    ]
)


def rows(seed: int = 3) -> pa.Table:
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 30, N)
    return pa.table(
        {
            "age": age,
            "stay": (age // 4 + rng.integers(0, 3, N)) % 10,
            "ward": np.array(list("abc"))[age // 10],
        }
    )


def built(table: pa.Table | Path, **options: object) -> hv.PView:
    return hv.build(table, SCHEMA, 1, **{"ledger": False, "test_key": b"first", **options})


def test_every_table_gets_the_noise_of_both_budgets_together() -> None:
    """Scales of all tables shrink by one factor: as much as was spent on tables at first and now."""
    view = built(rows(), quality=False)
    finer = hv.refine(view, rows(), "0.5", ledger=False, test_key=b"second", quality=False)
    before, after = ({t.shape.attributes: t.scale for t in each.parts[0].tables} for each in (view, finer))
    spent = sum(1 / Fraction(scale) for scale in before.values())
    assert before.keys() == after.keys()
    for attributes, scale in after.items():
        assert scale == pytest.approx(before[attributes] * float(spent / (spent + Fraction(1, 2))), rel=1e-6)


def test_budgets_add_up_in_the_manifest_and_on_the_card() -> None:
    """The refined view states both budgets, and its spending adds up to them exactly."""
    view = built(rows())
    finer = hv.refine(view, rows(), "0.5", ledger=False, test_key=b"second")
    assert finer.manifest.epsilon == Fraction(3, 2)
    assert sum(each.epsilon * each.times for each in finer.manifest.spending) == Fraction(3, 2)
    assert "epsilon 1.5" in finer.privacy_card().text
    assert view.manifest.epsilon == 1


def test_the_ledger_adds_up_and_names_the_same_table(tmp_path: Path) -> None:
    """Refining charges the account of the table that the view was built from."""
    path = tmp_path / "admissions.parquet"
    pq.write_table(rows(), path)
    view = hv.build(path, SCHEMA, 1)
    finer = hv.refine(view, path, "0.5")
    assert Ledger(tmp_path / "hdpview-ledger.sqlite").spent("admissions") == Fraction(3, 2)
    assert finer.manifest.spent_on_table == Fraction(3, 2)


def test_a_focus_adds_a_table_that_the_view_does_not_hold() -> None:
    """A new group is measured; one that is there already gets its share of the budget instead."""
    view = built(rows())
    groups = {table.attributes for table in view.parts[0].tables}
    finer = hv.refine(view, rows(), 1, focus=[("age", "stay")], ledger=False, test_key=b"second")
    after = {table.attributes: table.scale for table in finer.parts[0].tables}
    assert set(after) == groups | {(0, 1)}
    assert after[0, 1] <= 1 / 0.55


def test_another_table_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    """A table that cannot have been the one before costs nothing and is explained."""
    path = tmp_path / "admissions.parquet"
    pq.write_table(rows(), path)
    view = hv.build(path, SCHEMA, 20)
    pq.write_table(rows().slice(0, 1_000), path)
    with pytest.raises(hv.MethodError, match="not the table that the view was built from"):
        hv.refine(view, path, 1)
    assert Ledger(tmp_path / "hdpview-ledger.sqlite").spent("admissions") == 20


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "hdpview"}, "chose its blocks"),
        ({"delta": "1e-3", "focus": []}, "Gaussian"),
        ({"privacy_unit": "age", "max_rows": 2}, "each person's rows"),
    ],
)
def test_views_that_cannot_be_refined_say_why(options: dict[str, object], words: str) -> None:
    """The paper's blocks, Gaussian noise and chosen rows are refused in words."""
    with pytest.raises(hv.MethodError, match=words):
        hv.refine(built(rows(), **options), rows(), 1, ledger=False)


def test_a_refinement_is_named_by_the_view_it_refines() -> None:
    """A build that broke off is resumed by its order, which must not depend on how arrays are printed."""
    assert (
        repr(Refinement((("age", "stay"),), refined_view="abc"))
        == "Refinement(of abc, focus=(('age', 'stay'),))"
    )


def test_the_command_writes_a_view_of_both_budgets(tmp_path: Path) -> None:
    """`hdpview refine` charges the ledger, writes the new view and leaves the old one alone."""
    path = tmp_path / "admissions.parquet"
    pq.write_table(rows(), path)
    view = hv.build(path, SCHEMA, 1)
    view.save(tmp_path / "one.pview")
    done = run("refine", "one.pview", "--data", path, "--epsilon", "0.5", "-o", "two.pview", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "1.5 spent" in done.stderr
    assert hv.open(tmp_path / "two.pview").manifest.epsilon == Fraction(3, 2)
    assert hv.open(tmp_path / "one.pview").manifest.epsilon == 1
