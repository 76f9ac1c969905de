"""The ledger on disk: charged before, never refunded, never exceeded, whoever comes at the same time."""

import json
import math
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing, suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import command_line
import hdpview as hv
from hdpview.build import _warn_once
from hdpview.errors import BudgetError
from hdpview.methods import Hdpview
from hdpview.privacy import ledger as ledgers
from hdpview.privacy.ledger import BEGUN, FAILED, FINISHED, LEDGER_NAME, Ledger, Receipt, ledger_for, name_of

pytestmark = pytest.mark.usefixtures("same_noise")

SCHEMA = hv.Schema([hv.Integer(name="age", min=0, max=9)])
TABLE = pa.table({"age": np.arange(50) % 10})


@pytest.fixture
def account(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "budget.sqlite")


def test_a_delta_is_charged_and_named(account):
    schema = hv.Schema([hv.Boolean(name=f"a{i}") for i in range(30)])
    table = pa.table({name: [True, False] for name in schema.names})
    view = hv.build(table, schema, 10, ledger=account.path, table="t", delta=1e-6, quality=False)
    (charge,) = account.charges("t")
    assert charge.delta == view.manifest.delta == Fraction("1e-6")
    assert sum(own.delta for own in view.manifest.spending) == Fraction("1e-6")


def test_a_budget_that_is_not_left_is_refused_in_words(account):
    for limit in ("1/2", "1"):
        account.set_limit("t", Fraction(limit))
    build(account, "0.7")
    for limit in ("7/10", "1"):
        account.set_limit("t", Fraction(limit))
    with pytest.raises(BudgetError, match=r"0\.7 of epsilon"):
        account.set_limit("t", Fraction(1, 2))
    with pytest.raises(BudgetError, match=r"epsilon 0\.4 is more than is left for 't': 0\.3 of 1"):
        build(account, "0.4")
    build(account, "0.3")
    assert account.spent("t") == 1
    with pytest.raises(BudgetError, match="0 of 1"):
        build(account, "0.0001")


