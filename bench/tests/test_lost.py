"""No charge is left without a view or a build to resume; and a planted bug is seen."""

from __future__ import annotations

import pytest

from hdpview_bench import lost
from hdpview_bench.mutants import MUTANTS, caught_by


def test_random_builds_lose_nothing() -> None:
    """Killed, out of memory, out of disk, or simply odd."""
    found = lost.rounds(8, seed=5)
    assert sum(times for what, times in found.items() if ": " in what) == 8


@pytest.mark.parametrize(
    ("charge", "what"),
    [
        ("noise", "drawn for twice what is charged"),
        ("refine", "drawn for twice what is charged"),
        ("max_rows", "one row too many"),
    ],
)
def test_a_planted_bug_is_caught_by_replay(charge: str, what: str) -> None:
    """Quick ones; the command looks at all."""
    (mutant,) = (one for one in MUTANTS if (one.charge, one.what) == (charge, what))
    assert "replay" in caught_by(mutant)
