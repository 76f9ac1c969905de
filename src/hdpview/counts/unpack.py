"""Cells from the database, back as codes. Workers of a cluster need this and no database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint8] | NDArray[np.uint16]

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


def unpack(
    words: Sequence[NDArray[np.int64]], sizes: Sequence[int], dtype: type[np.uint8 | np.uint16]
) -> Codes:
    """Codes of packed cells, shape (n_cells, n_attributes), row-major.

    words: one array of shape (n_cells,) per word, as `words_of(sizes)` splits the attributes.
    """
    codes = cast("Codes", np.empty((len(words[0]), len(sizes)), dtype=dtype))
    unpack_into(list(codes.T), words, sizes)
    return codes


def unpack_into(
    columns: Sequence[NDArray[Any]], words: Sequence[NDArray[np.int64]], sizes: Sequence[int]
) -> None:
    """Write the codes of packed cells into one column per attribute."""
    for word, run in zip(words, words_of(sizes), strict=True):
        rest = word.view(np.uint64)  # never negative; unsigned division needs no correction of signs
        for position in run[:-1]:
            quotient = rest // np.uint64(sizes[position])
            columns[position][:] = rest - quotient * np.uint64(sizes[position])
            rest = quotient
        columns[run[-1]][:] = rest
