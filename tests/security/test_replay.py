"""Nothing reaches a view but what a charged mechanism returned: see `hdpview_bench.replay`."""

from __future__ import annotations

import pytest

from hdpview_bench import replay


@pytest.mark.parametrize("case", replay.cases(), ids=lambda case: case.name)
def test_the_view_is_a_function_of_what_mechanisms_returned(case: replay.Case) -> None:
    """Another table, replayed, gives the same file; neighbours lose what was paid at most; noise is fresh."""
    assert replay.problems_of(case) == []


def test_what_is_learnt_is_a_function_of_what_mechanisms_returned() -> None:
    """Types, bounds and categories."""
    assert replay.problems_of_learning() == []


def test_a_person_changes_the_counted_rows_by_k_at_most() -> None:
    """Before any mechanism sees them."""
    assert replay.problems_of_reading() == []


def test_a_person_changes_numbers_of_persons_by_what_is_charged() -> None:
    """One of all, and k of those per value."""
    assert replay.problems_of_people() == []
