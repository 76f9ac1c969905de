"""Fitting components: likelihood rises, totals and margins are kept, and nothing depends on the order of
categories."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hdpview.domain.tables import TableShape
from hdpview.methods.mixture.bins import Axis, refinement
from hdpview.methods.mixture.fit import Components, Target, fit, maximise
from hdpview.methods.mixture.measure import Measured, Measurements
from hdpview.methods.mixture.smooth import Histogram, Shrinkage, _Contrasts, kept_shares, shares_of
from hdpview.view.tables import Table

seeds = st.integers(0, 2**32 - 1)


def table_of(
    rng: np.random.Generator, attributes: tuple[int, ...], sizes: tuple[int, ...], scale: float
) -> Table:
    counts = rng.gamma(0.5, 100.0, [sizes[a] for a in attributes]) + rng.laplace(
        0, scale, [sizes[a] for a in attributes]
    )
    return Table(TableShape.of_codes(attributes, sizes), np.rint(counts).astype(np.int64), "laplace", scale)


def setting(seed: int) -> tuple[np.random.Generator, tuple[int, ...], list[Target], list[np.ndarray]]:
    """Three attributes, two pairs and a table of all three."""
    rng = np.random.default_rng(seed)
    sizes = tuple(int(n) for n in rng.integers(2, 7, 3))
    fine = [np.arange(size, dtype=np.int32) for size in sizes]
    targets = [
        Target(table_of(rng, attributes, sizes, 5.0), 50.0, fine, [sizes[0], 0, sizes[2]])
        for attributes in ((0, 1), (1, 2), (0, 1, 2))
    ]
    return rng, sizes, targets, [rng.dirichlet(np.full(size, 2.0)) for size in sizes]


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_each_round_raises_the_likelihood(seed: int) -> None:
    """Σ wanted · log P never falls from one round of expectation maximisation to the next, up to single
    precision."""
    rng, _, targets, margins = setting(seed)
    wanted = [target.towards(target.of_margins(margins), float(target.noisy.sum())) for target in targets]
    model, before = Components.start(margins, 6, rng), -np.inf
    for _ in range(8):
        likelihood = sum(
            float((w * np.log(np.maximum(target.of_model(model), 1e-30))).sum())
            for target, w in zip(targets, wanted, strict=True)
        )
        assert likelihood >= before - 1e-4
        before, model = likelihood, maximise(model, targets, wanted, 1)


@pytest.mark.parametrize("rounds", [10, 40])
def test_long_steps_come_nearer_in_as_many_rounds(rounds: int) -> None:
    """Rounds of either kind end nearer to tables without noise than they started, those with long steps
    nearest."""
    sizes, rng = (6, 5, 4), np.random.default_rng(3)
    cells, fine = rng.dirichlet(np.full(120, 0.3)).reshape(sizes), [np.arange(size) for size in sizes]
    targets, wanted = [], []
    for left_out in range(3):
        table = cells.sum(axis=left_out)
        shape = TableShape.of_codes([a for a in range(3) if a != left_out], sizes)
        counts = np.rint(10_000 * table).astype(np.int64)
        targets.append(Target(Table(shape, counts, "laplace", 0.1), 0.02, fine, sizes))
        wanted.append(table.astype(np.float32))
    margins = [cells.sum(axis=tuple(b for b in range(3) if b != a)) for a in range(3)]
    start = Components.start(margins, 32, rng)

    def distance(model: Components) -> float:
        pairs = zip(targets, wanted, strict=True)
        return sum(float(np.abs(target.of_model(model) - table).sum()) for target, table in pairs)

    plain, long = (maximise(start, targets, wanted, rounds, long_steps) for long_steps in (False, True))
    assert distance(long) < distance(plain) < distance(start)
    assert long.weight.sum() == pytest.approx(1.0, abs=1e-5)
    for share in long.share:
        assert share.sum(axis=0) == pytest.approx(1.0, abs=1e-5)


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_a_fit_is_a_distribution_with_the_margins(seed: int) -> None:
    """Weights and columns of shares add up to 1, none is negative, and margins are those that were given."""
    rng, _, targets, margins = setting(seed)
    model = fit(Components.start(margins, 6, rng), targets, margins, 500.0, 2, 5, lambda: None)
    assert model.weight.sum() == pytest.approx(1, abs=1e-5)
    for share, margin in zip(model.share, margins, strict=True):
        assert share.min() >= 0
        assert share.sum(axis=0) == pytest.approx(1, abs=1e-4)
        assert share @ model.weight == pytest.approx(margin, abs=1e-3)


@given(seeds, st.floats(1.0, 1e6))
@settings(max_examples=50, deadline=None)
def test_what_is_fitted_is_positive_and_adds_up(seed: int, total: float) -> None:
    """The denoised table is positive and has sum 1, whatever the noise."""
    _, _, targets, margins = setting(seed)
    for target in targets:
        wanted = target.towards(target.of_margins(margins), total)
        assert wanted.min() > 0
        assert wanted.sum() == pytest.approx(1, abs=1e-4)


@given(seeds)
@settings(max_examples=50, deadline=None)
def test_shrinkage_brings_departures_nearer_to_none(seed: int) -> None:
    """No table is further from the model after shrinkage, one without noise stays as it is."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 9, 2))
    departures = rng.normal(0, 10, shape)
    shrunk = Shrinkage([shape[0], 0], shape, 25.0)(departures)
    assert (shrunk**2).sum() <= (departures**2).sum() * (1 + 1e-9)
    assert Shrinkage([shape[0], shape[1]], shape, 1e-12)(departures) == pytest.approx(departures, abs=1e-6)


