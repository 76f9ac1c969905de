"""A budget that was charged leaves a view, or a build that can be finished without paying again."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import command_line
import hdpview as hv
from hdpview.counts.paid_check import paid_check
from hdpview.errors import BudgetError, HdpviewError
from hdpview.methods import mixture
from hdpview.privacy import checkpoint, mechanism
from hdpview.privacy import ledger as ledgers
from hdpview.privacy.checkpoint import Checkpoint
from hdpview.privacy.ledger import FAILED, FINISHED, Ledger

SIZES = {"a": 6, "b": 5, "c": 4, "d": 3}
SCHEMA = hv.Schema([hv.Integer(name=name, min=0, max=size - 1) for name, size in SIZES.items()])


def table(n: int = 3_000) -> pa.Table:
    rng = np.random.default_rng(7)
    first = rng.integers(0, 6, n)
    columns = {name: rng.integers(0, size, n) for name, size in SIZES.items()}
    return pa.table({**columns, "a": first, "b": np.minimum(first, 4)})


def build(account: Ledger, **options: Any) -> hv.PView:
    return hv.build(table(), SCHEMA, 1, ledger=account.path, table="t", **options)


@pytest.fixture
def account(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "l.sqlite")


def break_off(
    account: Ledger, where: str = "hdpview.methods.mixture.fits_side_by_side", **options: Any
) -> None:
    with patch(where, side_effect=MemoryError), pytest.raises(MemoryError):
        build(account, **options)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    draws: list[bytes] = []
    right = mechanism._sampled

    def noting(*arguments: Any) -> Any:
        noisy = right(*arguments)
        draws.append(noisy.tobytes())
        return noisy

    monkeypatch.setattr(mechanism, "_sampled", noting)
    return draws


@pytest.mark.parametrize(
    ("method", "broken"),
    [
        ("mixture", "hdpview.methods.mixture.fits_side_by_side"),
        ("mixture", "hdpview.methods.quality.questions_about"),
        ("mixture", "hdpview.build.PView"),
        ("hdpview", "hdpview.build.prior_quality"),
    ],
)
def test_a_build_that_breaks_off_is_finished_without_paying_again(method, broken, account, drawn, caplog):
    break_off(account, broken, method=method)
    assert "--resume" in caplog.text
    (charge,) = account.charges()
    assert (charge.state, charge.epsilon) == (FAILED, 1)
    n_before = len(drawn)
    view = build(account, method=method, resume=True)
    assert account.spent("t") == 1
    assert [charge.state for charge in account.charges()] == [FINISHED]
    assert (view.manifest.epsilon, view.manifest.spent_on_table) == (1, 1)
    part = view.parts[0]
    released = [table.counts.tobytes() for table in part.tables] or [part.components.noisy_counts.tobytes()]
    assert set(released) <= set(drawn)
    assert len(drawn) == n_before
    assert not list(account.path.parent.glob("*.released"))


def test_a_resumed_build_is_the_build_that_broke_off(account, tmp_path):
    """Even if the table has changed meanwhile, because everything comes from recorded draws."""
    account.charge("other", Fraction(1), "x")
    whole = hv.build(table(), SCHEMA, 1, ledger=False, test_key=b"k")
    break_off(account, "hdpview.build.PView", test_key=b"k")
    options = {"ledger": account.path, "table": "t", "test_key": b"another key", "resume": True}
    hv.build(table(50), SCHEMA, 1, **options).save(tmp_path / "other.pview")
    whole.save(tmp_path / "whole.pview")
    assert (tmp_path / "whole.pview").read_bytes() == (tmp_path / "other.pview").read_bytes()


def test_a_killed_build_is_finished(tmp_path):
    pq.write_table(table(), tmp_path / "t.parquet")
    attributes = (
        f'[attributes.{name}]\ntype = "integer"\nmin = 0\nmax = {n - 1}\n' for name, n in SIZES.items()
    )
    (tmp_path / "t.toml").write_text("".join(attributes))
    words = ["build", "t.parquet", "-s", "t.toml", "-e", "1", "-o", "v.pview"]
    program = (
        "import os, signal, sys\nfrom hdpview.methods import mixture\nfrom hdpview.cli.main import main\n"
        "mixture.fits_side_by_side = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"sys.argv = ['hdpview', *{words!r}]\nmain()\n"
    )
    killed = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = [sys.executable, "-m", "hdpview", *words, "--resume"]
    done = subprocess.run(again, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert hv.open(tmp_path / "v.pview").manifest.epsilon == 1
    (charge,) = Ledger(tmp_path / ledgers.LEDGER_NAME).charges()
    assert (charge.state, charge.view) == (FINISHED, "v.pview")
    assert not list(tmp_path.glob("*.released"))
    nothing = subprocess.run(again + ["--force"], cwd=tmp_path, capture_output=True, text=True)
    assert nothing.returncode == 2
    assert "has no interrupted charge on 't' to resume" in nothing.stderr


@pytest.mark.parametrize(
    "change", [{"epsilon": 2}, {"method": "hdpview"}, {"schema": hv.Schema(SCHEMA.attributes[:3])}]
)
def test_what_is_resumed_is_what_was_paid_for(change, account):
    break_off(account)
    asked = {"schema": SCHEMA, "epsilon": 1, **change}
    with pytest.raises(BudgetError, match="another schema, method, budget or privacy unit"):
        hv.build(table(), ledger=account.path, table="t", resume=True, **asked)
    assert build(account, resume=True).manifest.epsilon == 1


PEOPLE = {"age": [20 + i % 50 for i in range(3_000)], "city": ["Bonn", "Kiel"] * 1_500}
LEARN = ["schema", "draft", "t.parquet", "--learn-delta", "1e-9", "-o", "t.toml", "--learn-bounds-epsilon"]


@pytest.mark.parametrize(
    "broken",
    [
        "hdpview.privacy.mechanism._laplace_with_threshold",  # between two draws
        "hdpview.counts.learn.Category",
        "hdpview.counts.draft.learnt_text",
        "hdpview.domain.toml.open_lines",  # the draft is written, and its charge not settled
        "hdpview.view.file.written_whole",
    ],
)
def test_learning_that_breaks_off_is_finished_without_paying_again(broken, tmp_path, drawn, monkeypatch):
    pq.write_table(pa.table(PEOPLE), tmp_path / "t.parquet")
    monkeypatch.chdir(tmp_path)
    with patch(broken, side_effect=MemoryError), suppress(MemoryError):
        assert command_line.run(*LEARN, 2).returncode != 0
    Path("t.toml").unlink(missing_ok=True)
    assert "another schema, method, budget" in command_line.run(*LEARN, 1, "--resume").stderr
    assert command_line.run(*LEARN, 2, "--resume").returncode == 0
    assert 'values = ["Bonn", "Kiel"]' in Path("t.toml").read_text()
    assert len(drawn) == 1
    (charge,) = Ledger(ledgers.LEDGER_NAME).charges()
    assert (charge.state, charge.epsilon, charge.view) == (FINISHED, 2, "t.toml")
    assert not list(tmp_path.glob("*.released"))


def test_a_paid_check_that_breaks_off_is_finished(account):
    broken = patch("hdpview.counts.paid_check.Mechanism.close", side_effect=MemoryError)
    with broken, pytest.raises(HdpviewError):
        paid_check(table(), SCHEMA, Fraction(1), account, "t")
    assert paid_check(table(), SCHEMA, Fraction(1), account, "t", resume=True) == []
    assert [(one.state, one.epsilon) for one in account.charges()] == [(FINISHED, 1)]
    assert not list(account.path.parent.glob("*.released"))


def test_a_build_that_plans_otherwise_draws_nothing_new(account):
    """Rounding elsewhere may change the plan. Tables of both plans would reveal more than was paid."""
    break_off(account)
    right = mixture.MixtureBuild.measure

    def otherwise(self: Any, heading: str, *terms: Any) -> None:
        right(self, f"other {heading}", *terms)

    with (
        patch.object(mixture.MixtureBuild, "measure", otherwise),
        patch.object(mechanism, "_sampled", side_effect=AssertionError("drawn")),
        pytest.raises(BudgetError, match="more than was charged"),
    ):
        build(account, resume=True)
    assert build(account, resume=True).manifest.epsilon == 1


@pytest.mark.parametrize(
    "options",
    [
        {"focus": [("a", "b")] * 1_001},
        {"privacy_unit": "u" * 1_001},
        {"schema": hv.Schema([hv.Integer(name=f"a{i}", min=0, max=65_535) for i in range(13)])},
    ],
)
def test_a_view_that_no_file_can_hold_is_not_charged(options, account):
    kept = {"ledger": account.path, "table": "t"}
    rows = table().append_column("u" * 1_001, pa.array(range(3_000)))
    with pytest.raises(HdpviewError, match=r"No file could hold .* spent"):
        hv.build(rows, **{"schema": SCHEMA, "epsilon": 1, **kept, **options})
    view = build(account)
    facts = replace(view.manifest, focus=(("a", "b"),) * 1_000)
    with pytest.raises(HdpviewError, match=r"No file could hold .* spent"):
        hv.refine(hv.PView(facts, view.parts), table(), 1, focus=[("a", "c")], **kept)
    assert account.spent("t") == 1


def test_a_running_build_cannot_be_resumed(account):
    def meanwhile(*_: Any, **__: Any) -> Any:
        program = (
            "import hdpview as hv, pyarrow as pa, sys\n"
            f"schema = hv.Schema([hv.Integer(name=n, min=0, max=s - 1) for n, s in {SIZES}.items()])\n"
            "table = pa.table({name: [1] for name in schema.names})\n"
            "hv.build(table, schema, 1, ledger=sys.argv[1], table='t', resume=True)\n"
        )
        command = [sys.executable, "-c", program, str(account.path)]
        assert "still running" in subprocess.run(command, capture_output=True, text=True).stderr
        raise MemoryError

    with patch.object(mixture, "fits_side_by_side", meanwhile), pytest.raises(MemoryError):
        build(account)
    assert build(account, resume=True).n_components > 0


def test_whole_records_survive_wherever_the_file_is_torn(tmp_path):
    """A process can die in the middle of a write. Incomplete records are drawn again and written in their
    place."""
    path, order = tmp_path / "x.released", {"epsilon": "1"}
    records = {"a": np.arange(3), "b": np.array(["ä", "bc"]), "c": np.zeros((2, 0, 1))}
    whole, ends = Checkpoint(path, order), []
    for purpose, array in records.items():
        ends.append(path.stat().st_size)
        whole.keep(purpose, "terms", [array])
    whole.close(remove=False)
    content = path.read_bytes()
    for length in range(ends[0], len(content)):
        path.write_bytes(content[:length])
        torn = Checkpoint(path, order, resume=True)
        n_whole = sum(length >= end for end in ends) - 1
        assert [torn.recall(purpose, "terms") is not None for purpose in records] == [
            i < n_whole for i in range(3)
        ]
        for purpose in list(records)[n_whole:]:
            torn.keep(purpose, "terms", [records[purpose]])
        torn.close(remove=False)
        assert path.read_bytes() == content


@pytest.mark.parametrize(
    "problem", [PermissionError(13, "no"), OSError(30, "read-only"), FileNotFoundError()]
)
def test_nothing_is_drawn_anew_where_earlier_draws_cannot_be_read(problem, account):
    """Noise drawn a second time for one charge would tell more than was paid for."""
    break_off(account)
    right = os.open

    def refusing(path: Any, flags: int, *rest: Any) -> int:
        if str(path).endswith(".released") and flags & os.O_RDWR:
            raise problem
        return right(path, flags, *rest)

    with (
        patch.object(os, "open", refusing),
        patch.object(mechanism, "_sampled", side_effect=AssertionError("drawn")),
        pytest.raises(BudgetError, match="which stores draws"),
    ):
        build(account, resume=True)
    assert build(account, resume=True).manifest.epsilon == 1


def test_nothing_is_charged_where_draws_cannot_be_kept(account):
    with (
        patch.object(os, "write", return_value=3),
        pytest.raises(BudgetError, match="Nothing more was spent"),
    ):
        build(account)
    assert account.spent("t") == 0
    assert build(account).manifest.epsilon == 1


def test_another_version_does_not_go_on_with_a_charge(account):
    """It might draw other numbers than the earlier version did."""
    break_off(account)
    other = patch.object(checkpoint, "__version__", "0.4.0")
    with other, pytest.raises(BudgetError, match="Resume it with the same"):
        build(account, resume=True)


def test_no_charge_is_without_a_file_of_outcomes(account):
    """The file is there before the charge is, so a build that is killed at any moment can be resumed."""
    seen = []
    right = ledgers.Checkpoint

    def noting(*terms: Any, **more: Any) -> Any:
        outcomes = right(*terms, **more)
        seen.append((account.spent("t"), outcomes.path.exists()))
        return outcomes

    with patch.object(ledgers, "Checkpoint", noting):
        build(account)
    assert seen == [(0, True)]


def test_a_ledger_that_is_locked_at_the_end_costs_no_view(account, monkeypatch, caplog):
    monkeypatch.setattr(ledgers, "_WAIT_SECONDS", 0.1)
    others: list[sqlite3.Connection] = []

    def lock(_: object) -> None:
        others.append(sqlite3.connect(account.path, isolation_level=None))
        others[0].execute("BEGIN EXCLUSIVE")

    view = build(account, on_charge=lock)
    others[0].close()
    assert view.manifest.spent_on_table == 1
    assert "database is locked" in caplog.text


def test_a_draw_that_cannot_be_kept_ends_the_build(account, drawn):
    """Otherwise it would be drawn anew by a later one, beside a view that may have been seen."""
    right, lost = os.write, b'"purpose": "histograms of attributes: 1"'

    def full(file: int, data: bytes) -> int:
        return right(file, data[:99] if lost in data[:200] else data)

    with patch.object(os, "write", full), pytest.raises(BudgetError, match=r"no space left.* --resume"):
        build(account)
    n_drawn = len(drawn)
    view = build(account, resume=True)
    assert account.spent("t") == view.manifest.epsilon == 1
    released = [table.counts.tobytes() for table in view.parts[0].tables]
    assert set(released) == {*drawn[1 : n_drawn - 1], *drawn[n_drawn:]}


def test_nothing_is_resumed_without_a_ledger():
    with pytest.raises(HdpviewError, match="cannot be resumed"):
        hv.build(table(), SCHEMA, 1, ledger=False, resume=True)


def test_of_two_builds_that_broke_off_the_last_is_resumed(account):
    break_off(account)
    break_off(account)
    build(account, resume=True)
    assert [charge.state for charge in account.charges()] == [FAILED, FINISHED]
