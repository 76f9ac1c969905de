"""HDMM: its algebra against matrices written out, its fit against least squares, its expected error against
many runs.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize

from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Integer, Schema
from hdpview.methods.protocol import release_with
from hdpview.partition.local import LocalEngine
from hdpview.privacy.randomness import Randomness
from hdpview_bench.rivals.hdmm import Hdmm
from hdpview_bench.rivals.hdmm.algebra import Algebra, logs_of, slopes_of_errors, subsets
from hdpview_bench.rivals.hdmm.minimise import minimise
from hdpview_bench.rivals.hdmm.optimise import best_plan
from hdpview_bench.rivals.hdmm.release import exact_measurements, fit
from hdpview_bench.rivals.hdmm.strategy import Factor, Strategy, strategy_for
from hdpview_bench.rivals.hdmm.templates import Template, default_rows, errors_of, whole_numbers
from hdpview_bench.rivals.hdmm.workload import Workload, workload_named
from hdpview_bench.rivals.identity import Identity
from hdpview_bench.workloads import WORKLOADS, CodeBoxes

SIZES = (4, 3, 2)
Floats = NDArray[np.float64]


def schema_of(sizes: tuple[int, ...]) -> Schema:
    return Schema([Integer(name=f"a{i}", min=0, max=size - 1) for i, size in enumerate(sizes)])


def all_questions(workload: str, sizes: tuple[int, ...]) -> tuple[CodeBoxes, Floats]:
    """Every question of a workload and how often `workloads.draw` draws it."""
    kind, number = workload.split("-")
    k, rows = int(number[0]), []
    for chosen in itertools.combinations(range(len(sizes)), k):
        options = []
        for i in chosen:
            n = sizes[i]
            if kind == "marginal":
                options.append([(code, code + 1, 1.0) for code in range(n)])
            elif kind == "prefix":
                options.append([(0, code + 1, 1.0) for code in range(n)])
            elif kind == "range":
                options.append([(low, high, 1.0) for low in range(n) for high in range(low + 1, n + 1)])
            else:
                options.append(
                    [
                        (low, high + 1, (1.0 + (low < high)) / n**2)
                        for low in range(n)
                        for high in range(low, n)
                    ]
                )
        for ranges in itertools.product(*options):
            rows.append(
                (chosen, [r[0] for r in ranges], [r[1] for r in ranges], math.prod(r[2] for r in ranges))
            )
    boxes = CodeBoxes(*(np.array([row[j] for row in rows], dtype=np.int64) for j in range(3)))
    frequency = np.array([row[3] for row in rows])
    return boxes, frequency / frequency.sum()


def as_vectors(boxes: CodeBoxes, sizes: tuple[int, ...]) -> Floats:
    """Questions as vectors over all cells of the domain, shape (n, n_cells)."""
    rows = []
    for attribute, lower, upper in zip(boxes.attribute, boxes.lower, boxes.upper, strict=True):
        axes = [np.ones(size) for size in sizes]
        for i, low, high in zip(attribute, lower, upper, strict=True):
            axes[i] = ((np.arange(sizes[i]) >= low) & (np.arange(sizes[i]) < high)).astype(float)
        rows.append(reduce(np.kron, axes))
    return np.array(rows)


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


@pytest.mark.parametrize("workload", [name for name in WORKLOADS if name != "random-4d"])
def test_overlaps_are_means_over_all_questions(workload: str) -> None:
    """The mean of q·qᵀ over every question, as vectors over all cells, is the sum of products that the
    workload stands for.
    """
    boxes, frequency = all_questions(workload, SIZES)
    vectors = as_vectors(boxes, SIZES)
    known = workload_named(workload, SIZES)
    total = np.zeros((vectors.shape[1], vectors.shape[1]))
    for chosen, share in zip(known.sets, known.frequency, strict=True):
        total += share * reduce(
            np.kron,
            [known.overlaps[i] if i in chosen else np.ones((size, size)) for i, size in enumerate(SIZES)],
        )
    np.testing.assert_allclose(total, vectors.T @ (frequency[:, None] * vectors), atol=1e-12)


@pytest.mark.parametrize(
    "measured", [[(0, 1, 2)], [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)], [(0, 1), (0, 1, 2), ()]], ids=str
)
@pytest.mark.parametrize("workload", ["range-1d", "prefix-2d", "random-2d"])
def test_expected_errors_agree_with_matrices_written_out(
    workload: str, measured: list[tuple[int, ...]]
) -> None:
    """Mean squared errors are those of weighted least squares, q·(Σ w AᵀA)⁺·q, on a domain of 24
    cells.
    """
    strategy, epsilon = some_strategy(np.random.default_rng(1), measured), Fraction(3, 2)
    boxes, frequency = all_questions(workload, SIZES)
    vectors = as_vectors(boxes, SIZES)
    total = sum(w * A.T @ A for w, A in zip(strategy.weights(epsilon), written_out(strategy), strict=True))
    expected = np.einsum("qi,ij,qj->q", vectors, np.linalg.pinv(total), vectors)
    assert strategy.mean_squared_error(workload_named(workload, SIZES), epsilon) == pytest.approx(
        frequency @ expected
    )


def test_what_is_not_measured_has_no_expected_error() -> None:
    """Questions on two attributes cannot be answered from single ones: the expected error says so instead of
    guessing.
    """
    strategy = some_strategy(np.random.default_rng(2), [(0,), (1,), (2,)])
    assert strategy.mean_squared_error(workload_named("marginal-2", SIZES), Fraction(1)) == math.inf


def test_the_fit_is_least_squares() -> None:
    """Answers and marginals from the fit are those of weighted least squares over all cells, for measurements
    of any value.
    """
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
def test_one_record_changes_measurements_by_exactly_the_sensitivity(
    seed: int, chosen: tuple[int, ...]
) -> None:
    """Summed over all measurements of a set, wherever the record comes."""
    rng = np.random.default_rng(seed)
    strategy = some_strategy(rng, [chosen])
    table = rng.integers(0, 9, [SIZES[i] for i in chosen])
    more = table.copy()
    more[tuple(rng.integers(0, SIZES[i]) for i in chosen)] += 1
    factors = [strategy.factors[i] for i in chosen]
    change = exact_measurements(more, factors) - exact_measurements(table, factors)
    assert np.abs(change).sum() == strategy.sensitivity(chosen)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 12), st.integers(1, 4), st.integers(4, 10), st.integers(0, 2**32 - 1))
def test_whole_weights_have_equal_columns_and_stay_near(size: int, p: int, bits: int, seed: int) -> None:
    """Columns sum to 2^bits exactly, no single code is left out, and weights of ordinary size move by half a
    unit each.
    """
    rng = np.random.default_rng(seed)
    matrix = Template(rng.random((p, size)) * rng.choice([0.3, 1.0, 30.0]), np.eye(size)).matrix()
    whole = whole_numbers(matrix, size, bits)
    assert (whole.sum(axis=0) == 2**bits).all()
    assert (whole >= 0).all()
    assert (np.diag(whole[:size]) >= 1).all()
    if matrix[:size].max() * 2**bits > p:
        assert np.abs(np.diag(whole[:size]) - np.diag(matrix[:size]) * 2**bits).max() <= p


def test_slopes_agree_with_differences() -> None:
    """Derivatives of the error by weights and by template parameters, against central differences."""
    rng = np.random.default_rng(4)
    workload = workload_named("prefix-2d", SIZES)
    algebra = Algebra(workload, list(subsets((0, 1, 2))))
    weights, roots = rng.random(8) + 0.1, [rng.random((2, size)) + 0.1 for size in SIZES]

    def error(weights: Floats, roots: list[Floats]) -> float:
        matrices = [Template(r, G).matrix() for r, G in zip(roots, workload.overlaps, strict=True)]
        return algebra.error(
            weights,
            logs_of(np.array([errors_of(A, G) for A, G in zip(matrices, workload.overlaps, strict=True)])),
        )[0]

    found = [Template(r, G).errors() for r, G in zip(roots, workload.overlaps, strict=True)]
    errors = np.array([values for values, _ in found])
    value, slopes = algebra.error(weights, logs_of(errors))
    assert value == pytest.approx(error(weights, roots))
    for a in range(8):
        step = np.eye(8)[a] * 1e-6
        assert slopes.of_weights[a] == pytest.approx(
            (error(weights + step, roots) - error(weights - step, roots)) / 2e-6, rel=1e-4
        )
    by_errors = slopes_of_errors(errors, slopes.of_logs)
    for i, (_, pull_back) in enumerate(found):
        by_roots = pull_back(by_errors[i])
        for place in [(0, 0), (1, 1)]:
            up, down = [r.copy() for r in roots], [r.copy() for r in roots]
            up[i][place] += 1e-6
            down[i][place] -= 1e-6
            assert by_roots[place] == pytest.approx(
                (error(weights, up) - error(weights, down)) / 2e-6, rel=1e-4
            )


def test_the_minimiser_finds_what_scipy_finds() -> None:
    """A curved valley (Rosenbrock, six variables) to its bottom, like SciPy's L-BFGS."""

    def valley(x: Floats) -> tuple[float, Floats]:
        return float(optimize.rosen(x)), np.asarray(optimize.rosen_der(x))

    start = np.full(6, -1.0)
    ours = minimise(valley, start, 500, tolerance=1e-14)
    theirs = optimize.minimize(valley, start, jac=True, method="L-BFGS-B").fun
    assert valley(ours)[0] <= theirs + 1e-6