class Broken(Hdpview):
    """A method that fails once it has begun."""

    def release(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("broken")


def test_builds_are_charged_whether_they_finish_or_fail_but_not_if_nothing_was_read(account):
    with pytest.raises(hv.DataError):
        hv.build(pa.table({"other": [1]}), SCHEMA, 1, ledger=account.path, table="t")
    with pytest.raises(BudgetError, match="Name the table"):
        build(account, table=None)
    assert account.charges() == []
    build(account, "0.1")
    with pytest.raises(RuntimeError, match="broken"):
        build(account, method=Broken())
    first, second = account.charges("t")
    assert (first.epsilon, first.purpose, first.state) == (Fraction(1, 10), "mixture", FINISHED)
    assert (second.epsilon, second.state, second.privacy_unit) == (1, FAILED, "row")
    assert account.spent("t") == Fraction(11, 10)


def test_the_charge_is_on_the_disk_before_the_method_is_called(account):
    class Watching(Hdpview):
        def release(self, *words: Any, **names: Any) -> Any:
            with closing(sqlite3.connect(account.path)) as con:
                assert con.execute("SELECT epsilon, state FROM charges").fetchall() == [("1", BEGUN)]
            return super().release(*words, **names)

    build(account, method=Watching())


def test_builds_at_once_count_the_same_rows_of_each_person(account):
    first, *other = ("t", Fraction(1), "x", "who", 3, Fraction(0), None, "salt"), "another salt"
    account.charge(*first)
    with pytest.raises(BudgetError, match="Repeat this one"):
        account.charge(*first[:-1], *other)
    account.charge(*first)
    account.charge(*first[:-1])
    assert (account.spent("t"), account.salt("t")) == (3, "salt")


def test_two_processes_cannot_exceed_the_limit_together(account):
    account.set_limit("t", Fraction(1, 2))
    account.charge("another", Fraction(5), "x")
    program = (
        "import sys; from fractions import Fraction; from hdpview.privacy.ledger import Ledger\n"
        "from hdpview.errors import BudgetError\n"
        "won = 0\n"
        "for _ in range(20):\n"
        "    try: Ledger(sys.argv[1]).charge('t', Fraction(1, 20), 'x'); won += 1\n"
        "    except BudgetError: pass\n"
        "print(won)"
    )
    command = [sys.executable, "-c", program, str(account.path)]
    racing = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert sum(int(one.communicate()[0]) for one in racing) == 10
    assert account.spent("t") == Fraction(1, 2)


def test_the_file_is_its_owners_alone_and_adds_up_exactly(account):
    for denominator in (3, 7, 10, 999):
        account.charge("t", Fraction(1, denominator), "x")
    assert account.spent("t") == sum(Fraction(1, n) for n in (3, 7, 10, 999))
    assert stat.S_IMODE(account.path.stat().st_mode) == 0o600


def test_other_files_are_not_taken_for_ledgers(tmp_path):
    text, other = tmp_path / "a.csv", tmp_path / "b.sqlite"
    text.write_text("age\n" * 5_000)
    with closing(sqlite3.connect(other)) as con:
        con.execute("CREATE TABLE mine (x)")
    for path in (text, other):
        before = path.read_bytes()
        with pytest.raises(BudgetError, match="ledger"):
            Ledger(path).charge("t", Fraction(1), "x")
        assert path.read_bytes() == before


@pytest.mark.parametrize("table", ["", "  ", "x" * 201, None, 3])
def test_bad_names_are_refused(account, table):
    with pytest.raises(BudgetError, match="name"):
        account.charge(table, Fraction(1), "x")


def test_delta_has_a_limit_of_its_own(account):
    account.charge("t", Fraction(1), "x", delta=Fraction(6, 10**7))
    refused = r"delta 5e-07 is more than is left for 't': 4e-07 of 1e-06.*--delta"
    with pytest.raises(BudgetError, match=refused):
        account.charge("t", Fraction(1), "x", delta=Fraction(5, 10**7))
    account.charge("t", Fraction(1), "x")
    account.set_limit("t", Fraction(10), Fraction(2, 10**6))
    account.charge("t", Fraction(1), "x", delta=Fraction(5, 10**7))
    assert sum(each.delta for each in account.charges("t")) == Fraction(11, 10**7)
    with pytest.raises(BudgetError, match="of delta"):
        account.set_limit("t", Fraction(10), Fraction(1, 10**6))
    with pytest.raises(BudgetError, match="delta"):
        Ledger(account.path.with_name("new.sqlite")).check("t", Fraction(1), Fraction(1, 10**5))


def test_builds_that_are_not_private_are_recorded_as_such(account):
    build(account)
    build(account, test_key=b"k")
    hv.build(TABLE, replace(SCHEMA, learnt_from_data=True), 1, ledger=account.path, table="t")
    first, second, third = (charge.not_private for charge in account.charges("t"))
    assert (first, "test key" in second, "drawn from the table" in third) == (None, True, True)


def test_a_views_name_goes_to_its_own_charge(account):
    receipts: list[Receipt] = []
    build(account, on_charge=receipts.append)
    build(account)
    receipts[0].name_view("first.pview")
    assert [charge.view for charge in account.charges("t")] == ["first.pview", None]


def test_a_table_has_one_ledger_for_everyone_and_test_builds_start_none(tmp_path, monkeypatch, caplog):
    data = tmp_path / "data"
    data.mkdir()
    pq.write_table(TABLE, data / "people.parquet")
    monkeypatch.chdir(tmp_path)
    hv.build("data/people.parquet", SCHEMA, 1, test_key=b"k")
    assert [file.name for file in data.iterdir()] == ["people.parquet"]
    hv.build("data/people.parquet", SCHEMA, 1)
    monkeypatch.chdir(data)
    for key in (None, b"k"):
        hv.build("people.parquet", SCHEMA, 1, test_key=key)
    assert Ledger(data / LEDGER_NAME).spent("people") == 3
    assert sum("NEW LEDGER" in record.getMessage() for record in caplog.records) == 1
    monkeypatch.setenv("HDPVIEW_LEDGER", str(tmp_path / "all.sqlite"))
    hv.build("people.parquet", SCHEMA, 1)
    hv.build(TABLE, SCHEMA, 1, table="people")
    hv.build("people.parquet", SCHEMA, 1, ledger=False)
    assert Ledger(tmp_path / "all.sqlite").spent("people") == 2


def test_a_frame_without_a_name_is_in_no_ledger_and_says_so_once(tmp_path, monkeypatch, caplog):
    monkeypatch.chdir(tmp_path)
    _warn_once.cache_clear()
    hv.build(TABLE, SCHEMA, 1, ledger=False)
    assert not caplog.records
    for _ in range(2):
        hv.build(TABLE, SCHEMA, 1)
    assert [record.getMessage() for record in caplog.records].count(caplog.records[0].getMessage()) == 1
    assert "not recorded in a ledger" in caplog.records[0].getMessage()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("data/visits-*.parquet", "visits"), ("data/*.parquet", "data"), ("data/**/*.csv", "data"),
        ("data/visits.2024.csv.gz", "visits.2024"), ("visits.csv.zst", "visits"), ("data", "data"),
        ("data/", "data"),
    ],
)  # fmt: skip
def test_names_of_tables_make_sense(tmp_path, monkeypatch, source, name):
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    assert name_of(source) == name
    if "*" in source:
        assert ledger_for(source) == Path("data") / LEDGER_NAME


def test_ledgers_of_the_first_version_are_read_and_charged_on(account):
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


