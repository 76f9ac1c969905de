"""Answering, in Numba: every question looks once at every block, attribute by attribute.

The weight of a block in a question is the share of its cells that the question asks for: the product of one
    share per restricted
attribute, summed over the question's disjoint boxes. Blocks stand attribute-major here, so that each step
runs over contiguous memory.
"""

from __future__ import annotations

import math

import numpy as np

from hdpview.jit import numba as nb


@nb.njit(cache=True, nogil=True)
def block_weights(q, questions, lower, upper, inverse_width, full_weight, weight, full, box_weight):  # type: ignore[no-untyped-def]
    """Weights of all blocks in question `q`, into `weight`, and whether one of its boxes covers them, into
    `full`: (n_blocks,) each.

    questions: the five arrays of `Questions`. lower, upper, inverse_width: shape (n_attributes, n_blocks).
    """
    box_start, term_start, term_attribute, term_at, prefix = questions
    weight[:] = 0.0
    full[:] = False
    for box in range(box_start[q], box_start[q + 1]):
        box_weight[:] = 1.0
        for term in range(term_start[box], term_start[box + 1]):
            a = term_attribute[term]
            column = prefix[term_at[term] :]
            low, high, inverse = lower[a], upper[a], inverse_width[a]
            for b in range(len(box_weight)):
                box_weight[b] *= (column[high[b]] - column[low[b]]) * inverse[b]
        for b in range(len(weight)):
            weight[b] += box_weight[b]
            full[b] |= box_weight[b] > full_weight


@nb.njit(cache=True, nogil=True)
def spread_weight(w):  # type: ignore[no-untyped-def]
    """How much a block may be misjudged by a question that asks for the share w of it: (w·(1 − w))^¾."""
    return math.sqrt(w * (1.0 - w)) * math.sqrt(math.sqrt(w * (1.0 - w)))


@nb.njit(cache=True, nogil=True)
def add_up(weight, full, consistent, noisy, full_weight, out):  # type: ignore[no-untyped-def]
    """Sums over blocks for one question, from their weights, into out (10,), in the order of the fields of
    `Summary`.
    """
    raw, fitted, spread, squares, fourths, largest = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    full_sum, touched_sum, n_full, n_touched = 0.0, 0.0, 0, 0
    for b in range(len(weight)):
        w = weight[b]
        if w > 0.0:
            raw += w * noisy[b]
            fitted += w * consistent[b]
            squares += w * w
            fourths += w * w * w * w
            largest = max(largest, w)
            touched_sum += noisy[b]
            n_touched += 1
            if full[b]:
                full_sum += noisy[b]
                n_full += 1
            if w <= full_weight and consistent[b] > 0.0:
                spread += consistent[b] * spread_weight(w)
    out[0], out[1], out[2], out[3], out[4] = raw, fitted, squares, fourths, largest
    out[5], out[6], out[7], out[8], out[9] = full_sum, n_full, touched_sum, n_touched, spread


@nb.njit(cache=True, nogil=True)
def add_up_coarser(weight, counts, full_weight, out):  # type: ignore[no-untyped-def]
    """Σ weight · count and Σ spread_weight · count over coarser blocks for one question, into out (2,)."""
    estimate, spread = 0.0, 0.0
    for b in range(len(weight)):
        w = weight[b]
        if w > 0.0 and counts[b] > 0.0:
            estimate += w * counts[b]
            if w <= full_weight:
                spread += counts[b] * spread_weight(w)
    out[0], out[1] = estimate, spread


@nb.njit(cache=True, nogil=True)
def summarise(first, last, questions, lower, upper, inverse_width, consistent, noisy, full_weight, out):  # type: ignore[no-untyped-def]
    """Sums over blocks for questions first … last − 1, into out (n_questions, 10), in the order of the fields
    of `Summary`.
    """
    n_blocks = len(noisy)
    weight, full, box_weight = np.empty(n_blocks), np.empty(n_blocks, np.bool_), np.empty(n_blocks)
    for q in range(first, last):
        block_weights(q, questions, lower, upper, inverse_width, full_weight, weight, full, box_weight)
        add_up(weight, full, consistent, noisy, full_weight, out[q])


@nb.njit(cache=True, nogil=True)
def estimate_and_spread(first, last, questions, lower, upper, inverse_width, counts, full_weight, out):  # type: ignore[no-untyped-def]
    """Σ weight · count and Σ spread_weight · count over coarser blocks, into out (n_questions, 2)."""
    n_blocks = len(counts)
    weight, full, box_weight = np.empty(n_blocks), np.empty(n_blocks, np.bool_), np.empty(n_blocks)
    for q in range(first, last):
        block_weights(q, questions, lower, upper, inverse_width, full_weight, weight, full, box_weight)
        add_up_coarser(weight, counts, full_weight, out[q])


@nb.njit(cache=True, nogil=True)
def histogram(lower, upper, inverse_width, weight, full, consistent, noisy, full_weight, out):  # type: ignore[no-untyped-def]
    """Sums over blocks for every code of one attribute, into out (10, size + 1), in the order of the fields
    of `Summary`.

    lower, upper, inverse_width: of that attribute, shape (n_blocks,). weight, full: of each block in a filter
        on other attributes. A block
    adds the same to each of its codes, so it is written down where it begins and taken off where it ends;
    running sums do the rest.
    """
    for b in range(len(weight)):
        w = weight[b] * inverse_width[b]
        if w > 0.0:
            low, high, squared = lower[b], upper[b], w * w
            spread = 0.0
            if full[b] and high - low == 1:
                out[5, low] += noisy[b]
                out[5, high] -= noisy[b]
                out[6, low] += 1.0
                out[6, high] -= 1.0
            if w <= full_weight and consistent[b] > 0.0:
                spread = consistent[b] * spread_weight(w)
            added = (w * noisy[b], w * consistent[b], squared, squared * squared, noisy[b], 1.0, spread)
            for i, column in enumerate((0, 1, 2, 3, 7, 8, 9)):
                out[column, low] += added[i]
                out[column, high] -= added[i]
            for code in range(low, high):
                out[4, code] = max(out[4, code], w)
    for column in range(10):
        if column != 4:
            for code in range(1, out.shape[1]):
                out[column, code] += out[column, code - 1]


@nb.njit(cache=True, nogil=True)
def coarser_histogram(lower, upper, inverse_width, weight, counts, full_weight, out):  # type: ignore[no-untyped-def]
    """Σ weight · count and Σ spread_weight · count over coarser blocks, for every code of one attribute, into
    out (2, size + 1).
    """
    for b in range(len(weight)):
        w = weight[b] * inverse_width[b]
        if w > 0.0 and counts[b] > 0.0:
            low, high = lower[b], upper[b]
            out[0, low] += w * counts[b]
            out[0, high] -= w * counts[b]
            if w <= full_weight:
                spread = counts[b] * spread_weight(w)
                out[1, low] += spread
                out[1, high] -= spread
    for column in range(2):
        for code in range(1, out.shape[1]):
            out[column, code] += out[column, code - 1]
