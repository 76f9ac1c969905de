"""The calibrated method draws as it charges: cuts, pairs of attributes, and noise on all that it releases.

Keys of choices are fixed, so these results are deterministic; each test would raise a false alarm with
probability 1e-6 under other keys.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import numba as nb
import numpy as np
import pytest
from numpy.typing import NDArray
from testers import (
    frequencies_are_rejected,
    laplace_scale_is_rejected,
    laplace_shape_is_rejected,
    mean_score_is_rejected,
)

import hdpview.methods.calibrated as calibrated
import hdpview.methods.calibrated.purse as purse
from cells import cell_masses, random_base
from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Integer, Schema
from hdpview.engine.local import LocalEngine
from hdpview.methods.calibrated import Calibrated, guide_of
from hdpview.methods.calibrated.forest import choose_tree
from hdpview.methods.protocol import BlockRelease, release_with
from hdpview.partition.deviations import new_work
from hdpview.partition.guide import candidate_cuts, cut_by_guide, new_guide_work
from hdpview.partition.parameters import GuidedParameters
from hdpview.privacy.randomness import Draws, Randomness, new_stream

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
N_CUTS, N_TREES = 300_000, 40_000
SIZES = (6, 5, 4)


@nb.njit
def chosen_cuts(keys, codes, counts, offsets, lower, upper, epsilon, guide):  # type: ignore[no-untyped-def]
    """How often each of the cuts considered is chosen, and which they are."""
    stream, room, n = new_stream(), new_guide_work(guide), len(counts)
    work = new_work(len(guide.shape), n)
    n_cuts = candidate_cuts(lower, upper, 1, 1, guide, room)
    attribute, at = room.cut_attribute[:n_cuts].copy(), room.cut_at[:n_cuts].copy()
    found = np.zeros(n_cuts, np.int64)
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
        for j in range(n_cuts):
            found[j] += attribute[j] == a and at[j] == v
    return found, attribute, at


def exponential(scores: Floats, rate: float) -> Floats:
    weights = np.exp(rate * (scores - scores.max()))
    found: Floats = weights / weights.sum()
    return found


def scores_of(dense: Ints, masses: Floats, lower: tuple[int, ...], cuts: list[tuple[int, int]]) -> Floats:
    """|S_L − S·share of the left side| by adding up the cells of a block; dense and masses are of the block
    alone.
    """
    found = []
    for a, v in cuts:
        left = np.split(np.arange(dense.shape[a]), [v - lower[a]])[0]
        found.append(abs(dense.take(left, a).sum() - dense.sum() * masses.take(left, a).sum() / masses.sum()))
    return np.array(found)


def test_cuts_follow_the_exponential_mechanism() -> None:
    """Frequencies of all cuts of a block inside the domain fit exp(ε·score/2); an ε 5 % off is rejected, and
    so is exp(ε·score).
    """
    rng, epsilon = np.random.default_rng(8), 0.25
    base, lower, upper = random_base(SIZES, rng), (1, 0, 1), (6, 5, 4)
    block = tuple(map(slice, lower, upper))
    dense = rng.poisson(0.7, SIZES).astype(np.int64)[block]
    cells = np.argwhere(dense)
    codes = np.ascontiguousarray(cells + lower, dtype=np.uint8)
    offsets = np.concatenate([[0], np.cumsum(SIZES)[:-1]]).astype(np.int64)
    keys = np.random.default_rng(2022).integers(0, 2**32, (N_CUTS, 8), dtype=np.uint32)
    bounds = np.array(lower, np.int32), np.array(upper, np.int32)
    observed, attribute, at = chosen_cuts(
        keys, codes, dense[tuple(cells.T)], offsets, *bounds, epsilon, guide_of(base, 0.0, 4)
    )
    assert observed.sum() == N_CUTS
    scores = scores_of(
        dense, cell_masses(base)[block], lower, list(zip(attribute.tolist(), at.tolist(), strict=True))
    )
    assert np.ptp(scores) > 5, "scores that hardly differ would tell nothing"
    assert not frequencies_are_rejected(observed, exponential(scores, epsilon / 2))
    assert not mean_score_is_rejected(observed, exponential(scores, epsilon / 2), scores)
    assert mean_score_is_rejected(observed, exponential(scores, epsilon / 2 * 1.05), scores)
    assert mean_score_is_rejected(observed, exponential(scores, epsilon / 2 / 1.05), scores)
    assert frequencies_are_rejected(observed, exponential(scores, epsilon))


def tree_probabilities(
    scores: dict[tuple[int, int], float], n: int, rate: float
) -> dict[frozenset[tuple[int, int]], float]:
    """The chance of each spanning tree, over all orders in which its pairs may be chosen."""
    found: dict[frozenset[tuple[int, int]], float] = {}

    def go_on(chosen: tuple[tuple[int, int], ...], parts: list[set[int]], chance: float) -> None:
        if len(parts) == 1:
            found[frozenset(chosen)] = found.get(frozenset(chosen), 0.0) + chance
            return
        open_pairs = [(a, b) for a, b in scores if not any({a, b} <= part for part in parts)]
        chances = exponential(np.array([scores[pair] for pair in open_pairs]), rate)
        for (a, b), of_pair in zip(open_pairs, chances.tolist(), strict=True):
            joined = [part for part in parts if a in part or b in part]
            go_on(
                (*chosen, (a, b)),
                [*(part for part in parts if part not in joined), joined[0] | joined[1]],
                chance * of_pair,
            )

    go_on((), [{a} for a in range(n)], 1.0)
    return found


def test_pairs_follow_the_exponential_mechanism_step_by_step() -> None:
    """All 16 trees of four attributes come with their exact probabilities; a rate 10 % off, or twice the
    rate, is rejected.
    """
    pairs, epsilon = list(itertools.combinations(range(4), 2)), Fraction(1, 5)
    scores = dict(zip(pairs, [3.0, 14.0, 9.5, 0.5, 6.0, 17.0], strict=True))
    right = tree_probabilities(scores, 4, 0.1)
    numbers = {tree: i for i, tree in enumerate(right)}
    assert len(numbers) == 16
    observed = np.zeros(16, np.int64)
    for i in range(N_TREES):
        draws = Draws(Randomness.from_test_key(b"%d" % i).root_key("pairs"))
        observed[numbers[frozenset(choose_tree(scores, 4, epsilon, draws))]] += 1
    weight = np.array([sum(scores[pair] for pair in tree) for tree in numbers])
    for rate, is_right in ((0.1, True), (0.11, False), (0.09, False), (0.2, False)):
        chances = tree_probabilities(scores, 4, rate)
        listed = np.array([chances[tree] for tree in numbers])
        assert mean_score_is_rejected(observed, listed, weight) != is_right, rate
    assert not frequencies_are_rejected(observed, np.array(list(right.values())))


def counts_of(dense: Ints) -> SparseCounts:
    schema = Schema([Integer(name=f"a{i}", min=0, max=size - 1) for i, size in enumerate(dense.shape)])
    cells = np.argwhere(dense > 0)
    return SparseCounts(schema, np.ascontiguousarray(cells, dtype=np.uint8), dense[tuple(cells.T)])


@pytest.mark.parametrize("is_test", [True, False], ids=["test key", "OpenDP"])
def test_noise_is_as_wide_as_was_charged(is_test: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Histograms, tables of pairs and leaves carry discrete Laplace noise of 1/ε of their charges; 10 % off
    is rejected.

    The exact values are seen where the method hands them to the noise, the noisy ones where it takes them
    back. Over OpenDP's own noise, which no key repeats, each test raises a false alarm once in a million
    runs.
    """
    seen: dict[str, list[Ints]] = {"histograms": [], "tables": [], "leaves": []}
    vector, leaves = purse.noisy_vector, calibrated.noisy_counts

    def watched_vector(exact: Ints, epsilon: Fraction, randomness: Randomness, purpose: str) -> Ints:
        noisy = vector(exact, epsilon, randomness, purpose)
        seen[purpose.split()[0]].append((noisy - exact).reshape(-1))
        return noisy

    def watched_leaves(
        exact: Ints, epsilon: Fraction, randomness: Randomness, keys: NDArray[np.uint32], progress: None
    ) -> Ints:
        noisy = leaves(exact, epsilon, randomness, keys, progress)
        seen["leaves"].append(noisy - exact)
        return noisy

    monkeypatch.setattr(purse, "noisy_vector", watched_vector)
    monkeypatch.setattr(calibrated, "noisy_counts", watched_leaves)
    rng = np.random.default_rng(5)
    codes = np.unique(np.minimum(rng.exponential(30, (12_000, 3)), 249).astype(np.uint8), axis=0)
    counts = SparseCounts(
        Schema([Integer(name=name, min=0, max=249) for name in "abc"]), codes, rng.integers(1, 5, len(codes))
    )
    for i in range(14):
        randomness = Randomness.from_test_key(b"%d" % i) if is_test else Randomness.fresh()
        release, charged = release_with(
            Calibrated(n_bins=25), counts, Fraction(1), randomness, LocalEngine(1)
        )
    charges = {charge.purpose: charge for charge in charged}
    assert isinstance(release, BlockRelease)
    assert release.noise_scale == float(1 / charges["noise on counts"].epsilon)
    for what, purpose, times in (
        ("histograms", "histograms of attributes", 3),
        ("tables", "tables of pairs", 2),
        ("leaves", "noise on counts", 1),
    ):
        sample, scale = np.concatenate(seen[what]), float(1 / charges[purpose].epsilon)
        assert charges[purpose].times == times
        assert not laplace_scale_is_rejected(sample, scale), what
        assert not laplace_shape_is_rejected(sample, scale), what
        assert laplace_scale_is_rejected(sample, scale * 1.1), what
        assert laplace_scale_is_rejected(sample, scale / 1.1), what


@pytest.mark.parametrize("n_levels", [1, 2, 5])
def test_no_path_has_more_cuts_than_were_charged(n_levels: int) -> None:
    """Where the base never says stop, every leaf lies just below the last level that was paid for, or is a
    single cell.
    """
    rng = np.random.default_rng(n_levels)
    guide = guide_of(random_base(SIZES, rng), 0.0, 4)
    counts = counts_of(rng.poisson(3, SIZES).astype(np.int64))
    parameters = GuidedParameters(Fraction(1), n_levels, guide)
    leaves = LocalEngine(1).grow(
        counts, parameters, Randomness.from_test_key(b"levels").root_key("partition")
    )
    n_cuts, is_cell = leaves.depth - 1, (leaves.upper - leaves.lower == 1).all(axis=1)
    assert n_cuts.max() == n_levels
    assert ((n_cuts == n_levels) | is_cell).all()