def test_the_command_line_keeps_the_ledger(tmp_path):
    (tmp_path / "people.csv").write_text("age\n" + "\n".join(map(str, range(10))))
    (tmp_path / "people.toml").write_text('[attributes.age]\ntype = "integer"\nmin = 0\nmax = 9\n')
    run = partial(command_line.run, cwd=tmp_path)
    build = ["build", "people.csv", "-s", "people.toml", "-o", "p.pview", "--force"]
    assert run("ledger", "limit", "people", "1.0").returncode == 0
    assert run(*build, "-e", "0.75").returncode == 0
    refused = run(*build, "-e", "0.5")
    assert (refused.returncode, "0.25 of 1" in refused.stderr) == (2, True)
    assert run(*build, "-e", "0.5", "--ledger", "other.sqlite", "--table", "x").returncode == 0
    assert run(*build, "-e", "0.5", "--no-ledger").returncode == 0
    shown = json.loads(run("ledger", "show", "--format", "json").stdout)
    budget = {"spent": 0.75, "limit": 1.0, "left": 0.25, "delta": 0.0, "delta limit": 1e-6}
    assert shown["tables"] == [{"table": "people", **budget}]
    (charge,) = shown["charges"]
    assert (charge["epsilon"], charge["state"], charge["view"]) == (0.75, "finished", "p.pview")
    assert "people" in run("ledger", "show").stdout
    assert "0.75" in run("ledger", "show", "People ").stdout
    assert "no ledger" in run("ledger", "show", "--ledger", "nothing.sqlite").stderr


def test_nobody_earns_a_budget(account):
    for epsilon, delta in ((-1, 0), (0, 0), (1, -1), (math.nan, 0), (math.inf, 0), (1, math.nan)):
        with pytest.raises(BudgetError, match="above 0"):
            account.charge("t", epsilon, "x", delta=delta)
    assert not account.path.exists()


@pytest.mark.parametrize(
    "name", ["Admissions", "admissions ", "ADMISSIONS", "ad\u200bmissions", "ａdmissions"]
)
def test_spellings_of_a_name_share_one_account(name, account):
    account.set_limit("admissions", Fraction(1))
    account.charge(name, Fraction(3, 4), "x")
    assert account.spent("admissions") == Fraction(3, 4)
    assert account.tables() == [name]
    with pytest.raises(BudgetError, match=r"0\.25 of 1"):
        account.charge("admissions", Fraction(1, 2), "x")


@pytest.mark.parametrize("written", ["abc", "1/0", "-5", ""])
def test_a_ledger_that_was_changed_by_hand_is_refused_in_words(written, account):
    account.charge("t", Fraction(1), "x")
    with closing(sqlite3.connect(account.path)) as con:
        con.execute("UPDATE charges SET epsilon = ?", (written,))
        con.commit()
    for ask in (account.charges, lambda: account.spent("t"), lambda: account.charge("t", Fraction(1), "x")):
        with pytest.raises(BudgetError, match="changed by hand"):
            ask()


def test_a_folder_a_pattern_in_it_and_a_link_to_a_table_share_a_ledger(tmp_path):
    """They are the same rows. A ledger of an earlier version beside the folder stays the one of all."""
    data = tmp_path / "data"
    data.mkdir()
    pq.write_table(TABLE, data / "people.parquet")
    (tmp_path / "link.parquet").symlink_to(data / "people.parquet")
    assert ledger_for(tmp_path / "link.parquet") == data / LEDGER_NAME
    assert name_of(tmp_path / "link.parquet") == "people"
    sources = data, f"{data}/*.parquet", f"{data}/"
    assert {ledger_for(source) for source in sources} == {data / LEDGER_NAME}
    Ledger(tmp_path / LEDGER_NAME).charge("other", Fraction(1), "x")
    assert {ledger_for(source) for source in sources} == {data / LEDGER_NAME}
    Ledger(tmp_path / LEDGER_NAME).charge("Data", Fraction(1), "x")
    assert {ledger_for(source) for source in sources} == {tmp_path / LEDGER_NAME}
    assert ledger_for(data / "people.parquet") == data / LEDGER_NAME


def test_a_view_names_all_that_was_spent_before_it(account, monkeypatch):
    monkeypatch.setattr(ledgers, "_WAIT_SECONDS", 0.05)
    right = Ledger.spent

    def with_another(self: Ledger, table: str) -> Fraction:
        spent = right(self, table)
        with suppress(BudgetError):
            account.charge("t", Fraction(2), "another build")
        return spent

    monkeypatch.setattr(Ledger, "spent", with_another)
    view = hv.build(TABLE, SCHEMA, 1, ledger=account.path, table="t")
    charges = account.charges("t")
    last = max(charge.id for charge in charges if charge.purpose == "mixture")
    assert view.manifest.spent_on_table == sum(charge.epsilon for charge in charges if charge.id <= last)


def test_work_is_resumed_whichever_link_leads_to_the_ledger(account, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.sqlite"
    link.symlink_to(account.path)
    with pytest.raises(RuntimeError, match="broken"):
        hv.build(TABLE, SCHEMA, 1, method=Broken(), ledger=link, table="t")
    assert [file.name for file in (tmp_path / "elsewhere").iterdir()] == ["link.sqlite"]
    assert len(list(tmp_path.glob("*.released"))) == 1


def build(account: Ledger, epsilon: object = 1, **options: Any) -> hv.PView:
    return hv.build(TABLE, SCHEMA, epsilon, **{"ledger": account.path, "table": "t", **options})
