"""A budget that was charged leaves a view, or a build that can be finished without paying again."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import command_line
import hdpview as hv
from hdpview.counts.paid_check import paid_check
from hdpview.errors import BudgetError, HdpviewError
from hdpview.methods import mixture
from hdpview.privacy import ledger as ledgers
from hdpview.privacy import mechanism
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


class OutOfMemory:
    """Fails in the place of a function."""

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise MemoryError


@pytest.mark.parametrize(
    ("method", "broken"),
    [
        ("mixture", "hdpview.methods.mixture.fits_side_by_side"),
        ("mixture", "hdpview.methods.quality.questions_about"),
        ("mixture", "hdpview.build.PView"),
        ("hdpview", "hdpview.build.prior_quality"),
    ],
)
def test_a_build_that_breaks_off_is_finished_without_paying_again(
    method: str, broken: str, account: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever was drawn is in the view that is finished later: nothing is drawn twice, nothing charged
    twice.
    """
    drawn: list[bytes] = []
    right = mechanism._sampled

    def noting(*arguments: Any) -> Any:
        noisy = right(*arguments)
        drawn.append(noisy.tobytes())
        return noisy

    with patch.object(mechanism, "_sampled", noting):
        with patch(broken, OutOfMemory()), pytest.raises(MemoryError):
            build(account, method=method)
        assert "--resume" in caplog.text
        (charge,) = account.charges()
        assert (charge.state, charge.epsilon) == (FAILED, 1)
        n_before = len(drawn)
        view = build(account, method=method, resume=True)
    assert account.spent("t") == 1
    assert [charge.state for charge in account.charges()] == [FINISHED]
    assert view.manifest.epsilon == 1
    part = view.parts[0]
    released = [table.counts.tobytes() for table in part.tables] or [part.components.noisy_counts.tobytes()]
    assert set(released) <= set(drawn)
    assert len(drawn) == n_before or broken.endswith(".fit")
    assert not list(account.path.parent.glob("*.released"))


def test_a_resumed_build_is_the_build_that_broke_off(account: Ledger, tmp_path: Path) -> None:
    """Under a test key it is the same view to the last byte, and so it is if the table has changed meanwhile:
    all of it comes from what was drawn.
    """
    account.charge("other", Fraction(1), "x")
    whole = hv.build(table(), SCHEMA, 1, ledger=False, test_key=b"k")
    with patch("hdpview.build.PView", OutOfMemory()), pytest.raises(MemoryError):
        build(account, test_key=b"k")
    other = hv.build(
        table(50), SCHEMA, 1, ledger=account.path, table="t", test_key=b"another key", resume=True
    )
    whole.save(tmp_path / "whole.pview")
    other.save(tmp_path / "other.pview")
    assert (tmp_path / "whole.pview").read_bytes() == (tmp_path / "other.pview").read_bytes()


def test_a_killed_build_is_finished(tmp_path: Path) -> None:
    """Killed while it fits; the command with --resume writes the view, and the ledger has one charge."""
    import pyarrow.csv as pc

    pc.write_csv(table(), tmp_path / "t.csv")
    (tmp_path / "t.toml").write_text(SCHEMA.to_toml() if hasattr(SCHEMA, "to_toml") else _toml())
    words = ["build", "t.csv", "-s", "t.toml", "-e", "1", "-o", "v.pview"]
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
    assert "Nothing that was paid for 't' is left to be resumed" in nothing.stderr


def _toml() -> str:
    return "".join(
        f'[attributes.{name}]\ntype = "integer"\nmin = 0\nmax = {size - 1}\n' for name, size in SIZES.items()
    )


