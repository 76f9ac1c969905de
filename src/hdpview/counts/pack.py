"""Cells packed into a few 64-bit words, so that the database groups by one to three keys instead of by each
attribute.

A word is a number in mixed radix: for attributes of sizes 3, 5 and 2 the cell (2, 4, 1) is 2 + 3·(4 + 5·1).
"""

from __future__ import annotations

from collections.abc import Sequence

import ibis

from hdpview.counts.unpack import words_of
from hdpview.counts.values import Column, exact_int


def pack(codes: ibis.Table, sizes: Sequence[int]) -> ibis.Table:
    """Columns `code_0`, `code_1`, … as int64 columns `word_0`, …, see `words_of`. Others come along."""
    along = [name for name in codes.columns if not name.startswith("code_")]
    return codes.select(
        *along, **{f"word_{w}": _word(codes, run, sizes) for w, run in enumerate(words_of(sizes))}
    )


def _word(codes: ibis.Table, run: range, sizes: Sequence[int]) -> Column:
    word, stride = codes[f"code_{run[0]}"], 1
    for position in run[1:]:
        stride *= sizes[position - 1]
        word = word + codes[f"code_{position}"] * exact_int(stride)
    return word
