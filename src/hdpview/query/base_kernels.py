"""Answering where a base says how records spread inside blocks, in Numba: messages up the forest, class by
class of blocks.

`flat` is a `view.within.Flat` throughout: the classes of all attributes, one after the other. A question only
needs the attributes that it speaks of and those that they depend on; what any other adds is 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hdpview.jit import numba as nb
from hdpview.query.kernels import add_up, add_up_coarser
from hdpview.view.base import MAX_BINS

MISSED, CUT, COVERED = 0, 1, 2
CHUNK = 512
# Shares of a class that is cut, in the attributes of one tree: told apart from 0 and 1, so that a block's
# product is 0 only where one of them is, and 1 only where all are. Many of the least would vanish; from some
# number on they are held up.
_LEAST, _MOST = 1e-30, 1.0 - 2.0**-53
_ROOTS_WITHOUT_UNDERFLOW, _LEAST_PRODUCT = 9, 1e-270


class Room(NamedTuple):
    """Where one box is worked out; filled on the way up.

    place: per attribute, where its running sums begin in `prefix`, −1 where the box does not speak of it.
        needed: whether the box speaks of
    it or of one that depends on it. asked, range_state: what the box asks for of each range, bin by bin, laid
    out as `flat.inverse`, and whether it misses, cuts or covers it. state: the same of each class, with all
    that depend on the attribute. message: what an attribute and those below make of each bin of its parent,
    laid out as `flat.inverse_message`. free: what classes hold of each bin as far as those below tell, laid
    out as `flat.inside`; of no length where nobody goes down again. values: rows of `CHUNK` numbers to work
    with.
    """

    place: Any
    needed: Any
    asked: Any
    range_state: Any
    state: Any
    message: Any
    free: Any
    values: Any


@nb.njit(cache=True, nogil=True)
def room_size(flat):  # type: ignore[no-untyped-def]
    """How many numbers `make_room` takes."""
    return len(flat.inverse) + len(flat.inverse_message) + len(flat.inside) + MAX_BINS * CHUNK


@nb.njit(cache=True, nogil=True)
def make_room(flat, store, down_again):  # type: ignore[no-untyped-def]
    """Room for one box, in `store`; with `free` where the messages go down again."""
    n_asked, n_message, n_free = (
        len(flat.inverse),
        len(flat.inverse_message),
        len(flat.inside) if down_again else 0,
    )
    asked, store = store[:n_asked], store[n_asked:]
    message, store = store[:n_message], store[n_message:]
    free, store = store[:n_free], store[n_free:]
    free[:] = 0.0
    place, needed = np.empty(len(flat.parent), np.int64), np.empty(len(flat.parent), np.bool_)
    range_state, state = np.empty(len(flat.lower), np.int8), np.empty(flat.class_at[-1], np.int8)
    return Room(
        place,
        needed,
        asked,
        range_state,
        state,
        message,
        free,
        store[: MAX_BINS * CHUNK].reshape(MAX_BINS, CHUNK),
    )


@nb.njit(cache=True, nogil=True)
def shaped_prefix(term_attribute, term_at, sizes, shape_at, shape, grain, prefix, out):  # type: ignore[no-untyped-def]
    """Running sums of a question's share of each code times the code's shape, in whole grains, for all terms:
    `Base.prefix`, into out.
    """
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
def ask_ranges(a, prefix, flat, room):  # type: ignore[no-untyped-def]
    """What a box asks for of each range of attribute `a`, of which it speaks, into room.asked and
    room.range_state.
    """
    at, starts, first, n_ranges = (
        room.place[a],
        flat.bin_start[flat.bin_at[a] :],
        flat.range_at[a],
        flat.range_at[a + 1] - flat.range_at[a],
    )
    for r in range(n_ranges):
        low, high = flat.lower[first + r], flat.upper[first + r]
        before = prefix[at + low]
        for c in range(flat.bin_at[a + 1] - flat.bin_at[a] - 1):
            place, below = (
                flat.inverse_at[a] + c * n_ranges + r,
                prefix[at + min(max(starts[c + 1], low), high)],
            )
            room.asked[place] = (below - before) * flat.inverse[place]
            before = below
        held = prefix[at + high] - prefix[at + low]  # exact, so that nothing is covered or missed by rounding
        room.range_state[first + r] = (
            MISSED if held <= 0.0 else (COVERED if held == flat.own[first + r] else CUT)
        )


@nb.njit(cache=True, nogil=True)
def pass_up(a, prefix, flat, room):  # type: ignore[no-untyped-def]
    """What attribute `a` and those below it make of each bin of its parent, class by class, into room.message
    and room.state.

    Classes are taken some at a time, bin by bin, so that every loop runs over contiguous memory that is still
    at hand.
    """
    if room.place[a] >= 0:
        ask_ranges(a, prefix, flat, room)
    first, n_ranges, n_rows = flat.class_at[a], flat.range_at[a + 1] - flat.range_at[a], 1
    if flat.parent[a] >= 0:
        n_rows = flat.bin_at[flat.parent[a] + 1] - flat.bin_at[flat.parent[a]] - 1
    n_classes, table = flat.class_at[a + 1] - first, flat.table[flat.table_at[a] :]
    for begin in range(0, n_classes, CHUNK):
        n, ranges = min(CHUNK, n_classes - begin), flat.range_of_class[first + begin :]
        set_state(a, begin, n, flat, room)
        first_bin, last_bin = reached_bins(a, ranges[0], ranges[n - 1], flat)
        for c in range(first_bin, last_bin):
            value, at = room.values[c], flat.wide_at[a] + c * n_classes + begin
            inside = flat.inside[at:]
            for i in range(n):
                value[i] = inside[i]
            for j in range(flat.child_at[a], flat.child_at[a + 1]):
                child = flat.child[j]
                if room.needed[child]:
                    classes = flat.child_class[flat.child_class_at[j] + begin :]
                    below = room.message[
                        flat.message_at[child] + c * (flat.class_at[child + 1] - flat.class_at[child]) :
                    ]
                    for i in range(n):
                        value[i] *= below[classes[i]]
            if len(room.free):
                free = room.free[at:]
                for i in range(n):
                    free[i] = value[i]
            if room.place[a] >= 0:
                asked = room.asked[flat.inverse_at[a] + c * n_ranges :]
                for i in range(n):
                    value[i] *= asked[ranges[i]]
        for p in range(n_rows):
            at = flat.message_at[a] + p * n_classes + begin
            out, scale = room.message[at:], flat.inverse_message[at:]
            mix(room.values[first_bin:last_bin], table[first_bin * n_rows + p :], n_rows, n, out)
            for i in range(n):
                out[i] *= scale[i]
            for i in range(n if flat.parent[a] < 0 else 0):
                here = room.state[first + begin + i]
                out[i] = min(max(out[i], _LEAST), _MOST) if here == CUT else (0.0 if here == MISSED else 1.0)


@nb.njit(cache=True, nogil=True)
def reached_bins(a, first, last, flat):  # type: ignore[no-untyped-def]
    """The first bin that any of the ranges first … last of attribute `a` reaches, and the last, excluded.
    Ranges rise by lower ends.
    """
    at, last_bin = flat.range_at[a], 0
    for r in range(first, last + 1):
        last_bin = max(last_bin, flat.last_bin[at + r])
    return flat.first_bin[at + first], last_bin


@nb.njit(cache=True, nogil=True)
def set_state(a, begin, n, flat, room):  # type: ignore[no-untyped-def]
    """Whether a box misses, cuts or covers classes begin … begin + n − 1 of attribute `a`, with all that
    depend on it.
    """
    state, ranges = room.state[flat.class_at[a] + begin :], flat.range_of_class[flat.class_at[a] + begin :]
    of_range = room.range_state[flat.range_at[a] :]
    for i in range(n):
        state[i] = of_range[ranges[i]] if room.place[a] >= 0 else COVERED
    for j in range(flat.child_at[a], flat.child_at[a + 1]):
        if room.needed[flat.child[j]]:
            classes, of_child = (
                flat.child_class[flat.child_class_at[j] + begin :],
                room.state[flat.class_at[flat.child[j]] :],
            )
            for i in range(n):
                state[i] = min(state[i], of_child[classes[i]])


@nb.njit(cache=True, nogil=True, fastmath={"contract"})
def mix(rows, share, step, n, out):  # type: ignore[no-untyped-def]
    """Sum of rows times share[0], share[step], …, into the first n places of out: four rows in one go."""
    for i in range(n):
        out[i] = 0.0
    j = 0
    while j + 4 <= len(rows):
        one, two, three, four = rows[j], rows[j + 1], rows[j + 2], rows[j + 3]
        first, second, third, fourth = (
            share[j * step],
            share[(j + 1) * step],
            share[(j + 2) * step],
            share[(j + 3) * step],
        )
        for i in range(n):
            out[i] += (one[i] * first + two[i] * second) + (three[i] * third + four[i] * fourth)
        j += 4
    while j < len(rows):
        one, first = rows[j], share[j * step]
        for i in range(n):
            out[i] += one[i] * first
        j += 1


@nb.njit(cache=True, nogil=True)
def box_weights(box, questions, flat, room, weight):  # type: ignore[no-untyped-def]
    """Weights of all blocks in one box, into weight (n_blocks,): 1 only where it covers them, 0 only where it
    misses them.

    questions: the five arrays of `Questions`, with running sums in shares of the base.
    """
    _, term_start, term_attribute, term_at, prefix = questions
    room.place[:] = -1
    room.needed[:] = False
    for term in range(term_start[box], term_start[box + 1]):
        a = term_attribute[term]
        room.place[a] = term_at[term]
        while a >= 0 and not room.needed[a]:
            room.needed[a] = True
            a = flat.parent[a]
    weight[:] = 1.0
    n_roots = 0
    for a in flat.upward:
        if room.needed[a]:
            pass_up(a, prefix, flat, room)
            if flat.parent[a] < 0:
                classes, of_class = (
                    flat.class_of_block[a],
                    room.message[flat.message_at[a] : flat.message_at[a + 1]],
                )
                for b in range(len(weight)):
                    weight[b] *= of_class[classes[b]]
                n_roots += 1
                for b in range(len(weight) if n_roots >= _ROOTS_WITHOUT_UNDERFLOW else 0):
                    weight[b] = max(weight[b], _LEAST_PRODUCT) if weight[b] > 0.0 else 0.0


@nb.njit(cache=True, nogil=True)
def summarise(first, last, questions, flat, consistent, noisy, full_weight, out, out_coarser):  # type: ignore[no-untyped-def]
    """Sums over blocks for questions first … last − 1, into out (n_questions, 10), in the order of the fields
    of `Summary`.

    Of coarser blocks, where `out` has no rows, only Σ weight · count and Σ spread_weight · count, into
    out_coarser (n_questions, 2).
    """
    n_blocks, room = flat.class_of_block.shape[1], make_room(flat, np.empty(room_size(flat)), False)
    of_box, weight, full = np.empty(n_blocks), np.empty(n_blocks), np.empty(n_blocks, np.bool_)
    for q in range(first, last):
        weight[:] = 0.0
        full[:] = False
        for box in range(questions[0][q], questions[0][q + 1]):
            box_weights(box, questions, flat, room, of_box)
            for b in range(n_blocks):
                weight[b] += of_box[b]
                full[b] |= of_box[b] == 1.0
        if len(out):
            add_up(weight, full, consistent, noisy, full_weight, out[q])
        else:
            add_up_coarser(weight, consistent, full_weight, out_coarser[q])
