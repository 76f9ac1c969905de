"""Blocks tile the domain, the check of a tiling finds every fault, and consistent counts are the nearest
possible ones.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Integer, Schema
from hdpview.methods import Hdpview
from hdpview.partition.local import LocalEngine
from hdpview.partition.parameters import PartitionParameters
from hdpview.privacy.randomness import Randomness
from hdpview.view.blocks import Blocks, fault_in_tiling, project_to_simplex

Tiling = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], tuple[int, ...]]


@st.composite
def tilings(draw: st.DrawFn) -> Tiling:
    """Leaves of partitions that the engine grew on random tables."""
    sizes = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    x = rng.integers(0, draw(st.sampled_from([1, 3, 100, 1000])), sizes)
    cells = np.argwhere(x)
    schema = Schema([Integer(name=f"a{i}", min=0, max=size - 1) for i, size in enumerate(sizes)])
    counts = SparseCounts(schema, np.ascontiguousarray(cells, dtype=np.uint8), x[tuple(cells.T)])
    parameters = PartitionParameters.choose(Hdpview(), Fraction(2), schema.n_cells)
    key = Randomness.from_test_key(draw(st.binary(min_size=1, max_size=4))).root_key("partition")
    leaves = LocalEngine(1).grow(counts, parameters, key)
    return leaves.lower, leaves.upper, leaves.depth, sizes


def covers(lower: NDArray[np.int32], upper: NDArray[np.int32], sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """How many blocks each cell lies in, by brute force."""
    n = np.zeros(sizes, np.int64)
    for low, high in zip(lower, upper, strict=True):
        n[tuple(slice(a, b) for a, b in zip(low, high, strict=True))] += 1
    return n


@settings(max_examples=150, deadline=None)
@given(tilings())
def test_grown_blocks_tile_the_domain(tiling: Tiling) -> None:
    """Every cell lies in exactly one grown block, and the check of a tiling accepts them."""
    lower, upper, depth, sizes = tiling
    assert (covers(lower, upper, sizes) == 1).all()
    assert fault_in_tiling(lower, upper, depth, sizes) is None


@settings(max_examples=150, deadline=None)
@given(tilings(), st.data())
def test_every_single_fault_is_found(tiling: Tiling, data: st.DataObject) -> None:
    """A block dropped or doubled, a bound or a depth shifted by one, halves swapped, a larger domain: each is
    refused.
    """
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
def test_whatever_is_accepted_tiles_the_domain(tiling: Tiling, data: st.DataObject) -> None:
    """After any reordering and any few changes of bounds and depths, what the check accepts still tiles the
    domain.
    """
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


def test_faults_are_told_apart() -> None:
    """Each kind of fault is named in its own words."""
    lower, upper, depth = (
        np.array([[0], [2]], np.int32),
        np.array([[2], [4]], np.int32),
        np.array([2, 2], np.int32),
    )
    assert fault_in_tiling(lower, upper, depth, (4,)) is None
    assert fault_in_tiling(lower[:0], upper[:0], depth[:0], (4,)) == "there are no blocks"
    assert fault_in_tiling(lower, upper + 1, depth, (4,)) == "a block is empty or reaches outside the domain"
    assert fault_in_tiling(lower - 1, upper, depth, (4,)) == "a block is empty or reaches outside the domain"
    assert fault_in_tiling(upper, upper, depth, (4,)) == "a block is empty or reaches outside the domain"
    assert fault_in_tiling(lower, upper, depth - 2, (4,)) == "a depth is below 1"
    assert fault_in_tiling(lower, upper, np.array([2, 3], np.int32), (4,)) == "the depths do not form a tree"
    assert fault_in_tiling(lower, upper, depth - 1, (4,)) == "the depths do not form a tree"
    assert (
        fault_in_tiling(lower, np.array([[3], [4]], np.int32), depth, (4,))
        == "two halves of a block overlap or leave a gap"
    )
    assert (
        fault_in_tiling(lower[[0, 0]], upper[[0, 0]], depth, (4,))
        == "two halves of a block do not fit together"
    )
    assert fault_in_tiling(lower, upper, depth, (5,)) == "the blocks do not cover the domain"


def nearest_by_brute_force(values: NDArray[np.float64], total: float) -> NDArray[np.float64]:
    """The least-squares solution with x ≥ 0 and Σx = total: the best over every set of coordinates that may
    be positive.
    """
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
def test_projection_is_the_nearest_point(values: NDArray[np.float64], total: float) -> None:
    """The projection is the non-negative vector of that total nearest to the values, as brute force finds
    it.
    """
    projected = project_to_simplex(values, total)
    assert projected == pytest.approx(nearest_by_brute_force(values, total), abs=1e-8)


@settings(max_examples=150, deadline=None)
@given(hnp.arrays(np.int64, st.integers(1, 60), elements=st.integers(-(2**40), 2**40)))
def test_consistent_counts_keep_the_total(noisy: NDArray[np.int64]) -> None:
    """Consistent counts are never negative and have the noisy total, or are all zero where that is
    negative.
    """
    n = len(noisy)
    lower = np.arange(n, dtype=np.int32).reshape(n, 1)
    consistent = Blocks(lower, lower + 1, noisy.copy(), np.ones(n, np.int32), 1.0).weight
    assert (consistent >= 0).all()
    assert consistent.sum() == pytest.approx(max(0, int(noisy.sum())), rel=1e-9, abs=1e-3)


def test_counts_that_are_already_consistent_stay() -> None:
    """Non-negative counts are their own nearest consistent counts."""
    noisy = np.array([3, 0, 7, 1], np.int64)
    lower = np.arange(4, dtype=np.int32).reshape(4, 1)
    assert Blocks(lower, lower + 1, noisy, np.ones(4, np.int32), 1.0).weight.tolist() == [3, 0, 7, 1]
