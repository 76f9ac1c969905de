"""The ledger on disk: charged before, never refunded, never exceeded, whoever comes at the same time."""

from __future__ import annotations

import json
import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import command_line
import hdpview as hv
from hdpview.build import _warn_once
from hdpview.errors import BudgetError
from hdpview.methods import Hdpview
from hdpview.privacy.ledger import (
    BEGUN,
    FAILED,
    FINISHED,
    LEDGER_NAME,
    Ledger,
    Receipt,
    ledger_for,
    name_of,
)

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
        "mixture",
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
    assert account.limit("t").epsilon == 4


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
        "import sys; from fractions import Fraction; from hdpview.privacy.ledger import Ledger; from "
        "hdpview.errors import BudgetError\n"
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


def test_delta_has_a_limit_of_its_own(account: Ledger) -> None:
    """A millionth in all where nothing was said, or what was said; before, any number of builds with a delta
    passed."""
    account.charge("t", Fraction(1), "x", delta=Fraction(6, 10**7))
    with pytest.raises(
        BudgetError, match=r"delta 5e-07 is more than is left for 't': 4e-07 of 1e-06.*--delta"
    ):
        account.charge("t", Fraction(1), "x", delta=Fraction(5, 10**7))
    account.charge("t", Fraction(1), "x")
    account.set_limit("t", Fraction(10), Fraction(2, 10**6))
    account.charge("t", Fraction(1), "x", delta=Fraction(5, 10**7))
    assert account.spent_delta("t") == Fraction(11, 10**7)
    with pytest.raises(BudgetError, match="of delta has been spent"):
        account.set_limit("t", Fraction(10), Fraction(1, 10**6))
    with pytest.raises(BudgetError, match="delta"):
        Ledger(account.path.with_name("new.sqlite")).check("t", Fraction(1), Fraction(1, 10**5))


def test_builds_that_are_not_private_are_recorded_as_such(account: Ledger) -> None:
    """With a test key, and with a schema from the data; others are not."""
    learnt = hv.Schema([hv.Integer(name="age", min=0, max=9)], learnt_from_data=True)
    hv.build(TABLE, SCHEMA, 1, ledger=account.path, table="t")
    hv.build(TABLE, SCHEMA, 1, ledger=account.path, table="t", test_key=b"k")
    hv.build(TABLE, learnt, 1, ledger=account.path, table="t")
    first, second, third = account.charges("t")
    assert first.not_private is None
    assert "test key" in str(second.not_private)
    assert "drawn from the table" in str(third.not_private)


def test_a_views_name_goes_to_its_own_charge(account: Ledger) -> None:
    """Whatever else was charged for the table in the meantime. Before, it went to the newest."""
    receipts: list[Receipt] = []
    hv.build(TABLE, SCHEMA, 1, ledger=account.path, table="t", on_charge=receipts.append)
    hv.build(TABLE, SCHEMA, 1, ledger=account.path, table="t")
    receipts[0].name_view("first.pview")
    assert [charge.view for charge in account.charges("t")] == ["first.pview", None]


def test_a_table_has_one_ledger_for_everyone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Beside its file, from wherever and however it is built, or where HDPVIEW_LEDGER says; the start of one
    is announced once, in capitals.
    """
    data = tmp_path / "data"
    data.mkdir()
    pq.write_table(TABLE, data / "people.parquet")
    monkeypatch.chdir(tmp_path)
    hv.build("data/people.parquet", SCHEMA, 1)
    monkeypatch.chdir(data)
    hv.build("people.parquet", SCHEMA, 1)
    assert Ledger(data / LEDGER_NAME).spent("people") == 2
    assert sum("NEW LEDGER" in record.getMessage() for record in caplog.records) == 1
    monkeypatch.setenv("HDPVIEW_LEDGER", str(tmp_path / "all.sqlite"))
    hv.build("people.parquet", SCHEMA, 1)
    hv.build(TABLE, SCHEMA, 1, table="people")
    hv.build("people.parquet", SCHEMA, 1, ledger=False)
    assert Ledger(tmp_path / "all.sqlite").spent("people") == 2


def test_test_builds_start_no_ledger(tmp_path: Path) -> None:
    """They are on record where there is one, and leave nothing behind where there is none."""
    pq.write_table(TABLE, tmp_path / "people.parquet")
    hv.build(tmp_path / "people.parquet", SCHEMA, 1, test_key=b"k")
    assert [file.name for file in tmp_path.iterdir()] == ["people.parquet"]
    hv.build(tmp_path / "people.parquet", SCHEMA, 1)
    hv.build(tmp_path / "people.parquet", SCHEMA, 1, test_key=b"k")
    assert len(Ledger(tmp_path / LEDGER_NAME).charges()) == 2


def test_a_frame_without_a_name_is_in_no_ledger_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody could tell whether it is the table of yesterday; ledger=False says that this is meant."""
    monkeypatch.chdir(tmp_path)
    _warn_once.cache_clear()
    hv.build(TABLE, SCHEMA, 1, ledger=False)
    assert not caplog.records
    for _ in range(2):
        hv.build(TABLE, SCHEMA, 1)
    assert [
        record.getMessage() for record in caplog.records if "not recorded in a ledger" in record.getMessage()
    ] == [caplog.records[0].getMessage()]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("data/visits-*.parquet", "visits"),
        ("data/*.parquet", "data"),
        ("data/**/*.csv", "data"),
        ("data/visits.2024.csv.gz", "visits.2024"),
        ("data", "data"),
        ("data/", "data"),
    ],
)
def test_names_of_tables_make_sense(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, name: str
) -> None:
    """Patterns go by what they have in common, and lie where their folder does."""
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    assert name_of(source) == name
    if "*" in source:
        assert ledger_for(source) == Path("data") / LEDGER_NAME


