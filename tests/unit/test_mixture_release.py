"""The mixture's release: budget, focus, delta, permuted categories, dependent pairs, sums over bins."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from hdpview.build import release
from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Category, Integer, Schema
from hdpview.domain.table_shapes import TableShape
from hdpview.methods.mixture import Mixture
from hdpview.methods.protocol import ViewRelease, release_with
from hdpview.partition.local import LocalEngine
from hdpview.privacy.mechanism import Charge
from hdpview.privacy.randomness import Randomness
from hdpview.view import mixture
from hdpview.view.released_tables import Table, pairs_inside

SIZES = (8, 6, 5, 12)


def rows(n: int = 4_000) -> NDArray[np.uint8]:
    rng = np.random.default_rng(4)
    first = rng.integers(0, 8, n)
    second = np.clip(first // 2 + rng.integers(0, 2, n), 0, 5)
    return np.stack([first, second, rng.integers(0, 5, n), rng.integers(0, 12, n)], axis=1).astype(np.uint8)


def counts_of(codes: NDArray[np.uint8]) -> SparseCounts:
    attributes = [
        Category(name="a", values=tuple("abcdefgh")),
        *(Integer(name=n, min=0, max=s - 1) for n, s in zip("bcd", SIZES[1:], strict=True)),
    ]
    cells, counts = np.unique(codes, axis=0, return_counts=True)
    return SparseCounts(Schema(attributes), np.ascontiguousarray(cells), counts.astype(np.int64))


def build(
    method: Mixture, epsilon: str = "1", codes: NDArray[np.uint8] | None = None
) -> tuple[ViewRelease, tuple[Charge, ...]]:
    counts = counts_of(rows() if codes is None else codes)
    released, charges = release_with(
        method, counts, Fraction(epsilon), Randomness.from_test_key(b"mixture"), LocalEngine(1)
    )
    return released, charges


def test_noise_of_all_tables_costs_what_was_charged():
    released, charges = build(Mixture())
    spent = sum(1 / table.scale for table in released.tables)
    charged = sum(
        charge.epsilon * charge.times for charge in charges if charge.purpose != "number of records"
    )
    assert spent == pytest.approx(float(charged), rel=1e-9)


def test_noise_with_delta_costs_what_rho_pays_for():
    from hdpview.privacy.noise import rho_of

    released, charges = build(Mixture(delta="1/1000"), epsilon="1/10")
    assert [(charge.epsilon, charge.delta) for charge in charges] == [(Fraction(1, 10), Fraction(1, 1000))]
    assert all(table.noise == "gaussian" for table in released.tables)
    rho = float(rho_of(Fraction(1, 10), Fraction(1, 1000)))
    assert sum(1 / (2 * table.scale**2) for table in released.tables) <= rho
    assert sum(1 / (2 * table.scale**2) for table in released.tables) >= 0.9 * rho


def test_focus_is_among_the_tables_with_less_noise():
    released, _ = build(Mixture(focus=(("d", "a"),)))
    scale = {table.attributes: table.scale for table in released.tables if len(table.attributes) > 1}
    assert scale[0, 3] == min(scale.values())


def test_a_dependence_is_in_the_view():
    codes = rows()
    released, _ = build(Mixture(), epsilon="4", codes=codes)
    exact = np.zeros(SIZES[:2])
    np.add.at(exact, (codes[:, 0], codes[:, 1]), 1)
    independent = np.outer(exact.sum(axis=1), exact.sum(axis=0)) / exact.sum()
    error = np.abs(released.marginal((0, 1)) - exact).sum()
    assert error < 0.25 * np.abs(independent - exact).sum()


def test_margins_of_the_view_are_those_of_the_histograms():
    """Every attribute's histogram by the view is that of what was measured about it, up to rounding of
    shares."""
    released, _ = build(Mixture())
    weight, total = released.components.weight, released.components.weight.sum()
    for a, size in enumerate(SIZES):
        from_members = [
            released.components.grid([a], np.where(released.components.fit_index == m, weight, 0.0))
            for m in range(int(released.components.fit_index.max()) + 1)
        ]
        assert released.marginal((a,)).shape == (size,)
        # All fits agree about a single attribute, because all are scaled to the same margins.
        for one in from_members[1:]:
            assert np.abs(one - from_members[0]).sum() < 0.004 * total


def test_the_order_of_categories_does_not_matter_on_average():
    codes = rows()
    order = np.array([3, 0, 7, 5, 1, 6, 2, 4], np.uint8)
    renamed = codes.copy()
    renamed[:, 0] = order[codes[:, 0]]
    plain = build(Mixture(), epsilon="50", codes=codes)[0].marginal((0, 1))
    other = build(Mixture(), epsilon="50", codes=renamed)[0].marginal((0, 1))
    assert np.abs(other[order] - plain).sum() < 0.05 * len(codes)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("epsilon", ["1/10000", "1000", "100000"])
def test_budgets_far_out_give_answers_with_intervals(epsilon):
    counts = counts_of(rows())
    view = release(counts, Fraction(epsilon), Mixture(), Randomness.from_test_key(b"far out"))
    answer = view.count("a = 'c' AND b >= 1")
    assert answer.lower <= answer.estimate <= answer.upper
    if Fraction(epsilon) > 1:
        truth = int(((rows()[:, 0] == 2) & (rows()[:, 1] >= 1)).sum())
        assert answer.lower <= truth <= answer.upper


def many_codes(n_codes: int, n_bins: int) -> mixture.Mixture:
    rng = np.random.default_rng(5)
    bins = rng.permutation(np.arange(n_codes) % n_bins).astype(np.int32)
    shape = rng.random(n_codes)
    share = rng.random((n_bins, 3))
    return mixture.Mixture(
        np.array([3.0, 2.0, 5.0]), (bins,), (shape / np.bincount(bins, shape)[bins],),
        (share / share.sum(axis=0),), np.zeros(3, np.int32),
    )  # fmt: skip


def test_many_codes_are_added_up_bin_by_bin_to_the_same(monkeypatch):
    values = np.random.default_rng(6).random((4, 900))
    product = many_codes(900, 40).factors(0, values)
    monkeypatch.setattr(mixture, "_MAX_MATRIX", 100)
    added_up = many_codes(900, 40)
    assert added_up.factors(0, values) == pytest.approx(product, rel=1e-12)
    assert added_up.factors(0, values[:0]).shape == (0, 3)


PAIR_SIZES = (2, 3, 4, 5)


def table_of(attributes: tuple[int, ...], scale: float) -> Table:
    shape = TableShape.of_codes(attributes, PAIR_SIZES)
    counts = np.arange(np.prod(shape.shape), dtype=np.int64).reshape(shape.shape)
    return Table(shape, counts, "laplace", scale)


def test_margins_are_sums_with_the_variance_of_sums():
    table = table_of((0, 1, 2), 3.0)
    pairs = {pair.attributes: pair for pair in pairs_inside([table])}
    assert sorted(pairs) == [(0, 1), (0, 2), (1, 2)]
    assert (pairs[0, 2].counts == table.counts.sum(axis=1)).all()
    assert pairs[0, 2].variance == pytest.approx(3 * table.variance)
    assert pairs[1, 2].variance == pytest.approx(2 * table.variance)


def test_tables_of_their_own_and_precise_margins_come_first():
    tables = [table_of((0, 1), 1.0), table_of((0, 1, 2), 3.0), table_of((1, 2, 3), 3.0)]
    pairs = {pair.attributes: pair for pair in pairs_inside(tables)}
    assert sorted(pairs) == [(0, 2), (1, 2), (1, 3), (2, 3)]
    assert pairs[1, 2].counts.tolist() == tables[1].counts.sum(axis=0).tolist()
