"""Noise that is refined later. 60,000 draws a case, false-alarm rate 1e-6 per test."""

from __future__ import annotations

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

N = 60_000  # 5 % of a scale are 12 standard errors
CASES = [
    (Fraction(1, 100), Fraction(3, 200)),
    (Fraction(1, 10), Fraction(2, 5)),
    (Fraction(1, 2), Fraction(1)),
]


def laplace(n: int, scale: Fraction) -> np.ndarray:
    """Fresh noise of OpenDP's sampler."""
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
def test_refined_noise_is_that_of_the_larger_budget(rate: Fraction, finer_rate: Fraction) -> None:
    """OpenDP's noise of the smaller budget becomes discrete Laplace noise of the larger one.

    Scales 5 % off are rejected.
    """
    coarse = laplace(N, 1 / rate)
    fine = finer_noise(coarse, rate, finer_rate, Randomness.fresh().root_key("finer"))
    scale = float(1 / finer_rate)
    assert not laplace_scale_is_rejected(fine, scale)
    assert not laplace_shape_is_rejected(fine, scale)
    assert laplace_scale_is_rejected(fine, scale * 1.05)
    assert laplace_scale_is_rejected(fine, scale / 1.05)


@pytest.mark.parametrize(("rate", "finer_rate"), CASES)
def test_the_old_release_is_the_new_one_plus_noise_that_knows_nothing(
    rate: Fraction, finer_rate: Fraction
) -> None:
    """The difference of both is uncorrelated with the finer noise, in value and in size, so the old release
    adds nothing to the new one. Noise drawn anew fails the same test.
    """
    coarse = laplace(N, 1 / rate)
    fine = finer_noise(coarse, rate, finer_rate, Randomness.fresh().root_key("finer"))
    anew = laplace(N, 1 / finer_rate)

    def is_related(difference: np.ndarray, noise: np.ndarray) -> bool:
        return any(
            abs(np.corrcoef(of(difference), of(noise))[0, 1]) * np.sqrt(N) > 4.9
            for of in (np.asarray, np.abs)
        )

    assert not is_related(coarse - fine, fine)
    assert is_related(coarse - anew, anew)


@given(
    st.integers(0, 40),
    st.fractions(Fraction(1, 1000), Fraction(3)),
    st.fractions(Fraction(1, 1000), Fraction(3)),
    st.integers(-60, 90),
)
@settings(max_examples=150)
def test_distribution_functions_are_sums_of_the_definition(
    z: int, rate: Fraction, gap: Fraction, k: int
) -> None:
    """In doubles and in exact numbers, P(finer noise ≤ k) is the sum of the definition's masses."""
    reach = np.arange(-40_000, 40_000)
    expected = law(reach, z, float(rate), float(rate + gap))[reach <= k].sum()
    doubles = gradual._Law(float(rate), float(gap), float(2 * rate + gap))
    assert doubles.upto(np.array([float(k)]), np.array([float(z)]))[0] == pytest.approx(expected, abs=1e-9)
    low, high = gradual._exact_upto(k, z, rate, rate + gap, 40)
    assert low <= high <= low + Fraction(1, 10**20)
    assert float(low) == pytest.approx(expected, abs=1e-9)


def test_exact_numbers_decide_as_doubles_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where doubles are certain, exact numbers agree: all draws are decided again without doubles."""
    coarse = laplace(300, Fraction(20))
    key = Randomness.from_test_key(b"finer").root_key("finer")
    in_doubles = finer_noise(coarse, Fraction(1, 20), Fraction(1, 8), key)
    monkeypatch.setattr(gradual._Law, "is_certain", lambda self, z, k, uniform: np.zeros(len(z), bool))
    assert (finer_noise(coarse, Fraction(1, 20), Fraction(1, 8), key) == in_doubles).all()


@pytest.mark.parametrize("error", [3, -7, 40])
def test_exact_numbers_find_the_draw_from_a_wrong_start(monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    """Doubles that are far off, and know it, change nothing."""
    coarse = laplace(40, Fraction(20))
    key = Randomness.from_test_key(b"finer").root_key("finer")
    right = finer_noise(coarse, Fraction(1, 20), Fraction(1, 8), key)
    inverse = gradual._Law.inverse
    monkeypatch.setattr(gradual._Law, "inverse", lambda self, z, u: inverse(self, z, u) + error)
    assert (finer_noise(coarse, Fraction(1, 20), Fraction(1, 8), key) == right).all()


def test_a_mechanism_refines_what_it_released_before() -> None:
    """Released at 1/10 and refined by 3/10, counts have the noise of 2/5; only 3/10 are charged."""
    exact = Exact(np.arange(N) % 7 * 1_000)
    first, later = (Mechanism(Fraction(n, 10), Randomness.fresh()) for n in (1, 3))
    released = first.noisy("tables: 0", exact, Fraction(1, 10))
    refined = later.refined("tables: 0", exact, released, first.noise(Fraction(1, 10)).scale, Fraction(3, 10))
    noise = refined - np.arange(N) % 7 * 1_000
    assert not laplace_scale_is_rejected(noise, 2.5)
    assert laplace_scale_is_rejected(noise, 2.5 * 1.05)
    assert abs(np.corrcoef(noise, released - refined)[0, 1]) * np.sqrt(N) < 4.9
    assert [charge.total for charge in later.close()] == [Fraction(3, 10)]


def test_another_table_is_noticed() -> None:
    """Counts that lie further from the released ones than noise ever does are not those of the same table."""
    counts = np.arange(200) * 10
    released = counts + laplace(200, Fraction(10))
    assert Mechanism.could_have_released(Exact(counts), released, 10.0)
    assert not Mechanism.could_have_released(Exact(counts[::-1].copy()), released, 10.0)


def test_a_smaller_budget_is_refused() -> None:
    """Noise can be refined, not coarsened."""
    with pytest.raises(ValueError, match="larger rate"):
        finer_noise(np.zeros(3, np.int64), Fraction(1), Fraction(1, 2), Randomness.fresh().root_key("finer"))
