"""Statistics of blocks, in Numba: arrays in, numbers out. No randomness, no tree, no knowledge of the loop around them.

A block is a contiguous run of rows of `codes` (n_occupied, n_attributes) and `counts` (n_occupied,): its occupied cells.
Beside it stand its bounds `lower` and `upper` (n_attributes,), half-open, and its volume, the number of all its cells.

Two facts make this fast. For whole counts with mean x̄ = S/|B|, the sum of absolute deviations is twice the part above
the mean: AE = 2·Σ_{x > x̄}(x − x̄). And where x̄ < 1 every occupied cell is above the mean, so
AE = 2·S·(1 − n₊/|B|): a block's sum and its number of occupied cells say it all.

Sums stay int64, so they do not depend on the order of rows. Volumes are doubles: up to 10³⁰⁰, and only ratios matter.
"""

from __future__ import annotations

import numba as nb
import numpy as np

_FEW_CUTS = 16  # up to this width of an attribute a pass over the rows per cut is faster than sorting them


@nb.njit(cache=True, nogil=True)
def volume(lower, upper):  # type: ignore[no-untyped-def]
    """Number of cells of a block, as a double."""
    cells = 1.0
    for a in range(len(lower)):
        cells *= upper[a] - lower[a]
    return cells


@nb.njit(cache=True, nogil=True)
def sparse_deviation(total, n_occupied, n_cells):  # type: ignore[no-untyped-def]
    """Absolute deviation of a block whose mean is below 1."""
    return 2.0 * total * (1.0 - n_occupied / n_cells)


@nb.njit(cache=True, nogil=True)
def absolute_deviation(counts, total, n_cells):  # type: ignore[no-untyped-def]
    """Absolute deviation of a block with these occupied cells: Σ over all its cells of |x − mean|."""
    mean = total / n_cells
    if mean < 1.0:
        return sparse_deviation(total, len(counts), n_cells)
    n_above, sum_above = 0, 0  # whole numbers, so that the order of rows does not matter
    for x in counts:
        if x > mean:
            n_above += 1
            sum_above += x
    return 2.0 * (sum_above - n_above * mean)


@nb.njit(cache=True, nogil=True)
def split_rows(codes, counts, attribute, cut):  # type: ignore[no-untyped-def]
    """Reorder rows in place so that those with code < `cut` come first. Returns how many they are and their sum."""
    left, right, left_sum = 0, len(counts) - 1, 0
    while True:
        while left <= right and codes[left, attribute] < cut:
            left_sum += counts[left]
            left += 1
        while left < right and codes[right, attribute] >= cut:
            right -= 1
        if left >= right:
            return left, left_sum
        for a in range(codes.shape[1]):
            kept = codes[left, a]
            codes[left, a] = codes[right, a]
            codes[right, a] = kept
        count = counts[left]
        counts[left] = counts[right]
        counts[right] = count


@nb.njit(cache=True, nogil=True)
def left_of_cut(codes, counts, attribute, cut):  # type: ignore[no-untyped-def]
    """Number and sum of the rows with code < `cut`, without moving them."""
    n_left, left_sum = 0, 0
    for i in range(len(counts)):
        if codes[i, attribute] < cut:
            n_left += 1
            left_sum += counts[i]
    return n_left, left_sum


@nb.njit(cache=True, nogil=True)
def histograms(codes, counts, offsets, lower, upper, sums, occupied):  # type: ignore[no-untyped-def]
    """Sum of counts and number of rows per attribute and value, into `sums` and `occupied` at offsets[a] + value."""
    n_attributes = len(lower)
    wide = np.empty(n_attributes, np.int64)
    n_wide = 0
    for a in range(n_attributes):
        if upper[a] - lower[a] > 1:
            sums[offsets[a] + lower[a] : offsets[a] + upper[a]] = 0
            occupied[offsets[a] + lower[a] : offsets[a] + upper[a]] = 0
            wide[n_wide] = a
            n_wide += 1
    for i in range(len(counts)):
        x = counts[i]
        for w in range(n_wide):
            at = offsets[wide[w]] + codes[i, wide[w]]
            sums[at] += x
            occupied[at] += 1


@nb.njit(cache=True, nogil=True)
def cut_deviations(codes, counts, offsets, lower, upper, total, n_cells, sums, occupied, deviations):  # type: ignore[no-untyped-def]
    """AE_L + AE_R of every cut, into `deviations` in order of attribute and cut point; returns their number."""
    histograms(codes, counts, offsets, lower, upper, sums, occupied)
    widest = 1
    for a in range(len(lower)):
        widest = max(widest, upper[a] - lower[a])
    is_sparse = total * widest < n_cells  # then every side of every cut has a mean below 1
    use_ranks = not is_sparse and widest > _FEW_CUTS
    ranked = _rank(counts) if use_ranks else (counts[:0], counts[:0], counts[:0], counts[:0])
    n_cuts = 0
    for a in range(len(lower)):
        width = upper[a] - lower[a]
        if width <= 1:
            continue
        out = deviations[n_cuts : n_cuts + width - 1]
        first = offsets[a] + lower[a]
        if is_sparse:
            _sparse_cuts(sums[first : first + width], occupied[first : first + width], total, len(counts), n_cells, out)
        elif width <= _FEW_CUTS:
            _few_dense_cuts(codes[:, a], lower[a], counts, sums[first : first + width], total, n_cells, out)
        else:
            _dense_cuts(
                codes[:, a], lower[a], counts, ranked, sums[first : first + width], occupied[first : first + width], total, n_cells, out
            )
        n_cuts += width - 1
    return n_cuts