def test_the_search_is_as_good_as_scipy_from_many_starts() -> None:
    """All ranges of 40 codes: within 2 % of the best that SciPy's minimiser finds from 10 random starts with
    the same template.
    """
    workload = workload_named("range-1d", (40,))

    def objective(flat: Floats) -> tuple[float, Floats]:
        (_, t, _), pull_back = Template(flat.reshape(default_rows(40), 40), workload.overlaps[0]).errors()
        return float(t), pull_back(np.array([0.0, 1.0, 0.0])).reshape(-1)

    rng = np.random.default_rng(5)
    best = min(
        optimize.minimize(objective, rng.random(default_rows(40) * 40), jac=True, method="L-BFGS-B").fun
        for _ in range(10)
    )
    assert (
        best_plan("range-1d", (40,)).error <= 1.02 * best < 1.02 * 14
    )  # noise on single codes: (40 + 2) / 3


@pytest.mark.parametrize("sizes", [(5, 4, 3, 2), (2, 2, 2, 2, 2), (30, 3, 1, 7)], ids=str)
@pytest.mark.parametrize("epsilon", ["1/10", "1", "8"])
def test_never_worse_than_noise_on_every_cell(sizes: tuple[int, ...], epsilon: str) -> None:
    """For every workload, also where discrete noise on cells is far below what continuous noise would be."""
    for workload in WORKLOADS:
        ours = Hdmm(workload).expected_rmse(workload, schema_of(sizes), float(Fraction(epsilon)))
        assert ours <= Identity().expected_rmse(workload, schema_of(sizes), float(Fraction(epsilon))) * (
            1 + 1e-9
        )


