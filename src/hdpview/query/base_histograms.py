"""All histograms under one filter where a base says how records spread inside blocks, in Numba.

Messages go up the forest class by class, see `base_kernels`; then down it, some blocks at a time, which tells
how what the filter asks for of each block spreads over the bins of every attribute. Blocks of one range are
then added up together, bin by bin. Everything runs bin by bin over many blocks, in contiguous memory; bins
that a range does not reach are never looked at.
"""

from __future__ import annotations

import math

import numpy as np

from hdpview.jit import numba as nb
from hdpview.query.base_kernels import CHUNK, box_weights, make_room, mix, room_size
from hdpview.query.cover import HEAVY
from hdpview.query.kernels import add_up, add_up_coarser

_SUMS = {"reassoc", "contract", "nsz", "nnan"}  # sums of finite numbers in any order, several at once
_N_ROWS = 9  # of a number per block, to work with


@nb.njit(cache=True, nogil=True)
def store_size(flat):  # type: ignore[no-untyped-def]
    """How many numbers `all_histograms` takes for its work."""
    n_attributes, n_blocks = flat.class_of_block.shape
    return (flat.bin_at[-1] - n_attributes) * (n_blocks + CHUNK) + room_size(flat) + _N_ROWS * n_blocks


@nb.njit(cache=True, nogil=True)
def all_histograms(questions, wanted, share, flat, blocks, consistent, noisy, full_weight, store, out):  # type: ignore[no-untyped-def]
    """Add to out what the blocks say to one filter: column by column for every code of the wanted attributes,
    and last for its count.

    questions: the five arrays of `Questions`, of one question, with running sums in shares of the base.
        wanted: shape (n_attributes,), how
    many columns of `out` come before the attribute's, −1 where it is not wanted. share: of each code of each
    attribute that the filter asks for. flat, blocks: a `Flat` and its `ByRange`. out: shape (10, n), in the
    order of the fields of `Summary`; of coarser blocks, where `noisy` has no length, shape (2, n). store:
    `store_size` numbers to work in: taking memory anew costs as much as the work itself.
    """
    n_attributes, n_blocks = flat.class_of_block.shape
    n_bins = flat.bin_at[-1] - n_attributes
    rows, store = store[: _N_ROWS * n_blocks].reshape(_N_ROWS, n_blocks), store[_N_ROWS * n_blocks :]
    joint, store = store[: n_bins * n_blocks].reshape(n_bins, n_blocks), store[n_bins * n_blocks :]
    reached = wanted >= 0
    for a in flat.upward:
        if reached[a] and flat.parent[a] >= 0:
            reached[flat.parent[a]] = True
    joint[:] = 0.0
    weight, of_box, full = rows[0], rows[1], np.zeros(n_blocks, np.bool_)
    weight[:] = 0.0
    for box in range(questions[0][1]):
        add_joint(box, questions, reached, flat, store, joint, of_box, weight, full)
    sorted_, room = rows[2:6], (rows[6], rows[7], rows[8])
    for a in range(n_attributes):
        if wanted[a] >= 0:
            n_codes = blocks.code_at[a + 1] - blocks.code_at[a]
            into = out[:, wanted[a] : wanted[a] + n_codes]
            sort_blocks(blocks.order[a], weight, full, consistent, noisy, sorted_)
            add_histogram(
                a,
                share[blocks.code_at[a] :][:n_codes],
                flat,
                blocks,
                joint,
                sorted_,
                len(noisy) > 0,
                full_weight,
                room,
                into,
            )
    of_count = np.zeros(len(out))
    if len(noisy):
        add_up(weight, full, consistent, noisy, full_weight, of_count)
        of_count[4], out[4, -1] = max(of_count[4], out[4, -1]), 0.0
    else:
        add_up_coarser(weight, consistent, full_weight, of_count)
    out[:, -1] += of_count


@nb.njit(cache=True, nogil=True)
def add_joint(box, questions, reached, flat, store, joint, of_box, weight, full):  # type: ignore[no-untyped-def]
    """Add to joint[bins of all attributes, b] what one box asks for of block b in each bin, and to `weight`
    what it asks for in all.

    Of an attribute that the box speaks of, bins get what they would without that condition. full: set where
    the box covers a block. of_box,
    store: to work in, shapes (n_blocks,) and as many as `here` and `make_room` take.
    """
    n_attributes, n_blocks = flat.class_of_block.shape
    here, room = (
        store[: len(joint) * CHUNK].reshape(len(joint), CHUNK),
        make_room(flat, store[len(joint) * CHUNK :], True),
    )
    box_weights(box, questions, flat, room, of_box)
    for b in range(n_blocks):
        weight[b] += of_box[b]
        full[b] |= of_box[b] == 1.0
    scale = room.message
    for a in range(n_attributes):
        for i in range(flat.message_at[a], flat.message_at[a + 1] if reached[a] else 0):
            known = scale[i] if room.needed[a] else 1.0
            scale[i] = flat.inverse_message[i] / known if known > 0.0 else 0.0
    for begin in range(0, n_blocks, CHUNK):
        n = min(CHUNK, n_blocks - begin)
        for a in flat.upward[::-1]:
            if reached[a]:
                inside = room.free if room.needed[a] else flat.inside
                pass_down(a, begin, n, of_box, inside, scale, flat, here, room.values, joint)
                if room.place[a] >= 0:
                    restrict(a, begin, n, flat, room.asked, here)


