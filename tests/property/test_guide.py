"""Cuts guided by a base, the tables behind it, and the noise taken off them: against enumeration, NumPy and definitions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numba as nb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import lsq_linear

from cells import cell_masses, noisy_view, random_base
from hdpview.counts.sparse import SparseCounts
from hdpview.counts.tables import exact_histograms, exact_pair_tables
from hdpview.domain import Integer, Schema
from hdpview.methods.calibrated import guide_of
from hdpview.methods.calibrated.fit import Measured, fitted_counts
from hdpview.methods.calibrated.forest import choose_tree, exact_dependence, parents
from hdpview.methods.calibrated.smooth import quantile_bins, smoothed_shares, smoothed_table
from hdpview.partition.deviations import new_work
from hdpview.partition.guide import Guide, candidate_cuts, cut_by_guide, new_guide_work, share_of_block, spread_over_bins
from hdpview.privacy.randomness import Draws, Randomness, new_stream
from hdpview.view.base import Base
from hdpview.view.blocks import Blocks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
seeds = st.integers(0, 2**32 - 1)
domains = st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple)
FEW = settings(max_examples=40, deadline=None)


def schema_of(sizes: tuple[int, ...]) -> Schema:
    return Schema([Integer(name=f"a{i}", min=0, max=size - 1) for i, size in enumerate(sizes)])


def counts_of(dense: Ints) -> SparseCounts:
    cells = np.argwhere(dense > 0)
    return SparseCounts(schema_of(dense.shape), np.ascontiguousarray(cells, dtype=np.uint8), dense[tuple(cells.T)])


def random_block(sizes: tuple[int, ...], rng: np.random.Generator) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    lower = np.array([rng.integers(size) for size in sizes], np.int32)
    return lower, (lower + 1 + rng.integers(0, np.array(sizes) - lower)).astype(np.int32)


def inside(lower: NDArray[np.int32], upper: NDArray[np.int32]) -> tuple[slice, ...]:
    return tuple(map(slice, lower.tolist(), upper.tolist()))


def all_but(a: int, n: int) -> tuple[int, ...]:
    return tuple(b for b in range(n) if b != a)


@nb.njit
def candidates(lower, upper, depth, n_levels, guide):  # type: ignore[no-untyped-def]
    room = new_guide_work(guide)
    n = candidate_cuts(lower, upper, depth, n_levels, guide, room)
    return room.cut_attribute[:n].copy(), room.cut_at[:n].copy()


@nb.njit
def shares_of(lower, upper, guide):  # type: ignore[no-untyped-def]
    room = new_guide_work(guide)
    share = share_of_block(lower, upper, guide, room)
    spread_over_bins(guide, room)
    return share, room.spread


@nb.njit
def cuts_of_keys(keys, codes, counts, offsets, lower, upper, epsilon, guide):  # type: ignore[no-untyped-def]
    """The cut that each key leads to, as pairs of attribute and point."""
    stream, room, n = new_stream(), new_guide_work(guide), len(counts)
    work, found = new_work(offsets[-1] + upper[-1], n), np.empty((len(keys), 2), np.int64)
    for i in range(len(keys)):
        a, v = cut_by_guide(codes, counts, 0, n, offsets, lower, upper, 1, counts.sum(), epsilon, 1, guide, room, keys[i], stream, work)
        found[i, 0], found[i, 1] = a, v
    return found


def cuts_of(lower: NDArray[np.int32], upper: NDArray[np.int32], guide: Guide) -> list[tuple[int, int]]:
    attribute, at = candidates(lower, upper, 1, 1, guide)
    return list(zip(attribute.tolist(), at.tolist(), strict=True))


def naive_cuts(masses: Floats, lower: NDArray[np.int32], upper: NDArray[np.int32], n_quantiles: int) -> list[tuple[int, set[int]]]:
    """For each attribute and quantile, the cut points whose left share of the block is nearest to it; two where they are as near."""
    found = []
    block = masses[inside(lower, upper)] / masses[inside(lower, upper)].sum()
    for a in range(block.ndim):
        left = np.cumsum(block.sum(axis=all_but(a, block.ndim)))[:-1]
        for quantile in range(1, n_quantiles if len(left) else 1):
            distance = np.abs(left - quantile / n_quantiles)
            found.append((a, {int(lower[a]) + 1 + int(v) for v in np.flatnonzero(distance <= distance.min() + 1e-9)}))
    return found


def scores_of(dense: Ints, masses: Floats, cuts: list[tuple[int, int]]) -> Floats:
    """|S_L − S·share of the left side| of each cut of the whole domain, by adding up cells."""
    found = []
    for a, v in cuts:
        left = tuple(slice(0, v) if b == a else slice(None) for b in range(dense.ndim))
        found.append(abs(dense[left].sum() - dense.sum() * masses[left].sum() / masses.sum()))
    return np.array(found)


@FEW
@given(domains, seeds)
def test_shares_and_spreads_are_sums_over_cells(sizes: tuple[int, ...], seed: int) -> None:
    """A block's share of the base and how it spreads over every attribute's bins are what adding up all cells gives."""
    rng = np.random.default_rng(seed)
    base = random_base(sizes, rng)
    masses, guide = cell_masses(base), guide_of(base, 0.0, 4)
    for _ in range(4):
        lower, upper = random_block(sizes, rng)
        block = masses[inside(lower, upper)]
        share, spread = shares_of(lower, upper, guide)
        assert share == pytest.approx(block.sum(), rel=1e-9)
        for a in range(len(sizes)):
            of_codes = block.sum(axis=all_but(a, len(sizes))) / block.sum()
            of_bins = np.bincount(base.bin_of_code[a][lower[a] : upper[a]], of_codes, base.n_bins[a])
            assert spread[a, : base.n_bins[a]] == pytest.approx(of_bins, abs=1e-9)


@FEW
@given(domains, seeds, st.integers(2, 7))
def test_cuts_considered_are_those_nearest_to_quantiles(sizes: tuple[int, ...], seed: int, n_quantiles: int) -> None:
    """Every quantile's nearest cut is there, no other is, none twice; both sides of each have a code, whatever the base."""
    rng = np.random.default_rng(seed)
    base = random_base(sizes, rng)
    lower, upper = random_block(sizes, rng)
    found = cuts_of(lower, upper, guide_of(base, 0.0, n_quantiles))
    assert len(set(found)) == len(found)
    assert all(lower[a] < v < upper[a] for a, v in found)
    wanted = naive_cuts(cell_masses(base), lower, upper, n_quantiles)
    assert all(any((a, v) in found for v in nearest) for a, nearest in wanted)
    assert all(any(a == b and v in nearest for b, nearest in wanted) for a, v in found)


