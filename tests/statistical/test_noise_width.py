"""Noise intervals cover what they say, and are hardly wider than need be: against simulation."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from hdpview.query.bounds import noise
from hdpview.query.bounds.noise import NoiseLaw

N = 300_000  # simulated sums per case
PATTERNS = {  # weight and number of blocks with that weight
    "one block": [(1.0, 1)],
    "a tenth of a block": [(0.1, 1)],
    "two blocks": [(1.0, 2)],
    "three blocks": [(1.0, 1), (0.5, 1), (0.2, 1)],
    "three equal blocks": [(0.7, 3)],
    "ten and crumbs": [(1.0, 10), (0.01, 100)],
    "falling": [(1 / 2**i, 1) for i in range(12)],
    "one dominant": [(1.0, 1), (0.02, 800)],
    "one dominant by far": [(1.0, 1), (0.001, 5_000)],
    "two scales": [(1.0, 5), (0.3, 60)],
    "thousands": [(1.0, 4_000)],
    "thousands of crumbs": [(0.003, 5_000), (0.001, 2_000)],
}


def simulated(pattern: list[tuple[float, int]], scale: float, seed: int) -> NDArray[np.float64]:
    """|Σ w·z| of many simulated answers: a sum of n discrete Laplace variables is the difference of two
    negative binomials."""
    rng = np.random.default_rng(seed)
    p = -math.expm1(-1 / scale)
    total = np.zeros(N)
    for weight, n in pattern:
        total += weight * (rng.negative_binomial(n, p, N) - rng.negative_binomial(n, p, N))
    return np.abs(total)


def half_width(pattern: list[tuple[float, int]], scale: float, confidence: float) -> float:
    squares = sum(n * weight**2 for weight, n in pattern)
    fourths = sum(n * weight**4 for weight, n in pattern)
    largest = max(weight for weight, _ in pattern)
    law = NoiseLaw(scale)
    variance, fourth = law.variance * squares, law.excess_kurtosis * law.variance**2 * fourths
    sums = np.array([[variance], [fourth], [largest]])
    return float(noise.half_width(*sums, law, confidence)[0])


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0, 10.0, 500.0])
@pytest.mark.parametrize("name", PATTERNS)
def test_intervals_cover_and_are_tight(name, scale):
    """Coverage within 4.9 standard errors; from scale 10 the width is within 3% of the true quantile."""
    sums = simulated(PATTERNS[name], scale, seed=len(name))
    for confidence in (0.9, 0.95, 0.99):
        width = half_width(PATTERNS[name], scale, confidence)
        covered = float((sums <= width * (1 + 1e-12)).mean())
        assert covered >= confidence - 4.9 * math.sqrt(confidence * (1 - confidence) / N), (
            confidence, covered, width,
        )  # fmt: skip
        if scale >= 10:
            needed = float(np.quantile(sums, confidence)) + 0.5 * max(weight for weight, _ in PATTERNS[name])
            assert width == pytest.approx(needed, rel=0.03)


@pytest.mark.parametrize("scale", [0.05, 0.1, 0.2, 0.3])
def test_one_block_is_covered_where_noise_is_mostly_zero(scale):
    """Where most noise is 0, P(|z| ≤ width) of a single block is still at least the confidence, computed
    exactly."""
    q = math.exp(-1 / scale)
    for confidence in (0.9, 0.95, 0.99, 0.999, 0.9999):
        reached = math.floor(half_width([(1.0, 1)], scale, confidence) + 1e-9)
        assert 1 - 2 * q ** (reached + 1) / (1 + q) >= confidence, confidence


def test_no_blocks_no_width():
    zero = np.zeros(1)
    assert noise.half_width(zero, zero, zero, NoiseLaw(10.0), 0.95).tolist() == [0.0]
    assert NoiseLaw(10.0).half_width(zero, 0.95).tolist() == [0.0]


@pytest.mark.parametrize("scale", [1e3, 1e8, 1e15])
def test_the_law_is_exact_at_large_scales(scale):
    law = NoiseLaw(scale)
    assert law.variance == pytest.approx(2 * scale**2, rel=1e-5)
    assert law.excess_kurtosis == pytest.approx(3.0, rel=1e-5)
    assert half_width([(1.0, 1)], scale, 0.95) == pytest.approx(scale * math.log(20), rel=1e-3)
