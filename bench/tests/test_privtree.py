"""PrivTree: the law of its trees, its noise and bias by the paper's formulas, its answers."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from numpy.random import Generator
from numpy.typing import NDArray
from scipy import stats
from testers import (
    frequencies_are_rejected,
    laplace_scale_is_rejected,
    laplace_shape_is_rejected,
    samples_differ,
)

from dense import released
from hdpview.privacy.mechanism import Charge
from hdpview.privacy.randomness import Randomness
from hdpview_bench.rivals.budget import Draws
from hdpview_bench.rivals.privtree import Privtree, SplitRule, empty_children_to_split
from hdpview_bench.rivals.privtree_release import PrivtreeRelease, middle_of, walsh_hadamard
from hdpview_bench.workloads import WORKLOADS, draw

Box = tuple[tuple[int, int], ...]
N_TREES = 2_000


def grow(
    dense: NDArray[np.int64], epsilon: Fraction, key: bytes, n_cut: int | None = None
) -> PrivtreeRelease:
    release, charges = released(Privtree(n_cut), dense, epsilon, key)
    assert charges == (Charge("grow the tree", epsilon / 2), Charge("noise on counts", epsilon / 2))
    return release


def leaves_of(release: PrivtreeRelease) -> dict[Box, float]:
    """Every leaf as a box with its count, from the inverse of the transform (which is the transform, over its
    length)."""
    was_split: set[Box] = {
        tuple(zip(low, high, strict=True))
        for low, high in zip(release.lower.tolist(), release.upper.tolist(), strict=True)
    }
    count_of_box: dict[Box, float] = {}
    ends = [*release.first.tolist(), len(release.transformed)]
    for i, (start, end) in enumerate(itertools.pairwise(ends)):
        counts = release.transformed[start:end].copy()
        walsh_hadamard(counts)
        middle = middle_of(release.lower[i], release.upper[i])
        for child, count in enumerate((counts / len(counts)).tolist()):
            box = [
                [int(low), int(high)] for low, high in zip(release.lower[i], release.upper[i], strict=True)
            ]
            for a, bit in enumerate(release.bit[i].tolist()):
                if bit >= 0:
                    box[a][1 - (child >> bit & 1)] = int(middle[a])
            key: Box = tuple((low, high) for low, high in box)
            if key not in was_split or len(counts) == 1:
                count_of_box[key] = count
            else:
                assert count == 0
    assert len(count_of_box) == release.n_blocks
    return count_of_box


def naive_tree(dense: NDArray[np.int64], epsilon: float, n_cut: int, rng: Generator) -> frozenset[Box]:
    """PrivTree as the paper writes it, with a noisy count for every child there is. Leaves only."""
    fanout = 2**n_cut
    scale = (2 * fanout - 1) / (fanout - 1) / epsilon
    bias = scale * math.log(fanout)
    waiting, leaves = [([(0, size) for size in dense.shape], 0, 0)], set()
    while waiting:
        box, depth, turn = waiting.pop()
        count = dense[tuple(slice(*ends) for ends in box)].sum()
        wide = [
            a % len(box)
            for a in range(turn, turn + len(box))
            if box[a % len(box)][1] - box[a % len(box)][0] > 1
        ][:n_cut]
        if not wide or max(-bias, count - depth * bias) + rng.laplace(0, scale) <= 0:
            leaves.add(tuple(box))
            continue
        halves = [
            [(low, (low + high + 1) // 2), ((low + high + 1) // 2, high)] if a in wide else [(low, high)]
            for a, (low, high) in enumerate(box)
        ]
        waiting += [
            (list(child), depth + 1, (wide[-1] + 1) % len(box)) for child in itertools.product(*halves)
        ]
    return frozenset(leaves)


@pytest.mark.parametrize("n_cut", [None, 1])
def test_trees_have_the_law_of_full_enumeration(n_cut):
    """2,000 trees against 2,000 in which every child is tested; a budget 1.4 times as large is rejected."""
    dense = np.array([[9, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 3]])
    ours = [frozenset(leaves_of(grow(dense, Fraction(2), b"%d" % i, n_cut))) for i in range(N_TREES)]
    rng, k = np.random.default_rng(9), n_cut or 2
    right, wrong = ([naive_tree(dense, epsilon, k, rng) for _ in range(N_TREES)] for epsilon in (1.0, 1.4))
    assert not samples_differ(ours, right)
    assert samples_differ(ours, wrong)


@pytest.mark.parametrize("n_children", [2, 4, 64, 2**22])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(3)])
def test_noise_and_bias_follow_the_papers_formulas(n_children, epsilon):
    """λ = (2β − 1)/((β − 1)ε), δ = λ ln β; an empty block splits with probability 1/(2β)."""
    rule = SplitRule.choose(n_children, epsilon)
    assert rule.noise_scale == pytest.approx((2 * n_children - 1) / (n_children - 1) / float(epsilon))
    assert rule.bias_per_level == pytest.approx(rule.noise_scale * math.log(n_children))
    counts = np.array([0, 1, 5, 100, 10_000])
    for depth in range(4):
        biased = np.maximum(-rule.bias_per_level, counts - depth * rule.bias_per_level)
        expected = stats.laplace.sf(0, loc=biased, scale=rule.noise_scale)
        assert rule.chance(counts, depth) == pytest.approx(expected, rel=1e-12)
    assert rule.chance(np.zeros(1, dtype=np.int64), 3)[0] == pytest.approx(0.5 / n_children)


def test_empty_children_of_a_huge_split_are_found_at_once():
    """Among 2^22 children about one half of one is chosen per split: a Poisson number."""
    draws = Draws(Randomness.from_test_key(b"empty").root_key("huge"))
    number = [len(empty_children_to_split(np.array([5]), 2**22, 0.5 / 2**22, draws)) for _ in range(8_000)]
    law = [*stats.poisson.pmf([0, 1, 2], 0.5), stats.poisson.sf(2, 0.5)]
    assert not frequencies_are_rejected(np.bincount(np.minimum(number, 3), minlength=4), np.array(law))


def test_every_leaf_has_the_noise_that_was_paid_for():
    """Discrete Laplace of scale 2/ε on empty leaves; scales 5% off are rejected."""
    noise_of_leaves: list[float] = []
    for i in range(40):
        leaves = leaves_of(grow(np.zeros((2,) * 11, dtype=np.int64), Fraction(1, 5), b"leaves %d" % i))
        noise_of_leaves += leaves.values() if len(leaves) > 1 else []
    noise = np.array(noise_of_leaves).astype(np.int64)
    assert len(noise) > 20_000
    assert not laplace_scale_is_rejected(noise, 10.0)
    assert not laplace_shape_is_rejected(noise, 10.0)
    assert laplace_scale_is_rejected(noise, 10.5)


@pytest.mark.parametrize("sizes", [(5, 4, 3), (7,), (2, 1, 6, 2), (3, 3, 2, 2, 2)])
@pytest.mark.parametrize("n_cut", [None, 1, 2])
def test_leaves_tile_the_domain_and_answers_are_their_overlaps(sizes, n_cut):
    rng = np.random.default_rng(sum(sizes))
    for i in range(4):
        dense = rng.integers(0, 3, sizes) * rng.integers(0, 40, sizes)
        release = grow(dense, Fraction(3), b"%d" % i, n_cut)
        covered, spread = np.zeros(sizes), np.zeros(sizes)
        for box, count in leaves_of(release).items():
            place = tuple(slice(*ends) for ends in box)
            covered[place] += 1
            spread[place] += count / covered[place].size
        assert (covered == 1).all()
        for attributes in itertools.chain(
            itertools.permutations(range(len(sizes)), 1), itertools.permutations(range(len(sizes)), 2)
        ):
            kept = sorted(attributes)
            summed = spread.sum(axis=tuple(a for a in range(len(sizes)) if a not in kept))
            expected = summed.transpose([kept.index(a) for a in attributes])
            assert release.marginal(attributes) == pytest.approx(expected, abs=1e-9)
        for workload in WORKLOADS:
            boxes = draw(workload, sizes, 30, rng)
            for j, answer in enumerate([] if boxes is None else release.answer(boxes)):
                place = [slice(None)] * len(sizes)
                for a, low, high in zip(boxes.attribute[j], boxes.lower[j], boxes.upper[j], strict=True):
                    place[a] = slice(low, high)
                assert answer == pytest.approx(spread[tuple(place)].sum(), abs=1e-9)
