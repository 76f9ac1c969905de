"""Error against rows and budget, and the budget for a number of blocks."""

from fractions import Fraction

import pytest
from commands import bench, rows_of

from hdpview.errors import DataError
from hdpview_bench.growing import epsilon_for, grow, random_counts

QUICK = "--methods histograms --workloads random-2d --trials 1 --workers 1 -o"


def test_parts_and_budgets_are_measured_and_drawn(tmp_path):
    words = f"growth --datasets heavy-tails --rows 1000,90000 --epsilon 1,4 {QUICK}"
    rows = rows_of(words, tmp_path)
    assert [(row["varying"], row["rows"], row["epsilon"]) for row in rows] == [
        ("rows", 1_000, 1.0), ("rows", 30_000, 1.0), ("epsilon", 30_000, 1.0), ("epsilon", 30_000, 4.0),
    ]  # fmt: skip
    assert all(row["rmse_percent"] == pytest.approx(100 * row["rmse"] / row["rows"]) for row in rows)
    assert (tmp_path / "growth.svg").read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize("words", ["--datasets uniform,function", "--rows many"])
def test_wrong_words_are_refused(words):
    assert isinstance(bench(f"growth {words}").exception, DataError)


def test_a_budget_is_found_for_a_number_of_leaves():
    """A fresh growth with that budget has the wanted number of leaves to within a third."""
    counts = random_counts(20_000, 6)
    epsilon, found = epsilon_for(counts, 500)
    assert 0 < epsilon < Fraction("2.7")
    for n_blocks in (found, grow(counts, epsilon).n_blocks):
        assert 2 / 3 < n_blocks / 500 < 3 / 2
