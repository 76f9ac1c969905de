"""Answering where a base says how records spread inside blocks, in Numba: messages up the forest, class by class of blocks.

`flat` is a `view.within.Flat` throughout: the classes of all attributes, one after the other. A question only needs the attributes that it
speaks of and those that they depend on; what any other adds is 1.
"""

from __future__ import annotations

import math

import numba as nb
import numpy as np

from hdpview.query.cover import HEAVY
from hdpview.query.kernels import add_up, add_up_coarser, spread_weight

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
def pass_up(a, at, prefix, flat, needed, message, state, room):  # type: ignore[no-untyped-def]
    """What attribute `a` and those below it make of each bin of its parent, class by class, into message and state.

    at: where the attribute's running sums begin in `prefix`, −1 where the question does not speak of it. state: whether the question
    misses, cuts or covers a class in these attributes. room: for two rows of `CHUNK` numbers: classes are taken some at a time, bin by
    bin, so that every loop runs over contiguous memory that is still at hand.
    """
    value, below = room
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
                low, high, end = flat.lower[first + begin :], flat.upper[first + begin :], starts[c + 1]
                for i in range(n):
                    before = below[i] if c else prefix[at + low[i]]
                    below[i] = prefix[at + min(max(end, low[i]), high[i])]
                    value[i] *= (below[i] - before) * inverse[i]
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
                out[i] *= scale[i]
            for i in range(n if flat.parent[a] < 0 else 0):
                here = state[first + begin + i]
                out[i] = min(max(out[i], _LEAST), _MOST) if here == CUT else (0.0 if here == MISSED else 1.0)


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
    room = (np.empty(CHUNK), np.empty(CHUNK))
    for q in range(first, last):
        base_weights(q, questions, flat, place, needed, message, state, room, box_weight, weight, full)
        if len(out):
            add_up(weight, full, consistent, noisy, full_weight, out[q])
        else:
            add_up_coarser(weight, consistent, full_weight, out_coarser[q])


@nb.njit(cache=True, nogil=True)
def add_joint(place, prefix, flat, joint, touched, full):  # type: ignore[no-untyped-def]
    """Add to joint[b, bins of all attributes] what one box asks for of block b in each bin: up by classes, then down in each block.

    place: per attribute, where its running sums begin in `prefix`, or −1. Of an attribute that the box speaks of, bins get what they would
    without that condition. touched, full: whether a box touches, or covers, each block; set where this one does.
    """
    n_attributes, n_blocks = flat.class_of_block.shape
    needed = np.zeros(n_attributes, np.bool_)
    for i in range(n_attributes):
        a = i
        while place[i] >= 0 and a >= 0 and not needed[a]:
            needed[a] = True
            a = flat.parent[a]
    message, state, room = np.empty(flat.message_at[-1]), np.empty(flat.class_at[-1], np.int8), (np.empty(CHUNK), np.empty(CHUNK))
    for a in flat.upward:
        if needed[a]:
            pass_up(a, place[a], prefix, flat, needed, message, state, room)
    here, given = np.empty(joint.shape[1]), np.empty(joint.shape[1])
    for b in range(n_blocks):
        weight, of_block = 1.0, COVERED
        for a in range(n_attributes):
            if needed[a] and flat.parent[a] < 0:
                weight *= message[flat.message_at[a] + flat.class_of_block[a, b]]
                of_block = min(of_block, state[flat.class_at[a] + flat.class_of_block[a, b]])
        if of_block == MISSED:
            continue
        touched[b] = True
        full[b] |= of_block == COVERED
        for a in flat.upward[::-1]:
            pass_down(a, b, weight, place[a], prefix, flat, needed, message, here, given, joint[b])