@FEW
@given(domains, seeds)
def test_blocks_are_cut_by_public_facts_alone(sizes: tuple[int, ...], seed: int) -> None:
    """A block is cut just where it is no deeper than the levels paid for, holds the least share or more, and has a cut."""
    rng = np.random.default_rng(seed)
    base = random_base(sizes, rng)
    lower, upper = random_block(sizes, rng)
    share = float(cell_masses(base)[inside(lower, upper)].sum())
    for factor, depth in itertools.product((0.99, 1.01), (1, 3, 4)):
        attribute, _ = candidates(lower, upper, depth, 3, guide_of(base, share * factor, 4))
        assert (len(attribute) > 0) == (factor < 1 and depth <= 3 and bool((upper - lower > 1).any()))


@FEW
@given(domains.filter(lambda sizes: max(sizes) > 1), seeds)
def test_the_best_cut_is_the_one_that_departs_most_from_the_base(sizes: tuple[int, ...], seed: int) -> None:
    """With a budget that leaves nothing to chance, the cut has the largest |S_L − S·share| of all that are considered."""
    rng = np.random.default_rng(seed)
    base, dense = random_base(sizes, rng), rng.poisson(3, sizes).astype(np.int64)
    whole, guide, counts = np.array(sizes, np.int32), guide_of(base, 0.0, 4), counts_of(dense)
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    keys = rng.integers(0, 2**32, (3, 8), dtype=np.uint32)
    zeros = np.zeros_like(whole)
    cuts = cuts_of(zeros, whole, guide)
    scores = scores_of(dense, cell_masses(base), cuts)
    for a, v in cuts_of_keys(keys, counts.exact_codes, counts.exact_counts, offsets, zeros, whole, 1e9, guide).tolist():
        assert scores[cuts.index((a, v))] == pytest.approx(scores.max(), abs=1e-6)


