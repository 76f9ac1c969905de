"""Identity and independent histograms, against their definitions written out."""

from fractions import Fraction

import numpy as np
import pytest
from enumerated import all_questions
from scipy import stats
from testers import laplace_scale_is_rejected, laplace_shape_is_rejected

from dense import Ints, released, schema_of
from hdpview.privacy.mechanism import Charge
from hdpview_bench.contenders import KnownError
from hdpview_bench.rivals.histograms import Histograms, ProductRelease
from hdpview_bench.rivals.identity import Identity, mean_share_of_cells
from hdpview_bench.workloads import WORKLOADS, CodeBoxes, draw

SIZES = (5, 3, 4, 2)


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_mean_share_of_cells_is_that_of_all_questions_written_out(workload):
    boxes, frequency = all_questions(workload, SIZES)
    shares = ((boxes.upper - boxes.lower) / np.array(SIZES)[boxes.attribute]).prod(axis=1)
    expected = mean_share_of_cells(workload, SIZES)
    assert expected == pytest.approx(shares @ frequency, rel=1e-12)
    drawn_boxes = draw(workload, SIZES, 40_000, np.random.default_rng(2))
    drawn = ((drawn_boxes.upper - drawn_boxes.lower) / np.array(SIZES)[drawn_boxes.attribute]).prod(axis=1)
    # False-alarm rate 1e-6.
    assert abs(drawn.mean() - expected) < stats.norm.isf(5e-7) * drawn.std() / np.sqrt(len(drawn)) + 1e-12


@pytest.mark.parametrize("workload", ["range-1d", "marginal-2", "prefix-3d", "random-4d"])
def test_identitys_error_is_the_one_it_says(workload):
    """500 releases; a t-test at 1e-6 would reject a formula 30% off."""
    dense, n = np.random.default_rng(4).integers(0, 9, (8, 5, 6, 3)), 500
    boxes = draw(workload, dense.shape, 1_000, np.random.default_rng(6))
    truth = released(Identity(), dense, 10**4, b"truth")[0].answer(boxes)  # no cell has noise
    releases = (released(Identity(), dense, Fraction(1, 5), b"%d" % i)[0] for i in range(n))
    squared = np.array([((release.answer(boxes) - truth) ** 2).mean() for release in releases])
    expected = Identity().expected_rmse(workload, schema_of(dense.shape), 0.2) ** 2
    margin = stats.t.isf(5e-7, n - 1) * squared.std(ddof=1) / np.sqrt(n)
    assert abs(squared.mean() - expected) < margin < 0.3 * expected
    assert isinstance(Identity(), KnownError)


def histograms_of(dense: Ints, epsilon: Fraction | int, key: bytes) -> ProductRelease:
    release, charges = released(Histograms(), dense, epsilon, key)
    assert charges == (Charge("noise on histograms", Fraction(epsilon) / dense.ndim, dense.ndim),)
    return release


def test_histograms_are_noisy_with_a_share_of_the_budget_each():
    dense = np.random.default_rng(8).integers(0, 50, SIZES)
    release = histograms_of(dense, 4000, b"h")
    assert release.total == pytest.approx(dense.sum(), rel=1e-12)
    for a, shares in enumerate(release.shares):
        assert shares * dense.sum() == pytest.approx(dense.sum(axis=tuple(b for b in range(4) if b != a)))
    box = CodeBoxes(np.array([[2, 0]]), np.array([[1, 0]]), np.array([[3, 2]]))
    by_hand = dense[:, :, 1:3].sum() * dense[:2].sum() / dense.sum()
    assert release.answer(box)[0] == pytest.approx(by_hand)


def test_each_histogram_has_the_noise_of_its_share():
    """Discrete Laplace of scale 2/ε for two attributes, 60,000 bins; scales 5% off are rejected (1e-6)."""
    each = 100_000
    dense = np.zeros((60_000, 2), np.int64)
    dense[:, 0] = each
    release = histograms_of(dense, Fraction(1, 10), b"noise")
    noise = np.round(release.shares[0] * release.total - each).astype(np.int64)  # the constant is about 0.1
    assert not laplace_scale_is_rejected(noise, 20.0)
    assert not laplace_shape_is_rejected(noise, 20.0)
    assert laplace_scale_is_rejected(noise, 21.0)
    assert laplace_scale_is_rejected(noise, 19.0)
