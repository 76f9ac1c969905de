"""Noise that is refined later. 60,000 draws a case, false-alarm rate 1e-6 per test."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testers import laplace_scale_is_rejected, laplace_shape_is_rejected

from hdpview.privacy import gradual
from hdpview.privacy.exact import Exact
from hdpview.privacy.gradual import finer_noise
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.randomness import Randomness

N = 60_000  # 5% of a scale are 12 standard errors
CASES = [
    (Fraction(1, 100), Fraction(3, 200)), (Fraction(1, 10), Fraction(2, 5)), (Fraction(1, 2), Fraction(1)),
]  # fmt: skip


def laplace(n: int, scale: Fraction) -> np.ndarray:
    rate = 1 / scale
    return Mechanism(rate, Randomness.fresh()).noisy("noise", Exact(np.zeros(n, np.int64)), rate)


def law(k: np.ndarray, z: int, rate: float, finer_rate: float) -> np.ndarray:
    """P(finer noise = k | coarser noise = z), from the definition: both laws multiplied, and normalised."""
    coarse, fine = np.exp(-rate), np.exp(-finer_rate)
    at_zero = fine * (1 - coarse) ** 2 / (coarse * (1 - fine) ** 2)

    def laplace(ratio: float, at: np.ndarray) -> np.ndarray:
        return (1 - ratio) / (1 + ratio) * ratio ** np.abs(at)

    step = (1 - at_zero) * laplace(coarse, z - k) + at_zero * (k == z)
    mass = laplace(fine, k) * step
    return mass / mass.sum()


@pytest.mark.parametrize(("rate", "finer_rate"), CASES)
def test_refined_noise_is_that_of_the_larger_budget_and_the_old_release_adds_nothing_to_it(rate, finer_rate):
    """Scales 5% off are rejected. What the old release adds is unrelated to the new noise in value and
    size; with fresh noise it is not."""
    coarse, anew = laplace(N, 1 / rate), laplace(N, 1 / finer_rate)
    fine = finer_noise(coarse, rate, finer_rate, Randomness.fresh().root_key("finer"))
    scale = float(1 / finer_rate)
    assert not laplace_scale_is_rejected(fine, scale)
    assert not laplace_shape_is_rejected(fine, scale)
    assert laplace_scale_is_rejected(fine, scale * 1.05)
    assert laplace_scale_is_rejected(fine, scale / 1.05)

    def is_related(difference: np.ndarray, noise: np.ndarray) -> bool:
        return any(
            abs(np.corrcoef(of(difference), of(noise))[0, 1]) * np.sqrt(N) > 4.9
            for of in (np.asarray, np.abs)
        )

    assert not is_related(coarse - fine, fine)
    assert is_related(coarse - anew, anew)


def test_a_chain_of_refinements_costs_its_last_budget_and_two_of_one_release_cost_more():
    """The reason why a view is refined once: exact losses on two neighbouring tables, by the definition."""
    rate, finer_rate, at = 0.5, 0.8, np.arange(-400, 400)

    def losses(old: int) -> tuple[float, np.ndarray]:
        """Of an old release, and of each new one given it, on tables with counts 0 and 1."""
        given = [np.roll(law(at, old - x, rate, finer_rate), x) for x in (0, 1)]
        near = np.abs(at) < 12
        return rate * (abs(old - 1) - abs(old)), np.log(given[0][near] / given[1][near])

    chains = [old + new for old, new in map(losses, range(-9, 10))]
    forks = [old + 2 * new.max() for old, new in map(losses, range(-9, 10))]
    assert np.abs(chains).max() == pytest.approx(finer_rate)
    assert max(forks) == pytest.approx(2 * finer_rate + rate)


@given(
    st.integers(0, 40), st.fractions(Fraction(1, 1000), Fraction(3)),
    st.fractions(Fraction(1, 1000), Fraction(3)), st.integers(-60, 90),
)  # fmt: skip
@settings(max_examples=150)
def test_distribution_functions_are_sums_of_the_definition(z, rate, gap, k):
    reach = np.arange(-40_000, 40_000)
    expected = law(reach, z, float(rate), float(rate + gap))[reach <= k].sum()
    doubles = gradual._Law(float(rate), float(gap), float(2 * rate + gap))
    assert doubles.upto(np.array([float(k)]), np.array([float(z)]))[0] == pytest.approx(expected, abs=1e-9)
    low, high = gradual._exact_upto(k, z, rate, rate + gap, 40)
    assert low <= high <= low + Fraction(1, 10**20)
    assert float(low) == pytest.approx(expected, abs=1e-9)


def test_exact_numbers_find_the_draw_of_doubles(monkeypatch):
    coarse = laplace(150, Fraction(20))
    key = Randomness.from_test_key(b"finer").root_key("finer")
    in_doubles = finer_noise(coarse, Fraction(1, 20), Fraction(1, 8), key)
    monkeypatch.setattr(gradual._Law, "is_certain", lambda self, z, k, uniform: np.zeros(len(z), bool))
    assert (finer_noise(coarse, Fraction(1, 20), Fraction(1, 8), key) == in_doubles).all()


def test_another_table_is_noticed():
    counts = np.arange(200) * 10
    released = counts + laplace(200, Fraction(10))
    assert Mechanism.could_have_released(Exact(counts), released, 10.0)
    assert not Mechanism.could_have_released(Exact(counts[::-1].copy()), released, 10.0)


def test_a_smaller_budget_is_refused():
    with pytest.raises(ValueError, match="larger rate"):
        finer_noise(np.zeros(3, np.int64), Fraction(1), Fraction(1, 2), Randomness.fresh().root_key("finer"))
