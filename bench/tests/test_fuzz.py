"""Slices of the long runs: broken inputs, builds killed half-way, charges without a view, planted bugs."""

import contextlib
import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hdpview.errors import HdpviewError
from hdpview_bench import fuzz, lost
from hdpview_bench.mutants import MUTANTS, caught_by

READERS = {"schema": 400, "manifest": 400, "view file": 300, "condition": 300, "question": 300, "table": 5}


@pytest.mark.parametrize("name", READERS)
def test_broken_inputs_are_read_or_refused(name):
    lines: list[str] = []
    assert fuzz.fuzz(READERS[name], 7, name, lines.append) == 0, lines


def test_the_fuzzer_finds_what_is_there_to_find(tmp_path):
    def crash(data: bytes) -> None:
        if b"\x00" in data:
            raise KeyError(data)

    fragile = fuzz.Target("fragile", (b"abc" * 50,), crash, 1.0)
    outcomes = {fuzz._try(fragile, str(i)) for i in range(500)}
    assert "read" in outcomes
    assert any(outcome.startswith("KeyError") for outcome in outcomes)


def test_every_good_input_is_read(tmp_path):
    for target in fuzz.targets(tmp_path):
        if target.name != "schema":  # its second seed is cut short on purpose
            for seed in target.seeds:
                target.read(seed)


@pytest.fixture(scope="module")
def readers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, fuzz.Target]:
    return {target.name: target for target in fuzz.targets(tmp_path_factory.mktemp("fuzz"))}


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=80), st.sampled_from(["condition", "question", "schema", "manifest"]))
def test_any_text_at_all_is_read_or_refused(readers, text, name):
    with contextlib.suppress(HdpviewError):
        readers[name].read(text.encode("utf-8", "surrogatepass"))


def test_killed_builds_lose_no_charge_and_leave_no_half_view():
    words = [sys.executable, "-m", "hdpview_bench.kill", "--rounds", "10", "--seed", "5"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rounds"] == 10


def test_random_builds_lose_nothing():
    found = lost.rounds(8, seed=5)
    assert sum(times for what, times in found.items() if ": " in what) == 8


def test_every_planted_bug_has_a_place():
    for mutant in MUTANTS:
        source = Path(str(importlib.import_module(f"hdpview.{mutant.module}").__file__)).read_text("utf-8")
        assert source.count(mutant.old) == 1, f"{mutant.module}: {mutant.what}"


@pytest.mark.parametrize(
    ("charge", "what"),
    [
        ("noise", "drawn for twice what is charged"),
        ("refine", "drawn for twice what is charged"),
        ("max_rows", "one row too many"),
    ],
)
def test_a_planted_bug_is_caught_by_replay(charge, what):
    (mutant,) = (one for one in MUTANTS if (one.charge, one.what) == (charge, what))
    assert "replay" in caught_by(mutant)
