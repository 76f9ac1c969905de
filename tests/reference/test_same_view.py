"""Fed the same random numbers, the fast engine and the naive oracle build the same view."""

from collections import Counter
from fractions import Fraction

import naive
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dense import counts_of
from hdpview.counts.sparse import SparseCounts
from hdpview.methods import Hdpview
from hdpview.partition import local
from hdpview.partition.grow import ExactBlocks
from hdpview.partition.local import LocalEngine
from hdpview.partition.parameters import PartitionParameters
from hdpview.privacy.budget import exact_epsilon
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.randomness import Randomness

BASE_SEED = 20220915
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


def sparse(tensor: NDArray[np.int64], seed: int = 0) -> SparseCounts:
    counts = counts_of(tensor)
    order = np.random.default_rng(seed).permutation(len(counts.exact_counts))
    return SparseCounts(counts.schema, counts.exact_codes[order], counts.exact_counts[order])


def random_tensor(shape: tuple[int, ...], kind: str, seed: int) -> NDArray[np.int64]:
    """A table of one kind: a few occupied cells, every cell occupied, one heavy corner, or nothing."""
    rng = np.random.default_rng(seed)
    x = np.zeros(shape, np.int64)
    if kind == "sparse":
        n = int(rng.integers(1, max(2, x.size // 6)))
        np.add.at(x.reshape(-1), rng.integers(0, x.size, n), rng.integers(1, 4, n))
    elif kind == "dense":
        x += rng.poisson(float(rng.choice([0.5, 1.0, 3.0, 40.0])) * rng.random(shape) * 2)
    elif kind == "skewed":
        x += rng.poisson(0.3, shape)
        x[tuple(slice(0, (size + 1) // 2) for size in shape)] += rng.integers(0, 200)
        x.reshape(-1)[rng.integers(0, x.size, 3)] += rng.integers(1, 3000, 3)
    return x


shapes = (
    st.lists(st.integers(1, 8), min_size=1, max_size=4)
    .map(tuple)
    .filter(lambda shape: np.prod(shape) <= 2048)
)
kinds = st.sampled_from(["sparse", "dense", "skewed", "empty"])
epsilons = st.sampled_from(["0.1", "0.37", "1", "1.4", "2"])
factors = st.sampled_from([0.1, 0.4, 1.2, 3.0])


def assert_same(fast: ExactBlocks, oracle: naive.Partition) -> None:
    leaves = oracle.leaves
    assert fast.lower.tolist() == [list(leaf.lower) for leaf in leaves]
    assert fast.upper.tolist() == [list(leaf.upper) for leaf in leaves]
    assert fast.depth.tolist() == [leaf.depth for leaf in leaves]
    assert fast.exact_sum.tolist() == [leaf.total for leaf in leaves]
    assert fast.keys.tolist() == [leaf.key.tolist() for leaf in leaves]


@settings(max_examples=250, deadline=None, suppress_health_check=SLOW)
@given(
    shapes, kinds, st.integers(0, 2**32 - 1), epsilons, factors, st.binary(min_size=1, max_size=8),
    st.sampled_from([(1, 20_000), (2, 20_000), (1, 0), (2, 2), (3, 20)]),
)  # fmt: skip
def test_fast_and_naive_grow_the_same_leaves(
    monkeypatch, shape, kind, seed, epsilon, factor, test_key, threading
):
    threads, rows_per_task = threading
    monkeypatch.setattr(local, "_ROWS_PER_TASK", rows_per_task)
    tensor = random_tensor(shape, kind, seed)
    key = Randomness.from_test_key(test_key).root_key("partition")
    parameters = PartitionParameters.choose(Hdpview(cut_levels_factor=factor), Fraction(epsilon), tensor.size)
    oracle = naive.partition(tensor, naive.numbers(float(epsilon), tensor.size, beta=factor), key)
    assert_same(LocalEngine(threads).grow(sparse(tensor, seed), parameters, key), oracle)


@settings(max_examples=60, deadline=None, suppress_health_check=SLOW)
@given(shapes, kinds, st.integers(0, 2**32 - 1), epsilons, st.binary(min_size=1, max_size=8))
def test_fast_and_naive_release_the_same_counts(shape, kind, seed, epsilon, test_key):
    tensor = random_tensor(shape, kind, seed)
    randomness = Randomness.from_test_key(test_key)
    mechanism = Mechanism(exact_epsilon(epsilon), randomness)
    release = Hdpview().release(sparse(tensor, seed), mechanism, LocalEngine(1))
    n = naive.numbers(float(epsilon), tensor.size)
    leaves = naive.partition(tensor, n, randomness.root_key("partition")).leaves
    noise_key = randomness.root_key("noise on counts of blocks")
    assert release.components.lower.tolist() == [list(leaf.lower) for leaf in leaves]
    assert release.components.upper.tolist() == [list(leaf.upper) for leaf in leaves]
    assert release.components.depth.tolist() == [leaf.depth for leaf in leaves]
    assert release.components.noisy_counts.tolist() == [
        leaf.total + naive.keyed_noise(noise_key, i, n.epsilon_counts) for i, leaf in enumerate(leaves)
    ]
    assert mechanism.remaining == 0


def test_the_same_leaves_by_every_way_of_cutting():
    ways: Counter[str] = Counter()
    for i in range(48):
        shape, factor = ((8, 8, 8, 8), 3.0) if i % 2 else ((7, 5, 6), 0.4)
        tensor = random_tensor(shape, ["sparse", "dense", "skewed"][i % 3], BASE_SEED + i)
        if i % 2:
            tensor = tensor * (np.random.default_rng(i).random(shape) < 0.05)
        key = Randomness.from_test_key(bytes([i])).root_key("partition")
        oracle = naive.partition(tensor, naive.numbers(2.0, tensor.size, beta=factor), key)
        parameters = PartitionParameters.choose(Hdpview(cut_levels_factor=factor), Fraction(2), tensor.size)
        assert_same(LocalEngine(1).grow(sparse(tensor, i), parameters, key), oracle)
        ways += oracle.ways
    assert min(ways[way] for way in ("rejection", "inversion", "blind")) >= 200, ways


def test_the_oracle_itself_is_a_distribution():
    x = np.array([4, 0, 0])
    # The first cut leaves two uniform sides, the second does not.
    assert (naive.score(x, 0, 1), naive.score(x, 0, 2)) == (0.0, -4.0)
    r = 0.5 / (8 * (1 - 1 / 3))
    expected = np.array([1.0, np.exp(-4 * r)])
    assert naive.cut_probabilities(x, 0.5) == pytest.approx(expected / expected.sum())
    assert naive.blind_probabilities((3, 1, 2)).tolist() == [0.25, 0.25, 0.5]
