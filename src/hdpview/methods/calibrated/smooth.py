"""Noise taken off released tables. Nothing here sees a record: it works on noisy counts, and costs no
budget.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hdpview.view.blocks import project_to_simplex

Floats = NDArray[np.float64]

LEAST_SHARE = 1e-6  # of a code, so that no cell is impossible
_STRONG = 2.0  # standard deviations from which on a departure is taken for real
_KEPT_IN_HISTOGRAM, _KEPT_IN_TABLE = 0.8, 0.85  # at least, of what is taken for real
_DOUBTED = 0.5  # the other departures of a histogram are believed by half of what their level suggests
_CERTAIN = 3.0  # standard deviations that noise hardly ever goes
_ROUNDS = 20


def smoothed_shares(noisy: Floats, total: float, variance: float) -> Floats:
    """Shares of an attribute's codes from a noisy histogram, positive, sum 1, shape (size,)."""
    even = total / len(noisy)
    counts = (
        project_to_simplex(even + _by_scales(noisy - even, variance, _shrunk), total) + LEAST_SHARE * total
    )
    shares: Floats = counts / counts.sum()
    return shares


def certain_departures(noisy: Floats, variance: float) -> Floats:
    """Of the departures of a noisy histogram from what is known already, what noise can hardly have made; sum
    0, shape (size,).
    """
    return _by_scales(noisy, variance, _certain)


def _by_scales(noisy: Floats, variance: float, shrunk: Callable[[Floats, Floats], Floats]) -> Floats:
    """A noisy histogram taken apart into contrasts between neighbouring runs of 1, 2, 4, … codes, shrunk, and
    put together again.

    Noise is the same on every scale, true departures are not. shrunk: contrasts of one scale, and their
    variances, to new contrasts.
    """
    contrasts = []
    size = 1 << max(0, len(noisy) - 1).bit_length()
    sums, variances = np.zeros(size), np.zeros(size)
    sums[: len(noisy)], variances[: len(noisy)] = noisy, variance
    while len(sums) > 1:
        contrasts.append(shrunk((sums[0::2] - sums[1::2]) / 2, (variances[0::2] + variances[1::2]) / 4))
        sums, variances = sums[0::2] + sums[1::2], variances[0::2] + variances[1::2]
    departures = np.zeros(1)
    for contrast in reversed(contrasts):
        departures = np.stack([departures / 2 + contrast, departures / 2 - contrast], axis=1).reshape(-1)
    return departures[: len(noisy)]


def _shrunk(contrasts: Floats, variances: Floats) -> Floats:
    """By as much as noise explains of all contrasts of the scale (James and Stein); strong ones less."""
    believed = _believed(contrasts, float(variances.sum()))
    strong = np.abs(contrasts) > _STRONG * np.sqrt(variances)
    return contrasts * np.where(strong, max(believed, _KEPT_IN_HISTOGRAM), _DOUBTED * believed)


def _certain(contrasts: Floats, variances: Floats) -> Floats:
    """What is beyond some standard deviations, and of that the less the nearer it is to them."""
    squares = np.maximum(contrasts**2, 1e-300)
    certain: Floats = contrasts * np.maximum(0.0, 1.0 - _CERTAIN**2 * variances / squares)
    return certain


def _believed(departures: Floats, noise: float) -> float:
    """The share of the departures' energy that noise does not explain."""
    return max(0.0, 1.0 - noise / max(float((departures**2).sum()), 1e-300))


def smoothed_table(noisy: Floats, rows: Floats, columns: Floats, total: float, variance: float) -> Floats:
    """The joint distribution of two attributes' bins from a noisy table, positive, sum 1, with the given
    margins (each of sum 1).

    Departures from independence are shrunk like contrasts; then rows and columns are scaled in turn until
    they fit the margins.
    """
    even = total * np.outer(rows, columns)
    departures = noisy - even
    believed = _believed(departures, variance * departures.size)
    strong = np.abs(departures) > _STRONG * np.sqrt(variance)
    table = np.maximum(
        even + departures * np.where(strong, max(believed, _KEPT_IN_TABLE), believed), LEAST_SHARE * total
    )
    for _ in range(_ROUNDS):
        table *= (rows / table.sum(axis=1))[:, None]
        table *= columns / table.sum(axis=0)
    joint: Floats = table / table.sum()
    return joint


def quantile_bins(shares: Floats, n_bins: int) -> NDArray[np.int32]:
    """Runs of codes with about the same share of records, shape (size,), numbered from 0 without gaps.

    Few codes have a bin each: what is rare about them, such as a missing value, is often what a question is
        about.
    """
    if len(shares) <= n_bins:
        return np.arange(len(shares), dtype=np.int32)
    middles = np.cumsum(shares) - shares / 2
    wanted = np.minimum((middles * n_bins).astype(np.int64), n_bins - 1)
    return np.unique(wanted, return_inverse=True)[1].reshape(-1).astype(np.int32)
