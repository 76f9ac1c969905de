"""Everyday questions: asked, compared with the truth, and labelled by usefulness."""

import numpy as np
from commands import rows_of

from hdpview.query.errors.ends import usefulness
from hdpview_bench.useful import KINDS


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
    rows = rows_of("useful --datasets uniform --questions 25")
    assert [row["kind"] for row in rows] == list(KINDS)
    assert all(
        abs(row["useful"] + row["rough"] + row["unknown"] - 1.0) < 1e-9 for row in rows if row["questions"]
    )
    assert all(0.5 <= row["held"] <= 1.0 for row in rows)