@pytest.mark.parametrize("workload", ["range-1d", "prefix-2d", "marginal-3", "random-2d"])
def test_expected_error_agrees_with_many_runs(workload: str) -> None:
    """Mean squared error of 150 releases over all questions, within 5 standard errors of what was expected;
    each spends its budget.
    """
    sizes = (5, 4, 3)
    rng = np.random.default_rng(6)
    table = rng.poisson(20, sizes)
    cells = np.argwhere(table > 0)
    counts = SparseCounts(schema_of(sizes), cells.astype(np.uint8), table[tuple(cells.T)].astype(np.int64))
    boxes, frequency = all_questions(workload, sizes)
    truth = as_vectors(boxes, sizes) @ table.reshape(-1)
    found = []
    for i in range(150):
        release, charges = release_with(
            Hdmm(workload), counts, Fraction(1), Randomness.from_test_key(b"%d" % i), LocalEngine(1)
        )
        assert sum(charge.total for charge in charges) == 1
        found.append(frequency @ (release.answer(boxes) - truth) ** 2)
    expected = Hdmm(workload).expected_rmse(workload, counts.schema, 1.0) ** 2
    assert abs(np.mean(found) - expected) < 5 * np.std(found) / math.sqrt(150)


def test_too_many_measurements_and_too_few_attributes_are_refused_in_words() -> None:
    """A large domain keeps its expected error and is told the limit; a workload about more attributes than
    there are is named.
    """
    large = schema_of((70,) * 6)
    reason = Hdmm("marginal-3").why_infeasible(large, 1.0)
    assert reason is not None
    assert "4,194,304" in reason
    assert 0 < Hdmm("marginal-3").expected_rmse("marginal-3", large, 1.0) < math.inf
    assert "asks about 2 attributes" in str(Hdmm("prefix-2d").why_infeasible(schema_of((9,)), 1.0))


def test_small_budget_shares_are_exact() -> None:
    """Shares of the budget are fractions that sum to one, none of them zero."""
    strategy = strategy_for("prefix-2d", (9, 8, 7, 2, 2), Fraction(1))
    assert sum(strategy.shares) == 1
    assert min(strategy.shares) > 0


def test_a_workload_of_single_codes_is_recognised() -> None:
    """Marginals ask about single codes, ranges do not."""
    kinds: dict[str, Workload] = {name: workload_named(name, (5, 4, 3, 2)) for name in WORKLOADS}
    assert {name for name, workload in kinds.items() if workload.is_of_cells} == {"marginal-2", "marginal-3"}
