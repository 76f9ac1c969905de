"""A view's measurement of its own errors: groups of questions, the effect of one record, and results."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from cells import random_mixture, tables_of
from dense import counts_of, tensor_of
from hdpview.methods import quality
from hdpview.privacy.mechanism import Mechanism
from hdpview.privacy.randomness import Randomness
from hdpview.query.errors.questions import questions_about
from hdpview.view.data import ViewPart
from hdpview.view.mixture import Mixture
from hdpview.view.quality import Quality, prior_quality

SIZES = (7, 5, 2, 3)


def _part(seed: int = 3) -> ViewPart:
    mixture = random_mixture(SIZES, seed)
    tables = tables_of(mixture, seed)
    return ViewPart(mixture, prior_quality(mixture, tables), tables)


def _independent(sizes: tuple[int, ...], total: float) -> Mixture:
    """One component, even in all attributes."""
    bins = tuple(np.arange(size, dtype=np.int32) for size in sizes)
    even = tuple(np.full((size, 1), 1.0 / size) for size in sizes)
    return Mixture(
        np.array([total]), bins, tuple(np.ones(size) for size in sizes), even, np.zeros(1, np.int32)
    )


def _measured(part: ViewPart, rows: NDArray[np.int64], epsilon: Fraction, key: bytes = b"q") -> Quality:
    counts = counts_of(tensor_of(rows, part.components.sizes))
    return quality.measure_quality(part, counts, Mechanism(epsilon, Randomness.from_test_key(key)))


def test_dependence_that_a_view_does_not_know_is_measured():
    """A view that takes attributes for independent finds a larger factor on a table where they are not, and a
    smaller one where they are."""
    rng = np.random.default_rng(1)
    mixture = _independent(SIZES, 50_000.0)
    part = ViewPart(mixture, prior_quality(mixture), tables_of(mixture, 1)[: len(SIZES)])
    independent = rng.integers(0, SIZES, (50_000, len(SIZES)))
    dependent = independent.copy()
    dependent[:, 2] = dependent[:, 0] % 2
    found = [_measured(part, rows, Fraction(1)).factors[1] for rows in (independent, dependent)]
    assert found[0] < 0.03
    assert found[1] > 0.1


def test_groups_of_small_errors_do_not_hide_what_large_ones_show():
    """Of three attributes with many values, single cells hold next to nothing, and ranges show that a view
    which is right knows all: the factor falls well below what other tables suggest."""
    sizes, n = (40, 30, 20), 30_000
    mixture = _independent(sizes, float(n))
    part = ViewPart(mixture, prior_quality(mixture), tables_of(mixture, 1))
    rows = np.random.default_rng(2).integers(0, sizes, (n, len(sizes)))
    drawn = [_measured(part, rows, Fraction(1, 25), b"%d" % i).factors[2] for i in range(20)]
    assert np.median(drawn) < 0.25 * part.quality.factors[2]


def test_a_draw_counts_as_much_as_it_means():
    """With a tiny budget every draw leaves the prior; with a large one, the candidate drawn is the factor."""
    part = _part()
    prior = part.quality.factors
    asked = questions_about(part, 2)
    little, much = (quality.choice_of(asked, prior, 2, Fraction(epsilon)) for epsilon in ("1e-6", "1e3"))
    assert np.ptp(np.log2(little.factors / prior[1])) < 0.01
    middle = slice(16, 28)  # beyond these, expected errors are those of noise, or of a few candidates only
    assert much.factors[middle] == pytest.approx(prior[1] * 2.0 ** quality.EXPONENTS[middle], rel=0.2)
    assert (np.diff(much.factors) >= 0).all()