@FEW
@given(domains.filter(lambda sizes: max(sizes) > 1), seeds)
def test_one_record_moves_no_score_by_more_than_one(sizes: tuple[int, ...], seed: int) -> None:
    """A record more in any cell changes every cut's score by 1 at most; the cuts themselves do not depend on records."""
    rng = np.random.default_rng(seed)
    base, dense = random_base(sizes, rng), rng.poisson(1, sizes).astype(np.int64)
    masses = cell_masses(base)
    cuts = cuts_of(np.zeros(len(sizes), np.int32), np.array(sizes, np.int32), guide_of(base, 0.0, 5))
    before = scores_of(dense, masses, cuts)
    for cell in itertools.islice(np.ndindex(*sizes), 200):
        more = dense.copy()
        more[cell] += 1
        assert np.abs(scores_of(more, masses, cuts) - before).max() <= 1 + 1e-9


@FEW
@given(domains, seeds)
def test_tables_are_those_of_numpy(sizes: tuple[int, ...], seed: int) -> None:
    """Histograms and tables of all pairs over bins are sums of the dense cube; bins of one code give the plain pair table."""
    rng = np.random.default_rng(seed)
    dense = (rng.poisson(2, sizes) * rng.integers(0, 2, sizes)).astype(np.int64)
    counts, n = counts_of(dense), len(sizes)
    for a, histogram in enumerate(exact_histograms(counts)):
        assert histogram.tolist() == dense.sum(axis=all_but(a, n)).tolist()
    bins = random_base(sizes, rng).bin_of_code
    tables = exact_pair_tables(counts, bins)
    assert list(tables) == list(itertools.combinations(range(n), 2))
    for (a, b), table in tables.items():
        wanted = np.zeros((bins[a][-1] + 1, bins[b][-1] + 1), np.int64)
        np.add.at(wanted, np.ix_(bins[a], bins[b]), dense.sum(axis=tuple(c for c in range(n) if c not in (a, b))))
        assert table.tolist() == wanted.tolist()


@FEW
@given(domains.filter(lambda sizes: len(sizes) > 1), seeds)
def test_dependence_is_its_definition_and_moves_by_one_at_most(sizes: tuple[int, ...], seed: int) -> None:
    """Σ |count − total·share·share| cell by cell; any record more or less moves it by 1 at most, where shares and total are released."""
    rng = np.random.default_rng(seed)
    dense, total = rng.poisson(1, sizes).astype(np.int64), float(rng.random() * 100 + 1)
    bins = [np.arange(size, dtype=np.int32) for size in sizes]
    shares = [rng.dirichlet(np.ones(size)) for size in sizes]
    found = exact_dependence(exact_pair_tables(counts_of(dense), bins), shares, total)
    for (a, b), score in found.items():
        table = dense.sum(axis=tuple(c for c in range(len(sizes)) if c not in (a, b)))
        cells = itertools.product(range(sizes[a]), range(sizes[b]))
        assert score == pytest.approx(sum(abs(table[i, j] - total * shares[a][i] * shares[b][j]) for i, j in cells))
    for cell in itertools.islice(np.ndindex(*sizes), 40):
        changed = dense.copy()
        changed[cell] += 1 if rng.random() < 0.5 or not dense[cell] else -1
        other = exact_dependence(exact_pair_tables(counts_of(changed), bins), shares, total)
        assert max(abs(other[pair] - found[pair]) for pair in found) <= 1 + 1e-9


