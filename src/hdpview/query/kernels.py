"""Answering, in Numba: every question looks once at every block, attribute by attribute.

The weight of a block in a question is the share of its cells that the question asks for: the product of one share per restricted
attribute, summed over the question's disjoint boxes. Blocks stand attribute-major here, so that each step runs over
contiguous memory.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np


@nb.njit(cache=True, nogil=True)
def block_weights(q, questions, lower, upper, inverse_width, weight, box_weight):  # type: ignore[no-untyped-def]
    """Weights of all blocks in question `q`, into `weight` (n_blocks,).

    questions: the five arrays of `Questions`. lower, upper, inverse_width: shape (n_attributes, n_blocks).
    """
    box_start, term_start, term_attribute, term_at, prefix = questions
    weight[:] = 0.0
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


@nb.njit(cache=True, nogil=True)
def spread_weight(w):  # type: ignore[no-untyped-def]
    """How much a block may be misjudged by a question that asks for the share w of it: (w·(1 − w))^¾."""
    return math.sqrt(w * (1.0 - w)) * math.sqrt(math.sqrt(w * (1.0 - w)))


@nb.njit(cache=True, nogil=True)
def summarise(first, last, questions, lower, upper, inverse_width, consistent, noisy, full_weight, out):  # type: ignore[no-untyped-def]
    """Sums over blocks for questions first … last − 1, into out (n_questions, 10), in the order of the fields of `Summary`."""
    n_blocks = len(noisy)
    weight, box_weight = np.empty(n_blocks), np.empty(n_blocks)
    for q in range(first, last):
        block_weights(q, questions, lower, upper, inverse_width, weight, box_weight)
        raw, fitted, spread, squares, fourths, largest = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        full, touched, n_full, n_touched = 0.0, 0.0, 0, 0
        for b in range(n_blocks):
            w = weight[b]
            if w > 0.0:
                raw += w * noisy[b]
                fitted += w * consistent[b]
                squares += w * w
                fourths += w * w * w * w
                largest = max(largest, w)
                touched += noisy[b]
                n_touched += 1
                if w > full_weight:
                    full += noisy[b]
                    n_full += 1
                elif consistent[b] > 0.0:
                    spread += consistent[b] * spread_weight(w)
        out[q, 0], out[q, 1], out[q, 2], out[q, 3], out[q, 4] = raw, fitted, squares, fourths, largest
        out[q, 5], out[q, 6], out[q, 7], out[q, 8], out[q, 9] = full, n_full, touched, n_touched, spread


@nb.njit(cache=True, nogil=True)
def estimate_and_spread(first, last, questions, lower, upper, inverse_width, counts, full_weight, out):  # type: ignore[no-untyped-def]
    """Σ weight · count and Σ spread_weight · count over coarser blocks, into out (n_questions, 2)."""
    n_blocks = len(counts)
    weight, box_weight = np.empty(n_blocks), np.empty(n_blocks)
    for q in range(first, last):
        block_weights(q, questions, lower, upper, inverse_width, weight, box_weight)
        estimate, spread = 0.0, 0.0
        for b in range(n_blocks):
            w = weight[b]
            if w > 0.0 and counts[b] > 0.0:
                estimate += w * counts[b]
                if w <= full_weight:
                    spread += counts[b] * spread_weight(w)
        out[q, 0], out[q, 1] = estimate, spread
