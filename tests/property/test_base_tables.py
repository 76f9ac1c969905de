"""The tables behind a base, the noise taken off them, and the tree of pairs: against NumPy, SciPy and
definitions.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from dense import FEW, counts_of, domains, seeds
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts
from hdpview.domain.tables import TableShape
from hdpview.methods.calibrated.forest import choose_tree, exact_dependence, parents
from hdpview.methods.calibrated.smooth import quantile_bins, smoothed_shares, smoothed_table
from hdpview.privacy.randomness import Draws, Randomness

Pair = tuple[int, int]


def exact_pair_tables(
    counts: SparseCounts, bins: Sequence[NDArray[np.int32]]
) -> dict[Pair, NDArray[np.int64]]:
    """Records per pair of bins, for all pairs of attributes."""
    pairs = list(itertools.combinations(range(len(bins)), 2))
    shapes = [TableShape((a, b), (bins[a], bins[b])) for a, b in pairs]
    return dict(zip(pairs, counts.exact_tables(shapes), strict=True))


@FEW
@given(domains.filter(lambda sizes: len(sizes) > 1), seeds)
def test_dependence_is_its_definition_and_moves_by_one_at_most(sizes: tuple[int, ...], seed: int) -> None:
    """Σ |count − total·share·share| cell by cell; any record more or less moves it by 1 at most, where shares
    and total are released.
    """
    rng = np.random.default_rng(seed)
    dense, total = rng.poisson(1, sizes).astype(np.int64), float(rng.random() * 100 + 1)
    bins = [np.arange(size, dtype=np.int32) for size in sizes]
    shares = [rng.dirichlet(np.ones(size)) for size in sizes]
    found = exact_dependence(exact_pair_tables(counts_of(dense), bins), shares, total)
    for (a, b), score in found.items():
        table = dense.sum(axis=tuple(c for c in range(len(sizes)) if c not in (a, b)))
        cells = itertools.product(range(sizes[a]), range(sizes[b]))
        assert score == pytest.approx(
            sum(abs(table[i, j] - total * shares[a][i] * shares[b][j]) for i, j in cells)
        )
    for cell in itertools.islice(np.ndindex(*sizes), 40):
        changed = dense.copy()
        changed[cell] += 1 if rng.random() < 0.5 or not dense[cell] else -1
        other = exact_dependence(exact_pair_tables(counts_of(changed), bins), shares, total)
        assert max(abs(other[pair] - found[pair]) for pair in found) <= 1 + 1e-9


@FEW
@given(st.integers(1, 70), seeds, st.floats(0.01, 1e6), st.floats(0, 1e6))
def test_shares_are_a_distribution_whatever_the_noise(
    n: int, seed: int, total: float, variance: float
) -> None:
    """Positive, sum 1, for any noise; and within one part in ten thousand of the truth where there is none to
    speak of.
    """
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
def test_tables_of_pairs_are_distributions_with_their_margins(
    n_rows: int, n_columns: int, seed: int, variance: float
) -> None:
    """Positive, sum 1, columns as given and rows within a hundredth, for any noise; without noise the true
    joint distribution.
    """
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
    """Numbered from 0 in steps of 0 or 1, no more than asked for; none of several codes has more than two
    bins' worth but for one code.
    """
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
    """N − 1 pairs connect all attributes; hung from its most central one, each pair is a child and its
    parent, and depth is least.
    """
    rng = np.random.default_rng(seed)
    pairs = list(itertools.combinations(range(n), 2))
    scores = {pair: float(score) for pair, score in zip(pairs, rng.random(len(pairs)) * 50, strict=True)}
    edges = choose_tree(
        scores, n, Fraction(epsilon), Draws(Randomness.from_test_key(b"%d" % seed).root_key("pairs"))
    )
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
    """The edges between two attributes, each named by its lower end: those on one way to the root and not on
    both.
    """
    return [a for a in [*first, *second] if (a in first) != (a in second)]


def heaviest_tree(scores: dict[tuple[int, int], float], n: int) -> float:
    """The weight of the heaviest spanning tree, by an algorithm of SciPy."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    graph = np.zeros((n, n))
    for (a, b), score in scores.items():
        graph[a, b] = -score - 1  # edges of weight 0 would not be there
    return -float(minimum_spanning_tree(csr_array(graph)).sum()) - (n - 1)
