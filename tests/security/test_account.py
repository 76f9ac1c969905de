"""The ledger on disk: charged before, never refunded, never exceeded, whoever comes at the same time."""

from __future__ import annotations

import json
import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hdpview as hv
from hdpview.errors import BudgetError
from hdpview.methods import Hdpview
from hdpview.privacy.ledger import BEGUN, FAILED, FINISHED, Ledger

SCHEMA = hv.Schema([hv.Integer(name="age", min=0, max=9)])
TABLE = pa.table({"age": np.arange(50) % 10})


@pytest.fixture
def account(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "budget.sqlite")


def test_a_build_is_charged_and_named(account: Ledger) -> None:
    """A finished build leaves one charge with its budget, method and unit."""
    hv.build(TABLE, SCHEMA, "0.1", ledger=account.path, table="admissions")
    (charge,) = account.charges("admissions")
    assert (charge.epsilon, charge.purpose, charge.state, charge.privacy_unit) == (
        Fraction(1, 10),
        "calibrated",
        FINISHED,
        "row",
    )
    assert account.spent("admissions") == Fraction(1, 10)


def test_a_budget_that_is_not_left_is_refused_in_words(account: Ledger) -> None:
    """The refusal says how much is left, and nothing is charged or drawn."""
    account.set_limit("admissions", Fraction(1))
    hv.build(TABLE, SCHEMA, "0.7", ledger=account.path, table="admissions")
    with pytest.raises(BudgetError, match=r"epsilon 0\.4 is more than is left for 'admissions': 0\.3 of 1"):
        hv.build(TABLE, SCHEMA, "0.4", ledger=account.path, table="admissions")
    hv.build(TABLE, SCHEMA, "0.3", ledger=account.path, table="admissions")
    assert account.spent("admissions") == 1
    with pytest.raises(BudgetError, match="0 of 1"):
        hv.build(TABLE, SCHEMA, "0.0001", ledger=account.path, table="admissions")


def test_tables_do_not_share_a_budget(account: Ledger) -> None:
    """What one table has spent is no matter for another."""
    account.set_limit("a", Fraction(1))
    account.charge("a", Fraction(1), "x")
    account.charge("b", Fraction(5), "x")
    assert (account.spent("a"), account.spent("b")) == (1, 5)


class Broken(Hdpview):
    """A method that fails once it has begun."""

    def release(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("broken")


def test_a_failed_build_stays_charged_and_says_so(account: Ledger) -> None:
    """No refund: noise may have been drawn."""
    with pytest.raises(RuntimeError, match="broken"):
        hv.build(TABLE, SCHEMA, 1, method=Broken(), ledger=account.path, table="t")
    (charge,) = account.charges()
    assert (charge.state, charge.epsilon) == (FAILED, 1)


def test_the_charge_is_on_the_disk_before_the_method_is_called(account: Ledger) -> None:
    """The method itself, in the middle of a build, finds its charge in the file."""

    class Watching(Hdpview):
        def release(self, *words: Any, **names: Any) -> Any:
            with sqlite3.connect(account.path) as con:
                assert con.execute("SELECT epsilon, state FROM charges").fetchall() == [("1", BEGUN)]
            con.close()
            return super().release(*words, **names)

    hv.build(TABLE, SCHEMA, 1, method=Watching(), ledger=account.path, table="t")


def test_a_table_that_cannot_be_read_costs_nothing(account: Ledger) -> None:
    """Reading draws no noise, so a column that is missing is no charge."""
    with pytest.raises(hv.DataError):
        hv.build(pa.table({"other": [1]}), SCHEMA, 1, ledger=account.path, table="t")
    assert account.charges() == []


def test_limits_cannot_undo_what_was_spent(account: Ledger) -> None:
    """A limit below what is spent is refused; a later one replaces it."""
    account.charge("t", Fraction(2), "x")
    with pytest.raises(BudgetError, match="2 of epsilon has been spent"):
        account.set_limit("t", Fraction(1))
    account.set_limit("t", Fraction(3))
    account.set_limit("t", Fraction(4))
    assert account.limit("t") == 4


def test_many_at_once_cannot_exceed_the_limit_together(account: Ledger) -> None:
    """Forty charges of a tenth race for a budget of one from several threads: ten win, exactly."""
    account.set_limit("t", Fraction(1))

    def try_charge(_: int) -> bool:
        try:
            Ledger(account.path).charge("t", Fraction(1, 10), "x")
        except BudgetError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(try_charge, range(40))) == 10
    assert account.spent("t") == 1


