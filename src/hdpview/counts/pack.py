"""Cells packed into a few 64-bit words, so that the database groups by one to three keys instead of by each attribute.

A word is a number in mixed radix: for attributes of sizes 3, 5 and 2 the cell (2, 4, 1) is 2 + 3·(4 + 5·1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import ibis
import numpy as np
from numpy.typing import NDArray

from hdpview.counts.sparse import Codes
from hdpview.counts.values import Column, exact_int

_WORD_CELLS = 2**63 - 1  # a word is a signed 64-bit number, the widest key that every database has


def words_of(sizes: Sequence[int]) -> list[range]:
    """Which attributes share a word: runs of positions, as long as the product of their sizes fits."""
    runs: list[range] = []
    start, cells = 0, 1
    for position, size in enumerate(sizes):
        if cells * size > _WORD_CELLS:
            runs.append(range(start, position))
            start, cells = position, 1
        cells *= size
    return [*runs, range(start, len(sizes))]


def pack(codes: ibis.Table, sizes: Sequence[int]) -> ibis.Table:
    """Columns `code_0`, `code_1`, … as int64 columns `word_0`, `word_1`, …, in the order of `words_of`. Other columns come along."""
    along = [name for name in codes.columns if not name.startswith("code_")]
    return codes.select(*along, **{f"word_{w}": _word(codes, run, sizes) for w, run in enumerate(words_of(sizes))})


def _word(codes: ibis.Table, run: range, sizes: Sequence[int]) -> Column:
    word, stride = codes[f"code_{run[0]}"], 1
    for position in run[1:]:
        stride *= sizes[position - 1]
        word = word + codes[f"code_{position}"] * exact_int(stride)
    return word


def unpack(words: Sequence[NDArray[np.int64]], sizes: Sequence[int], dtype: type[np.uint8 | np.uint16]) -> Codes:
    """Codes of packed cells, shape (n_cells, n_attributes), row-major.

    words: one array of shape (n_cells,) per word, as `words_of(sizes)` splits the attributes.
    """
    codes = cast("Codes", np.empty((len(words[0]), len(sizes)), dtype=dtype))
    for word, run in zip(words, words_of(sizes), strict=True):
        rest = word.view(np.uint64)  # never negative; unsigned division needs no correction of signs
        for position in run:
            quotient = rest // np.uint64(sizes[position])
            codes[:, position] = rest - quotient * np.uint64(sizes[position])
            rest = quotient
    return codes
