"""Bounds and categories learnt for a price: near the truth, charged, and blind to a single row."""

import json
import stat
from collections import Counter
from datetime import datetime
from fractions import Fraction
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import command_line
import hdpview as hv
from hdpview.counts import learn as learning
from hdpview.counts.contributions import Contributions
from hdpview.counts.draft import learnable_draft, learnt_text
from hdpview.counts.learn import learn
from hdpview.privacy.budget import exact_epsilon
from hdpview.privacy.exact import Exact
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.randomness import Randomness

TINY = Fraction(1, 10**9)
KINDS = {"age": "integer", "balance": "real", "born": "datetime", "city": "category", "ill": "boolean"}


def frequent(texts: dict[str, int], epsilon: Fraction, delta: Fraction, max_rows: int = 1) -> dict[str, int]:
    mechanism = Mechanism(epsilon, Randomness.fresh(), delta=delta, max_rows=max_rows, law="laplace")
    return mechanism.frequent("texts", Exact(texts), mechanism.total, delta)


def table(n: int = 5_000) -> pa.Table:
    rng = np.random.default_rng(3)
    born = [datetime(1950 + int(year), 5, 1) for year in rng.integers(0, 50, n)]
    balance = np.where(rng.random(n) < 0.5, rng.normal(-500, 50, n), rng.normal(3_000, 100, n))
    return pa.table(
        {
            "age": rng.integers(18, 90, n), "balance": balance, "born": pa.array(born, pa.timestamp("us")),
            "city": rng.choice(["Lyon", "Oslo", "Graz"], n), "ill": rng.random(n) < 0.1,
        }
    )  # fmt: skip


def learnt_of(
    values: pa.Array | list[Any], kind: str, epsilon: int = 1, delta: Fraction = Fraction(0)
) -> Any:
    """What is learnt of one column."""
    return learn(pa.table({"x": values}), {"x": kind}, Fraction(epsilon), delta).attributes["x"]


def test_bounds_hold_the_data_and_are_not_far_off(monkeypatch):
    """A year has some 400 rows, 70 scales of noise above the threshold."""
    monkeypatch.setattr(learning, "_FALSE_BINS", 1e-7)
    age, balance, born, city, _ = learn(table(20_000), KINDS, Fraction(1), TINY).attributes.values()
    assert (age.kind, age.min, age.max) == ("integer", 16, 127)
    assert (balance.kind, balance.min, balance.max) == ("real", -1024.0, 4096.0)
    assert (born.kind, born.min, born.max) == ("datetime", "1950-01-01", "1999-12-31")
    assert (city.kind, city.values) == ("category", ("Graz", "Lyon", "Oslo"))


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        ([0], (0, 0)), ([1], (1, 1)), ([-1], (-1, -1)), ([0, -1], (-1, 0)), ([0, 1], (0, 1)),
        ([-8, 5], (-8, 7)), ([-4], (-4, -3)),
    ],
)  # fmt: skip
def test_numbers_lie_within_their_bounds(values, bounds, monkeypatch):
    monkeypatch.setattr(learning, "_FALSE_BINS", 1e-12)
    whole, real = (
        learnt_of(values * 3_000, "integer"),
        learnt_of(pa.array(values * 3_000, pa.float64()), "real"),
    )
    assert (whole.kind, whole.min, whole.max) == ("integer", *bounds)
    assert real.min <= min(values) <= max(values) <= real.max


def test_what_a_single_row_has_is_not_learnt(monkeypatch):
    """Twenty tries; a bin with one row rarely passes the threshold: false alarms one in 100,000."""
    monkeypatch.setattr(learning, "_FALSE_BINS", 1e-5)
    row = {"age": 10**15, "balance": -1e17, "born": datetime(2077, 1, 1), "city": "Atlantis", "ill": True}
    many = table(2_000)
    both = pa.concat_tables([many, pa.Table.from_pylist([row], many.schema)])
    for _ in range(20):
        text = str(learn(both, KINDS, Fraction(1), TINY).attributes)
        assert "Atlantis" not in text
        assert "2077" not in text
        assert "1125899906842623" not in text


def test_without_a_delta_categories_stay_open_and_without_rows_everything_does():
    assert KINDS.keys() - learn(table(), KINDS, Fraction(1), Fraction(0)).attributes.keys() == {"city"}
    assert "city" not in learn(table(0), KINDS, Fraction(1), TINY).attributes


def test_odd_values_do_not_raise():
    odd = [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 5e-324, 1.8e308, -1.8e308, None, 1.0]
    assert learnt_of(odd * 200, "real").kind == "real"
    moments = [2**63 - 1, -(2**63) + 1, -(2**62), 2**62, None, 0] * 200
    when = learnt_of(pa.array(moments, pa.timestamp("us")), "datetime")
    assert (when.min, when.max) == ("1900-01-01", "2099-12-31")


