"""Every charge leaves a view or a build to resume, and a planted bug is detected."""

import importlib
from pathlib import Path

import pytest

from hdpview_bench import lost
from hdpview_bench.mutants import MUTANTS, caught_by


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
