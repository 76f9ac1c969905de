"""Random cut: where a block is bisected. Privately by the exponential mechanism on deviations, or blindly.

A cut point v of attribute a sends codes < v to the left. Both sides have at least one value.
"""

from __future__ import annotations

import math

import numba as nb

from hdpview.partition import kernels
from hdpview.privacy.randomness import draw

_MAX_LOG_TRIES = 1.0  # sample by rejection where that takes at most e tries on average


@nb.njit(cache=True, nogil=True)
def cut_blindly(lower, upper, key, n_drawn, stream):  # type: ignore[no-untyped-def]
    """Uniform over attributes with more than one value, then over that attribute's cut points. Looks at no data. [P5]"""
    n_wide = 0
    for a in range(len(lower)):
        n_wide += upper[a] - lower[a] > 1
    chosen = int(draw(key, n_drawn, stream) * n_wide)
    for a in range(len(lower)):
        if upper[a] - lower[a] > 1:
            if chosen == 0:
                return a, lower[a] + 1 + int(draw(key, n_drawn + 1, stream) * (upper[a] - lower[a] - 1))
            chosen -= 1
    return -1, -1


@nb.njit(cache=True, nogil=True)
def cut_privately(codes, counts, offsets, lower, upper, total, n_cells, epsilon, key, n_drawn, stream, work):  # type: ignore[no-untyped-def]
    """The exponential mechanism with score −(AE_L + AE_R): P(cut) ∝ exp(ε·score / 2Δ), Δ = 2·Δ_AE = 4(1 − 1/|B|). [P3]

    Where the block is so sparse that all scores are nearly equal, it is sampled by rejection, which needs the statistics of
    one cut or none; elsewhere all cuts are scored. Both draw from exactly this distribution.
    """
    rate = epsilon / (2.0 * 4.0 * (1.0 - 1.0 / n_cells))  # [P3]
    widest = 1
    for a in range(len(lower)):
        widest = max(widest, upper[a] - lower[a])
    # A side has at least n_cells/widest cells. With all means below 1, score = gain − 2S where 0 ≤ gain ≤ most_gain.
    most_gain = 2.0 * total * len(counts) * (widest / n_cells)
    if total * widest < n_cells and rate * most_gain <= _MAX_LOG_TRIES:
        return _by_rejection(codes, counts, lower, upper, total, n_cells, rate, most_gain, key, n_drawn, stream)
    sums, occupied, scores = work
    n_cuts = kernels.cut_deviations(codes, counts, offsets, lower, upper, total, n_cells, sums, occupied, scores)
    chosen = _by_inversion(scores[:n_cuts], rate, draw(key, n_drawn, stream))
    return _cut_number(lower, upper, chosen)


@nb.njit(cache=True, nogil=True)
def _by_rejection(codes, counts, lower, upper, total, n_cells, rate, most_gain, key, n_drawn, stream):  # type: ignore[no-untyped-def]
    """Propose a cut uniformly, accept it with probability exp(rate·(gain − most_gain))."""
    n_cuts = 0
    for a in range(len(lower)):
        n_cuts += upper[a] - lower[a] - 1
    surely_accepted = math.exp(-rate * most_gain)
    while True:
        a, v = _cut_number(lower, upper, int(draw(key, n_drawn, stream) * n_cuts))
        uniform = draw(key, n_drawn + 1, stream)
        n_drawn += 2
        if uniform < surely_accepted:
            return a, v
        n_left, left_sum = kernels.left_of_cut(codes, counts, a, v)
        left_cells = n_cells / (upper[a] - lower[a]) * (v - lower[a])
        right_cells = n_cells / (upper[a] - lower[a]) * (upper[a] - v)
        gain = 2.0 * (left_sum * (n_left / left_cells) + (total - left_sum) * ((len(counts) - n_left) / right_cells))
        if uniform < math.exp(rate * (gain - most_gain)):
            return a, v


@nb.njit(cache=True, nogil=True)
def _by_inversion(deviations, rate, uniform):  # type: ignore[no-untyped-def]
    """Index drawn with probability ∝ exp(−rate·deviation), by inverting its distribution function. Overwrites its input."""
    least = deviations.min()
    total = 0.0
    for i in range(len(deviations)):
        total += math.exp(rate * (least - deviations[i]))
        deviations[i] = total
    target = uniform * total
    for i in range(len(deviations)):
        if deviations[i] > target:
            return i
    return len(deviations) - 1


@nb.njit(cache=True, nogil=True)
def _cut_number(lower, upper, number):  # type: ignore[no-untyped-def]
    """Attribute and cut point of a cut, numbered by attribute, then by cut point."""
    for a in range(len(lower)):
        n_cuts = upper[a] - lower[a] - 1
        if number < n_cuts:
            return a, lower[a] + 1 + number
        number -= n_cuts
    return -1, -1
