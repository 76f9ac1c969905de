"""Answering where a base says how records spread inside blocks, in Numba: messages up the forest, class by class of blocks.

`flat` is a `view.within.Flat` throughout: the classes of all attributes, one after the other. A question only needs the attributes that it
speaks of and those that they depend on; what any other adds is 1.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from hdpview.query.kernels import add_up, add_up_coarser

MISSED, CUT, COVERED = 0, 1, 2
_TOUCHED = 1e-300  # the least share of a block that a question touches


@nb.njit(cache=True, nogil=True)
def shaped_prefix(term_attribute, term_at, sizes, shape_at, shape, grain, prefix, out):  # type: ignore[no-untyped-def]
    """Running sums of a question's share of each code times the code's shape, in whole grains, for all terms: `Base.prefix`, into out."""
    done = np.zeros(len(prefix), np.bool_)
    for term in range(len(term_at)):
        at, a = term_at[term], term_attribute[term]
        if done[at]:
            continue
        done[at] = True
        total = 0.0
        out[at] = 0.0
        for code in range(sizes[a]):
            share, of_code = prefix[at + code + 1] - prefix[at + code], shape[shape_at[a] + code]
            asked = np.rint(share * of_code * grain)
            if 0.0 < share < 1.0:
                asked = min(max(asked, 1.0), of_code * grain - 1.0)
            total += asked / grain
            out[at + code + 1] = total


@nb.njit(cache=True, nogil=True)
def pass_up(a, at, prefix, flat, needed, message, state):  # type: ignore[no-untyped-def]
    """What attribute `a` and those below it make of each bin of its parent, class by class, into message and state.

    at: where the attribute's running sums begin in `prefix`, −1 where the question does not speak of it. state: whether the question
    misses, cuts or covers a class in these attributes.
    """
    first_bin, table, first_message, wide = flat.bin_at[a], flat.table_at[a], flat.message_at[a], flat.wide_at[a]
    n_bins, n_rows = flat.bin_at[a + 1] - first_bin - 1, 1
    if flat.parent[a] >= 0:
        n_rows = flat.bin_at[flat.parent[a] + 1] - flat.bin_at[flat.parent[a]] - 1
    for k in range(flat.class_at[a], flat.class_at[a + 1]):
        i = k - flat.class_at[a]
        low, high, here = flat.lower[k], flat.upper[k], COVERED
        if at >= 0:
            held = prefix[at + high] - prefix[at + low]  # exact, so that nothing is covered or missed by rounding
            here = MISSED if held <= 0.0 else (COVERED if held == flat.own[k] else CUT)
        for j in range(flat.child_at[a], flat.child_at[a + 1]):
            if needed[flat.child[j]]:
                here = min(here, state[flat.class_at[flat.child[j]] + flat.child_class[flat.child_class_at[j] + i]])
        state[k] = here
        into = first_message + i * n_rows
        if here != CUT:
            for p in range(n_rows):
                message[into + p] = 0.0 if here == MISSED else 1.0
            continue
        for p in range(n_rows):
            message[into + p] = 0.0
        for c in range(n_bins):
            value = flat.inside[wide + i * n_bins + c]
            if value == 0.0:
                continue
            if at >= 0:
                start, end = max(low, flat.bin_start[first_bin + c]), min(high, flat.bin_start[first_bin + c + 1])
                value *= (prefix[at + end] - prefix[at + start]) * flat.inverse[wide + i * n_bins + c]
            for j in range(flat.child_at[a], flat.child_at[a + 1]):
                child = flat.child[j]
                if needed[child]:
                    value *= message[flat.message_at[child] + flat.child_class[flat.child_class_at[j] + i] * n_bins + c]
            for p in range(n_rows):
                message[into + p] += flat.table[table + c * n_rows + p] * value
        for p in range(n_rows):
            message[into + p] *= flat.inverse_message[into + p]


@nb.njit(cache=True, nogil=True)
def base_weights(q, questions, flat, place, needed, message, state, box_weight, box_state, weight, full):  # type: ignore[no-untyped-def]
    """Weights of all blocks in question `q`, into `weight`, and whether one of its boxes covers them, into `full`: (n_blocks,) each.

    questions: the five arrays of `Questions`, with running sums in shares of the base. The other arrays are room to work in.
    """
    box_start, term_start, term_attribute, term_at, prefix = questions
    weight[:] = 0.0
    full[:] = False
    for box in range(box_start[q], box_start[q + 1]):
        place[:] = -1
        needed[:] = False
        for term in range(term_start[box], term_start[box + 1]):
            a = term_attribute[term]
            place[a] = term_at[term]
            while a >= 0 and not needed[a]:
                needed[a] = True
                a = flat.parent[a]
        box_weight[:] = 1.0
        box_state[:] = COVERED
        for a in flat.upward:
            if needed[a]:
                pass_up(a, place[a], prefix, flat, needed, message, state)
                if flat.parent[a] < 0:
                    classes, at, at_message = flat.class_of_block[a], flat.class_at[a], flat.message_at[a]
                    for b in range(len(weight)):
                        box_weight[b] *= message[at_message + classes[b]]
                        box_state[b] = min(box_state[b], state[at + classes[b]])
        for b in range(len(weight)):
            if box_state[b] == COVERED:
                weight[b] += 1.0
                full[b] = True
            elif box_state[b] == CUT:
                weight[b] += max(box_weight[b], _TOUCHED)


@nb.njit(cache=True, nogil=True)
def summarise(first, last, questions, flat, consistent, noisy, full_weight, out, out_coarser):  # type: ignore[no-untyped-def]
    """Sums over blocks for questions first … last − 1, into out (n_questions, 10), in the order of the fields of `Summary`.

    Of coarser blocks, where `out` has no rows, only Σ weight · count and Σ spread_weight · count, into out_coarser (n_questions, 2).
    """
    n_blocks, n_attributes = flat.class_of_block.shape[1], len(flat.parent)
    place, needed = np.empty(n_attributes, np.int64), np.empty(n_attributes, np.bool_)
    message, state = np.empty(flat.message_at[-1]), np.empty(flat.class_at[-1], np.int8)
    box_weight, box_state = np.empty(n_blocks), np.empty(n_blocks, np.int8)
    weight, full = np.empty(n_blocks), np.empty(n_blocks, np.bool_)
    for q in range(first, last):
        base_weights(q, questions, flat, place, needed, message, state, box_weight, box_state, weight, full)
        if len(out):
            add_up(weight, full, consistent, noisy, full_weight, out[q])
        else:
            add_up_coarser(weight, consistent, full_weight, out_coarser[q])