def test_two_processes_cannot_exceed_the_limit_together(account: Ledger) -> None:
    """Two programs that start at the same moment on a new file: together they get what is there and no
    more.
    """
    account.set_limit("t", Fraction(1, 2))
    program = (
        "import sys; from fractions import Fraction; from hdpview.privacy.ledger import Ledger; from hdpview.errors import BudgetError\n"
        "won = 0\n"
        "for _ in range(20):\n"
        "    try: Ledger(sys.argv[1]).charge('t', Fraction(1, 20), 'x'); won += 1\n"
        "    except BudgetError: pass\n"
        "print(won)"
    )
    racing = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(account.path)], stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    assert sum(int(one.communicate(timeout=60)[0]) for one in racing) == 10


@settings(max_examples=20, deadline=None)
@given(st.lists(st.fractions(min_value="1/1000", max_value=1, max_denominator=1000), max_size=8))
def test_charges_add_up_exactly(tmp_path_factory: pytest.TempPathFactory, budgets: list[Fraction]) -> None:
    """What is spent is the exact sum of what was charged, as fractions."""
    account = Ledger(tmp_path_factory.mktemp("sum") / "l.sqlite")
    for epsilon in budgets:
        account.charge("t", epsilon, "x")
    assert account.spent("t") == sum(budgets)


def test_the_file_is_its_owners_alone(account: Ledger) -> None:
    """Nobody else may read which tables there are."""
    account.charge("t", Fraction(1), "x")
    assert stat.S_IMODE(account.path.stat().st_mode) == 0o600


def test_other_files_are_not_taken_for_ledgers(tmp_path: Path) -> None:
    """A text file and somebody else's database are refused in words, and left as they are."""
    text, other = tmp_path / "a.csv", tmp_path / "b.sqlite"
    text.write_text("age\n" * 5_000)
    with sqlite3.connect(other) as con:
        con.execute("CREATE TABLE mine (x)")
    con.close()
    for path in (text, other):
        before = path.read_bytes()
        with pytest.raises(BudgetError, match="ledger"):
            Ledger(path).charge("t", Fraction(1), "x")
        assert path.read_bytes() == before


@pytest.mark.parametrize("table", ["", "  ", "x" * 201, None, 3])
def test_bad_names_are_refused(account: Ledger, table: Any) -> None:
    """A table has a name that a person can read."""
    with pytest.raises(BudgetError, match="name"):
        account.charge(table, Fraction(1), "x")


def test_a_frame_needs_a_name(account: Ledger) -> None:
    """A frame has no file whose name could stand for it."""
    with pytest.raises(BudgetError, match="Name the table"):
        hv.build(TABLE, SCHEMA, 1, ledger=account.path)


def test_the_command_line_keeps_the_ledger(tmp_path: Path) -> None:
    """build charges beside the schema by default, or where it is told; ledger limit and show speak of it; a
    refusal is exit code 2.
    """
    (tmp_path / "people.csv").write_text("age\n" + "\n".join(map(str, range(10))))
    (tmp_path / "people.toml").write_text('[attributes.age]\ntype = "integer"\nmin = 0\nmax = 9\n')

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "hdpview", *words], cwd=tmp_path, capture_output=True, text=True
        )

    build = ["build", "people.csv", "-s", "people.toml", "-o", "p.pview"]
    assert run("ledger", "limit", "people", "1.0").returncode == 0
    assert run(*build, "-e", "0.75").returncode == 0
    refused = run(*build, "-e", "0.5")
    assert refused.returncode == 2
    assert "0.25 of 1" in refused.stderr
    assert run(*build, "-e", "0.5", "--ledger", "other.sqlite", "--table", "x").returncode == 0
    assert run(*build, "-e", "0.5", "--no-ledger").returncode == 0
    shown = json.loads(run("ledger", "show", "--format", "json").stdout)
    assert shown["tables"] == [{"table": "people", "spent": 0.75, "delta": 0.0, "limit": 1.0, "left": 0.25}]
    assert [(charge["epsilon"], charge["state"], charge["view"]) for charge in shown["charges"]] == [
        (0.75, "finished", "p.pview")
    ]
    assert "people" in run("ledger", "show").stdout
    assert "no ledger" in run("ledger", "show", "--ledger", "nothing.sqlite").stderr
