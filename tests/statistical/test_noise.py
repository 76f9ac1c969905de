"""Noise on counts: the scale is 1/ε, no more and no less. 60,000 draws, false-alarm rate 1e-6 per test."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from testers import frequencies_are_rejected, laplace_scale_is_rejected, laplace_shape_is_rejected

from hdpview.privacy.exact import Exact
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.noise import Law, Noise, gaussian_scale, laplace_scale
from hdpview.privacy.randomness import Randomness

N = 60_000  # draws: 5% of a scale are 12 standard errors
Draw = Callable[[Randomness, Fraction], np.ndarray]
EXACT = np.arange(N) % 7 * 1_000


def draw(randomness: Randomness, epsilon: Fraction) -> np.ndarray:
    exact = EXACT.reshape(-1, 100)
    noise = Mechanism(epsilon, randomness).noisy("a table", Exact(exact), epsilon) - exact
    assert noise.shape == exact.shape
    return noise.reshape(-1)


def draw_for_several(randomness: Randomness, epsilon: Fraction) -> np.ndarray:
    """For a person of two records: twice the noise."""
    mechanism = Mechanism(2 * epsilon, randomness, max_rows=2)
    return mechanism.noisy("a vector", Exact(EXACT), mechanism.total) - EXACT


def noisy(exact: np.ndarray, law: Law, amount: Fraction, randomness: Randomness, purpose: str) -> np.ndarray:
    return Mechanism(amount, randomness)._with_noise(exact, Noise(law, amount), purpose)


@pytest.mark.parametrize("draw", [draw, draw_for_several])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(2), Fraction(1, 1000)])
@pytest.mark.parametrize("kind", ["fresh", "test key"])
def test_noise_has_the_scale_that_was_paid_for(kind, epsilon, draw):
    """Discrete Laplace of scale 1/ε, by OpenDP and under a test key; scales 5% off are rejected."""
    noise = draw(Randomness.fresh() if kind == "fresh" else Randomness.from_test_key(b"noise"), epsilon)
    scale = float(1 / epsilon)
    assert noise.dtype == np.int64
    assert not laplace_scale_is_rejected(noise, scale)
    assert not laplace_shape_is_rejected(noise, scale)
    assert laplace_scale_is_rejected(noise, scale * 1.05)
    assert laplace_scale_is_rejected(noise, scale / 1.05)


@pytest.mark.parametrize("draw", [draw, draw_for_several])
def test_noise_is_drawn_for_each_count_by_itself(draw):
    """Uncorrelated between neighbours, fresh and under a test key (z-test at 1e-6)."""
    for randomness in (Randomness.fresh(), Randomness.from_test_key(b"noise")):
        noise = draw(randomness, Fraction(1, 10)).astype(float)
        correlation = np.corrcoef(noise[:-1], noise[1:])[0, 1]
        assert abs(correlation) * np.sqrt(N) < 4.9


@pytest.mark.parametrize(
    "epsilon",
    [Fraction(1, 3), Fraction(1, 10), Fraction(7, 10), Fraction(10**20 + 1, 10**20), Fraction(1, 10**12 + 1)],
)
def test_the_scale_as_a_double_is_never_too_small(epsilon):
    """At most one unit in the last place is added."""
    scale = Fraction(laplace_scale(epsilon))
    assert scale * epsilon >= 1
    assert scale * epsilon <= 1 + Fraction(1, 2**51)


def test_long_vectors_and_different_purposes_share_no_noise():
    exact, test = np.zeros(2**20 + 50_000, np.int64), Randomness.from_test_key(b"noise")
    one, other = (
        noisy(exact, "laplace", Fraction(1, 50), test, "one"),
        noisy(exact, "laplace", Fraction(1, 50), test, "other"),
    )
    assert (one == noisy(exact, "laplace", Fraction(1, 50), test, "one")).all()
    for a, b in [(one, other), (one[: -(2**20)], one[2**20 :])]:
        assert abs(np.corrcoef(a, b)[0, 1]) * np.sqrt(len(a)) < 4.9  # z-test, false-alarm rate 1e-6


def gaussian_is_rejected(sample: np.ndarray, variance: float) -> bool:
    """A chi-square test against P(z) ∝ exp(−z²/2σ²), over 12 runs of values, or the few values there are."""
    most = int(12 * variance**0.5) + 10
    weights = np.exp(-(np.arange(-most, most + 1) ** 2) / (2 * variance))
    at_most = weights.cumsum() / weights.sum()
    likely = np.flatnonzero((at_most > 0.002) & (at_most < 0.998))
    ends = np.unique(likely[np.linspace(0, len(likely) - 1, min(12, len(likely))).astype(int)])
    observed = np.bincount(np.searchsorted(ends - most, sample, side="left"), minlength=len(ends) + 1)
    return frequencies_are_rejected(observed, np.diff([0.0, *at_most[ends], 1.0]))


@pytest.mark.parametrize("rho", [Fraction(1), Fraction(1, 5000), Fraction(1, 10**8)])
@pytest.mark.parametrize("kind", ["fresh", "test key"])
def test_gaussian_noise_has_the_scale_that_was_paid_for(kind, rho):
    """Discrete Gaussian of σ² = 1/2ρ, by OpenDP and by test key; σ 5% off and Laplace noise are rejected."""
    randomness = Randomness.fresh() if kind == "fresh" else Randomness.from_test_key(b"noise")
    noise, variance = noisy(EXACT, "gaussian", rho, randomness, "x") - EXACT, float(1 / (2 * rho))
    assert noise.dtype == np.int64
    assert not gaussian_is_rejected(noise, variance)
    assert gaussian_is_rejected(noise, variance * 1.05**2)
    assert gaussian_is_rejected(noise, variance / 1.05**2)
    assert laplace_shape_is_rejected(noise, (variance / 2) ** 0.5)


@pytest.mark.parametrize(
    "rho", [Fraction(1, 3), Fraction(7, 10**9), Fraction(10**20 + 1, 10**20), Fraction(10**6)]
)
def test_the_gaussian_scale_as_a_double_is_never_too_small(rho):
    assert 1 <= 2 * rho * Fraction(gaussian_scale(rho)) ** 2 <= 1 + Fraction(1, 10**15)