@pytest.mark.parametrize(
    "change", [{"epsilon": 2}, {"method": "hdpview"}, {"schema": hv.Schema(SCHEMA.attributes[:3])}]
)
def test_what_is_resumed_is_what_was_paid_for(change: dict[str, Any], account: Ledger) -> None:
    """Another budget, method or schema would draw anew for nothing."""
    with patch.object(mixture, "fits_side_by_side", OutOfMemory()), pytest.raises(MemoryError):
        build(account)
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
        "hdpview.domain.places.open_lines",  # the draft is written, and its charge not settled
        "pathlib.Path.write_text",
    ],
)
def test_learning_that_breaks_off_is_finished_without_paying_again(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was drawn before is used again, what is missing is drawn, and one charge is in the ledger."""
    import pyarrow.parquet as pq

    pq.write_table(pa.table(PEOPLE), tmp_path / "t.parquet")
    monkeypatch.chdir(tmp_path)
    drawn: list[bytes] = []
    right = mechanism._sampled

    def noting(*arguments: Any) -> Any:
        noisy = right(*arguments)
        drawn.append(noisy.tobytes())
        return noisy

    monkeypatch.setattr(mechanism, "_sampled", noting)
    with patch(broken, OutOfMemory()), suppress(MemoryError):
        assert command_line.run(*LEARN, 2).returncode != 0
    Path("t.toml").unlink(missing_ok=True)
    assert "another schema, method, budget" in command_line.run(*LEARN, 1, "--resume").stderr
    assert command_line.run(*LEARN, 2, "--resume").returncode == 0
    assert 'values = ["Bonn", "Kiel"]' in Path("t.toml").read_text()
    assert len(drawn) == 1
    (charge,) = Ledger(ledgers.LEDGER_NAME).charges()
    assert (charge.state, charge.epsilon, charge.view) == (FINISHED, 2, "t.toml")
    assert not list(tmp_path.glob("*.released"))


def test_a_paid_check_that_breaks_off_is_finished(account: Ledger) -> None:
    """For no more than was charged."""
    with patch("hdpview.counts.paid_check.Mechanism.close", OutOfMemory()), pytest.raises(HdpviewError):
        paid_check(table(), SCHEMA, Fraction(1), account, "t")
    assert paid_check(table(), SCHEMA, Fraction(1), account, "t", resume=True) == []
    assert [(one.state, one.epsilon) for one in account.charges()] == [(FINISHED, 1)]
    assert not list(account.path.parent.glob("*.released"))


def test_a_running_build_cannot_be_resumed(account: Ledger) -> None:
    """Two processes would draw for one charge."""

    def meanwhile(*_: Any, **__: Any) -> Any:
        program = (
            "import hdpview as hv, pyarrow as pa, sys\n"
            f"sizes = {SIZES}\n"
            "schema = hv.Schema([hv.Integer(name=name, min=0, max=n - 1) for name, n in sizes.items()])\n"
            "table = pa.table({name: [1] for name in sizes})\n"
            "hv.build(table, schema, 1, ledger=sys.argv[1], table='t', resume=True)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, str(account.path)], capture_output=True, text=True
        )
        assert "still running" in done.stderr
        raise MemoryError

    with patch.object(mixture, "fits_side_by_side", meanwhile), pytest.raises(MemoryError):
        build(account)
    assert build(account, resume=True).n_components > 0


def test_a_torn_record_is_drawn_again(account: Ledger) -> None:
    """What a dying process wrote half is cut off; all before it stands."""
    with patch.object(mixture, "fits_side_by_side", OutOfMemory()), pytest.raises(MemoryError):
        build(account)
    (kept,) = account.path.parent.glob("*.released")
    os.truncate(kept, kept.stat().st_size - 7)
    assert build(account, resume=True).manifest.epsilon == 1
    assert account.spent("t") == 1


def test_a_ledger_that_is_locked_at_the_end_costs_no_view(
    account: Ledger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Another program holds the ledger while the view is finished: the view is there, and a warning."""
    monkeypatch.setattr(ledgers, "_WAIT_SECONDS", 0.1)
    others: list[sqlite3.Connection] = []

    def lock(_: object) -> None:
        others.append(sqlite3.connect(account.path, isolation_level=None))
        others[0].execute("BEGIN EXCLUSIVE")

    view = build(account, on_charge=lock)
    others[0].close()
    assert view.manifest.spent_on_table == 1
    assert "database is locked" in caplog.text


def test_a_disk_that_is_full_costs_only_the_chance_to_resume(
    account: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    """The view is finished all the same."""
    right = os.write

    def full(file: int, data: bytes) -> int:
        if b'"purpose"' in data[:200]:
            raise OSError(28, "No space left on device")
        return right(file, data)

    with patch.object(os, "write", full):
        assert build(account).manifest.epsilon == 1
    assert "cannot be resumed" in caplog.text


def test_nothing_is_resumed_without_a_ledger() -> None:
    """There is nothing to go on from."""
    with pytest.raises(HdpviewError, match="resumed from its ledger"):
        hv.build(table(), SCHEMA, 1, ledger=False, resume=True)