@nb.njit(cache=True, nogil=True)
def pass_down(a, begin, n, weight, inside, scale, flat, here, given, joint):  # type: ignore[no-untyped-def]
    """Shares of blocks begin … begin + n − 1 in one box and each bin of attribute `a`, into here, from those
    in its parent's bins.

    here: shape (bins of all attributes, n); its rows of `a` are also added to joint. inside: of classes, bin
        by bin, as `flat.inside`.
    scale: of classes, per bin of the parent: 1 / what `inside` makes of it. weight: of all blocks, which
        roots share out.
    """
    n_classes, n_rows, parent, classes = (
        flat.class_at[a + 1] - flat.class_at[a],
        1,
        flat.parent[a],
        flat.class_of_block[a, begin:],
    )
    first, n_bins = flat.bin_at[a] - a, flat.bin_at[a + 1] - flat.bin_at[a] - 1
    if parent >= 0:
        n_rows = flat.bin_at[parent + 1] - flat.bin_at[parent] - 1
    for p in range(n_rows):
        of_parent, of_class, to = weight[begin:], scale[flat.message_at[a] + p * n_classes :], given[p]
        if parent >= 0:
            of_parent = here[flat.bin_at[parent] - parent + p]
        for i in range(n):
            to[i] = of_parent[i] * of_class[classes[i]]
    for c in range(n_bins):
        value, of_class, to = (
            here[first + c],
            inside[flat.wide_at[a] + c * n_classes :],
            joint[first + c, begin:],
        )
        mix(given[:n_rows], flat.table[flat.table_at[a] + c * n_rows :], 1, n, value)
        for i in range(n):
            value[i] *= of_class[classes[i]]
            to[i] += value[i]


@nb.njit(cache=True, nogil=True)
def restrict(a, begin, n, flat, asked, here):  # type: ignore[no-untyped-def]
    """Leave of each bin of attribute `a` what the box asks for, as `Room.asked` has it."""
    n_ranges, classes = flat.range_at[a + 1] - flat.range_at[a], flat.class_of_block[a, begin:]
    ranges = flat.range_of_class[flat.class_at[a] :]
    for c in range(flat.bin_at[a + 1] - flat.bin_at[a] - 1):
        of_range, value = asked[flat.inverse_at[a] + c * n_ranges :], here[flat.bin_at[a] - a + c]
        for i in range(n):
            value[i] *= of_range[ranges[classes[i]]]


@nb.njit(cache=True, nogil=True)
def sort_blocks(order, weight, full, consistent, noisy, rows):  # type: ignore[no-untyped-def]
    """What is known of the blocks, in an order, into rows: consistent and noisy counts, and 1 or 0 for
    touched, full.
    """
    for i in range(len(order)):
        b = order[i]
        rows[0, i] = consistent[b]
        rows[2, i] = weight[b] > 0.0
        rows[3, i] = full[b]
        if len(noisy):
            rows[1, i] = noisy[b]