@nb.njit(cache=True, nogil=True)
def _sparse_cuts(sums, occupied, total, n_rows, n_cells, out):  # type: ignore[no-untyped-def]
    left_sum, n_left, width = 0, 0, len(sums)
    for v in range(width - 1):
        left_sum += sums[v]
        n_left += occupied[v]
        left_cells = n_cells / width * (v + 1)
        right_cells = n_cells / width * (width - v - 1)
        out[v] = sparse_deviation(left_sum, n_left, left_cells) + sparse_deviation(total - left_sum, n_rows - n_left, right_cells)


@nb.njit(cache=True, nogil=True)
def _few_dense_cuts(column, low, counts, sums, total, n_cells, out):  # type: ignore[no-untyped-def]
    """The general form for one attribute, with a pass over the rows for each cut."""
    left_sum, width = 0, len(sums)
    for v in range(width - 1):
        left_sum += sums[v]
        left_mean = left_sum / (n_cells / width * (v + 1))
        right_mean = (total - left_sum) / (n_cells / width * (width - v - 1))
        n_left, left_above, n_right, right_above = 0, 0, 0, 0
        for i in range(len(counts)):
            if column[i] - low <= v:
                if counts[i] > left_mean:
                    n_left += 1
                    left_above += counts[i]
            elif counts[i] > right_mean:
                n_right += 1
                right_above += counts[i]
        out[v] = 2.0 * (left_above - n_left * left_mean) + 2.0 * (right_above - n_right * right_mean)


@nb.njit(cache=True, nogil=True)
def _rank(counts):  # type: ignore[no-untyped-def]
    """Distinct counts in rising order, each row's place among them, and per place the number and sum of rows at or above it."""
    ordered = np.sort(counts)
    n_distinct = 0
    for i in range(len(ordered)):
        if i == 0 or ordered[i] != ordered[i - 1]:
            ordered[n_distinct] = ordered[i]
            n_distinct += 1
    distinct = ordered[:n_distinct].copy()
    rank = np.searchsorted(distinct, counts)
    n_from = np.zeros(n_distinct + 1, np.int64)
    sum_from = np.zeros(n_distinct + 1, np.int64)
    for i in range(len(counts)):
        n_from[rank[i]] += 1
        sum_from[rank[i]] += counts[i]
    for r in range(n_distinct - 1, -1, -1):
        n_from[r] += n_from[r + 1]
        sum_from[r] += sum_from[r + 1]
    return distinct, rank.astype(np.int64), n_from, sum_from


@nb.njit(cache=True, nogil=True)
def _dense_cuts(column, low, counts, ranked, sums, occupied, total, n_cells, out):  # type: ignore[no-untyped-def]
    """The general form for one attribute: rows enter the left side value by value, and two Fenwick trees over the ranks of
    counts tell how many of them, with what sum, lie above any mean. n·log(distinct counts) instead of n per cut.
    """
    distinct, rank, n_from, sum_from = ranked
    n_distinct, width = len(distinct), len(sums)
    order = _order_by_code(column, low, occupied)
    tree_n = np.zeros(n_distinct + 1, np.int64)
    tree_sum = np.zeros(n_distinct + 1, np.int64)
    left_sum, n_left = 0, 0
    for v in range(width - 1):
        for i in range(n_left, n_left + occupied[v]):
            row = order[i]
            at = rank[row] + 1
            while at <= n_distinct:
                tree_n[at] += 1
                tree_sum[at] += counts[row]
                at += at & -at
        n_left += occupied[v]
        left_sum += sums[v]
        out[v] = 0.0
        for side in range(2):
            cells = n_cells / width * (v + 1 if side == 0 else width - v - 1)
            side_sum = left_sum if side == 0 else total - left_sum
            side_n = n_left if side == 0 else len(counts) - n_left
            mean = side_sum / cells
            if mean < 1.0:
                out[v] += sparse_deviation(side_sum, side_n, cells)
                continue
            first_above = np.searchsorted(distinct, mean, side="right")
            n_above, sum_above = n_left, left_sum  # of the left side: all, less those at or below the mean
            at = first_above
            while at > 0:
                n_above -= tree_n[at]
                sum_above -= tree_sum[at]
                at -= at & -at
            if side == 1:
                n_above, sum_above = n_from[first_above] - n_above, sum_from[first_above] - sum_above
            out[v] += 2.0 * (sum_above - n_above * mean)


@nb.njit(cache=True, nogil=True)
def _order_by_code(column, low, occupied):  # type: ignore[no-untyped-def]
    """Row numbers in order of their code (a counting sort)."""
    place = np.zeros(len(occupied), np.int64)
    for v in range(1, len(occupied)):
        place[v] = place[v - 1] + occupied[v - 1]
    order = np.empty(len(column), np.int64)
    for i in range(len(column)):
        v = column[i] - low
        order[place[v]] = i
        place[v] += 1
    return order
