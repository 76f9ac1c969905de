"""Side doors: nothing of the table in logs, errors, temporary files or permissions."""

import logging
import os
import signal
import stat
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import pyarrow as pa
import pytest

import hdpview as hv
from hdpview.cli.build_command import warn_if_view_beside_table
from hdpview.counts.ingest import read_counts
from hdpview.counts.spill import private_directory
from hdpview.partition.grow import root
from hdpview.privacy.randomness import Randomness

SECRET = "hemochromatosis-4711"
SCHEMA = hv.Schema([hv.Integer(name="age", min=0, max=9)])


def test_the_directory_is_private_and_goes_away(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def fail() -> None:
        with private_directory() as directory:
            assert stat.S_IMODE(directory.stat().st_mode) == 0o700
            (directory / "rows").write_text(SECRET)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    program = (
        "import sys, time; from hdpview.counts.spill import private_directory\n"
        "with private_directory() as d:\n    (d / 'rows').write_text('x'); print(d, flush=True); "
        "time.sleep(60)"
    )
    killed = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    left = Path(killed.stdout.readline().strip())
    (tmp_path / "hdpview-of-a-friend").mkdir()
    with private_directory():
        assert (left / "rows").exists()
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    killed.stdout.close()
    assert left.exists()
    with private_directory() as own:
        assert not left.exists()
        with private_directory():
            assert own.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["hdpview-of-a-friend"]


def refusal(path: Path) -> hv.HdpviewError | None:
    try:
        hv.build(path, SCHEMA, 1)
    except hv.HdpviewError as problem:
        return problem
    return None


def test_errors_and_logs_never_quote_a_value(tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    broken = {
        "a.csv": f'age\n1\n"{SECRET}\n2'.encode(), "b.csv": f"age\n{SECRET},2,3\n4".encode(),
        "c.parquet": f"PAR1{SECRET}PAR1".encode(), "d.csv": b"age\n\xff\xfe" + SECRET.encode(),
    }  # fmt: skip
    for name, content in broken.items():
        (tmp_path / name).write_bytes(content)
        problem = refusal(tmp_path / name)
        assert problem is None or SECRET not in "".join(traceback.format_exception(problem))
        assert problem is None or SECRET not in repr(problem.__context__)
    wrong_type = pa.table({"age": [[SECRET]]})
    with pytest.raises(hv.DataError) as caught:
        hv.build(wrong_type, SCHEMA, 1)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert SECRET not in caplog.text


def test_the_log_of_a_build_is_the_same_for_every_table(tmp_path, caplog):
    caplog.set_level(logging.DEBUG, "hdpview")
    logs = []
    for column in ([7] * 4711, [1, 2]):
        caplog.clear()
        hv.build(pa.table({"age": column}), SCHEMA, 1, ledger=tmp_path / f"{len(logs)}.sqlite", table="t")
        logs.append([message.replace(str(len(logs)) + ".sqlite", "") for message in caplog.messages])
    assert logs[0] == logs[1] != []


def test_exact_things_do_not_show_themselves():
    counts = read_counts(pa.table({"age": [7] * 4711}), SCHEMA)
    assert "4711" not in repr(counts) + str(counts)
    assert repr(Randomness.from_test_key(b"k")) == "Randomness(is_test=True)"
    assert "4711" not in repr(root((10,), counts.exact_counts, Randomness.fresh().root_key("x")))


def test_a_view_beside_a_table_that_fewer_may_read_is_noted(tmp_path, capsys):
    table, view = tmp_path / "t.csv", tmp_path / "v.pview"
    for path, mode in ((table, 0o600), (view, 0o644)):
        path.write_text("x")
        path.chmod(mode)
    warn_if_view_beside_table(str(table), view)
    assert "more people can read" in capsys.readouterr().err
    view.chmod(0o600)
    warn_if_view_beside_table(str(table), view)
    assert capsys.readouterr().err == ""
    table.chmod(0o644)
    warn_if_view_beside_table(str(table), view)
    assert "every user of this machine" in capsys.readouterr().err


def test_progress_tells_no_numbers():
    seen: list[str] = []
    hv.build(pa.table({"age": [1] * 4711}), SCHEMA, 1, progress=lambda _, words: seen.append(words))
    assert not any(character.isdigit() for words in seen for character in words)
