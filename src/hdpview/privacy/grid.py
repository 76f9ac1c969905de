"""Scores without rounding: on a grid, doubles add and subtract exactly, so one record moves a score by what
the proof says and no more.

Where doubles round, a score can move by more than its sensitivity: by a little in large tables, by hundreds
where counts near 2⁶⁰ stand in a table that was aggregated. So public numbers are rounded down to a grid, and
counts held at a bound; both are chosen from released numbers, such that all that comes of them fits into the
53 bits of a double.
"""

from __future__ import annotations

import math
from typing import NamedTuple

_BITS = 52  # of a double's 53: a sum of two numbers below the bound still fits
_SPARE_RECORDS = 2.0**16  # so that small tables, whose released number says little, stay below the bound
_MOST_BITS_OF_COUNTS = 42  # at least ten bits of every score are behind the point


class Grid(NamedTuple):
    """steps: to one record, a power of two; public numbers are multiples of 1/steps. most: where counts are
    held, a power of two.
    """

    steps: float
    most: float


def grid_for(noisy_total: float, n_terms: int = 1) -> Grid:
    """The finest grid for sums of `n_terms` counts in a table of about so many records: most · n_terms ·
    steps ≤ 2⁵². [P9]

    Four times the released number of records, and a few more, is far beyond what any count can be but for
    noise of no likelihood. Privacy does not rest on it: what lies above is held at the bound, which brings no
    two tables further apart.
    """
    bits = min(_MOST_BITS_OF_COUNTS, math.ceil(math.log2(4 * max(1.0, noisy_total) + _SPARE_RECORDS)))
    of_terms = math.ceil(math.log2(max(1, n_terms)))
    return Grid(steps=2.0 ** max(0, _BITS - of_terms - bits), most=2.0 ** min(bits, _BITS - of_terms))
