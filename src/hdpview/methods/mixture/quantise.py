"""Shares as whole multiples of a small unit, so that what is saved is exactly what answers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Shares are multiples of 1/UNITS: they fit 16 bits.
UNITS = 65_535


def quantised(shares: NDArray[np.floating]) -> NDArray[np.uint16]:
    """Columns of shares, each of sum 1, as whole numbers of units, each column of sum UNITS; shape (n_bins, n).

    Every share is rounded down, and what is missing goes to those that lost most.
    """
    exact = shares.astype(np.float64)
    exact = exact / exact.sum(axis=0) * UNITS
    units = np.floor(exact)
    lost_most = np.argsort(units - exact, axis=0, kind="stable")
    missing = np.rint(UNITS - units.sum(axis=0)).astype(np.int64)
    ranks = np.empty_like(lost_most)
    np.put_along_axis(ranks, lost_most, np.arange(len(shares))[:, None], axis=0)
    whole: NDArray[np.uint16] = (units + (ranks < missing)).astype(np.uint16)
    return whole
