"""Blocks tile the domain, every fault in a tiling is found, and consistent counts are the nearest."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from dense import counts_of
from hdpview.methods import Hdpview
from hdpview.partition.local import LocalEngine
from hdpview.partition.parameters import PartitionParameters
from hdpview.privacy.randomness import Randomness
from hdpview.view.blocks import Blocks, fault_in_tiling, project_to_simplex
from hdpview.view.rectangles import Rectangles

Tiling = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], tuple[int, ...]]


@st.composite
def tilings(draw: st.DrawFn) -> Tiling:
    sizes = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    x = rng.integers(0, draw(st.sampled_from([1, 3, 100, 1000])), sizes)
    parameters = PartitionParameters.choose(Hdpview(), Fraction(2), x.size)
    key = Randomness.from_test_key(draw(st.binary(min_size=1, max_size=4))).root_key("partition")
    leaves = LocalEngine(1).grow(counts_of(x), parameters, key)
    return leaves.lower, leaves.upper, leaves.depth, sizes


def covers(lower: NDArray[np.int32], upper: NDArray[np.int32], sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """How many blocks each cell lies in, by brute force."""
    n = np.zeros(sizes, np.int64)
    for low, high in zip(lower, upper, strict=True):
        n[tuple(slice(a, b) for a, b in zip(low, high, strict=True))] += 1
    return n


@settings(max_examples=150, deadline=None)
@given(tilings())
def test_grown_blocks_tile_the_domain(tiling):
    lower, upper, depth, sizes = tiling
    assert (covers(lower, upper, sizes) == 1).all()
    assert fault_in_tiling(lower, upper, depth, sizes) is None


@settings(max_examples=150, deadline=None)
@given(tilings(), st.data())
def test_every_single_fault_is_found(tiling, data):
    lower, upper, depth, sizes = tiling
    i, a = data.draw(st.integers(0, len(depth) - 1)), data.draw(st.integers(0, len(sizes) - 1))
    step = data.draw(st.sampled_from([-1, 1]))

    def shifted(array: NDArray[np.int32], *place: int) -> NDArray[np.int32]:
        changed = array.copy()
        changed[place] += step
        return changed

    assert fault_in_tiling(np.delete(lower, i, 0), np.delete(upper, i, 0), np.delete(depth, i), sizes)
    assert fault_in_tiling(*(np.insert(array, i, array[i], 0) for array in (lower, upper, depth)), sizes)
    assert fault_in_tiling(shifted(lower, i, a), upper, depth, sizes)
    assert fault_in_tiling(lower, shifted(upper, i, a), depth, sizes)
    assert fault_in_tiling(lower, upper, shifted(depth, i), sizes)
    assert fault_in_tiling(lower, upper, depth, tuple(size + (b == a) for b, size in enumerate(sizes)))
    if len(depth) > 1:
        left = int(np.flatnonzero(depth == depth.max())[0])
        order = np.arange(len(depth))
        order[[left, left + 1]] = order[[left + 1, left]]
        assert fault_in_tiling(lower[order], upper[order], depth, sizes)


@settings(max_examples=150, deadline=None)
@given(tilings(), st.data())
def test_whatever_is_accepted_tiles_the_domain(tiling, data):
    lower, upper, depth, sizes = (
        array.copy() if isinstance(array, np.ndarray) else array for array in tiling
    )
    order = data.draw(st.permutations(range(len(depth)))) if len(depth) <= 8 else range(len(depth))
    for array in data.draw(st.lists(st.sampled_from([lower, upper, depth]), max_size=3)):
        flat = array.reshape(-1)
        flat[data.draw(st.integers(0, flat.size - 1))] += data.draw(st.sampled_from([-1, 1]))
    lower, upper, depth = lower[list(order)], upper[list(order)], depth[list(order)]
    if fault_in_tiling(lower, upper, depth, sizes) is None:
        assert (covers(lower, upper, sizes) == 1).all()


def test_faults_are_told_apart():
    lower, upper, depth = (np.array(own, np.int32) for own in ([[0], [2]], [[2], [4]], [2, 2]))
    late = np.array([[3], [4]], np.int32)
    faults: list[tuple[Tiling, str | None]] = [
        ((lower, upper, depth, (4,)), None),
        ((lower[:0], upper[:0], depth[:0], (4,)), "there are no blocks"),
        ((lower, upper + 1, depth, (4,)), "a block is empty or reaches outside the domain"),
        ((lower - 1, upper, depth, (4,)), "a block is empty or reaches outside the domain"),
        ((upper, upper, depth, (4,)), "a block is empty or reaches outside the domain"),
        ((lower, upper, depth - 2, (4,)), "a depth is below 1"),
        ((lower, upper, depth + np.array([0, 1], np.int32), (4,)), "the depths do not form a tree"),
        ((lower, upper, depth - 1, (4,)), "the depths do not form a tree"),
        ((lower, late, depth, (4,)), "two halves of a block overlap or leave a gap"),
        ((lower[[0, 0]], upper[[0, 0]], depth, (4,)), "two halves of a block do not fit together"),
        ((lower, upper, depth, (5,)), "the blocks do not cover the domain"),
    ]
    for tiling, fault in faults:
        assert fault_in_tiling(*tiling) == fault


def nearest_by_brute_force(values: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """The least-squares solution with x ≥ 0 and Σx = total: the best over every set of coordinates that may
    be positive."""
    best, least = np.zeros_like(values), np.inf
    for size in range(1, len(values) + 1):
        for kept in combinations(range(len(values)), size):
            x = np.zeros_like(values)
            x[list(kept)] = values[list(kept)] - (values[list(kept)].sum() - total) / size
            distance = float(((x - values) ** 2).sum())
            if (x >= -1e-9).all() and distance < least:
                best, least = x, distance
    return best


@settings(max_examples=150, deadline=None)
@given(
    hnp.arrays(np.float64, st.integers(1, 7), elements=st.integers(-60, 60).map(float)),
    st.integers(1, 200).map(float),
)
def test_projection_is_the_nearest_point(values, total):
    projected = project_to_simplex(values, total)
    assert projected == pytest.approx(nearest_by_brute_force(values, total), abs=1e-8)


@settings(max_examples=150, deadline=None)
@given(hnp.arrays(np.int64, st.integers(1, 60), elements=st.integers(-(2**40), 2**40)))
def test_consistent_counts_keep_the_total(noisy):
    n = len(noisy)
    lower = np.arange(n, dtype=np.int32).reshape(n, 1)
    consistent = Blocks(lower, lower + 1, noisy.copy(), np.ones(n, np.int32), 1.0).weight
    assert (consistent >= 0).all()
    assert consistent.sum() == pytest.approx(max(0, int(noisy.sum())), rel=1e-9, abs=1e-3)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_painting_is_adding_rectangle_by_rectangle(seed, shape):
    rng, n = np.random.default_rng(seed), 12
    lower = np.stack([rng.integers(0, size, n) for size in shape])
    upper = np.stack([rng.integers(low + 1, size + 1) for low, size in zip(lower, shape, strict=True)])
    values, plain, most = rng.random(n), np.zeros(shape), np.zeros(shape)
    for i in range(n):
        cells = tuple(slice(*ends) for ends in zip(lower[:, i], upper[:, i], strict=True))
        plain[cells] += values[i]
        most[cells] = np.maximum(most[cells], values[i])
    grid = Rectangles(lower, upper, tuple(shape))
    assert grid.sums(values[None])[0] == pytest.approx(plain.reshape(-1), abs=1e-12)
    assert (grid.maxima(values) == most.reshape(-1)).all()