def test_a_text_of_one_row_passes_the_threshold_as_rarely_as_stated():
    """With δ = 0.05, a text held by one row is shown in some, but at most 5% of the draws."""
    shown = Counter(bool(frequent({"x": 1}, Fraction(1), Fraction(1, 20))) for _ in range(4_000))
    assert 20 < shown[True] <= 4_000 * 0.05 + 60


def test_the_command_charges_first_and_the_schema_tells_the_cost(tmp_path):
    pq.write_table(table(), tmp_path / "people.parquet")

    run = partial(command_line.run, cwd=tmp_path)

    draft = "schema", "draft", "people.parquet", "--learn-bounds-epsilon", "0.5", "--learn-delta"
    done = run(*draft, "1e-9", "-o", "p.toml")
    assert done.returncode == 0, done.stderr
    schema = hv.Schema.load(tmp_path / "p.toml")
    assert (schema.learnt_epsilon, schema.learnt_delta) == ("1/2", "1/1000000000")
    assert hv.Schema.from_dict(schema.to_dict()) == schema
    shown = json.loads(run("ledger", "show", "--format", "json").stdout)
    assert [(charge["table"], charge["epsilon"], charge["delta"]) for charge in shown["charges"]] == [
        ("people", 0.5, 1e-9)
    ]
    view = hv.build(table(), schema, 1)
    card = view.privacy_card().text
    manifest = view.manifest
    assert manifest.total == (manifest.epsilon + Fraction(1, 2), manifest.delta + Fraction(1, 10**9))
    assert "learning the schema" in card
    assert f"with {manifest.budget}: adding or removing" in card
    assert "Pure differential privacy" not in card
    facts = view.info()
    assert facts["epsilon"] == sum(facts["spending"].values()) == float(manifest.total[0])
    assert run(*draft, "0.5").returncode == 2


def test_nothing_is_spent_on_what_cannot_be_learnt_or_written(tmp_path):
    draft = ["schema", "draft", "t.parquet", "--learn-bounds-epsilon", "1", "--ledger", "l.sqlite"]
    texts, delta = pa.table({"a": ["x", "y"]}), "--learn-delta"
    for columns, words, why in (
        (table(10), [delta, "1e-40", "-o", "p.toml"], "delta"),
        (table(10), ["-o", "nowhere/p.toml"], "nowhere"),
        (texts, [delta, "0", "-o", "t.toml"], "needs a delta"),
        (pa.table({"a": [True, False]}), [delta, "1e-9", "-o", "t.toml"], "truth values"),
        (pa.table({"n" * 300: [1, 2]}), [delta, "0", "-o", "t.toml"], "name"),
    ):
        pq.write_table(columns, tmp_path / "t.parquet")
        done = command_line.run(*draft, *words, cwd=tmp_path)
        assert (done.returncode, why in done.stderr, "Traceback" in done.stderr) == (2, True, False), (
            done.stderr
        )
    assert not (tmp_path / "l.sqlite").exists()
    with pytest.raises(hv.BudgetError, match="certifies no delta below"):
        frequent({"x": 1}, Fraction(1), Fraction(1, 2**54))


def test_a_schema_remembers_any_budget_that_can_be_spent():
    budget = exact_epsilon("0." + "123456789" * 5 + "7")
    assert hv.Schema([hv.Boolean(name="a")], learnt_epsilon=str(budget)).learnt_epsilon == str(budget)


@pytest.mark.parametrize("cost", ["", "x", "1e-9", "-1", "1/0", 3])
def test_a_cost_that_is_no_budget_is_refused(cost):
    with pytest.raises(hv.SchemaError, match="budgets written as text"):
        hv.Schema.from_dict({"learnt_epsilon": cost, "attributes": {"a": {"type": "boolean"}}})


def visits(n_people: int, rows_each: int) -> pa.Table:
    """Many persons with a few rows, and one with thousands of one city and one age that nobody else has."""
    rng, many = np.random.default_rng(1), 3_000
    who = [f"p{i}" for i in range(n_people) for _ in range(rows_each)]
    return pa.table(
        {
            "who": [*who, *["whale"] * many],
            "age": np.concatenate([rng.integers(20, 60, len(who)), np.full(many, 4_000)]),
            "city": [*rng.choice(["Lyon", "Oslo"], len(who)), *["Atlantis"] * many],
        }
    )


