"""Cuts guided by a base, against enumeration of all cells."""

from __future__ import annotations

import itertools

import numba as nb
import numpy as np
import pytest
from dense import FEW, Floats, Ints, all_but, counts_of, domains, inside, seeds
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cells import cell_masses, random_base
from hdpview.methods.calibrated import guide_of
from hdpview.partition.deviations import new_work
from hdpview.partition.guide import (
    Guide,
    candidate_cuts,
    cut_by_guide,
    new_guide_work,
    share_of_block,
    spread_over_bins,
)
from hdpview.privacy.randomness import new_stream


def random_block(
    sizes: tuple[int, ...], rng: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    lower = np.array([rng.integers(size) for size in sizes], np.int32)
    return lower, (lower + 1 + rng.integers(0, np.array(sizes) - lower)).astype(np.int32)


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
        a, v = cut_by_guide(
            codes,
            counts,
            0,
            n,
            offsets,
            lower,
            upper,
            1,
            counts.sum(),
            epsilon,
            1,
            guide,
            room,
            keys[i],
            stream,
            work,
        )
        found[i, 0], found[i, 1] = a, v
    return found


def cuts_of(lower: NDArray[np.int32], upper: NDArray[np.int32], guide: Guide) -> list[tuple[int, int]]:
    attribute, at = candidates(lower, upper, 1, 1, guide)
    return list(zip(attribute.tolist(), at.tolist(), strict=True))


def naive_cuts(
    masses: Floats, lower: NDArray[np.int32], upper: NDArray[np.int32], n_quantiles: int
) -> list[tuple[int, set[int]]]:
    """For each attribute and quantile, the cut points whose left share of the block is nearest to it; two
    where they are as near.
    """
    found = []
    block = masses[inside(lower, upper)] / masses[inside(lower, upper)].sum()
    for a in range(block.ndim):
        left = np.cumsum(block.sum(axis=all_but(a, block.ndim)))[:-1]
        for quantile in range(1, n_quantiles if len(left) else 1):
            distance = np.abs(left - quantile / n_quantiles)
            found.append(
                (a, {int(lower[a]) + 1 + int(v) for v in np.flatnonzero(distance <= distance.min() + 1e-9)})
            )
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
    """A block's share of the base and how it spreads over every attribute's bins are what adding up all cells
    gives.
    """
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
def test_cuts_considered_are_those_nearest_to_quantiles(
    sizes: tuple[int, ...], seed: int, n_quantiles: int
) -> None:
    """Every quantile's nearest cut is there, no other is, none twice; both sides of each have a code,
    whatever the base.
    """
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
    """A block is cut just where it is no deeper than the levels paid for, holds the least share or more, and
    has a cut.
    """
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
    """With a budget that leaves nothing to chance, the cut has the largest |S_L − S·share| of all that are
    considered.
    """
    rng = np.random.default_rng(seed)
    base, dense = random_base(sizes, rng), rng.poisson(3, sizes).astype(np.int64)
    whole, guide, counts = np.array(sizes, np.int32), guide_of(base, 0.0, 4), counts_of(dense)
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    keys = rng.integers(0, 2**32, (3, 8), dtype=np.uint32)
    zeros = np.zeros_like(whole)
    cuts = cuts_of(zeros, whole, guide)
    scores = scores_of(dense, cell_masses(base), cuts)
    for a, v in cuts_of_keys(
        keys, counts.exact_codes, counts.exact_counts, offsets, zeros, whole, 1e9, guide
    ).tolist():
        assert scores[cuts.index((a, v))] == pytest.approx(scores.max(), abs=1e-6)


@FEW
@given(domains.filter(lambda sizes: max(sizes) > 1), seeds)
def test_one_record_moves_no_score_by_more_than_one(sizes: tuple[int, ...], seed: int) -> None:
    """A record more in any cell changes every cut's score by 1 at most; the cuts themselves do not depend on
    records.
    """
    rng = np.random.default_rng(seed)
    base, dense = random_base(sizes, rng), rng.poisson(1, sizes).astype(np.int64)
    masses = cell_masses(base)
    cuts = cuts_of(np.zeros(len(sizes), np.int32), np.array(sizes, np.int32), guide_of(base, 0.0, 5))
    before = scores_of(dense, masses, cuts)
    for cell in itertools.islice(np.ndindex(*sizes), 200):
        more = dense.copy()
        more[cell] += 1
        assert np.abs(scores_of(more, masses, cuts) - before).max() <= 1 + 1e-9
