"""The mixture as a view holds it: what it answers does not depend on how it adds up."""

import numpy as np
import pytest

from hdpview.view import mixture
from hdpview.view.mixture import Mixture


def many_codes(n_codes: int, n_bins: int) -> Mixture:
    """One attribute with so many codes in bins that are no runs, and three components."""
    rng = np.random.default_rng(5)
    bins = rng.permutation(np.arange(n_codes) % n_bins).astype(np.int32)
    shape = rng.random(n_codes)
    share = rng.random((n_bins, 3))
    return Mixture(
        np.array([3.0, 2.0, 5.0]),
        (bins,),
        (shape / np.bincount(bins, shape)[bins],),
        (share / share.sum(axis=0),),
        np.zeros(3, np.int32),
    )


def test_many_codes_are_added_up_bin_by_bin_to_the_same(monkeypatch):
    """Means in components are those of a product with a matrix of codes by bins, without the matrix."""
    values = np.random.default_rng(6).random((4, 900))
    product = many_codes(900, 40).factors(0, values)
    monkeypatch.setattr(mixture, "_MAX_MATRIX", 100)
    added_up = many_codes(900, 40)
    assert added_up.factors(0, values) == pytest.approx(product, rel=1e-12)
    assert added_up.factors(0, values[:0]).shape == (0, 3)