@FEW
@given(st.integers(1, 70), seeds, st.floats(0.01, 1e6), st.floats(0, 1e6))
def test_shares_are_a_distribution_whatever_the_noise(n: int, seed: int, total: float, variance: float) -> None:
    """Positive, sum 1, for any noise; and within one part in ten thousand of the truth where there is none to speak of."""
    rng = np.random.default_rng(seed)
    noisy = np.rint(rng.normal(total / n, math.sqrt(variance) + total / n, n))
    shares = smoothed_shares(noisy, max(1.0, total), variance)
    assert shares.shape == (n,)
    assert (shares > 0).all()
    assert shares.sum() == pytest.approx(1)
    exact = rng.integers(0, 1000, n) + (np.arange(n) == 0)
    near = smoothed_shares(exact.astype(float), float(exact.sum()), 1e-9)
    assert near == pytest.approx(exact / exact.sum(), abs=1e-4)


@FEW
@given(st.integers(1, 12), st.integers(1, 12), seeds, st.floats(1e-3, 1e5))
def test_tables_of_pairs_are_distributions_with_their_margins(n_rows: int, n_columns: int, seed: int, variance: float) -> None:
    """Positive, sum 1, columns as given and rows within a hundredth, for any noise; without noise the true joint distribution."""
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.full(n_rows * n_columns, 2.0)).reshape(n_rows, n_columns)
    rows, columns, total = truth.sum(axis=1), truth.sum(axis=0), 5_000.0
    noisy = total * truth + rng.normal(0, math.sqrt(variance), truth.shape)
    joint = smoothed_table(noisy, rows, columns, total, variance)
    assert (joint > 0).all()
    assert joint.sum() == pytest.approx(1)
    assert joint.sum(axis=0) == pytest.approx(columns, abs=1e-9)
    assert joint.sum(axis=1) == pytest.approx(rows, abs=0.01)
    assert smoothed_table(total * truth, rows, columns, total, 1e-9) == pytest.approx(truth, abs=1e-4)


@FEW
@given(st.integers(1, 80), st.integers(2, 64), seeds, st.floats(0.1, 6))
def test_bins_are_runs_without_gaps_and_about_as_full(n: int, n_bins: int, seed: int, skew: float) -> None:
    """Numbered from 0 in steps of 0 or 1, no more than asked for; none of several codes has more than two bins' worth but for one code."""
    shares = np.random.default_rng(seed).random(n) ** skew + 1e-9
    shares /= shares.sum()
    bins = quantile_bins(shares, n_bins)
    assert bins[0] == 0
    assert set(np.diff(bins).tolist()) <= {0, 1}
    assert bins[-1] < min(n_bins, n)
    for number in range(bins[-1] + 1):
        of_bin = shares[bins == number]
        assert of_bin.sum() - of_bin.max() <= 1 / min(n_bins, n) + 1e-9


@FEW
@given(st.integers(2, 9), seeds, st.sampled_from(["1/1000", "1", "1000000"]))
def test_pairs_make_a_tree(n: int, seed: int, epsilon: str) -> None:
    """N − 1 pairs connect all attributes; hung from its most central one, each pair is a child and its parent, and depth is least."""
    rng = np.random.default_rng(seed)
    pairs = list(itertools.combinations(range(n), 2))
    scores = {pair: float(score) for pair, score in zip(pairs, rng.random(len(pairs)) * 50, strict=True)}
    edges = choose_tree(scores, n, Fraction(epsilon), Draws(Randomness.from_test_key(b"%d" % seed).root_key("pairs")))
    assert len(edges) == len(set(edges)) == n - 1
    parent = parents(edges, n)
    assert parent.count(-1) == 1
    assert {tuple(sorted((a, b))) for a, b in enumerate(parent) if b >= 0} == set(edges)
    depth = [len(path_to_root(parent, a)) for a in range(n)]
    longest = max(len(between(path_to_root(parent, a), path_to_root(parent, b))) for a, b in pairs)
    assert max(depth) - 1 == math.ceil(longest / 2)
    if epsilon == "1000000":
        assert sum(scores[edge] for edge in edges) == pytest.approx(heaviest_tree(scores, n), abs=1e-3)


def path_to_root(parent: list[int], a: int) -> list[int]:
    path = [a]
    while parent[path[-1]] >= 0:
        path.append(parent[path[-1]])
        assert len(path) <= len(parent), "a circle"
    return path


