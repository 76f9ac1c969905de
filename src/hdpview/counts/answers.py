"""True answers, for measuring how far a view's are from them. Exact, so for benchmarks and invented data
alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts
from hdpview.jit import numba as nb

Ints = NDArray[np.int64]


def exact_answers(counts: SparseCounts, attribute: Ints, lower: Ints, upper: Ints) -> NDArray[np.float64]:
    """Records in each box: half-open ranges of codes on k attributes, shape (n, k) each. Returns shape
    (n,).
    """
    by_attribute = np.ascontiguousarray(counts.exact_codes.T)
    found: NDArray[np.float64] = _exact_answers(by_attribute, counts.exact_counts, attribute, lower, upper)
    return found


@nb.njit(cache=True, nogil=True)
def _exact_answers(codes, counts, attribute, lower, upper):  # type: ignore[no-untyped-def]
    found = np.zeros(len(attribute))
    inside = np.empty(len(counts), np.bool_)
    for q in range(len(attribute)):
        inside[:] = True
        for j in range(attribute.shape[1]):
            column = codes[attribute[q, j]]
            for i in range(len(counts)):
                inside[i] &= (column[i] >= lower[q, j]) & (column[i] < upper[q, j])
        total = 0
        for i in range(len(counts)):
            if inside[i]:
                total += counts[i]
        found[q] = total
    return found
