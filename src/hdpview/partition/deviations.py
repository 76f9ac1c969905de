"""AE_L + AE_R of every cut of a block, in Numba.

Every step but the last gives integers, so the result is the same to the last bit wherever the rows are:

    rows ─▶ histograms ─▶ thresholds ─▶ cells above them ─▶ deviations
                                        (rows again, if some side of a cut has a mean of 1 or more)

Arrays over the values of all attributes are flat: value c of attribute a is at offsets[a] + c. Those of a
block with bounds lower and upper begin at `start` = offsets[a] + lower[a]; there are `width` = upper[a] −
lower[a] of them. A cut has the place of the last value that it sends to the left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hdpview.partition.jitted import compiled, mean_in_parts, sparse_deviation, unmanaged, widest_side

# Rows × cuts up to which reading every row for every cut is faster than sorting the rows first.
_MAX_ROW_CUTS = 256
# Span of thresholds, in records, up to which each count has a bin of its own.
_MAX_COUNT_BINS = 1024


class CutWork(NamedTuple):
    """Scratch space for one block's cuts, so no block allocates: arrays over the values of all attributes.

    wide: the attributes with more than one value come first.
    sums, occupied: records and occupied cells per value.
    at_least_left, at_least_right: per cut, the least count above the mean of a side.
    n_above_left, n_above_right: per cut, the number of cells of a side with at least that count.
    sum_above: per cut, the records in those cells of both sides.
    deviations: AE_L + AE_R per cut, without gaps between attributes.
    ordered: counts of a block's rows, sorted by one attribute; as long as the largest block.
    bins: three arrays over bins of counts.
    """

    wide: NDArray[np.int64]
    sums: NDArray[np.int64]
    occupied: NDArray[np.int64]
    at_least_left: NDArray[np.int64]
    at_least_right: NDArray[np.int64]
    n_above_left: NDArray[np.int64]
    n_above_right: NDArray[np.int64]
    sum_above: NDArray[np.int64]
    deviations: NDArray[np.float64]
    ordered: NDArray[np.int64]
    bins: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]


@compiled
def new_work(n_values, n_rows):  # type: ignore[no-untyped-def]
    """Scratch space for blocks with `n_values` values in all attributes together and up to `n_rows` rows."""
    arrays, bins = np.empty((8, n_values), np.int64), np.empty((3, n_values + _MAX_COUNT_BINS), np.int64)
    # Only dense blocks write to `ordered`; until then it takes no memory.
    deviations, ordered = np.empty(n_values, np.float64), np.empty(n_rows, np.int64)
    wide, sums, occupied, least_left, least_right = arrays[0], arrays[1], arrays[2], arrays[3], arrays[4]
    above = arrays[5], arrays[6], arrays[7], deviations, ordered, (bins[0], bins[1], bins[2])
    return CutWork(wide, sums, occupied, least_left, least_right, *above)


@unmanaged
def cut_deviations(codes, counts, first, last, offsets, lower, upper, total, n_cells, work):  # type: ignore[no-untyped-def]
    """Write AE_L + AE_R of every cut to `work.deviations` by attribute and cut point; return their number."""
    histograms(codes, counts, first, last, offsets, lower, upper, work)
    # If not, every side of every cut has a mean below 1.
    may_be_dense = float(total) * widest_side(lower, upper) >= n_cells
    n_cuts = 0
    for a in range(len(lower)):
        start, width = offsets[a] + lower[a], upper[a] - lower[a]
        if width <= 1:
            continue
        if may_be_dense and thresholds(start, width, total, n_cells, work) > 1:
            above_thresholds(codes, counts, first, last, a, lower[a], start, width, work)
            dense_deviations(start, width, total, n_cells, work, n_cuts)
        else:
            sparse_deviations(start, width, total, last - first, n_cells, work, n_cuts)
        n_cuts += width - 1
    return n_cuts


@unmanaged
def histograms(codes, counts, first, last, offsets, lower, upper, work):  # type: ignore[no-untyped-def]
    """Write records and rows per attribute and value to `work.sums` and `work.occupied`."""
    wide, sums, occupied, n_wide = work.wide, work.sums, work.occupied, 0
    for a in range(len(lower)):
        if upper[a] - lower[a] > 1:
            for at in range(offsets[a] + lower[a], offsets[a] + upper[a]):
                sums[at] = 0
                occupied[at] = 0
            wide[n_wide] = a
            n_wide += 1
    for i in range(first, last):
        x = counts[i]
        for w in range(n_wide):
            at = offsets[wide[w]] + codes[i, wide[w]]
            sums[at] += x
            occupied[at] += 1


@unmanaged
def sparse_deviations(start, width, total, n_rows, n_cells, work, out):  # type: ignore[no-untyped-def]
    """Write the deviations of one attribute's cuts from `out` on; every side has a mean below 1."""
    left_sum, n_left = 0, 0
    for v in range(width - 1):
        left_sum += work.sums[start + v]
        n_left += work.occupied[start + v]
        left_cells = n_cells / width * (v + 1)
        right_cells = n_cells / width * (width - v - 1)
        left = sparse_deviation(left_sum, n_left, left_cells)
        right = sparse_deviation(total - left_sum, n_rows - n_left, right_cells)
        work.deviations[out + v] = left + right


