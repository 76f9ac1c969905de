"""DAWA: its partition against all tilings, its means, its noise."""

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dense import released
from hdpview.privacy.randomness import Randomness
from hdpview_bench.rivals.dawa import Dawa, least_cost_partition

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
def test_the_partition_is_the_cheapest_of_all(row, price):
    exact_row = np.array(row, dtype=np.int64)
    starts = least_cost_partition(exact_row, price, 0.0, KEY)
    lengths = np.diff(starts, append=len(row))
    assert starts[0] == 0
    assert all(length > 0 and length & (length - 1) == 0 for length in lengths.tolist())
    buckets = [part.tolist() for part in np.split(exact_row, starts[1:])]
    cost = sum(deviation(bucket) + price for bucket in buckets)
    assert cost == pytest.approx(least_cost_of_all_tilings(row, price))


def chance_of_a_bucket_of_its_own(row: list[int], n_runs: int) -> float:
    """How often cell 3 of the row becomes a bucket, with ε₁ = ε₂ = 1."""
    exact_row, n_alone = np.array(row, dtype=np.int64), 0
    for i in range(n_runs):
        starts = set(
            least_cost_partition(
                exact_row, 1.0, 1.0, Randomness.from_test_key(b"%d" % i).root_key("prices")
            ).tolist()
        )
        n_alone += {3, 4} <= starts
    return n_alone / n_runs


def test_the_partition_tells_no_more_than_it_paid_for():
    """Odds of a bucket stay within e^ε₁."""
    empty, occupied = [0] * 8, [0, 0, 0, 1, 0, 0, 0, 0]
    chances = [chance_of_a_bucket_of_its_own(row, 6_000) for row in (occupied, empty)]
    assert 1 < chances[0] / chances[1] < math.e


def test_means_are_real_numbers_spread_over_whole_buckets():
    rng, sizes = np.random.default_rng(1), (4, 5, 3)
    table = rng.poisson(rng.gamma(0.3, 10, sizes))
    near, coarse = (
        released(Dawa(), table, epsilon, b"means")[0].marginal([0, 1, 2])
        for epsilon in (100_000, Fraction(1, 2))
    )
    np.testing.assert_allclose(near, table, atol=0.01)
    assert coarse.sum() == pytest.approx(round(coarse.sum()))
    assert (coarse != np.round(coarse)).any()
