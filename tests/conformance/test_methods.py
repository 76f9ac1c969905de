"""One suite for our methods and the rivals: budget, answers, key, inputs, and refusals."""

import itertools
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from dense import counts_of, released, schema_of
from hdpview.errors import MethodError
from hdpview.methods.protocol import Release, ViewRelease, release_with
from hdpview.partition.local import LocalEngine
from hdpview.privacy.mechanism import Charge
from hdpview.privacy.randomness import Randomness
from hdpview_bench.rivals import METHODS, method_named
from hdpview_bench.workloads import WORKLOADS, CodeBoxes, draw

SIZES = (6, 1, 5, 3)  # one attribute that cannot be cut
N_RECORDS = 900
# Methods whose answers of disjoint parts need not add up, each with its reason. Undeclared gaps fail.
NOT_ADDITIVE: dict[str, str] = {}
every_method = pytest.mark.parametrize("name", METHODS)


@cache
def table() -> NDArray[np.int64]:
    rng = np.random.default_rng(11)
    weights = rng.exponential(1.0, SIZES) ** 3
    return rng.multinomial(N_RECORDS, (weights / weights.sum()).reshape(-1)).reshape(SIZES)


def run(
    name: str, epsilon: str, test_key: bytes, dense: NDArray[np.int64] | None = None
) -> tuple[Release, tuple[Charge, ...]]:
    dense = table() if dense is None else dense
    return released(method_named(name, {}), dense, Fraction(epsilon), test_key)


def total_of(release: Release, sizes: tuple[int, ...] = SIZES) -> float:
    return float(release.answer(CodeBoxes(np.array([[0]]), np.array([[0]]), np.array([[sizes[0]]])))[0])


def cells_of(attributes: tuple[int, ...]) -> CodeBoxes:
    codes = np.array(list(itertools.product(*(range(SIZES[a]) for a in attributes))))
    return CodeBoxes(np.tile(attributes, (len(codes), 1)), codes, codes + 1)


def questions(n: int = 60) -> list[CodeBoxes]:
    drawn = [draw(workload, SIZES, n, np.random.default_rng(3)) for workload in WORKLOADS]
    return [boxes for boxes in drawn if boxes is not None]


@every_method
@pytest.mark.parametrize("epsilon", ["1", "0.1", "7/3"])
def test_it_spends_its_budget_exactly(name, epsilon):
    _, charges = run(name, epsilon, b"budget")
    assert sum((charge.epsilon * charge.times for charge in charges), Fraction(0)) == Fraction(epsilon)
    assert all(charge.epsilon > 0 and charge.times > 0 for charge in charges)


@every_method
def test_answers_of_disjoint_parts_add_up(name):
    release, _ = run(name, "1", b"parts")
    worst = 0.0
    for boxes in questions():
        rows, which = (
            np.arange(len(boxes)),
            np.random.default_rng(5).integers(0, boxes.attribute.shape[1], len(boxes)),
        )
        middle = (boxes.lower[rows, which] + boxes.upper[rows, which]) // 2
        left, right = boxes.upper.copy(), boxes.lower.copy()
        left[rows, which], right[rows, which] = middle, middle
        both = middle > boxes.lower[rows, which]
        halves = release.answer(CodeBoxes(boxes.attribute, boxes.lower, left)) + release.answer(
            CodeBoxes(boxes.attribute, right, boxes.upper)
        )
        worst = max(worst, float(np.abs(halves - release.answer(boxes))[both].max(initial=0.0)))
    assert (worst < 1e-6 * N_RECORDS) == (name not in NOT_ADDITIVE)


