"""Random cut: where to bisect a block, by the exponential mechanism on deviations or blindly.

A cut at v of attribute a sends codes < v to the left. Both sides have at least one value.
"""

from __future__ import annotations

import math

from hdpview.partition.deviations import cut_deviations
from hdpview.partition.jitted import left_of_cut, unmanaged, widest_side
from hdpview.privacy.randomness import draw

# The attribute of a cut that doubles cannot settle; it is then chosen in rational arithmetic. [P15]
UNDECIDED = -2
# Sample by rejection if that takes at most e^1 tries on average.
_MAX_LOG_TRIES = 1.0
# Relative error of probabilities in rejection: up to a thousand factors of a volume round a few times each.
_ROUNDING = 2.0**-38


@unmanaged
def cut_blindly(lower, upper, key, n_drawn, stream):  # type: ignore[no-untyped-def]
    """Choose an attribute with several values uniformly, then one of its cuts. Reads no data. [P5]"""
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
    """The exponential mechanism with score −(AE_L + AE_R). [P3]

    P(cut) ∝ exp(ε·score / 2Δ) with Δ = 2·Δ_AE = 4(1 − 1/|B|). A block so sparse that all scores are nearly
    equal is sampled by rejection, which needs the statistics of one cut or none; otherwise all cuts are
    scored. Both follow exactly this distribution. Returns UNDECIDED if doubles cannot settle the choice.
    """
    rate, most_gain, is_flat = sampling(lower, upper, total, last - first, n_cells, epsilon)
    if is_flat:
        return _by_rejection(
            codes, counts, first, last, lower, upper, total, n_cells, rate, most_gain, key, n_drawn, stream
        )
    n_cuts = cut_deviations(codes, counts, first, last, offsets, lower, upper, total, n_cells, work)
    error = error_of_deviation(total, last - first, len(lower))
    chosen = by_inversion(work.deviations, n_cuts, rate, draw(key, n_drawn, stream), error)
    if chosen < 0:
        return UNDECIDED, UNDECIDED
    return cut_number(lower, upper, chosen)


@unmanaged
def sampling(lower, upper, total, n_occupied, n_cells, epsilon):  # type: ignore[no-untyped-def]
    """Rate of the exponential mechanism, largest gain of a cut, and whether rejection is cheap."""
    rate = epsilon / (2.0 * 4.0 * (1.0 - 1.0 / n_cells))  # [P3]
    widest = widest_side(lower, upper)
    # A side has at least n_cells/widest cells. If all means are below 1, score = gain − 2S with
    # 0 ≤ gain ≤ most_gain.
    most_gain = 2.0 * total * n_occupied * (widest / n_cells)
    # The margin makes this hold for the exact numbers too.
    is_sparse = float(total) * widest < n_cells * (1.0 - _ROUNDING)
    return rate, most_gain, is_sparse and rate * most_gain <= _MAX_LOG_TRIES


@unmanaged
def _by_rejection(  # type: ignore[no-untyped-def]
    codes, counts, first, last, lower, upper, total, n_cells, rate, most_gain, key, n_drawn, stream
):
    """Propose a cut uniformly, accept it with probability exp(rate·(gain − most_gain))."""
    while True:
        a, v, uniform, is_accepted = propose(lower, upper, rate, most_gain, key, n_drawn, stream)
        if is_accepted or a < 0:
            return a, v
        n_left, left_sum = left_of_cut(codes, counts, first, last, a, v)
        accepted = accepts(
            uniform, lower[a], upper[a], v, n_left, left_sum, last - first, total, n_cells, rate, most_gain
        )
        if accepted != 0:
            return (a, v) if accepted > 0 else (UNDECIDED, UNDECIDED)
        n_drawn += 2


@unmanaged
def propose(lower, upper, rate, most_gain, key, n_drawn, stream):  # type: ignore[no-untyped-def]
    """One try of rejection: a cut drawn uniformly, the uniform number that decides about it, and whether it
    is accepted whatever its gain.

    Uses draws `n_drawn` and `n_drawn + 1` of the key. Returns UNDECIDED if doubles cannot settle it.
    """
    n_cuts = 0
    for a in range(len(lower)):
        n_cuts += upper[a] - lower[a] - 1
    place = draw(key, n_drawn, stream) * n_cuts
    uniform = draw(key, n_drawn + 1, stream)
    beyond = place - math.floor(place)
    if min(beyond, 1.0 - beyond) <= n_cuts * 2.0**-51:  # [P15]
        return UNDECIDED, UNDECIDED, uniform, False
    a, v = cut_number(lower, upper, int(place))
    return a, v, uniform, uniform + 2.0**-53 <= math.exp(-rate * most_gain) * (1.0 - _ROUNDING)


@unmanaged
def accepts(uniform, low, high, v, n_left, left_sum, n_occupied, total, n_cells, rate, most_gain):  # type: ignore[no-untyped-def]
    """1 if cut v of an attribute with values [low, high) is accepted, else 0; −1 if doubles cannot settle it.

    n_left, left_sum: occupied cells and records left of the cut. The gain is the drop in a sparse block's
    deviation.
    """
    left_cells = n_cells / (high - low) * (v - low)
    right_cells = n_cells / (high - low) * (high - v)
    gain = 2.0 * (
        left_sum * (n_left / left_cells) + (total - left_sum) * ((n_occupied - n_left) / right_cells)
    )
    probability = math.exp(rate * (gain - most_gain))
    if uniform + 2.0**-53 <= probability * (1.0 - _ROUNDING):  # [P15]
        return 1
    return 0 if uniform >= probability * (1.0 + _ROUNDING) else -1  # [P15]


@unmanaged
def error_of_deviation(total, n_rows, n_attributes):  # type: ignore[no-untyped-def]
    """Upper bound on the rounding error of a deviation, of a block or of both sides of a cut. [P15]

    All terms add up to at most 2·(records + rows) and round a few times each; volumes round once per
    attribute.
    """
    return (n_attributes + 16) * 2.0**-51 * (float(total) + n_rows)


@unmanaged
def by_inversion(deviations, n_cuts, rate, uniform, error):  # type: ignore[no-untyped-def]
    """Draw an index with probability ∝ exp(−rate·deviation) by inverting the distribution function.

    Returns −1 if doubles cannot settle it. Overwrites `deviations`.
    uniform: the first 53 bits of the uniform number. error: bound on the error of each deviation.
    """
    least = deviations[0]
    for i in range(1, n_cuts):
        least = min(least, deviations[i])
    total = 0.0
    for i in range(n_cuts):
        total += math.exp(rate * (least - deviations[i]))
        deviations[i] = total
    target = uniform * total
    margin = total * (8.0 * rate * error + (n_cuts + 8) * 2.0**-46)  # [P15]
    for i in range(n_cuts - 1):
        if deviations[i] > target - margin:
            return i if deviations[i] > target + margin else -1
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
