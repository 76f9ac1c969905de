"""Fitting components: likelihood rises, margins are kept, and the order of categories is no matter."""

from datetime import date, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hdpview.domain import Date, Datetime, Integer, Schema
from hdpview.domain.table_shapes import TableShape
from hdpview.methods.mixture.bins import Axis, axes_of, refinement
from hdpview.methods.mixture.fit import Components, Targets, fit, fits_side_by_side
from hdpview.methods.mixture.measure import Measured, Measurements
from hdpview.methods.mixture.smooth import Histogram, Shrinkage, _Contrasts, shares_of
from hdpview.progress import silent
from hdpview.query.errors.codes import Codes
from hdpview.query.errors.kernels import cycle_of, kept_noise
from hdpview.query.question.batch import Functions
from hdpview.view.released_tables import Table

seeds = st.integers(0, 2**32 - 1)


def table_of(
    rng: np.random.Generator, attributes: tuple[int, ...], sizes: tuple[int, ...], scale: float
) -> Table:
    counts = rng.gamma(0.5, 100.0, [sizes[a] for a in attributes]) + rng.laplace(
        0, scale, [sizes[a] for a in attributes]
    )
    return Table(TableShape.of_codes(attributes, sizes), np.rint(counts).astype(np.int64), "laplace", scale)