@given(seeds)
@settings(max_examples=50, deadline=None)
def test_shares_are_positive_and_follow_categories(seed: int) -> None:
    """Shares of a histogram are positive, add up to 1, and are permuted if categories are."""
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 40))
    noisy, order = rng.normal(20, 30, size), rng.permutation(size)
    total = max(1.0, float(noisy.sum()))

    def known(counts: np.ndarray) -> Histogram:
        return Histogram(counts, 9.0, np.zeros(size, np.int32), np.full((1, 1), 9.0 * size))

    for n_ordered in (0, size - 1, size):
        (shares,) = shares_of([Axis(size, n_ordered)], [known(noisy)], total)
        assert shares.min() > 0
        assert shares.sum() == pytest.approx(1)
    (plain,) = shares_of([Axis(size, 0)], [known(noisy)], total)
    (permuted,) = shares_of([Axis(size, 0)], [known(noisy[order])], total)
    assert permuted == pytest.approx(plain[order])


def test_what_is_noise_is_taken_off_and_what_stands_out_is_kept() -> None:
    """Of a group of pure noise next to nothing is kept; a coefficient far beyond it is kept nearly whole."""
    rng = np.random.default_rng(5)
    coefficients, variance = rng.normal(0, 2, 400), np.full(400, 4.0)
    coefficients[7] = 60.0
    kept = kept_shares(coefficients, variance, np.zeros(400, np.int64))
    assert kept.min() >= 0
    assert kept.max() == kept[7] > 0.9
    assert np.delete(kept, 7).mean() < 0.1


def test_groups_are_shrunk_apart() -> None:
    """A group in which coefficients are large keeps more of a middling one than a group of noise does."""
    rng = np.random.default_rng(6)
    coefficients = np.concatenate([rng.normal(0, 1, 50), rng.normal(0, 9, 50)])
    coefficients[[0, 50]] = 2.0
    kept = kept_shares(coefficients, np.ones(100), np.repeat([0, 1], 50))
    assert kept[50] > kept[0] + 0.2


