"""Small domains whose every cell can be written out."""

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from hdpview.counts.sparse import SparseCounts, code_type
from hdpview.domain import Integer, Schema
from hdpview.methods import Method
from hdpview.methods.protocol import Release, release_with
from hdpview.partition.local import LocalEngine
from hdpview.privacy.mechanism import Charge
from hdpview.privacy.randomness import Randomness

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
seeds = st.integers(0, 2**32 - 1)


def schema_of(sizes: tuple[int, ...]) -> Schema:
    return Schema([Integer(name=f"a{i}", min=0, max=size - 1) for i, size in enumerate(sizes)])


def counts_of(dense: Ints) -> SparseCounts:
    schema, cells = schema_of(dense.shape), np.argwhere(dense > 0)
    codes = np.ascontiguousarray(cells, dtype=code_type(schema))
    return SparseCounts(schema, codes, dense[tuple(cells.T)].astype(np.int64))


def tensor_of(codes: NDArray[np.integer], sizes: tuple[int, ...]) -> Ints:
    """Records per cell. codes: of each record, shape (n, n_attributes)."""
    tensor = np.zeros(sizes, np.int64)
    np.add.at(tensor, tuple(codes.T.astype(np.int64)), 1)
    return tensor


def released(
    method: Method, dense: Ints, epsilon: Fraction | int, key: bytes
) -> tuple[Release, tuple[Charge, ...]]:
    randomness = Randomness.from_test_key(key)
    return release_with(method, counts_of(dense), Fraction(epsilon), randomness, LocalEngine(1))