def test_persons_are_protected_where_bounds_are_learnt(monkeypatch):
    """One person's thousands of rows used to set the bounds."""
    monkeypatch.setattr(learning, "_FALSE_BINS", 1e-7)
    kinds, limits = {"age": "integer", "city": "category"}, Contributions("who", 2)
    age, city = learn(visits(3_000, 2), kinds, Fraction(4), TINY, limits).attributes.values()
    assert (age.min, age.max, city.values) == (16, 63, ("Lyon", "Oslo"))
    assert learn(visits(3_000, 2), kinds, Fraction(4), TINY).attributes["age"].max == 4_095


def test_learning_keeps_what_the_free_draft_knows(tmp_path):
    lines = [
        f"{18 + i % 60},{i % 7}.5,20{10 + i % 10}-05-01,{'LO'[i % 2]},{'yes' if i % 3 else 'no'}"
        for i in range(5_000)
    ]
    (tmp_path / "t.csv").write_text("age,score,born,city,ill\n" + "\n".join(lines))
    draft, kinds = learnable_draft(tmp_path / "t.csv")
    learnt = learn(tmp_path / "t.csv", kinds, Fraction(5), TINY)
    assert learnt.kinds == {name: attribute.kind for name, attribute in learnt.attributes.items()}
    assert [*learnt.kinds.values()] == ["integer", "real", "datetime", "category", "boolean"]
    schema = hv.Schema.from_toml(learnt_text(draft, learnt, Fraction(5), TINY))
    assert (schema.names, schema.source) == (tuple(kinds), draft.source)


def test_columns_are_chosen_before_anything_is_spent(tmp_path):
    pq.write_table(visits(5, 1), tmp_path / "t.parquet")
    assert list(learnable_draft(tmp_path / "t.parquet", unit="who")[1]) == ["age", "city"]
    assert list(learnable_draft(tmp_path / "t.parquet", ["age", "who"], ["who"])[1]) == ["age"]
    with pytest.raises(hv.DataError, match="Did you mean 'city'"):
        learnable_draft(tmp_path / "t.parquet", ["citi"])


def test_words_of_databases_go_to_a_file_of_the_curator_alone(tmp_path, monkeypatch):
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 secret value PAR1")
    schema = hv.Schema([hv.Integer(name="age", min=0, max=9)])
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(hv.DataError, match="HDPVIEW_DEBUG=1"):
        hv.build(tmp_path / "bad.parquet", schema, 1, ledger=False)
    assert not list(tmp_path.glob("hdpview-debug-*"))
    monkeypatch.setenv("HDPVIEW_DEBUG", "1")
    with pytest.raises(hv.DataError) as refused:
        hv.build(tmp_path / "bad.parquet", schema, 1, ledger=False)
    (file,) = tmp_path.glob("hdpview-debug-*")
    assert str(file) in str(refused.value)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "Traceback" in file.read_text()


def test_a_text_with_a_nul_changes_no_other():
    """OpenDP's binding ends texts at NUL: one row "yes\\0" overwrote the count of "yes"."""
    answers = ["yes"] * 5_000 + ["no"] * 5_000
    for rows in (answers, [*answers, "yes\0"]):
        learnt = learn(pa.table({"a": rows}), {"a": "category"}, Fraction(1), TINY)
        assert learnt.attributes["a"].values == ("no", "yes")
    with pytest.raises(hv.BudgetError, match="NUL"):
        frequent({"yes": 5_000, "yes\0": 1}, Fraction(1), TINY)


def test_the_threshold_is_found_at_once():
    """With a thousand rows of a person the search for it made so many mechanisms that it took a minute."""
    import opendp.prelude as dp

    right, made = dp.m.make_laplace_threshold, list[int]()

    def counting(*arguments: object, **names: object) -> object:
        made.append(1)
        return right(*arguments, **names)

    with patch.object(dp.m, "make_laplace_threshold", counting):
        assert frequent({"x": 10**9}, Fraction(1, 10), TINY, max_rows=1_000)
    assert len(made) < 20


def test_a_column_may_have_any_name(tmp_path):
    """`self` is an argument of Ibis's own functions."""
    table = pa.table({"self": list(range(2_000)), "name": [1.5] * 2_000, "text": ["a"] * 2_000})
    kinds = {"self": "integer", "name": "real", "text": "category"}
    learnt = learn(table, kinds, Fraction(10), TINY)
    assert list(learnt.attributes) == ["self", "name", "text"]


def test_a_learning_that_finds_nothing_leaves_a_draft(tmp_path):
    pq.write_table(pa.table({"a": [1, 2, 3]}), tmp_path / "t.parquet")
    words = ["schema", "draft", "t.parquet", "--learn-bounds-epsilon", "0.001", "-o", "t.toml"]
    done = command_line.run(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert 'type = "integer"' in (tmp_path / "t.toml").read_text()