def test_short_histograms_learn_from_each_other() -> None:
    """A step that all other attributes show is believed more than where no other shows one."""
    noisy = np.array([40.0, 40.0, 20.0, 20.0])
    known = Histogram(noisy, 300.0, np.zeros(4, np.int32), np.full((1, 1), 1200.0))
    step = Histogram(np.array([90.0, 90.0, -30.0, -30.0]), *list(vars(known).values())[1:])
    flat = Histogram(np.full(4, 30.0), *list(vars(known).values())[1:])
    axis = Axis(4, 4)
    beside_steps = shares_of([axis] * 9, [known] + [step] * 8, 120.0)[0]
    beside_none = shares_of([axis] * 9, [known] + [flat] * 8, 120.0)[0]
    assert beside_steps[0] - beside_steps[3] > beside_none[0] - beside_none[3]


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_histograms_and_margins_are_combined_by_least_squares(seed: int) -> None:
    """Counts of codes are those of generalised least squares over a histogram and all tables that its
    attribute is in, and the variances of contrasts are theirs.
    """
    rng = np.random.default_rng(seed)
    size, n_tables = int(rng.integers(2, 12)), int(rng.integers(0, 4))
    axes = (Axis(size, size), Axis(3, 0))
    histogram = Measured(
        Table(TableShape.of_codes([0], (size, 3)), rng.integers(-5, 99, size), "laplace", 1.0), 4.0
    )
    rows, counts, variances = [np.eye(size)], [histogram.noisy], [np.full(size, 4.0)]
    measurements = Measurements(axes, 100.0, 4.0, [histogram, histogram])
    for _ in range(n_tables):
        bins = refinement(size, [rng.integers(0, 4, size).astype(np.int32)])
        table = Table(
            TableShape((0, 1), (bins, np.arange(3, dtype=np.int32))),
            rng.integers(-5, 99, (bins.max() + 1, 3)),
            "laplace",
            1.0,
        )
        measurements.tables.append(Measured(table, 2.0))
        rows.append((bins == np.arange(bins.max() + 1)[:, None]).astype(float))
        counts.append(table.counts.sum(axis=1).astype(float))
        variances.append(np.full(bins.max() + 1, 6.0))
    weights = 1 / np.concatenate(variances)
    covariance = np.linalg.inv(np.vstack(rows).T @ (np.vstack(rows) * weights[:, None]))
    expected = covariance @ (np.vstack(rows).T @ (np.concatenate(counts) * weights))
    found = measurements._combined(0)
    assert found.counts == pytest.approx(expected, abs=1e-6)
    contrasts = _Contrasts(size, size)
    basis = contrasts.forward(np.eye(size), 0)
    expected_variances = np.einsum("ib,bc,ic->i", basis, covariance, basis)
    assert found.variances_of(size, contrasts) == pytest.approx(expected_variances, abs=1e-6)


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_permuted_categories_have_permuted_fits(seed: int) -> None:
    """With the same noise and start, permuting the codes of a category permutes its shares and nothing
    else."""
    rng = np.random.default_rng(seed)
    sizes = (5, 4)
    table = table_of(rng, (0, 1), sizes, 5.0)
    margins = [rng.dirichlet(np.full(size, 2.0)) for size in sizes]
    start = Components.start(margins, 4, rng)
    order = rng.permutation(5)
    fine = [np.arange(size, dtype=np.int32) for size in sizes]

    def fitted(noisy: np.ndarray, first: np.ndarray, begin: Components) -> Components:
        target = Target(Table(table.shape, noisy, "laplace", 5.0), 50.0, fine, [0, 4])
        return fit(begin, [target], [first, margins[1]], 500.0, 2, 5, lambda: None)

    plain = fitted(table.counts, margins[0], start)
    begin = Components(start.weight, (start.share[0][order], start.share[1]))
    permuted = fitted(table.counts[order], margins[0][order], begin)
    assert permuted.share[0] == pytest.approx(plain.share[0][order], abs=2e-3)
    assert permuted.share[1] == pytest.approx(plain.share[1], abs=2e-3)


@given(seeds, st.integers(1, 70), st.integers(0, 3))
@settings(max_examples=50, deadline=None)
def test_contrasts_are_an_orthonormal_basis(seed: int, n_ordered: int, n_others: int) -> None:
    """Coefficients have the energy of the table, give it back, and are independent of each other."""
    rng = np.random.default_rng(seed)
    table = rng.normal(0, 10, (3, n_ordered + n_others))
    contrasts = _Contrasts(n_ordered, n_ordered + n_others)
    coefficients = contrasts.forward(table, 1)
    assert (coefficients**2).sum() == pytest.approx((table**2).sum())
    assert contrasts.backward(coefficients, 1) == pytest.approx(table, abs=1e-9)
    basis = contrasts.forward(np.eye(n_ordered + n_others), 0)
    assert basis @ basis.T == pytest.approx(np.eye(n_ordered + n_others), abs=1e-9)
    assert contrasts.level.shape == (n_ordered + n_others,)
