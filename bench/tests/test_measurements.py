"""Bench commands: everyday questions, constants chosen again, growth with rows and budget."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from commands import bench, rows_of

from hdpview.errors import DataError
from hdpview.query.errors import kernels
from hdpview.query.errors.ends import usefulness
from hdpview_bench import constants
from hdpview_bench.constants import CONSTANTS, Constant, choose
from hdpview_bench.growing import epsilon_for, grow, random_counts
from hdpview_bench.useful import KINDS
from repeatable import repeatable_noise


def test_words_follow_the_width_of_an_interval():
    estimate = np.array([1_000.0, 1_000.0, 20.0, 20.0, 0.3])
    half = np.array([90.0, 400.0, 60.0, 3_000.0, 0.02])
    unit = np.array([10_000.0, 10_000.0, 10_000.0, 10_000.0, 1.0])
    words = usefulness(estimate, estimate - half, estimate + half, unit)
    assert words.tolist() == ["useful", "rough", "useful", "unknown", "useful"]


def test_a_difference_is_useful_if_its_sign_is_known():
    difference, half = np.array([0.3, 0.3, 0.001]), np.array([0.2, 0.4, 0.005])
    words = usefulness(difference, difference - half, difference + half, 1.0, is_difference=True)
    assert words.tolist() == ["useful", "unknown", "useful"]


def test_bench_useful_prints_a_row_per_kind():
    with repeatable_noise():
        rows = rows_of("useful --datasets uniform --questions 25")
    assert [row["kind"] for row in rows] == list(KINDS)
    for row in rows:
        assert row["useful"] + row["rough"] + row["unknown"] == pytest.approx(1.0) or not row["questions"]
        assert 0.5 <= row["held"] <= 1.0


def cells(held: float, score: float) -> list[dict[str, Any]]:
    usual = {"typical": 0.97, "questions": 60, "rmse": 5.0, "kind": "range-2", "score": score}
    return [usual | {"typical": held}] + [usual] * 99


def test_the_best_score_that_holds_is_chosen():
    assert choose({0.5: cells(0.8, 0.7), 1.0: cells(0.95, 0.8), 2.0: cells(0.99, 1.2)}) == 0.5
    assert choose({0.5: cells(0.8, 0.7) + cells(0.8, 0.7)[:1] * 9, 1.0: cells(0.95, 0.8)}) == 1.0


def test_a_constant_is_another_only_for_a_while():
    before = kernels.MIN_ERROR_RECORDS
    with Constant("query.errors.kernels", "MIN_ERROR_RECORDS").times(2.0):
        assert 2 * before == kernels.MIN_ERROR_RECORDS
    assert before == kernels.MIN_ERROR_RECORDS


def test_every_constant_is_where_it_is_said_to_be():
    assert all(hasattr(one.module, one.name) and 1.0 in one.factors for one in CONSTANTS)
    assert len({one.title for one in CONSTANTS}) == len(CONSTANTS)


def test_a_row_per_constant(monkeypatch):
    monkeypatch.setattr(constants, "CONSTANTS", CONSTANTS[:2])
    words = "coverage --leave-one-out --datasets one-cell,uniform --workloads range-1"
    rows = rows_of(f"{words} --trials 1 --questions 30 --workers 1")
    assert [row["constant"] for row in rows] == [one.title for one in CONSTANTS[:2]]
    assert all(0.0 <= row["left out, worst"] <= 1.0 for row in rows)


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
    with repeatable_noise():
        counts = random_counts(20_000, 6)
        epsilon, found = epsilon_for(counts, 500)
        again = grow(counts, epsilon).n_blocks
    assert 0 < epsilon < Fraction("2.7")
    for n_blocks in (found, again):
        assert 2 / 3 < n_blocks / 500 < 3 / 2