def between(first: list[int], second: list[int]) -> list[int]:
    """The edges between two attributes, each named by its lower end: those on one way to the root and not on both."""
    return [a for a in [*first, *second] if (a in first) != (a in second)]


def heaviest_tree(scores: dict[tuple[int, int], float], n: int) -> float:
    """The weight of the heaviest spanning tree, by an algorithm of SciPy."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    graph = np.zeros((n, n))
    for (a, b), score in scores.items():
        graph[a, b] = -score - 1  # edges of weight 0 would not be there
    return -float(minimum_spanning_tree(csr_array(graph)).sum()) - (n - 1)


def measured(base: Base, rng: np.random.Generator) -> Measured:
    """Noisy counts over the bins of a base, about right, and the variances of their noise."""

    def noisy(shares: Floats) -> tuple[Floats, Floats]:
        return 300 * shares + rng.normal(0, 6, shares.shape), rng.random(shares.shape) * 400 + 20

    of_bins = [np.bincount(of_code, base.marginal(a)) for a, of_code in enumerate(base.bin_of_code)]
    tables = {a: of_bins[parent][:, None] * base.table[a] for a, parent in enumerate(base.parent) if parent >= 0}
    return Measured([noisy(shares) for shares in of_bins], {a: noisy(table) for a, table in tables.items()})


def equations(blocks: Blocks, variance: float, base: Base, given: Measured) -> tuple[Floats, Floats]:
    """The least-squares problem written out: rows and right sides divided by standard deviations, blocks spread cell by cell."""
    masses = cell_masses(base)
    rows, values = [np.eye(len(blocks)) / math.sqrt(variance)], [blocks.noisy_counts / math.sqrt(variance)]
    indicator = [np.eye(base.n_bins[a])[base.bin_of_code[a]] for a in range(len(base.parent))]  # codes × bins
    parts = []
    for low, high in zip(blocks.lower, blocks.upper, strict=True):
        here = np.zeros(base.sizes)
        here[inside(low, high)] = masses[inside(low, high)]
        parts.append(here / here.sum())
    listed: list[tuple[tuple[int, ...], tuple[Floats, Floats]]] = [((a,), found) for a, found in enumerate(given.histograms)]
    listed += [((base.parent[a], a), found) for a, found in given.tables.items()]
    for attributes, (noisy, of_noise) in listed:
        columns = []
        for part in parts:
            others = tuple(b for b in range(len(base.parent)) if b not in attributes)
            table = part.sum(axis=others).transpose(np.argsort(np.argsort(attributes)))
            for axis, a in enumerate(attributes):
                table = np.moveaxis(np.tensordot(table, indicator[a], (axis, 0)), -1, axis)
            columns.append(table.reshape(-1))
        deviation = np.sqrt(of_noise).reshape(-1)
        rows.append(np.array(columns).T / deviation[:, None])
        values.append(noisy.reshape(-1) / deviation)
    return np.concatenate(rows), np.concatenate(values)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(2, 5), min_size=1, max_size=3).map(tuple), seeds, st.sampled_from([1.0, 5.0, 20.0]))
def test_fitted_counts_are_those_of_a_solver(sizes: tuple[int, ...], seed: int, variance: float) -> None:
    """Never negative, and within a thousandth of the least sum of squares that SciPy finds for the problem written out cell by cell.

    Blocks are measured at least as well as bins, as in every build: the rounds of the fit are enough for that.
    """
    rng = np.random.default_rng(seed)
    base, view = random_base(sizes, rng), noisy_view(schema_of(sizes), seed, 8)
    blocks, found_before = view.blocks, measured(base, rng)
    fitted = fitted_counts(blocks, variance, guide_of(base, 0.0, 4), found_before)
    assert fitted.shape == (len(blocks),)
    assert (fitted >= 0).all()
    rows, values = equations(blocks, variance, base, found_before)
    best: Any = lsq_linear(rows, values, (0, np.inf), tol=1e-12)
    least = float(((rows @ best.x - values) ** 2).sum())
    assert float(((rows @ fitted - values) ** 2).sum()) <= least * 1.001 + 1e-3