@unmanaged
def thresholds(start, width, total, n_cells, work):  # type: ignore[no-untyped-def]
    """Write the least whole count above the mean of either side of each cut; return the largest."""
    left_sum, largest = 0, 1
    for v in range(width - 1):
        left_sum += work.sums[start + v]
        left = mean_in_parts(left_sum, n_cells / width * (v + 1))[0] + 1
        right = mean_in_parts(total - left_sum, n_cells / width * (width - v - 1))[0] + 1
        work.at_least_left[start + v], work.at_least_right[start + v] = left, right
        largest = max(largest, left, right)
    return largest


@unmanaged
def dense_deviations(start, width, total, n_cells, work, out):  # type: ignore[no-untyped-def]
    """Write the deviations of one attribute's cuts from `out` on, from the cells above each side's mean."""
    left_sum = 0
    for v in range(width - 1):
        at = start + v
        left_sum += work.sums[at]
        left, left_rest = mean_in_parts(left_sum, n_cells / width * (v + 1))
        right, right_rest = mean_in_parts(total - left_sum, n_cells / width * (width - v - 1))
        n_left, n_right = work.n_above_left[at], work.n_above_right[at]
        above = (work.sum_above[at] - n_left * left - n_right * right) - (
            n_left * left_rest + n_right * right_rest
        )
        work.deviations[out + v] = 2.0 * above


@unmanaged
def above_thresholds(codes, counts, first, last, attribute, low, start, width, work):  # type: ignore[no-untyped-def]
    """Count, per cut of one attribute, the cells of each side that reach its threshold, and their records."""
    for at in range(start, start + width - 1):
        work.n_above_left[at] = 0
        work.n_above_right[at] = 0
        work.sum_above[at] = 0
    if (last - first) * (width - 1) > _MAX_ROW_CUTS:
        _order_by_code(codes, counts, first, last, attribute, low, start, width, work)
        _walk(last - first, start, width, 1, work.at_least_left, work.n_above_left, work)
        _walk(last - first, start, width, -1, work.at_least_right, work.n_above_right, work)
        return
    for i in range(first, last):
        value, x = start + (codes[i, attribute] - low), counts[i]
        for at in range(start, start + width - 1):
            is_left = at >= value
            is_above = x >= (work.at_least_left[at] if is_left else work.at_least_right[at])
            work.n_above_left[at] += is_above & is_left
            work.n_above_right[at] += is_above & (not is_left)
            work.sum_above[at] += x * is_above


@unmanaged
def _order_by_code(codes, counts, first, last, attribute, low, start, width, work):  # type: ignore[no-untyped-def]
    """Sort counts by their code into `work.ordered` (a counting sort)."""
    place = work.bins[0]
    place[0] = 0
    for v in range(1, width):
        place[v] = place[v - 1] + work.occupied[start + v - 1]
    for i in range(first, last):
        value = codes[i, attribute] - low
        work.ordered[place[value]] = counts[i]
        place[value] += 1


@unmanaged
def _walk(n_rows, start, width, step, at_least, n_above, work):  # type: ignore[no-untyped-def]
    """Count one side of all cuts: rows enter it value by value, from the left (step 1) or the right (−1).

    Rows are kept in bins by count, with bin edges at the thresholds. As a side grows, its mean and so its
    threshold move little; only the bins that the threshold passes are touched, a few steps per row in all.
    """
    n_at, sum_at = work.bins[0], work.bins[1]
    edges = work.bins[2][: _edges(start, width, at_least, work.bins[2])]
    # If the thresholds span few counts, each count is a bin.
    least, span = edges[0], edges[len(edges) - 1] - edges[0]
    is_short = span < len(n_at) - 1
    n_bins = span + 2 if is_short else len(edges) + 1
    for b in range(n_bins):
        n_at[b] = 0
        sum_at[b] = 0
    value, row = (start, 0) if step > 0 else (start + width - 1, n_rows - 1)
    passed, n_now, sum_now = 0, 0, 0  # bins beyond `passed` are counted
    for _ in range(width - 1):
        for _ in range(work.occupied[value]):
            x = work.ordered[row]
            if is_short:
                bin_ = min(max(x - least + 1, 0), n_bins - 1)
            else:
                bin_ = np.searchsorted(edges, x, side="right")
            n_at[bin_] += 1
            sum_at[bin_] += x
            n_now += bin_ > passed
            sum_now += x * (bin_ > passed)
            row += step
        cut = value if step > 0 else value - 1
        reached = at_least[cut] - least if is_short else np.searchsorted(edges, at_least[cut])
        while passed < reached:
            passed += 1
            n_now -= n_at[passed]
            sum_now -= sum_at[passed]
        while passed > reached:
            n_now += n_at[passed]
            sum_now += sum_at[passed]
            passed -= 1
        n_above[cut] = n_now
        work.sum_above[cut] += sum_now
        value += step


@unmanaged
def _edges(start, width, at_least, edges):  # type: ignore[no-untyped-def]
    """Write the distinct thresholds of all cuts to `edges` in rising order; return their number."""
    n = width - 1
    for i in range(n):
        edges[i] = at_least[start + i]
    gap = n // 2
    while gap > 0:  # Shell sort: in place, and short
        for i in range(gap, n):
            moving, j = edges[i], i
            while j >= gap and edges[j - gap] > moving:
                edges[j] = edges[j - gap]
                j -= gap
            edges[j] = moving
        gap //= 2
    n_edges = 1
    for i in range(1, n):
        edges[n_edges] = edges[i]
        n_edges += edges[i] > edges[n_edges - 1]
    return n_edges
