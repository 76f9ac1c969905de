"""Spending more on a view: budgets add up, and noise shrinks as if all had been spent at once."""

import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hdpview as hv
from command_line import run
from hdpview.privacy import mechanism
from hdpview.privacy.ledger import Ledger
from hdpview.refine.forecast import estimate_wishes
from hdpview.refine.tables import Refinement
from hdpview_bench.replay import small_fits

N = 3_000


@pytest.fixture(autouse=True)
def _quickly(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fits are post-processing and take most of the time; only accuracy needs complete ones."""
    with nullcontext() if "forecast" in request.node.name else small_fits():
        yield


SCHEMA = hv.Schema(
    [
        hv.Integer(name="age", min=0, max=29), hv.Integer(name="stay", min=0, max=9),
        hv.Category(name="ward", values=("a", "b", "c")),
    ]
)  # fmt: skip


def rows(seed: int = 3) -> pa.Table:
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 30, N)
    stay, ward = (age // 4 + rng.integers(0, 3, N)) % 10, np.array(list("abc"))[age // 10]
    return pa.table({"age": age, "stay": stay, "ward": ward})


def refined(view: hv.PView, epsilon: object = 1, **options: Any) -> hv.PView:
    """Refined with the table that `rows` makes, outside of ledgers."""
    return hv.refine(view, rows(), epsilon, **{"ledger": False, "test_key": b"second", **options})


def built(table: pa.Table | Path, **options: object) -> hv.PView:
    return hv.build(table, SCHEMA, 1, **{"ledger": False, "test_key": b"first", **options})


def test_every_table_gets_the_noise_of_both_budgets_together():
    """Scales of all tables shrink by one factor: as much as was spent on tables at first and now."""
    view = built(rows(), quality=False)
    finer = refined(view, "0.5", quality=False)
    before, after = ({t.shape.attributes: t.scale for t in each.parts[0].tables} for each in (view, finer))
    spent = sum(1 / Fraction(scale) for scale in before.values())
    assert before.keys() == after.keys()
    for attributes, scale in after.items():
        assert scale == pytest.approx(before[attributes] * float(spent / (spent + Fraction(1, 2))), rel=1e-6)


def test_a_focus_is_a_list_of_groups_and_adds_a_table_that_the_view_does_not_hold():
    view = built(rows())
    groups = {table.attributes for table in view.parts[0].tables}
    finer = refined(view, focus=[("age", "stay")])
    after = {table.attributes: table.scale for table in finer.parts[0].tables}
    assert set(after) == groups | {(0, 1)}
    assert after[0, 1] <= 1 / 0.55
    for focus in ("age", ["age"], ("age", "stay")):
        with pytest.raises(hv.MethodError, match="focus must list groups of attributes by name"):
            refined(view, focus=focus)


def test_budgets_add_up_in_manifest_card_and_ledger(tmp_path):
    path = tmp_path / "admissions.parquet"
    pq.write_table(rows(), path)
    view = hv.build(path, SCHEMA, 1)
    finer = hv.refine(view, path, "0.5")
    assert finer.manifest.epsilon == finer.manifest.spent_on_table == Fraction(3, 2)
    assert sum(each.epsilon * each.times for each in finer.manifest.spending) == Fraction(3, 2)
    assert "epsilon 1.5" in finer.privacy_card().text
    assert view.manifest.epsilon == 1
    assert Ledger(tmp_path / "hdpview-ledger.sqlite").spent("admissions") == Fraction(3, 2)


@pytest.mark.parametrize("method", ["mixture", "hdpview"])
def test_a_view_is_refined_once(method, tmp_path):
    """Two refinements of one view would reveal more than is charged. One after the other is fine."""
    account = Ledger(tmp_path / "l.sqlite")
    kept = {"ledger": account.path, "table": "t"}
    view = hv.build(rows(), SCHEMA, 1, method=method, **kept)
    finer = hv.refine(view, rows(), "0.5", **kept)
    view.save(tmp_path / "v.pview")
    with pytest.raises(hv.BudgetError, match="already refined, by charge 2"):
        hv.refine(hv.open(tmp_path / "v.pview"), rows(), "0.25", **kept)
    facts = replace(view.manifest, created="2001-01-01", library_version="9")
    with pytest.raises(hv.BudgetError, match="already refined"):
        hv.refine(hv.PView(facts, view.parts), rows(), "0.25", **kept)
    assert account.spent("t") == Fraction(3, 2)
    assert hv.refine(finer, rows(), "0.5", **kept).manifest.epsilon == 2


def test_a_ledger_that_does_not_know_the_view_is_refused(tmp_path):
    ledger = tmp_path / "l.sqlite"
    Ledger(ledger).charge("t", Fraction(1), "x")
    shutil.copy(ledger, tmp_path / "older.sqlite")
    view = hv.build(rows(), SCHEMA, 1, ledger=ledger, table="t")
    for other in ({"ledger": tmp_path / "new.sqlite"}, {"ledger": tmp_path / "older.sqlite"}, {"table": "u"}):
        with pytest.raises(hv.BudgetError, match="less epsilon spent"):
            hv.refine(view, rows(), 1, **{"ledger": ledger, **other})
    assert Ledger(ledger).spent("t") == 2


def test_what_the_view_determines_cannot_be_chosen_anew():
    """Another unit would be claimed for what was released before; a delta would fail after the charge."""
    view = built(rows())
    for other in ({"delta": "1e-9"}, {"people": ["ward"]}, {"privacy_unit": "who"}, {"max_rows": 2}):
        with pytest.raises(hv.MethodError, match=r"Unknown argument .* refine takes"):
            refined(view, **other)


def test_budgets_that_no_file_can_state_together_are_refused(tmp_path):
    kept = {"ledger": tmp_path / "l.sqlite", "table": "t"}
    view = hv.build(rows(), SCHEMA, 900_000, **kept)
    with pytest.raises(hv.ViewFileError, match="so nothing was spent"):
        hv.refine(view, rows(), 200_000, **kept)
    assert Ledger(tmp_path / "l.sqlite").spent("t") == 900_000


def test_another_table_is_refused_before_anything_is_charged(tmp_path):
    path = tmp_path / "admissions.parquet"
    pq.write_table(rows(), path)
    view = hv.build(path, SCHEMA, 20)
    pq.write_table(rows().slice(0, 1_000), path)
    with pytest.raises(hv.MethodError, match="not the table that the view was built from"):
        hv.refine(view, path, 1)
    assert Ledger(tmp_path / "hdpview-ledger.sqlite").spent("admissions") == 20


def persons() -> pa.Table:
    return rows().append_column("who", pa.array([f"p{i // 3}" for i in range(N)]))


PERSON = {"privacy_unit": "who", "max_rows": 2}


def test_rows_of_persons_are_chosen_again(tmp_path):
    ledger = tmp_path / "l.sqlite"
    kept = {"ledger": ledger, "table": "t"}
    view = hv.build(persons(), SCHEMA, 4_000, **PERSON, **kept)
    finer = hv.refine(view, persons(), 4_000, **kept)
    for before, after in zip(view.parts[0].tables, finer.parts[0].tables, strict=True):
        assert (before.counts == after.counts).all()
    assert finer.manifest.choice == view.manifest.choice
    assert finer.manifest.privacy_unit == "who"
    assert Ledger(ledger).spent("t") == 8_000


@pytest.mark.parametrize(
    "other", [{"ledger": False}, {"ledger": "m.sqlite"}, {"no_person": ["p1"]}, {"table": "u"}]
)
def test_another_choice_of_rows_is_refused(other, tmp_path):
    kept = {"ledger": tmp_path / "l.sqlite", "table": "t"}
    view = hv.build(persons(), SCHEMA, 1, **PERSON, **kept)
    hv.build(persons(), SCHEMA, 1, **PERSON, ledger=tmp_path / "m.sqlite", table="t")
    hv.build(persons(), SCHEMA, 1, **PERSON, ledger=kept["ledger"], table="u")
    if other.get("ledger"):
        other = {"ledger": tmp_path / str(other["ledger"])}
    with pytest.raises(hv.MethodError, match="did not record it"):
        hv.refine(view, persons(), 1, **{**kept, **other})
    assert Ledger(tmp_path / "l.sqlite").spent("t") == 1


def test_a_delta_goes_on_from_what_it_bought():
    options = {"delta": "1e-3", "quality": False}
    view = built(rows(), **options)
    finer = refined(view, quality=False)
    once = hv.build(rows(), SCHEMA, 2, ledger=False, test_key=b"third", **options)

    def precision(of: hv.PView) -> float:
        return sum(1 / table.scale**2 for table in of.parts[0].tables)

    assert precision(finer) == pytest.approx(0.99 * precision(once), rel=0.02)  # 1% told the number of rows
    assert finer.manifest.budget == once.manifest.budget == "epsilon 2 and delta 0.001"
    assert [each.delta for each in finer.manifest.spending] == [Fraction(1, 1000)]


def test_blocks_keep_their_places_and_get_less_noise():
    view = built(rows(), method="hdpview", quality=False)
    finer = refined(view, "0.5", quality=False)
    assert (finer.blocks.lower == view.blocks.lower).all()
    assert 1 / finer.blocks.noise_scale == pytest.approx(1 / view.blocks.noise_scale + 0.5)
    assert finer.manifest.settings == view.manifest.settings
    with pytest.raises(hv.MethodError, match="cannot have a focus"):
        refined(view, focus=[("age", "stay")])


def test_a_merged_view_is_refined_part_by_part(tmp_path):
    account = Ledger(tmp_path / "l.sqlite")
    views = []
    for name, seed in (("north", 1), ("south", 2)):
        kept = {"ledger": account.path, "table": name}
        view = hv.build(rows(seed), SCHEMA, 1, **kept)
        views.append((view, hv.refine(view, rows(seed), "0.5", **kept)))
    with pytest.raises(hv.MethodError, match="Refine its parts"):
        hv.refine(hv.merge([before for before, _ in views]), rows(1), 1, ledger=False)
    merged = hv.merge([after for _, after in views])
    assert merged.manifest.epsilon == Fraction(3, 2)
    assert {account.spent(name) for name in account.tables()} == {Fraction(3, 2)}


def test_a_refinement_that_broke_off_is_resumed(tmp_path):
    account = Ledger(tmp_path / "l.sqlite")
    kept = {"ledger": account.path, "table": "t"}
    view = hv.build(rows(), SCHEMA, 1, **kept)
    drawn: list[np.ndarray] = []
    right = mechanism.finer_noise

    def noting(*arguments: Any) -> np.ndarray:
        drawn.append(right(*arguments))
        return drawn[-1]

    with patch.object(mechanism, "finer_noise", noting):
        broken = patch("hdpview.methods.mixture.fits_side_by_side", side_effect=MemoryError)
        with broken, pytest.raises(MemoryError):
            hv.refine(view, rows(), "0.5", focus=[("age", "stay")], **kept)
        n_drawn = len(drawn)
        finer = hv.refine(view, rows(), "0.5", focus=[("age", "stay")], resume=True, **kept)
    assert len(drawn) == n_drawn
    assert account.spent("t") == finer.manifest.epsilon == Fraction(3, 2)


def test_wishes_are_kept_and_checked(tmp_path):
    view, path = built(rows()), tmp_path / "w.json"
    wishes = view.wish("age >= 20 AND ward = 'b'", within=5) + view.wish("stay = 3", within=500)
    wishes.save(path)
    assert hv.Wishes.load(path) == wishes
    assert [row["met"] for row in wishes.report(view)] == [False, True]
    assert wishes.focus(view) == (("age", "ward"),)
    good = path.read_text()
    wrong = {"5.0": "-1", '"where"': '"whither"', "wishes 1": "wishes 9", "}": ""}
    for old, new in [*wrong.items(), ("5.0", "NaN")]:
        path.write_text(good.replace(old, new))
        with pytest.raises(hv.QueryError, match="Cannot read wishes"):
            hv.Wishes.load(path)
    with pytest.raises(hv.QueryError, match="nothing"):
        view.wish("nothing = 3", within=5)


def test_what_was_forecast_for_wishes_is_reached():
    view = built(rows(), test_key=b"2")
    wishes = view.wish("age BETWEEN 6 AND 9 AND ward = 'a'", within=20) + view.wish("age > 10", within=30)
    forecast = estimate_wishes(view, wishes)
    finer = refined(view, forecast.epsilons[-13], wishes=wishes)
    assert wishes.reach(finer) == pytest.approx(forecast.reach[-13], rel=0.25)
    assert all(needed is not None and 0.1 < needed < 3 for needed in forecast.needed)


def test_a_refinement_is_named_by_the_view_it_refines():
    """A build that broke off is resumed by its order, which must not depend on how arrays are printed."""
    tables = built(rows()).parts[0].tables
    named = repr(Refinement((("age", "stay"),), tables=tables, refined_view="abc"))
    assert "abc" in named
    assert "array" not in named


def test_the_command_writes_a_view_of_both_budgets(tmp_path):
    path = tmp_path / "admissions.parquet"
    pq.write_table(rows(), path)
    hv.build(path, SCHEMA, 1).save(tmp_path / "one.pview")
    done = run("refine", "one.pview", "--data", path, "--epsilon", "0.5", "-o", "two.pview", cwd=tmp_path)
    assert (done.returncode, "1.5 spent" in done.stderr) == (0, True), done.stderr
    wished = run("wishes", "one.pview", "--where", "stay = 3", "--within", "9", cwd=tmp_path)
    assert "Wrote one.wishes.json" in wished.stderr
    picture = ("--wishes", "one.wishes.json", "--view", "one.pview", "-o", "w.svg")
    assert "stay = 3" in run("estimate", *picture, cwd=tmp_path).stdout
    assert (tmp_path / "w.svg").read_text().startswith("<svg")
    budgets = [hv.open(tmp_path / f"{name}.pview").manifest.epsilon for name in ("one", "two")]
    assert budgets == [1, Fraction(3, 2)]