def setting(seed: int) -> tuple[np.random.Generator, tuple[int, ...], Targets, list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    sizes = tuple(int(n) for n in rng.integers(2, 7, 4))
    fine = [np.arange(size, dtype=np.int32) for size in sizes]
    tables = [table_of(rng, some, sizes, 5.0) for some in ((0, 1), (1, 2), (0, 1, 2), (0, 1, 2, 3))]
    targets = Targets(tables, [50.0] * 4, fine, [sizes[0], 0, sizes[2], 0])
    return rng, sizes, targets, [rng.dirichlet(np.full(size, 2.0)) for size in sizes]


def independent(targets: Targets, margins: list[np.ndarray]) -> np.ndarray:
    return targets.of_model(np.concatenate(margins)[:, None].astype(np.float32), np.ones(1, np.float32))


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_cells_of_all_tables_are_sums_over_components(seed):
    rng = np.random.default_rng(seed)
    sizes = (5, 3, 4, 2, 2)
    coarse = [np.array([0, 0, 1, 2, 2], np.int32), *(np.arange(n, dtype=np.int32) for n in sizes[1:])]
    shapes = [
        TableShape((0, 1), (coarse[0], coarse[1])), TableShape.of_codes((0, 2, 3), sizes),
        TableShape((0, 1, 2, 3, 4), tuple(coarse)), TableShape.of_codes((3, 4), sizes),
    ]  # fmt: skip
    tables = [Table(shape, rng.integers(0, 50, shape.shape), "laplace", 1.0) for shape in shapes]
    targets = Targets(tables, [2.0] * 4, [np.arange(n, dtype=np.int32) for n in sizes], [5, 0, 4, 0, 0])
    model = Components.start([rng.dirichlet(np.ones(n)) for n in sizes], 7, rng)
    cells = np.split(targets.of_model(np.concatenate(model.share), model.weight), targets.ends[:-1])
    for table, (order, _), flat in zip(tables, targets.halves, cells, strict=True):
        expected = model.weight
        for i in order:
            a, bins = table.attributes[i], table.shape.bin_of_code[i]
            own = np.array([model.share[a][bins == b].sum(axis=0) for b in range(bins.max() + 1)])
            expected = expected[..., None, :] * own
        assert flat == pytest.approx(expected.sum(axis=-1).reshape(-1), abs=1e-6)


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_each_round_raises_the_likelihood(seed):
    rng, _, targets, margins = setting(seed)
    wanted = targets.towards(independent(targets, margins), 500.0)
    model, before = Components.start(margins, 6, rng), -np.inf
    share, weight = np.concatenate(model.share), model.weight
    for _ in range(8):
        likelihood = float((wanted * np.log(np.maximum(targets.of_model(share, weight), 1e-30))).sum())
        assert likelihood >= before - 1e-4
        before = likelihood
        share, weight = targets.maximise(share, weight, wanted, 1)


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_a_fit_is_a_distribution_with_the_margins(seed):
    rng, _, targets, margins = setting(seed)
    model = fit(Components.start(margins, 6, rng), targets, margins, 500.0, 2, 5, lambda: None)
    assert model.weight.sum() == pytest.approx(1, abs=1e-5)
    for share, margin in zip(model.share, margins, strict=True):
        assert share.min() >= 0
        assert share.sum(axis=0) == pytest.approx(1, abs=1e-4)
        assert share @ model.weight == pytest.approx(margin, abs=1e-3)


@given(
    seeds,
    st.sampled_from(["empty", "constant", "one cell", "negative", "huge", "noise"]),
    st.floats(1.0, 1e12),
    st.sampled_from([1e-6, 1.0, 1e12]),
)
@settings(max_examples=60, deadline=None)
def test_no_table_makes_a_fit_that_is_not_a_number(seed, kind, total, variance):
    rng = np.random.default_rng(seed)
    sizes = tuple(int(n) for n in rng.integers(1, 6, 4))
    tables = []
    for some in ((0, 1), (1, 2, 3), (0, 1, 2, 3)):
        counts = np.zeros([sizes[a] for a in some], np.int64)
        if kind == "constant":
            counts[:] = 7
        elif kind == "one cell":
            counts.flat[rng.integers(counts.size)] = 10**9
        elif kind == "negative":
            counts[:] = -rng.integers(0, 10**6, counts.shape)
        elif kind == "huge":
            counts[:] = rng.integers(0, 2**53, counts.shape)
        elif kind == "noise":
            counts[:] = rng.integers(-(10**6), 10**6, counts.shape)
        tables.append(Table(TableShape.of_codes(some, sizes), counts, "laplace", 1.0))
    fine = [np.arange(size, dtype=np.int32) for size in sizes]
    targets = Targets(tables, [variance] * 3, fine, [sizes[0], 0, sizes[2], 0])
    margins = [rng.dirichlet(np.full(size, 0.02)) * (1 - size * 1e-6) + 1e-6 for size in sizes]
    starts = [Components.start(margins, 9, rng) for _ in range(2)]
    for model in fits_side_by_side(starts, targets, margins, total, 3, 8, silent):
        assert len(model.weight) >= 1
        assert np.isfinite(model.weight).all()
        assert (model.weight > 0).all()
        assert model.weight.sum() == pytest.approx(1, abs=1e-4)
        for share in model.share:
            assert np.isfinite(share).all()
            assert (share >= 0).all()
            assert share.sum(axis=0) == pytest.approx(1, abs=1e-3)


@given(seeds, st.floats(1.0, 1e6))
@settings(max_examples=50, deadline=None)
def test_what_is_fitted_is_positive_and_adds_up(seed, total):
    _, _, targets, margins = setting(seed)
    wanted = targets.towards(independent(targets, margins), total)
    for table in np.split(wanted, targets.ends[:-1]):
        assert table.min() > 0
        assert table.sum() == pytest.approx(1, abs=1e-4)


@given(seeds)
@settings(max_examples=50, deadline=None)
def test_shrinkage_brings_departures_nearer_to_none(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 9, 2))
    departures = rng.normal(0, 10, shape)
    flat = departures.reshape(-1)
    shrunk = Shrinkage([[shape[0], 0]], [shape], [25.0])(flat)
    assert (shrunk**2).sum() <= (flat**2).sum() * (1 + 1e-9)
    assert Shrinkage([[*shape]], [shape], [1e-12])(flat) == pytest.approx(flat, abs=1e-6)
    # Several tables are shrunk independently.
    other = Shrinkage([[0, 0], [shape[0], 0]], [(3, 4), shape], [9.0, 25.0])
    both = other(np.concatenate([rng.normal(0, 50, 12), flat]))
    assert both[12:] == pytest.approx(shrunk, rel=1e-4, abs=1e-4)


