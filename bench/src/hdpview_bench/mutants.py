"""Mutants: plant one-line privacy bugs one by one, and report which check catches each.

    python -m hdpview_bench.mutants [--all] [--only WORD] [--keep FILE]

Each bug runs in a process of its own. Replay looks first, then the tests of the private side, then the audit;
with `--all` all three look at every bug. A bug that can no longer be written, because an exact value refuses
to become a number, is caught by a TypeError.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

_TESTS = (
    "tests/statistical/test_gradual.py",
    "tests/security/test_refine.py",
    "tests/property/test_choice.py",
    "tests/security/test_learn.py",
    "tests/unit/test_exact.py",
    "tests/unit/test_ledger.py",
    "tests/statistical/test_noise.py",
    "tests/security/test_path_losses.py",
    "tests/unit/test_architecture.py",
    "tests/unit/test_randomness.py",
    "tests/security/test_resume.py",
    "tests/security/test_account.py",
    "tests/security/test_traces.py",
    "tests/security/test_contributions.py",
)
_AUDIT_RUNS = 200


@dataclass(frozen=True)
class Mutant:
    """A bug: a replacement of a text that occurs once in a module. charge: the promise it breaks."""

    charge: str
    what: str
    module: str
    old: str
    new: str


def _mutants() -> Iterator[Mutant]:
    """Read `mutants.txt`: `@ charge | what | module`, then lines `- ` to replace and lines `+ ` to put in
    their place.
    """
    for text in (Path(__file__).parent / "mutants.txt").read_text(encoding="utf-8").split("@ ")[1:]:
        first, *lines = text.rstrip("\n").split("\n")
        charge, what, module = first.split(" | ")
        old, new = ("\n".join(line[2:] for line in lines if line[0] == sign) for sign in "-+")
        yield Mutant(charge, what, module, old, new)


MUTANTS = tuple(_mutants())


def plant(mutant: Mutant) -> None:
    """Plant a bug in this process: functions keep their identity and get other code."""
    module = importlib.import_module(f"hdpview.{mutant.module}")
    file = Path(str(module.__file__))
    source = file.read_text(encoding="utf-8")
    if source.count(mutant.old) != 1:
        raise ValueError(f"{mutant.old!r} stands {source.count(mutant.old)} times in {file}")
    changed = {
        code.co_qualname: code
        for code in _codes(compile(source.replace(mutant.old, mutant.new), str(file), "exec"))
    }
    planted = 0
    for function in _functions(module):
        code = changed.get(function.__code__.co_qualname)
        if code is not None and code.co_code + repr(code.co_consts).encode() != (
            function.__code__.co_code + repr(function.__code__.co_consts).encode()
        ):
            function.__code__ = code
            planted += 1
    if not planted:
        raise ValueError(f"{mutant.what}: no function of {file} has changed")
    if "TableShape" in mutant.new:
        from hdpview.domain.table_shapes import TableShape

        vars(module)["TableShape"] = TableShape


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _functions(module: ModuleType) -> Iterator[FunctionType]:
    """The functions of a module and the methods of its classes."""
    classes = [
        one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__
    ]
    for place in (module, *classes):
        for thing in list(vars(place).values()):
            inner = (getattr(thing, name, None) for name in ("__func__", "fget", "func", "__wrapped__"))
            for one in (thing, *inner):
                if isinstance(one, FunctionType) and one.__module__ == module.__name__:
                    yield one


def _by_replay() -> str | None:
    from hdpview_bench import replay

    problems = replay.all_problems()
    while True:
        try:
            name, problem = next(problems)
        except StopIteration:
            return None
        except Exception as refusal:
            return f"{type(refusal).__name__}: {refusal}"
        if problem:
            return f"{name}: {problem[0]}"


def _by_tests() -> str | None:
    import pytest

    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", *_TESTS])
    failed = [line for line in said.getvalue().splitlines() if line.startswith("FAILED")]
    return None if code == 0 else (failed or ["the tests do not run"])[0][:160]


def _by_audit() -> str | None:
    from hdpview_bench.audit.run import audit

    for method in ("mixture", "hdpview"):
        try:
            result = audit(method, 1, runs=_AUDIT_RUNS)
        except Exception as refusal:
            return f"{type(refusal).__name__}: {refusal}"
        if not result.passed:
            return f"epsilon {result.lower_bound:.2f} seen where {result.claimed:g} is claimed"
    return None


_CATCHERS = {"replay": _by_replay, "tests": _by_tests, "audit": _by_audit}


def caught_by(mutant: Mutant, *, look_on: bool = False) -> dict[str, str]:
    """The check that catches a bug, and its report. Each runs in its own process until one catches it."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        with os.fdopen(writing, "w", encoding="utf-8") as report:
            try:
                plant(mutant)
                for name, look in _CATCHERS.items():
                    why = look()
                    if why is not None:
                        report.write(f"{name}\t{' '.join(why.split())[:150]}\n")
                        report.flush()
                        if not look_on:
                            break
            except BaseException as refusal:
                report.write(f"broken\t{type(refusal).__name__}: {refusal}\n")
            report.flush()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as report:
        lines = dict(line.rstrip("\n").split("\t", 1) for line in report)
    os.waitpid(process, 0)
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m hdpview_bench.mutants", description=__doc__)
    parser.add_argument("--all", action="store_true", help="run all three checks on every bug")
    parser.add_argument("--only", default="", help="bugs whose description matches this pattern")
    parser.add_argument("--keep", type=Path, help="file of results; a bug that it lists is not run again")
    asked = parser.parse_args()
    known = asked.keep.read_text("utf-8") if asked.keep is not None and asked.keep.exists() else ""
    # Load and compile everything before the first process forks.
    clean = _by_replay()
    if clean is not None:
        sys.stdout.write(f"Replay reports a problem in the unchanged code: {clean}\n")
        return 1
    chosen = [one for one in MUTANTS if re.search(asked.only, f"{one.charge}, {one.what}")]
    chosen = [one for one in chosen if f"{one.charge}, {one.what} (" not in known]
    n_caught = n_by_replay = 0
    for mutant in chosen:
        started = time.monotonic()
        caught = caught_by(mutant, look_on=asked.all)
        n_caught += bool(caught.keys() - {"broken"})
        n_by_replay += "replay" in caught
        who = "; ".join(f"{name}: {why}" for name, why in caught.items()) or "NOBODY"
        line = f"{mutant.charge}, {mutant.what} ({time.monotonic() - started:.0f} s): {who}\n"
        sys.stdout.write(line)
        sys.stdout.flush()
        if asked.keep is not None:
            with asked.keep.open("a", encoding="utf-8") as file:
                file.write(line)
    sys.stdout.write(f"{n_caught} of {len(chosen)} caught, {n_by_replay} by replay.\n")
    return int(n_caught < len(chosen))


if __name__ == "__main__":
    sys.exit(main())