@every_method
def test_a_question_on_a_whole_attribute_asks_nothing(name):
    release, _ = run(name, "1", b"whole")
    for boxes in questions(20):
        if boxes.attribute.shape[1] == len(SIZES):
            continue
        others = np.array([min(set(range(len(SIZES))) - set(row)) for row in boxes.attribute.tolist()])
        ends = np.zeros_like(others), np.array(SIZES)[others]
        columns = zip((boxes.attribute, boxes.lower, boxes.upper), (others, *ends), strict=True)
        wider = CodeBoxes(*(np.column_stack(pair) for pair in columns))
        assert release.answer(wider) == pytest.approx(release.answer(boxes), rel=1e-9, abs=1e-6)


@every_method
@pytest.mark.parametrize("attributes", [(0,), (1,), (2, 0), (0, 2), (3, 2, 0), (1, 3, 2, 0)])
def test_marginals_agree_with_answers(name, attributes):
    release, _ = run(name, "1", b"marginals")
    marginal = release.marginal(attributes)
    assert marginal.shape == tuple(SIZES[a] for a in attributes)
    assert marginal.reshape(-1) == pytest.approx(release.answer(cells_of(attributes)), rel=1e-9, abs=1e-6)


@every_method
def test_a_key_decides_the_release(name):
    asked = cells_of((0, 2, 3))
    first, again, other = (run(name, "1", key)[0].answer(asked) for key in (b"one", b"one", b"other"))
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()


@every_method
def test_fresh_releases_differ(name):
    counts, asked = counts_of(table()), cells_of((0, 2, 3))
    one, other = (
        release_with(method_named(name, {}), counts, Fraction(1), Randomness.fresh(), LocalEngine(1))[
            0
        ].answer(asked)
        for _ in range(2)
    )
    assert one.tolist() != other.tolist()


@every_method
def test_the_total_converges_as_the_budget_grows(name):
    """With ε = 1,000 within 1% for five keys, and on average nearer than with ε = 1/50."""
    keys = [b"1", b"2", b"3", b"4", b"5"]
    far, near = (
        np.array([abs(total_of(run(name, epsilon, key)[0]) - N_RECORDS) for key in keys])
        for epsilon in ("1/50", "1000")
    )
    assert near.max() <= 0.01 * N_RECORDS
    assert near.mean() < far.mean()


@every_method
def test_inputs_are_unchanged(name):
    counts = counts_of(table())
    release_with(
        method_named(name, {}), counts, Fraction(1), Randomness.from_test_key(b"inputs"), LocalEngine(1)
    )
    again = np.zeros(SIZES, dtype=np.int64)
    np.add.at(again, tuple(counts.exact_codes.T.astype(int)), counts.exact_counts)
    assert (again == table()).all()
    assert len(counts.exact_counts) == np.count_nonzero(table())


@every_method
@pytest.mark.parametrize("sizes", [(4, 3), (1,), (1, 1), (2,)], ids=str)
@pytest.mark.parametrize("n", [0, 40])
def test_empty_tables_and_tiny_domains_are_released_too(name, sizes, n):
    dense = np.zeros(sizes, dtype=np.int64)
    dense.reshape(-1)[-1] = n
    release, _ = run(name, "200", b"tiny", dense)
    assert np.isfinite(release.marginal(tuple(range(len(sizes))))).all()
    assert total_of(release, sizes) == pytest.approx(n, abs=1)


@every_method
def test_it_refuses_in_words_what_it_cannot_do(name):
    reason = method_named(name, {}).why_infeasible(schema_of((1000,) * 40), 1.0)
    assert reason is None or (
        reason[0].isupper() and reason.endswith(".") and ("use" in reason.lower() or "set " in reason.lower())
    )
    assert method_named(name, {}).why_infeasible(schema_of(SIZES), 1.0) is None


@every_method
def test_it_knows_its_name_and_settings(name):
    method = method_named(name, {})
    assert method.name == name
    assert method_named(name, dict(method.settings())) == method
    with pytest.raises(MethodError, match="Unknown argument 'colour'"):
        method_named(name, {"colour": 1})


@every_method
def test_only_methods_that_release_components_make_views(name):
    assert isinstance(run(name, "1", b"views")[0], ViewRelease) or not method_named(name, {}).makes_views
