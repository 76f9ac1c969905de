"""Answering where a base says how records spread inside blocks, in Numba: messages up the forest, class by class of blocks.

`flat` is a `view.within.Flat` throughout: the classes of all attributes, one after the other. A question only needs the attributes that it
speaks of and those that they depend on; what any other adds is 1.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from hdpview.query.kernels import add_up, add_up_coarser

MISSED, CUT, COVERED = 0, 1, 2
CHUNK = 512
# Shares of a class that is cut, in the attributes of one tree: told apart from 0 and 1, so that a block's product is 0 only where one of
# them is, and 1 only where all are. Many of the least would vanish; from some number on they are held up.
_LEAST, _MOST = 1e-30, 1.0 - 2.0**-53
_ROOTS_WITHOUT_UNDERFLOW, _LEAST_PRODUCT = 9, 1e-270


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
def pass_up(a, at, prefix, flat, needed, message, state, value):  # type: ignore[no-untyped-def]
    """What attribute `a` and those below it make of each bin of its parent, class by class, into message and state.

    at: where the attribute's running sums begin in `prefix`, −1 where the question does not speak of it. state: whether the question
    misses, cuts or covers a class in these attributes. value: room for `CHUNK` numbers: classes are taken some at a time, bin by bin, so
    that every loop runs over contiguous memory that is still at hand.
    """
    first, n_bins, n_rows = flat.class_at[a], flat.bin_at[a + 1] - flat.bin_at[a] - 1, 1
    if flat.parent[a] >= 0:
        n_rows = flat.bin_at[flat.parent[a] + 1] - flat.bin_at[flat.parent[a]] - 1
    n_classes = flat.class_at[a + 1] - first
    starts, table = flat.bin_start[flat.bin_at[a] :], flat.table[flat.table_at[a] :]
    for begin in range(0, n_classes, CHUNK):
        n = min(CHUNK, n_classes - begin)
        set_state(a, at, first + begin, n, begin, prefix, flat, needed, state)
        for p in range(n_rows):
            out = message[flat.message_at[a] + p * n_classes + begin :]
            for i in range(n):
                out[i] = 0.0
        for c in range(n_bins):
            inside = flat.inside[flat.wide_at[a] + c * n_classes + begin :]
            for i in range(n):
                value[i] = inside[i]
            if at >= 0:
                inverse = flat.inverse[flat.wide_at[a] + c * n_classes + begin :]
                low, high = flat.lower[first + begin :], flat.upper[first + begin :]
                start, end = starts[c], starts[c + 1]
                for i in range(n):
                    up_to, below = prefix[at + min(max(end, low[i]), high[i])], prefix[at + min(max(start, low[i]), high[i])]
                    value[i] *= (up_to - below) * inverse[i]
            for j in range(flat.child_at[a], flat.child_at[a + 1]):
                child = flat.child[j]
                if needed[child]:
                    classes = flat.child_class[flat.child_class_at[j] + begin :]
                    below_child = message[flat.message_at[child] + c * (flat.class_at[child + 1] - flat.class_at[child]) :]
                    for i in range(n):
                        value[i] *= below_child[classes[i]]
            for p in range(n_rows):
                out, chance = message[flat.message_at[a] + p * n_classes + begin :], table[c * n_rows + p]
                for i in range(n):
                    out[i] += chance * value[i]
        for p in range(n_rows):
            scale = flat.inverse_message[flat.message_at[a] + p * n_classes + begin :]
            out = message[flat.message_at[a] + p * n_classes + begin :]
            for i in range(n):
                here = state[first + begin + i]
                out[i] = min(max(out[i] * scale[i], _LEAST), _MOST) if here == CUT else (0.0 if here == MISSED else 1.0)


@nb.njit(cache=True, nogil=True)
def set_state(a, at, first, n, begin, prefix, flat, needed, state):  # type: ignore[no-untyped-def]
    """Whether a question misses, cuts or covers classes first … first + n − 1, which are `begin` … of attribute `a`'s own."""
    for k in range(first, first + n):
        state[k] = COVERED
        if at >= 0:
            held = prefix[at + flat.upper[k]] - prefix[at + flat.lower[k]]  # exact, so that nothing is covered or missed by rounding
            state[k] = MISSED if held <= 0.0 else (COVERED if held == flat.own[k] else CUT)
    for j in range(flat.child_at[a], flat.child_at[a + 1]):
        if needed[flat.child[j]]:
            classes, of_child = flat.child_class[flat.child_class_at[j] + begin :], state[flat.class_at[flat.child[j]] :]
            for i in range(n):
                state[first + i] = min(state[first + i], of_child[classes[i]])


@nb.njit(cache=True, nogil=True)
def base_weights(q, questions, flat, place, needed, message, state, room, box_weight, weight, full):  # type: ignore[no-untyped-def]
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
        n_roots = 0
        for a in flat.upward:
            if needed[a]:
                pass_up(a, place[a], prefix, flat, needed, message, state, room)
                if flat.parent[a] < 0:
                    classes, of_class = flat.class_of_block[a], message[flat.message_at[a] : flat.message_at[a + 1]]
                    for b in range(len(weight)):
                        box_weight[b] *= of_class[classes[b]]
                    n_roots += 1
                    for b in range(len(weight) if n_roots >= _ROOTS_WITHOUT_UNDERFLOW else 0):
                        box_weight[b] = max(box_weight[b], _LEAST_PRODUCT) if box_weight[b] > 0.0 else 0.0
        for b in range(len(weight)):
            weight[b] += box_weight[b]
            full[b] |= box_weight[b] == 1.0


@nb.njit(cache=True, nogil=True)
def summarise(first, last, questions, flat, consistent, noisy, full_weight, out, out_coarser):  # type: ignore[no-untyped-def]
    """Sums over blocks for questions first … last − 1, into out (n_questions, 10), in the order of the fields of `Summary`.

    Of coarser blocks, where `out` has no rows, only Σ weight · count and Σ spread_weight · count, into out_coarser (n_questions, 2).
    """
    n_blocks, n_attributes = flat.class_of_block.shape[1], len(flat.parent)
    place, needed = np.empty(n_attributes, np.int64), np.empty(n_attributes, np.bool_)
    message, state = np.empty(flat.message_at[-1]), np.empty(flat.class_at[-1], np.int8)
    box_weight, weight, full = np.empty(n_blocks), np.empty(n_blocks), np.empty(n_blocks, np.bool_)
    room = np.empty(CHUNK)
    for q in range(first, last):
        base_weights(q, questions, flat, place, needed, message, state, room, box_weight, weight, full)
        if len(out):
            add_up(weight, full, consistent, noisy, full_weight, out[q])
        else:
            add_up_coarser(weight, consistent, full_weight, out_coarser[q])