@nb.njit(cache=True, nogil=True)
def add_histogram(a, share, flat, blocks, joint, rows, is_finest, full_weight, room, out):  # type: ignore[no-untyped-def]
    """Add sums over blocks for every code of one attribute to out, (10, size) or of coarser blocks (2, size).

    share: of each code that the filter asks for. rows: from `sort_blocks`. The weight of a block in a code is
        the density of the bin there
    times the code's shape; where weights are small, sums of (w·(1 − w))^¾ are taken as a series of three
    powers of the density.
    """
    shape = np.empty(len(share))
    for code in range(len(share)):
        shape[code] = blocks.shape[blocks.code_at[a] + code] * share[code]
    three_quarters = np.sqrt(shape) * np.sqrt(np.sqrt(shape))
    for r in range(flat.range_at[a], flat.range_at[a + 1]):
        begin, end = blocks.begin[r], blocks.end[r]
        counts = rows[0, begin:end]
        if is_finest:
            add_bounds(flat.lower[r], flat.upper[r], share, rows[:, begin:end], out)
        for c in range(flat.first_bin[r], flat.last_bin[r]):
            low = max(flat.lower[r], flat.bin_start[flat.bin_at[a] + c])
            high = min(flat.upper[r], flat.bin_start[flat.bin_at[a] + c + 1])
            held, most = 0.0, 0.0
            for code in range(low, high):
                held += blocks.shape[blocks.code_at[a] + code]
                most = max(most, shape[code])
            density = room[0][: end - begin]
            largest = take_densities(
                joint[flat.bin_at[a] - a + c], blocks.order[a, begin:end], 1.0 / held, density
            )
            if most == 0.0 or largest == 0.0:
                continue
            fitted, zeroth, first, second = series(density, counts, HEAVY / most)
            estimate, spread = (out[1], out[9]) if is_finest else (out[0], out[1])
            for code in range(low, high):
                w = shape[code]
                estimate[code] += fitted * w
                spread[code] += max(
                    0.0, three_quarters[code] * (zeroth - 0.75 * first * w - 0.09375 * second * w * w)
                )
            if is_finest:
                raw, squares, fourths = noise_sums(density, rows[1, begin:end])
                for code in range(low, high):
                    w = shape[code]
                    out[0, code] += raw * w
                    out[2, code] += squares * w * w
                    out[3, code] += fourths * w * w * w * w
                    out[4, code] = max(out[4, code], largest * w)
            if largest * most > HEAVY:
                n = only_heavy(density, counts, HEAVY / most, room[1], room[2])
                for code in range(low, high):
                    spread[code] += heavy_spread(room[1][:n], room[2][:n], shape[code], full_weight)


@nb.njit(cache=True, nogil=True)
def add_bounds(lower, upper, share, rows, out):  # type: ignore[no-untyped-def]
    """Noisy counts and numbers of blocks that the filter touches, and covers, to the codes of their range
    that it asks for.
    """
    touched_sum, n_touched, full_sum, n_full = 0.0, 0.0, 0.0, 0.0
    for i in range(rows.shape[1]):
        touched_sum += rows[1, i] * rows[2, i]
        n_touched += rows[2, i]
        full_sum += rows[1, i] * rows[3, i]
        n_full += rows[3, i]
    for code in range(lower, upper):
        if share[code] > 0.0:
            out[7, code] += touched_sum
            out[8, code] += n_touched
        if upper - lower == 1:  # a block of several codes is not inside one of them
            out[5, code] += full_sum
            out[6, code] += n_full


@nb.njit(cache=True, nogil=True, fastmath=_SUMS)
def take_densities(joint, order, unit, density):  # type: ignore[no-untyped-def]
    """Densities of these blocks in one bin, into density; the largest of them."""
    largest = 0.0
    for i in range(len(order)):
        density[i] = joint[order[i]] * unit
        largest = max(largest, density[i])
    return largest


@nb.njit(cache=True, nogil=True, fastmath=_SUMS)
def series(density, counts, heavy_from):  # type: ignore[no-untyped-def]
    """Σ count · density; and of densities that are not heavy, Σ count · density^¾ · density^i for i = 0, 1,
    2.
    """
    fitted, zeroth, first, second = 0.0, 0.0, 0.0, 0.0
    for i in range(len(density)):
        d, n = density[i], counts[i]
        light = n * math.sqrt(d) * math.sqrt(math.sqrt(d)) if d <= heavy_from else 0.0
        fitted += n * d
        zeroth += light
        first += light * d
        second += light * d * d
    return fitted, zeroth, first, second


@nb.njit(cache=True, nogil=True, fastmath=_SUMS)
def noise_sums(density, noisy):  # type: ignore[no-untyped-def]
    """Σ noisy count · density, Σ density² and Σ density⁴."""
    raw, squares, fourths = 0.0, 0.0, 0.0
    for i in range(len(density)):
        square = density[i] * density[i]
        raw += noisy[i] * density[i]
        squares += square
        fourths += square * square
    return raw, squares, fourths


@nb.njit(cache=True, nogil=True)
def only_heavy(density, counts, heavy_from, densities_found, counts_found):  # type: ignore[no-untyped-def]
    """Densities that are heavy, with their counts where these are above 0; how many there are."""
    n = 0
    for i in range(len(density)):
        if density[i] > heavy_from and counts[i] > 0.0:
            densities_found[n] = density[i]
            counts_found[n] = counts[i]
            n += 1
    return n


@nb.njit(cache=True, nogil=True, fastmath=_SUMS)
def heavy_spread(density, counts, shape, full_weight):  # type: ignore[no-untyped-def]
    """Σ count · (w·(1 − w))^¾ for weights w = density · shape up to `full_weight`."""
    spread = 0.0
    for i in range(len(density)):
        w = density[i] * shape
        variance = max(w * (1.0 - w), 0.0) if w <= full_weight else 0.0
        spread += counts[i] * math.sqrt(variance) * math.sqrt(math.sqrt(variance))
    return spread
