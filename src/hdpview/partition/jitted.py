"""Statistics of blocks, in Numba: arrays in, numbers out. No randomness, no tree, no loop over blocks.

A block's occupied cells are the rows [first, last) of `codes` (n_occupied, n_attributes) and `counts`
(n_occupied,). `lower` and `upper` (n_attributes,) are its half-open bounds; its volume is the number of all
its cells.

Two facts make this fast. The sum of absolute deviations from the mean x̄ = S/|B| is twice the part above it:
AE = 2·Σ_{x > x̄}(x − x̄). And if x̄ < 1, every occupied cell is above the mean, so AE = 2·S·(1 − n₊/|B|)
depends only on the block's sum and its number of occupied cells. `deviations.py` scores all cuts of a block.

Rows give whole numbers (int64) that add up over any parts of the rows in any order, so all that follows is
the same on every machine. Volumes are doubles: they reach 10³⁰⁰, and only ratios matter. Products of a sum
and a number of values are doubles too, because they overflow 64 bits for sums from 2⁴⁷ on.
"""

from __future__ import annotations

import numpy as np

from hdpview.jit import numba as nb

# Nothing here divides by zero, so no division is checked.
compiled = nb.njit(cache=True, nogil=True, error_model="numpy")
# For code that runs once per block: no reference counts of arrays, so no allocation.
unmanaged = nb.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)

_RUN = 64  # rows scanned at a time while splitting


@unmanaged
def volume(lower, upper):  # type: ignore[no-untyped-def]
    """Number of cells of a block, as a double."""
    cells = 1.0
    for a in range(len(lower)):
        cells *= upper[a] - lower[a]
    return cells


@unmanaged
def widest_side(lower, upper):  # type: ignore[no-untyped-def]
    """The largest number of values that an attribute has in a block."""
    widest = 1
    for a in range(len(lower)):
        widest = max(widest, upper[a] - lower[a])
    return widest


@unmanaged
def sparse_deviation(total, n_occupied, n_cells):  # type: ignore[no-untyped-def]
    """Absolute deviation of a block whose mean is below 1."""
    return 2.0 * total * (1.0 - n_occupied / n_cells)


@unmanaged
def absolute_deviation(counts, first, last, total, n_cells):  # type: ignore[no-untyped-def]
    """Absolute deviation of a block with these occupied cells: Σ over all its cells of |x − mean|."""
    if total / n_cells < 1.0:
        return sparse_deviation(total, last - first, n_cells)
    integer_part, rest = mean_in_parts(total, n_cells)
    n_above, sum_above = 0, 0
    for i in range(first, last):
        is_above = counts[i] > integer_part
        n_above += is_above
        sum_above += counts[i] * is_above
    return 2.0 * ((sum_above - n_above * integer_part) - n_above * rest)


@unmanaged
def mean_in_parts(total, n_cells):  # type: ignore[no-untyped-def]
    """The mean as its integer part and the rest.

    Integers do not round, so deviations of huge, nearly equal counts are as exact as of small ones. [P4]
    """
    mean = total / n_cells
    if mean < 1.0:
        return np.int64(0), mean
    n_whole_cells = np.int64(n_cells + 0.5)  # at most the number of records, so it fits 64 bits
    integer_part = np.int64(total) // n_whole_cells
    return integer_part, (total - integer_part * n_whole_cells) / n_cells


@unmanaged
def left_of_cut(codes, counts, first, last, attribute, cut):  # type: ignore[no-untyped-def]
    """Number and sum of the rows with code < `cut`, without moving them."""
    n_left, left_sum = 0, 0
    for i in range(first, last):
        is_left = codes[i, attribute] < cut
        n_left += is_left
        left_sum += counts[i] * is_left
    return n_left, left_sum


@unmanaged
def split_rows(codes, counts, first, last, attribute, cut, scratch):  # type: ignore[no-untyped-def]
    """Reorder rows in place so that those with code < `cut` come first; return their number and sum.

    A branch per row would be mispredicted half of the time. Instead, the places of misplaced rows are noted
    run by run from both ends, without a branch, and then swapped in pairs. scratch: from `new_scratch`.
    """
    left, right, left_sum = first, last, 0  # rows outside [left, right) are in place
    # Number of misplaced rows still to swap, and the first of their places.
    n_right = n_left = from_right = from_left = 0
    while right - left > 2 * _RUN:
        if n_right == 0:
            from_right = 0
            for i in range(left, left + _RUN):
                scratch[0, n_right] = i
                n_right += codes[i, attribute] >= cut
        if n_left == 0:
            from_left = 0
            for i in range(right - _RUN, right):
                scratch[1, n_left] = i
                n_left += codes[i, attribute] < cut
        n_pairs = min(n_right, n_left)
        for pair in range(n_pairs):
            _swap(codes, counts, scratch[0, from_right + pair], scratch[1, from_left + pair])
        from_right, from_left = from_right + n_pairs, from_left + n_pairs
        n_right, n_left = n_right - n_pairs, n_left - n_pairs
        if n_right == 0:
            for i in range(left, left + _RUN):
                left_sum += counts[i]
            left += _RUN
        if n_left == 0:
            right -= _RUN
    n_rest, rest_sum = left_of_cut(codes, counts, left, right, attribute, cut)
    middle, n_right, n_left = left + n_rest, 0, 0
    for i in range(left, middle):
        scratch[0, n_right] = i
        n_right += codes[i, attribute] >= cut
    for i in range(middle, right):
        scratch[1, n_left] = i
        n_left += codes[i, attribute] < cut
    for pair in range(n_right):
        _swap(codes, counts, scratch[0, pair], scratch[1, pair])
    return middle - first, left_sum + rest_sum


@compiled
def new_scratch():  # type: ignore[no-untyped-def]
    """Scratch space for `split_rows`."""
    return np.empty((2, 2 * _RUN + 1), np.int64)


@unmanaged
def _swap(codes, counts, i, j):  # type: ignore[no-untyped-def]
    for a in range(codes.shape[1]):
        kept = codes[i, a]
        codes[i, a] = codes[j, a]
        codes[j, a] = kept
    count = counts[i]
    counts[i] = counts[j]
    counts[j] = count
