"""Random cut: where a block is bisected. Privately by the exponential mechanism on deviations, or blindly.

A cut point v of attribute a sends codes < v to the left. Both sides have at least one value.
"""

from __future__ import annotations

import math

from hdpview.partition.deviations import cut_deviations
from hdpview.partition.kernels import left_of_cut, unmanaged, widest_side
from hdpview.privacy.randomness import draw

_MAX_LOG_TRIES = 1.0  # sample by rejection where that takes at most e tries on average


@unmanaged
def cut_blindly(lower, upper, key, n_drawn, stream):  # type: ignore[no-untyped-def]
    """Uniform over attributes with more than one value, then over that attribute's cut points. Looks at no
    data. [P5]
    """
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


@unmanaged
def cut_privately(  # type: ignore[no-untyped-def]
    codes, counts, first, last, offsets, lower, upper, total, n_cells, epsilon, key, n_drawn, stream, work
):
    """The exponential mechanism with score −(AE_L + AE_R): P(cut) ∝ exp(ε·score / 2Δ), Δ = 2·Δ_AE = 4(1 −
    1/|B|). [P3]

    Where the block is so sparse that all scores are nearly equal, it is sampled by rejection, which needs the
    statistics of one cut or none; elsewhere all cuts are scored. Both draw from exactly this distribution.
    """
    rate, most_gain, is_flat = sampling(lower, upper, total, last - first, n_cells, epsilon)
    if is_flat:
        return _by_rejection(
            codes, counts, first, last, lower, upper, total, n_cells, rate, most_gain, key, n_drawn, stream
        )
    n_cuts = cut_deviations(codes, counts, first, last, offsets, lower, upper, total, n_cells, work)
    chosen = by_inversion(work.deviations, n_cuts, rate, draw(key, n_drawn, stream))
    return cut_number(lower, upper, chosen)


@unmanaged
def sampling(lower, upper, total, n_occupied, n_cells, epsilon):  # type: ignore[no-untyped-def]
    """The rate of the exponential mechanism, the most that a cut can gain, and whether scores are so flat
    that rejection is cheap.
    """
    rate = epsilon / (2.0 * 4.0 * (1.0 - 1.0 / n_cells))  # [P3]
    widest = widest_side(lower, upper)
    # A side has at least n_cells/widest cells. With all means below 1, score = gain − 2S where 0 ≤ gain ≤
    # most_gain.
    most_gain = 2.0 * total * n_occupied * (widest / n_cells)
    return rate, most_gain, float(total) * widest < n_cells and rate * most_gain <= _MAX_LOG_TRIES


@unmanaged
def _by_rejection(  # type: ignore[no-untyped-def]
    codes, counts, first, last, lower, upper, total, n_cells, rate, most_gain, key, n_drawn, stream
):
    """Propose a cut uniformly, accept it with probability exp(rate·(gain − most_gain))."""
    while True:
        a, v, uniform, is_accepted = propose(lower, upper, rate, most_gain, key, n_drawn, stream)
        if is_accepted:
            return a, v
        n_left, left_sum = left_of_cut(codes, counts, first, last, a, v)
        if accepts(
            uniform, lower[a], upper[a], v, n_left, left_sum, last - first, total, n_cells, rate, most_gain
        ):
            return a, v
        n_drawn += 2


@unmanaged
def propose(lower, upper, rate, most_gain, key, n_drawn, stream):  # type: ignore[no-untyped-def]
    """One try of rejection: a cut drawn uniformly, the uniform number that decides on it, and whether it is
    accepted whatever it gains.

    Takes draws `n_drawn` and `n_drawn + 1` of the key.
    """
    n_cuts = 0
    for a in range(len(lower)):
        n_cuts += upper[a] - lower[a] - 1
    a, v = cut_number(lower, upper, int(draw(key, n_drawn, stream) * n_cuts))
    uniform = draw(key, n_drawn + 1, stream)
    return a, v, uniform, uniform < math.exp(-rate * most_gain)


@unmanaged
def accepts(uniform, low, high, v, n_left, left_sum, n_occupied, total, n_cells, rate, most_gain):  # type: ignore[no-untyped-def]
    """Whether a proposed cut v of an attribute with values [low, high) is accepted, with that many rows and
    records on its left.

    Its gain is what it takes off the deviation of a sparse block.
    """
    left_cells = n_cells / (high - low) * (v - low)
    right_cells = n_cells / (high - low) * (high - v)
    gain = 2.0 * (
        left_sum * (n_left / left_cells) + (total - left_sum) * ((n_occupied - n_left) / right_cells)
    )
    return uniform < math.exp(rate * (gain - most_gain))


@unmanaged
def by_inversion(deviations, n_cuts, rate, uniform):  # type: ignore[no-untyped-def]
    """Index drawn with probability ∝ exp(−rate·deviation), by inverting its distribution function. Overwrites
    its input.
    """
    least = deviations[0]
    for i in range(1, n_cuts):
        least = min(least, deviations[i])
    total = 0.0
    for i in range(n_cuts):
        total += math.exp(rate * (least - deviations[i]))
        deviations[i] = total
    target = uniform * total
    for i in range(n_cuts):
        if deviations[i] > target:
            return i
    return n_cuts - 1


@unmanaged
def cut_number(lower, upper, number):  # type: ignore[no-untyped-def]
    """Attribute and cut point of a cut, numbered by attribute, then by cut point."""
    for a in range(len(lower)):
        n_cuts = upper[a] - lower[a] - 1
        if number < n_cuts:
            return a, lower[a] + 1 + number
        number -= n_cuts
    return -1, -1