def test_ledgers_of_the_first_version_are_read_and_charged_on(account: Ledger) -> None:
    """What was spent stays spent."""
    with sqlite3.connect(account.path) as con:
        con.executescript(
            "CREATE TABLE limits (name TEXT PRIMARY KEY, epsilon TEXT NOT NULL);"
            "CREATE TABLE charges (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, epsilon "
            "TEXT NOT NULL,"
            " delta TEXT NOT NULL, purpose TEXT NOT NULL, privacy_unit TEXT NOT NULL, max_rows INTEGER "
            "NOT NULL,"
            " charged_at TEXT NOT NULL, state TEXT NOT NULL, view TEXT);"
            "INSERT INTO limits VALUES ('t', '2');"
            "INSERT INTO charges VALUES (1, 't', '3/2', '0', 'x', 'row', 1, '2026-01-01', 'finished', "
            "'v.pview');"
            "PRAGMA user_version = 1;"
        )
    con.close()
    assert account.spent("t") == Fraction(3, 2)
    with pytest.raises(BudgetError, match=r"0\.5 of 2"):
        account.charge("t", Fraction(1), "x")
    account.charge("t", Fraction(1, 2), "x", not_private="a reason")
    assert [charge.not_private for charge in account.charges("t")] == [None, "a reason"]


def test_the_command_line_keeps_the_ledger(tmp_path: Path) -> None:
    """build charges beside the table by default, or where it is told; ledger limit and show speak of it; a
    refusal is exit code 2.
    """
    (tmp_path / "people.csv").write_text("age\n" + "\n".join(map(str, range(10))))
    (tmp_path / "people.toml").write_text('[attributes.age]\ntype = "integer"\nmin = 0\nmax = 9\n')

    run = partial(command_line.run, cwd=tmp_path)

    build = ["build", "people.csv", "-s", "people.toml", "-o", "p.pview", "--force"]
    assert run("ledger", "limit", "people", "1.0").returncode == 0
    assert run(*build, "-e", "0.75").returncode == 0
    refused = run(*build, "-e", "0.5")
    assert refused.returncode == 2
    assert "0.25 of 1" in refused.stderr
    assert run(*build, "-e", "0.5", "--ledger", "other.sqlite", "--table", "x").returncode == 0
    assert run(*build, "-e", "0.5", "--no-ledger").returncode == 0
    shown = json.loads(run("ledger", "show", "--format", "json").stdout)
    assert shown["tables"] == [
        {"table": "people", "spent": 0.75, "limit": 1.0, "left": 0.25, "delta": 0.0, "delta limit": 1e-6}
    ]
    assert [(charge["epsilon"], charge["state"], charge["view"]) for charge in shown["charges"]] == [
        (0.75, "finished", "p.pview")
    ]
    assert "people" in run("ledger", "show").stdout
    assert "no ledger" in run("ledger", "show", "--ledger", "nothing.sqlite").stderr


def test_nobody_earns_a_budget(account: Ledger) -> None:
    """A negative charge would have made room for another build."""
    for epsilon, delta in ((-1, 0), (0, 0), (1, -1)):
        with pytest.raises(BudgetError, match="above 0"):
            account.charge("t", Fraction(epsilon), "x", delta=Fraction(delta))
    assert not account.path.exists()


@pytest.mark.parametrize(
    "name", ["Admissions", "admissions ", "ADMISSIONS", "ad\u200bmissions", "ａdmissions"]
)
def test_spellings_of_a_name_share_one_account(name: str, account: Ledger) -> None:
    """Case, blanks and invisible signs open no second budget."""
    account.set_limit("admissions", Fraction(1))
    account.charge(name, Fraction(3, 4), "x")
    assert account.spent("admissions") == Fraction(3, 4)
    assert account.tables() == [name]
    with pytest.raises(BudgetError, match=r"0\.25 of 1"):
        account.charge("admissions", Fraction(1, 2), "x")


@pytest.mark.parametrize("written", ["abc", "1/0", "-5", ""])
def test_a_ledger_that_was_changed_by_hand_is_refused_in_words(written: str, account: Ledger) -> None:
    """Also where a negative charge would make room."""
    account.charge("t", Fraction(1), "x")
    with sqlite3.connect(account.path) as con:
        con.execute("UPDATE charges SET epsilon = ?", (written,))
    con.close()
    for ask in (account.charges, lambda: account.spent("t"), lambda: account.charge("t", Fraction(1), "x")):
        with pytest.raises(BudgetError, match="changed by hand"):
            ask()


def test_a_link_to_a_table_leads_to_its_ledger(tmp_path: Path) -> None:
    """A link in another folder opened a second ledger, which knew of nothing."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "t.csv").write_text("age\n1\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "data" / "t.csv")
    assert ledger_for(tmp_path / "link.csv") == tmp_path / "data" / LEDGER_NAME
    assert name_of(tmp_path / "link.csv") == "t"
