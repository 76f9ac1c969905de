"""DAWA: its partition against all tilings, its means, its noise."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Integer, Schema
from hdpview.methods.protocol import release_with
from hdpview.partition.local import LocalEngine
from hdpview.privacy.randomness import Randomness
from hdpview_bench.rivals.dawa import MOST_CELLS, Dawa, least_cost_partition
from hdpview_bench.workloads import WORKLOADS, draw

KEY = Randomness.from_test_key(b"dawa").root_key("prices")


def deviation(part: list[int]) -> float:
    mean = sum(part) / len(part)
    return sum(abs(x - mean) for x in part)


@cache
def tilings(n: int) -> list[tuple[int, ...]]:
    """All ways to write n as an ordered sum of powers of two up to 16."""
    if n == 0:
        return [()]
    return [(*rest, length) for length in (1, 2, 4, 8, 16) if length <= n for rest in tilings(n - length)]


def least_cost_of_all_tilings(row: list[int], price: float) -> float:
    """The cheapest of all tilings by intervals with lengths of powers of two, each written out."""
    prices = {
        (at, at + length): deviation(row[at : at + length]) + price
        for length in (1, 2, 4, 8, 16)
        for at in range(len(row))
    }
    costs = []
    for lengths in tilings(len(row)):
        ends = list(itertools.accumulate(lengths))
        costs.append(sum(prices[end - length, end] for end, length in zip(ends, lengths, strict=True)))
    return min(costs)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([0, 0, 0, 1, 2, 7, 30]), min_size=1, max_size=16),
    st.sampled_from([0.3, 1.7, 9.0]),
)
def test_the_partition_is_the_cheapest_of_all(row: list[int], price: float) -> None:
    """Without noise the tiling costs as much as the cheapest of all, its buckets tile the row, and their
    lengths are powers of two.
    """
    exact_row = np.array(row, dtype=np.int64)
    starts = least_cost_partition(exact_row, price, 0.0, KEY)
    lengths = np.diff(starts, append=len(row))
    assert starts[0] == 0
    assert all(length > 0 and length & (length - 1) == 0 for length in lengths.tolist())
    buckets = [part.tolist() for part in np.split(exact_row, starts[1:])]
    cost = sum(deviation(bucket) + price for bucket in buckets)
    assert cost == pytest.approx(least_cost_of_all_tilings(row, price))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=64), st.integers(0, 63))
def test_a_record_changes_a_price_by_less_than_two(row: list[int], at: int) -> None:
    """Σ|x − mean| over l cells changes by at most 2(1 − 1/l) when one record comes or goes."""
    other = list(row)
    other[at % len(row)] += 1
    assert abs(deviation(row) - deviation(other)) <= 2 * (1 - 1 / len(row)) + 1e-9


def chance_of_a_bucket_of_its_own(row: list[int], n_runs: int) -> float:
    """How often cell 3 of the row becomes a bucket, with ε₁ = ε₂ = 1."""
    exact_row, found = np.array(row, dtype=np.int64), 0
    for i in range(n_runs):
        starts = set(
            least_cost_partition(
                exact_row, 1.0, 1.0, Randomness.from_test_key(b"%d" % i).root_key("prices")
            ).tolist()
        )
        found += {3, 4} <= starts
    return found / n_runs


def chance_with_lifted_prices(row: list[int], n_runs: int, rng: np.random.Generator) -> float:
    """The same with half the noise, none on single cells, and noisy deviations below 0 lifted to 0; all runs
    at once.
    """
    n = len(row)
    least, is_alone = [np.zeros(n_runs)], [np.zeros(n_runs, dtype=bool)]
    for end in range(1, n + 1):
        best, alone = least[end - 1] + 1.0, np.full(n_runs, end == 4) | is_alone[end - 1]
        for length in (2, 4, 8):
            if length <= end:
                noise = rng.laplace(0, 2 - 1 / length - 1 / n, n_runs)
                cost = least[end - length] + np.maximum(0, deviation(row[end - length : end]) + noise) + 1.0
                better = cost <= best
                best, alone = np.where(better, cost, best), np.where(better, is_alone[end - length], alone)
        least.append(best)
        is_alone.append(alone)
    return float(is_alone[n].mean())


def test_the_partition_tells_no_more_than_it_paid_for() -> None:
    """One record in a row of eight: the odds that its cell becomes a bucket stay within e^ε₁; with lifted
    prices they grow some 30-fold.

    6,000 runs each; with odds of 0.16 and 0.24 the bound e is 20 standard errors away, the ratio 1 is 10
    away. With lifted prices 100,000 runs; odds of 0.0006 have a relative standard error of 13 %, so 10 is 5
    standard errors away from 30.
    """
    empty, occupied = [0] * 8, [0, 0, 0, 1, 0, 0, 0, 0]
    assert (
        1
        < chance_of_a_bucket_of_its_own(occupied, 6_000) / chance_of_a_bucket_of_its_own(empty, 6_000)
        < math.e
    )
    rng = np.random.default_rng(4)
    assert (
        chance_with_lifted_prices(occupied, 100_000, rng) / chance_with_lifted_prices(empty, 100_000, rng)
        > 10
    )


def counts_of(sizes: tuple[int, ...], rng: np.random.Generator) -> tuple[SparseCounts, NDArray[np.int64]]:
    table = rng.poisson(rng.gamma(0.3, 10, sizes)).astype(np.int64)
    occupied = np.argwhere(table > 0)
    schema = Schema([Integer(name=f"a{i}", min=0, max=size - 1) for i, size in enumerate(sizes)])
    return SparseCounts(schema, occupied.astype(np.uint8), table[tuple(occupied.T)]), table


def test_means_are_real_numbers_spread_over_whole_buckets() -> None:
    """With a huge budget the release is the table itself; a bucket's cells share its noisy count as
    fractions, not as whole numbers.
    """
    counts, table = counts_of((4, 5, 3), np.random.default_rng(1))
    near, _ = release_with(
        Dawa(), counts, Fraction(100_000), Randomness.from_test_key(b"near"), LocalEngine(1)
    )
    np.testing.assert_allclose(near.marginal([0, 1, 2]), table, atol=0.01)
    coarse, _ = release_with(
        Dawa(), counts, Fraction(1, 2), Randomness.from_test_key(b"coarse"), LocalEngine(1)
    )
    cells = coarse.marginal([0, 1, 2])
    assert cells.sum() == pytest.approx(round(cells.sum()))
    assert (cells != np.round(cells)).any()


def test_boxes_and_marginals_agree() -> None:
    """A box's answer is the sum of its cells, for every workload and any order of attributes."""
    counts, _ = counts_of((4, 5, 3, 2), np.random.default_rng(2))
    release, _ = release_with(Dawa(), counts, Fraction(1), Randomness.from_test_key(b"boxes"), LocalEngine(1))
    for workload in WORKLOADS:
        boxes = draw(workload, counts.schema.sizes, 30, np.random.default_rng(3))
        assert boxes is not None
        for answer, attribute, lower, upper in zip(
            release.answer(boxes), boxes.attribute, boxes.lower, boxes.upper, strict=True
        ):
            cells = release.marginal(attribute.tolist())
            inside = tuple(slice(low, high) for low, high in zip(lower, upper, strict=True))
            assert answer == pytest.approx(cells[inside].sum(), abs=1e-6)


def test_a_domain_too_large_is_refused_in_words() -> None:
    """More cells than fit are refused before anything is spent, with the limit and what else to use."""
    schema = Schema([Integer(name=f"a{i}", min=0, max=99) for i in range(4)])
    reason = Dawa().why_infeasible(schema, 1.0)
    assert reason is not None
    assert f"{MOST_CELLS:,}" in reason
    assert "hdpview" in reason
