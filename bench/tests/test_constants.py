"""Constants of intervals, chosen again without one table."""

from typing import Any

from commands import rows_of

from hdpview.query.errors import kernels
from hdpview_bench import constants
from hdpview_bench.constants import CONSTANTS, Constant, choose


def cells(held: float, score: float) -> list[dict[str, Any]]:
    """A hundred cells, one of which holds less than the others."""
    usual = {"typical": 0.97, "questions": 60, "rmse": 5.0, "kind": "range-2", "score": score}
    return [usual | {"typical": held}] + [usual] * 99


def test_the_best_score_that_holds_is_chosen():
    """One cell in a hundred may miss; of values that all miss more, the one that misses least."""
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
