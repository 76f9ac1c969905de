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
_N_BUILDS = 4  # builds that a process can finish before it is killed
_SCHEMA = Schema([Integer(name="a", min=0, max=99), Integer(name="b", min=0, max=99)])


class _Noting(Hdpview):
    """The paper's method, recording when it is called: from then on noise is drawn, so the charge must be on
    disk.
    """

    def release(self, *words: Any, **names: Any) -> ViewRelease:
        os.write(1, b"drawing\n")
        return super().release(*words, **names)


def kill_rounds(n_rounds: int, seed: int) -> Counter[str]:
    """Kill builds, and count the outcomes. Raises AssertionError if a promise is broken."""
    rng, events = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="hdpview-kill-") as name:
        folder = Path(name)
        (folder / "spill").mkdir()
        # Temporary files of this process and its children go there.
        tempfile.tempdir, before = str(folder / "spill"), tempfile.tempdir
        (folder / "table.csv").write_text(
            "a,b\n" + "".join(f"{i % 100},{i * 7 % 100}\n" for i in range(3_000)), encoding="utf-8"
        )
        longest = _N_BUILDS * _seconds_of_a_build(folder)
        n_drawn = 0
        try:
            for _ in range(n_rounds):
                n_drawn += _round(folder, rng, longest, events, n_drawn)
        finally:
            tempfile.tempdir = before
    return events


def _seconds_of_a_build(folder: Path) -> float:
    """Time of a build with everything loaded and compiled, as in the forked processes."""
    for _ in range(2):
        started = time.perf_counter()
        build(folder / "table.csv", _SCHEMA, _EPSILON, threads=1, ledger=False).save(folder / "view.pview")
    (folder / "view.pview").unlink()
    return time.perf_counter() - started


def _round(folder: Path, rng: random.Random, longest: float, events: Counter[str], drawn_before: int) -> int:
    """Run one process until it is killed. Returns how often a charge was on disk before noise.

    A third of the processes are killed at any moment of a build, a third just after noise was drawn, and a
    third only charge.
    """
    events["rounds"] += 1
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
    events[f"killed: {mode}"] += 1
    events["killed between noise and saved view"] += lines[-1] == "drawing"
    n_drawn = lines.count("drawing") + lines.count("charged")
    _check_ledger(folder, drawn_before + n_drawn, events)
    _check_view(folder, events)
    _check_spill(folder / "spill", events)
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


def _check_ledger(folder: Path, n_drawn: int, events: Counter[str]) -> None:
    """The ledger has at least one charge for each time noise was drawn, and at most one more per build killed
    between charge and noise.
    """
    account = Ledger(folder / "ledger.sqlite")
    charges = account.charges("t")
    assert len(charges) >= n_drawn, "noise was drawn without an entry in the ledger"
    assert len(charges) <= n_drawn + events["rounds"], "a charge without a build"
    assert account.spent("t") == _EPSILON * len(charges)
    events["charges"] = len(charges)
    events["unfinished charges"] = sum(charge.state == "begun" for charge in charges)


def _check_view(folder: Path, events: Counter[str]) -> None:
    """The view is complete or absent. A killed process may leave a partial file under a hidden name, which
    nothing mistakes for a view.
    """
    try:
        view = PView.open(folder / "view.pview")
        assert view.count(None).estimate >= 0
        events["whole views"] += 1
    except ViewFileError:
        assert not (folder / "view.pview").exists(), "half a view"
        events["no view yet"] += 1
    for part in folder.glob(".view.pview.*.part"):
        events["parts left behind"] += 1
        part.unlink()
    for released in folder.glob("ledger.sqlite-charge-*.released"):
        events["builds to resume"] += 1
        released.unlink()
    known = {"table.csv", "ledger.sqlite", "ledger.sqlite-journal", "view.pview", "spill"}
    assert {path.name for path in folder.iterdir()} <= known, "other files were left behind"


def _check_spill(spill: Path, events: Counter[str]) -> None:
    """The next build deletes directories of killed builds. If a build was killed before its lock had a name,
    its empty directory remains.
    """
    events["killed while a directory was open"] += any(spill.iterdir())
    with private_directory():
        pass
    for directory in spill.iterdir():
        assert {path.name for path in directory.iterdir()} <= {"in-use.new"}, "spilled rows were left behind"
        events["empty directories left behind"] += 1
        shutil.rmtree(directory)


def main(words: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m hdpview_bench.kill", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    chosen = parser.parse_args(words)
    events = kill_rounds(chosen.rounds, chosen.seed)
    sys.stdout.write(json.dumps({"seed": chosen.seed, **events, "broken promises": 0}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
