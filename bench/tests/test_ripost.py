"""RIPOST as defined here: shares of budgets, cuts, and whole trees against a naive implementation."""

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from numpy.random import Generator
from numpy.typing import NDArray
from testers import absolute_error, cut_scores, laplace_scale_is_rejected, samples_differ

from dense import counts_of, released
from hdpview.methods.protocol import ViewRelease
from hdpview.privacy.mechanism import Charge
from hdpview.view.blocks import fault_in_tiling
from hdpview_bench.rivals.ripost import Ripost, choose_cut, level_share

N_TREES = 1_500


def build(dense: NDArray[np.int64], epsilon: Fraction, key: bytes) -> ViewRelease:
    release, charges = released(Ripost(), dense, epsilon, key)
    shares = {"decide when to stop": "0.27", "choose cuts": "0.03", "noise on counts": "0.7"}
    assert charges == tuple(Charge(name, Fraction(share) * epsilon) for name, share in shares.items())
    return release


def naive_leaves(dense: NDArray[np.int64], epsilon: float, rng: Generator) -> int:
    """The number of leaves of one tree: blocks are really cut, deviations summed over all cells, noise drawn
    as noise."""
    waiting, n_leaves = [(dense, 0, 1)], 0
    while waiting:
        x, phase, level = waiting.pop()
        if (
            phase == 0
            and x.size > 1
            and x.sum() + rng.laplace(0, 1 / (0.27 * 0.4 * epsilon * share(level))) <= 1 / (0.7 * epsilon)
        ):
            phase, level = 1, 1
        budget = (0.4, 0.6)[phase] * epsilon * share(level)
        if x.size == 1 or (
            phase == 1 and absolute_error(x) + rng.laplace(0, 2 / (0.27 * budget)) <= 1 / (0.7 * epsilon)
        ):
            n_leaves += 1
            continue
        weights = np.exp(0.03 * budget / (4 * (1 - 1 / x.size)) * cut_scores(x))
        a, v = cuts_of(x)[rng.choice(len(weights), p=weights / weights.sum())]
        waiting += [(half, phase, level + 1) for half in np.split(x, [v], axis=a)]
    return n_leaves


def share(level: int) -> float:
    return 4 / ((level + 3) * (level + 4))


def cuts_of(x: NDArray[np.int64]) -> list[tuple[int, int]]:
    return [(a, v) for a, width in enumerate(x.shape) for v in range(1, width)]


def test_shares_of_all_levels_sum_to_one():
    """The first n shares sum to 1 − 4/(n + 4): the whole series to 1, and no depth to more."""
    for n in (1, 2, 10, 1_000):
        assert sum(level_share(level) for level in range(1, n + 1)) == pytest.approx(
            1 - 4 / (n + 4), rel=1e-12
        )
    assert level_share(1) == share(1) == 0.2


@pytest.mark.parametrize("kind", ["sparse", "dense", "mixed", "empty"])
def test_cuts_are_drawn_by_the_exponential_mechanism(kind):
    """Over an even grid of 20,000 draws, to within one draw on either side."""
    rng, n = np.random.default_rng(7), 20_000
    highest = {
        "sparse": (0, 0, 0, 0, 0, 0, 1), "dense": (1, 5, 9, 30), "mixed": (0, 0, 0, 1, 40), "empty": (0,),
    }[kind]  # fmt: skip
    x = rng.choice(highest, (5, 1, 4, 3))
    counts, rate = counts_of(x), 0.05
    rows, bounds = np.arange(len(counts.exact_counts)), (np.zeros(4, np.int32), np.array(x.shape, np.int32))
    drawn: Counter[tuple[int, int]] = Counter()
    for i in range(n):
        uniform, scratch = (i + 0.5) / n, np.empty(sum(x.shape))
        cut = choose_cut(
            counts.exact_codes, counts.exact_counts, rows, *bounds, x.sum(), float(x.size), rate, uniform,
            scratch,
        )  # fmt: skip
        drawn[int(cut[0]), int(cut[1])] += 1
    weights = np.exp(rate * cut_scores(x))
    expected = n * weights / weights.sum()
    assert np.array([drawn[cut] for cut in cuts_of(x)]) == pytest.approx(expected, abs=1.01)


def test_trees_have_as_many_leaves_as_naive_ones():
    """1,500 trees each (chi-square at 1e-6); half the budget is rejected."""
    dense = np.array([[60, 0, 1], [0, 0, 0], [2, 0, 300]])
    ours = [len(build(dense, Fraction(1), b"%d" % i).components) for i in range(N_TREES)]
    rng = np.random.default_rng(3)
    right, wrong = ([naive_leaves(dense, epsilon, rng) for _ in range(N_TREES)] for epsilon in (1.0, 0.5))
    assert not samples_differ(ours, right)
    assert samples_differ(ours, wrong)


@pytest.mark.parametrize("sizes", [(7, 5, 3), (1, 9), (30,), (2, 2, 2, 2, 2)])
def test_leaves_tile_the_domain_and_hold_the_counts(sizes):
    dense = np.random.default_rng(1).integers(0, 4, sizes) ** 3
    for i in range(10):
        blocks = build(dense, Fraction(500), b"%d" % i).components
        assert fault_in_tiling(blocks.lower, blocks.upper, blocks.depth, sizes) is None
        for lower, upper, count in zip(blocks.lower, blocks.upper, blocks.noisy_counts.tolist(), strict=True):
            assert dense[tuple(map(slice, lower, upper))].sum() == count


def test_leaves_have_the_noise_that_was_paid_for():
    """Scale 1/(0.7 ε) on empty leaves; a scale 10% off is rejected (1e-6)."""
    releases = [build(np.zeros((16, 16), np.int64), Fraction(1, 10), b"%d" % i) for i in range(3_000)]
    noise = np.concatenate([release.components.noisy_counts for release in releases])
    scale = 1 / (0.7 * 0.1)
    assert not laplace_scale_is_rejected(noise, scale)
    assert laplace_scale_is_rejected(noise, 1.1 * scale)
    assert releases[0].components.noise_scale == pytest.approx(scale)
