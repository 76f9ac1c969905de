"""Compiled kernels are recompiled when any function that they may call changes."""

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hdpview
from hdpview.jit import holds_kernels, state_of_sources

PACKAGE = Path(hdpview.__file__).parent


@pytest.mark.parametrize("is_set", [False, True])
def test_a_change_in_a_callee_is_compiled(tmp_path, is_set):
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


def test_every_change_of_a_source_changes_the_state(tmp_path):
    file = tmp_path / "a.py"
    states = []
    for text in ("x = 1  # jit\n", "x = 2  # jit\n"):
        file.write_text(text)
        states.append(state_of_sources.__wrapped__(tmp_path))
    file.rename(tmp_path / "b.py")
    states.append(state_of_sources.__wrapped__(tmp_path))
    (tmp_path / "c.py").write_text("x = 1\n")
    assert state_of_sources.__wrapped__(tmp_path) == states[-1]
    assert len(set(states)) == 3


def test_numba_comes_from_one_place_and_late():
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


def test_kernels_use_only_sources_that_hold_kernels():
    """A constant or function from any other file could change without a new compilation."""
    sources = {file: file.read_bytes() for file in PACKAGE.rglob("*.py")}
    for file, source in sources.items():
        tree = ast.parse(source)
        names_of_imports = {
            name.asname or name.name: node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("hdpview.")
            for name in node.names
        }
        kernels = [each for each in tree.body if isinstance(each, ast.FunctionDef) and _is_compiled(each)]
        assert not kernels or holds_kernels(source), file
        for name in (node.id for each in kernels for node in ast.walk(each) if isinstance(node, ast.Name)):
            if (module := names_of_imports.get(name)) is not None:
                imported = PACKAGE.parent / (module.replace(".", "/") + ".py")
                assert holds_kernels(sources[imported]), f"{file}: {name}"


def _is_compiled(function: ast.FunctionDef) -> bool:
    decorators = " ".join(map(ast.unparse, function.decorator_list))
    return any(word in decorators for word in ("njit", "vectorize", "compiled", "unmanaged"))