@given(seeds)
@settings(max_examples=50, deadline=None)
def test_shares_are_positive_and_follow_categories(seed):
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
    assert permuted == pytest.approx(plain[order], rel=1e-4)


@pytest.mark.parametrize("truth", ["equal", "lognormal", "zipf"])
def test_counts_of_many_unordered_values_come_nearer_to_the_truth(truth):
    """Also of the fifty largest, which noise has chosen; of equal values it still chooses too many."""
    rng, n, noise = np.random.default_rng(3), 5_000, 5.0
    counts = {
        "equal": rng.poisson(20, n),
        "lognormal": rng.poisson(rng.lognormal(2.5, 1.0, n)),
        "zipf": rng.poisson(11_000 / np.arange(1, n + 1)),
    }[truth].astype(np.float64)
    noisy = counts + rng.laplace(0, noise / np.sqrt(2), n)
    known = Histogram(noisy, noise**2, np.zeros(n, np.int32), np.full((1, 1), n * noise**2))
    (shares,) = shares_of([Axis(n, 0)], [known], noisy.sum())
    errors, top = shares * noisy.sum() - counts, np.argsort(-shares)[:50]
    assert np.square(errors).mean() < np.square(noisy - counts).mean()
    assert truth == "equal" or np.mean(np.abs(errors[top]) <= 2.36 * noise) >= 0.9


DAYS = [date(2023, 1, 1) + timedelta(i) for i in range(730)]


def test_cycles_are_those_of_the_calendar():
    """Weekdays, months, days and hours of moments, last digits of whole numbers; nothing that cuts a bin."""
    hours = [datetime(2024, 2, 28) + timedelta(hours=i) for i in range(192)]
    last = [Date(name="d", min=DAYS[0], max=DAYS[-1]), Date(name="w", min=DAYS[0], max=DAYS[-1], every="1w")]
    moments = Datetime(name="h", min=hours[0], max=hours[-1], every="1h")
    schema = Schema(
        [*last, moments, Integer(name="n", min=-3, max=80), Integer(name="b", min=0, max=90, every=2)]
    )
    day, week, hour, number, coarse = (axis.cycles for axis in axes_of(schema))
    assert [own.tolist() for own in day] == [
        [(each.weekday() + 4) % 7 for each in DAYS],
        [each.month - 1 for each in DAYS],
        [each.day - 1 for each in DAYS],
    ]
    assert hour[-1].tolist() == [each.hour for each in hours]
    assert number[0].tolist() == [i % 10 for i in range(-3, 81)]
    assert (week, coarse) == ((), ())


