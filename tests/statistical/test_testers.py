"""The testers themselves: they accept what is right and reject what is 5% off."""

import numpy as np
import pytest
from testers import (
    frequencies_are_rejected,
    frequency_is_rejected,
    laplace_probability,
    laplace_scale_is_rejected,
    laplace_shape_is_rejected,
    mean_score_is_rejected,
)

N = 60_000  # draws: 5% of a scale are 12 standard errors


@pytest.mark.parametrize("scale", [0.5, 3.0, 10.0, 1000.0])
def test_laplace_testers_tell_five_per_cent(scale):
    rng = np.random.default_rng(1)
    p = 1 - np.exp(-1 / scale)
    sample = rng.geometric(p, N) - rng.geometric(p, N)
    assert not laplace_scale_is_rejected(sample, scale)
    assert not laplace_shape_is_rejected(sample, scale)
    assert laplace_scale_is_rejected(sample, scale * 1.05)
    assert laplace_scale_is_rejected(sample, scale / 1.05)


def test_the_shape_tester_rejects_other_shapes():
    rng = np.random.default_rng(2)
    right = rng.geometric(1 - np.exp(-0.1), N) - rng.geometric(1 - np.exp(-0.1), N)
    normal = np.rint(rng.normal(0, np.abs(right).mean() * np.sqrt(np.pi / 2), N)).astype(np.int64)
    assert laplace_shape_is_rejected(np.abs(right), 10.0)
    assert laplace_shape_is_rejected(normal, 10.0)
    assert not laplace_scale_is_rejected(normal, 10.0)


def test_laplace_probabilities_add_up():
    p = laplace_probability(np.arange(-2000, 2001), 10.0)
    assert p.sum() == pytest.approx(1)
    assert p[2000] / p[2001] == pytest.approx(np.exp(0.1))


def test_frequency_testers_accept_and_reject():
    rng = np.random.default_rng(3)
    probabilities = np.array([0.1, 0.2, 0.3, 0.4])
    off = np.array([0.105, 0.19, 0.315, 0.39])
    observed = rng.multinomial(200_000, probabilities)
    assert not frequencies_are_rejected(observed, probabilities)
    assert frequencies_are_rejected(observed, off)
    assert not mean_score_is_rejected(observed, probabilities, np.arange(4.0))
    assert mean_score_is_rejected(observed, np.array([0.11, 0.21, 0.3, 0.38]), np.arange(4.0))
    assert not frequency_is_rejected(int(observed[1]), 200_000, 0.2)
    assert frequency_is_rejected(int(observed[1]), 200_000, 0.21)
