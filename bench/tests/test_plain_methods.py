"""Identity and independent histograms, against their definitions written out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Integer, Schema
from hdpview.errors import QueryError
from hdpview.methods.protocol import Release, release_with
from hdpview.partition.local import LocalEngine
from hdpview.privacy.mechanism import Charge
from hdpview.privacy.randomness import Randomness
from hdpview_bench.contenders import KnownError
from hdpview_bench.rivals.histograms import Histograms, ProductRelease
from hdpview_bench.rivals.identity import MOST_CELLS, Identity, mean_share_of_cells
from hdpview_bench.workloads import WORKLOADS, CodeBoxes, draw

SIZES = (5, 3, 4, 2)


def schema_of(sizes: tuple[int, ...]) -> Schema:
    return Schema([Integer(name=f"a{i}", min=0, max=size - 1) for i, size in enumerate(sizes)])


def counts_of(dense: NDArray[np.int64]) -> SparseCounts:
    cells = np.argwhere(dense > 0)
    return SparseCounts(
        schema_of(dense.shape), np.ascontiguousarray(cells, dtype=np.uint16), dense[tuple(cells.T)]
    )


def shares_of(workload: str, sizes: tuple[int, ...]) -> Iterator[tuple[float, float]]:
    """Weight and share of cells of every question of a workload, each written out."""
    kind, number = workload.split("-")
    k, d = int(number[0]), len(sizes)
    for attributes in itertools.combinations(range(d), k):
        if kind == "range":
            ranges = [
                [(high - low) for low in range(sizes[a]) for high in range(low + 1, sizes[a] + 1)]
                for a in attributes
            ]
        elif kind == "random":
            ranges = [[abs(i - j) + 1 for i in range(sizes[a]) for j in range(sizes[a])] for a in attributes]
        else:
            ranges = [[1 if kind == "marginal" else code + 1 for code in range(sizes[a])] for a in attributes]
        weight = (
            1 / np.prod([len(of_one) for of_one in ranges]) if kind == "random" else 1.0
        )  # sets are drawn alike, or questions are
        for lengths in itertools.product(*ranges):
            yield (
                weight,
                float(np.prod([length / sizes[a] for length, a in zip(lengths, attributes, strict=True)])),
            )


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_mean_share_of_cells_is_that_of_all_questions_written_out(workload: str) -> None:
    """The closed forms equal the average over every question of the workload, and agree with how questions
    are drawn.
    """
    weights, shares = np.array(list(shares_of(workload, SIZES))).T
    expected = mean_share_of_cells(workload, SIZES)
    assert expected == pytest.approx(np.average(shares, weights=weights), rel=1e-12)
    boxes = draw(workload, SIZES, 40_000, np.random.default_rng(2))
    assert boxes is not None
    drawn = ((boxes.upper - boxes.lower) / np.array(SIZES)[boxes.attribute]).prod(axis=1)
    assert (
        abs(drawn.mean() - expected) < stats.norm.isf(5e-7) * drawn.std() / np.sqrt(len(drawn)) + 1e-12
    )  # false-alarm rate 1e-6


def test_a_workload_that_asks_too_much_is_refused_in_words() -> None:
    """Four attributes cannot be asked of three, and unknown workloads are named."""
    with pytest.raises(QueryError, match="asks about 4 attributes at once; this domain has 3"):
        mean_share_of_cells("random-4d", (2, 2, 2))
    with pytest.raises(QueryError, match="Did you mean 'range-1d'"):
        mean_share_of_cells("range-1", SIZES)


@pytest.mark.parametrize("workload", ["range-1d", "marginal-2", "prefix-3d", "random-4d"])
def test_identitys_error_is_the_one_it_says(workload: str) -> None:
    """Mean squared error over 500 releases agrees with the formula (t-test, false-alarm rate 1e-6), which
    would reject it if 30 % off.
    """
    dense, n = np.random.default_rng(4).integers(0, 9, (8, 5, 6, 3)), 500
    boxes = draw(workload, dense.shape, 1_000, np.random.default_rng(6))
    assert boxes is not None
    truth = release_of(Identity(), dense, Fraction(10**4), b"truth").answer(
        boxes
    )  # at this budget no cell has noise
    releases = (release_of(Identity(), dense, Fraction(1, 5), b"%d" % i) for i in range(n))
    squared = np.array([((release.answer(boxes) - truth) ** 2).mean() for release in releases])
    expected = Identity().expected_rmse(workload, schema_of(dense.shape), 0.2) ** 2
    margin = stats.t.isf(5e-7, n - 1) * squared.std(ddof=1) / np.sqrt(n)
    assert abs(squared.mean() - expected) < margin < 0.3 * expected
    assert isinstance(Identity(), KnownError)


def release_of(
    method: Identity | Histograms, dense: NDArray[np.int64], epsilon: Fraction, key: bytes
) -> Release:
    return release_with(method, counts_of(dense), epsilon, Randomness.from_test_key(key), LocalEngine(1))[0]


def test_identity_refuses_what_it_cannot_hold() -> None:
    """The limit is where it says, and the words name it."""
    assert Identity().why_infeasible(schema_of((1000, 1000, 20)), 1.0) is None
    assert MOST_CELLS == 1000 * 1000 * 20
    assert "2e+07 at most" in str(Identity().why_infeasible(schema_of((1000, 1000, 21)), 1.0))


def test_histograms_are_noisy_with_a_share_of_the_budget_each() -> None:
    """d histograms cost ε/d each. Without noise they are the marginals, and answers are products of their
    shares.
    """
    dense = np.random.default_rng(8).integers(0, 50, SIZES)
    release, charges = release_with(
        Histograms(), counts_of(dense), Fraction(4000), Randomness.from_test_key(b"h"), LocalEngine(1)
    )
    assert charges == (Charge("noise on histograms", Fraction(1000), 4),)
    assert isinstance(release, ProductRelease)
    assert release.total == pytest.approx(dense.sum(), rel=1e-12)
    for a, shares in enumerate(release.shares):
        assert shares * dense.sum() == pytest.approx(dense.sum(axis=tuple(b for b in range(4) if b != a)))
    box = CodeBoxes(np.array([[2, 0]]), np.array([[1, 0]]), np.array([[3, 2]]))
    by_hand = dense[:, :, 1:3].sum() * dense[:2].sum() / dense.sum()
    assert release.answer(box)[0] == pytest.approx(by_hand)


def test_histograms_with_noise_are_counts_of_one_table() -> None:
    """However large the noise, shares are non-negative and sum to 1; with nothing left of the total they are
    even.
    """
    dense = np.zeros(SIZES, dtype=np.int64)
    dense[0, 0, 0, 0] = 3
    totals = []
    for i in range(40):
        release = release_of(Histograms(), dense, Fraction(1, 10), b"%d" % i)
        assert isinstance(release, ProductRelease)
        assert all((shares >= 0).all() and shares.sum() == pytest.approx(1) for shares in release.shares)
        totals.append(release.total)
    assert min(totals) == 0 < max(totals)
