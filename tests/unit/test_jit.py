"""Compiled kernels are as old as all that they may call."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hdpview
from hdpview.jit import WITHOUT_KERNELS, state_of_sources

PACKAGE = Path(hdpview.__file__).parent


@pytest.mark.parametrize("is_set", [False, True])
def test_a_change_in_a_callee_is_compiled(tmp_path: Path, is_set: bool) -> None:
    """A kernel that calls a changed function of another file, or of its own, runs the change, also where the
    file of the kernel itself looks as old as before. Before, the kernel of yesterday ran on.
    """
    copy = tmp_path / "hdpview"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "other.py").write_text(
        "from hdpview.jit import numba as nb\n\n@nb.njit(cache=True)\ndef doubled(x):\n    return 2 * x\n"
    )
    (copy / "mine.py").write_text(
        "from hdpview.jit import numba as nb\nfrom hdpview.other import doubled\n\n"
        "@nb.njit(cache=True)\ndef work(x):\n    return doubled(x) + 1\n"
    )
    places = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")} if is_set else {}
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment = {**kept, **places, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}

    def run() -> str:
        program = [sys.executable, "-c", "from hdpview.mine import work; print(work(10))"]
        return subprocess.run(
            program, env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()

    assert run() == "21"
    assert list((tmp_path / "cache" if is_set else copy).rglob("mine.work-*.nbi"))
    (copy / "other.py").write_text((copy / "other.py").read_text().replace("2 * x", "3 * x"))
    assert run() == "31"


def test_every_change_of_a_source_changes_the_state(tmp_path: Path) -> None:
    """Of its content, of its name, and files that come or go."""
    file = tmp_path / "a.py"
    file.write_text("x = 1\n")
    states = [state_of_sources.__wrapped__(tmp_path)]
    file.write_text("x = 2\n")
    states.append(state_of_sources.__wrapped__(tmp_path))
    file.rename(tmp_path / "b.py")
    states.append(state_of_sources.__wrapped__(tmp_path))
    file.write_text("")
    states.append(state_of_sources.__wrapped__(tmp_path))
    assert len(set(states)) == 4


def test_numba_comes_from_one_place_and_late() -> None:
    """Every kernel is under this rule, and the command line's help waits for no compiler."""
    direct = [
        file.name
        for file in PACKAGE.rglob("*.py")
        if "import numba" in file.read_text().replace("hdpview.jit import numba", "")
        and file.name != "jit.py"
    ]
    assert direct == []
    program = "import sys, hdpview.cli.main; print('numba' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"


def test_rooms_without_kernels_have_none(tmp_path: Path) -> None:
    """A change there compiles nothing again, which is right only while no kernel lies there."""
    (tmp_path / "query").mkdir()
    before = state_of_sources.__wrapped__(tmp_path)
    (tmp_path / "query" / "a.py").write_text("x = 1\n")
    assert state_of_sources.__wrapped__(tmp_path) == before
    for room in WITHOUT_KERNELS:
        assert (PACKAGE / room).is_dir()
        for file in (PACKAGE / room).rglob("*.py"):
            assert "jit import" not in file.read_text(encoding="utf-8"), file
