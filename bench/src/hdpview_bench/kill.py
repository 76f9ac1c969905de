"""Power cuts: kill builds at random moments and check the remaining files.

    python -m hdpview_bench.kill --rounds 500

Each round starts a process that builds with a ledger, and kills it (SIGKILL, which no program can catch)
after a random time. Then the file of the view must be absent or complete, the ledger must be readable and
contain every build that drew noise, and the next build must delete all spilled rows. No other files may
remain.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

from hdpview.build import build
from hdpview.counts.spill import private_directory
from hdpview.domain import Integer, Schema
from hdpview.errors import ViewFileError
from hdpview.methods import Hdpview
from hdpview.methods.protocol import ViewRelease
from hdpview.privacy.ledger import Ledger
from hdpview.pview import PView

_EPSILON = Fraction(1, 100)
_N_BUILDS = 4  # that a process gets through at most before it is killed
_SCHEMA = Schema([Integer(name="a", min=0, max=99), Integer(name="b", min=0, max=99)])


class _Noting(Hdpview):
    """The paper's method, which notes when it is called: from here on noise is drawn, so the charge must be
    on the disk.
    """

    def release(self, *words: Any, **names: Any) -> ViewRelease:
        os.write(1, b"drawing\n")
        return super().release(*words, **names)


def kill_rounds(n_rounds: int, seed: int) -> Counter[str]:
    """Kill builds, and count the outcomes. Raises AssertionError if a promise is broken."""
    rng, found = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="hdpview-kill-") as name:
        folder = Path(name)
        (folder / "spill").mkdir()
        tempfile.tempdir, before = (
            str(folder / "spill"),
            tempfile.tempdir,
        )  # of this process and of those that start from it
        (folder / "table.csv").write_text(
            "a,b\n" + "".join(f"{i % 100},{i * 7 % 100}\n" for i in range(3_000)), encoding="utf-8"
        )
        longest = _N_BUILDS * _seconds_of_a_build(folder)
        n_drawn = 0
        try:
            for _ in range(n_rounds):
                n_drawn += _round(folder, rng, longest, found, n_drawn)
        finally:
            tempfile.tempdir = before
    return found


def _seconds_of_a_build(folder: Path) -> float:
    """Time of a build once everything is loaded and compiled; it then is in every process that starts from
    this one.
    """
    for _ in range(2):
        started = time.perf_counter()
        build(folder / "table.csv", _SCHEMA, _EPSILON, threads=1, ledger=False).save(folder / "view.pview")
    (folder / "view.pview").unlink()
    return time.perf_counter() - started


def _round(folder: Path, rng: random.Random, longest: float, found: Counter[str], drawn_before: int) -> int:
    """One process that works until it is killed: how often it noted that a charge was on the disk.

    A third of the processes are killed at any moment of a build, a third just after noise was drawn; a third
    do nothing but charge.
    """
    found["rounds"] += 1
    mode = rng.choice(("any moment", "just after noise", "while charging"))
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        os.dup2(writing, 1)
        _work_forever(_charge if mode == "while charging" else _build, folder)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as notes:
        first = notes.readline() if mode != "any moment" else ""
        time.sleep(rng.random() * (longest if mode == "any moment" else 0.02))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        lines = [first.strip(), *notes.read().splitlines()]
    found[f"killed: {mode}"] += 1
    found["killed between noise and saved view"] += lines[-1] == "drawing"
    n_drawn = lines.count("drawing") + lines.count("charged")
    _check_ledger(folder, drawn_before + n_drawn, found)
    _check_view(folder, found)
    _check_spill(folder / "spill", found)
    return n_drawn


def _work_forever(work: Callable[[Path], None], folder: Path) -> NoReturn:
    try:
        while True:
            work(folder)
    finally:
        os._exit(1)


def _build(folder: Path) -> None:
    view = build(
        folder / "table.csv",
        _SCHEMA,
        _EPSILON,
        method=_Noting(),
        ledger=folder / "ledger.sqlite",
        table="t",
        threads=1,
    )
    view.save(folder / "view.pview")
    os.write(1, b"saved\n")


def _charge(folder: Path) -> None:
    Ledger(folder / "ledger.sqlite").charge("t", _EPSILON, "nothing")
    os.write(1, b"charged\n")


def _check_ledger(folder: Path, n_drawn: int, found: Counter[str]) -> None:
    """Charges: at least one for each time noise was drawn; at most as many more as builds were killed between
    the charge and the noise.
    """
    account = Ledger(folder / "ledger.sqlite")
    charges = account.charges("t")
    assert len(charges) >= n_drawn, "noise was drawn without an entry in the ledger"
    assert len(charges) <= n_drawn + found["rounds"], "a charge without a build"
    assert account.spent("t") == _EPSILON * len(charges)
    found["charges"] = len(charges)
    found["unfinished charges"] = sum(charge.state == "begun" for charge in charges)


def _check_view(folder: Path, found: Counter[str]) -> None:
    """The view is whole or absent. A killed process may leave the part it had written, under a hidden name;
    nothing takes it for a view.
    """
    try:
        view = PView.open(folder / "view.pview")
        assert view.count(None).estimate >= 0
        found["whole views"] += 1
    except ViewFileError:
        assert not (folder / "view.pview").exists(), "half a view"
        found["no view yet"] += 1
    for part in folder.glob(".view.pview.*.part"):
        found["parts left behind"] += 1
        part.unlink()
    for released in folder.glob("ledger-charge-*.released"):
        found["builds to resume"] += 1
        released.unlink()
    known = {"table.csv", "ledger.sqlite", "ledger.sqlite-journal", "view.pview", "spill"}
    assert {path.name for path in folder.iterdir()} <= known, "something else was left behind"


def _check_spill(spill: Path, found: Counter[str]) -> None:
    """Directories of killed builds go when the next build opens its own. One that was killed before its lock
    had a name stays, empty.
    """
    found["killed while a directory was open"] += any(spill.iterdir())
    with private_directory():
        pass
    for directory in spill.iterdir():
        assert {path.name for path in directory.iterdir()} <= {"in-use.new"}, "spilled rows were left behind"
        found["empty directories left behind"] += 1
        shutil.rmtree(directory)


def main(words: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m hdpview_bench.kill", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    chosen = parser.parse_args(words)
    found = kill_rounds(chosen.rounds, chosen.seed)
    sys.stdout.write(json.dumps({"seed": chosen.seed, **found, "broken promises": 0}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
