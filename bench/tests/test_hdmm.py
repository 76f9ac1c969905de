"""HDMM against matrices written out, least squares, and the errors of many runs."""

import math
from fractions import Fraction
from functools import reduce

import numpy as np
import pytest
from enumerated import all_questions, as_vectors
from hypothesis import given, settings
from hypothesis import strategies as st

from dense import Floats, released, schema_of
from hdpview_bench.rivals.hdmm import Hdmm
from hdpview_bench.rivals.hdmm.release import exact_measurements, fit
from hdpview_bench.rivals.hdmm.strategy import Factor, Strategy
from hdpview_bench.rivals.hdmm.workload import workload_named
from hdpview_bench.rivals.identity import Identity
from hdpview_bench.workloads import WORKLOADS

SIZES = (4, 3, 2)


def some_strategy(rng: np.random.Generator, measured: list[tuple[int, ...]]) -> Strategy:
    """Random whole weights on the small domain, and random shares."""
    factors = []
    for size in SIZES:
        sums = rng.integers(0, 5, (2, size))
        factors.append(Factor(16 - sums.sum(axis=0), sums, 16))
    units = rng.integers(1, 9, len(measured)).tolist()
    return Strategy(tuple(measured), tuple(Fraction(unit, sum(units)) for unit in units), tuple(factors))


def written_out(strategy: Strategy) -> list[Floats]:
    """The matrix of each measured set over all cells of the domain."""
    return [
        reduce(
            np.kron,
            [
                factor.matrix if i in chosen else np.ones((1, len(factor.single)))
                for i, factor in enumerate(strategy.factors)
            ],
        )
        for chosen in strategy.measured
    ]


@pytest.mark.parametrize(
    "measured", [[(0, 1, 2)], [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)], [(0, 1), (0, 1, 2), ()]], ids=str
)
@pytest.mark.parametrize("workload", ["range-1d", "prefix-2d", "random-2d"])
def test_expected_errors_agree_with_matrices_written_out(workload, measured):
    strategy, epsilon = some_strategy(np.random.default_rng(1), measured), Fraction(3, 2)
    boxes, frequency = all_questions(workload, SIZES)
    vectors = as_vectors(boxes, SIZES)
    total = sum(w * A.T @ A for w, A in zip(strategy.weights(epsilon), written_out(strategy), strict=True))
    expected = np.einsum("qi,ij,qj->q", vectors, np.linalg.pinv(total), vectors)
    assert strategy.mean_squared_error(workload_named(workload, SIZES), epsilon) == pytest.approx(
        frequency @ expected
    )


def test_the_fit_is_least_squares():
    rng = np.random.default_rng(3)
    strategy = some_strategy(rng, [(0, 1), (1, 2), (0, 2), (2,), ()])
    weights = rng.random(5) + 0.1
    noisy = [
        rng.integers(-500, 500, [strategy.factors[i].n_rows for i in chosen]) for chosen in strategy.measured
    ]
    release = fit(strategy, noisy, weights)
    rows = np.vstack([np.sqrt(w) * A for w, A in zip(weights, written_out(strategy), strict=True)])
    values = np.concatenate(
        [
            np.sqrt(w) * y.reshape(-1) / strategy.sensitivity(a)
            for w, y, a in zip(weights, noisy, strategy.measured, strict=True)
        ]
    )
    cells = np.linalg.lstsq(rows, values)[0].reshape(SIZES)
    np.testing.assert_allclose(release.marginal([1, 0]), cells.sum(axis=2).T, atol=1e-6)
    np.testing.assert_allclose(release.marginal([2]), cells.sum(axis=(0, 1)), atol=1e-6)
    boxes, _ = all_questions("random-2d", SIZES)
    np.testing.assert_allclose(release.answer(boxes), as_vectors(boxes, SIZES) @ cells.reshape(-1), atol=1e-6)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([(0,), (0, 1), (1, 2), (0, 1, 2)]))
def test_one_record_changes_measurements_by_exactly_the_sensitivity(seed, chosen):
    rng = np.random.default_rng(seed)
    strategy = some_strategy(rng, [chosen])
    table = rng.integers(0, 9, [SIZES[i] for i in chosen])
    more = table.copy()
    more[tuple(rng.integers(0, SIZES[i]) for i in chosen)] += 1
    factors = [strategy.factors[i] for i in chosen]
    change = exact_measurements(more, factors) - exact_measurements(table, factors)
    assert np.abs(change).sum() == strategy.sensitivity(chosen)


@pytest.mark.parametrize(("sizes", "epsilon"), [((5, 4, 3, 2), 1.0), ((2, 2, 2, 2, 2), 0.1)], ids=str)
def test_never_worse_than_noise_on_every_cell(sizes, epsilon):
    schema = schema_of(sizes)
    for workload in WORKLOADS:
        ours = Hdmm(workload).expected_rmse(workload, schema, epsilon)
        assert ours <= Identity().expected_rmse(workload, schema, epsilon) * (1 + 1e-9)


@pytest.mark.parametrize("workload", ["range-1d", "prefix-2d", "marginal-3", "random-2d"])
def test_expected_error_agrees_with_many_runs(workload):
    """Mean squared error of 150 releases, within 5 standard errors."""
    sizes = (5, 4, 3)
    table = np.random.default_rng(6).poisson(20, sizes)
    boxes, frequency = all_questions(workload, sizes)
    truth = as_vectors(boxes, sizes) @ table.reshape(-1)
    errors = []
    for i in range(150):
        release, _ = released(Hdmm(workload), table, 1, b"%d" % i)
        errors.append(frequency @ (release.answer(boxes) - truth) ** 2)
    expected = Hdmm(workload).expected_rmse(workload, schema_of(sizes), 1.0) ** 2
    assert abs(np.mean(errors) - expected) < 5 * np.std(errors) / math.sqrt(150)
