"""A paid view is never lost, and the spent budget is stated."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import command_line
import hdpview as hv
from hdpview.errors import ViewFileError
from hdpview.privacy.ledger import FAILED, FINISHED, LEDGER_NAME, Ledger, Receipt
from hdpview.view import save
from hdpview.view.save import SAVED_ELSEWHERE, Saver

pytestmark = pytest.mark.usefixtures("same_noise")

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


def test_a_view_saved_elsewhere_ends_with_code_3(folder, monkeypatch):
    (folder / "out").mkdir()
    monkeypatch.setattr(Saver, "save", lambda *_: "The view is in another place.")
    ended = command_line.run(*words(), cwd=folder)
    assert ended.returncode == SAVED_ELSEWHERE
    assert "The view is in another place." in ended.stderr


def test_a_full_disk_costs_no_view(tmp_path, elsewhere):
    view, receipt = paid(tmp_path)
    saver = Saver(tmp_path / "gone" / "v.pview")
    saver.keep(receipt)
    said = saver.save(view)
    (kept,) = elsewhere.iterdir()
    assert str(kept) in said
    assert "Epsilon 1 is spent on 't'" in said
    assert hv.open(kept).manifest.epsilon == 1
    (charge,) = receipt.ledger.charges()
    assert (charge.state, charge.view) == (FINISHED, str(kept))


def test_two_builds_of_one_name_keep_both_views(tmp_path, elsewhere):
    savers = [Saver(tmp_path / "v.pview") for _ in range(2)]
    for saver in savers:
        saver.check(force=False)
    view, _ = paid(tmp_path)
    assert savers[0].save(view) is None
    first = (tmp_path / "v.pview").read_bytes()
    assert "Another build wrote" in savers[1].save(view)
    assert (tmp_path / "v.pview").read_bytes() == first
    (kept,) = elsewhere.iterdir()
    assert savers[1].target == kept
    assert hv.open(kept).manifest.epsilon == 1


def test_a_view_that_finds_no_place_is_lost_on_record(tmp_path, monkeypatch):
    view, receipt = paid(tmp_path)
    saver = Saver(tmp_path / "v.pview")
    saver.keep(receipt)

    def full(*_: object) -> None:
        raise ViewFileError("No space left on device.")

    monkeypatch.setattr(hv.PView, "save", full)
    with pytest.raises(ViewFileError, match=r"Epsilon 1 is spent .* --resume"):
        saver.save(view)
    assert receipt.ledger.charges()[0].state == FAILED


def test_space_is_looked_at_before_anything_is_spent(tmp_path, monkeypatch):
    monkeypatch.setattr(save, "LEAST_FREE_BYTES", 10**18)
    with pytest.raises(ViewFileError, match="Nothing was spent"):
        Saver(tmp_path / "v.pview").check(force=False)


def test_a_view_is_not_written_over_without_force(folder):
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


def test_an_interrupt_after_the_charge_says_that_it_stays_spent(folder):
    program = (
        "import os, signal, sys, time\n"
        "from hdpview.cli.main import main\n"
        "from hdpview.methods.hdpview import Hdpview\n"
        "Hdpview.release = lambda *_, **__: (os.kill(os.getpid(), signal.SIGINT), time.sleep(30))\n"
        "sys.argv = ['hdpview', *sys.argv[1:]]\n"
        "main()\n"
    )
    (folder / "out").mkdir()
    command = [sys.executable, "-c", program, *words("--method", "hdpview")]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert (done.returncode, "epsilon 1 stays spent on 'people'" in done.stderr) == (130, True), done.stderr
    assert [charge.state for charge in Ledger(folder / LEDGER_NAME).charges()] == [FAILED]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where views go that find no other place."""
    place = tmp_path / "elsewhere"
    place.mkdir()
    monkeypatch.setattr(save.tempfile, "tempdir", str(place))
    return place