def test_sums_over_hours_keep_what_shrinkage_and_clipping_take():
    """Over two years with busy days and rare nights, where a code has less than its noise, sums by hour,
    weekday and month err no more than noise made them; the error model says so too."""
    hours = Datetime(name="h", min=DAYS[0], max=DAYS[-1], every="1h")
    (axis,), rng, n, deviation = axes_of(Schema([hours])), np.random.default_rng(4), 730 * 24, 8.0
    hour, day = np.arange(n) % 24, np.arange(n) // 24
    share = np.where(hour < 8, 0.005, 0.05) * np.where(day % 7 < 5, 1.2, 0.5) * (1 + 0.5 * np.sin(day / 58))
    smooth = 60_000 * share / share.sum()
    truth = rng.poisson(smooth).astype(float)
    sets = {f"cycle {i}": np.eye(own.max() + 1)[:, own] for i, own in enumerate(axis.cycles)}
    sets |= {"nights": (hour < 8)[None] * 1.0, "day": ((hour > 8) & (hour < 17))[None] * 1.0}
    squares = {name: np.zeros(len(rows)) for name, rows in sets.items()}
    for _ in range(4):
        noisy = truth + rng.laplace(0, deviation / np.sqrt(2), n)
        known = Histogram(noisy, deviation**2, np.zeros(n, np.int32), np.full((1, 1), 1.0))
        (shares,) = shares_of([axis], [known], truth.sum())
        for name, rows in sets.items():
            squares[name] += (rows @ (shares * truth.sum() - truth)) ** 2 / 4
    kept = kept_noise(smooth, deviation**2)
    cycles = [cycle_of(bins, smooth, deviation**2, kept) for bins in axis.cycles]
    codes = Codes(smooth / smooth.sum(), [], [kept], 1, cycles)
    for name, rows in sets.items():
        variance = rows.sum(axis=1) * deviation**2
        assert (squares[name] / variance).mean() < (1.3 if len(rows) > 1 else 2.5), name
        functions = Functions(rows)
        expected = codes.moments(functions, None, None).energy[:, 0] * deviation**2
        assert 0.5 < expected.sum() / variance.sum() < 1.5, name


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_histograms_and_margins_are_combined_by_least_squares(seed):
    """Counts of codes are those of generalised least squares over a histogram and all tables that its
    attribute is in, and the variances of contrasts are theirs."""
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
            rng.integers(-5, 99, (bins.max() + 1, 3)), "laplace", 1.0,
        )  # fmt: skip
        measurements.tables.append(Measured(table, table.variance))
        rows.append((bins == np.arange(bins.max() + 1)[:, None]).astype(float))
        counts.append(table.counts.sum(axis=1).astype(float))
        variances.append(np.full(bins.max() + 1, 3 * table.variance))
    weights = 1 / np.concatenate(variances)
    covariance = np.linalg.inv(np.vstack(rows).T @ (np.vstack(rows) * weights[:, None]))
    expected = covariance @ (np.vstack(rows).T @ (np.concatenate(counts) * weights))
    found = measurements._combined(0)
    assert found.counts == pytest.approx(expected, abs=1e-6)
    contrasts = _Contrasts(size)
    basis = contrasts.forward(np.eye(size))
    expected_variances = np.einsum("ib,bc,ic->i", basis, covariance, basis)
    assert found.variances_of(size, contrasts) == pytest.approx(expected_variances, abs=1e-6)


@given(seeds)
@settings(max_examples=20, deadline=None)
def test_permuted_categories_have_permuted_fits(seed):
    rng = np.random.default_rng(seed)
    sizes = (5, 4)
    table = table_of(rng, (0, 1), sizes, 5.0)
    margins = [rng.dirichlet(np.full(size, 2.0)) for size in sizes]
    start = Components.start(margins, 4, rng)
    order = rng.permutation(5)
    fine = [np.arange(size, dtype=np.int32) for size in sizes]

    def fitted(noisy: np.ndarray, first: np.ndarray, begin: Components) -> Components:
        targets = Targets([Table(table.shape, noisy, "laplace", 5.0)], [50.0], fine, [0, 4])
        return fit(begin, targets, [first, margins[1]], 500.0, 2, 5, lambda: None)

    plain = fitted(table.counts, margins[0], start)
    begin = Components(start.weight, (start.share[0][order], start.share[1]))
    permuted = fitted(table.counts[order], margins[0][order], begin)
    assert permuted.share[0] == pytest.approx(plain.share[0][order], abs=2e-3)
    assert permuted.share[1] == pytest.approx(plain.share[1], abs=2e-3)


@given(seeds, st.integers(2, 70), st.floats(0.1, 0.9))
@settings(max_examples=50, deadline=None)
def test_contrasts_are_an_orthonormal_basis(seed, n, first_cut):
    rng = np.random.default_rng(seed)
    table, contrasts = rng.normal(0, 10, (n, 3)), _Contrasts(n, first_cut)
    coefficients = contrasts.forward(table)
    assert (coefficients**2).sum() == pytest.approx((table**2).sum())
    assert contrasts.backward(coefficients) == pytest.approx(table, abs=1e-9)
    basis = contrasts.forward(np.eye(n))
    assert basis @ basis.T == pytest.approx(np.eye(n), abs=1e-9)
    assert contrasts.level.shape == (n,)
