"""Converge and cut decide with the paper's probabilities. Keys are fixed; else one in a million fails."""

import numba as nb
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from testers import (
    cut_probabilities,
    cut_scores,
    frequencies_are_rejected,
    frequency_is_rejected,
    mean_score_is_rejected,
)

from hdpview.partition.converge import converges
from hdpview.partition.cut import cut_blindly, cut_privately
from hdpview.partition.deviations import new_work
from hdpview.partition.parameters import PartitionParameters, PartitionSettings
from hdpview.privacy.budget import exact_epsilon
from hdpview.privacy.randomness import draw, new_stream

N_CONVERGE, N_CUT = 200_000, 300_000


@pytest.fixture(scope="module")
def keys() -> NDArray[np.uint32]:
    return np.random.default_rng(2022).integers(0, 2**32, (N_CUT, 8), dtype=np.uint32)


@nb.njit
def count_converged(keys, deviation, depth, scale, bias, threshold, floor):
    stream, n = new_stream(), 0
    for i in range(len(keys)):
        n += converges(deviation, depth, scale, bias, threshold, floor, draw(keys[i], 0, stream), 0.0)
    return n


@nb.njit
def count_private_cuts(keys, codes, counts, offsets, lower, upper, n_cells, epsilon):
    stream, total = new_stream(), counts.sum()
    n_rows = len(counts)
    work = new_work(offsets[-1] + upper[-1], n_rows)
    drawn = np.zeros((len(lower), upper.max() + 1), np.int64)
    for i in range(len(keys)):
        draw(keys[i], 0, stream)
        a, v = cut_privately(
            codes, counts, 0, n_rows, offsets, lower, upper, total, n_cells, epsilon, keys[i], 1, stream, work
        )
        drawn[a, v] += 1
    return drawn


@nb.njit
def count_blind_cuts(keys, lower, upper):
    stream = new_stream()
    drawn = np.zeros((len(lower), upper.max() + 1), np.int64)
    for i in range(len(keys)):
        draw(keys[i], 0, stream)
        a, v = cut_blindly(lower, upper, keys[i], 1, stream)
        drawn[a, v] += 1
    return drawn


def in_order(
    drawn: NDArray[np.int64], lower: NDArray[np.int32], upper: NDArray[np.int32]
) -> NDArray[np.int64]:
    """Counts of all cuts, by attribute and cut point; there must be no other."""
    counts = np.concatenate([drawn[a, lower[a] + 1 : upper[a]] for a in range(len(lower))])
    assert counts.sum() == drawn.sum()
    return counts


def frequencies(keys: NDArray[np.uint32], x: NDArray[np.int64], epsilon: float) -> NDArray[np.int64]:
    """How often each cut of a dense block is chosen. The block lies inside a larger domain, not at its
    corner."""
    lower = np.arange(1, x.ndim + 1, dtype=np.int32)
    upper = (lower + x.shape).astype(np.int32)
    offsets = np.concatenate([[0], np.cumsum(upper)[:-1]]).astype(np.int64)
    cells = np.argwhere(x)
    codes = np.ascontiguousarray(cells + lower, dtype=np.uint8)
    drawn = count_private_cuts(keys, codes, x[tuple(cells.T)], offsets, lower, upper, float(x.size), epsilon)
    return in_order(drawn, lower, upper)


@pytest.mark.parametrize("depth", [1, 4])
@pytest.mark.parametrize("above", [-3.0, -1.0, -0.2, 0.0, 0.3, 1.0, 3.0])
def test_converge_follows_the_laplace_distribution(keys, above, depth):
    """P(BAE + Lap(λ) ≤ θ), 200,000 decisions a case; λ 5% off is rejected."""
    p = PartitionParameters.choose(PartitionSettings(), exact_epsilon(1), 10**6)
    scale, bias, threshold = p.converge_noise_scale, p.converge_bias_per_level, p.converge_threshold
    deviation = threshold + depth * bias + above * scale
    n = count_converged(keys[:N_CONVERGE], deviation, depth, scale, bias, threshold, p.converge_floor)

    def chance(noise_scale: float) -> float:
        biased = max(threshold + 2 - bias, deviation - depth * bias)
        return float(stats.laplace.cdf(threshold, loc=biased, scale=noise_scale))

    assert not frequency_is_rejected(n, N_CONVERGE, chance(scale))
    if above >= 1:  # below, blocks stand at the floor, near θ, where the chance hardly depends on λ
        assert frequency_is_rejected(n, N_CONVERGE, chance(scale * 1.05))
        assert frequency_is_rejected(n, N_CONVERGE, chance(scale / 1.05))


def sparse_block() -> NDArray[np.int64]:
    """512 cells, a few records along one edge: every mean is below 1, and all scores are close."""
    x = np.zeros((8, 8, 8), np.int64)
    x[0, 0] = [4, 6, 5, 5, 3, 7, 5, 5]
    return x


def dense_block() -> NDArray[np.int64]:
    x = np.random.default_rng(4).poisson(2.0, (6, 5))
    x[:2, :3] += np.arange(6).reshape(2, 3)
    x[4:, 3:] = 0
    return x.astype(np.int64)


def used_rejection(x: NDArray[np.int64], epsilon: float) -> bool:
    most_gain = 2 * x.sum() * np.count_nonzero(x) * max(x.shape) / x.size
    return bool(x.sum() * max(x.shape) < x.size and epsilon / (8 * (1 - 1 / x.size)) * most_gain <= 1)


@pytest.mark.parametrize(
    ("regime", "x", "epsilon"),
    [
        ("rejection", sparse_block(), 0.75),
        ("inversion", sparse_block(), 4.0),
        ("inversion", dense_block(), 0.8),
    ],
)
def test_cuts_follow_the_exponential_mechanism(keys, regime, x, epsilon):
    """Both regimes, 300,000 cuts a case; ε 5% larger or smaller is rejected."""
    assert used_rejection(x, epsilon) == (regime == "rejection")
    observed, scores = frequencies(keys, x, epsilon), cut_scores(x)
    right = cut_probabilities(x, epsilon)
    assert not frequencies_are_rejected(observed, right)
    assert not mean_score_is_rejected(observed, right, scores)
    assert mean_score_is_rejected(observed, cut_probabilities(x, epsilon * 1.05), scores)
    assert mean_score_is_rejected(observed, cut_probabilities(x, epsilon / 1.05), scores)


def test_blind_cuts_are_uniform_over_attributes_and_then_over_points(keys):
    lower, upper = np.array([2, 0, 1, 0], np.int32), np.array([7, 1, 4, 2], np.int32)
    observed = in_order(count_blind_cuts(keys[:N_CONVERGE], lower, upper), lower, upper)
    right = np.array([1 / 12] * 4 + [1 / 6] * 2 + [1 / 3])
    assert not frequencies_are_rejected(observed, right)
    assert frequencies_are_rejected(observed, np.full(7, 1 / 7))
    assert frequencies_are_rejected(
        observed, np.array([1.05 / 12] * 4 + [1 / 6] * 2 + [0.95 / 3]) / (1.05 / 3 + 1 / 3 + 0.95 / 3)
    )
