"""Independent histograms: the noise of each is that of ε/d. 60,000 bins, false-alarm rate 1e-6 per test."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from testers import laplace_scale_is_rejected, laplace_shape_is_rejected

from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Integer, Schema
from hdpview.methods.protocol import release_with
from hdpview.partition.local import LocalEngine
from hdpview.privacy.randomness import Randomness
from hdpview_bench.rivals.histograms import Histograms, ProductRelease


def test_each_histogram_has_the_noise_of_its_share() -> None:
    """With two attributes the noise is discrete Laplace of scale 2/ε, and scales 5 % off are rejected.

    All bins hold so many records that none is cut off at 0, so the histogram is the noisy one, lowered by a
    small constant.
    """
    n, each = 60_000, 100_000
    schema = Schema([Integer(name="wide", min=0, max=n - 1), Integer(name="narrow", min=0, max=1)])
    codes = np.column_stack([np.arange(n), np.zeros(n)]).astype(np.uint16)
    counts = SparseCounts(schema, np.ascontiguousarray(codes), np.full(n, each, dtype=np.int64))
    release, _ = release_with(
        Histograms(), counts, Fraction(1, 10), Randomness.from_test_key(b"noise"), LocalEngine(1)
    )
    assert isinstance(release, ProductRelease)
    noise = np.round(release.shares[0] * release.total - each).astype(np.int64)  # the constant is about 0.1
    assert not laplace_scale_is_rejected(noise, 20.0)
    assert not laplace_shape_is_rejected(noise, 20.0)
    assert laplace_scale_is_rejected(noise, 21.0)
    assert laplace_scale_is_rejected(noise, 19.0)