@nb.njit(cache=True, nogil=True)
def pass_down(a, b, weight, at, prefix, flat, needed, message, here, given, joint):  # type: ignore[no-untyped-def]
    """Share of block b in one box and each bin of attribute `a`, into here[bins of a], from that in its parent's bins; added to joint."""
    k, n_classes, n_rows, parent = flat.class_of_block[a, b], flat.class_at[a + 1] - flat.class_at[a], 1, flat.parent[a]
    first, n_bins = flat.bin_at[a] - a, flat.bin_at[a + 1] - flat.bin_at[a] - 1
    if parent >= 0:
        n_rows = flat.bin_at[parent + 1] - flat.bin_at[parent] - 1
    for p in range(n_rows):
        at_message = flat.message_at[a] + p * n_classes + k
        given[p] = (weight if parent < 0 else here[flat.bin_at[parent] - parent + p]) * flat.inverse_message[at_message]
        if needed[a] and message[at_message] > 0.0:
            given[p] /= message[at_message]
    table, low, high = flat.table[flat.table_at[a] :], flat.lower[flat.class_at[a] + k], flat.upper[flat.class_at[a] + k]
    for c in range(n_bins):
        value = flat.inside[flat.wide_at[a] + c * n_classes + k]
        if value > 0.0:
            chance = 0.0
            for p in range(n_rows):
                chance += given[p] * table[c * n_rows + p]
            value *= chance
            if needed[a]:
                for j in range(flat.child_at[a], flat.child_at[a + 1]):
                    child = flat.child[j]
                    if needed[child]:
                        n_of_child, of_child = flat.class_at[child + 1] - flat.class_at[child], flat.class_of_block[child, b]
                        value *= message[flat.message_at[child] + c * n_of_child + of_child]
            joint[first + c] += value
            if at >= 0:
                start, end = flat.bin_start[flat.bin_at[a] + c], flat.bin_start[flat.bin_at[a] + c + 1]
                held = prefix[at + min(max(end, low), high)] - prefix[at + min(max(start, low), high)]
                value *= held * flat.inverse[flat.wide_at[a] + c * n_classes + k]
        here[first + c] = value


@nb.njit(cache=True, nogil=True)
def histogram(joint, touched, full, which, lower, upper, starts, running, share, consistent, noisy, full_weight, out):  # type: ignore[no-untyped-def]
    """Sums over blocks for every code of one attribute, into out (10, size), in the order of the fields of `Summary`.

    joint: what a filter asks for of each block in each of the attribute's bins, shape (n_blocks, n_bins). which, lower, upper: number of
    each block's range of codes, and the ranges. starts, running: of the bins, of the shape. share: of each code that the filter asks for.
    Blocks with equal ranges are added up first, per unit of shape; then every range is written out code by code.
    """
    n_ranges, n_bins = len(lower), len(starts) - 1
    unit, most = np.zeros((n_ranges, n_bins)), np.zeros((n_ranges, n_bins))
    for r in range(n_ranges):
        for c in range(n_bins):
            low, high = max(lower[r], starts[c]), min(upper[r], starts[c + 1])
            if low < high:
                unit[r, c] = 1.0 / (running[high] - running[low])
                for code in range(low, high):
                    most[r, c] = max(most[r, c], (running[code + 1] - running[code]) * share[code])
    sums, bounds = np.zeros((n_ranges, n_bins, 8)), np.zeros((n_ranges, 4))
    for b in range(len(which)):
        if not touched[b]:
            continue
        r = which[b]
        bounds[r, 0] += noisy[b]
        bounds[r, 1] += 1.0
        if full[b] and upper[r] - lower[r] == 1:
            bounds[r, 2] += noisy[b]
            bounds[r, 3] += 1.0
        for c in range(n_bins):
            if unit[r, c] > 0.0:
                density = joint[b, c] * unit[r, c]
                square = density * density
                row = sums[r, c]
                row[0] += density * noisy[b]
                row[1] += density * consistent[b]
                row[2] += square
                row[3] += square * square
                row[4] = max(row[4], density)
                if consistent[b] > 0.0:
                    if density * most[r, c] > HEAVY:
                        for code in range(max(lower[r], starts[c]), min(upper[r], starts[c + 1])):
                            w = density * (running[code + 1] - running[code]) * share[code]
                            if w <= full_weight:
                                out[9, code] += consistent[b] * spread_weight(w)
                    else:
                        light = consistent[b] * math.sqrt(density) * math.sqrt(math.sqrt(density))
                        row[5] += light
                        row[6] += light * density
                        row[7] += light * square
    for r in range(n_ranges):
        for c in range(n_bins):
            for code in range(max(lower[r], starts[c]), min(upper[r], starts[c + 1])):
                shape = (running[code + 1] - running[code]) * share[code]
                if shape > 0.0:
                    write_out(sums[r, c], bounds[r], shape, share[code] == 1.0, code, out)


@nb.njit(cache=True, nogil=True)
def write_out(row, bounds, shape, whole, code, out):  # type: ignore[no-untyped-def]
    """Add to one code what all blocks of one range, and bin, make of it."""
    root = math.sqrt(shape) * math.sqrt(math.sqrt(shape))
    out[0, code] += row[0] * shape
    out[1, code] += row[1] * shape
    out[2, code] += row[2] * shape**2
    out[3, code] += row[3] * shape**4
    out[4, code] = max(out[4, code], row[4] * shape)
    if whole:
        out[5, code] += bounds[2]
        out[6, code] += bounds[3]
    out[7, code] += bounds[0]
    out[8, code] += bounds[1]
    out[9, code] += max(0.0, root * (row[5] - 0.75 * row[6] * shape - 0.09375 * row[7] * shape**2))
