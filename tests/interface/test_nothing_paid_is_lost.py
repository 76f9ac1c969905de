"""A view that was paid for is not lost, and what was spent is said."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import typer

import command_line
import hdpview as hv
from hdpview.cli.build import end_if_elsewhere
from hdpview.errors import ViewFileError
from hdpview.privacy.ledger import FAILED, FINISHED, LEDGER_NAME, LOST, Ledger, Receipt
from hdpview.view import save
from hdpview.view.save import SAVED_ELSEWHERE, Saver

SCHEMA = hv.Schema([hv.Integer(name="age", min=0, max=9)])
TABLE = pa.table({"age": list(range(10))})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_text("age\n" + "\n".join(map(str, range(10))))
    (tmp_path / "people.toml").write_text('[attributes.age]\ntype = "integer"\nmin = 0\nmax = 9\n')
    return tmp_path


def words(*more: str) -> list[str]:
    return ["build", "people.csv", "-s", "people.toml", "-o", "out/p.pview", "-e", "1", *more]


def paid(folder: Path) -> tuple[hv.PView, Receipt]:
    receipts: list[Receipt] = []
    view = hv.build(TABLE, SCHEMA, 1, ledger=folder / "l.sqlite", table="t", on_charge=receipts.append)
    return view, receipts[0]


def test_a_full_disk_costs_no_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the view cannot be written it goes to another place, the place and the price are said, the charge
    names it, and the exit code is 3. Before, epsilon was spent and the view gone.
    """
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(save.tempfile, "tempdir", str(tmp_path / "elsewhere"))
    view, receipt = paid(tmp_path)
    saver = Saver(tmp_path / "gone" / "v.pview")
    saver.keep(receipt)
    with pytest.raises(typer.Exit) as ended:
        end_if_elsewhere(saver.save(view))
    (kept,) = (tmp_path / "elsewhere").iterdir()
    said = capsys.readouterr().err
    assert ended.value.exit_code == SAVED_ELSEWHERE
    assert str(kept) in said
    assert "Epsilon 1 is spent on 't'" in said
    assert hv.open(kept).manifest.epsilon == 1
    (charge,) = receipt.ledger.charges()
    assert (charge.state, charge.view) == (FINISHED, str(kept))


def test_a_view_that_finds_no_place_is_lost_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The charge says that there is no view, and so does the error."""
    view, receipt = paid(tmp_path)
    saver = Saver(tmp_path / "v.pview")
    saver.keep(receipt)

    def full(*_: object) -> None:
        raise ViewFileError("No space left on device.")

    monkeypatch.setattr(hv.PView, "save", full)
    with pytest.raises(ViewFileError, match=r"the view is lost\. Epsilon 1 is spent"):
        saver.save(view)
    assert receipt.ledger.charges()[0].state == LOST


def test_space_is_looked_at_before_anything_is_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is nearly full is refused."""
    monkeypatch.setattr(save, "LEAST_FREE_BYTES", 10**18)
    with pytest.raises(ViewFileError, match="Nothing was spent"):
        Saver(tmp_path / "v.pview").check(force=False)


def test_a_view_is_not_written_over_without_force(folder: Path) -> None:
    """A second build to the same place is refused before it costs anything; with --force it is written."""
    (folder / "out").mkdir()
    assert command_line.run(*words(), cwd=folder).returncode == 0
    before = (folder / "out/p.pview").read_bytes()
    refused = command_line.run(*words(), cwd=folder)
    assert refused.returncode == 2
    assert "--force" in refused.stderr
    assert (folder / "out/p.pview").read_bytes() == before
    assert Ledger(folder / LEDGER_NAME).spent("people") == 1
    assert command_line.run(*words("--force"), cwd=folder).returncode == 0
    assert (folder / "out/p.pview").read_bytes() != before


def test_an_interrupt_after_the_charge_says_that_it_stays_spent(folder: Path) -> None:
    """Ctrl-C in the middle of a build ends with code 130 and a line about the charge, which counts as
    failed."""
    program = (
        "import os, signal, sys\n"
        "def broken(*_, **__):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    import time; time.sleep(30)\n"
        "from hdpview.methods.hdpview import Hdpview\n"
        "Hdpview.release = broken\n"
        "from hdpview.cli.main import main\n"
        "sys.argv = ['hdpview', *sys.argv[1:]]\n"
        "main()\n"
    )
    (folder / "out").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", program, *words("--method", "hdpview")],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 130
    assert "epsilon 1 stays spent on 'people'" in done.stderr
    assert [charge.state for charge in Ledger(folder / LEDGER_NAME).charges()] == [FAILED]
