"""The paper's error bound: its theorem on Θ_min and Θ_max, evaluated as stated. See docs/intervals.md for
what it assumes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hdpview.errors import QueryError
from hdpview.query.estimate.estimates import term_means
from hdpview.query.interval.answers import Interval
from hdpview.query.question.batch import pack
from hdpview.query.question.quantities import count_of
from hdpview.query.question.where import Where, boxes_of
from hdpview.view.blocks import Blocks
from hdpview.view.data import ViewData

Floats = NDArray[np.float64]
_NEEDED = ("epsilon_counts", "converge_noise_scale", "converge_bias_per_level", "converge_threshold")
_ROUNDS = 12  # each step leaves less than a tenth of the range


def error_bound(view: ViewData, where: Where, mu: float = 0.05, xi: float = 1.0) -> Interval:
    """Θ_min and Θ_max: the error of a raw count is above Θ_min with probability at least 1 − μ, and below
    Θ_max with probability at least 1 − μ.

    Args:
        view: a view built by the paper's method.
        where: the condition.
        mu: the probability with which each side may fail.
        xi: how unevenly sub-blocks may deviate, compared with their blocks. A property of the data, which
            must not be looked up.
    """
    if not 0 < mu < 1 or not 0 < xi < math.inf:
        raise QueryError(f"mu must lie between 0 and 1 and xi above 0; got {mu!r} and {xi!r}.")
    parameters = view.manifest.parameters
    if any(name not in parameters for name in _NEEDED):
        raise QueryError(
            f"The paper's bound is for its own method; this view was built by {view.manifest.method!r}."
        )
    blocks = view.parts[0].components
    assert isinstance(blocks, Blocks)
    means = next(term_means(blocks, pack([count_of(boxes_of(where, view.schema))], view.schema)), None)
    weights = np.zeros(len(blocks)) if means is None else means[2].sum(axis=0)
    touched = weights > 0
    w, depth = weights[touched], blocks.depth[touched]
    if not len(w):
        return Interval(0.0, 0.0)
    epsilon, scale, bias, threshold = (parameters[name] for name in _NEEDED)
    bounds = xi * w * (depth * bias + threshold)

    noise, deviation = (w / epsilon) ** 2, (xi * w * scale) ** 2

    def least(t: Floats) -> Floats:
        return np.asarray(-(np.log(mu) + np.log1p(-np.outer(t**2, noise)).sum(axis=1)) / t)

    def most(t: Floats) -> Floats:
        return np.asarray(least(t) - np.log1p(-np.outer(t**2, deviation)).sum(axis=1) / t)

    noise_end = epsilon / w.max()
    both_end = min(noise_end, 1 / (xi * w.max() * scale))
    return Interval(-_minimum(least, noise_end), float(bounds.sum()) + _minimum(most, both_end))


def _minimum(function: Callable[[Floats], Floats], end: float) -> float:
    """Minimise, over 0 < t < end, a function that falls, then rises, and is infinite at both ends. Each round
    evaluates 20 points around the lowest one so far.
    """
    low, high = 0.0, end
    for _ in range(_ROUNDS):
        places = np.linspace(low, high, 22)
        lowest = 1 + int(function(places[1:-1]).argmin())
        low, high = places[lowest - 1], places[lowest + 1]
    return float(function(places[lowest : lowest + 1])[0])
