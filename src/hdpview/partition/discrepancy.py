"""Cuts where the data departs from what is already known: the exponential mechanism on discrepancies from a base measure.

A cut that sends the share f of a block's base to the left scores |S_L − S·f|: how many records lie on another side than the base
says. One record more changes S_L and S·f by at most 1 together, so the score has sensitivity 1, and unlike deviations it is not flat where a block has far more
cells than records.
"""

from __future__ import annotations

import numba as nb

from hdpview.partition import kernels
from hdpview.partition.cut import by_inversion
from hdpview.privacy.randomness import draw

N_QUANTILES = 4  # cuts next to the base's quartiles are candidates: few, and none that leaves a side empty of base


@nb.njit(cache=True, nogil=True)
def cut_by_discrepancy(codes, counts, offsets, lower, upper, total, base, epsilon, key, n_drawn, stream, work):  # type: ignore[no-untyped-def]
    """P(cut) ∝ exp(ε·|S_L − S·f| / 2) over the candidates. [P8]

    base: running sums of weights, attribute a's at offsets[a] + a, one longer than its number of codes.
    """
    sums, occupied, scores = work
    kernels.histograms(codes, counts, offsets, lower, upper, sums, occupied)
    n = 0
    for a in range(len(lower)):
        n = _score_attribute(a, offsets, lower, upper, total, base, sums, occupied, scores, n)
    chosen = by_inversion(scores[:n], epsilon / 2.0, draw(key, n_drawn, stream))
    return _candidate(offsets, lower, upper, occupied, chosen)


@nb.njit(cache=True, nogil=True)
def _score_attribute(a, offsets, lower, upper, total, base, sums, marks, scores, n):  # type: ignore[no-untyped-def]
    """Append −|S_L − S·f| of an attribute's candidate cuts to `scores`; mark each in `marks` at the last code left of it."""
    first, at = offsets[a] + a, offsets[a]
    low, high = lower[a], upper[a]
    start, mass = base[first + low], base[first + high] - base[first + low]
    left_sum, quantile = 0, 1
    for v in range(low, high - 1):
        left_sum += sums[at + v]
        share = (base[first + v + 1] - start) / mass
        following = (base[first + v + 2] - start) / mass
        is_candidate = False
        while quantile < N_QUANTILES and (v == high - 2 or share + following > 2.0 * quantile / N_QUANTILES):
            is_candidate = True  # no later cut comes nearer to this quantile
            quantile += 1
        marks[at + v] = is_candidate
        if is_candidate:
            scores[n] = -abs(left_sum - total * share)
            n += 1
    return n


@nb.njit(cache=True, nogil=True)
def _candidate(offsets, lower, upper, marks, number):  # type: ignore[no-untyped-def]
    """Attribute and cut point of a candidate, by its number."""
    for a in range(len(lower)):
        for v in range(lower[a], upper[a] - 1):
            if marks[offsets[a] + v]:
                if number == 0:
                    return a, v + 1
                number -= 1
    return -1, -1
