"""Small domains whose every cell can be written out."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts
from hdpview.domain import Integer, Schema

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
seeds = st.integers(0, 2**32 - 1)
FEW = settings(max_examples=40, deadline=None)


def schema_of(sizes: tuple[int, ...]) -> Schema:
    return Schema([Integer(name=f"a{i}", min=0, max=size - 1) for i, size in enumerate(sizes)])


def counts_of(dense: Ints) -> SparseCounts:
    cells = np.argwhere(dense > 0)
    return SparseCounts(
        schema_of(dense.shape), np.ascontiguousarray(cells, dtype=np.uint8), dense[tuple(cells.T)]
    )


def inside(lower: NDArray[np.int32], upper: NDArray[np.int32]) -> tuple[slice, ...]:
    return tuple(map(slice, lower.tolist(), upper.tolist()))
