"""Kernels on sparse rows against the definitions on dense arrays."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hdpview.partition import deviations
from hdpview.partition import jitted as kernels

FAST = settings(max_examples=200, deadline=None)


@dataclass(frozen=True)
class Block:
    """A block inside a larger domain, dense (`x`, the block alone) and as the kernels take it."""

    x: NDArray[np.int64]
    lower: NDArray[np.int32]
    sizes: tuple[int, ...]
    code_type: type[np.generic]

    @property
    def upper(self) -> NDArray[np.int32]:
        return self.lower + np.array(self.x.shape, np.int32)

    @property
    def offsets(self) -> NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)

    def rows(self, seed: int = 0) -> tuple[NDArray[np.generic], NDArray[np.int64]]:
        cells = np.random.default_rng(seed).permutation(np.argwhere(self.x))
        return np.ascontiguousarray(cells + self.lower, dtype=self.code_type), self.x[tuple(cells.T)]

    def cut_deviations(self) -> NDArray[np.float64]:
        codes, counts = self.rows()
        work = deviations.new_work(sum(self.sizes), len(counts))
        total, n_cells = int(self.x.sum()), float(self.x.size)
        rows = codes, counts, 0, len(counts)
        n_cuts = deviations.cut_deviations(*rows, self.offsets, self.lower, self.upper, total, n_cells, work)
        return work.deviations[:n_cuts].copy()

    def absolute_deviation(self) -> float:
        counts = self.rows()[1]
        return float(
            kernels.absolute_deviation(counts, 0, len(counts), int(self.x.sum()), float(self.x.size))
        )


def dense_deviation(x: NDArray[np.int64]) -> float:
    return float(np.abs(x - x.mean()).sum())


def dense_cuts(x: NDArray[np.int64]) -> list[float]:
    cuts = [(a, v) for a, width in enumerate(x.shape) for v in range(1, width)]
    return [sum(dense_deviation(side) for side in np.split(x, [v], axis=a)) for a, v in cuts]


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    """Blocks from empty to dense, with means on both sides of 1 and of whole numbers."""
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=4)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    density, most = (
        draw(st.sampled_from([0.0, 0.02, 0.2, 0.7, 1.0])),
        draw(st.sampled_from([1, 2, 5, 1000, 10**9])),
    )
    x = (rng.random(shape) < density) * rng.integers(1, most + 1, shape)
    lower = np.array([draw(st.integers(0, 3)) for _ in shape], np.int32)
    sizes = tuple(int(low + width + draw(st.integers(0, 2))) for low, width in zip(lower, shape, strict=True))
    return Block(x.astype(np.int64), lower, sizes, draw(st.sampled_from([np.uint8, np.uint16])))


@FAST
@given(blocks())
def test_every_cut_is_scored_as_if_really_made(block):
    assert block.cut_deviations() == pytest.approx(dense_cuts(block.x), rel=1e-9, abs=1e-6)


@FAST
@given(
    st.integers(0, 2**32 - 1), st.integers(2, 90), st.sampled_from([1, 3, 900, 10**9, 2**40]),
    st.sampled_from([0.1, 0.9]),
)  # fmt: skip
def test_wide_attributes_are_scored_alike(seed, width, most, density):
    """Means rise and fall between 0 and 2⁴⁰."""
    rng = np.random.default_rng(seed)
    x = (rng.random((width, 12)) < density) * rng.integers(1, most + 1, (width, 12))
    x = x * (rng.random((width, 1)) < 0.5) + (rng.random((width, 12)) < density)
    block = Block(x.astype(np.int64), np.array([3, 0], np.int32), (width + 5, 12), np.uint8)
    expected = dense_cuts(block.x)
    assert block.cut_deviations() == pytest.approx(expected, rel=1e-9, abs=1e-9 * float(block.x.sum()) + 1e-6)


def test_sums_beyond_2_to_the_47_are_scored_alike():
    """Sum times width exceeds 2⁶³, which 64 bits would take for a negative number."""
    x = np.ones(2**16, np.int64)
    x[:128] = 2**40
    found = Block(x, np.zeros(1, np.int32), (2**16,), np.uint16).cut_deviations()
    for v in (1, 64, 128, 129, 30_000, 2**16 - 1):
        assert found[v - 1] == pytest.approx(
            dense_deviation(x[:v]) + dense_deviation(x[v:]), rel=1e-9, abs=1.0
        )


@given(st.integers(0, 1000), st.integers(0, 9), st.integers(0, 2**32 - 1), st.integers(0, 5))
@FAST
def test_splitting_rows_moves_them_and_keeps_all(n_rows, cut, seed, first):
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 10, (n_rows + 2 * first, 3)).astype(np.uint8)
    counts = rng.integers(1, 2**40, len(codes))
    last = first + n_rows
    before = list(zip(map(tuple, codes.tolist()), counts.tolist(), strict=True))
    is_left = codes[first:last, 1] < cut
    expected = int(is_left.sum()), int(counts[first:last][is_left].sum())
    assert kernels.left_of_cut(codes, counts, first, last, 1, cut) == expected
    assert kernels.split_rows(codes, counts, first, last, 1, cut, kernels.new_scratch()) == expected
    after = list(zip(map(tuple, codes.tolist()), counts.tolist(), strict=True))
    assert (codes[first : first + expected[0], 1] < cut).all()
    assert (codes[first + expected[0] : last, 1] >= cut).all()
    assert sorted(after[first:last]) == sorted(before[first:last])
    assert after[:first] + after[last:] == before[:first] + before[last:]


@FAST
@given(blocks())
def test_no_side_of_a_cut_deviates_more_than_the_block(block):
    """AE never grows when a block shrinks: the proof for random converge rests on it."""
    whole = block.absolute_deviation() * (1 + 1e-12) + 1e-9
    for a, width in enumerate(block.x.shape):
        for v in range(1, width):
            for side in np.split(block.x, [v], axis=a):
                assert Block(side, block.lower, block.sizes, block.code_type).absolute_deviation() <= whole


@FAST
@given(blocks(), st.integers(0, 2**32 - 1))
def test_one_record_moves_the_deviation_by_at_most_its_sensitivity(block, seed):
    """At most 2(1 − 1/|B|)."""
    more = with_one_more(block, seed)
    assert abs(more.absolute_deviation() - block.absolute_deviation()) <= 2 * (
        1 - 1 / block.x.size
    ) + rounding(block)


@FAST
@given(blocks(), st.integers(0, 2**32 - 1))
def test_one_record_moves_every_score_by_at_most_its_sensitivity(block, seed):
    """At most 2·Δ_AE = 4(1 − 1/|B|), which is what the mechanism is charged for."""
    moved = np.abs(with_one_more(block, seed).cut_deviations() - block.cut_deviations())
    assert (moved <= 4 * (1 - 1 / block.x.size) + rounding(block)).all()


@FAST
@given(st.integers(0, 2**32 - 1), st.integers(20, 57), st.booleans())
def test_huge_counts_do_not_raise_the_sensitivity_by_rounding(seed, power, also_far):
    """Counts from 2²⁰ to 2⁵⁷. Scores of cuts may round; decisions between them then avoid doubles."""
    rng = np.random.default_rng(seed)
    x = 2**power + rng.integers(0, 50, (3, 4))
    if also_far:
        x[rng.random(x.shape) < 0.3] //= int(rng.integers(2, 1000))
    block = Block(x.astype(np.int64), np.array([1, 0], np.int32), (5, 4), np.uint8)
    more = with_one_more(block, seed)
    least = 2 * (1 - 1 / x.size)
    moved = abs(more.absolute_deviation() - block.absolute_deviation())
    assert moved <= least + 1e-9 + 2.0**-50 * block.absolute_deviation()
    scale = float(block.x.sum())
    assert (np.abs(more.cut_deviations() - block.cut_deviations()) <= least + 0.2 + 2.0**-48 * scale).all()


def with_one_more(block: Block, seed: int) -> Block:
    x = block.x.copy()
    x.reshape(-1)[seed % x.size] += 1
    return Block(x, block.lower, block.sizes, block.code_type)


def rounding(block: Block) -> float:
    return 1e-9 + 1e-12 * float(block.x.sum())
